//! `Idempotency-Key` (`api.md`, *Idempotency*): the same key and body get the first answer again, for 24 hours and across
//! restarts. The answer is committed with what the request did ([`crate::store::guard`]); here is the rest: which
//! requests have a key, which of them are running, and what a repeated one is told.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use actix_web::http::StatusCode;
use actix_web::{HttpRequest, HttpResponse};
use sha2::{Digest, Sha256};

use super::auth::Caller;
use super::problem::{Code, Problem};
use super::{Api, answer, limits};
use crate::domain::time::Timestamp;
use crate::engine::retention::ANSWERS_KEPT;
use crate::store::guard::{Guard, Guarded, Once, Part, Remember, Remembered, RequestKey, StoredAnswer, UNDER_WAY};
use crate::store::sentence::Sentence;
use crate::store::sqlite::Conn;

/// The requests with a key that have no answer yet, with the hashes of their bodies.
#[derive(Clone, Default)]
pub struct Running(Arc<Mutex<HashMap<RequestKey, Vec<u8>>>>);

impl Running {
    fn lock(&self) -> MutexGuard<'_, HashMap<RequestKey, Vec<u8>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request with a key, from its body to its answer. Belongs into the task that carries the request out: as long as
/// it lives, another request with the same key is told to wait.
pub struct Keyed {
    request: RequestKey,
    hash: Vec<u8>,
    running: Running,
}

impl Drop for Keyed {
    fn drop(&mut self) {
        self.running.lock().remove(&self.request);
    }
}

/// The key of a request, if it has one.
///
/// # Errors
/// 400 for a key that is none, 422 if one with another body is running, 409 if the same is.
pub fn key(api: &Api, request: &HttpRequest, caller: Caller, body: &[u8]) -> Result<Option<Keyed>, Problem> {
    let mut values = request.headers().get_all("idempotency-key");
    let Some(value) = values.next() else { return Ok(None) };
    let text = value.to_str().ok().filter(|text| {
        limits::IDEMPOTENCY_KEY.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
    });
    let (Some(text), None) = (text, values.next()) else {
        let (least, most) = (limits::IDEMPOTENCY_KEY.start(), limits::IDEMPOTENCY_KEY.end());
        return Err(Problem::field(
            "Idempotency-Key",
            format!("One key of {least} to {most} visible ASCII characters."),
        ));
    };
    let request = RequestKey {
        tenant: caller.tenant,
        method: request.method().to_string(),
        path: request.path().to_owned(),
        key: text.to_owned(),
    };
    let hash = Sha256::digest(body).to_vec();
    let mut running = api.running.lock();
    match running.get(&request) {
        None => drop(running.insert(request.clone(), hash.clone())),
        Some(other) if *other != hash => return Err(other_body()),
        Some(_) => {
            let detail = "The first request with this key has no answer yet; repeat this one when it has.";
            return Err(Problem::new(Code::IdempotencyInProgress, detail));
        }
    }
    drop(running);
    Ok(Some(Keyed { request, hash, running: api.running.clone() }))
}

fn other_body() -> Problem {
    Problem::new(Code::IdempotencyMismatch, "This Idempotency-Key was used for a request with another body.")
}

fn kept_since(now: Timestamp) -> Timestamp {
    now - ANSWERS_KEPT
}

/// What a sentence that is carried out once per key came to.
pub enum Outcome<R> {
    Done(R),
    /// It was carried out before; this was the answer.
    Replayed(HttpResponse),
}

/// Carries a sentence out, once per key. `remember` makes the answer to keep, without secrets, of what it replied; `None`
/// where nothing was changed. It is called by the writer, inside the transaction.
///
/// # Errors
/// 422 if the key belongs to another body, 503 if the store does not confirm.
pub async fn once<S, F>(
    api: &Api,
    keyed: Option<&Keyed>,
    sentence: S,
    remember: F,
) -> Result<Outcome<S::Reply>, Problem>
where
    S: Sentence<Conn>,
    F: Fn(&S::Reply) -> Option<StoredAnswer> + Send + Sync + 'static,
{
    let guard = keyed.map(|keyed| guard(api, keyed, remember));
    match api.store.write(Guarded { guard, sentence }).await? {
        Once::Now(reply) => Ok(Outcome::Done(reply)),
        Once::Before(answer) => Ok(Outcome::Replayed(answer::replayed(answer))),
        Once::OtherBody => Err(other_body()),
    }
}

/// How a key, its body and the answer that `remember` makes are to be kept.
fn guard<R>(
    api: &Api,
    keyed: &Keyed,
    remember: impl Fn(&R) -> Option<StoredAnswer> + Send + Sync + 'static,
) -> Guard<R> {
    let now = api.store.clock().now();
    Guard {
        request: keyed.request.clone(),
        hash: keyed.hash.clone(),
        now,
        kept_since: kept_since(now),
        compose: Arc::new(remember),
    }
}

/// Carries out one part of a request that takes several transactions, and with it has kept what `remember` makes of the
/// part's reply: [`UNDER_WAY`] with how far the request is, or after the last part the answer.
///
/// # Errors
/// 503 if the store does not confirm; the same request goes on where the last confirmed part ended.
pub async fn part<S, F>(api: &Api, keyed: Option<&Keyed>, sentence: S, remember: F) -> Result<S::Reply, Problem>
where
    S: Sentence<Conn>,
    F: Fn(&S::Reply) -> StoredAnswer + Send + Sync + 'static,
{
    let guard = keyed.map(|keyed| guard(api, keyed, move |reply| Some(remember(reply))));
    Ok(api.store.write(Part { guard, sentence }).await?)
}

/// What is remembered of a request.
pub enum Known {
    Nothing,
    Answered(HttpResponse),
    /// It was interrupted between two of its parts; this is how far it had come.
    UnderWay(Vec<u8>),
}

/// What is remembered for a key. Asked first by every request that looks at anything before it writes: the endpoint it was
/// for may be gone by now, and the answer is still the same.
pub async fn known(api: &Api, keyed: Option<&Keyed>) -> Result<Known, Problem> {
    let Some(keyed) = keyed else { return Ok(Known::Nothing) };
    let kept_since = kept_since(api.store.clock().now());
    match api.store.ask(Remembered { request: keyed.request.clone(), kept_since }).await? {
        None => Ok(Known::Nothing),
        Some((hash, _)) if hash != keyed.hash => Err(other_body()),
        Some((_, StoredAnswer { status: UNDER_WAY, body })) => Ok(Known::UnderWay(body)),
        Some((_, remembered)) => Ok(Known::Answered(answer::replayed(remembered))),
    }
}

/// The answer that is remembered for a key, if there is one: for requests of one transaction.
pub async fn before(api: &Api, keyed: Option<&Keyed>) -> Result<Option<HttpResponse>, Problem> {
    match known(api, keyed).await? {
        Known::Answered(answer) => Ok(Some(answer)),
        Known::Nothing | Known::UnderWay(_) => Ok(None),
    }
}

/// Answers, and remembers the answer: for requests that change nothing in the store.
pub async fn answer_and_remember(
    api: &Api,
    keyed: Option<&Keyed>,
    status: StatusCode,
    body: Vec<u8>,
) -> Result<HttpResponse, Problem> {
    if let Some(keyed) = keyed {
        let remember = Remember {
            request: keyed.request.clone(),
            hash: keyed.hash.clone(),
            now: api.store.clock().now(),
            answer: StoredAnswer { status: status.as_u16(), body: body.clone() },
        };
        api.store.write(remember).await?;
    }
    Ok(answer::raw(status, body))
}
