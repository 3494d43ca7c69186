//! Answers that are no errors.

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use serde::Serialize;

use super::cursor::{self, List};
use super::problem::{Answer, Problem};
use crate::store::guard::StoredAnswer;
use crate::store::list::{From, Listed};

/// The JSON of an answer. What we answer is always serialisable; should it not be, the request was still carried out,
/// so there is nothing better to say than nothing.
pub fn body(answer: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(answer).unwrap_or_default()
}

/// An answer of this JSON text.
pub fn raw(status: StatusCode, body: Vec<u8>) -> HttpResponse {
    HttpResponse::build(status).content_type("application/json").body(body)
}

pub fn json(status: StatusCode, answer: &impl Serialize) -> Answer {
    match serde_json::to_vec(answer) {
        Ok(body) => Ok(raw(status, body)),
        Err(_) => Err(Problem::unavailable("The answer could not be written.")),
    }
}

pub fn ok(answer: &impl Serialize) -> Answer {
    json(StatusCode::OK, answer)
}

/// An answer to remember.
pub fn stored(status: StatusCode, answer: &impl Serialize) -> StoredAnswer {
    StoredAnswer { status: status.as_u16(), body: body(answer) }
}

/// An answer that was remembered.
pub fn replayed(answer: StoredAnswer) -> HttpResponse {
    let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::OK);
    let mut response = raw(status, answer.body);
    let headers = response.headers_mut();
    headers.insert(
        actix_web::http::header::HeaderName::from_static("idempotency-replayed"),
        actix_web::http::header::HeaderValue::from_static("true"),
    );
    response
}

/// A page of a list (`api.md`, *Lists*).
#[derive(Serialize)]
struct PageJson<T> {
    data: Vec<T>,
    next_cursor: Option<String>,
    /// In the order of changes only: where to go on at any later time.
    #[serde(skip_serializing_if = "Option::is_none")]
    resume: Option<String>,
}

/// Answers with a page; `show` makes a row's JSON.
pub fn page<'a, T, J: Serialize>(list: List, listed: &'a Listed<T>, show: impl Fn(&'a T) -> J) -> Answer {
    let place = || cursor::encode(list, listed.end);
    ok(&PageJson {
        data: listed.rows.iter().map(show).collect(),
        next_cursor: listed.more.then(place),
        resume: matches!(listed.end, From::Changed { .. }).then(place),
    })
}
