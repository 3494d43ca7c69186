//! What it takes when there is nothing to do.

use std::thread::sleep;
use std::time::Duration;

use serde_json::json;

use crate::Setting;
use crate::receiver::{Receiver, WELL};
use crate::report::{Reading, reading};
use crate::subject::{Subject, endpoint};

const ENDPOINTS: usize = 10_000;
/// Until what was begun is over.
const SETTLED: Duration = Duration::from_secs(3);

pub fn registered(setting: &Setting) -> Vec<Reading> {
    let (receiver, mut subject) = (Receiver::start(), Subject::start(setting));
    sleep(SETTLED);
    let idle = subject.memory().0;
    let body = |n| endpoint(&receiver.url(&format!("{WELL}/{n}")), &format!("bench.e{n}"), 16, json!({}));
    subject.endpoints(&(0..ENDPOINTS).map(body).collect::<Vec<_>>());
    sleep(SETTLED);
    let registered = subject.memory().0;
    subject.restart();
    sleep(SETTLED);
    vec![
        reading("idle", "MB", idle).at_most(25.0),
        reading("10,000 registered endpoints", "MB more", registered - idle).at_most(10.0),
        reading("the same after a restart", "MB more", subject.memory().0 - idle).at_most(10.0),
    ]
}
