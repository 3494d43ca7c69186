//! Idempotency (api.md): what a request did and what it was answered are committed together, so a repeated request gets
//! the first one's answer, across restarts.

use std::sync::Arc;

use crate::domain::ids::TenantNo;
use crate::domain::time::Timestamp;

/// Which request this is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RequestKey {
    pub tenant: TenantNo,
    pub method: String,
    /// The concrete path.
    pub path: String,
    /// The caller's `Idempotency-Key`.
    pub key: String,
}

/// An answer that is remembered: it holds no secret in clear.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredAnswer {
    pub status: u16,
    pub body: Vec<u8>,
}

/// Makes the answer to remember from what the sentence replied; `None`: nothing was changed, remember nothing.
pub type Compose<R> = Arc<dyn Fn(&R) -> Option<StoredAnswer> + Send + Sync>;

/// How a request's key, body and answer are kept.
#[derive(Clone)]
pub struct Guard<R> {
    pub request: RequestKey,
    /// SHA-256 of the body's bytes.
    pub hash: Vec<u8>,
    pub now: Timestamp,
    /// Answers older than this are forgotten.
    pub kept_since: Timestamp,
    pub compose: Compose<R>,
}

/// A sentence that is carried out once per key.
pub struct Guarded<S, R> {
    pub guard: Option<Guard<R>>,
    pub sentence: S,
}

/// What a guarded sentence came to.
#[derive(Debug)]
pub enum Once<R> {
    /// Carried out (or refused) now.
    Now(R),
    /// It was carried out before: this was its answer.
    Before(StoredAnswer),
    /// The key belongs to a request with another body.
    OtherBody,
}

/// The answer remembered for a request, with the hash of its body.
#[derive(Clone, Debug)]
pub struct Remembered {
    pub request: RequestKey,
    pub kept_since: Timestamp,
}

/// Remember the answer of a request that changed nothing in the store (a ping, a simulation).
#[derive(Clone, Debug)]
pub struct Remember {
    pub request: RequestKey,
    pub hash: Vec<u8>,
    pub now: Timestamp,
    pub answer: StoredAnswer,
}
