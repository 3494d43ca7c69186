//! A delivery: the duty to bring one event to one endpoint. Its states (S11), where it stands in its endpoint's two
//! lines (S3), and the named transitions between states. Who may hold it back is not written here: see
//! [`super::hold`].

use std::sync::Arc;

use super::content::Content;
use super::ids::{DeliveryNo, EventNo};
use super::time::Timestamp;
use super::words::words;

words! {
    /// S11. In the store and the API alike.
    pub enum State {
        /// In: created, requeued or manually retried, and not yet attempted in this run. Out: by its first attempt's
        /// result, by the endpoint being disabled, by expiry.
        Pending = "pending",
        /// In: an attempt failed and another is scheduled. Out: like `pending`. People see *Retrying*.
        Failed = "failed",
        /// In: a 2xx. Terminal, but a person may retry it. Cleaned up with its event (S20).
        Delivered = "delivered",
        /// In: see [`DeadReason`]. Terminal until requeued. Leaves the dead-letter queue at `replayable_until`, and is
        /// cleaned up with its event.
        Dead = "dead",
    }
}

impl State {
    /// Pending or failed: something is still to be done.
    pub const fn waits(self) -> bool {
        matches!(self, State::Pending | State::Failed)
    }
}

words! {
    /// Why a delivery is dead (S11).
    pub enum DeadReason {
        /// The last attempt of the schedule failed.
        Exhausted = "exhausted",
        /// A response rule said that further attempts are pointless.
        PermanentResponse = "permanent_response",
        /// Its endpoint was disabled while it waited, or when it would have been created.
        EndpointDisabled = "endpoint_disabled",
        /// No attempt could start for 30 days (S20).
        Expired = "expired",
    }
}

impl DeadReason {
    /// It died of its attempts, so it counts in the exhausted streak.
    pub const fn by_attempts(self) -> bool {
        matches!(self, DeadReason::Exhausted | DeadReason::PermanentResponse)
    }
}

words! {
    /// Where a delivery's own due time comes from (S10). Holds have reasons of their own: [`super::hold::HoldReason`].
    pub enum DueReason {
        Initial = "initial",
        Schedule = "schedule",
        RetryAfter = "retry_after",
        Manual = "manual",
    }
}

/// Which of an endpoint's lines a waiting delivery stands in (S3). The order of the variants is the order in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Line {
    /// Attempt 1 of run 1, by the event's time.
    First,
    /// A person's single retry or requeue: ahead of the other retries.
    Single,
    /// Retries, and what was requeued in bulk, by due time.
    Retry,
}

impl Line {
    /// The number in the store.
    pub const fn code(self) -> i16 {
        match self {
            Line::First => 0,
            Line::Single => 1,
            Line::Retry => 2,
        }
    }

    pub const fn from_code(code: i16) -> Line {
        match code {
            0 => Line::First,
            1 => Line::Single,
            _ => Line::Retry,
        }
    }
}

/// A place in line: smaller goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    pub line: Line,
    /// For first attempts min(`created_at`, `received_at`) of the event, else the due time.
    pub order_at: Timestamp,
    /// Arrival.
    pub no: DeliveryNo,
}

/// A delivery that waits for an attempt, as an actor keeps it.
#[derive(Clone, Debug)]
pub struct Waiting {
    pub no: DeliveryNo,
    pub event: EventNo,
    /// When the delivery was created; its id is made of it.
    pub created_at: Timestamp,
    pub line: Line,
    pub order_at: Timestamp,
    /// The delivery's own due time (S10).
    pub due_at: Timestamp,
    pub run: u32,
    /// Attempts made in this run.
    pub attempt: u32,
    /// Attempts ever made; with `run` it tells whether a result still belongs to the row (S1).
    pub attempts_total: u32,
    /// The endpoint's cut when this delivery last became waiting: a smaller one than the endpoint's means dead (S15).
    pub cut: u32,
    /// When it last failed as a probe (S17).
    pub probed_at: Option<Timestamp>,
    /// The event, if it is in memory.
    pub content: Option<Arc<Content>>,
}

impl Waiting {
    /// As a delivery begins: accepted now, due at once, of the first run, for an endpoint that was never disabled, and its
    /// event not in memory.
    pub fn accepted(no: DeliveryNo, event: EventNo, now: Timestamp) -> Waiting {
        Waiting {
            no,
            event,
            created_at: now,
            line: Line::First,
            order_at: now,
            due_at: now,
            run: 1,
            attempt: 0,
            attempts_total: 0,
            cut: 0,
            probed_at: None,
            content: None,
        }
    }

    pub fn id(&self) -> String {
        super::ids::delivery_id(self.no, self.created_at)
    }

    pub fn place(&self) -> Place {
        Place { line: self.line, order_at: self.order_at, no: self.no }
    }
}

/// What a judged attempt makes of its delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    Delivered,
    /// `failed`, with its new due time.
    Retry {
        due_at: Timestamp,
        reason: DueReason,
    },
    Dead(DeadReason),
}

impl Next {
    pub const fn state(self) -> State {
        match self {
            Next::Delivered => State::Delivered,
            Next::Retry { .. } => State::Failed,
            Next::Dead(_) => State::Dead,
        }
    }
}
