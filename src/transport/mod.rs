//! How an attempt reaches its receiver. The engine knows only the traits here; [`awc`] is the real thing, and the
//! simulation puts scripted receivers behind the same traits.

mod answers;
pub mod awc;
mod chunked;
mod connect;
mod dial;
mod exchange;
pub mod failure;
pub(crate) mod framing;
pub mod idle;
mod metered;
pub mod resolve;
mod stopwatch;
mod stream;
mod wire;

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::LocalBoxFuture;

use crate::domain::attempt::Report;
use crate::domain::time::Span;

/// Real, monotonic time (S25): the only reading of it here, for timings and limits alike.
fn now() -> tokio::time::Instant {
    tokio::time::Instant::now()
}

/// One request, ready to go: everything but the address, which is found and judged when it is dialled.
#[derive(Clone)]
pub struct Request {
    /// The endpoint's URL as stored.
    pub url: Arc<str>,
    /// All headers but `Host` and `Content-Length`, in the order in which they are to be written.
    pub headers: Vec<(String, String)>,
    pub body: Bytes,
    /// From the start of name resolution to the end of the response head (S4), in real time.
    pub timeout: Span,
}

impl std::fmt::Debug for Request {
    /// Neither the URL nor the headers nor the body: each may hold a secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Request({} headers, {} bytes, {:?})", self.headers.len(), self.body.len(), self.timeout)
    }
}

/// One endpoint's way out: owns its connections, which it shares with no other endpoint. Lives on one thread,
/// inside an actix system.
pub trait Transport {
    /// Makes one attempt. Never fails: whatever goes wrong is in the report. Dropping the future abandons the attempt
    /// and closes its connection.
    fn send(&self, request: Request) -> LocalBoxFuture<'static, Report>;
}

/// Makes an endpoint's transport on the thread that calls it.
pub trait TransportFactory: Send + Sync {
    fn open(&self) -> Box<dyn Transport>;
}
