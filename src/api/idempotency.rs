//! `Idempotency-Key`: the same key and body get the first answer again, across restarts; while the first is still
//! running, 409. What is remembered is committed with what the request did ([`crate::store::guard`]).

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use actix_web::HttpRequest;
use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use actix_web::http::header::CONTENT_TYPE;
use sha2::{Digest, Sha256};

use super::Api;
use super::auth::Caller;
use super::problem::{Answer, Code, Problem};
use crate::engine::retention::ANSWERS_KEPT;
use crate::store::guard::{Guard, Guarded, Once, Remember, Remembered, RequestKey, StoredAnswer};
use crate::store::sentence::Sentence;
use crate::store::sqlite;

/// Characters of a key.
pub const MAX_KEY: usize = 255;

/// The keys whose first request is running.
#[derive(Clone, Default)]
pub struct Running(Arc<Mutex<HashSet<RequestKey>>>);

/// A request with a key, from its arrival to its answer.
pub struct Keyed {
    request: RequestKey,
    hash: Vec<u8>,
    running: Running,
}

impl Drop for Keyed {
    fn drop(&mut self) {
        self.running.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).remove(&self.request);
    }
}

/// The request's key, if it has one; it counts as running until the value is dropped.
///
/// # Errors
/// 400 for a key that is none, 409 while another request with this key runs.
pub fn key(api: &Api, request: &HttpRequest, caller: Caller, body: &[u8]) -> Result<Option<Keyed>, Problem> {
    let mut values = request.headers().get_all("idempotency-key");
    let Some(value) = values.next() else { return Ok(None) };
    let text = value
        .to_str()
        .ok()
        .filter(|text| (1..=MAX_KEY).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic()));
    let (Some(key), None) = (text, values.next()) else {
        let message = format!("must be one value of 1 to {MAX_KEY} visible ASCII characters");
        return Err(Problem::field("Idempotency-Key", message));
    };
    let request = RequestKey {
        tenant: caller.tenant,
        method: request.method().to_string(),
        path: request.path().to_owned(),
        key: key.to_owned(),
    };
    let running = api.running.clone();
    let first = running.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).insert(request.clone());
    if !first {
        return Err(Problem::new(Code::IdempotencyInProgress, "The first request with this key has no answer yet."));
    }
    Ok(Some(Keyed { request, hash: Sha256::digest(body).to_vec(), running }))
}

/// A body that goes out as JSON with a status.
pub fn json(status: u16, body: Vec<u8>) -> HttpResponse {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
    HttpResponse::build(status).insert_header((CONTENT_TYPE, "application/json")).body(body)
}

fn replayed(answer: StoredAnswer) -> HttpResponse {
    let mut response = json(answer.status, answer.body);
    let name = actix_web::http::header::HeaderName::from_static("idempotency-replayed");
    response.headers_mut().insert(name, actix_web::http::header::HeaderValue::from_static("true"));
    response
}

fn other_body() -> Problem {
    Problem::new(Code::IdempotencyMismatch, "This Idempotency-Key was used with another body.")
}

/// Carries a sentence out, once per key. `compose` makes the answer to remember (no secret in it), `answer` the one to
/// give now.
pub async fn once<S>(
    api: &Api,
    keyed: Option<&Keyed>,
    sentence: S,
    compose: impl Fn(&S::Reply) -> Option<StoredAnswer> + Send + Sync + 'static,
) -> Result<Result<S::Reply, HttpResponse>, Problem>
where
    S: Sentence<sqlite::Conn>,
{
    let now = api.store.clock().now();
    let guard = keyed.map(|keyed| Guard {
        request: keyed.request.clone(),
        hash: keyed.hash.clone(),
        now,
        kept_since: now - ANSWERS_KEPT,
        compose: Arc::new(compose),
    });
    match api.store.write(Guarded { guard, sentence }).await? {
        Once::Now(reply) => Ok(Ok(reply)),
        Once::Before(answer) => Ok(Err(replayed(answer))),
        Once::OtherBody => Err(other_body()),
    }
}

/// The remembered answer, for requests that have to know before they do anything.
pub async fn before(api: &Api, keyed: Option<&Keyed>) -> Result<Option<HttpResponse>, Problem> {
    let Some(keyed) = keyed else { return Ok(None) };
    let kept_since = api.store.clock().now() - ANSWERS_KEPT;
    match api.store.ask(Remembered { request: keyed.request.clone(), kept_since }).await? {
        None => Ok(None),
        Some((hash, _)) if hash != keyed.hash => Err(other_body()),
        Some((_, answer)) => Ok(Some(replayed(answer))),
    }
}

/// Answers with JSON and remembers it, for requests that change nothing in the store.
pub async fn remember(api: &Api, keyed: Option<&Keyed>, status: u16, body: Vec<u8>) -> Answer {
    if let Some(keyed) = keyed {
        let answer = StoredAnswer { status, body: body.clone() };
        let now = api.store.clock().now();
        let (request, hash) = (keyed.request.clone(), keyed.hash.clone());
        api.store.write(Remember { request, hash, now, answer }).await?;
    }
    Ok(json(status, body))
}
