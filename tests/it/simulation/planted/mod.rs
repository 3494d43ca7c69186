//! Planted faults: the simulation proves that it can see. Each makes the engine's surroundings lie in one way, so that
//! the engine, which believes them, breaks one rule as if it had the fault itself. Nothing in `src/` knows of this.
//!
//! ```text
//!   engine ──▶ PlantedQueue ──▶ TroubledQueue ──▶ store ──▶ PlantedHints ──▶ TroubledHints ──▶ engine
//!                 one lie          refusals                     one lie         losses
//! ```
//!
//! The ledger is written below the lie: it holds what was committed and what reached a receiver, not what the engine was
//! told.

mod accept;
mod found;
mod hints;
mod queue;

pub use hints::PlantedHints;
pub use queue::PlantedQueue;

/// One fault. Where the design has a remedy against it, the fault takes the remedy away too, and says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plant {
    /// Hints are lost. Harmless by design, because a sweep finds the delivery within a second; so sweeps find nothing.
    LostHint,
    /// A hint comes after its delivery was read, sent and recorded. Harmless by design, because a read says how far it
    /// went; so no read does.
    StaleHint,
    /// The ladder has one rung more than the policy.
    OneAttemptTooMany,
    /// Every rung is 1 ms shorter than the policy says.
    ShortDelay,
    /// After a restart the rest of each delay is drawn again.
    RedrawnJitter,
    /// A success leaves the streaks in the rows as they were.
    StreakKept,
    /// A failure that comes in after the endpoint was disabled disables it again.
    DisabledTwice,
    /// The circuit is forgotten whenever the endpoint is read.
    HeldSent,
    /// The probe on the wire is not recognised after the endpoint was read again, which people make it be all the time.
    TwoProbes,
    /// Rows that a cut has taken and that are not rewritten yet are read as waiting.
    CutResurrected,
    /// A result is written a second time. Harmless by design, because run and number no longer match; so they are moved
    /// on.
    WrittenTwice,
    /// What the store refused is taken for written.
    ResultLost,
    /// An event is answered when it is written, and the commit does not come through.
    AnsweredEarly,
    /// First attempts stand in line by arrival, not by their events' times.
    OutOfOrder,
    /// Results are written whatever the endpoint's version is by then.
    VersionIgnored,
    /// The endpoint keeps the URL with which it was first read.
    OldUrl,
    /// One attempt more than the endpoint allows may be on the wire.
    OneSlotTooMany,
    /// With a result, the row is told that its actor is needed no more.
    NeverWoken,
    /// What is on the wire is not spared when a result disables the endpoint.
    NobodySpared,
    /// A retry has other bytes than the first attempt: its body was composed again.
    OtherBytes,
    /// `Retry-After` is ignored.
    RetryAfterIgnored,
}
