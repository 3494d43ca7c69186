//! How long an event takes when nothing is in its way.

use std::thread::sleep;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde_json::json;

use crate::Setting;
use crate::book::millis;
use crate::floor::floor;
use crate::load::{Events, Load};
use crate::receiver::{Receiver, WELL};
use crate::report::{Reading, reading};
use crate::subject::{Subject, endpoint};

/// Events a second, and callers who post them.
pub const RATE: u64 = 100;
const CALLERS: u64 = 8;
/// At this rate it takes longer until there are enough events for a percentile.
const WINDOWS: u32 = 3;
const WARM_UP: Duration = Duration::from_secs(2);
/// Whatever was submitted has arrived by then.
const AFTERWARDS: Duration = Duration::from_secs(1);

/// The times from submission to arrival at this rate.
pub fn times(setting: &Setting, subject: &Subject, receiver: &Receiver, kind: &'static str) -> Histogram<u64> {
    let load = Load::open(subject.address, RATE, CALLERS, Events::of(kind, 1_024), receiver.book.clone());
    sleep(WARM_UP);
    receiver.book.measure();
    sleep(setting.window * WINDOWS);
    load.stop();
    sleep(AFTERWARDS);
    receiver.book.times()
}

pub fn light(setting: &Setting) -> Vec<Reading> {
    let (receiver, subject) = (Receiver::start(), Subject::start(setting));
    subject.endpoint(endpoint(&receiver.url(WELL), "bench.light", 16, json!({})));
    let before = subject.processor_time();
    let times = times(setting, &subject, &receiver, "bench.light");
    let cost = (subject.processor_time() - before).as_secs_f64() * 1e6 / receiver.book.arrived() as f64;
    let mut readings = vec![
        reading("submission to arrival, p50", "ms", millis(&times, 0.5)).at_most(0.8),
        reading("submission to arrival, p99", "ms", millis(&times, 0.99)).at_most(3.0),
        reading("submission to arrival, p99.9", "ms", millis(&times, 0.999)),
        reading("engine CPU", "µs per event", cost),
    ];
    readings.extend(floor(setting, &receiver, 1_024));
    readings
}
