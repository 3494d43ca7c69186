//! `GET /endpoints/{id}/status`: what the actor knows now and what the rows say.

use serde_json::{Value, json};

use super::deliveries::attempt_json;
use crate::domain::hold::NextReason;
use crate::domain::ids::{DeliveryNo, delivery_id};
use crate::domain::time::Timestamp;
use crate::engine::Live;
use crate::store::endpoint_record::EndpointRecord;
use crate::store::list::EndpointFound;
use crate::store::rows::maybe_at;

pub fn answer(
    record: &EndpointRecord,
    found: &EndpointFound,
    live: &Live,
    next: Option<(Timestamp, NextReason)>,
    now: Timestamp,
) -> Value {
    let row = &found.health;
    let (health, circuit) = (row.health(), row.circuit());
    let last = found.last_attempt.as_ref().map(|(created_at, attempt)| {
        let mut shown = attempt_json::of_row(attempt);
        shown["delivery_id"] = Value::from(delivery_id(DeliveryNo(attempt.delivery), *created_at));
        shown
    });
    json!({
        "endpoint_id": &*record.id,
        "status": record.status,
        "circuit": {
            "state": circuit.state(now),
            "opened_at": circuit.opened_at(),
            "retry_at": circuit.retry_at(),
        },
        "failure_streak": {"failures": health.failures, "since": health.failing_since},
        "exhausted_streak": health.exhausted,
        "queue": {"pending": row.pending, "failed": row.failed, "in_flight": live.in_flight, "dead": row.dead},
        "next_retry_at": next.map(|next| next.0),
        "next_retry_reason": next.map(|next| next.1),
        "last_success_at": maybe_at(row.last_success_at),
        "last_failure_at": maybe_at(row.last_failure_at),
        "last_attempt": last,
    })
}
