//! `GET /endpoints/{id}/secret` and `POST …/secret/rotate` (S23). The only answers, beside that of creating an endpoint,
//! that hold a secret.

use actix_web::HttpRequest;
use actix_web::http::StatusCode;
use actix_web::web::{Data, Path, Payload};
use serde::Serialize;
use serde_json::Value;

use super::shown::Secret;
use super::written::{Edit, read_secret};
use super::{changes_too_fast, find_record, sentence, take_turn};
use crate::api::auth::{Caller, Manager};
use crate::api::idempotency::{self, Keyed, Outcome};
use crate::api::json::{self, Document};
use crate::api::problem::{Answer, Code, Problem};
use crate::api::query::Query;
use crate::api::{Api, answer, body, detached, limits};
use crate::domain::field_error::FieldErrors;
use crate::domain::json_reader::At;
use crate::domain::secret::{MAX_OVERLAP, SigningSecret};
use crate::domain::time::{Span, Timestamp};
use crate::store::endpoint_record::EndpointRecord;
use crate::store::rows::EndpointRow;

/// An endpoint's newest secret.
#[derive(Serialize)]
struct SecretJson<'a> {
    endpoint_id: &'a str,
    /// null where it was shown before.
    secret: Option<&'a str>,
    /// When the earlier ones stop signing; null if only this one signs.
    overlap_ends_at: Option<Timestamp>,
}

impl<'a> SecretJson<'a> {
    fn new(record: &'a EndpointRecord, secret: Secret, now: Timestamp) -> SecretJson<'a> {
        SecretJson {
            endpoint_id: &record.id,
            secret: secret.of(record).flatten(),
            overlap_ends_at: record.secrets.overlap_ends_at(now),
        }
    }
}

/// `GET /endpoints/{id}/secret`.
pub async fn get(api: Data<Api>, Manager(caller): Manager, request: HttpRequest, id: Path<String>) -> Answer {
    Query::none(&request)?;
    let record = find_record(&api, caller.tenant, &id).await?;
    answer::ok(&SecretJson::new(&record, Secret::Shown, api.store.clock().now()))
}

/// `POST /endpoints/{id}/secret/rotate`: the new secret, this once.
pub async fn rotate(
    api: Data<Api>,
    Manager(caller): Manager,
    request: HttpRequest,
    id: Path<String>,
    payload: Payload,
) -> Answer {
    Query::none(&request)?;
    let body = body::read(&api, &request, payload, limits::REQUEST_BYTES).await?;
    let keyed = idempotency::key(&api, &request, caller, &body.bytes)?;
    let rotation = Rotation::read(&body.bytes)?;
    detached(async move {
        match idempotency::before(&api, keyed.as_ref()).await? {
            Some(answer) => Ok(answer),
            None => rotate_now(&api, caller, &id, rotation, keyed.as_ref()).await,
        }
    })
    .await
}

async fn rotate_now(api: &Data<Api>, caller: Caller, id: &str, rotation: Rotation, keyed: Option<&Keyed>) -> Answer {
    let (_, _turn) = take_turn(api, caller.tenant, id).await?;
    let clock = api.store.clock();
    let new = rotation.secret.unwrap_or_else(|| SigningSecret::generate(clock.random_key()));
    for _ in 0..limits::EDIT_TRIES {
        let before = find_record(api, caller.tenant, id).await?;
        let now = clock.now();
        let secrets = before.secrets.rotate(new.clone(), rotation.overlap, now);
        let secrets = secrets.map_err(|error| Problem::new(Code::Conflict, error.to_string()))?;
        let record = EndpointRecord { secrets, ..before };
        let edit = Edit { record, changes: true, new_url: false, close_circuit: false };
        let remember = {
            let api = api.clone();
            move |row: &Option<EndpointRow>| {
                let record = api.store.decode(row.clone()?).ok()?;
                Some(answer::stored(StatusCode::OK, &SecretJson::new(&record, Secret::Hidden, now)))
            }
        };
        match idempotency::once(api, keyed, sentence(api, &edit), remember).await? {
            Outcome::Replayed(answer) => return Ok(answer),
            Outcome::Done(Some(_)) => {
                api.engine.changed(edit.record.no).await;
                return answer::ok(&SecretJson::new(&edit.record, Secret::Shown, now));
            }
            // A verdict came between (S14).
            Outcome::Done(None) => {}
        }
    }
    Err(changes_too_fast())
}

/// How a secret is to be rotated.
#[derive(Debug)]
struct Rotation {
    /// `None`: a new one is drawn.
    secret: Option<SigningSecret>,
    overlap: Span,
}

impl Rotation {
    fn read(body: &[u8]) -> Result<Rotation, Problem> {
        let mut errors = FieldErrors::default();
        let text = json::text(body, &mut errors);
        let document = text.and_then(|text| Document::read_action(text, &mut errors));
        let value = document.and_then(|document| document.value(&mut errors));
        let rotation = value.as_ref().and_then(|value| Rotation::of(value, &mut errors));
        errors.finish(rotation).map_err(Problem::invalid)
    }

    fn of(value: &Value, errors: &mut FieldErrors) -> Option<Rotation> {
        let members = At::new(value, "").object(&["secret", "overlap"], errors)?;
        let given = |name: &str| members.get(name).filter(|at| !at.value.is_null());
        let secret = match given("secret") {
            Some(at) => read_secret(&at, errors).map(Some),
            None => Some(None),
        };
        let overlap = match given("overlap") {
            Some(at) => at.duration(Span::ZERO..=MAX_OVERLAP, errors),
            None => Some(limits::DEFAULT_OVERLAP),
        };
        Some(Rotation { secret: secret?, overlap: overlap? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rotation_has_its_defaults_and_bounds() {
        for body in ["", "{}", r#"{"secret": null, "overlap": null}"#] {
            let rotation = Rotation::read(body.as_bytes()).unwrap();
            assert_eq!((rotation.secret, rotation.overlap), (None, Span::DAY));
        }
        let body = r#"{"secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "overlap": "0s"}"#;
        let rotation = Rotation::read(body.as_bytes()).unwrap();
        assert!(rotation.secret.is_some() && rotation.overlap == Span::ZERO);
        let check = |body: &str, wanted: &[&str]| {
            let problem = Rotation::read(body.as_bytes()).unwrap_err();
            let fields: Vec<_> = problem.errors().iter().map(|error| error.field.as_str()).collect();
            assert_eq!(fields, wanted, "{body}");
        };
        check(r#"{"overlap": "8d", "secret": "short"}"#, &["secret", "overlap"]);
        check(r#"{"overlap": 24}"#, &["overlap"]);
        check(r#"{"overlap": "24h", "x": 1}"#, &["x"]);
    }
}
