//! A start with much that waits.

use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::Setting;
use crate::load::{Events, post_all};
use crate::receiver::{FAILS, LADDER, RETRY, Receiver};
use crate::report::{Reading, reading};
use crate::subject::{Subject, endpoint};

/// Until all have failed once.
const FAILED: Duration = Duration::from_secs(600);
const SETTLED: Duration = Duration::from_secs(3);
/// The one that is due has come by then.
const DUE: Duration = Duration::from_secs(60);

pub fn hundred_thousand(setting: &Setting) -> Vec<Reading> {
    readings(&waiting(setting, 100_000, 1), 60.0)
}

pub fn million_of_one(setting: &Setting) -> Vec<Reading> {
    readings(&waiting(setting, 1_000_000, 1), 150.0)
}

pub fn million_of_many(setting: &Setting) -> Vec<Reading> {
    readings(&waiting(setting, 1_000_000, 10_000), 150.0)
}

fn readings(found: &Waiting, most: f64) -> Vec<Reading> {
    vec![
        reading("ready", "s", found.ready).at_most(2.0),
        reading("first due attempt", "s", found.first_due).at_most(3.0),
        reading("memory before", "MB", found.memory_before).at_most(most),
        reading("memory after the start", "MB", found.memory_after).at_most(most),
        reading("database", "MB", found.database),
    ]
}

/// A start with so many retries waiting.
pub struct Waiting {
    /// Seconds from the launch.
    pub ready: f64,
    pub first_due: f64,
    /// MB.
    pub memory_before: f64,
    pub memory_after: f64,
    pub database: f64,
}

/// Fails so many deliveries of so many endpoints, whose retries are hours away, and one that is due when it starts again.
pub fn waiting(setting: &Setting, count: u64, endpoints: u64) -> Waiting {
    let (receiver, mut subject) = (Receiver::start(), Subject::start(setting));
    let hours = json!({"schedule": {"ladder": ["5h"]}});
    let body = |n| endpoint(&receiver.url(&format!("{FAILS}/{n}")), &format!("bench.e{n}"), 64, hours.clone());
    let failing = subject.endpoints(&(0..endpoints).map(body).collect::<Vec<_>>());
    let soon = json!({"schedule": {"ladder": [format!("{}s", LADDER.as_secs())]}});
    subject.endpoint(endpoint(&receiver.url(RETRY), "bench.due", 16, soon));

    let events = Events { kind: Arc::new(move |number| format!("bench.e{}", number % endpoints)), bytes: 256 };
    post_all(subject.address, count, &events, &receiver.book);
    let deadline = Instant::now() + FAILED;
    for one in &failing {
        let all_failed = || {
            let queue = &subject.status(one)["queue"];
            queue["pending"] == 0 && queue["in_flight"] == 0
        };
        while !all_failed() {
            assert!(Instant::now() < deadline, "{one} has failed nothing like all");
            sleep(Duration::from_millis(50));
        }
    }
    sleep(SETTLED);
    let memory_before = subject.memory().0;
    post_all(subject.address, 1, &Events::of("bench.due", 256), &receiver.book);
    sleep(Duration::from_secs(1));
    subject.kill();
    sleep(LADDER);
    let launched = Instant::now();
    subject.restart();
    let ready = launched.elapsed().as_secs_f64();
    while receiver.book.arrived() == 0 {
        assert!(launched.elapsed() < DUE, "what is due did not come");
        sleep(Duration::from_millis(1));
    }
    let first_due = launched.elapsed().as_secs_f64();
    sleep(SETTLED);
    let database = std::fs::metadata(subject.database()).map_or(0.0, |file| file.len() as f64 / 1e6);
    Waiting { ready, first_due, memory_before, memory_after: subject.memory().0, database }
}
