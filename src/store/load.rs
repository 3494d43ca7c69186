//! What the engine asks the store.

use std::collections::HashMap;

use crate::domain::ids::{DeliveryNo, EndpointNo, EventNo};
use crate::domain::time::Timestamp;

use super::rows::{EndpointRow, HealthRow};

/// Run and attempts ever made of deliveries.
pub type Positions = HashMap<DeliveryNo, (u32, u32)>;

/// An endpoint and its health, and where some of its deliveries stand. Answers `None` if it is deleted.
#[derive(Clone, Debug)]
pub struct LoadEndpoint {
    pub endpoint: EndpointNo,
    pub positions: Vec<DeliveryNo>,
}

/// An endpoint as it stands.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub endpoint: EndpointRow,
    pub health: HealthRow,
    pub positions: Positions,
}

/// The first `limit` waiting deliveries of both lines that carry the endpoint's present cut.
#[derive(Clone, Copy, Debug)]
pub struct LoadWindow {
    pub endpoint: EndpointNo,
    pub cut: u32,
    pub limit: usize,
}

/// Reads a window, as far as all is filed. What came later is told by hints.
#[derive(Clone, Copy, Debug)]
pub struct LoadLines {
    pub window: LoadWindow,
    /// Everything of this endpoint is filed up to this one. `None`: as far as everything of all is.
    pub filed_through: Option<DeliveryNo>,
}

/// The events of attempts about to start.
#[derive(Clone, Debug)]
pub struct LoadContents(pub Vec<EventNo>);

/// The endpoints whose actors are needed by an instant, the most urgent first.
#[derive(Clone, Copy, Debug)]
pub struct NeededBy {
    pub by: Timestamp,
    /// Go on after this one.
    pub after: Option<(Timestamp, EndpointNo)>,
    pub limit: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needed {
    pub endpoint: EndpointNo,
    pub wake_at: Timestamp,
    /// The endpoint's newest delivery: if its actor has not heard of it, a hint was lost.
    pub newest: DeliveryNo,
}
