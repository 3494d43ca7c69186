//! Policies, notifications, health: the small resources.

use actix_web::web::{Data, Path, Payload};
use actix_web::{HttpRequest, HttpResponse};
use serde_json::{Value, json};

use super::auth::Right;
use super::cursor::List;
use super::idempotency::{self, once};
use super::problem::{Answer, Problem};
use super::query::Query;
use super::{Api, body, endpoints, limits, page_body};
use crate::domain::policy::{Policy, Preset};
use crate::domain::policy_json::policy_json;
use crate::domain::simulate_request::SimulateRequest;
use crate::store::change::MarkRead;
use crate::store::guard::StoredAnswer;
use crate::store::list::{ListNotifications, OldestDue};
use crate::store::rows::{NotificationRow, at, maybe_at};

/// `GET /policies`: the presets.
pub async fn policies(api: Data<Api>, request: HttpRequest) -> Answer {
    api.caller(&request, Right::Read).await?;
    Query::parse(&request, &["limit", "cursor"])?;
    let presets: Vec<_> = Preset::ALL.iter().map(|&preset| policy_json(&Policy::preset(preset))).collect();
    Ok(HttpResponse::Ok().json(json!({"data": presets, "next_cursor": null})))
}

/// `POST /policies/simulate`: the engine's own decisions on virtual time.
pub async fn simulate(api: Data<Api>, request: HttpRequest, payload: Payload) -> Answer {
    let caller = api.caller(&request, Right::Manage).await?;
    body::must_be_json(&request)?;
    let bytes = body::read(payload, limits::MAX_REQUEST_BYTES, "MAX_REQUEST_BYTES").await?;
    let keyed = idempotency::key(&api, &request, caller, &bytes)?;
    let plan = SimulateRequest::from_json(&body::object(&bytes)?).map_err(Problem::fields)?;
    if let Some(replay) = idempotency::before(&api, keyed.as_ref()).await? {
        return Ok(replay);
    }
    // A long one takes a while; not on the thread that serves others.
    let answer = actix_web::web::block(move || serde_json::to_vec(&plan.answer())).await;
    let Ok(Ok(answer)) = answer else { return Err(Problem::unavailable("The simulation did not end.")) };
    idempotency::remember(&api, keyed.as_ref(), 200, answer).await
}

fn notification(row: &NotificationRow) -> Value {
    json!({
        "id": row.id,
        "kind": row.kind,
        "endpoint_id": row.endpoint,
        "title": row.title,
        "message": row.message,
        "created_at": at(row.created_at),
        "read_at": maybe_at(row.read_at),
    })
}

/// `GET /notifications`
pub async fn notifications(api: Data<Api>, request: HttpRequest) -> Answer {
    let caller = api.caller(&request, Right::Read).await?;
    let query = Query::parse(&request, &["limit", "cursor", "unread"])?;
    let page = query.page(caller.tenant, List::Notifications)?;
    let listed = api.store.ask(ListNotifications { page, unread: query.flag("unread")? }).await?;
    page_body(List::Notifications, &listed, notification)
}

/// `POST /notifications/{id}/read`
pub async fn read_notification(api: Data<Api>, request: HttpRequest, id: Path<String>, payload: Payload) -> Answer {
    let caller = api.accepting(&request, Right::Manage).await?;
    let bytes = body::read(payload, limits::MAX_REQUEST_BYTES, "MAX_REQUEST_BYTES").await?;
    let keyed = idempotency::key(&api, &request, caller, &bytes)?;
    endpoints::nothing_in(&body::optional_object(&bytes)?)?;
    let read = MarkRead { tenant: caller.tenant, id: id.into_inner(), now: api.store.clock().now() };
    let compose = |reply: &Option<NotificationRow>| {
        let body = notification(reply.as_ref()?).to_string().into_bytes();
        Some(StoredAnswer { status: 200, body })
    };
    match once(&api, keyed.as_ref(), read, compose).await? {
        Err(replay) => Ok(replay),
        Ok(Some(row)) => Ok(HttpResponse::Ok().json(notification(&row))),
        Ok(None) => Err(Problem::not_found("notification")),
    }
}

/// `GET /healthz`: the process is alive.
pub async fn healthz() -> HttpResponse {
    HttpResponse::Ok().json(json!({"status": "ok"}))
}

/// `GET /readyz`: the store can be written to, the loops tick, nobody is draining.
pub async fn readyz(api: Data<Api>) -> HttpResponse {
    let clock = api.store.clock();
    let writable = api.store.write(crate::store::change::KeepAnchor(clock.anchor())).await.is_ok();
    let oldest = api.store.ask(OldestDue).await.ok().flatten();
    let age = oldest.map_or(0, |due| clock.now().since(due).as_millis());
    let (ticking, draining) = (api.engine.is_ticking(), api.engine.is_draining());
    let ready = writable && ticking && !draining;
    let body = json!({
        "status": if ready { "ready" } else { "not_ready" },
        "store": if writable { "ok" } else { "failing" },
        "loops": if ticking { "ok" } else { "stalled" },
        "draining": draining,
        "oldest_due_age_ms": age,
    });
    if ready { HttpResponse::Ok().json(body) } else { HttpResponse::ServiceUnavailable().json(body) }
}
