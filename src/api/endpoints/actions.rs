//! `POST /endpoints/{id}/enable` and `/disable`: people's words, in one order with events and verdicts (S15, S16, S26).

use actix_web::HttpRequest;
use actix_web::http::StatusCode;
use actix_web::web::{Data, Path, Payload};
use serde_json::Value;

use super::shown::{EndpointJson, Secret};
use super::written::read_text;
use super::{shown, take_turn};
use crate::api::auth::{Caller, Manager};
use crate::api::deliveries::nothing_in;
use crate::api::idempotency::{self, Keyed, Outcome};
use crate::api::json::{self, Document};
use crate::api::problem::{Answer, Problem};
use crate::api::query::Query;
use crate::api::{Api, answer, body, detached, limits};
use crate::domain::field_error::FieldErrors;
use crate::domain::ids::EndpointNo;
use crate::domain::json_reader::At;
use crate::store::change::{AndShow, Disable, Enable};
use crate::store::rows::EndpointRow;
use crate::store::sentence::Sentence;
use crate::store::sqlite::Conn;

/// The reason of a disable for which none was given.
const NO_REASON: &str = "disabled by a person";

/// `POST /endpoints/{id}/enable`.
pub async fn enable(
    api: Data<Api>,
    Manager(caller): Manager,
    request: HttpRequest,
    id: Path<String>,
    payload: Payload,
) -> Answer {
    Query::none(&request)?;
    let body = body::read(&api, &request, payload, limits::REQUEST_BYTES).await?;
    let keyed = idempotency::key(&api, &request, caller, &body.bytes)?;
    nothing_in(&body.bytes)?;
    detached(async move {
        if let Some(answer) = idempotency::before(&api, keyed.as_ref()).await? {
            return Ok(answer);
        }
        let (endpoint, _turn) = take_turn(&api, caller.tenant, &id).await?;
        let change = Enable { endpoint, tenant: caller.tenant, now: api.store.clock().now() };
        let answer = carry_out(&api, keyed.as_ref(), endpoint, change).await;
        // Whatever the store said, what it did is in the rows.
        api.engine.changed(endpoint).await;
        answer
    })
    .await
}

/// `POST /endpoints/{id}/disable`: answers when nothing starts any more.
pub async fn disable(
    api: Data<Api>,
    Manager(caller): Manager,
    request: HttpRequest,
    id: Path<String>,
    payload: Payload,
) -> Answer {
    Query::none(&request)?;
    let body = body::read(&api, &request, payload, limits::REQUEST_BYTES).await?;
    let keyed = idempotency::key(&api, &request, caller, &body.bytes)?;
    let reason = read_reason(&body.bytes)?;
    detached(async move {
        match idempotency::before(&api, keyed.as_ref()).await? {
            Some(answer) => Ok(answer),
            None => disable_now(&api, caller, &id, reason, keyed.as_ref()).await,
        }
    })
    .await
}

async fn disable_now(api: &Data<Api>, caller: Caller, id: &str, reason: String, keyed: Option<&Keyed>) -> Answer {
    let (endpoint, _turn) = take_turn(api, caller.tenant, id).await?;
    let frozen = api.engine.freeze(endpoint).await.map_err(|_| Problem::draining())?;
    let (now, spared) = (api.store.clock().now(), frozen.spared.clone());
    let change = Disable { endpoint, tenant: caller.tenant, reason, now, spared };
    let answer = carry_out(api, keyed, endpoint, change).await;
    frozen.done().await;
    answer
}

/// Carries a change out and answers with the endpoint as it then stands.
async fn carry_out<S>(api: &Data<Api>, keyed: Option<&Keyed>, endpoint: EndpointNo, change: S) -> Answer
where
    S: Sentence<Conn, Reply = bool>,
{
    let remember = {
        let api = api.clone();
        move |(done, row): &(bool, Option<EndpointRow>)| {
            let record = api.store.decode(row.clone().filter(|_| *done)?).ok()?;
            Some(answer::stored(StatusCode::OK, &EndpointJson::new(&record, &api.rules, Secret::NotPart)))
        }
    };
    match idempotency::once(api, keyed, AndShow { endpoint, change }, remember).await? {
        Outcome::Replayed(answer) => Ok(answer),
        Outcome::Done((true, Some(row))) => shown(api, StatusCode::OK, row),
        // Deleted since it was found.
        Outcome::Done(_) => Err(Problem::not_found("endpoint")),
    }
}

fn read_reason(body: &[u8]) -> Result<String, Problem> {
    let mut errors = FieldErrors::default();
    let text = json::text(body, &mut errors);
    let document = text.and_then(|text| Document::read_action(text, &mut errors));
    let value = document.and_then(|document| document.value(&mut errors));
    let reason = value.as_ref().and_then(|value| reason(value, &mut errors));
    errors.finish(reason).map_err(Problem::invalid)
}

fn reason(value: &Value, errors: &mut FieldErrors) -> Option<String> {
    let members = At::new(value, "").object(&["reason"], errors)?;
    match members.get("reason").filter(|at| !at.value.is_null()) {
        Some(at) => {
            let reason = read_text(&at, limits::REASON_CHARS, errors)?;
            if reason.trim().is_empty() {
                errors.push(&at.path, "A reason says something; leave it out if there is none.");
            }
            Some(reason)
        }
        None => Some(NO_REASON.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_a_text_or_none() {
        let check = |body: &str, wanted: Result<&str, &str>| {
            let read = read_reason(body.as_bytes());
            let found = read.as_ref().map(String::as_str).map_err(|problem| problem.errors()[0].field.as_str());
            assert_eq!(found, wanted, "{body}");
        };
        check("", Ok(NO_REASON));
        check("{}", Ok(NO_REASON));
        check(r#"{"reason": null}"#, Ok(NO_REASON));
        check(r#"{"reason": "receiver moved"}"#, Ok("receiver moved"));
        check(r#"{"reason": ""}"#, Err("reason"));
        check(r#"{"reason": 5}"#, Err("reason"));
        check(r#"{"reason": "\u0000"}"#, Err("reason"));
        check(&format!(r#"{{"reason": "{}"}}"#, "x".repeat(limits::REASON_CHARS + 1)), Err("reason"));
        check(r#"{"why": "x"}"#, Err("why"));
        check("[]", Err(""));
    }
}
