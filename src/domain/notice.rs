//! What the owner of an endpoint is told, and in which words (section *Notifications* of the semantics).

use super::policy::Policy;
use super::time::{Span, Timestamp};
use super::words::words;

words! {
    /// The kinds of notification.
    pub enum NoticeKind {
        AutoDisabled = "endpoint.auto_disabled",
        Enabled = "endpoint.enabled",
        /// The failure alert (S18).
        Failing = "endpoint.failing",
        CircuitOpened = "circuit.opened",
        CircuitClosed = "circuit.closed",
        /// Nothing leaves this installation (S6); told to operators.
        NoEgress = "installation.no_egress",
    }
}

/// One notification, committed in the same transaction as what it tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    pub kind: NoticeKind,
    pub title: String,
    pub message: String,
}

impl Notice {
    /// `reason` is the endpoint's `disabled_reason`; `since` the end of the streak's first failed attempt.
    pub fn auto_disabled(url: &str, since: Option<Timestamp>, reason: &str) -> Notice {
        let streak = since.map(|since| format!(" It has been failing since {since}.")).unwrap_or_default();
        Notice {
            kind: NoticeKind::AutoDisabled,
            title: "Webhook endpoint disabled".into(),
            message: format!(
                "{url} has been turned off: {reason}.{streak} It stays off until a person re-enables it; fix the \
                 receiver first, then requeue what is in the dead-letter queue."
            ),
        }
    }

    pub fn enabled(url: &str) -> Notice {
        Notice {
            kind: NoticeKind::Enabled,
            title: "Webhook endpoint enabled".into(),
            message: format!("{url} has been re-enabled. Nothing was requeued: choose from the dead-letter queue."),
        }
    }

    pub fn failing(url: &str, exhausted: u32) -> Notice {
        Notice {
            kind: NoticeKind::Failing,
            title: "Webhook endpoint failing".into(),
            message: format!("The last {exhausted} deliveries to {url} failed every attempt."),
        }
    }

    pub fn circuit_opened(url: &str, exhausted: u32, retry_at: Timestamp) -> Notice {
        Notice {
            kind: NoticeKind::CircuitOpened,
            title: "Circuit opened".into(),
            message: format!(
                "{exhausted} deliveries in a row to {url} failed every attempt. Its events are held, not dropped; one \
                 is tried at {retry_at}, and the first success releases the rest."
            ),
        }
    }

    pub fn circuit_closed(url: &str, why: &str) -> Notice {
        Notice {
            kind: NoticeKind::CircuitClosed,
            title: "Circuit closed".into(),
            message: format!("{why}: what was held for {url} is being delivered."),
        }
    }

    pub fn no_egress(attempts: usize, hosts: usize) -> Notice {
        Notice {
            kind: NoticeKind::NoEgress,
            title: "No attempt gets an answer".into(),
            message: format!(
                "The last {attempts} attempts to {hosts} different hosts all failed before an answer. This looks like \
                 our own network: retries go on, but no endpoint's failure streak grows."
            ),
        }
    }
}

/// Why an endpoint was disabled by a rule, as `disabled_reason` shows it.
pub mod reason {
    use super::*;

    pub fn answered(status: u16, delivery_id: &str) -> String {
        format!("answered {status} to {delivery_id}")
    }

    pub fn failures(count: u32, since: Timestamp) -> String {
        format!("{count} failed attempts in a row since {since}")
    }

    pub fn failing_for(since: Timestamp, limit: Span) -> String {
        format!("every delivery failed since {since} ({})", days_or_hours(limit))
    }

    fn days_or_hours(span: Span) -> String {
        let hours = span.as_millis() / 3_600_000;
        let (count, unit) = if hours >= 24 && hours % 24 == 0 { (hours / 24, "day") } else { (hours.max(1), "hour") };
        format!("{count} {unit}{}", if count == 1 { "" } else { "s" })
    }
}

/// Whether a policy's failure streak has reached a limit at an attempt that ended at `ended_at`; if so, the reason.
pub fn auto_disable_reason(policy: &Policy, failures: u32, since: Timestamp, ended_at: Timestamp) -> Option<String> {
    let rule = policy.auto_disable?;
    if rule.failures.is_some_and(|limit| failures >= limit) {
        return Some(reason::failures(failures, since));
    }
    let limit = rule.failing_for.filter(|&limit| ended_at.since(since) >= limit)?;
    Some(reason::failing_for(since, limit))
}
