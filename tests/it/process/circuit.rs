//! The circuit breaker against real receivers (S17), and the order in which what it held goes out (S3).

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use serde_json::{Value, json};

use super::SOON;
use crate::support::receiver::{Receiver, Reply};
use crate::support::server::{Options, Server, beside_others, micros, wait_for};

/// The second seed's breaker with a short cool-down; one answer of 500 exhausts a delivery, any other failure is
/// retried.
fn policy(cooldown: &str) -> Value {
    json!({
        "preset": "shellorbit", "schedule": {"ladder": ["100ms", "100ms", "100ms", "100ms", "100ms", "100ms"]},
        "jitter": 0, "responses": [{"status": "500", "action": "dead_letter"}], "alert": null,
        "circuit_breaker": {"exhausted": 10, "cooldown": cooldown},
    })
}

/// Ten deliveries die of a receiver that answers 500.
fn open_circuit(server: &Server, endpoint: &str) -> Value {
    for number in 0..10 {
        let state = server.status(endpoint)["circuit"]["state"].clone();
        assert_eq!(state, "closed", "before the {number}th death");
        server.event(&format!("dies{number}"), "a.b");
        wait_for("it dies", SOON, || (server.status(endpoint)["exhausted_streak"] == number + 1).then_some(()));
    }
    let status = server.status(endpoint);
    assert_eq!(status["circuit"]["state"], "open", "at ten");
    status["circuit"].clone()
}

#[test]
fn s17_the_circuit_opens_at_ten_holds_probes_closes_and_survives_a_kill() {
    let _machine = beside_others();
    let healthy = Arc::new(AtomicBool::new(false));
    let receiver = {
        let healthy = healthy.clone();
        Receiver::start(move |arrival| match arrival.event.as_str() {
            event if event.starts_with("dies") => Reply::Answer(500),
            // The one at the head of the line that no receiver can stomach.
            "held0" => Reply::Answer(503),
            _ if healthy.load(Ordering::SeqCst) => Reply::Answer(200),
            _ => Reply::Answer(503),
        })
    };
    let mut server = Server::start(Options::default());
    // Long enough for what has to happen meanwhile on a busy machine, a start included.
    let cooldown = 8_000_000;
    let endpoint = server.endpoint(json!({"url": receiver.url("/"), "policy": policy("8s"), "max_in_flight": 1}));
    let opened = open_circuit(&server, &endpoint);
    let retry_at = micros(&opened["retry_at"]);
    assert_eq!(retry_at - micros(&opened["opened_at"]), cooldown);
    let held: Vec<String> = (0..12).map(|n| server.event(&format!("held{n}"), "a.b").remove(0)).collect();
    let waiting = server.delivery(&held[5]);
    assert_eq!((&waiting["state"], &waiting["next_retry_reason"]), (&json!("pending"), &json!("circuit_open")));
    assert_eq!(waiting["next_retry_at"], opened["retry_at"]);
    server.kill();
    server.restart();
    let status = server.status(&endpoint);
    assert_eq!(status["circuit"]["retry_at"], opened["retry_at"], "after kill -9");
    assert_eq!(status["circuit"]["opened_at"], opened["opened_at"]);
    assert_eq!((&status["queue"]["pending"], &status["exhausted_streak"]), (&json!(12), &json!(10)));
    assert_eq!(receiver.count(), 10, "held");

    // The first probe is the poisonous event; its failure opens the circuit for another cool-down.
    receiver.wait("the first probe", SOON, |ledger| ledger.len() == 11);
    let again = wait_for("its failure is recorded", SOON, || {
        let retry = micros(&server.status(&endpoint)["circuit"]["retry_at"]);
        (retry != retry_at).then_some(retry)
    });
    assert!(again >= retry_at + cooldown);
    let probed = server.delivery(&held[0]);
    assert_eq!((&probed["state"], &probed["attempt"], &probed["run"]), (&json!("failed"), &json!(1), &json!(1)));
    assert!(micros(&probed["attempts"][0]["started_at"]) >= retry_at, "not before its instant");
    assert_eq!(probed["attempts"][0]["trigger"], "probe");
    healthy.store(true, Ordering::SeqCst);
    receiver.wait("the second probe", SOON, |ledger| ledger.len() >= 12);
    assert_eq!(receiver.ledger()[11].event, "held1", "the poisonous one stands behind the others");
    wait_for("all are through but one", SOON, || {
        held[1..].iter().all(|id| server.delivery(id)["state"] == "delivered").then_some(())
    });
    assert!(micros(&server.delivery(&held[1])["attempts"][0]["started_at"]) >= again, "one probe per cool-down");
    let firsts: Vec<String> = receiver.events().into_iter().filter(|event| event.starts_with("held")).collect();
    let mut seen = HashSet::new();
    let firsts: Vec<String> = firsts.into_iter().filter(|event| seen.insert(event.clone())).collect();
    assert_eq!(firsts, (0..12).map(|n| format!("held{n}")).collect::<Vec<_>>(), "drained in order");
    let status = server.status(&endpoint);
    assert_eq!((&status["circuit"]["state"], &status["circuit"]["retry_at"]), (&json!("closed"), &Value::Null));
    assert_eq!(status["exhausted_streak"], 0);
    wait_for("the poisonous one dies by itself", SOON, || {
        (server.delivery(&held[0])["dead_reason"] == "exhausted").then_some(())
    });
    assert_eq!(server.notices(), ["circuit.opened", "circuit.closed"], "once per outage");
}

#[test]
fn s03_events_held_by_a_circuit_arrive_in_the_order_of_their_time() {
    let _machine = beside_others();
    let receiver = Receiver::start(|arrival| Reply::Answer(if arrival.event.starts_with("dies") { 500 } else { 200 }));
    let server = Server::start(Options::default());
    let endpoint = server.endpoint(json!({"url": receiver.url("/"), "policy": policy("10s"), "max_in_flight": 1}));
    let opened = open_circuit(&server, &endpoint);
    let mut numbers: Vec<u32> = (0..50).collect();
    numbers.shuffle(&mut StdRng::seed_from_u64(20_261_130));
    for number in numbers {
        let created_at = format!("2026-01-01T00:00:{number:02}Z");
        let body = json!({"id": format!("held{number:02}"), "type": "a.b", "created_at": created_at, "data": {}});
        server.post("/events", &body, 202);
    }
    assert_eq!(server.status(&endpoint)["circuit"]["retry_at"], opened["retry_at"], "posted while it was open");
    assert_eq!(receiver.count(), 10);
    receiver.wait("all come", SOON, |ledger| ledger.len() == 60);
    let expected: Vec<String> = (0..50).map(|number| format!("held{number:02}")).collect();
    assert_eq!(receiver.events()[10..], expected);
}

#[test]
fn s17_a_persons_retry_is_the_probe_and_its_success_closes() {
    let _machine = beside_others();
    let dying = Arc::new(Mutex::new(true));
    let receiver = {
        let dying = dying.clone();
        Receiver::start(move |_| Reply::Answer(if *dying.lock().expect("dying") { 500 } else { 200 }))
    };
    let server = Server::start(Options::default());
    let endpoint = server.endpoint(json!({"url": receiver.url("/"), "policy": policy("1h")}));
    open_circuit(&server, &endpoint);
    let held = server.event("held", "a.b").remove(0);
    *dying.lock().expect("dying") = false;
    let dead = server.all("/dlq");
    assert_eq!(dead.len(), 10);
    server.post(&format!("/dlq/{}/requeue", dead[0]["id"].as_str().expect("an id")), &json!({}), 202);
    wait_for("the held one goes out", Duration::from_secs(10), || {
        (server.delivery(&held)["state"] == "delivered").then_some(())
    });
    assert_eq!(server.status(&endpoint)["circuit"]["state"], "closed");
    assert_eq!(server.notices(), ["circuit.opened", "circuit.closed"]);
}
