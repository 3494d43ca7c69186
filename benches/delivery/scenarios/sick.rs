//! A healthy endpoint among many that are not.

use std::thread::sleep;
use std::time::Duration;

use serde_json::json;

use super::light::{self, RATE};
use crate::Setting;
use crate::book::millis;
use crate::load::{Events, Load};
use crate::receiver::{FAILS, HANGS, Receiver, WELL};
use crate::report::{Reading, reading};
use crate::subject::{Subject, endpoint};

/// Sick endpoints, and events for all of them a second.
const SICK: usize = 1_000;
const SICK_RATE: u64 = 10;
/// Until every slot of the sick is taken, and the first attempts have timed out.
const SICKENING: Duration = Duration::from_secs(12);

pub fn hanging(setting: &Setting) -> Vec<Reading> {
    beside(setting, HANGS)
}

pub fn failing(setting: &Setting) -> Vec<Reading> {
    beside(setting, FAILS)
}

fn beside(setting: &Setting, path: &str) -> Vec<Reading> {
    let (receiver, subject) = (Receiver::start(), Subject::start(setting));
    subject.endpoint(endpoint(&receiver.url(WELL), "bench.well", 16, json!({})));
    let alone = light::times(setting, &subject, &receiver, "bench.well");
    // As people have them, but that they are not disabled.
    let sick = |n| {
        json!({
            "url": receiver.url(&format!("{path}/{n}")), "event_types": ["bench.sick"],
            "policy": {"timeout": "10s", "auto_disable": null},
        })
    };
    subject.endpoints(&(0..SICK).map(sick).collect::<Vec<_>>());
    let load = Load::open(subject.address, SICK_RATE, 4, Events::of("bench.sick", 1_024), receiver.book.clone());
    sleep(SICKENING);
    let before = subject.processor_time();
    let beside = light::times(setting, &subject, &receiver, "bench.well");
    let busy = (subject.processor_time() - before).as_secs_f64() / (setting.window * 3).as_secs_f64();
    load.stop();
    let ratio = |quantile| millis(&beside, quantile) / millis(&alone, quantile);
    vec![
        reading("healthy alone, p50", "ms", millis(&alone, 0.5)),
        reading("healthy beside, p50", "ms", millis(&beside, 0.5)),
        reading("healthy alone, p99", "ms", millis(&alone, 0.99)),
        reading("healthy beside, p99", "ms", millis(&beside, 0.99)),
        reading("p50 beside to alone", "times", ratio(0.5)),
        reading("p99 beside to alone", "times", ratio(0.99)).at_most(1.2),
        reading("new deliveries", "per s", (SICK_RATE * SICK as u64 + RATE) as f64),
        reading("engine CPU", "processors", busy),
        reading("peak memory", "MB", subject.memory().1),
    ]
}
