//! Events in the order of their changes (S24), where their deliveries' rows come late or go with their endpoint (S27).

use futures_util::future::join;
use posthaste::clock::Clock;
use posthaste::domain::ids::{DeliveryNo, EndpointNo};
use posthaste::domain::time::Timestamp;
use posthaste::store::DEFAULT_TENANT;
use posthaste::store::accept::Accept;
use posthaste::store::change::{CreateEndpoint, DeleteEndpoint, RemoveDeleted, WriteRows};
use posthaste::store::list::{EventFilter, From, ListEvents, Page};
use posthaste::store::sqlite::{Readers, Writer, WriterHandle};

use crate::support::stored::{Idle, endpoint_row, idle_writer, new_event};

/// A store on one thread: sentences that are queued together are of one transaction.
struct Bench {
    writer: WriterHandle,
    readers: Readers,
    clock: Clock,
    _folder: tempfile::TempDir,
}

impl Bench {
    fn new() -> (Bench, Writer) {
        let Idle { writer, handle, clock, path, folder } = idle_writer(1 << 20);
        let readers = Readers::inline(&path).expect("a reader");
        (Bench { writer: handle, readers, clock, _folder: folder }, writer)
    }

    /// An endpoint that wants this type.
    async fn endpoint(&self, wants: &str) -> EndpointNo {
        let row = endpoint_row(format!("ep_{}", self.clock.random_bits()), &format!("[\"{wants}\"]"));
        EndpointNo(self.writer.write(CreateEndpoint(row)).await.expect("an endpoint").no)
    }

    /// Accepts an event of this id and type.
    async fn accept(&self, id: &str, kind: &str) {
        let event = new_event(id, kind, self.clock.now());
        let accepted =
            self.writer.write(Accept { tenant: DEFAULT_TENANT, events: vec![event], max_deliveries: usize::MAX }).await;
        assert!(accepted.expect("a commit").is_ok());
    }

    async fn delete(&self, endpoint: EndpointNo) {
        let delete = DeleteEndpoint { endpoint, tenant: DEFAULT_TENANT, now: self.clock.now() };
        assert_eq!(self.writer.write(delete).await, Ok(true));
    }

    /// All from a place on, and the place where it ends. Every change is later than the one before, and pages of any size
    /// have the same.
    async fn walk(&self, at: Place) -> (Vec<String>, Place) {
        let found = self.walk_by(at, 1).await;
        assert_eq!(found, self.walk_by(at, 10).await);
        found
    }

    async fn walk_by(&self, mut at: Place, limit: i64) -> (Vec<String>, Place) {
        let mut ids = Vec::new();
        loop {
            let page = Page { tenant: DEFAULT_TENANT, from: From::Changed { after: at.0, no: at.1 }, limit };
            let list = ListEvents { page, filter: EventFilter::default() };
            let listed = self.readers.ask(list).await.expect("a page");
            for event in listed.rows {
                let place = (event.updated_at, event.no);
                assert!(place > at, "{} comes at {place:?}, after {at:?}", event.id);
                at = place;
                ids.push(event.id);
            }
            if !listed.more {
                return (ids, at);
            }
        }
    }
}

/// A change, and the number of the event.
type Place = (Timestamp, i64);

const BEGINNING: Place = (Timestamp::MIN, 0);

#[tokio::test(flavor = "current_thread")]
async fn s24_events_come_by_whatever_has_become_of_their_deliveries_rows() {
    let (bench, writer) = Bench::new();
    let walking = async move {
        let (first, second) = (bench.endpoint("*").await, bench.endpoint("b").await);
        bench.accept("one", "a").await;
        bench.accept("two", "b").await;
        bench.delete(first).await;
        bench.accept("three", "a").await;
        let (ids, at) = bench.walk(BEGINNING).await;
        assert_eq!(ids, ["one", "two", "three"], "two share an instant, the third is for nobody");

        // In one transaction a delivery of the second event goes, and its other one gets its row.
        let rest = WriteRows { first: DeliveryNo(0), last: DeliveryNo(i64::MAX) };
        let (removed, written) = join(bench.writer.write(RemoveDeleted), bench.writer.write(rest)).await;
        assert_eq!((removed, written), (Ok(true), Ok(false)));
        let (ids, at) = bench.walk(at).await;
        assert_eq!(ids, ["one", "two"], "each once");
        assert_eq!(bench.walk(BEGINNING).await, (vec!["three".into(), "one".into(), "two".into()], at));

        bench.delete(second).await;
        while bench.writer.write(RemoveDeleted).await == Ok(true) {}
        let (ids, at) = bench.walk(at).await;
        assert_eq!(ids, ["two"]);
        assert_eq!(bench.walk(BEGINNING).await, (vec!["three".into(), "one".into(), "two".into()], at));
        bench.writer.close();
    };
    join(writer.run_here(), walking).await;
}
