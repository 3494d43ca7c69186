//! The verdict on one attempt: what it means for its delivery, its endpoint's streaks and circuit, and for people
//! (S4–S9, S13–S18). Called once per attempt in the order in which results are recorded.

use std::sync::Arc;

use super::attempt::{Attempt, Finding, Outcome};
use super::delivery::{DeadReason, DueReason, Next, Waiting};
use super::endpoint::{Endpoint, Status};
use super::health::{Circuit, CircuitChange, Health};
use super::notice::{self, Notice};
use super::policy::{Action, Policy};
use super::retry_after;
use super::time::Timestamp;

/// An attempt with all that its verdict depends on besides the endpoint: kept until the verdict is committed, so that it
/// can be judged again if the endpoint was changed meanwhile.
#[derive(Clone, Debug)]
pub struct Ended {
    /// The delivery as it was when the attempt began.
    pub delivery: Waiting,
    pub attempt: Attempt,
    /// The circuit's `opened_at` if this attempt was its probe.
    pub probe_of: Option<Timestamp>,
    /// The policy under which it began. What the answer means is read by its response rules and its `retry_after`; all
    /// else, the schedule too, is the endpoint's present policy (S22).
    pub policy: Arc<Policy>,
    /// Uniform in [0, 1), drawn once: the jitter of the next delay (S9).
    pub draw: f64,
    /// Wall clock in seconds when it ended, for a `Retry-After` that names a date.
    pub wall_secs: i64,
    /// Nothing left the installation lately (S6): rungs are used, streaks do not grow.
    pub no_egress: bool,
}

/// What to write for one attempt.
#[derive(Clone, Debug)]
pub struct Verdict {
    pub outcome: Outcome,
    pub next: Next,
    /// Set where the attempt failed as the circuit's probe.
    pub probed_at: Option<Timestamp>,
    pub notices: Vec<Notice>,
    /// The endpoint is disabled by this attempt, for this reason.
    pub disable: Option<String>,
    /// The circuit opened or closed.
    pub circuit: Option<CircuitChange>,
}

/// Judges `ended` against the endpoint as it stands, moving `endpoint.status` and `health` on.
pub fn judge(ended: &Ended, endpoint: &mut Endpoint, health: &mut Health) -> Verdict {
    // S7, S13: one that began before the last enable or edit of the URL counts in no streak and disables nothing.
    let counts = ended.attempt.started_at >= endpoint.counted_from;
    if ended.attempt.report.finding.is_success() {
        return success(counts, endpoint, health);
    }
    let mut verdict = failure(ended, counts, endpoint, health);
    verdict.outcome = match (&verdict.disable, verdict.next) {
        (Some(_), _) => Outcome::Disable,
        (None, Next::Retry { .. }) => Outcome::Retry,
        (None, Next::Dead(_) | Next::Delivered) => Outcome::DeadLetter,
    };
    verdict
}

fn failure(ended: &Ended, counts: bool, endpoint: &mut Endpoint, health: &mut Health) -> Verdict {
    let now = ended.attempt.ended_at;
    let status = ended.attempt.report.finding.status();
    let action = ended.policy.action(status);
    let mut next = match action {
        Action::Retry => retry(ended, endpoint),
        Action::DeadLetter | Action::Disable => Next::Dead(DeadReason::PermanentResponse),
    };
    // S15: it was cut off while on the wire.
    if ended.delivery.cut < endpoint.cut && matches!(next, Next::Retry { .. }) {
        next = Next::Dead(DeadReason::EndpointDisabled);
    }
    let mut verdict =
        Verdict { outcome: Outcome::Retry, next, probed_at: None, notices: Vec::new(), disable: None, circuit: None };
    if !counts {
        return verdict;
    }
    if !ended.no_egress {
        lengthen_streaks(&mut verdict, endpoint, health, now);
    }
    if ended.probe_of.is_some() && ended.probe_of == health.circuit.opened_at() {
        health.probe_failed(endpoint.policy.circuit_breaker, now);
        verdict.probed_at = Some(now);
    }
    if endpoint.is_enabled() {
        verdict.disable = match (action, status, health.failing_since) {
            (Action::Disable, Some(status), _) => Some(notice::reason::answered(status, &ended.delivery.id())),
            (_, _, Some(since)) if !ended.no_egress => {
                notice::auto_disable_reason(&endpoint.policy, health.failures, since, now)
            }
            _ => None,
        };
    }
    if let Some(reason) = &verdict.disable {
        endpoint.status = Status::AutoDisabled;
        endpoint.cut = endpoint.cut.saturating_add(1);
        verdict.notices.push(Notice::auto_disabled(&endpoint.url, health.failing_since, reason));
        // This delivery would wait, so the cut takes it too.
        if matches!(verdict.next, Next::Retry { .. }) {
            verdict.next = Next::Dead(DeadReason::EndpointDisabled);
        }
    }
    verdict
}

/// Any success of a delivery resets both streaks and closes the circuit (S13, S17).
fn success(counts: bool, endpoint: &Endpoint, health: &mut Health) -> Verdict {
    let circuit = counts.then(|| health.clear()).flatten();
    let notice = || Notice::circuit_closed(&endpoint.url, "An attempt succeeded");
    Verdict {
        outcome: Outcome::Delivered,
        next: Next::Delivered,
        probed_at: None,
        notices: circuit.map(|_| notice()).into_iter().collect(),
        disable: None,
        circuit,
    }
}

/// The next rung, or the ladder's end.
fn retry(ended: &Ended, endpoint: &Endpoint) -> Next {
    let asked = match &ended.attempt.report.finding {
        Finding::Answered(answer) if ended.policy.obeys_retry_after(answer.status) => {
            answer.retry_after.as_deref().and_then(|text| retry_after::parse(text, ended.wall_secs))
        }
        _ => None,
    };
    match endpoint.policy.delay(ended.delivery.attempt.saturating_add(1), ended.draw, asked) {
        Some(delay) => Next::Retry {
            due_at: ended.attempt.ended_at + delay.span,
            reason: if delay.by_receiver { DueReason::RetryAfter } else { DueReason::Schedule },
        },
        None => Next::Dead(DeadReason::Exhausted),
    }
}

/// Streaks, and what they set off: the alert and the circuit.
fn lengthen_streaks(verdict: &mut Verdict, endpoint: &Endpoint, health: &mut Health, now: Timestamp) {
    health.failed(now);
    if !matches!(verdict.next, Next::Dead(reason) if reason.by_attempts()) {
        return;
    }
    if health.exhausted(endpoint.policy.alert) {
        verdict.notices.push(Notice::failing(&endpoint.url, health.exhausted));
    }
    if let Some(change) = health.trip(endpoint.policy.circuit_breaker, now) {
        verdict.circuit = Some(change);
        if let Circuit::Open { retry_at, .. } = health.circuit {
            verdict.notices.push(Notice::circuit_opened(&endpoint.url, health.exhausted, retry_at));
        }
    }
}

#[cfg(test)]
mod tests;
