//! A store without an engine, and what tests put into it.

use std::sync::Arc;

use posthaste::clock::Clock;
use posthaste::domain::content::ByteBudget;
use posthaste::domain::event::{EventId, compose_body};
use posthaste::domain::event_type::EventType;
use posthaste::domain::time::Timestamp;
use posthaste::store::DEFAULT_TENANT;
use posthaste::store::accept::NewEvent;
use posthaste::store::hint::NoHints;
use posthaste::store::rows::EndpointRow;
use posthaste::store::sqlite::{Writer, WriterHandle, begin, open};

/// A writer on an empty database, which does nothing before it is run.
pub struct Idle {
    pub writer: Writer,
    pub handle: WriterHandle,
    pub clock: Clock,
    /// The database's.
    pub path: String,
    pub folder: tempfile::TempDir,
}

/// `limit`: bytes of acceptances that may queue, and as many of everything else.
pub fn idle_writer(limit: usize) -> Idle {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("test.db").to_string_lossy().into_owned();
    let mut opened = open(&path).expect("a database");
    let clock = Clock::resume(None, Timestamp::MIN, 1.0);
    begin(&mut opened.conn, clock.anchor(), Some(Vec::new())).expect("the anchor is kept");
    let (budget, sink) = (ByteBudget::new(1 << 20), Arc::new(NoHints));
    let writer = Writer::new(opened.conn, clock.clone(), opened.counters, opened.last_stamp, budget, sink, limit);
    let (writer, handle) = writer.expect("a writer");
    Idle { writer, handle, clock, path, folder }
}

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
