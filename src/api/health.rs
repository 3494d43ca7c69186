//! `GET /healthz` and `GET /readyz`: without a key, and without a word about tenants.

use std::sync::{Mutex, PoisonError};

use actix_web::HttpRequest;
use actix_web::http::StatusCode;
use actix_web::http::header::{HeaderValue, RETRY_AFTER};
use actix_web::web::Data;
use serde::Serialize;

use super::problem::Answer;
use super::query::Query;
use super::{Api, answer, limits};
use crate::domain::time::{Span, Timestamp};
use crate::store::change::KeepAnchor;
use crate::store::list::OldestDue;

#[derive(Serialize)]
struct HealthJson {
    status: &'static str,
}

/// `GET /healthz`: the process is alive.
pub async fn healthz(request: HttpRequest) -> Answer {
    Query::none(&request)?;
    answer::ok(&HealthJson { status: "ok" })
}

#[derive(Serialize)]
struct ReadyJson {
    ready: bool,
    /// A commit went through just now.
    store_writable: bool,
    /// The sweeper has found its way through the store lately.
    engine_ticking: bool,
    draining: bool,
    /// How long the longest overdue work has been waiting for its actor, in engine time; null if the store did not say.
    oldest_due_age_ms: Option<i64>,
}

/// What was last found out about the store, and when.
#[derive(Default)]
pub struct StoreCheck(Mutex<Option<(Timestamp, Found)>>);

#[derive(Clone, Copy)]
struct Found {
    writable: bool,
    oldest_due_age: Option<Span>,
}

/// `GET /readyz`: 200 if new events are welcome, else 503.
pub async fn readyz(api: Data<Api>, request: HttpRequest) -> Answer {
    Query::none(&request)?;
    let found = look(&api).await;
    let (engine_ticking, draining) = (api.engine.is_ticking(), api.engine.is_draining());
    let ready = found.writable && engine_ticking && !draining;
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let mut answer = answer::json(
        status,
        &ReadyJson {
            ready,
            store_writable: found.writable,
            engine_ticking,
            draining,
            oldest_due_age_ms: found.oldest_due_age.map(Span::as_millis),
        },
    )?;
    if !ready {
        answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from(1));
    }
    Ok(answer)
}

/// Writes and reads, unless that was done a moment ago: nobody has to show a key here, and a commit costs a sync. What is
/// written is the clock's anchor, which is worth keeping anyway (S25).
async fn look(api: &Api) -> Found {
    let clock = api.store.clock();
    let checked = *api.store_check.0.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((at, found)) = checked
        && clock.now().since(at) < clock.engine_span(limits::READY_CACHE)
    {
        return found;
    }
    let asked = async {
        let writable = api.store.write(KeepAnchor(clock.anchor())).await.is_ok();
        (writable, api.store.ask(OldestDue).await)
    };
    let found = match tokio::time::timeout(limits::READY_PATIENCE, asked).await {
        Ok((writable, oldest)) => Found {
            writable,
            oldest_due_age: oldest.ok().map(|due| due.map_or(Span::ZERO, |due| clock.now().since(due))),
        },
        Err(_) => Found { writable: false, oldest_due_age: None },
    };
    *api.store_check.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((clock.now(), found));
    found
}
