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
    /// In a row.
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

    /// Takes an attempt's end into account.
    pub fn after(&mut self, report: &Report, max_in_flight: u16) {
        match Weight::of(report) {
            Weight::Success => {
                self.slow_failures = 0;
                let doubled = self.narrowed_to.map(|slots| slots.saturating_mul(2));
                self.narrowed_to = doubled.filter(|&slots| slots < max_in_flight);
            }
            Weight::Slow => {
                self.slow_failures = self.slow_failures.saturating_add(1);
                if self.slow_failures >= NARROW_AFTER {
                    self.narrowed_to = Some(NARROW_TO);
                }
            }
            Weight::QuickAnswer => self.slow_failures = 0,
            Weight::QuickRefusal => {}
        }
    }
}

/// What an attempt says about how much of the machine its receiver takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Weight {
    /// Ends the row of slow failures, and doubles the allowance.
    Success,
    /// No answer, or one that took longer than [`SLOW`]: lengthens the row.
    Slow,
    /// A failure answer within [`SLOW`]: the receiver is there and costs nobody anything, so the row is over.
    QuickAnswer,
    /// No connection within [`SLOW`], because the receiver or the network refused it at once or the address is not
    /// called at all. It costs nobody anything, so it does not lengthen the row; it shows no receiver that answers
    /// either, so it does not end it: one that hangs and refuses by turns would never be narrowed.
    QuickRefusal,
}

impl Weight {
    fn of(report: &Report) -> Weight {
        match &report.finding {
            finding if finding.is_success() => Weight::Success,
            _ if report.took > SLOW => Weight::Slow,
            Finding::Answered(_) => Weight::QuickAnswer,
            Finding::Failed { kind: ErrorKind::Connect | ErrorKind::BlockedAddress, .. } => Weight::QuickRefusal,
            Finding::Failed { .. } => Weight::Slow,
            // Says nothing of the receiver (S6).
            Finding::Local { .. } => Weight::QuickRefusal,
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

    /// What one attempt does to the row of slow failures.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Row {
        Longer,
        Same,
        Over,
    }

    #[test]
    fn s19_what_lengthens_ends_and_leaves_the_row_of_slow_failures() {
        use ErrorKind::*;
        let answer = |status| (Some(status), Connect);
        let failure = |kind| (None, kind);
        let table = [
            // No answer, however quickly that was known.
            (failure(Timeout), 100, Row::Longer),
            (failure(Timeout), 30_000, Row::Longer),
            (failure(Dns), 3, Row::Longer),
            (failure(Dns), 5_000, Row::Longer),
            (failure(Tls), 20, Row::Longer),
            (failure(Reset), 2, Row::Longer),
            (failure(Protocol), 2, Row::Longer),
            (failure(Connect), 1_001, Row::Longer),
            (failure(Connect), 10_000, Row::Longer),
            (failure(BlockedAddress), 1_001, Row::Longer),
            // An answer that took its time.
            (answer(500), 1_001, Row::Longer),
            (answer(404), 20_000, Row::Longer),
            // Quick refusals.
            (failure(Connect), 0, Row::Same),
            (failure(Connect), 1_000, Row::Same),
            (failure(BlockedAddress), 0, Row::Same),
            // Quick failure answers.
            (answer(500), 5, Row::Over),
            (answer(302), 1_000, Row::Over),
            (answer(429), 1, Row::Over),
            // Successes, quick or not.
            (answer(200), 5, Row::Over),
            (answer(204), 29_000, Row::Over),
        ];
        let slow = report(None, Timeout, 15_000);
        for ((status, kind), millis, expected) in table {
            let mut allowance = Allowance::full();
            // One short of the limit, then this one, then slow ones again until it is narrowed.
            (1..NARROW_AFTER).for_each(|_| allowance.after(&slow, 16));
            allowance.after(&report(status, kind, millis), 16);
            let more = (0..=NARROW_AFTER).position(|_| {
                let narrowed = allowance.is_narrowed();
                allowance.after(&slow, 16);
                narrowed
            });
            let row = match more {
                Some(0) => Row::Longer,
                Some(1) => Row::Same,
                _ => Row::Over,
            };
            assert_eq!(row, expected, "{status:?} {kind} after {millis} ms");
        }
    }

    #[test]
    fn s19_an_endpoint_is_narrowed_to_two_and_successes_widen_it() {
        let mut allowance = Allowance::full();
        let mut after = |status, kind, millis, times| {
            for _ in 0..times {
                allowance.after(&report(status, kind, millis), 16);
            }
            allowance.slots(16)
        };
        assert_eq!(after(None, ErrorKind::Connect, 1, 50), 16, "quick refusals");
        assert_eq!(after(Some(500), ErrorKind::Connect, 20, 50), 16, "quick answers");
        assert_eq!(after(None, ErrorKind::Timeout, 15_000, 9), 16);
        assert_eq!(after(Some(503), ErrorKind::Connect, 1_001, 1), 2);
        assert_eq!(after(None, ErrorKind::Connect, 1, 5), 2, "a quick refusal widens nothing");
        assert_eq!(after(Some(500), ErrorKind::Connect, 1, 5), 2, "nor does a quick failure answer");
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
