//! Whether anything leaves this installation at all (S6). If within a minute at least 20 attempts to at least 5 hosts
//! all failed before an answer and none succeeded in getting one, the fault is taken for ours.
//!
//! All of this is in real time since the process started, from the monotonic clock: a step of the wall clock must neither
//! make an outage nor hide one (S25).

use std::collections::{HashSet, VecDeque};

use super::attempt::{ErrorKind, Finding, Report};
use super::target::{Host, TargetUrl};
use super::time::Span;

/// How far back to look.
pub const EGRESS_WINDOW: Span = Span::MINUTE;
/// So many attempts …
pub const EGRESS_ATTEMPTS: usize = 20;
/// … to so many hosts without an answer.
pub const EGRESS_HOSTS: usize = 5;
/// The last so many are remembered, however many fail within a minute.
const REMEMBERED: usize = 50 * EGRESS_ATTEMPTS;

/// What the installation's last attempts got.
#[derive(Debug, Default)]
pub struct Egress {
    /// Attempts that failed before an answer since the last answer: when, and to whom.
    unanswered: VecDeque<(Span, Host)>,
    /// Operators are being told of this outage, or have been.
    told: bool,
}

/// What an attempt says about the way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WayOut {
    /// This attempt's failure is taken for ours: no streak grows.
    pub blocked: bool,
    /// Operators are to be told now, with these counts: attempts, hosts. Said once per outage, so whoever is told must
    /// see to it that they hear it.
    pub tell: Option<(usize, usize)>,
}

impl Egress {
    /// Takes an attempt to `url` into account that ended at `now`: real time since the process started.
    pub fn after(&mut self, url: &str, report: &Report, now: Span) -> WayOut {
        // An address that is not called says nothing about the way out, and anybody can give one out for any name.
        let went_out = |kind| kind != ErrorKind::BlockedAddress;
        if !matches!(report.finding, Finding::Failed { kind, .. } if went_out(kind)) {
            if report.finding.status().is_some() {
                *self = Egress::default();
            }
            return WayOut { blocked: false, tell: None };
        }
        self.unanswered.push_back((now, host_of(url)));
        let is_old = |(at, _): &(Span, Host)| now.as_micros() - at.as_micros() > EGRESS_WINDOW.as_micros();
        while self.unanswered.len() > REMEMBERED || self.unanswered.front().is_some_and(is_old) {
            self.unanswered.pop_front();
        }
        if self.unanswered.len() < EGRESS_ATTEMPTS {
            return WayOut { blocked: false, tell: None };
        }
        let hosts: HashSet<&Host> = self.unanswered.iter().map(|(_, host)| host).collect();
        let blocked = hosts.len() >= EGRESS_HOSTS;
        let tell = (blocked && !self.told).then_some((self.unanswered.len(), hosts.len()));
        self.told |= blocked;
        WayOut { blocked, tell }
    }
}

/// The machine that a URL names, as far as its text tells: without the port, however the name or address is spelt.
fn host_of(url: &str) -> Host {
    match TargetUrl::parse(url, false).map(|target| target.origin().host) {
        Ok(Host::Ip(ip)) => Host::Ip(ip.to_canonical()),
        Ok(name) => name,
        // Only a row from elsewhere; it is some host.
        Err(_) => Host::Name(url.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::attempt::{Answer, Timing};
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
            let url = format!("https://host{}.test/hook", index % hosts);
            let now = Span::from_micros(apart.as_micros() * index as i64);
            let way = egress.after(&url, &report(answers.contains(&index)), now);
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

    #[test]
    fn s06_a_host_is_a_machine_whatever_the_port_and_the_spelling() {
        // URLs, and how many hosts they are.
        for (urls, hosts) in [
            (["http://a.test:1/", "http://a.test:2/", "https://a.test/x", "http://A.TEST./?y", "http://a.test#z"], 1),
            (["http://[::1]:1/", "http://[::1]:2/", "https://[0:0::1]/x", "http://[::1]?y", "http://[::2]/"], 2),
            (
                [
                    "http://127.0.0.1:1/",
                    "http://127.1/",
                    "http://0x7f000001/",
                    "http://[::ffff:127.0.0.1]:9/",
                    "http://b/",
                ],
                2,
            ),
            (["http://a.test/", "http://b.test/", "http://c.test/", "http://1.2.3.4/", "http://[::1]/"], 5),
        ] {
            let different: HashSet<Host> = urls.into_iter().map(host_of).collect();
            assert_eq!(different.len(), hosts, "{urls:?}");
            let mut egress = Egress::default();
            let blocked = (0..40).any(|index| egress.after(urls[index % 5], &report(false), Span::ZERO).blocked);
            assert_eq!(blocked, hosts >= EGRESS_HOSTS, "{urls:?}");
        }
    }

    #[test]
    fn s06_addresses_that_are_not_called_are_no_sign_of_an_outage() {
        let mut egress = Egress::default();
        let mut blocked = report(false);
        blocked.finding = Finding::Failed { kind: ErrorKind::BlockedAddress, error: "" };
        for index in 0..4 * EGRESS_ATTEMPTS {
            let way = egress.after(&format!("https://host{index}.test/"), &blocked, Span::from_secs(1));
            assert_eq!(way, WayOut { blocked: false, tell: None });
        }
    }
}
