//! Posting events, as the API asks for it.

use std::sync::Arc;

use bytes::Bytes;

use crate::domain::delivery::State;
use crate::domain::event::EventId;
use crate::domain::event_type::EventType;
use crate::domain::ids::TenantNo;
use crate::domain::time::Timestamp;

/// An event that passed every check that needs no store.
#[derive(Clone, Debug)]
pub struct NewEvent {
    pub id: EventId,
    /// The id is ours, so no stored event can have it.
    pub generated: bool,
    pub event_type: EventType,
    pub created_at: Timestamp,
    pub received_at: Timestamp,
    /// What every receiver gets (S2).
    pub body: Bytes,
    /// Where in `body` the caller's `data` begins; it ends one byte before the body does.
    pub data_start: usize,
    /// Narrows the fan-out.
    pub endpoint_ids: Option<Vec<String>>,
}

impl NewEvent {
    pub fn data(&self) -> &[u8] {
        self.body.get(self.data_start..self.body.len().saturating_sub(1)).unwrap_or_default()
    }
}

/// Store these events and their deliveries: all or none.
#[derive(Clone, Debug)]
pub struct Accept {
    pub tenant: TenantNo,
    pub events: Vec<NewEvent>,
    /// So many deliveries several events may have together. One alone may have any number.
    pub max_deliveries: usize,
}

/// One stored event and its deliveries as they are now.
#[derive(Clone, Debug)]
pub struct Accepted {
    pub id: EventId,
    pub event_type: EventType,
    pub created_at: Timestamp,
    pub received_at: Timestamp,
    /// It was there before (S21).
    pub duplicate: bool,
    pub deliveries: Vec<AcceptedDelivery>,
}

#[derive(Clone, Debug)]
pub struct AcceptedDelivery {
    pub id: String,
    pub endpoint_id: Arc<str>,
    pub state: State,
}

/// Why nothing was stored, and which event is to blame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    pub index: usize,
    pub why: RefusedWhy,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusedWhy {
    /// The id is taken by an event with other content (S21).
    Conflict,
    /// `endpoint_ids[…]` names no endpoint of this tenant.
    UnknownEndpoint(usize),
    /// `endpoint_ids[…]` does not subscribe to this type.
    NotSubscribed(usize),
    /// With this event they would have more than `max_deliveries`; those before it would not.
    TooManyDeliveries,
}
