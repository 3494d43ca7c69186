//! A backlog at the start (C58).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;

use super::ingest::Ingest;
use crate::support::receiver::{Receiver, Reply};
use crate::support::server::{Options, Server, alone, wait_for};

/// Events that wait for the endpoint that hangs, and how large each is: 80 MB.
const QUEUED: usize = 10_000;
const BYTES: usize = 8_000;

/// What the process holds in memory, in bytes; without what it could give back at once.
fn resident(server: &Server) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).expect("its status");
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("its memory");
    line.trim().trim_end_matches(" kB").parse::<usize>().expect("a number") * 1_024
}

/// That the question for what waits has its index: `every_question_has_its_index`.
#[test]
fn c58_a_huge_backlog_at_the_start_fills_no_memory_and_holds_nobody_up() {
    let _machine = alone();
    let second_life = Arc::new(AtomicBool::new(false));
    let receiver = {
        let second_life = second_life.clone();
        Receiver::start(move |arrival| match arrival.path.as_str() {
            "/few" if second_life.load(Ordering::SeqCst) => Reply::Answer(200),
            "/live" => Reply::Answer(200),
            _ => Reply::Hang,
        })
    };
    let mut server = Server::start(Options::default());
    let policy = json!({"timeout": "60s", "auto_disable": null});
    let many = server.endpoint(json!({"url": receiver.url("/many"), "event_types": ["bulk"], "policy": policy}));
    server.endpoint(json!({"url": receiver.url("/few"), "event_types": ["few"], "policy": policy}));
    server.endpoint(json!({"url": receiver.url("/live"), "event_types": ["live"]}));
    let data = "x".repeat(BYTES);
    for batch in 0..QUEUED / 500 {
        let events: Vec<_> =
            (0..500).map(|n| json!({"id": format!("b{batch}-{n}"), "type": "bulk", "data": data})).collect();
        server.post("/events/batch", &json!({"events": events}), 202);
    }
    let few: Vec<String> = (0..10).flat_map(|n| server.event(&format!("f{n}"), "few")).collect();
    server.kill();
    receiver.next_life();
    second_life.store(true, Ordering::SeqCst);
    server.restart();
    let (began, ingest) = (Instant::now(), Ingest::start(&server, "beside"));
    receiver.wait("the ten of the other endpoint", Duration::from_secs(10), |ledger| {
        ledger.iter().filter(|one| one.path == "/few" && one.life == 1).count() == 10
    });
    let took = began.elapsed();
    wait_for("as many hang as may", Duration::from_secs(10), || {
        (server.status(&many)["queue"]["in_flight"] == 16).then_some(())
    });
    let (accepted, p99) = ingest.stop();
    let memory = resident(&server);
    println!("ten others within {took:?}; {accepted} events meanwhile, p99 {p99:?}; {} MB", memory / 1_000_000);
    wait_for("the ten are recorded", Duration::from_secs(10), || {
        few.iter().all(|id| server.delivery(id)["state"] == "delivered").then_some(())
    });
    assert_eq!(server.status(&many)["queue"]["pending"], QUEUED);
    assert!(p99 < Duration::from_secs(1), "{p99:?}");
    assert!(memory < QUEUED * BYTES * 3 / 4, "{memory} bytes are as much as the backlog");
    // Nothing of it was sent twice in one life (C53).
    let ledger = receiver.ledger();
    let mut sent: Vec<_> = ledger.iter().map(|one| (one.life, &one.path, &one.event)).collect();
    let requests = sent.len();
    sent.sort();
    sent.dedup();
    assert_eq!(sent.len(), requests);
}
