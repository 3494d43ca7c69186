//! Many attempts due at the same moment (C94).

use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::SOON;
use crate::support::receiver::{Receiver, Reply};
use crate::support::server::{Options, Server, alone, wait_for};

/// What the receiver takes for each, and what each may take.
const LATENCY: Duration = Duration::from_millis(80);
const TIMEOUT: &str = "1s";

/// The time an attempt may take begins with the attempt, not when it is due: those that wait for the others of their endpoint
/// wait for longer than their timeout.
#[test]
fn c94_two_thousand_due_at_once_are_delivered_and_none_times_out() {
    let _machine = alone();
    let receiver = Receiver::start(|arrival| match arrival.attempt {
        1 => Reply::Answer(503),
        _ => {
            thread::sleep(LATENCY);
            Reply::Answer(200)
        }
    });
    let server = Server::start(Options::default());
    for count in [10, 200, 2_000] {
        let kind = format!("burst.n{count}");
        let policy = json!({
            "schedule": {"ladder": ["4s"]}, "jitter": 0, "timeout": TIMEOUT, "responses": [], "auto_disable": null,
            "circuit_breaker": null,
        });
        let path = format!("/{count}");
        let body = json!({"url": receiver.url(&path), "event_types": [kind], "policy": policy, "max_in_flight": 64});
        let endpoint = server.endpoint(body);
        for batch in (0..count).collect::<Vec<_>>().chunks(1_000) {
            let events: Vec<Value> = batch.iter().map(|n| json!({"type": kind, "data": n})).collect();
            server.post("/events/batch", &json!({"events": events}), 202);
        }
        wait_for("all have ended", SOON, || {
            let queue = &server.status(&endpoint)["queue"];
            (queue["pending"] == 0 && queue["failed"] == 0).then_some(())
        });
        let ledger = receiver.ledger();
        let second = ledger.iter().filter(|arrival| arrival.path == path && arrival.attempt == 2);
        assert_eq!(second.count(), count, "{count} retries");
        let delivered = server.all(&format!("/deliveries?endpoint_id={endpoint}&state=delivered"));
        assert_eq!(delivered.len(), count, "none was given up after {TIMEOUT}");
        assert!(delivered.iter().all(|one| one["attempts_total"] == 2));
    }
}
