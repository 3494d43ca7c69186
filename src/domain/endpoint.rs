//! An endpoint as its brain sees it: what decides whether and how deliveries are attempted. (What an attempt needs
//! besides, such as URL, headers and secrets, is configuration that the shell carries.)

use std::sync::Arc;

use super::ids::EndpointNo;
use super::policy::Policy;
use super::time::Timestamp;
use super::words::words;

words! {
    /// Whether deliveries are attempted at all (S14–S16).
    pub enum Status {
        Enabled = "enabled",
        /// By a person.
        Disabled = "disabled",
        /// By its failure streak or a response rule; stays so until a person enables it.
        AutoDisabled = "auto_disabled",
    }
}

/// The smallest and largest `max_in_flight` (S19), and its default.
pub const MAX_IN_FLIGHT: std::ops::RangeInclusive<u16> = 1..=256;
pub const DEFAULT_MAX_IN_FLIGHT: u16 = 16;

/// The state of an endpoint that its dispatcher decides by.
#[derive(Clone, Debug)]
pub struct Endpoint {
    pub no: EndpointNo,
    pub id: Arc<str>,
    pub url: Arc<str>,
    /// One more with each change by a person or a verdict; what was decided on an older version is decided again.
    pub version: i64,
    pub status: Status,
    pub policy: Arc<Policy>,
    pub max_in_flight: u16,
    /// How often a disable has cut the queue; deliveries that waited before carry a smaller number (S15).
    pub cut: u32,
    /// The last enable or edit of the URL: attempts that began before it count in no streak and disable nothing (S13).
    pub counted_from: Timestamp,
    /// Held by a person (a later issue); comes before the circuit.
    pub paused: bool,
}

impl Endpoint {
    pub fn is_enabled(&self) -> bool {
        self.status == Status::Enabled
    }
}
