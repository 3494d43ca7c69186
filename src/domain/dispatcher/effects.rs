//! What a dispatcher says to its shell, and is told by it.

use std::sync::Arc;

use super::super::attempt::Trigger;
use super::super::delivery::Waiting;
use super::super::ids::{DeliveryNo, EndpointNo};
use super::super::policy::Policy;
use super::super::time::Timestamp;
use super::Batch;
#[cfg(doc)]
use super::Dispatcher;

/// What the shell is to do. The order matters only within one kind.
#[derive(Debug)]
pub enum Effect {
    /// Make this attempt now, and call [`Dispatcher::ended`] when it is over.
    Start(Start),
    /// Write this batch, and call [`Dispatcher::recorded`] or [`Dispatcher::refused`].
    Record(Batch),
    /// Read the beginning of both lines, and call [`Dispatcher::loaded`].
    Load { limit: usize },
    /// Read endpoint, health and where these deliveries stand, and call [`Dispatcher::reloaded`].
    Reload { positions: Vec<DeliveryNo> },
    /// Ask for permission to start so many overdue attempts; it comes with [`Dispatcher::paced`].
    Pace(usize),
    /// These deliveries were cut while on the wire, and no result will come: give them up to the cut (S15), and call
    /// [`Dispatcher::released`].
    Release(Vec<DeliveryNo>),
    /// The row says that the actor is needed soon, and it is not: put that right.
    Rest(Rest),
}

/// When an actor with nothing to do is needed next; applies if neither version moved and the store knows no newer
/// delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rest {
    pub endpoint: EndpointNo,
    pub expected: Versions,
    pub wake_at: Option<Timestamp>,
    pub seen_through: DeliveryNo,
}

/// One attempt to make.
#[derive(Clone, Debug)]
pub struct Start {
    pub delivery: Waiting,
    pub trigger: Trigger,
    /// The circuit's `opened_at` if this is its probe.
    pub probe_of: Option<Timestamp>,
    /// The endpoint's policy as it starts: its timeout holds for it, and what the answer means is read by it (S22).
    pub policy: Arc<Policy>,
}

/// The first rows of both lines, read in one snapshot.
#[derive(Debug, Default)]
pub struct Loaded {
    pub first: Vec<Waiting>,
    pub first_complete: bool,
    /// Single and bulk retries.
    pub second: Vec<Waiting>,
    pub second_complete: bool,
    /// The endpoint's newest delivery at the snapshot.
    pub read_through: DeliveryNo,
}

/// What may be started now, from outside the endpoint.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// So many attempts, by the installation's cap.
    pub starts: usize,
    /// The endpoint's own rate limit lets nothing start before this instant.
    pub rate: Option<Timestamp>,
}

impl Room {
    pub const PLENTY: Room = Room { starts: usize::MAX, rate: None };
}

/// The versions of an endpoint's two rows: configuration and status (people and verdicts), health (the owner).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Versions {
    pub endpoint: i64,
    pub health: i64,
}
