//! One attempt's state, shared by everything that works on it: the sender ([`super::awc`]), the connector and the
//! stream. awc sits between them and passes nothing of ours on, so it travels in a task-local.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use tokio::time::Instant;

use super::Request;
use super::failure::Failure;
use super::stopwatch::Stopwatch;
use crate::domain::attempt::Timing;
use crate::domain::target::TargetUrl;
use crate::domain::time::Span;

tokio::task_local! {
    /// The exchange that the running task works on; set around every poll of awc's futures.
    pub static CURRENT: std::rc::Rc<Exchange>;
}

/// What one attempt sends, and what was seen of it on the way.
pub struct Exchange {
    pub target: Arc<TargetUrl>,
    /// The request's head, complete with the empty line.
    pub head: Bytes,
    pub body: Bytes,
    /// The time that is charged to the receiver.
    pub charged: Stopwatch,
    /// No pooled connection may be used: one has just failed (C04).
    pub fresh_only: Cell<bool>,
    pub trace: RefCell<Trace>,
}

/// What was seen of an attempt.
#[derive(Default)]
pub struct Trace {
    pub dns: Option<Span>,
    pub connect: Option<Span>,
    pub tls: Option<Span>,
    /// The address dialled last, or that of the reused connection; never a blocked one.
    pub remote_addr: Option<SocketAddr>,
    /// The connection had carried a request before.
    pub reused: bool,
    /// When the request began to be written.
    pub asked_at: Option<Instant>,
    /// At least one byte of an answer came.
    pub answer_began: bool,
    /// When the final response's head was complete.
    pub answered_at: Option<Instant>,
    /// The body went on beyond what was kept, or was cut off.
    pub body_truncated: bool,
    /// Why there is no answer; the first word counts.
    pub failure: Option<Failure>,
}

impl Exchange {
    /// `None` if the URL or a header cannot be written as an HTTP request. Both were checked when they were configured;
    /// a bad row from elsewhere must fail its own delivery only, and never split a request in two (C87).
    pub fn new(target: Arc<TargetUrl>, request: &Request) -> Option<Exchange> {
        Some(Exchange {
            head: compose_head(&target, &request.headers, request.body.len())?,
            body: request.body.clone(),
            charged: Stopwatch::start(),
            target,
            fresh_only: Cell::new(false),
            trace: RefCell::default(),
        })
    }

    /// Records why there will be no answer, unless that is known already.
    pub fn fail(&self, failure: Failure) {
        self.trace.borrow_mut().failure.get_or_insert(failure);
    }

    /// A reused connection turned out to be dead before a byte of an answer came: the receiver closed it as we wrote.
    /// Such a request is sent again at once (C04); the id makes it idempotent (RFC 9110 §9.2.2).
    pub fn found_a_dead_connection(&self) -> bool {
        let trace = self.trace.borrow();
        let broke = matches!(trace.failure, Some(super::failure::RESET | super::failure::CLOSED));
        trace.reused && broke && !trace.answer_began
    }

    /// The receiver may have got the request: it began to be written, on this connection or on one that was found dead.
    pub fn may_be_known(&self) -> bool {
        self.fresh_only.get() || self.trace.borrow().asked_at.is_some()
    }

    /// Forgets what was seen and goes on with a new connection.
    pub fn start_over(&self) {
        self.fresh_only.set(true);
        self.trace.take();
    }

    pub fn timing(&self) -> Timing {
        let trace = self.trace.borrow();
        let first_byte = trace.answered_at.zip(trace.asked_at).map(|(end, start)| Span::from_std(end - start));
        Timing { dns: trace.dns, connect: trace.connect, tls: trace.tls, first_byte }
    }
}

/// Names that only the transport may write: they decide where the request ends and whom it is for (C88).
const OURS: [&str; 5] = ["host", "content-length", "transfer-encoding", "connection", "expect"];

/// Writes the request line and the headers: the target byte for byte as stored (C78), names spelt and ordered as given
/// (C23), one `Content-Length`, even for an empty body (C20).
fn compose_head(target: &TargetUrl, headers: &[(String, String)], body_len: usize) -> Option<Bytes> {
    let path = target.request_target();
    let host = target.host_header();
    let sendable = |(name, value): &(String, String)| {
        is_token(name) && is_field_value(value) && !OURS.iter().any(|ours| name.eq_ignore_ascii_case(ours))
    };
    if !is_visible(path) || !is_visible(&host) || !headers.iter().all(sendable) {
        return None;
    }
    let length: usize = headers.iter().map(|(name, value)| name.len() + value.len() + 4).sum();
    let mut head = BytesMut::with_capacity(path.len() + host.len() + length + 64);
    for part in ["POST ", path, " HTTP/1.1\r\nHost: ", &host, "\r\n"] {
        head.put_slice(part.as_bytes());
    }
    for (name, value) in headers {
        for part in [name, ": ", value, "\r\n"] {
            head.put_slice(part.as_bytes());
        }
    }
    for part in ["Content-Length: ", &body_len.to_string(), "\r\n\r\n"] {
        head.put_slice(part.as_bytes());
    }
    Some(head.freeze())
}

/// RFC 9110 §5.6.2.
fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

/// RFC 9110 §5.5: visible characters, spaces and tabs inside, obs-text.
fn is_field_value(text: &str) -> bool {
    text.trim_ascii() == text && text.bytes().all(|byte| byte == b'\t' || (byte >= b' ' && byte != 0x7F))
}

/// Printable ASCII without spaces: what may stand in a request line.
fn is_visible(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(url: &str, headers: &[(&str, &str)]) -> Option<String> {
        let target = TargetUrl::parse(url, false).unwrap();
        let headers: Vec<_> = headers.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        compose_head(&target, &headers, 0).map(|head| String::from_utf8(head.to_vec()).unwrap())
    }

    #[test]
    fn what_began_on_a_connection_that_was_dead_may_be_known() {
        let target = TargetUrl::parse("http://r.test/", false).unwrap();
        let (url, body) = ("http://r.test/".into(), Bytes::new());
        let request = Request { url, headers: Vec::new(), body, timeout: Span::SECOND };
        let exchange = Exchange::new(target.into(), &request).unwrap();
        assert!(!exchange.may_be_known());
        exchange.trace.borrow_mut().asked_at = Some(super::super::now());
        assert!(exchange.may_be_known());
        exchange.start_over();
        assert!(exchange.may_be_known());
    }

    #[test]
    fn c20_c23_names_keep_their_spelling_and_order_and_an_empty_body_has_a_length() {
        let expected =
            "POST /h?a=%41 HTTP/1.1\r\nHost: r.test:81\r\nX-Api-Key: v\r\nabc: \r\nContent-Length: 0\r\n\r\n";
        assert_eq!(head("http://r.test:81/h?a=%41", &[("X-Api-Key", "v"), ("abc", "")]).as_deref(), Some(expected));
    }

    #[test]
    fn c87_c88_nothing_that_could_split_or_reframe_a_request_is_written() {
        for (name, value) in [
            ("x", "a\r\nY: 1"),
            ("x", "a\nb"),
            ("x", "\0"),
            ("x", " a"),
            ("x", "a\u{7f}"),
            ("x: y", "a"),
            ("", "a"),
            ("é", "a"),
            ("Host", "a"),
            ("content-LENGTH", "1"),
            ("Transfer-Encoding", "chunked"),
        ] {
            assert_eq!(head("http://r.test/", &[(name, value)]), None, "{name:?}: {value:?}");
        }
    }
}
