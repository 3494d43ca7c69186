//! Each policy's whole ladder over real HTTP on a scaled clock (S9, S11, S25).

use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::receiver::Receiver;
use crate::support::server::{Options, Server, beside_others, micros, wait_for};

/// An attempt may start so much later than its instant, in real time: a timer, a busy machine.
const LATE: f64 = 0.5;

/// One event against a receiver that always answers 503: every wait against the policy, to the tolerance that the scale
/// makes of [`LATE`]; never earlier, not by a microsecond.
fn walk(preset: &str, scale: f64, delays: &[f64], jitter: f64) {
    let receiver = Receiver::always(503);
    let server = Server::start(Options::scaled(scale));
    let endpoint = server.endpoint(json!({"url": receiver.url("/"), "policy": preset}));
    let id = server.event("e1", "order.created").remove(0);
    let dead = wait_for(preset, Duration::from_secs(60), || {
        Some(server.delivery(&id)).filter(|delivery| delivery["state"] == "dead")
    });
    let attempts = dead["attempts"].as_array().expect("attempts");
    assert_eq!(attempts.len(), delays.len() + 1, "{preset}");
    assert_eq!((&dead["dead_reason"], &dead["run"]), (&json!("exhausted"), &json!(1)));
    let headers: Vec<u32> = receiver.ledger().iter().map(|arrival| arrival.attempt).collect();
    assert_eq!(headers, (1..=delays.len() as u32 + 1).collect::<Vec<_>>(), "{preset}");
    let started = |attempt: &Value| micros(&attempt["started_at"]) as f64 / 1e6;
    let mut planned = 0.0;
    for (index, (pair, delay)) in attempts.windows(2).zip(delays).enumerate() {
        let took = pair[0]["duration_ms"].as_f64().expect("a number") / 1e3 * scale;
        let wait = started(&pair[1]) - started(&pair[0]) - took;
        // A microsecond of real time is what a duration is rounded to.
        let least = delay - 2e-6 * scale;
        let most = delay * (1.0 + jitter) + LATE * scale;
        assert!((least..=most).contains(&wait), "{preset}, delay {}: {wait} s, not {least} to {most}", index + 1);
        planned += delay;
    }
    let whole = started(attempts.last().expect("the last")) - started(&attempts[0]);
    println!(
        "{preset}: {} attempts in {whole:.0} s of its time at scale {scale}; planned {planned:.0} s",
        attempts.len()
    );
    assert_eq!(server.status(&endpoint)["status"], "enabled");
}

#[test]
fn s09_every_policy_walks_its_whole_ladder() {
    let _machine = beside_others();
    let doubling: Vec<f64> = (0..9).map(|rung| 30.0 * f64::from(1 << rung)).collect();
    let salaf = [30.0, 120.0, 600.0, 1_800.0, 7_200.0, 21_600.0, 43_200.0, 86_400.0];
    thread::scope(|scope| {
        let walks = [
            scope.spawn(|| walk("orbit", 2_000.0, &doubling, 0.2)),
            scope.spawn(|| walk("shellorbit", 150.0, &[8.0, 32.0, 120.0, 720.0], 0.2)),
            scope.spawn(|| walk("salaf", 20_000.0, &salaf, 0.0)),
        ];
        for walk in walks {
            walk.join().expect("a walk");
        }
    });
}
