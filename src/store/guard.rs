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

impl RequestKey {
    /// What its texts take in memory, in bytes.
    pub fn bytes(&self) -> usize {
        self.method.len() + self.path.len() + self.key.len()
    }
}

/// An answer that is remembered: it holds no secret in clear.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredAnswer {
    /// A 2xx, or [`UNDER_WAY`].
    pub status: u16,
    pub body: Vec<u8>,
}

/// The status that stands with a request of several transactions until its last one (HTTP's *Processing*). The body says
/// then how far it has come, in words of its own.
pub const UNDER_WAY: u16 = 102;

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

impl<R> Guard<R> {
    /// What it takes in memory, in bytes. (The answer is made when the sentence is carried out.)
    pub fn bytes(&self) -> usize {
        size_of::<Guard<R>>() + self.request.bytes() + self.hash.len()
    }
}

/// A sentence that is carried out once per key.
pub struct Guarded<S, R> {
    pub guard: Option<Guard<R>>,
    pub sentence: S,
}

/// One part of a request that takes several transactions. What it did and how far the request is now are committed
/// together, so that the same request, repeated after a crash, goes on where it stopped and does nothing twice. Nothing is
/// looked up: whoever begins has asked [`Remembered`] first.
pub struct Part<S, R> {
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
