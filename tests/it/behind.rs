//! What the store's writer does later than it commits (rows, entries by endpoint, counts), as those see it who read meanwhile.

use std::thread::JoinHandle;

use diesel::prelude::*;
use diesel::sql_types::{BigInt, Binary};
use futures_util::FutureExt;
use posthaste::clock::Clock;
use posthaste::domain::ids::EndpointNo;
use posthaste::store::accept::Accept;
use posthaste::store::change::{CreateEndpoint, DeleteEndpoint, RemoveDeleted};
use posthaste::store::list::{DeliveryFilter, EventFilter, From, ListDeliveries, ListEvents, Page};
use posthaste::store::numbers::decode;
use posthaste::store::sentence::Question;
use posthaste::store::sqlite::{Readers, WriterHandle, open};
use posthaste::store::{DEFAULT_TENANT, Store, Vault};

use crate::support::stored::{Idle, endpoint_row, idle_writer, new_event};

/// A writer on a thread of its own, and a store that asks on this one.
struct Bench {
    store: Store,
    writer: WriterHandle,
    clock: Clock,
    thread: JoinHandle<()>,
    path: String,
    _folder: tempfile::TempDir,
}

impl Bench {
    fn new() -> Bench {
        let Idle { writer, handle, clock, path, folder } = idle_writer(1 << 26);
        let thread = std::thread::spawn(move || writer.run());
        let readers = Readers::inline(&path).expect("a reader");
        let store = Store::assembled(handle.clone(), readers, Vault::new([7; 32]), clock.clone());
        Bench { store, writer: handle, clock, thread, path, _folder: folder }
    }

    async fn endpoint(&self) -> EndpointNo {
        let row = endpoint_row(format!("ep_{}", self.clock.random_bits()), "[\"*\"]");
        EndpointNo(self.store.write(CreateEndpoint(row)).await.expect("an endpoint").no)
    }

    async fn accept(&self, count: usize) {
        let now = self.clock.now();
        let event = |_| new_event(&format!("evt_{}", self.clock.random_bits()), "a", now);
        let events = (0..count).map(event).collect();
        let accepted = self
            .store
            .write(Accept { tenant: DEFAULT_TENANT, events, max_deliveries: usize::MAX })
            .await
            .expect("a commit");
        assert_eq!(accepted.expect("nothing is refused").len(), count);
    }

    fn end(self) {
        self.writer.close();
        self.thread.join().expect("it ends");
    }
}

fn page(from: From, limit: i64) -> Page {
    Page { tenant: DEFAULT_TENANT, from, limit }
}

#[derive(QueryableByName)]
struct Block {
    #[diesel(sql_type = Binary)]
    numbers: Vec<u8>,
}

#[derive(QueryableByName)]
struct Count {
    #[diesel(sql_type = BigInt)]
    count: i64,
}

#[actix_web::test]
async fn however_much_is_filed_at_once_lists_and_removals_find_it_in_portions() {
    let bench = Bench::new();
    let endpoint = bench.endpoint().await;
    const EVENTS: usize = 3_000;
    for _ in 0..EVENTS / 1_000 {
        bench.accept(1_000).await;
    }
    let filter = DeliveryFilter { endpoint: Some(endpoint), ..DeliveryFilter::default() };
    let (mut from, mut seen) = (From::Newest { before: None }, Vec::new());
    loop {
        let list = ListDeliveries { page: page(from, 700), filter: filter.clone() };
        let listed = bench.store.ask(list).await.expect("a page");
        seen.extend(listed.rows.iter().map(|row| row.no.0));
        if !listed.more {
            break;
        }
        from = listed.end;
    }
    let all: Vec<i64> = (1..=EVENTS as i64).rev().collect();
    assert_eq!(seen, all);
    let mut conn = SqliteConnection::establish(&bench.path).expect("the database");
    let blocks: Vec<Block> =
        diesel::sql_query("SELECT numbers FROM endpoint_deliveries").load(&mut conn).expect("the blocks");
    let longest = blocks.iter().map(|block| decode(&block.numbers).expect("numbers").len()).max();
    assert!(longest.is_some_and(|longest| longest <= 256), "{longest:?}");

    let delete = DeleteEndpoint { endpoint, tenant: DEFAULT_TENANT, now: bench.clock.now() };
    assert_eq!(bench.store.write(delete).await, Ok(true));
    while bench.store.write(RemoveDeleted).await.expect("a slice") {}
    for table in ["deliveries", "endpoint_deliveries", "endpoint_lines", "endpoints"] {
        let left = diesel::sql_query(format!("SELECT count(*) AS count FROM {table}")).get_result::<Count>(&mut conn);
        assert_eq!(left.expect("a count").count, 0, "{table}");
    }
    bench.end();
}

/// A list is asked for, and before it is answered another event is accepted: its deliveries wait, also without rows.
#[actix_web::test]
async fn an_event_without_rows_shows_what_waits() {
    let bench = Bench::new();
    for _ in 0..3 {
        bench.endpoint().await;
    }
    let list = ListEvents { page: page(From::Newest { before: None }, 10), filter: EventFilter::default() };
    let mut conn = open(&bench.path).expect("the database").conn;
    let mut tries = 0..100;
    loop {
        // The writer may be quicker, though it waits a quarter of a second.
        tries.next().expect("an event that is read before its rows are written");
        bench.accept(1).await;
        // As a snapshot shows it that was taken before anybody had the rows written.
        let listed = list.ask(&mut conn).now_or_never().expect("at once").expect("an answer");
        assert_eq!(listed.rows[0].counts.pending, 3);
        if listed.rows[0].without_rows == 3 {
            break;
        }
    }
    let listed = bench.store.ask(list).await.expect("an answer");
    assert_eq!((listed.rows[0].counts.pending, listed.rows[0].without_rows), (3, 0));
    bench.end();
}
