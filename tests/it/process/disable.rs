//! Disabling: by a rule with attempts in flight (S14), by a person with a long queue (S15, S16).

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use diesel::prelude::*;
use serde_json::json;

use super::SOON;
use super::ingest::Ingest;
use crate::support::receiver::{Gate, Receiver, Reply};
use crate::support::server::{Options, Server, alone, beside_others, text, wait_for};

/// Fails the first `quick` requests at once and holds the others until the gate opens; then fails them too.
fn holder(quick: usize, gate: &Gate) -> Receiver {
    let (gate, came) = (gate.clone(), AtomicUsize::new(0));
    Receiver::start(move |_| {
        if came.fetch_add(1, Ordering::SeqCst) >= quick {
            gate.pass();
        }
        Reply::Answer(503)
    })
}

/// Posts events `e0`, `e1`, … in one batch.
fn post_batch(server: &Server, kind: &str, names: impl Iterator<Item = String>) {
    let events: Vec<_> = names.map(|id| json!({"id": id, "type": kind, "data": {"n": 1}})).collect();
    server.post("/events/batch", &json!({"events": events}), 202);
}

#[test]
fn s14_fifty_failures_disable_once_with_twenty_in_flight() {
    let _machine = beside_others();
    let gate = Gate::default();
    let receiver = holder(40, &gate);
    let server = Server::start(Options::default());
    let endpoint = server.endpoint(json!({"url": receiver.url("/"), "max_in_flight": 20}));
    post_batch(&server, "a.b", (0..100).map(|n| format!("e{n}")));
    receiver.wait("40 have failed, 20 are in flight", SOON, |ledger| ledger.len() == 60);
    wait_for("the 40 are recorded", SOON, || {
        let status = server.status(&endpoint);
        (status["failure_streak"]["failures"] == 40 && status["queue"]["in_flight"] == 20).then_some(())
    });
    assert_eq!(server.status(&endpoint)["status"], "enabled");
    gate.open();
    let status = wait_for("all are recorded", SOON, || {
        Some(server.status(&endpoint)).filter(|status| status["queue"]["dead"] == 100)
    });
    assert_eq!(status["status"], "auto_disabled");
    // Each of those that failed before the fiftieth may have made room for one more.
    let sent = receiver.count();
    assert!((60..70).contains(&sent), "nothing starts after the fiftieth failure: {sent}");
    assert_eq!(status["failure_streak"]["failures"], sent, "stragglers lengthen the streak and nothing else");
    assert_eq!(status["queue"], json!({"pending": 0, "failed": 0, "in_flight": 0, "dead": 100}));
    assert_eq!(server.notices(), ["endpoint.auto_disabled"]);
    let reason = text(&server.get(&format!("/endpoints/{endpoint}"))["disabled_reason"]);
    assert!(reason.starts_with("50 failed attempts in a row since "), "{reason}");
    let dead = server.all(&format!("/deliveries?endpoint_id={endpoint}"));
    assert!(dead.iter().all(|one| one["state"] == "dead" && one["dead_reason"] == "endpoint_disabled"));
    assert_eq!(receiver.count(), sent, "nothing started afterwards");
}

#[test]
fn s14_fifty_failures_disable_once_also_with_a_kill_at_thirty() {
    let _machine = beside_others();
    let gate = Gate::default();
    let receiver = holder(30, &gate);
    let mut server = Server::start(Options::default());
    let endpoint = server.endpoint(json!({"url": receiver.url("/"), "max_in_flight": 20}));
    post_batch(&server, "a.b", (0..100).map(|n| format!("e{n}")));
    receiver.wait("30 have failed, 20 are in flight", SOON, |ledger| ledger.len() == 50);
    let streak = |server: &Server| server.status(&endpoint)["failure_streak"].clone();
    wait_for("the 30 are recorded", SOON, || (streak(&server)["failures"] == 30).then_some(()));
    let before = streak(&server);
    server.kill();
    receiver.new_life();
    server.restart();
    assert_eq!(streak(&server), before, "30 failures, since when they began");
    receiver.wait("the 20 are made again", SOON, |ledger| ledger.len() == 70);
    let ledger = receiver.ledger();
    let held: Vec<_> = ledger.iter().filter(|arrival| arrival.answer.is_none()).collect();
    let events = |life| held.iter().filter(|one| one.life == life).map(|one| &one.event).collect::<HashSet<_>>();
    assert_eq!((held.len(), events(0).len()), (40, 20));
    assert_eq!(events(0), events(1), "the same that were on the wire");
    assert!(held.iter().all(|arrival| arrival.attempt == 1), "no rung was used up");
    gate.open();
    let status = wait_for("the endpoint is disabled", SOON, || {
        Some(server.status(&endpoint)).filter(|status| status["queue"]["dead"] == 100)
    });
    // Each of those that failed before the fiftieth may have made room for one more.
    let sent = receiver.count();
    assert!((70..90).contains(&sent), "nothing starts after the fiftieth failure: {sent}");
    assert_eq!(status["status"], "auto_disabled");
    assert_eq!(status["failure_streak"]["failures"], 30 + sent - 50, "those of both lives");
    assert_eq!(status["failure_streak"]["since"], before["since"]);
    assert_eq!(server.notices(), ["endpoint.auto_disabled"]);
    assert_eq!(receiver.count(), sent);
    server.kill();
    server.restart();
    assert_eq!(server.notices(), ["endpoint.auto_disabled"], "told once");
    assert_eq!(server.status(&endpoint)["status"], "auto_disabled");
}

/// How an endpoint's rows stand: waiting, dead.
fn rows(conn: &mut SqliteConnection, endpoint: &str) -> (i64, i64) {
    #[derive(QueryableByName)]
    struct Count {
        #[diesel(sql_type = diesel::sql_types::BigInt)]
        waiting: i64,
        #[diesel(sql_type = diesel::sql_types::BigInt)]
        dead: i64,
    }
    let query = format!(
        "SELECT count(*) FILTER (WHERE state IN ('pending', 'failed')) AS waiting, \
         count(*) FILTER (WHERE state = 'dead') AS dead FROM deliveries \
         WHERE endpoint = (SELECT no FROM endpoints WHERE id = '{endpoint}')"
    );
    let found: Count = diesel::sql_query(query).get_result(conn).expect("counts");
    (found.waiting, found.dead)
}

const LONG_QUEUE: usize = 20_000;

#[test]
fn s15_s16_a_disable_cuts_twenty_thousand_at_once_and_none_comes_back() {
    let _machine = alone();
    let receiver = Receiver::start(|arrival| if arrival.path == "/hangs" { Reply::Hang } else { Reply::Answer(200) });
    let mut server = Server::start(Options::default());
    let policy = json!({"timeout": "60s", "auto_disable": null});
    let slow = server.endpoint(json!({"url": receiver.url("/hangs"), "event_types": ["bulk"], "policy": policy}));
    server.endpoint(json!({"url": receiver.url("/well"), "event_types": ["live"]}));
    for batch in 0..LONG_QUEUE / 1_000 {
        post_batch(&server, "bulk", (0..1_000).map(|n| format!("b{batch}-{n}")));
    }
    wait_for("16 hang, the rest waits", SOON, || {
        let queue = server.status(&slow)["queue"].clone();
        (queue["pending"] == LONG_QUEUE && queue["in_flight"] == 16).then_some(())
    });

    let ingest = Ingest::start(&server, "before");
    let began = Instant::now();
    let disabled = server.post(&format!("/endpoints/{slow}/disable"), &json!({"reason": "enough"}), 200);
    let took = began.elapsed();
    assert!(took < Duration::from_secs(1), "{took:?}");
    assert_eq!((&disabled["status"], &disabled["disabled_reason"]), (&json!("disabled"), &json!("enough")));
    // Dead for every reader at once, but for what is on the wire.
    assert_eq!(server.status(&slow)["queue"]["dead"], LONG_QUEUE - 16);
    let pending = server.all(&format!("/deliveries?endpoint_id={slow}&state=pending"));
    assert_eq!(pending.len(), 16);

    // Kill it in the middle of the rewriting: rows that changed after the disable show that it has begun.
    let since = text(&disabled["updated_at"]);
    let changed = format!("/deliveries?endpoint_id={slow}&updated_after={since}&limit=1");
    wait_for("the rewriting begins", SOON, || {
        (!server.get(&changed)["data"].as_array().expect("data").is_empty()).then_some(())
    });
    server.kill();
    let (events, p99) = ingest.stop();
    let (waiting, dead) = rows(&mut server.remains().connect(), &slow);
    assert!(waiting > 1_000 && dead > 0, "killed in the middle of the rewriting: {waiting} wait, {dead} are dead");
    println!("disable with {LONG_QUEUE} waiting: answered in {took:?}; {events} events meanwhile, p99 {p99:?}");
    println!("killed with {waiting} rows to rewrite and {dead} rewritten");
    assert!(p99 < Duration::from_millis(200), "{p99:?}");

    receiver.next_life();
    server.restart();
    // The rest of the rewriting holds up no events either.
    let ingest = Ingest::start(&server, "after");
    let status = server.status(&slow);
    assert_eq!(status["queue"]["dead"], LONG_QUEUE, "what was on the wire was cut with the rest");
    let mut beside = SqliteConnection::establish(&server.database().to_string_lossy()).expect("the database");
    wait_for("every row is rewritten", SOON, || (rows(&mut beside, &slow).0 == 0).then_some(()));
    let (events, p99) = ingest.stop();
    println!("{events} events while the rest was rewritten, p99 {p99:?}");
    assert!(p99 < Duration::from_millis(200), "{p99:?}");
    server.post(&format!("/endpoints/{slow}/enable"), &json!({}), 200);
    server.call("PATCH", &format!("/endpoints/{slow}"), Some(&json!({"url": receiver.url("/well")}))).json(200);
    server.event("after", "bulk");
    receiver.wait("what comes after is sent", SOON, |ledger| ledger.iter().any(|one| one.event == "after"));
    let changed = server.all(&format!("/deliveries?endpoint_id={slow}&updated_after={since}"));
    assert!(changed.len() > LONG_QUEUE, "whoever walks by changes hears of every one of them: {}", changed.len());
    let sent: Vec<_> = receiver.ledger().into_iter().filter(|one| one.life > 0 && one.event.starts_with('b')).collect();
    assert!(sent.is_empty(), "{} of those that were cut were sent", sent.len());
    assert_eq!(server.status(&slow)["queue"]["dead"], LONG_QUEUE);
    server.kill();
    assert_eq!(rows(&mut server.remains().connect(), &slow), (0, LONG_QUEUE as i64));
}
