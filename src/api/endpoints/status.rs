//! `GET /endpoints/{id}/status`: what the endpoint's actor knows now, and what its rows say.

use actix_web::HttpRequest;
use actix_web::web::{Data, Path};
use serde::Serialize;

use super::find;
use crate::api::attempts::AttemptJson;
use crate::api::auth::Reader;
use crate::api::problem::{Answer, Problem};
use crate::api::query::Query;
use crate::api::{Api, answer};
use crate::domain::delivery::Line;
use crate::domain::endpoint::Status;
use crate::domain::health::CircuitState;
use crate::domain::hold::{NextReason, next_retry};
use crate::domain::ids::{DeliveryNo, EndpointNo};
use crate::domain::time::Timestamp;
use crate::store::list::{EndpointFound, NextDue};
use crate::store::rows::maybe_at;

#[derive(Serialize)]
struct StatusJson<'a> {
    endpoint_id: &'a str,
    status: Status,
    circuit: CircuitJson,
    failure_streak: StreakJson,
    exhausted_streak: u32,
    queue: QueueJson,
    next_retry_at: Option<Timestamp>,
    next_retry_reason: Option<NextReason>,
    last_success_at: Option<Timestamp>,
    last_failure_at: Option<Timestamp>,
    last_attempt: Option<AttemptJson<'a>>,
}

#[derive(Serialize)]
struct CircuitJson {
    state: CircuitState,
    opened_at: Option<Timestamp>,
    /// Stays until the probe is judged.
    retry_at: Option<Timestamp>,
}

#[derive(Serialize)]
struct StreakJson {
    failures: u32,
    since: Option<Timestamp>,
}

#[derive(Serialize)]
struct QueueJson {
    pending: i64,
    failed: i64,
    /// Part of the two above.
    in_flight: i64,
    dead: i64,
}

pub async fn get(api: Data<Api>, Reader(caller): Reader, request: HttpRequest, id: Path<String>) -> Answer {
    Query::none(&request)?;
    let no = EndpointNo(find(&api, caller.tenant, &id).await?.endpoint.no);
    // New deliveries are counted a little late.
    api.store.file(no).await?;
    let found = find(&api, caller.tenant, &id).await?;
    let unreadable = || Problem::unavailable("The endpoint's row cannot be read.");
    let status = Status::parse(&found.endpoint.status).ok_or_else(unreadable)?;
    let live = api.engine.live(EndpointNo(found.endpoint.no)).await.unwrap_or_default();
    let next = match status {
        Status::Enabled => next(&api, &found, live.on_the_wire.clone()).await?,
        Status::Disabled | Status::AutoDisabled => None,
    };
    let (row, health, now) = (&found.health, found.health.health(), api.store.clock().now());
    answer::ok(&StatusJson {
        endpoint_id: &found.endpoint.id,
        status,
        circuit: CircuitJson {
            state: health.circuit.state(now),
            opened_at: health.circuit.opened_at(),
            retry_at: health.circuit.retry_at(),
        },
        failure_streak: StreakJson { failures: health.failures, since: health.failing_since },
        exhausted_streak: health.exhausted,
        queue: QueueJson {
            pending: row.pending,
            failed: row.failed,
            // The actor was asked a moment after the rows.
            in_flight: i64::try_from(live.in_flight).unwrap_or(i64::MAX).min(row.pending + row.failed),
            dead: row.dead,
        },
        next_retry_at: next.map(|(at, _)| at),
        next_retry_reason: next.map(|(_, reason)| reason),
        last_success_at: maybe_at(row.last_success_at),
        last_failure_at: maybe_at(row.last_failure_at),
        last_attempt: (found.last_attempt.as_ref())
            .map(|(created_at, attempt)| AttemptJson::with_delivery(attempt, *created_at)),
    })
}

/// From when the endpoint's next attempt may start, and why not earlier (S10).
async fn next(
    api: &Api,
    found: &EndpointFound,
    on_the_wire: Vec<DeliveryNo>,
) -> Result<Option<(Timestamp, NextReason)>, Problem> {
    let endpoint = EndpointNo(found.endpoint.no);
    let question = NextDue { endpoint, cut: found.endpoint.cut.unsigned_abs(), on_the_wire };
    let due = api.store.ask(question).await?;
    Ok(due.map(|due| next_retry(due.due_at, due.reason, due.line == Line::Single, found.health.circuit())))
}
