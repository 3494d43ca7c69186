//! As much as goes through.

use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::Setting;
use crate::book::millis;
use crate::floor::floor;
use crate::load::{Events, Load};
use crate::receiver::{Receiver, WELL};
use crate::report::{Reading, reading};
use crate::subject::{Subject, endpoint};

/// Callers that each wait for their answers.
const CALLERS: usize = 64;
/// Before anything is measured.
const WARM_UP: Duration = Duration::from_secs(2);
/// What was accepted has been delivered by then.
const DRAINED: Duration = Duration::from_secs(120);
const KIB: usize = 1_024;

/// What went through in a window.
pub struct Through {
    pub accepted: f64,
    pub delivered: f64,
    /// In microseconds.
    pub cost_of_delivery: f64,
    pub cost_of_event: f64,
    pub readings: Vec<Reading>,
}

/// A closed load for a while.
fn through(setting: &Setting, subject: &Subject, receiver: &Receiver, events: &Events, fan_out: u64) -> Through {
    let book = &receiver.book;
    let load = Load::closed(subject.address, CALLERS, events.clone(), book.clone());
    sleep(WARM_UP);
    book.measure();
    let (began, cost, accepted, arrived) = (Instant::now(), subject.processor_time(), load.accepted(), book.arrived());
    sleep(setting.window);
    let (took, cost) = (began.elapsed().as_secs_f64(), subject.processor_time() - cost);
    let (accepted, arrived) = ((load.accepted() - accepted) as f64, (book.arrived() - arrived) as f64);
    let in_all = load.stop();
    let behind = (in_all * fan_out).saturating_sub(book.arrived());
    let deadline = Instant::now() + DRAINED;
    while book.arrived() < in_all * fan_out {
        assert!(Instant::now() < deadline, "{} of {} deliveries came", book.arrived(), in_all * fan_out);
        sleep(Duration::from_millis(5));
    }
    let (times, cost) = (book.times(), cost.as_secs_f64() * 1e6);
    let through = Through {
        accepted: accepted / took,
        delivered: arrived / took,
        cost_of_delivery: cost / arrived,
        cost_of_event: cost / accepted,
        readings: Vec::new(),
    };
    let mut readings = vec![
        reading("accepted", "events/s", through.accepted),
        reading("delivered", "deliveries/s", through.delivered),
        reading("engine CPU", "µs per event", through.cost_of_event),
    ];
    if fan_out > 1 {
        readings.push(reading("engine CPU", "µs per delivery", through.cost_of_delivery));
    }
    readings.push(reading("behind at the end", "deliveries", behind as f64));
    for (name, quantile) in [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)] {
        readings.push(reading(format!("submission to arrival, {name}"), "ms", millis(&times, quantile)));
    }
    readings.push(reading("peak memory", "MB", subject.memory().1));
    Through { readings, ..through }
}

fn with_floor(setting: &Setting, receiver: &Receiver, bytes: usize, mut readings: Vec<Reading>) -> Vec<Reading> {
    readings.extend(floor(setting, receiver, bytes));
    readings
}

pub fn one(setting: &Setting) -> Vec<Reading> {
    single(setting, KIB, |name, one| match name {
        "accepted" | "delivered" => one.at_least(15_000.0),
        "engine CPU" => one.at_most(85.0),
        _ => one,
    })
}

pub fn large(setting: &Setting) -> Vec<Reading> {
    single(setting, 64 * KIB, |_, one| one)
}

fn single(setting: &Setting, bytes: usize, target: fn(&str, Reading) -> Reading) -> Vec<Reading> {
    let (receiver, subject) = (Receiver::start(), Subject::start(setting));
    subject.endpoint(endpoint(&receiver.url(WELL), "bench.one", 64, json!({})));
    let found = through(setting, &subject, &receiver, &Events::of("bench.one", bytes), 1).readings;
    let found = found.into_iter().map(|one| target(&one.name.clone(), one)).collect();
    with_floor(setting, &receiver, bytes, found)
}

pub fn fan_out(setting: &Setting) -> Vec<Reading> {
    const ENDPOINTS: u64 = 10;
    let (receiver, subject) = (Receiver::start(), Subject::start(setting));
    let body = |n| endpoint(&receiver.url(&format!("{WELL}/{n}")), "bench.all", 64, json!({}));
    subject.endpoints(&(0..ENDPOINTS).map(body).collect::<Vec<_>>());
    let found = through(setting, &subject, &receiver, &Events::of("bench.all", KIB), ENDPOINTS).readings;
    let target = |one: Reading| match (one.name.as_str(), one.unit) {
        ("delivered", _) => one.at_least(32_000.0),
        ("engine CPU", "µs per delivery") => one.at_most(42.0),
        _ => one,
    };
    with_floor(setting, &receiver, KIB, found.into_iter().map(target).collect())
}

pub fn many(setting: &Setting) -> Vec<Reading> {
    let receiver = Receiver::start();
    let found = flow_over(setting, &receiver, 10_000).readings;
    with_floor(setting, &receiver, KIB, found)
}

/// Over so many endpoints, of which the first get most events (the nth about 1/n of what the first gets).
pub fn flow_over(setting: &Setting, receiver: &Receiver, endpoints: u64) -> Through {
    let subject = Subject::start(setting);
    let body = |n| endpoint(&receiver.url(&format!("{WELL}/{n}")), &format!("bench.e{n}"), 64, json!({}));
    subject.endpoints(&(0..endpoints).map(body).collect::<Vec<_>>());
    let kind = move |number| format!("bench.e{}", skewed(number, endpoints));
    let events = Events { kind: Arc::new(kind), bytes: KIB };
    through(setting, &subject, receiver, &events, 1)
}

/// One of so many, the same for the same number: the logarithm of 1 + what comes out is uniform.
fn skewed(number: u64, of: u64) -> u64 {
    // splitmix64 (Steele, Lea, Flood 2014): neighbours have nothing in common.
    let mut mixed = number.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    let uniform = (mixed ^ (mixed >> 31)) as f64 / u64::MAX as f64;
    (((of + 1) as f64).powf(uniform) as u64 - 1).min(of - 1)
}
