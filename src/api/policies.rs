//! `GET /policies` and `POST /policies/simulate`.

use actix_web::HttpRequest;
use actix_web::http::StatusCode;
use actix_web::web::{Data, Payload};

use super::auth::{Manager, Reader};
use super::cursor::List;
use super::json::{self, Document};
use super::problem::{Answer, Problem};
use super::query::Query;
use super::{Api, answer, body, detached, idempotency, limits};
use crate::domain::field_error::FieldErrors;
use crate::domain::policy::{Policy, Preset};
use crate::domain::policy_json::policy_json;
use crate::domain::simulate_request::SimulateRequest;
use crate::store::list::{From, Listed};

/// `GET /policies`: the presets, resolved. Three of them, but a list like any other.
pub async fn list(Reader(caller): Reader, request: HttpRequest) -> Answer {
    let mut query = Query::of(&request, &["limit", "cursor"]);
    let page = query.page(caller.tenant, List::Policies);
    query.finish()?;
    // The place of a preset in the list is its number.
    let start = match page.from {
        From::Newest { before: Some(before) } => usize::try_from(before).unwrap_or_default(),
        _ => 0,
    };
    let rows: Vec<Preset> = Preset::ALL.iter().skip(start).take(page.limit as usize).copied().collect();
    let end = start.saturating_add(rows.len());
    let end_place = From::Newest { before: Some(end as i64) };
    let listed = Listed { rows, more: end < Preset::ALL.len(), end: end_place };
    answer::page(List::Policies, &listed, |&preset| policy_json(&Policy::preset(preset)))
}

/// `POST /policies/simulate`: the engine's own decisions on virtual time; nothing is stored.
pub async fn simulate(api: Data<Api>, Manager(caller): Manager, request: HttpRequest, payload: Payload) -> Answer {
    Query::none(&request)?;
    let body = body::read(&api, &request, payload, limits::REQUEST_BYTES).await?;
    let keyed = idempotency::key(&api, &request, caller, &body.bytes)?;
    let simulation = read(&body.bytes)?;
    detached(async move {
        if let Some(answer) = idempotency::before(&api, keyed.as_ref()).await? {
            return Ok(answer);
        }
        // A thousand events take a while: not on the thread that serves others.
        let timeline = actix_web::web::block(move || answer::body(&simulation.answer())).await;
        let timeline = timeline.map_err(|_| Problem::draining())?;
        idempotency::answer_and_remember(&api, keyed.as_ref(), StatusCode::OK, timeline).await
    })
    .await
}

fn read(body: &[u8]) -> Result<SimulateRequest, Problem> {
    let mut errors = FieldErrors::default();
    let document = json::text(body, &mut errors).and_then(|text| Document::read(text, "", &mut errors));
    let value = document.and_then(|document| document.value(&mut errors));
    // What is no value leaves nothing to look at; what is one is looked at to its end.
    let value = errors.finish(value).map_err(Problem::invalid)?;
    SimulateRequest::from_json(&value).map_err(Problem::invalid)
}
