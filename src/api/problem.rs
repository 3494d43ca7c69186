//! The one error of the API: RFC 9457 `application/problem+json` with a stable `code` (`api.md`, *Errors*). What the
//! database or another part of us said never gets into one.

use std::fmt;

use actix_web::http::StatusCode;
use actix_web::http::header::{ALLOW, RETRY_AFTER, WWW_AUTHENTICATE};
use actix_web::{HttpResponse, ResponseError};
use serde::Serialize;

use crate::domain::field_error::FieldError;
use crate::domain::words::words;
use crate::store::error::StoreError;

/// What a handler gives back.
pub type Answer = Result<HttpResponse, Problem>;

/// Seconds after which a request that was not confirmed may be sent again.
const RETRY_AFTER_SECONDS: u32 = 1;

words! {
    /// The kinds of error; a client may rely on the words.
    pub enum Code {
        Validation = "validation",
        Unauthorized = "unauthorized",
        Forbidden = "forbidden",
        NotFound = "not_found",
        MethodNotAllowed = "method_not_allowed",
        Conflict = "conflict",
        EndpointDisabled = "endpoint_disabled",
        IdempotencyInProgress = "idempotency_in_progress",
        PayloadTooLarge = "payload_too_large",
        UnsupportedMediaType = "unsupported_media_type",
        IdempotencyMismatch = "idempotency_mismatch",
        RateLimited = "rate_limited",
        /// Not confirmed: the same request, with the same `id` or `Idempotency-Key`, is safe.
        Unavailable = "unavailable",
    }
}

impl Code {
    pub const fn status(self) -> StatusCode {
        match self {
            Code::Validation => StatusCode::BAD_REQUEST,
            Code::Unauthorized => StatusCode::UNAUTHORIZED,
            Code::Forbidden => StatusCode::FORBIDDEN,
            Code::NotFound => StatusCode::NOT_FOUND,
            Code::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Code::Conflict | Code::EndpointDisabled | Code::IdempotencyInProgress => StatusCode::CONFLICT,
            Code::PayloadTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Code::UnsupportedMediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Code::IdempotencyMismatch => StatusCode::UNPROCESSABLE_ENTITY,
            Code::RateLimited => StatusCode::TOO_MANY_REQUESTS,
            Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    const fn title(self) -> &'static str {
        match self {
            Code::Validation => "The request is not valid",
            Code::Unauthorized => "A valid API key is needed",
            Code::Forbidden => "This API key may not do that",
            Code::NotFound => "There is no such thing",
            Code::MethodNotAllowed => "This path does not know that method",
            Code::Conflict => "The request does not fit the present state",
            Code::EndpointDisabled => "The endpoint is disabled",
            Code::IdempotencyInProgress => "The first request with this key is still running",
            Code::PayloadTooLarge => "The request is too large",
            Code::UnsupportedMediaType => "The request's body must be JSON",
            Code::IdempotencyMismatch => "This key belongs to a request with another body",
            Code::RateLimited => "Too many requests at once",
            Code::Unavailable => "Not confirmed; the same request is safe to repeat",
        }
    }
}

/// An error answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    code: Code,
    detail: String,
    errors: Vec<FieldError>,
    /// Of a 405: the methods that the path knows.
    allow: Option<&'static str>,
}

impl Problem {
    /// `detail` is a sentence for the caller.
    pub fn new(code: Code, detail: impl Into<String>) -> Problem {
        Problem { code, detail: detail.into(), errors: Vec::new(), allow: None }
    }

    /// 400 that names every fault.
    pub fn invalid(errors: Vec<FieldError>) -> Problem {
        let detail = match errors.as_slice() {
            [] => "The request is not valid.".into(),
            [only] => only.to_string(),
            [first, ..] => format!("{} faults were found; the first is {first}", errors.len()),
        };
        Problem { errors, ..Problem::new(Code::Validation, detail) }
    }

    /// 400 that names one fault.
    pub fn field(field: impl Into<String>, message: impl Into<String>) -> Problem {
        Problem::invalid(vec![FieldError { field: field.into(), message: message.into() }])
    }

    /// The same error, with the member of the request that is to blame.
    pub fn blaming(mut self, field: impl Into<String>, message: impl Into<String>) -> Problem {
        self.errors.push(FieldError { field: field.into(), message: message.into() });
        self
    }

    /// 404; `what` is a noun, such as "endpoint".
    pub fn not_found(what: &str) -> Problem {
        Problem::new(Code::NotFound, format!("There is no such {what}."))
    }

    /// 405; `allow` lists what the path knows.
    pub fn method_not_allowed(allow: &'static str) -> Problem {
        let detail = format!("This path knows {allow}.");
        Problem { allow: Some(allow), ..Problem::new(Code::MethodNotAllowed, detail) }
    }

    /// 503: whether the request took effect is not known, or is known not to be.
    pub fn unavailable(detail: impl Into<String>) -> Problem {
        Problem::new(Code::Unavailable, detail)
    }

    pub fn draining() -> Problem {
        Problem::unavailable("This process is shutting down.")
    }

    pub fn code(&self) -> Code {
        self.code
    }

    pub fn errors(&self) -> &[FieldError] {
        &self.errors
    }
}

/// C92: a store that did not confirm is a 503, whatever it said; what it said is for our log.
impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Problem {
        // The writer has told of it already, but not for each request.
        log::debug!("a request was not confirmed: {error}");
        match error {
            StoreError::Overloaded => Problem::unavailable("More is waiting to be written than can be held."),
            StoreError::Closed => Problem::draining(),
            StoreError::Unavailable(_) | StoreError::Corrupt(_) => {
                Problem::unavailable("The store did not confirm the request.")
            }
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.code, self.detail)
    }
}

/// As it goes out.
#[derive(Serialize)]
struct ProblemJson<'a> {
    r#type: String,
    title: &'static str,
    status: u16,
    detail: &'a str,
    code: Code,
    #[serde(skip_serializing_if = "<[FieldError]>::is_empty")]
    errors: &'a [FieldError],
}

impl ResponseError for Problem {
    fn status_code(&self) -> StatusCode {
        self.code.status()
    }

    fn error_response(&self) -> HttpResponse {
        let body = ProblemJson {
            r#type: format!("urn:posthaste:problem:{}", self.code),
            title: self.code.title(),
            status: self.code.status().as_u16(),
            detail: &self.detail,
            code: self.code,
            errors: &self.errors,
        };
        let mut answer = HttpResponse::build(self.code.status());
        answer.content_type("application/problem+json");
        match self.code {
            Code::Unavailable | Code::RateLimited => drop(answer.insert_header((RETRY_AFTER, RETRY_AFTER_SECONDS))),
            // RFC 9110 §11.6.1 asks for one; `X-API-Key` has no scheme of its own.
            Code::Unauthorized => drop(answer.insert_header((WWW_AUTHENTICATE, "Bearer realm=\"posthaste\""))),
            _ => {}
        }
        if let Some(methods) = self.allow {
            answer.insert_header((ALLOW, methods));
        }
        answer.body(serde_json::to_vec(&body).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use actix_web::body::MessageBody;

    fn shown(problem: &Problem) -> (HttpResponse<()>, serde_json::Value) {
        let (head, body) = problem.error_response().into_parts();
        let body = body.try_into_bytes().unwrap();
        (head, serde_json::from_slice(&body).unwrap())
    }

    #[test]
    fn an_error_reads_as_in_the_contract() {
        let (head, body) = shown(&Problem::field("url", "No."));
        assert_eq!(head.headers().get("content-type").unwrap(), "application/problem+json");
        let contract = serde_json::json!({
            "type": "urn:posthaste:problem:validation", "title": "The request is not valid", "status": 400,
            "detail": "url: No.", "code": "validation", "errors": [{"field": "url", "message": "No."}],
        });
        assert_eq!(body, contract);
        assert_eq!(shown(&Problem::not_found("event")).1.get("errors"), None);
    }

    #[test]
    fn what_http_asks_for_goes_with_it() {
        let header = |problem: &Problem, name: &str| {
            shown(problem).0.headers().get(name).map(|value| value.to_str().unwrap().to_owned())
        };
        assert_eq!(header(&Problem::draining(), "retry-after").as_deref(), Some("1"));
        assert_eq!(header(&Problem::method_not_allowed("GET, HEAD"), "allow").as_deref(), Some("GET, HEAD"));
        assert!(header(&Problem::new(Code::Unauthorized, ""), "www-authenticate").is_some());
        assert_eq!(header(&Problem::not_found("x"), "retry-after"), None);
    }

    /// The codes of `api.md`, with their statuses.
    #[test]
    fn codes_have_their_statuses() {
        let all: Vec<_> = Code::ALL.iter().map(|code| (code.as_str(), code.status().as_u16())).collect();
        let contract = [
            ("validation", 400),
            ("unauthorized", 401),
            ("forbidden", 403),
            ("not_found", 404),
            ("method_not_allowed", 405),
            ("conflict", 409),
            ("endpoint_disabled", 409),
            ("idempotency_in_progress", 409),
            ("payload_too_large", 413),
            ("unsupported_media_type", 415),
            ("idempotency_mismatch", 422),
            ("rate_limited", 429),
            ("unavailable", 503),
        ];
        assert_eq!(all, contract);
    }

    #[test]
    fn nothing_of_the_database_is_told() {
        let problem = Problem::from(StoreError::Unavailable("no such table: secrets".into()));
        assert!(!shown(&problem).1.to_string().contains("secrets"));
    }
}
