//! Deliveries: lists, one with its attempts, retry.

use actix_web::web::{Data, Path, Payload};
use actix_web::{HttpRequest, HttpResponse};
use serde::Serialize;
use serde_json::Value;

use super::auth::{Caller, Right};
use super::cursor::{self, List};
use super::idempotency::{self, json, once};
use super::problem::{Answer, Code, Problem};
use super::query::Query;
use super::{Api, body, detached, endpoints, limits, page_body};
use crate::domain::attempt::ErrorKind;
use crate::domain::delivery::{DeadReason, Line, State};
use crate::domain::hold::{NextReason, next_retry};
use crate::domain::ids::{DeliveryNo, EndpointNo, TenantNo, parse_delivery_id};
use crate::domain::time::Timestamp;
use crate::engine::LockRefused;
use crate::store::change::{Door, NotPutBack, PutBack, PutBackReply};
use crate::store::guard::StoredAnswer;
use crate::store::list::{DeliveryFilter, FindDelivery, From, ListAttempts, ListDeliveries, Listed};
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
}

/// A delivery as people see it: holds are derived now (S10).
pub fn delivery(view: &DeliveryView) -> DeliveryJson<'_> {
    let waits = view.state.waits();
    let next = waits.then(|| next_retry(view.due_at, view.due_reason, view.line == Line::Single, view.circuit));
    DeliveryJson {
        id: view.id(),
        event_id: &view.event_id,
        event_type: &view.event_type,
        endpoint_id: &view.endpoint_id,
        state: view.state,
        run: view.run,
        attempt: view.attempt,
        attempts_total: view.attempts_total,
        next_retry_at: next.map(|next| next.0),
        next_retry_reason: next.map(|next| next.1),
        dead_reason: view.dead_reason,
        dead_at: view.dead_at,
        replayable_until: view.replayable_until,
        last_status: view.last_status,
        last_error_kind: view.last_error_kind.as_deref(),
        created_at: view.created_at,
        updated_at: view.updated_at,
        delivered_at: view.delivered_at,
    }
}

/// Attempts as they are answered.
pub mod attempt_json {
    use serde_json::{Value, json};

    use crate::domain::attempt::{Attempt, Finding, Outcome};
    use crate::domain::ids::{DeliveryNo, attempt_id};
    use crate::domain::time::Span;
    use crate::store::rows::{AttemptRow, at};

    fn millis(micros: Option<i64>) -> Option<f64> {
        micros.map(|micros| micros as f64 / 1_000.0)
    }

    /// One of a delivery's attempts. The excerpt's bytes are shown as text; what is no UTF-8 is replaced.
    pub fn of_row(row: &AttemptRow) -> Value {
        let started_at = at(row.started_at);
        json!({
            "id": attempt_id(DeliveryNo(row.delivery), row.number.unsigned_abs(), started_at),
            "run": row.run,
            "attempt": row.attempt,
            "trigger": row.cause,
            "started_at": started_at,
            "duration_ms": millis(Some(row.duration)),
            "timing": {
                "dns_ms": millis(row.dns),
                "connect_ms": millis(row.connect),
                "tls_ms": millis(row.tls),
                "first_byte_ms": millis(row.first_byte),
            },
            "remote_addr": row.remote_addr,
            "url": row.url,
            "status": row.status,
            "error_kind": row.error_kind,
            "error": row.error,
            "excerpt": String::from_utf8_lossy(&row.excerpt),
            "excerpt_truncated": row.excerpt_truncated,
            "outcome": row.outcome,
        })
    }

    /// The attempt of a ping, which is stored nowhere.
    pub fn of_ping(id: &str, attempt: &Attempt) -> Value {
        let report = &attempt.report;
        let phase = |span: Option<Span>| millis(span.map(Span::as_micros));
        let (excerpt, truncated) = match &report.finding {
            Finding::Answered(answer) => (String::from_utf8_lossy(&answer.excerpt), answer.excerpt_truncated),
            _ => ("".into(), false),
        };
        let (kind, error) = match &report.finding {
            Finding::Failed { kind, error } => (Some(*kind), Some(*error)),
            Finding::Local { reason } => (None, Some(*reason)),
            Finding::Answered(_) => (None, None),
        };
        let outcome = if report.finding.is_success() { Outcome::Delivered } else { Outcome::Retry };
        json!({
            "id": id,
            "run": 1,
            "attempt": 1,
            "trigger": attempt.trigger,
            "started_at": attempt.started_at,
            "duration_ms": millis(Some(report.took.as_micros())),
            "timing": {
                "dns_ms": phase(report.timing.dns),
                "connect_ms": phase(report.timing.connect),
                "tls_ms": phase(report.timing.tls),
                "first_byte_ms": phase(report.timing.first_byte),
            },
            "remote_addr": report.remote_addr.map(|addr| addr.to_string()),
            "url": &*attempt.url,
            "status": report.finding.status(),
            "error_kind": kind,
            "error": error,
            "excerpt": excerpt,
            "excerpt_truncated": truncated,
            "outcome": outcome,
        })
    }
}

/// The delivery with this id, or 404.
pub async fn find(api: &Api, tenant: TenantNo, id: &str) -> Result<DeliveryView, Problem> {
    let missing = || Problem::not_found("delivery");
    let no = parse_delivery_id(id).ok_or_else(missing)?;
    let found = api.store.ask(FindDelivery { tenant, delivery: no }).await?;
    found.filter(|view| view.id() == id).ok_or_else(missing)
}

/// The endpoint that a filter names: its number, or none if there is no such endpoint (and so nothing to list).
pub async fn endpoint_filter(api: &Api, tenant: TenantNo, query: &Query) -> Result<Option<EndpointNo>, Problem> {
    match query.text("endpoint_id") {
        None => Ok(None),
        Some(id) => Ok(Some(endpoints::find(api, tenant, id).await?.0.no)),
    }
}

/// `GET /deliveries`
pub async fn list(api: Data<Api>, request: HttpRequest) -> Answer {
    let caller = api.caller(&request, Right::Read).await?;
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
    let query = Query::parse(&request, &known)?;
    let kinds: Vec<&str> = ErrorKind::ALL.iter().map(|kind| kind.as_str()).collect();
    let filter = DeliveryFilter {
        state: query.parsed("state", "pending, failed, delivered or dead", State::parse)?,
        endpoint: endpoint_filter(&api, caller.tenant, &query).await?,
        event_id: query.text("event_id").map(str::to_owned),
        event_type: query.text("event_type").map(str::to_owned),
        status: query.parsed("status", "a status from 200 to 599", |text| {
            text.parse().ok().filter(|status| (200..=599).contains(status))
        })?,
        error_kind: query
            .parsed("error_kind", &format!("one of {}", kinds.join(", ")), ErrorKind::parse)?
            .map(ErrorKind::as_str),
        created_after: query.instant("created_after")?,
        created_before: query.instant("created_before")?,
        ..DeliveryFilter::default()
    };
    let page = query.page(caller.tenant, List::Deliveries)?;
    let listed = api.store.ask(ListDeliveries { page, filter }).await?;
    page_body(List::Deliveries, &listed, |view| serde_json::to_value(delivery(view)).unwrap_or_default())
}

/// `GET /deliveries/{id}`
pub async fn get(api: Data<Api>, request: HttpRequest, id: Path<String>) -> Answer {
    let caller = api.caller(&request, Right::Read).await?;
    Query::parse(&request, &[])?;
    let view = find(&api, caller.tenant, &id).await?;
    let question =
        ListAttempts { tenant: caller.tenant, delivery: view.no, before: None, limit: limits::DELIVERY_ATTEMPTS };
    let newest_first = api.store.ask(question).await?;
    let mut body = serde_json::to_value(delivery(&view)).unwrap_or_default();
    body["attempts"] = newest_first.iter().rev().map(attempt_json::of_row).collect();
    Ok(HttpResponse::Ok().json(body))
}

/// `GET /deliveries/{id}/attempts`: newest first.
pub async fn attempts(api: Data<Api>, request: HttpRequest, id: Path<String>) -> Answer {
    let caller = api.caller(&request, Right::Read).await?;
    let query = Query::parse(&request, &["limit", "cursor"])?;
    let page = query.page(caller.tenant, List::Attempts)?;
    let view = find(&api, caller.tenant, &id).await?;
    let before = match page.from {
        From::Newest { before } => before,
        From::Changed { .. } => None,
    };
    let question = ListAttempts { tenant: caller.tenant, delivery: view.no, before, limit: page.limit + 1 };
    let mut rows = api.store.ask(question).await?;
    let more = rows.len() as i64 > page.limit;
    rows.truncate(page.limit as usize);
    let end = From::Newest { before: rows.last().map(|row| i64::from(row.number)) };
    page_body(List::Attempts, &Listed { rows, more, end }, attempt_json::of_row)
}

/// `POST /deliveries/{id}/retry`
pub async fn retry(api: Data<Api>, request: HttpRequest, id: Path<String>, payload: Payload) -> Answer {
    put_back(api, request, &id, payload, Door::Retry).await
}

/// Puts one delivery back through either door (S12).
pub async fn put_back(api: Data<Api>, request: HttpRequest, id: &str, payload: Payload, door: Door) -> Answer {
    let caller: Caller = api.accepting(&request, Right::Manage).await?;
    let bytes = body::read(payload, limits::MAX_REQUEST_BYTES, "MAX_REQUEST_BYTES").await?;
    let keyed = idempotency::key(&api, &request, caller, &bytes)?;
    endpoints::nothing_in(&body::optional_object(&bytes)?)?;
    if let Some(replay) = idempotency::before(&api, keyed.as_ref()).await? {
        return Ok(replay);
    }
    let view = find(&api, caller.tenant, id).await?;
    let (delivery_no, endpoint): (DeliveryNo, EndpointNo) = (view.no, view.endpoint);
    detached(async move {
        let locked = match api.engine.lock(endpoint, delivery_no).await {
            Ok(locked) => locked,
            Err(LockRefused::OnTheWire) => {
                return Err(Problem::new(Code::Conflict, "An attempt of this delivery is on the wire."));
            }
            Err(LockRefused::Unavailable) => return Err(Problem::unavailable("This process is shutting down.")),
        };
        let now = api.store.clock().now();
        let sentence = PutBack { tenant: caller.tenant, delivery: delivery_no, door, now };
        let compose = |reply: &PutBackReply| {
            let body = shown(&reply.as_ref().ok()?.0);
            Some(StoredAnswer { status: 202, body })
        };
        match once(&api, keyed.as_ref(), sentence, compose).await? {
            Err(replay) => Ok(replay),
            Ok(Ok((view, waiting))) => {
                locked.done(Some(waiting));
                Ok(json(202, shown(&view)))
            }
            Ok(Err(why)) => Err(refused(why)),
        }
    })
    .await
}

fn shown(view: &DeliveryView) -> Vec<u8> {
    serde_json::to_vec(&delivery(view)).unwrap_or_default()
}

fn refused(why: NotPutBack) -> Problem {
    match why {
        NotPutBack::NotFound => Problem::not_found("dead delivery"),
        NotPutBack::EndpointDisabled => {
            Problem::new(Code::EndpointDisabled, "The delivery's endpoint is disabled; enable it first.")
        }
        NotPutBack::Expired => {
            Problem::new(Code::Conflict, "The delivery is past its replayable_until and cannot be requeued.")
        }
    }
}

/// The `data` and cursors of a list's page.
pub fn cursors<T>(list: List, listed: &Listed<T>) -> (Value, Option<Value>) {
    let next = if listed.more { Value::from(cursor::encode(list, listed.end)) } else { Value::Null };
    let resume = matches!(listed.end, From::Changed { .. }).then(|| Value::from(cursor::encode(list, listed.end)));
    (next, resume)
}
