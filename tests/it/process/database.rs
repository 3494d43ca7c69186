//! What the process does with its database while it works: the log's size (C69), transactions beside attempts (C65), the
//! purge under load (C72), a lock of somebody else (C57).

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Integer};
use serde_json::json;

use super::SOON;
use super::ingest::Ingest;
use crate::support::client::KEY;
use crate::support::receiver::{Gate, Receiver, Reply, Tarpit};
use crate::support::server::{Options, Server, alone, beside_others, text, wait_for};

fn beside(server: &Server) -> SqliteConnection {
    let mut conn = SqliteConnection::establish(&server.database().to_string_lossy()).expect("the database");
    conn.batch_execute("PRAGMA busy_timeout = 0").expect("a setting");
    conn
}

/// C65: somebody else gets the only right to write, and finds no snapshot that is still read, while 320 attempts hang.
#[test]
fn c65_no_transaction_is_open_while_attempts_are_on_the_wire() {
    #[derive(QueryableByName)]
    struct Checkpoint {
        #[diesel(sql_type = Integer)]
        busy: i32,
    }
    let _machine = beside_others();
    let tarpit = Tarpit::start();
    let server = Server::start(Options::default());
    let endpoints: Vec<String> = (0..20)
        .map(|n| {
            let url = format!("http://{}/{n}", tarpit.address);
            server.endpoint(json!({"url": url, "policy": {"timeout": "60s", "auto_disable": null}}))
        })
        .collect();
    for n in 0..16 {
        server.event(&format!("e{n}"), "a.b");
    }
    let all_hang =
        || endpoints.iter().all(|endpoint| server.status(endpoint)["queue"]["in_flight"] == 16).then_some(());
    wait_for("all hang", SOON, all_hang);
    let mut conn = beside(&server);
    // The writer may be at work for a moment, the readers too; an attempt hangs for a minute.
    wait_for("the right to write", SOON, || conn.batch_execute("BEGIN IMMEDIATE; COMMIT").ok());
    wait_for("no snapshot is held", SOON, || {
        let checkpoint: QueryResult<Checkpoint> =
            diesel::sql_query("PRAGMA wal_checkpoint(TRUNCATE)").get_result(&mut conn);
        checkpoint.ok().filter(|checkpoint| checkpoint.busy == 0).map(drop)
    });
    server.event("beside", "a.b");
    assert_eq!(all_hang(), Some(()), "nothing has ended meanwhile");
}

/// Written while the log is watched: 200 events of 1 MB.
const EVENTS: usize = 200;
const MEGABYTE: usize = 1_000_000;
/// The log is begun anew at 64 MiB, or as soon after as nobody reads for a moment.
const LONGEST: u64 = 128 << 20;

/// Asks for an event and reads nothing of the answer.
fn stalled(server: &Server, event: &str) -> TcpStream {
    let mut stream = TcpStream::connect(server.address()).expect("a connection");
    let request = format!("GET /api/v1/webhooks/events/{event} HTTP/1.1\r\nHost: x\r\nX-API-Key: {KEY}\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("written");
    stream
}

#[test]
fn c69_the_log_stays_short_while_slow_clients_read() {
    let _machine = alone();
    let server = Server::start(Options::default());
    let log = server.database().with_extension("db-wal");
    let (done, longest) = (AtomicBool::new(false), AtomicU64::new(0));
    let (mut streams, data) = (Vec::new(), "x".repeat(MEGABYTE));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::SeqCst) {
                let length = fs::metadata(&log).map_or(0, |log| log.len());
                longest.fetch_max(length, Ordering::SeqCst);
                thread::sleep(Duration::from_millis(5));
            }
        });
        // Somebody pages from the first page on, again and again.
        scope.spawn(|| {
            let (mut client, mut cursor) = (server.client(), String::new());
            while !done.load(Ordering::SeqCst) {
                let page = client.send("GET", &format!("/events?limit=2{cursor}"), b"").expect("an answer").json(200);
                cursor = page["next_cursor"].as_str().map(|next| format!("&cursor={next}")).unwrap_or_default();
                thread::sleep(Duration::from_millis(5));
            }
        });
        for batch in 0..EVENTS / 5 {
            let events: Vec<_> =
                (0..5).map(|n| json!({"id": format!("e{batch}-{n}"), "type": "a", "data": data})).collect();
            server.post("/events/batch", &json!({"events": events}), 202);
            // Others have an answer waiting that is too long for the buffers between.
            if batch % 5 == 0 {
                streams.push(stalled(&server, &format!("e{batch}-0")));
            }
        }
        done.store(true, Ordering::SeqCst);
    });
    let longest = longest.load(Ordering::SeqCst);
    let database = fs::metadata(server.database()).expect("the database").len();
    println!("the log had {} MB at most, the database has {} MB", longest / 1_000_000, database / 1_000_000);
    assert!(longest < LONGEST, "{longest}");
    assert!(database > longest, "most of it was copied back meanwhile: {database}");
    drop(streams);
}

const OLD: usize = 6_000;

fn count(conn: &mut SqliteConnection, what: &str) -> i64 {
    #[derive(QueryableByName)]
    struct Count {
        #[diesel(sql_type = BigInt)]
        count: i64,
    }
    let query = format!("SELECT count(*) AS count FROM {what}");
    let found: Count = diesel::sql_query(query).get_result(conn).expect("a count");
    found.count
}

/// After forty days, what is past its time goes while events come in.
#[test]
fn c72_a_purge_under_load_takes_what_is_past_its_time_and_nothing_else() {
    let _machine = alone();
    let receiver = Receiver::start(|arrival| match arrival.path.as_str() {
        "/hangs" => Reply::Hang,
        "/fails" => Reply::Answer(500),
        _ => Reply::Answer(200),
    });
    let mut server = Server::start(Options::default().with(&["--drain-timeout", "100ms"]));
    let hangs = json!({"timeout": "60s", "auto_disable": null});
    let fails = json!({"schedule": {"ladder": []}, "auto_disable": null, "retention": {"dead_letters": "90d"}});
    let old = server.endpoint(json!({"url": receiver.url("/well"), "event_types": ["old", "live"]}));
    let waits = server.endpoint(
        json!({"url": receiver.url("/hangs"), "event_types": ["waits"], "policy": hangs, "max_in_flight": 2}),
    );
    let dead = server.endpoint(json!({"url": receiver.url("/fails"), "event_types": ["dies"], "policy": fails}));
    for batch in 0..OLD / 500 {
        let events: Vec<_> =
            (0..500).map(|n| json!({"id": format!("o{batch}-{n}"), "type": "old", "data": n})).collect();
        server.post("/events/batch", &json!({"events": events}), 202);
    }
    let first = json!({"type": "nobody", "data": 1});
    server.client().keyed("long-ago", "/events", &first).expect("an answer").json(202);
    (0..100).for_each(|n| drop(server.event(&format!("w{n}"), "waits")));
    (0..10).for_each(|n| drop(server.event(&format!("d{n}"), "dies")));
    wait_for("all that can has ended", SOON, || {
        let queue = |endpoint: &str| server.status(endpoint)["queue"].clone();
        (queue(&old)["pending"] == 0 && queue(&dead)["dead"] == 10).then_some(())
    });
    server.terminate();
    server.wait_for_exit(SOON);

    // As if it had been down for so long: engine time goes on from where its anchor says (S25).
    let later = format!("UPDATE meta SET clock_engine = clock_engine + {}", 40 * 86_400_000_000_i64);
    assert_eq!(diesel::sql_query(later).execute(&mut beside(&server)), Ok(1));
    server.restart();
    let (restarted, ingest) = (Instant::now(), Ingest::start(&server, "purge"));
    let kept = server.client().keyed("just-now", "/events", &first).expect("an answer");
    let mut conn = beside(&server);
    wait_for("what is past its time goes", Duration::from_secs(60), || {
        (count(&mut conn, "events WHERE type = 'old'") == 0).then_some(())
    });
    let took = restarted.elapsed();
    let (accepted, p99) = ingest.stop();
    println!("{OLD} events purged in {took:?}, {accepted} accepted meanwhile, p99 {p99:?}");
    assert!(accepted > 15 && p99 < took / 2, "others come between the slices: {accepted}, p99 {p99:?} of {took:?}");
    // Its deliveries and attempts went with it; what waits, is on the wire or can be requeued stays.
    assert_eq!(count(&mut conn, "deliveries WHERE event NOT IN (SELECT no FROM events)"), 0);
    assert_eq!(count(&mut conn, "attempts WHERE delivery NOT IN (SELECT no FROM deliveries)"), 0);
    let queue = server.status(&waits)["queue"].clone();
    assert_eq!((&queue["pending"], &queue["in_flight"]), (&json!(100), &json!(2)));
    assert_eq!(server.all(&format!("/deliveries?endpoint_id={waits}&state=pending")).len(), 100);
    assert_eq!((server.all("/dlq").len(), server.status(&dead)["queue"]["dead"].clone()), (10, json!(10)));
    // An answer is remembered for a day: the first is forgotten, so its key may be used for something else.
    let again = server.client().keyed("just-now", "/events", &first).expect("an answer");
    assert_eq!((again.status, again.body), (202, kept.body));
    let other = json!({"type": "nobody", "data": "other"});
    server.client().keyed("long-ago", "/events", &other).expect("an answer").json(202);
}

/// C57: longer than the writer's patience with a lock, so that its transactions fail.
#[test]
fn c57_a_database_that_is_locked_for_a_while_confirms_nothing_and_loses_nothing() {
    let _machine = beside_others();
    let gate = Gate::default();
    let receiver = {
        let gate = gate.clone();
        Receiver::start(move |arrival| {
            if arrival.event == "before" {
                gate.pass();
            }
            Reply::Answer(200)
        })
    };
    let server = Server::start(Options::default());
    server.endpoint(json!({"url": receiver.url("/"), "policy": {"timeout": "60s"}}));
    let before = server.event("before", "a.b").remove(0);
    receiver.wait("it is on the wire", SOON, |ledger| ledger.len() == 1);
    let mut conn = beside(&server);
    wait_for("the lock", SOON, || conn.batch_execute("BEGIN IMMEDIATE").ok());
    gate.open();
    // The answer cannot be recorded, and nothing is accepted that is not stored.
    let event = json!({"id": "during", "type": "a.b", "data": 1});
    let refused = server.post("/events", &event, 503);
    assert_eq!(refused["code"], "unavailable");
    let other = json!({"id": "keyed", "type": "a.b", "data": 1});
    assert_eq!(server.client().keyed("again", "/events", &other).expect("an answer").status, 503);
    wait_for("it says that it is not ready", SOON, || {
        (server.call("GET", "/readyz", None).status == 503).then_some(())
    });
    assert_eq!(server.call("GET", "/healthz", None).status, 200);
    assert_eq!(receiver.count(), 1, "what cannot be recorded is not sent again");
    conn.batch_execute("ROLLBACK").expect("the lock is let go");
    wait_for("it is ready again, by itself", SOON, || {
        (server.call("GET", "/readyz", None).status == 200).then_some(())
    });
    // C73: a failure is not remembered under the key.
    let keyed = server.client().keyed("again", "/events", &other).expect("an answer");
    assert!(!keyed.head.to_ascii_lowercase().contains("idempotency-replayed"), "{}", keyed.head);
    let keyed = text(&keyed.json(202)["deliveries"][0]["id"]);
    // Not confirmed, so the caller asks again, and it is one event.
    let during = server.event("during", "a.b").remove(0);
    for id in [&before, &during, &keyed] {
        let found = wait_for("it is recorded", SOON, || {
            Some(server.delivery(id)).filter(|found| found["state"] == "delivered")
        });
        assert_eq!(found["attempts_total"], 1);
    }
    assert_eq!(
        receiver.events().into_iter().collect::<BTreeSet<_>>(),
        ["before", "during", "keyed"].map(String::from).into()
    );
    assert_eq!((receiver.count(), server.all("/events").len()), (3, 3));
}
