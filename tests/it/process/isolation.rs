//! What hanging endpoints do to a healthy one (S19).

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use super::SOON;
use crate::support::receiver::{Receiver, Tarpit};
use crate::support::server::{Options, Server, alone};

const HANGING: usize = 100;
const RATE: u64 = 200;
const CALLERS: u64 = 4;

/// Posts `RATE` events a second for so long and returns how long each took from the call to its receiver, sorted.
fn latencies(server: &Server, receiver: &Receiver, phase: &str, seconds: u64) -> Vec<Duration> {
    let before = receiver.count();
    let posted: Mutex<HashMap<String, Instant>> = Mutex::default();
    let (began, next, total) = (Instant::now(), AtomicU64::new(0), RATE * seconds);
    thread::scope(|scope| {
        for _ in 0..CALLERS {
            let (mut client, posted, next) = (server.client(), &posted, &next);
            scope.spawn(move || {
                loop {
                    let number = next.fetch_add(1, Ordering::SeqCst);
                    if number >= total {
                        return;
                    }
                    let at = began + Duration::from_micros(number * 1_000_000 / RATE);
                    thread::sleep(at.saturating_duration_since(Instant::now()));
                    let id = format!("{phase}-{number}");
                    let body = json!({"id": id, "type": "order.created", "data": {"number": number}}).to_string();
                    posted.lock().expect("posted").insert(id, Instant::now());
                    let answer = client.send("POST", "/events", body.as_bytes()).expect("an answer");
                    assert_eq!(answer.status, 202);
                }
            });
        }
    });
    let took = began.elapsed();
    assert!(took < Duration::from_secs(seconds + 2), "{phase}: the rate was not kept, {total} took {took:?}");
    receiver.wait("all come", SOON, |ledger| ledger.len() >= before + total as usize);
    let posted = posted.into_inner().expect("posted");
    let ledger = receiver.ledger();
    let mut times: Vec<Duration> = ledger[before..].iter().map(|one| one.at - posted[&one.event]).collect();
    times.sort();
    times
}

fn percentile(times: &[Duration], percent: usize) -> Duration {
    times[(times.len() * percent / 100).min(times.len() - 1)]
}

#[test]
fn s19_a_hundred_hanging_endpoints_do_not_slow_a_healthy_one() {
    let _machine = alone();
    let (receiver, tarpit) = (Receiver::always(200), Tarpit::start());
    let server = Server::start(Options::default());
    server.endpoint(json!({"url": receiver.url("/")}));
    latencies(&server, &receiver, "warm", 2);
    let alone = latencies(&server, &receiver, "alone", 15);
    for number in 0..HANGING {
        let url = format!("http://{}/{number}", tarpit.address);
        server.endpoint(json!({"url": url, "policy": {"timeout": "10s", "auto_disable": null}}));
    }
    let beside = latencies(&server, &receiver, "beside", 30);
    let show = |times: &[Duration]| {
        format!("p50 {:?}, p99 {:?}, most {:?}", percentile(times, 50), percentile(times, 99), times[times.len() - 1])
    };
    println!("alone: {}", show(&alone));
    println!("beside {HANGING} hanging endpoints: {}", show(&beside));
    let (alone, beside) = (percentile(&alone, 99), percentile(&beside, 99));
    assert!(beside.as_secs_f64() <= alone.as_secs_f64() * 1.5, "{beside:?} beside, {alone:?} alone");
}
