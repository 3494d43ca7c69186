//! One HTTP request made for a delivery, and what came of it (S4–S6).

use std::net::SocketAddr;

use bytes::Bytes;

use super::time::{Span, Timestamp};
use super::words::words;

words! {
    /// Why an attempt got no (usable) answer, as the API names it (S5).
    pub enum ErrorKind {
        /// The name did not resolve, or its resolver gave no answer in time.
        Dns = "dns",
        /// No connection: refused, unreachable.
        Connect = "connect",
        /// The TLS handshake failed: untrusted, expired or wrong certificate, no common version.
        Tls = "tls",
        /// The policy's timeout passed before the response head was complete. The receiver may have processed the event, unless
        /// the error says that nothing was sent.
        Timeout = "timeout",
        /// What came is not an HTTP/1.1 response.
        Protocol = "protocol",
        /// The connection broke before the response head was complete.
        Reset = "reset",
        /// The address may not be called (private, loopback, … without `--allow-target`).
        BlockedAddress = "blocked_address",
    }
}

words! {
    /// What made an attempt start.
    pub enum Trigger {
        /// Its turn on the schedule (first attempts too).
        Schedule = "schedule",
        /// A person's retry or requeue of this one delivery.
        Manual = "manual",
        /// The one attempt that finds out whether an open circuit may close (S17).
        Probe = "probe",
        /// `POST /endpoints/{id}/ping`; belongs to no delivery.
        Ping = "ping",
    }
}

/// How long each phase of an attempt took in real time; `None` where the phase did not happen (a reused connection has
/// no dns, connect or tls phase) or did not end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timing {
    pub dns: Option<Span>,
    pub connect: Option<Span>,
    pub tls: Option<Span>,
    /// From the moment the request began to be written to the end of the response head.
    pub first_byte: Option<Span>,
}

/// The final response's status line and the little of the rest that is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    /// The value of `Retry-After` if it came exactly once (S8), as the receiver wrote it.
    pub retry_after: Option<String>,
    /// The first bytes of the body (at most [`super::excerpt::EXCERPT_BYTES`]), cleaned.
    pub excerpt: Bytes,
    /// The body went on beyond what `excerpt` was taken from, or was cut off.
    pub excerpt_truncated: bool,
}

/// How an attempt ended, before anything is decided about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// A final status line came in time.
    Answered(Answer),
    /// None came; the text is one of a fixed set, without addresses or other people's words.
    Failed { kind: ErrorKind, error: &'static str },
    /// The fault is ours (S6): nothing is recorded, no rung is used up. The text is for our log.
    Local { reason: &'static str },
}

impl Finding {
    /// The status, if the receiver gave one.
    pub fn status(&self) -> Option<u16> {
        match self {
            Finding::Answered(answer) => Some(answer.status),
            _ => None,
        }
    }

    /// S4: a final 2xx.
    pub fn is_success(&self) -> bool {
        matches!(self.status(), Some(200..=299))
    }
}

/// What the transport reports of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    pub finding: Finding,
    pub timing: Timing,
    /// The address that was dialled; `None` if none was, or if it was a blocked one.
    pub remote_addr: Option<SocketAddr>,
    /// Real time from the start of name resolution to the end of the response head or the failure.
    pub took: Span,
}

/// An attempt that has come to its end: what the engine judges and records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    pub trigger: Trigger,
    /// Engine time at which it began.
    pub started_at: Timestamp,
    /// Engine time at which it ended: what schedule and streaks count from.
    pub ended_at: Timestamp,
    /// The URL as the endpoint had it when the attempt began.
    pub url: std::sync::Arc<str>,
    pub report: Report,
}

words! {
    /// What came of an attempt.
    pub enum Outcome {
        /// A success.
        Delivered = "delivered",
        /// A failure, and another attempt is scheduled.
        Retry = "retry",
        /// A failure, and the delivery is dead: by a rule, at its ladder's end, or because its endpoint is disabled.
        DeadLetter = "dead_letter",
        /// A failure that disabled the endpoint, by a rule or by the failure streak; the delivery is dead.
        Disable = "disable",
    }
}
