//! What is measured, one after the other.

mod backlog;
mod flow;
mod light;
mod memory;
mod retries;
mod sick;

use super::Setting;
use super::report::Reading;

pub use backlog::waiting;
pub use flow::flow_over;

pub struct Scenario {
    pub name: &'static str,
    pub about: &'static str,
    pub run: fn(&Setting) -> Vec<Reading>,
}

const fn scenario(name: &'static str, about: &'static str, run: fn(&Setting) -> Vec<Reading>) -> Scenario {
    Scenario { name, about, run }
}

pub const SCENARIOS: [Scenario; 13] = [
    scenario("one", "one endpoint, 1 KiB, 64 callers", flow::one),
    scenario("fan-out", "each event to ten endpoints, 64 callers", flow::fan_out),
    scenario("many", "10,000 endpoints, a few of which get most events", flow::many),
    scenario("large", "one endpoint, 64 KiB, 64 callers", flow::large),
    scenario("light", "one endpoint, 100 events/s", light::light),
    scenario("hanging", "100 events/s beside 1,000 hanging endpoints", sick::hanging),
    scenario("failing", "100 events/s beside 1,000 failing endpoints", sick::failing),
    scenario("retries", "1,000 retries/s, each at its time", retries::steady),
    scenario("storm", "100,000 retries due in the same second", retries::storm),
    scenario("memory", "idle, and with 10,000 registered endpoints", memory::registered),
    scenario("backlog", "100,000 waiting retries of one endpoint", backlog::hundred_thousand),
    scenario("million-1", "1,000,000 waiting retries of one endpoint", backlog::million_of_one),
    scenario("million-10k", "1,000,000 waiting retries of 10,000 endpoints", backlog::million_of_many),
];
