//! Events as they are answered.

use serde::Serialize;
use serde_json::value::RawValue;

use crate::api::deliveries::DeliveryJson;
use crate::domain::delivery::State;
use crate::domain::time::Timestamp;
use crate::store::accept::{Accepted, AcceptedDelivery};
use crate::store::list::{EventFound, EventSummary, StateCounts};

/// The answer to a posted event.
#[derive(Serialize)]
pub struct AcceptedJson<'a> {
    id: &'a str,
    r#type: &'a str,
    created_at: Timestamp,
    received_at: Timestamp,
    duplicate: bool,
    deliveries: Vec<AcceptedDeliveryJson<'a>>,
}

#[derive(Serialize)]
struct AcceptedDeliveryJson<'a> {
    id: &'a str,
    endpoint_id: &'a str,
    state: State,
}

impl<'a> From<&'a AcceptedDelivery> for AcceptedDeliveryJson<'a> {
    fn from(delivery: &'a AcceptedDelivery) -> Self {
        AcceptedDeliveryJson { id: &delivery.id, endpoint_id: &delivery.endpoint_id, state: delivery.state }
    }
}

impl<'a> From<&'a Accepted> for AcceptedJson<'a> {
    fn from(event: &'a Accepted) -> Self {
        AcceptedJson {
            id: event.id.as_str(),
            r#type: event.event_type.as_str(),
            created_at: event.created_at,
            received_at: event.received_at,
            duplicate: event.duplicate,
            deliveries: event.deliveries.iter().map(AcceptedDeliveryJson::from).collect(),
        }
    }
}

/// The answer to a batch.
#[derive(Serialize)]
pub struct AcceptedBatchJson<'a> {
    events: Vec<AcceptedJson<'a>>,
}

impl<'a> From<&'a [Accepted]> for AcceptedBatchJson<'a> {
    fn from(events: &'a [Accepted]) -> Self {
        AcceptedBatchJson { events: events.iter().map(AcceptedJson::from).collect() }
    }
}

/// How many deliveries are in which state.
#[derive(Serialize)]
struct CountsJson {
    pending: u64,
    failed: u64,
    delivered: u64,
    dead: u64,
}

impl From<StateCounts> for CountsJson {
    fn from(counts: StateCounts) -> Self {
        let StateCounts { pending, failed, delivered, dead } = counts;
        CountsJson { pending, failed, delivered, dead }
    }
}

/// An event in a list.
#[derive(Serialize)]
pub struct SummaryJson<'a> {
    id: &'a str,
    r#type: &'a str,
    created_at: Timestamp,
    received_at: Timestamp,
    updated_at: Timestamp,
    /// Bytes of the body that receivers get.
    size: i64,
    deliveries: CountsJson,
}

impl<'a> From<&'a EventSummary> for SummaryJson<'a> {
    fn from(event: &'a EventSummary) -> Self {
        SummaryJson {
            id: &event.id,
            r#type: &event.event_type,
            created_at: event.created_at,
            received_at: event.received_at,
            updated_at: event.updated_at,
            size: event.size,
            deliveries: event.counts.into(),
        }
    }
}

/// One event with all that belongs to it. Its deliveries are shown one by one here, so their counts have a name of their
/// own.
#[derive(Serialize)]
pub struct EventJson<'a> {
    id: &'a str,
    r#type: &'a str,
    created_at: Timestamp,
    received_at: Timestamp,
    updated_at: Timestamp,
    size: i64,
    counts: CountsJson,
    /// The same bytes that were posted (S2, C32).
    data: &'a RawValue,
    deliveries: Vec<DeliveryJson<'a>>,
}

impl<'a> EventJson<'a> {
    /// `None` if the stored bytes are not JSON; only a hand in the database does that.
    pub fn new(found: &'a EventFound) -> Option<EventJson<'a>> {
        let event = &found.summary;
        Some(EventJson {
            id: &event.id,
            r#type: &event.event_type,
            created_at: event.created_at,
            received_at: event.received_at,
            updated_at: event.updated_at,
            size: event.size,
            counts: event.counts.into(),
            data: serde_json::from_slice(&found.data).ok()?,
            deliveries: found.deliveries.iter().map(DeliveryJson::from).collect(),
        })
    }
}
