//! Attempts as they are answered. None of them is ever written by callers.

use std::borrow::Cow;

use serde::Serialize;

use crate::domain::attempt::{Attempt, Finding, Outcome};
use crate::domain::ids::{DeliveryNo, attempt_id, delivery_id};
use crate::domain::time::{Span, Timestamp};
use crate::store::rows::{AttemptRow, at};

#[derive(Serialize)]
pub struct AttemptJson<'a> {
    id: String,
    /// Only where the attempt is shown without its delivery.
    #[serde(skip_serializing_if = "Option::is_none")]
    delivery_id: Option<String>,
    run: i32,
    attempt: i32,
    trigger: &'a str,
    started_at: Timestamp,
    /// These and the phases are whole milliseconds of real time, rounded down.
    duration_ms: i64,
    timing: TimingJson,
    remote_addr: Option<Cow<'a, str>>,
    url: &'a str,
    status: Option<i32>,
    /// `null` beside an `error`: a ping that met a fault of ours (S6). The receiver was not asked, or it is not known.
    error_kind: Option<&'a str>,
    error: Option<&'a str>,
    /// The receiver's bytes as text: what is no UTF-8 is replaced. Escaping is the business of whoever shows it (C91).
    excerpt: Cow<'a, str>,
    excerpt_truncated: bool,
    /// `null`: a ping that got no 2xx. It means nothing for any delivery, so it has no outcome.
    outcome: Option<&'a str>,
}

#[derive(Serialize)]
struct TimingJson {
    dns_ms: Option<i64>,
    connect_ms: Option<i64>,
    tls_ms: Option<i64>,
    first_byte_ms: Option<i64>,
}

fn millis(micros: i64) -> i64 {
    // Downwards: `started_at` + `duration_ms` is never after the attempt's end, from which the schedule counts (S9).
    micros / 1_000
}

impl<'a> From<&'a AttemptRow> for AttemptJson<'a> {
    fn from(row: &'a AttemptRow) -> Self {
        let started_at = at(row.started_at);
        AttemptJson {
            id: attempt_id(DeliveryNo(row.delivery), row.number.unsigned_abs(), started_at),
            delivery_id: None,
            run: row.run,
            attempt: row.attempt,
            trigger: &row.cause,
            started_at,
            duration_ms: millis(row.duration),
            timing: TimingJson {
                dns_ms: row.dns.map(millis),
                connect_ms: row.connect.map(millis),
                tls_ms: row.tls.map(millis),
                first_byte_ms: row.first_byte.map(millis),
            },
            remote_addr: row.remote_addr.as_deref().map(Cow::from),
            url: &row.url,
            status: row.status,
            error_kind: row.error_kind.as_deref(),
            error: row.error.as_deref(),
            excerpt: String::from_utf8_lossy(&row.excerpt),
            excerpt_truncated: row.excerpt_truncated,
            outcome: Some(&row.outcome),
        }
    }
}

impl<'a> AttemptJson<'a> {
    /// The attempt with its delivery, which was created at that instant.
    pub fn with_delivery(row: &'a AttemptRow, created_at: Timestamp) -> AttemptJson<'a> {
        AttemptJson { delivery_id: Some(delivery_id(DeliveryNo(row.delivery), created_at)), ..AttemptJson::from(row) }
    }

    /// A ping's attempt, whatever came of it.
    pub fn ping(id: String, attempt: &'a Attempt) -> AttemptJson<'a> {
        let report = &attempt.report;
        let phase = |span: Option<Span>| span.map(|span| millis(span.as_micros()));
        let (error_kind, error) = match &report.finding {
            Finding::Answered(_) => (None, None),
            Finding::Failed { kind, error } => (Some(kind.as_str()), Some(*error)),
            Finding::Local { reason } => (None, Some(*reason)),
        };
        let (excerpt, excerpt_truncated) = match &report.finding {
            Finding::Answered(answer) => (String::from_utf8_lossy(&answer.excerpt), answer.excerpt_truncated),
            _ => (Cow::Borrowed(""), false),
        };
        AttemptJson {
            id,
            delivery_id: None,
            run: 1,
            attempt: 1,
            trigger: attempt.trigger.as_str(),
            started_at: attempt.started_at,
            duration_ms: millis(report.took.as_micros()),
            timing: TimingJson {
                dns_ms: phase(report.timing.dns),
                connect_ms: phase(report.timing.connect),
                tls_ms: phase(report.timing.tls),
                first_byte_ms: phase(report.timing.first_byte),
            },
            remote_addr: report.remote_addr.map(|address| address.to_string().into()),
            url: &attempt.url,
            status: report.finding.status().map(i32::from),
            error_kind,
            error,
            excerpt,
            excerpt_truncated,
            outcome: report.finding.is_success().then_some(Outcome::Delivered.as_str()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::attempt::{Answer, ErrorKind, Report, Timing, Trigger};
    use serde_json::{Value, json};

    #[test]
    fn a_ping_is_answered_whatever_came_of_it() {
        let answered = |status| {
            let excerpt = "ok".into();
            Finding::Answered(Answer { status, retry_after: None, excerpt, excerpt_truncated: false })
        };
        let table = [
            (answered(204), [json!(204), Value::Null, Value::Null, json!("delivered")]),
            (answered(410), [json!(410), Value::Null, Value::Null, Value::Null]),
            (
                Finding::Failed { kind: ErrorKind::Tls, error: "the certificate has expired" },
                [Value::Null, json!("tls"), json!("the certificate has expired"), Value::Null],
            ),
            // S6: a fault of ours is a result like any other.
            (
                Finding::Local { reason: "no file descriptors left" },
                [Value::Null, Value::Null, json!("no file descriptors left"), Value::Null],
            ),
        ];
        for (finding, expected) in table {
            let at = Timestamp::from_micros(0);
            let report = Report { finding, timing: Timing::default(), remote_addr: None, took: Span::ZERO };
            let (trigger, url) = (Trigger::Ping, "https://one.test/".into());
            let attempt = Attempt { trigger, started_at: at, ended_at: at, url, report };
            let shown = serde_json::to_value(AttemptJson::ping("att_1".into(), &attempt)).unwrap();
            let told = ["status", "error_kind", "error", "outcome"].map(|member| shown[member].clone());
            assert_eq!((told, &shown["trigger"]), (expected, &json!("ping")));
        }
    }
}
