//! Retries at their time.

use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::Setting;
use crate::book::millis;
use crate::load::{Events, Load, post_all};
use crate::receiver::{LADDER, RETRY, Receiver, STORM};
use crate::report::{Reading, reading};
use crate::subject::{Subject, endpoint};

const RATE: u64 = 1_000;
const STORM_SIZE: u64 = 100_000;
/// From the start of a storm's preparation until it breaks loose.
const CALM: Duration = Duration::from_secs(40);
/// It is over by then.
const OVER: Duration = Duration::from_secs(120);

/// Every event fails once and is retried [`LADDER`] later.
pub fn steady(setting: &Setting) -> Vec<Reading> {
    let (receiver, subject) = (Receiver::start(), Subject::start(setting));
    let ladder = json!({"schedule": {"ladder": [format!("{}s", LADDER.as_secs())]}});
    subject.endpoint(endpoint(&receiver.url(RETRY), "bench.retry", 64, ladder));
    let load = Load::open(subject.address, RATE, 16, Events::of("bench.retry", 1_024), receiver.book.clone());
    // Whose retries come from the beginning of the window on.
    sleep(Duration::from_secs(2));
    receiver.book.measure();
    sleep(LADDER + setting.window);
    let posted = load.stop();
    let deadline = Instant::now() + OVER;
    while receiver.book.arrived() < posted {
        assert!(Instant::now() < deadline, "{} of {posted} retries came", receiver.book.arrived());
        sleep(Duration::from_millis(5));
    }
    let late = receiver.book.times();
    vec![
        reading("late, p50", "ms", millis(&late, 0.5)),
        reading("late, p99", "ms", millis(&late, 0.99)).at_most(50.0),
        reading("late, p99.9", "ms", millis(&late, 0.999)),
    ]
}

/// `Retry-After` with a date puts all of them into the same second.
pub fn storm(setting: &Setting) -> Vec<Reading> {
    let (receiver, subject) = (Receiver::start(), Subject::start(setting));
    let policy = json!({"schedule": {"ladder": ["1s", "1s"]}, "retry_after": true});
    subject.endpoint(endpoint(&receiver.url(STORM), "bench.storm", 64, policy));
    let breaks_loose = receiver.storm_in(CALM);
    post_all(subject.address, STORM_SIZE, &Events::of("bench.storm", 1_024), &receiver.book);
    assert!(Instant::now() < breaks_loose, "{STORM_SIZE} events in less than {CALM:?}");
    receiver.book.measure_all();
    sleep(breaks_loose.saturating_duration_since(Instant::now()));
    let (began, before) = (Instant::now(), subject.processor_time());
    let deadline = began + OVER;
    while receiver.book.arrived() < STORM_SIZE {
        assert!(Instant::now() < deadline, "{} of {STORM_SIZE} retries came", receiver.book.arrived());
        sleep(Duration::from_millis(5));
    }
    let (took, late) = (began.elapsed().as_secs_f64(), receiver.book.times());
    let cost = (subject.processor_time() - before).as_secs_f64() * 1e6 / STORM_SIZE as f64;
    vec![
        reading("over in", "s", took),
        reading("delivered", "deliveries/s", STORM_SIZE as f64 / took),
        reading("engine CPU", "µs per delivery", cost),
        reading("late, p50", "ms", millis(&late, 0.5)),
        reading("late, most", "ms", millis(&late, 1.0)),
        reading("peak memory", "MB", subject.memory().1),
    ]
}
