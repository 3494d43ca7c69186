//! What keeps a waiting delivery from being attempted, derived whenever it is asked and never written into rows (S10).
//! Precedence: disabled, paused, circuit, rate, slots.

use super::delivery::DueReason;
use super::health::Circuit;
use super::time::Timestamp;
use super::words::words;

words! {
    /// Why the next attempt may start when it may: `next_retry_reason`.
    pub enum NextReason {
        Initial = "initial",
        Schedule = "schedule",
        RetryAfter = "retry_after",
        Manual = "manual",
        CircuitOpen = "circuit_open",
        RateLimited = "rate_limited",
        Paused = "paused",
    }
}

impl From<DueReason> for NextReason {
    fn from(reason: DueReason) -> NextReason {
        match reason {
            DueReason::Initial => NextReason::Initial,
            DueReason::Schedule => NextReason::Schedule,
            DueReason::RetryAfter => NextReason::RetryAfter,
            DueReason::Manual => NextReason::Manual,
        }
    }
}

/// From when the next attempt of a waiting delivery may start, and why not earlier (S10): its own due time or, while the
/// circuit is open, the later of that and the instant at which the circuit lets a probe through. A person's single retry
/// goes out as the probe at once, so the circuit does not hold it.
pub fn next_retry(due_at: Timestamp, reason: DueReason, single: bool, circuit: Circuit) -> (Timestamp, NextReason) {
    match circuit.retry_at() {
        Some(retry_at) if retry_at > due_at && !single => (retry_at, NextReason::CircuitOpen),
        _ => (due_at, reason.into()),
    }
}
