//! Whether anything leaves this installation at all (S6). If within a minute at least 20 attempts to at least 5 hosts
//! all failed before an answer and none succeeded in getting one, the fault is taken for ours.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use super::attempt::{Finding, Report};
use super::time::{Span, Timestamp};

/// How far back to look.
pub const EGRESS_WINDOW: Span = Span::MINUTE;
/// So many attempts …
pub const EGRESS_ATTEMPTS: usize = 20;
/// … to so many hosts without an answer.
pub const EGRESS_HOSTS: usize = 5;

/// What the installation's last attempts got.
#[derive(Debug, Default)]
pub struct Egress {
    /// Attempts that failed before an answer since the last answer.
    unanswered: VecDeque<(Timestamp, Arc<str>)>,
    told: bool,
}

/// What an attempt says about the way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WayOut {
    /// This attempt's failure is taken for ours: no streak grows.
    pub blocked: bool,
    /// Operators are to be told now, with these counts: attempts, hosts.
    pub tell: Option<(usize, usize)>,
}

impl Egress {
    /// Takes an attempt that ended at `now` (in real time) into account.
    pub fn after(&mut self, host: &Arc<str>, report: &Report, now: Timestamp) -> WayOut {
        if !matches!(report.finding, Finding::Failed { .. }) {
            if report.finding.status().is_some() {
                *self = Egress::default();
            }
            return WayOut { blocked: false, tell: None };
        }
        self.unanswered.push_back((now, host.clone()));
        // Twice the count is enough to decide by, however many fail at once.
        while self.unanswered.len() > 50 * EGRESS_ATTEMPTS
            || self.unanswered.front().is_some_and(|(at, _)| now.since(*at) > EGRESS_WINDOW)
        {
            self.unanswered.pop_front();
        }
        if self.unanswered.len() < EGRESS_ATTEMPTS {
            return WayOut { blocked: false, tell: None };
        }
        let hosts: HashSet<&str> = self.unanswered.iter().map(|(_, host)| &**host).collect();
        let blocked = hosts.len() >= EGRESS_HOSTS;
        let tell = (blocked && !self.told).then_some((self.unanswered.len(), hosts.len()));
        self.told |= blocked;
        WayOut { blocked, tell }
    }
}

#[cfg(test)]
mod tests {
    use super::super::attempt::{Answer, ErrorKind, Timing};
    use super::*;

    fn report(answered: bool) -> Report {
        let finding = match answered {
            true => Finding::Answered(Answer {
                status: 500,
                retry_after: None,
                excerpt: Default::default(),
                excerpt_truncated: false,
            }),
            false => Finding::Failed { kind: ErrorKind::Connect, error: "" },
        };
        Report { finding, timing: Timing::default(), remote_addr: None, took: Span::ZERO }
    }

    /// Blocked flags of attempts one second apart, to hosts in turn, with an answer at the places of `answers`.
    fn run(count: usize, hosts: usize, apart: Span, answers: &[usize]) -> (usize, usize) {
        let mut egress = Egress::default();
        let (mut blocked, mut told) = (0, 0);
        for index in 0..count {
            let host = format!("host{}", index % hosts).into();
            let now = Timestamp::from_micros(apart.as_micros() * index as i64);
            let way = egress.after(&host, &report(answers.contains(&index)), now);
            blocked += usize::from(way.blocked);
            told += usize::from(way.tell.is_some());
        }
        (blocked, told)
    }

    #[test]
    fn s06_twenty_unanswered_attempts_to_five_hosts_are_our_own_fault() {
        assert_eq!(run(25, 5, Span::SECOND, &[]), (6, 1));
        assert_eq!(run(100, 4, Span::SECOND, &[]), (0, 0), "too few hosts");
        assert_eq!(run(100, 5, Span::from_secs(4), &[]), (0, 0), "too slow");
        assert_eq!(run(25, 5, Span::SECOND, &[10]), (0, 0), "an answer, whatever it says");
        assert_eq!(run(65, 5, Span::SECOND, &[30]), (11 + 15, 2), "once per outage");
    }
}
