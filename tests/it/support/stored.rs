//! What tests of the store alone put into it.

use posthaste::domain::event::{EventId, compose_body};
use posthaste::domain::event_type::EventType;
use posthaste::domain::time::Timestamp;
use posthaste::store::DEFAULT_TENANT;
use posthaste::store::accept::NewEvent;
use posthaste::store::rows::EndpointRow;

/// An enabled endpoint that wants these types (JSON).
pub fn endpoint_row(id: impl Into<String>, event_types: &str) -> EndpointRow {
    EndpointRow {
        no: 0,
        tenant: DEFAULT_TENANT.0,
        id: id.into(),
        version: 1,
        url: "https://receiver.example/".into(),
        description: String::new(),
        event_types: event_types.into(),
        policy: "\"orbit\"".into(),
        max_in_flight: 16,
        header_prefix: None,
        headers: Vec::new(),
        secrets: Vec::new(),
        metadata: "{}".into(),
        status: "enabled".into(),
        disabled_reason: None,
        disabled_at: None,
        cut: 0,
        counted_from: 0,
        deleted_at: None,
        created_at: 0,
        updated_at: 0,
    }
}

/// An event as the API hands it over, for every endpoint that wants it.
pub fn new_event(id: &str, event_type: &str, now: Timestamp) -> NewEvent {
    let id = EventId::parse(id).expect("an id");
    let event_type = EventType::parse(event_type).expect("a type");
    let (body, data_start) = compose_body(&id, &event_type, now, "1");
    let (created_at, received_at, endpoint_ids) = (now, now, None);
    NewEvent { id, generated: false, event_type, created_at, received_at, body, data_start, endpoint_ids }
}
