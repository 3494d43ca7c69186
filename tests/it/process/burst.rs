//! Many attempts due at the same moment (C94).

use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::SOON;
use crate::support::receiver::{Receiver, Reply};
use crate::support::server::{Options, Server, alone, wait_for};

/// What the receiver takes for each, and what each may take.
const LATENCY: Duration = Duration::from_millis(80);
const TIMEOUT: Duration = Duration::from_secs(2);
/// At sixteen at a time it takes ten seconds.
const MANY: usize = 2_000;

/// The time an attempt may take begins with the attempt, not when it is due: most of these wait for longer than their timeout.
#[test]
fn c94_two_thousand_due_at_once_are_delivered_and_none_times_out() {
    let _machine = alone();
    let receiver = Receiver::start(|_| {
        thread::sleep(LATENCY);
        Reply::Answer(200)
    });
    let server = Server::start(Options::default());
    for count in [10, 200, MANY] {
        let kind = format!("burst.n{count}");
        let policy = json!({"schedule": {"ladder": []}, "timeout": "2s", "responses": [], "auto_disable": null});
        let path = format!("/{count}");
        let endpoint = server.endpoint(json!({"url": receiver.url(&path), "event_types": [kind], "policy": policy}));
        // What comes to a disabled endpoint is dead at once; a bulk requeue makes all of it due at once.
        server.post(&format!("/endpoints/{endpoint}/disable"), &json!({}), 200);
        for batch in (0..count).collect::<Vec<_>>().chunks(1_000) {
            let events: Vec<Value> = batch.iter().map(|n| json!({"type": kind, "data": n})).collect();
            server.post("/events/batch", &json!({"events": events}), 202);
        }
        server.post(&format!("/endpoints/{endpoint}/enable"), &json!({}), 200);
        server.post("/dlq/requeue", &json!({"endpoint_id": endpoint, "limit": 10_000}), 202);
        let due = Instant::now();
        wait_for("all have ended", 4 * SOON, || (server.status(&endpoint)["queue"]["pending"] == 0).then_some(()));
        let delivered = server.all(&format!("/deliveries?endpoint_id={endpoint}&state=delivered"));
        assert_eq!(delivered.len(), count, "none was given up after {TIMEOUT:?}");
        assert!(delivered.iter().all(|one| one["attempts_total"] == 1));
        if count == MANY {
            let last = receiver.ledger().pop().expect("the last").at;
            assert!(last - due > 2 * TIMEOUT, "most waited for longer than their timeout: {:?}", last - due);
        }
    }
}
