//! What a recorded attempt means: the verdict worked out again, and compared with the engine's.

use posthaste::domain::attempt::Finding;
use posthaste::domain::delivery::{DeadReason, DueReason, Line, Next, State};
use posthaste::domain::endpoint::Status;
use posthaste::domain::ids::EndpointNo;
use posthaste::domain::notice::NoticeKind;
use posthaste::domain::policy::{Action, Policy};
use posthaste::domain::time::{Span, Timestamp};

use super::model::{Endpoint, Model};
use crate::simulation::ledger::{Pages, Result};

impl Model {
    /// A batch of results was committed.
    pub fn recorded(&mut self, pages: &Pages, no: EndpointNo, results: &[Result], disabled: bool, skipped: bool) {
        let mut shut: Option<(Timestamp, u64)> = None;
        for result in results {
            let what = format!("attempt {} of delivery {}", result.attempt, result.delivery);
            let delivery = self.deliveries.get(&result.delivery);
            let fits = delivery.is_some_and(|delivery| {
                (delivery.run, delivery.attempt + 1) == (result.run, result.attempt) && delivery.state.waits()
            });
            if !fits {
                assert!(skipped, "{what}: its result was recorded twice, or belongs to another run");
                continue;
            }
            let index = self.endpoint(no).unrecorded.remove(&result.delivery);
            let index = index.unwrap_or_else(|| panic!("{what}: S1, a result was recorded of no attempt that ended"));
            let policies = self.begun_under.remove(&index).unwrap_or_default();
            // Two, only where it began while an edit was being answered.
            let read_by = policies.iter().find(|policy| **policy == result.policy).or(policies.first());
            let read_by = read_by.unwrap_or_else(|| panic!("{what}: no policy that it may have begun under")).clone();
            let wire = &pages.wire[index];
            let end = wire.ended.as_ref().expect("an attempt that ended");
            assert_eq!(
                (wire.began, end.at, end.finding.status(), wire.attempt),
                (result.started, result.ended, result.status, result.attempt),
                "{what}: what was recorded is not what happened"
            );
            let asked = match &end.finding {
                Finding::Answered(answer) => answer.retry_after.clone(),
                _ => None,
            };
            let was_closed = self.endpoints[&no].circuit.is_none();
            let disables = self.judge(no, (result, &read_by), index, asked, &what);
            assert_eq!(read_by, result.policy, "{what}: S22, judged by a policy that it did not begin under");
            if was_closed && self.endpoints[&no].circuit.is_some() {
                self.circuit_opened(pages, no, index);
            }
            if disables {
                assert_eq!(shut, None, "{what}: S14, disabled twice");
                shut = Some((result.ended, end.seq));
            }
        }
        assert_eq!(shut.is_some(), disabled, "endpoint {no}: S14, whether these results disable it");
        if let Some((at, seq)) = shut {
            let late = self.begun_since(pages, no, seq, at).next();
            assert!(late.is_none(), "endpoint {no}: S14, an attempt began after it was disabled at {at}");
            let endpoint = self.endpoint(no);
            *endpoint.notices.entry(NoticeKind::AutoDisabled).or_default() += 1;
            self.cut(no, at);
        }
    }

    /// One result, its answer read by the policy under which it began (S22). Answers whether it disables the endpoint.
    fn judge(
        &mut self,
        no: EndpointNo,
        (result, read_by): (&Result, &Policy),
        wire: usize,
        asked: Option<String>,
        what: &str,
    ) -> bool {
        let endpoint = self.endpoints.get_mut(&no).expect("an endpoint");
        let delivery = self.deliveries.get_mut(&result.delivery).expect("a delivery");
        let policy = endpoint.setup.policy.clone();
        let counts = result.started >= endpoint.counted_from;
        let ended = result.ended;
        (delivery.total, delivery.attempt) = (delivery.total + 1, delivery.attempt + 1);
        delivery.attempts.push((delivery.total, delivery.run, delivery.attempt, result.started, result.status));
        delivery.changed_at = self.now;
        delivery.spared = false;
        let was_cut = delivery.cut < endpoint.cut;
        if matches!(result.status, Some(200..=299)) {
            assert_eq!(result.next, Next::Delivered, "{what}: S4, a 2xx");
            delivery.state = State::Delivered;
            delivery.delivered_at.get_or_insert(ended);
            if counts {
                endpoint.clear_streaks();
                if endpoint.circuit.take().is_some() {
                    *endpoint.notices.entry(NoticeKind::CircuitClosed).or_default() += 1;
                    endpoint.late.circuit_closed(self.now);
                }
            }
            return false;
        }
        // S7, S8, S9: the rule that matches, or the next rung, or the end of the ladder.
        let action = read_by.action(result.status);
        let rung = policy.schedule.delay(delivery.attempt);
        let mut reason = match (action, rung) {
            (Action::Retry, Some(_)) => None,
            (Action::Retry, None) => Some(DeadReason::Exhausted),
            _ => Some(DeadReason::PermanentResponse),
        };
        if was_cut && reason.is_none() {
            reason = Some(DeadReason::EndpointDisabled);
        }
        let probe = endpoint.probe.filter(|probe| probe.0 == wire).map(|probe| probe.1);
        assert!(probe.is_none() || probe == result.probe_of, "{what}: S17, it began as the probe");
        // In the very instant in which a circuit opens, a person's retry may go out as its probe before that is
        // committed; nobody outside can tell.
        let probe = result.probe_of;
        let mut disables = false;
        if counts {
            if !result.no_egress {
                endpoint.failures += 1;
                endpoint.since.get_or_insert(ended);
                if reason.is_some_and(DeadReason::by_attempts) {
                    endpoint.died_of_attempts(ended);
                }
            }
            if let (Some(probed), Some((opened_at, retry_at))) = (probe, &mut endpoint.circuit)
                && probed == *opened_at
                && let Some(breaker) = policy.circuit_breaker
            {
                *retry_at = ended + breaker.cooldown;
                delivery.probed_at = Some(ended);
            }
            disables = endpoint.status == Status::Enabled && endpoint.disables(action, result);
        }
        if disables {
            endpoint.status = Status::AutoDisabled;
            endpoint.cut += 1;
            reason = reason.or(Some(DeadReason::EndpointDisabled));
        }
        match (reason, result.next) {
            (Some(reason), Next::Dead(given)) => {
                assert_eq!(given, reason, "{what}: S11, why it is dead");
                delivery.die(reason, ended, policy.dead_letters);
            }
            (None, Next::Retry { due_at, reason }) => {
                let rung = rung.expect("a rung");
                let delay = due_at.since(ended);
                // Rounding is upwards, by less than two microseconds.
                let longest = rung.scaled(1.0 + policy.jitter).min(Span::DAY) + Span::from_micros(1);
                let asked = asked.filter(|_| read_by.retry_after && matches!(result.status, Some(429 | 503)));
                let asked =
                    asked.and_then(|text| text.parse::<u64>().ok()).map(|secs| Span::from_secs(secs).min(Span::DAY));
                match asked.filter(|asked| reason == DueReason::RetryAfter || *asked > longest) {
                    Some(asked) => assert_eq!(delay, asked, "{what}: S8, what the receiver asked for"),
                    None => {
                        assert!(delay >= rung.min(Span::DAY) && delay <= longest, "{what}: S9, {delay:?} for {rung:?}")
                    }
                }
                (delivery.state, delivery.line) = (State::Failed, Line::Retry);
                (delivery.order_at, delivery.due_at) = (due_at, due_at);
            }
            (wanted, given) => panic!("{what}: S11, {given:?} where {wanted:?} was to be (None: a retry)"),
        }
        disables
    }
}

impl Endpoint {
    /// S13, S17, S18.
    fn died_of_attempts(&mut self, at: Timestamp) {
        self.exhausted += 1;
        if !self.alerted && self.setup.policy.alert.is_some_and(|limit| self.exhausted >= limit) {
            self.alerted = true;
            *self.notices.entry(NoticeKind::Failing).or_default() += 1;
        }
        let breaker = self.setup.policy.circuit_breaker;
        if let Some(breaker) = breaker.filter(|breaker| self.circuit.is_none() && self.exhausted >= breaker.exhausted) {
            self.circuit = Some((at, at + breaker.cooldown));
            self.late.circuit_opened(at);
            *self.notices.entry(NoticeKind::CircuitOpened).or_default() += 1;
        }
    }

    /// S7, S14: a rule, the count, or the duration.
    fn disables(&self, action: Action, result: &Result) -> bool {
        if action == Action::Disable && result.status.is_some() {
            return true;
        }
        let Some(rule) = self.setup.policy.auto_disable.filter(|_| !result.no_egress) else { return false };
        let long =
            self.since.is_some_and(|since| rule.failing_for.is_some_and(|limit| result.ended.since(since) >= limit));
        long || rule.failures.is_some_and(|limit| self.failures >= limit)
    }
}
