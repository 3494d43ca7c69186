//! `GET /deliveries`, `GET /deliveries/{id}`, its attempts, `POST /deliveries/{id}/retry`; and what `/dlq` shares with
//! them.

use actix_web::http::StatusCode;
use actix_web::web::{Data, Path, Payload};
use actix_web::{HttpRequest, HttpResponse};
use serde::Serialize;

use super::attempts::AttemptJson;
use super::auth::{Caller, Manager, Reader};
use super::cursor::List;
use super::idempotency::{self, Keyed, Outcome};
use super::json::Document;
use super::problem::{Answer, Code, Problem};
use super::query::Query;
use super::{Api, answer, body, detached, json, limits};
use crate::domain::attempt::ErrorKind;
use crate::domain::delivery::{DeadReason, Line, State};
use crate::domain::field_error::FieldErrors;
use crate::domain::hold::{NextReason, next_retry};
use crate::domain::ids::{EndpointNo, TenantNo, parse_delivery_id};
use crate::domain::time::Timestamp;
use crate::engine::LockRefused;
use crate::store::change::{Door, NotPutBack, PutBack, PutBackReply};
use crate::store::list::{
    DeliveryFilter, FindDelivery, FindEndpoint, From as ListFrom, ListAttempts, ListDeliveries, Listed,
};
use crate::store::view::DeliveryView;

/// A delivery as it is answered.
#[derive(Serialize)]
pub struct DeliveryJson<'a> {
    id: String,
    event_id: &'a str,
    event_type: &'a str,
    endpoint_id: &'a str,
    state: State,
    run: u32,
    attempt: u32,
    attempts_total: u32,
    next_retry_at: Option<Timestamp>,
    next_retry_reason: Option<NextReason>,
    dead_reason: Option<DeadReason>,
    dead_at: Option<Timestamp>,
    replayable_until: Option<Timestamp>,
    last_status: Option<u16>,
    last_error_kind: Option<&'a str>,
    created_at: Timestamp,
    updated_at: Timestamp,
    delivered_at: Option<Timestamp>,
    /// Only where one delivery is asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    attempts: Option<Vec<AttemptJson<'a>>>,
}

impl<'a> From<&'a DeliveryView> for DeliveryJson<'a> {
    fn from(view: &'a DeliveryView) -> Self {
        // S10: derived now, and null where nothing is to come.
        let single = view.line == Line::Single;
        let next = view.state.waits().then(|| next_retry(view.due_at, view.due_reason, single, view.circuit));
        DeliveryJson {
            id: view.id(),
            event_id: &view.event_id,
            event_type: &view.event_type,
            endpoint_id: &view.endpoint_id,
            state: view.state,
            run: view.run,
            attempt: view.attempt,
            attempts_total: view.attempts_total,
            next_retry_at: next.map(|(at, _)| at),
            next_retry_reason: next.map(|(_, reason)| reason),
            dead_reason: view.dead_reason,
            dead_at: view.dead_at,
            replayable_until: view.replayable_until,
            last_status: view.last_status,
            last_error_kind: view.last_error_kind.as_deref(),
            created_at: view.created_at,
            updated_at: view.updated_at,
            delivered_at: view.delivered_at,
            attempts: None,
        }
    }
}

/// The delivery with this id, if it is the caller's.
async fn find(api: &Api, tenant: TenantNo, id: &str) -> Result<DeliveryView, Problem> {
    let missing = || Problem::not_found("delivery");
    let delivery = parse_delivery_id(id).ok_or_else(missing)?;
    let found = api.store.ask(FindDelivery { tenant, delivery }).await?;
    // The number leads to the row; the rest of the id must be right too.
    found.filter(|view| view.id() == id).ok_or_else(missing)
}

/// `GET /deliveries`.
pub async fn list(api: Data<Api>, Reader(caller): Reader, request: HttpRequest) -> Answer {
    let known = [
        "limit",
        "cursor",
        "updated_after",
        "state",
        "endpoint_id",
        "event_id",
        "event_type",
        "status",
        "error_kind",
        "created_after",
        "created_before",
    ];
    let mut query = Query::of(&request, &known);
    let (created_after, created_before) = query.created();
    let endpoint_id = query.id("endpoint_id");
    let filter = DeliveryFilter {
        state: query.word("state", State::ALL, State::as_str),
        event_id: query.id("event_id"),
        event_type: query.event_type("event_type").map(|event_type| event_type.as_str().to_owned()),
        status: query.number("status", 100..=999).and_then(|status| u16::try_from(status).ok()),
        error_kind: query.word("error_kind", ErrorKind::ALL, ErrorKind::as_str).map(ErrorKind::as_str),
        created_after,
        created_before,
        ..DeliveryFilter::default()
    };
    let page = query.page(caller.tenant, List::Deliveries);
    query.finish()?;
    let filter = DeliveryFilter { endpoint: endpoint(&api, caller, endpoint_id).await?, ..filter };
    let listed = api.store.ask(ListDeliveries { page, filter }).await?;
    answer::page(List::Deliveries, &listed, DeliveryJson::from)
}

/// The endpoint that a filter names. One that is not there has no deliveries, so it becomes a number that no endpoint
/// has: the list is empty, as with any other filter that nothing meets.
pub async fn endpoint(api: &Api, caller: Caller, id: Option<String>) -> Result<Option<EndpointNo>, Problem> {
    let Some(id) = id else { return Ok(None) };
    let found = api.store.ask(FindEndpoint { tenant: caller.tenant, id }).await?;
    Ok(Some(found.map_or(EndpointNo(0), |found| EndpointNo(found.endpoint.no))))
}

/// `GET /deliveries/{id}`: with its newest attempts, the oldest of them first.
pub async fn get(api: Data<Api>, Reader(caller): Reader, request: HttpRequest, id: Path<String>) -> Answer {
    Query::none(&request)?;
    let view = find(&api, caller.tenant, &id).await?;
    let newest =
        ListAttempts { tenant: caller.tenant, delivery: view.no, before: None, limit: limits::DELIVERY_ATTEMPTS };
    let attempts = api.store.ask(newest).await?;
    let attempts = attempts.iter().rev().map(AttemptJson::from).collect();
    answer::ok(&DeliveryJson { attempts: Some(attempts), ..DeliveryJson::from(&view) })
}

/// `GET /deliveries/{id}/attempts`: newest first.
pub async fn attempts(api: Data<Api>, Reader(caller): Reader, request: HttpRequest, id: Path<String>) -> Answer {
    let mut query = Query::of(&request, &["limit", "cursor"]);
    let page = query.page(caller.tenant, List::Attempts);
    query.finish()?;
    let view = find(&api, caller.tenant, &id).await?;
    let before = match page.from {
        ListFrom::Newest { before } => before,
        ListFrom::Changed { .. } => None,
    };
    let question = ListAttempts { tenant: caller.tenant, delivery: view.no, before, limit: page.limit + 1 };
    let mut rows = api.store.ask(question).await?;
    let more = rows.len() as i64 > page.limit;
    rows.truncate(page.limit as usize);
    let end = ListFrom::Newest { before: rows.last().map(|row| i64::from(row.number)) };
    answer::page(List::Attempts, &Listed { rows, more, end }, AttemptJson::from)
}

/// `POST /deliveries/{id}/retry`.
pub async fn retry(
    api: Data<Api>,
    Manager(caller): Manager,
    request: HttpRequest,
    id: Path<String>,
    payload: Payload,
) -> Answer {
    put_back(api, caller, request, id.into_inner(), payload, Door::Retry).await
}

/// Puts one delivery back through either door (S12): 202 with the delivery as it stands then.
pub async fn put_back(
    api: Data<Api>,
    caller: Caller,
    request: HttpRequest,
    id: String,
    payload: Payload,
    door: Door,
) -> Answer {
    Query::none(&request)?;
    let body = body::read(&api, &request, payload, limits::REQUEST_BYTES).await?;
    let keyed = idempotency::key(&api, &request, caller, &body.bytes)?;
    nothing_in(&body.bytes)?;
    detached(async move {
        match idempotency::before(&api, keyed.as_ref()).await? {
            Some(answer) => Ok(answer),
            None => put_back_now(&api, caller, &id, door, keyed.as_ref()).await,
        }
    })
    .await
}

async fn put_back_now(
    api: &Api,
    caller: Caller,
    id: &str,
    door: Door,
    keyed: Option<&Keyed>,
) -> Result<HttpResponse, Problem> {
    let view = find(api, caller.tenant, id).await?;
    // The store asks again; but what is no dead letter is none, also while it is on the wire.
    if door == Door::Requeue && view.state != State::Dead {
        return Err(not_put_back(NotPutBack::NotFound, door));
    }
    // While it is locked no attempt of it starts; were one on the wire, its result would meet a row of another run.
    let locked = api.engine.lock(view.endpoint, view.no).await.map_err(|refused| match refused {
        LockRefused::OnTheWire => Problem::new(Code::Conflict, "An attempt of this delivery is being made right now."),
        LockRefused::Unavailable => Problem::draining(),
    })?;
    let sentence = PutBack { tenant: caller.tenant, delivery: view.no, door, now: api.store.clock().now() };
    let remember = |reply: &PutBackReply| {
        reply.as_ref().ok().map(|(view, _)| answer::stored(StatusCode::ACCEPTED, &DeliveryJson::from(&**view)))
    };
    match idempotency::once(api, keyed, sentence, remember).await? {
        Outcome::Replayed(answer) => Ok(answer),
        Outcome::Done(Ok((view, waiting))) => {
            locked.done(Some(waiting));
            answer::json(StatusCode::ACCEPTED, &DeliveryJson::from(&*view))
        }
        Outcome::Done(Err(why)) => Err(not_put_back(why, door)),
    }
}

fn not_put_back(why: NotPutBack, door: Door) -> Problem {
    match (why, door) {
        (NotPutBack::NotFound, Door::Retry) => Problem::not_found("delivery"),
        (NotPutBack::NotFound, Door::Requeue) => Problem::not_found("dead letter"),
        (NotPutBack::EndpointDisabled, _) => {
            Problem::new(Code::EndpointDisabled, "The endpoint of this delivery is disabled; enable it first.")
        }
        (NotPutBack::Expired, _) => Problem::new(
            Code::Conflict,
            "This dead letter was kept until its replayable_until; it cannot be sent again.",
        ),
    }
}

/// The body of an action that takes nothing.
pub fn nothing_in(body: &[u8]) -> Result<(), Problem> {
    let mut errors = FieldErrors::default();
    let document = json::text(body, &mut errors).and_then(|text| Document::read_action(text, &mut errors));
    if let Some(document) = &document {
        document.only(&[], "", &mut errors);
    }
    errors.finish(document.map(drop)).map_err(Problem::invalid)
}
