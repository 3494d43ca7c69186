//! How much of the machine one endpoint may take (S19), and how long we keep still when the fault is ours (S6).

use super::attempt::{ErrorKind, Finding, Report};
use super::time::{Span, Timestamp};

/// So many slow failures in a row narrow an endpoint.
pub const NARROW_AFTER: u32 = 10;
/// What a narrowed endpoint may have on the wire.
pub const NARROW_TO: u16 = 2;
/// A failure that took longer is slow, whatever it was.
pub const SLOW: Span = Span::SECOND;

/// How many attempts an endpoint may have on the wire now.
#[derive(Clone, Copy, Debug)]
pub struct Allowance {
    narrowed_to: Option<u16>,
    slow_failures: u32,
}

impl Allowance {
    pub const fn full() -> Allowance {
        Allowance { narrowed_to: None, slow_failures: 0 }
    }

    pub fn slots(self, max_in_flight: u16) -> usize {
        usize::from(self.narrowed_to.unwrap_or(max_in_flight).min(max_in_flight))
    }

    pub fn is_narrowed(self) -> bool {
        self.narrowed_to.is_some()
    }

    /// Takes an attempt's end into account: slow failures narrow, each success doubles the allowance again, quick
    /// refusals cost nobody anything and only end the row of slow ones.
    pub fn after(&mut self, report: &Report, max_in_flight: u16) {
        if report.finding.is_success() {
            self.slow_failures = 0;
            let doubled = self.narrowed_to.map(|slots| slots.saturating_mul(2));
            self.narrowed_to = doubled.filter(|&slots| slots < max_in_flight);
            return;
        }
        let timed_out = matches!(report.finding, Finding::Failed { kind: ErrorKind::Timeout, .. });
        self.slow_failures = if timed_out || report.took > SLOW { self.slow_failures.saturating_add(1) } else { 0 };
        if self.slow_failures >= NARROW_AFTER {
            self.narrowed_to = Some(NARROW_TO);
        }
    }
}

/// A wait that doubles with each failure in a row, up to a limit.
#[derive(Clone, Copy, Debug)]
pub struct BackOff {
    first: Span,
    limit: Span,
    failures: u32,
    until: Option<Timestamp>,
}

impl BackOff {
    pub const fn new(first: Span, limit: Span) -> BackOff {
        BackOff { first, limit, failures: 0, until: None }
    }

    /// Failures while the wait lasts are those of attempts that began before it: they count once, together.
    pub fn failed(&mut self, now: Timestamp) {
        if self.until(now).is_some() {
            return;
        }
        let wait = self.first.scaled(f64::from(1u32 << self.failures.min(20))).min(self.limit);
        self.failures = self.failures.saturating_add(1);
        self.until = Some(now + wait);
    }

    pub fn succeeded(&mut self) {
        self.failures = 0;
        self.until = None;
    }

    /// Until when to keep still, if that is still to come.
    pub fn until(&self, now: Timestamp) -> Option<Timestamp> {
        self.until.filter(|&until| until > now)
    }
}

#[cfg(test)]
mod tests {
    use super::super::attempt::{Answer, Timing};
    use super::*;

    fn report(status: Option<u16>, kind: ErrorKind, millis: u64) -> Report {
        let answer =
            |status| Answer { status, retry_after: None, excerpt: Default::default(), excerpt_truncated: false };
        let finding = match status {
            Some(status) => Finding::Answered(answer(status)),
            None => Finding::Failed { kind, error: "" },
        };
        Report { finding, timing: Timing::default(), remote_addr: None, took: Span::from_millis(millis) }
    }

    #[test]
    fn s19_slow_failures_narrow_quick_ones_do_not_and_successes_widen() {
        let mut allowance = Allowance::full();
        let mut after = |status, kind, millis, times| {
            for _ in 0..times {
                allowance.after(&report(status, kind, millis), 16);
            }
            allowance.slots(16)
        };
        assert_eq!(after(None, ErrorKind::Connect, 1, 50), 16, "quick refusals");
        assert_eq!(after(Some(500), ErrorKind::Connect, 20, 50), 16, "quick answers");
        assert_eq!(after(None, ErrorKind::Timeout, 100, 9), 16);
        assert_eq!(after(Some(500), ErrorKind::Connect, 1, 1), 16, "ends the row");
        assert_eq!(after(None, ErrorKind::Timeout, 100, 9), 16);
        assert_eq!(after(Some(503), ErrorKind::Connect, 1_001, 1), 2);
        assert_eq!(after(None, ErrorKind::Connect, 1, 5), 2, "a quick refusal widens nothing");
        for slots in [4, 8, 16, 16] {
            assert_eq!(after(Some(204), ErrorKind::Connect, 5_000, 1), slots);
        }
    }

    #[test]
    fn s06_the_wait_doubles_to_its_limit() {
        let mut wait = BackOff::new(Span::SECOND, Span::MINUTE);
        let mut now = Timestamp::from_micros(0);
        let seconds: Vec<i64> = (0..9)
            .map(|_| {
                // A whole window of attempts fails at once: that is one failure.
                (0..16).for_each(|_| wait.failed(now));
                let until = wait.until(now).unwrap();
                let waited = until.since(now);
                now = until;
                waited.as_micros() / 1_000_000
            })
            .collect();
        assert_eq!(seconds, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
        wait.succeeded();
        assert_eq!(wait.until(now), None);
    }
}
