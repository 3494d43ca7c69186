//! How SQLite answers what the store asks, on a store without statistics: by an index whose size does not matter. Every
//! statement is taken from the connection as diesel sends it, so this holds the queries and the migrations together.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use diesel::connection::{Instrumentation, InstrumentationEvent, set_default_instrumentation};
use diesel::prelude::*;
use diesel::sql_types::{Integer, Text};
use posthaste::clock::Clock;
use posthaste::domain::content::ByteBudget;
use posthaste::domain::delivery::{DeadReason, State};
use posthaste::domain::event_type::EventType;
use posthaste::domain::ids::{DeliveryNo, EndpointNo, TenantNo};
use posthaste::domain::time::Timestamp;
use posthaste::store::change::*;
use posthaste::store::hint::NoHints;
use posthaste::store::list::*;
use posthaste::store::load::{LoadLines, LoadWindow, NeededBy};
use posthaste::store::sentence::{Question, Sentence};
use posthaste::store::sqlite::{Conn, Readers, Writer, WriterHandle, begin, open};

thread_local! {
    static LISTENS: Cell<bool> = const { Cell::new(false) };
    static HEARD: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Hears every statement of the threads that want it.
fn ear() -> Option<Box<dyn Instrumentation>> {
    Some(Box::new(|event: InstrumentationEvent<'_>| {
        if let InstrumentationEvent::StartQuery { query, .. } = event
            && LISTENS.get()
        {
            HEARD.with_borrow_mut(|heard| heard.push(query.to_string()));
        }
    }))
}

#[derive(QueryableByName)]
struct Step {
    #[diesel(sql_type = Text)]
    detail: String,
    #[allow(dead_code)]
    #[diesel(sql_type = Integer)]
    id: i32,
}

/// A store on one thread, and a connection to ask for plans.
struct Bench {
    readers: Readers,
    writer: WriterHandle,
    planner: SqliteConnection,
    _folder: tempfile::TempDir,
}

/// Tables whose size is the history's.
const LARGE: [&str; 7] =
    ["deliveries", "events", "event_changes", "attempts", "idempotency", "endpoint_deliveries", "endpoint_lines"];

impl Bench {
    fn new() -> (Bench, Writer) {
        set_default_instrumentation(ear).unwrap();
        LISTENS.set(true);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("test.db").to_string_lossy().into_owned();
        let mut opened = open(&path).unwrap();
        let clock = Clock::resume(None, Timestamp::MIN, 1.0);
        begin(&mut opened.conn, clock.anchor(), Some(Vec::new())).unwrap();
        let (budget, sink) = (ByteBudget::new(1 << 20), Arc::new(NoHints));
        let (writer, handle) =
            Writer::new(opened.conn, clock, opened.counters, Timestamp::MIN, budget, sink, 1 << 20).unwrap();
        let readers = Readers::inline(&path).unwrap();
        let planner = SqliteConnection::establish(&path).unwrap();
        (Bench { readers, writer: handle, planner, _folder: folder }, writer)
    }

    async fn question<Q: Question<Conn>>(&mut self, name: &str, question: Q, wanted: &[&str]) {
        HEARD.take();
        assert!(self.readers.ask(question).await.is_ok(), "{name}");
        self.check(name, wanted);
    }

    async fn sentence<S: Sentence<Conn>>(&mut self, name: &str, sentence: S, wanted: &[&str]) {
        HEARD.take();
        assert!(self.writer.write(sentence).await.is_ok(), "{name}");
        self.check(name, wanted);
    }

    /// Compares what the plans say of the large tables. Nothing may be read to its end.
    fn check(&mut self, name: &str, wanted: &[&str]) {
        let statements = HEARD.take();
        let mut found = Vec::new();
        let looks = |text: &&String| ["SELECT", "UPDATE", "INSERT", "DELETE"].iter().any(|word| text.starts_with(word));
        for statement in statements.iter().filter(looks) {
            let plan = diesel::sql_query(format!("EXPLAIN QUERY PLAN {statement}")).load::<Step>(&mut self.planner);
            let plan = plan.unwrap_or_else(|error| panic!("{name}: {error} in {statement}"));
            for step in plan.iter().map(|step| step.detail.as_str()) {
                let table = step.split(' ').nth(1).unwrap_or_default();
                let table = match table {
                    "d" | "x" => "deliveries",
                    "l" => "endpoint_lines",
                    _ => table,
                };
                if LARGE.contains(&table) {
                    assert!(!step.starts_with("SCAN"), "{name} reads everything: {step}\n{statement}");
                    let by_number = step.contains("PRIMARY KEY (rowid=?)") && !step.starts_with("SEARCH deliveries ");
                    if !by_number {
                        found.push(step.replace(" COVERING", ""));
                    }
                } else if step.contains("TEMP B-TREE") {
                    found.push(step.to_owned());
                }
            }
        }
        assert_eq!(
            found,
            wanted,
            "{name}
{}",
            statements.join(
                "
"
            )
        );
    }
}

const TENANT: TenantNo = TenantNo(1);

fn page(from: From) -> Page {
    Page { tenant: TENANT, from, limit: 50 }
}

const NEWEST: From = From::Newest { before: Some(9) };
const CHANGED: From = From::Changed { after: Timestamp::from_micros(5), no: 7 };

fn deliveries(from: From, filter: DeliveryFilter) -> ListDeliveries {
    ListDeliveries { page: page(from), filter }
}

fn events(from: From, filter: EventFilter) -> ListEvents {
    ListEvents { page: page(from), filter }
}

#[tokio::test(flavor = "current_thread")]
async fn every_question_has_its_index() {
    let (mut bench, writer) = Bench::new();
    let writing = writer.run_here();
    let asking = async move {
        ask_all(&mut bench).await;
        write_all(&mut bench).await;
        bench.writer.close();
    };
    futures_util::future::join(writing, asking).await;
}

/// What most questions need.
const LAST: &str = "SEARCH deliveries USING INTEGER PRIMARY KEY (rowid<?)";
const RANGE: &str = "SEARCH deliveries USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)";
/// A tenant's deliveries, event by event.
const BY_TENANT: [&str; 3] = [LAST, EVENTS, RANGE];
const WITHIN: &str = "SEARCH endpoint_deliveries USING PRIMARY KEY (endpoint=? AND last>?)";
const BELOW: &str = "SEARCH endpoint_deliveries USING PRIMARY KEY (endpoint=? AND last<?)";
const BY_CHANGE: &str = "SEARCH deliveries USING INDEX deliveries_changes (tenant=? AND updated_at>?)";
const DEAD: &str = "SEARCH deliveries USING INDEX deliveries_dead (tenant=? AND no<?)";
const WAITING: &str = "SEARCH endpoint_lines USING PRIMARY KEY (endpoint=?)";
/// What is not yet in the indexes by endpoint.
const UNFILED: &str = RANGE;
/// The row of an entry in an index by endpoint.
const ROW: &str = "SEARCH deliveries USING INTEGER PRIMARY KEY (rowid=?)";
/// Of the few that wait, or of the endpoints.
const SORTED: &str = "USE TEMP B-TREE FOR ORDER BY";
const EVENTS: &str = "SEARCH events USING INDEX events_tenant (tenant=? AND no<?)";
const EVENTS_AMONG: &str = "SEARCH events USING INDEX events_tenant (tenant=? AND no=? AND rowid<?)";
const ITS_DELIVERIES: &str = "SEARCH d USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)";

async fn ask_all(bench: &mut Bench) {
    // An endpoint with one delivery, number 4.
    let block = "INSERT INTO endpoint_deliveries (endpoint, last, numbers) VALUES (3, 4, x'04')";
    diesel::sql_query(block).execute(&mut bench.planner).expect("a block");
    let none = DeliveryFilter::default;
    let endpoint = Some(EndpointNo(3));
    for from in [NEWEST, From::Newest { before: None }] {
        bench.question("newest", deliveries(from, none()), &BY_TENANT).await;
        let by_state = [
            (State::Pending, &[UNFILED, WAITING, ROW, SORTED][..]),
            (State::Failed, &[UNFILED, WAITING, ROW, SORTED]),
            (State::Delivered, &BY_TENANT),
            (State::Dead, &[DEAD]),
        ];
        for (state, wanted) in by_state {
            bench.question("by state", deliveries(from, DeliveryFilter { state: Some(state), ..none() }), wanted).await;
        }
        bench
            .question(
                "endpoint's",
                deliveries(from, DeliveryFilter { endpoint, ..none() }),
                &[WITHIN, BELOW, ROW, WITHIN, BELOW],
            )
            .await;
        let dead = DeliveryFilter { endpoint, state: Some(State::Dead), ..none() };
        bench.question("endpoint's dead", deliveries(from, dead), &[DEAD]).await;
        let dlq = DeliveryFilter {
            state: Some(State::Dead),
            replayable_at: Some(Timestamp::MIN),
            dead_reason: Some(DeadReason::Exhausted),
            ..none()
        };
        bench.question("dead-letter queue", deliveries(from, dlq), &[DEAD]).await;
    }
    bench.question("changes", deliveries(CHANGED, none()), &[BY_CHANGE]).await;
    let of_event = DeliveryFilter { event_id: Some("e".into()), ..none() };
    let by_id = "SEARCH events USING INDEX events_id (tenant=? AND id=?)";
    bench.question("event's", deliveries(NEWEST, of_event), &[by_id, LAST, EVENTS, RANGE]).await;
    bench.question("one", FindDelivery { tenant: TENANT, delivery: DeliveryNo(5) }, &[ROW]).await;
    let attempts = ListAttempts { tenant: TENANT, delivery: DeliveryNo(5), before: None, limit: 50 };
    let wanted = "SEARCH attempts USING PRIMARY KEY (delivery=? AND number<?)";
    bench.question("attempts", attempts, &[wanted]).await;

    bench.question("events", events(NEWEST, EventFilter::default()), &[EVENTS]).await;
    let (later, by_own) = (
        "SEARCH x USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)",
        "SEARCH event_changes USING INDEX event_changes_order (tenant=? AND changed_at>? AND changed_at<?)",
    );
    let changed = [BY_CHANGE, later, by_own, later];
    bench.question("changed events", events(CHANGED, EventFilter::default()), &changed).await;
    let (waiting, dead) =
        (WAITING.replace("endpoint_lines U", "l U"), "SEARCH d USING INDEX deliveries_dead (tenant=?)");
    let unfiled = "SEARCH d USING INTEGER PRIMARY KEY (rowid>?)";
    let by_state = [
        (State::Pending, &[EVENTS_AMONG, &waiting, unfiled, ITS_DELIVERIES][..]),
        (State::Failed, &[EVENTS_AMONG, &waiting, unfiled, ITS_DELIVERIES]),
        (State::Delivered, &[EVENTS, ITS_DELIVERIES]),
        (State::Dead, &[EVENTS_AMONG, dead, ITS_DELIVERIES]),
    ];
    for (state, wanted) in by_state {
        let filter = EventFilter { state: Some(state), ..EventFilter::default() };
        bench.question("events by state", events(NEWEST, filter.clone()), wanted).await;
        let of_state = &wanted[1..];
        let changed = [&[BY_CHANGE], of_state, &[later, by_own], of_state, &[later]].concat();
        bench.question("changed events by state", events(CHANGED, filter), &changed).await;
    }
    bench.question("event", FindEvent { tenant: TENANT, id: "e".into(), deliveries: 100 }, &[by_id]).await;
    bench.question("its range", FindRange { tenant: TENANT, id: "e".into() }, &[by_id]).await;

    let line = "SEARCH endpoint_lines USING PRIMARY KEY (endpoint=? AND line>? AND line<?)";
    let window = LoadWindow { endpoint: EndpointNo(3), cut: 0, limit: 512 };
    for filed_through in [None, Some(DeliveryNo(4))] {
        bench.question("window", LoadLines { window, filed_through }, &[line, ROW, line, ROW]).await;
    }
    let next = NextDue { endpoint: EndpointNo(3), cut: 0, on_the_wire: Vec::new() };
    let head = "SEARCH endpoint_lines USING PRIMARY KEY (endpoint=? AND line=?)";
    bench.question("next due", next, &[head, ROW, head, ROW, head, ROW]).await;
    bench.question("needed", NeededBy { by: Timestamp::MAX, after: None, limit: 9 }, &[]).await;
    let wants = EventType::parse("a.b").ok();
    bench.question("endpoints", ListEndpoints { page: page(NEWEST), status: None, wants }, &[SORTED]).await;
}

async fn write_all(bench: &mut Bench) {
    let now = Timestamp::from_micros(5);
    for endpoint in [None, Some(EndpointNo(3))] {
        let requeue = RequeueSlice {
            tenant: TENANT,
            filter: DlqFilter { endpoint, ..DlqFilter::default() },
            after: DeliveryNo(0),
            limit: 5,
            dry_run: true,
            now,
            on_the_wire: Vec::new(),
        };
        let wanted = "SEARCH deliveries USING INDEX deliveries_dead (tenant=? AND no>?)";
        bench.sentence("requeue", requeue, &[wanted]).await;
    }
    let gone = "INSERT INTO endpoints (no, tenant, id, version, url, description, event_types, policy, max_in_flight, \
         headers, secrets, metadata, status, cut, counted_from, deleted_at, created_at, updated_at) \
         VALUES (3, 1, 'x', 1, '', '', '', '', 1, '', '', '', 'enabled', 0, 0, 1, 0, 0)";
    diesel::sql_query(gone).execute(&mut bench.planner).expect("a deleted endpoint");
    let wanted = [
        "SEARCH endpoint_lines USING PRIMARY KEY (endpoint=?)",
        "SEARCH endpoint_deliveries USING PRIMARY KEY (endpoint=?)",
        "SEARCH endpoint_deliveries USING PRIMARY KEY (endpoint=? AND last=?)",
        // The events of what goes, then what goes.
        ROW,
        "SEARCH attempts USING PRIMARY KEY (delivery=?)",
        ROW,
    ];
    bench.sentence("removal", RemoveDeleted, &wanted).await;
    let wanted = "SEARCH events USING INTEGER PRIMARY KEY (rowid>?)";
    bench.sentence("purge", PurgeEvents { received_before: now, now, after: 0 }, &[wanted]).await;
    let wanted = "SEARCH idempotency USING INDEX idempotency_age (created_at<?)";
    bench.sentence("purge old", PurgeOld { answers_before: now, notifications_before: now }, &[wanted]).await;
}
