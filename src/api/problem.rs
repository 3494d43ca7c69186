//! Every error of the API: RFC 9457 `application/problem+json` with a stable `code`.

use actix_web::http::StatusCode;
use actix_web::http::header::{ALLOW, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use actix_web::{HttpResponse, HttpResponseBuilder, ResponseError};
use serde::Serialize;

use crate::domain::field_error::FieldError;
use crate::store::error::StoreError;

/// What kind of error it is; each has its status and its word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    Validation,
    Unauthorized,
    Forbidden,
    NotFound,
    MethodNotAllowed,
    Conflict,
    EndpointDisabled,
    IdempotencyInProgress,
    PayloadTooLarge,
    UnsupportedMediaType,
    IdempotencyMismatch,
    Unavailable,
}

impl Code {
    /// Status, word, title.
    const fn parts(self) -> (u16, &'static str, &'static str) {
        match self {
            Code::Validation => (400, "validation", "The request is not valid"),
            Code::Unauthorized => (401, "unauthorized", "An API key is needed"),
            Code::Forbidden => (403, "forbidden", "This API key may not do that"),
            Code::NotFound => (404, "not_found", "There is no such thing"),
            Code::MethodNotAllowed => (405, "method_not_allowed", "This path does not know that method"),
            Code::Conflict => (409, "conflict", "The request does not fit the present state"),
            Code::EndpointDisabled => (409, "endpoint_disabled", "The endpoint is disabled"),
            Code::IdempotencyInProgress => (409, "idempotency_in_progress", "The first request is still running"),
            Code::PayloadTooLarge => (413, "payload_too_large", "The request body is too large"),
            Code::UnsupportedMediaType => (415, "unsupported_media_type", "The request body must be JSON"),
            Code::IdempotencyMismatch => (422, "idempotency_mismatch", "The key was used with another request"),
            Code::Unavailable => (503, "unavailable", "Not confirmed; the same request is safe to repeat"),
        }
    }

    pub const fn as_str(self) -> &'static str {
        self.parts().1
    }
}

/// An error answer.
#[derive(Clone, Debug)]
pub struct Problem {
    code: Code,
    detail: String,
    errors: Vec<FieldError>,
    /// `Retry-After` in seconds.
    retry_after: Option<u32>,
    allow: Option<&'static str>,
}

/// What an answer of the API is, or its error.
pub type Answer = Result<HttpResponse, Problem>;

impl Problem {
    pub fn new(code: Code, detail: impl Into<String>) -> Problem {
        Problem { code, detail: detail.into(), errors: Vec::new(), retry_after: None, allow: None }
    }

    /// 400 that names the fields.
    pub fn fields(errors: Vec<FieldError>) -> Problem {
        let detail = match errors.as_slice() {
            [] => String::from("The request is not valid."),
            [one] if one.field.is_empty() => one.message.clone(),
            [one] => format!("{}: {}", one.field, one.message),
            [first, ..] => {
                format!("{} fields are not valid, the first is {}: {}", errors.len(), first.field, first.message)
            }
        };
        Problem { errors, ..Problem::new(Code::Validation, detail) }
    }

    /// 400 that names one field.
    pub fn field(field: impl Into<String>, message: impl Into<String>) -> Problem {
        Problem::fields(vec![FieldError { field: field.into(), message: message.into() }])
    }

    /// 404: `what` is the thing's name, such as `delivery`.
    pub fn not_found(what: &str) -> Problem {
        Problem::new(Code::NotFound, format!("There is no such {what}."))
    }

    /// 405 with what the path allows.
    pub fn method_not_allowed(allow: &'static str) -> Problem {
        let detail = format!("This path allows {allow}.");
        Problem { allow: Some(allow), ..Problem::new(Code::MethodNotAllowed, detail) }
    }

    /// 503: nothing is known to have been done.
    pub fn unavailable(detail: impl Into<String>) -> Problem {
        Problem { retry_after: Some(1), ..Problem::new(Code::Unavailable, detail) }
    }

    pub fn code(&self) -> Code {
        self.code
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Problem {
        // What the database said is for our log, not for callers.
        log::warn!("a request was not confirmed: {error}");
        match error {
            StoreError::Overloaded => Problem::unavailable("The write queue is full (WRITE_QUEUE_BYTES)."),
            StoreError::Closed => Problem::unavailable("This process is shutting down."),
            StoreError::Unavailable(_) | StoreError::Corrupt(_) => {
                Problem::unavailable("The store did not confirm the request.")
            }
        }
    }
}

impl std::fmt::Display for Problem {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}: {}", self.code.as_str(), self.detail)
    }
}

#[derive(Serialize)]
struct Body<'a> {
    r#type: &'static str,
    title: &'static str,
    status: u16,
    detail: &'a str,
    code: &'static str,
    #[serde(skip_serializing_if = "<[FieldError]>::is_empty")]
    errors: &'a [FieldError],
}

impl ResponseError for Problem {
    fn status_code(&self) -> StatusCode {
        StatusCode::from_u16(self.code.parts().0).unwrap_or(StatusCode::SERVICE_UNAVAILABLE)
    }

    fn error_response(&self) -> HttpResponse {
        let (status, code, title) = self.code.parts();
        let body = Body { r#type: "about:blank", title, status, detail: &self.detail, code, errors: &self.errors };
        let mut response = HttpResponseBuilder::new(self.status_code());
        response.insert_header((CONTENT_TYPE, HeaderValue::from_static("application/problem+json")));
        if let Some(seconds) = self.retry_after {
            response.insert_header((RETRY_AFTER, seconds.to_string()));
        }
        if let Some(methods) = self.allow {
            response.insert_header((ALLOW, methods));
        }
        response.body(serde_json::to_vec(&body).unwrap_or_default())
    }
}
