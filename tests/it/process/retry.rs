//! A person's retry (S12).

use serde_json::{Value, json};

use super::SOON;
use crate::support::receiver::{Gate, Receiver, Reply};
use crate::support::server::{Options, Server, beside_others, micros, wait_for};

fn attempts(server: &Server, delivery: &str) -> Vec<Value> {
    server.delivery(delivery)["attempts"].as_array().expect("attempts").clone()
}

#[test]
fn s12_a_manual_retry_from_rung_3_begins_run_2_at_rung_1() {
    let _machine = beside_others();
    let gate = Gate::default();
    let receiver = {
        let gate = gate.clone();
        Receiver::start(move |arrival| {
            if arrival.request.header("posthaste-attempt") == Some("1") && arrival.path == "/run2" {
                gate.pass();
            }
            Reply::Answer(503)
        })
    };
    let server = Server::start(Options::default());
    let ladder = json!({"ladder": ["700ms", "300ms", "1h", "2h"]});
    let policy = json!({"schedule": ladder, "jitter": 0, "auto_disable": null});
    let endpoint = server.endpoint(json!({"url": receiver.url("/run1"), "policy": policy}));
    let delivery = server.event("e1", "order.created").remove(0);
    let at_rung_3 = wait_for("three attempts fail", SOON, || {
        Some(server.delivery(&delivery)).filter(|found| found["attempt"] == 3)
    });
    assert_eq!((&at_rung_3["state"], &at_rung_3["run"]), (&json!("failed"), &json!(1)));
    assert_eq!(at_rung_3["next_retry_reason"], "schedule");
    let wait = micros(&at_rung_3["next_retry_at"]) - micros(&at_rung_3["attempts"][2]["started_at"]);
    assert!((3_600_000_000..3_605_000_000).contains(&wait), "an hour from its end: {wait}");

    // From now on the receiver holds what it gets.
    let edit = json!({"url": receiver.url("/run2")});
    server.call("PATCH", &format!("/endpoints/{endpoint}"), Some(&edit)).json(200);
    let retry = format!("/deliveries/{delivery}/retry");
    let accepted = server.post(&retry, &json!({}), 202);
    assert_eq!(
        (&accepted["state"], &accepted["run"], &accepted["attempt"], &accepted["attempts_total"]),
        (&json!("pending"), &json!(2), &json!(0), &json!(3))
    );
    assert_eq!(accepted["next_retry_reason"], "manual");
    receiver.wait("the retry comes", SOON, |ledger| ledger.len() == 4);
    let last = receiver.ledger().pop().expect("four");
    assert_eq!((last.attempt, last.event.as_str()), (1, "e1"), "the same event, attempt 1 of its run");
    for _ in 0..3 {
        let refused = server.post(&retry, &json!({}), 409);
        assert_eq!(refused["code"], "conflict");
    }
    let status = server.status(&endpoint);
    assert_eq!((&status["queue"]["in_flight"], &status["queue"]["pending"]), (&json!(1), &json!(1)));
    gate.open();
    let judged = wait_for("the retry is judged", SOON, || {
        Some(server.delivery(&delivery)).filter(|found| found["attempts_total"] == 4)
    });
    assert_eq!(
        (&judged["state"], &judged["run"], &judged["attempt"], &judged["next_retry_reason"]),
        (&json!("failed"), &json!(2), &json!(1), &json!("schedule"))
    );
    assert_eq!(receiver.count(), 4, "one request, however often it was asked for");
    let made = &attempts(&server, &delivery)[3];
    assert_eq!((&made["trigger"], &made["run"], &made["attempt"]), (&json!("manual"), &json!(2), &json!(1)));
    let ended = micros(&made["started_at"]) + (made["duration_ms"].as_f64().expect("a number") * 1e3) as i64;
    let wait = micros(&judged["next_retry_at"]) - ended;
    assert!((700_000..800_000).contains(&wait), "rung one from the attempt's end: {wait} µs");
}
