//! A policy: how one endpoint is treated. Schedule, jitter, timeout, response rules, breaker, auto-disable, retention.

use super::schedule::{Schedule, StatusSet};
use super::time::Span;
use super::words::words;

words! {
    /// The three released presets. A preset never changes once released; an endpoint may override any field.
    pub enum Preset {
        /// Ten attempts over 4.3 hours; proven-dead statuses disable; 50 failed attempts in a row disable. The default.
        Orbit = "orbit",
        /// Five attempts over 15 minutes; ten exhausted deliveries in a row open the circuit.
        Shellorbit = "shellorbit",
        /// Nine attempts over 45 hours; three days of nothing but failure disable.
        Salaf = "salaf",
    }
}

words! {
    /// What a response rule does with a delivery (S7).
    pub enum Action {
        /// Go on with the schedule.
        Retry = "retry",
        /// Skip the rest of the run.
        DeadLetter = "dead_letter",
        /// Dead-letter this delivery and disable the endpoint at once.
        Disable = "disable",
    }
}

words! {
    /// What becomes of a new event for a disabled endpoint (S15).
    pub enum WhileDisabled {
        /// A dead delivery is created, so a person can requeue it.
        DeadLetter = "dead_letter",
        /// None is created; the event itself is kept.
        Skip = "skip",
    }
}

/// One response rule: statuses and what they mean. The first rule that matches wins.
#[derive(Clone, Debug, PartialEq)]
pub struct ResponseRule {
    pub status: StatusSet,
    pub action: Action,
}

/// When an endpoint is disabled by its failure streak (S14): by count, by duration, or by whichever comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AutoDisable {
    /// Failed attempts in a row.
    pub failures: Option<u32>,
    /// From the end of the streak's first failed attempt to the end of this one.
    pub failing_for: Option<Span>,
}

/// When the circuit opens, and for how long (S17).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CircuitBreaker {
    /// Deliveries in a row that died of their attempts.
    pub exhausted: u32,
    pub cooldown: Span,
}

/// A resolved policy: every field has its value.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    pub preset: Preset,
    pub schedule: Schedule,
    /// Each delay is multiplied by 1 + U(0, jitter) (S9). Between 0 and 1.
    pub jitter: f64,
    /// From the start of name resolution to the end of the response head, in real time (S4).
    pub timeout: Span,
    /// Obey `Retry-After` on 429 and 503 (S8).
    pub retry_after: bool,
    pub responses: Vec<ResponseRule>,
    pub auto_disable: Option<AutoDisable>,
    pub circuit_breaker: Option<CircuitBreaker>,
    /// Exhausted deliveries in a row after which the owner is told that the endpoint is failing (S18).
    pub alert: Option<u32>,
    pub while_disabled: WhileDisabled,
    /// How long a dead letter can be requeued, from its death (S20).
    pub dead_letters: Span,
}

impl Policy {
    /// The preset as released. Numbers: `seeds` 000 (orbit), 002 (shellorbit), 003 (salaf).
    pub fn preset(preset: Preset) -> Policy {
        let rules = |status: &str, action| {
            let status = StatusSet::parse(status).unwrap_or_default();
            vec![ResponseRule { status, action }]
        };
        match preset {
            Preset::Orbit => Policy {
                preset,
                schedule: Schedule::Exponential {
                    initial: Span::from_secs(30),
                    factor: 2.0,
                    retries: 9,
                    max_delay: Span::DAY,
                },
                jitter: 0.2,
                timeout: Span::from_secs(30),
                retry_after: false,
                responses: rules("401,403,404,410", Action::Disable),
                auto_disable: Some(AutoDisable { failures: Some(50), failing_for: None }),
                circuit_breaker: None,
                alert: None,
                while_disabled: WhileDisabled::DeadLetter,
                dead_letters: Span::from_secs(7 * 86_400),
            },
            Preset::Shellorbit => Policy {
                preset,
                schedule: Schedule::Ladder([8, 32, 120, 720].map(Span::from_secs).to_vec()),
                jitter: 0.2,
                timeout: Span::from_secs(15),
                retry_after: true,
                responses: rules("410", Action::DeadLetter),
                auto_disable: None,
                circuit_breaker: Some(CircuitBreaker { exhausted: 10, cooldown: Span::from_secs(600) }),
                alert: Some(5),
                while_disabled: WhileDisabled::DeadLetter,
                dead_letters: Span::from_secs(30 * 86_400),
            },
            Preset::Salaf => Policy {
                preset,
                schedule: Schedule::Ladder(
                    [30, 120, 600, 1_800, 7_200, 21_600, 43_200, 86_400].map(Span::from_secs).to_vec(),
                ),
                jitter: 0.0,
                timeout: Span::from_secs(10),
                retry_after: false,
                responses: Vec::new(),
                auto_disable: Some(AutoDisable { failures: None, failing_for: Some(Span::from_secs(3 * 86_400)) }),
                circuit_breaker: None,
                alert: None,
                while_disabled: WhileDisabled::Skip,
                dead_letters: Span::from_secs(30 * 86_400),
            },
        }
    }

    /// What a failed attempt means by the response rules; an attempt without an answer is always retried.
    pub fn action(&self, status: Option<u16>) -> Action {
        let matching = |status| self.responses.iter().find(|rule| rule.status.contains(status));
        status.and_then(matching).map_or(Action::Retry, |rule| rule.action)
    }

    /// Whether an answer with this status may put the next attempt off with `Retry-After` (S8).
    pub fn obeys_retry_after(&self, status: u16) -> bool {
        self.retry_after && matches!(status, 429 | 503)
    }

    /// The delay after the `failed`-th failed attempt of a run, or `None` at the ladder's end. `draw` is uniform in
    /// [0, 1) and turned into jitter; `asked` is what the receiver asked for with a `Retry-After` that is obeyed, but only
    /// upwards (S8). No delay is shorter than its rung, none longer than 24 hours (S9).
    pub fn delay(&self, failed: u32, draw: f64, asked: Option<Span>) -> Option<Delay> {
        let rung = self.schedule.delay(failed)?;
        let scheduled = rung.scaled(1.0 + draw.clamp(0.0, 1.0) * self.jitter).min(MAX_DELAY);
        Some(match asked.map(|span| span.min(MAX_DELAY)) {
            Some(asked) if asked > scheduled => Delay { span: asked, by_receiver: true },
            _ => Delay { span: scheduled, by_receiver: false },
        })
    }
}

/// The longest gap between two attempts of a run (S9; seed 002: "a maximum gap of 24 hours").
pub const MAX_DELAY: Span = Span::DAY;
/// The most attempts a run may have (S9; seed 002: "the ceiling is 50 attempts").
pub const MAX_ATTEMPTS: u32 = 50;

/// How long to wait, and whose wish it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delay {
    pub span: Span,
    /// `Retry-After` decided, not the schedule.
    pub by_receiver: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ladder(preset: Preset) -> Vec<u64> {
        let policy = Policy::preset(preset);
        (1..).map_while(|n| policy.schedule.delay(n)).map(|span| span.as_millis() as u64 / 1000).collect()
    }

    #[test]
    fn s09_presets_have_the_ladders_of_their_seeds() {
        assert_eq!(ladder(Preset::Orbit), [30, 60, 120, 240, 480, 960, 1920, 3840, 7680]);
        assert_eq!(ladder(Preset::Shellorbit), [8, 32, 120, 720]);
        assert_eq!(ladder(Preset::Salaf), [30, 120, 600, 1800, 7200, 21600, 43200, 86400]);
    }

    #[test]
    fn s07_the_first_matching_rule_wins_and_errors_match_none() {
        let mut policy = Policy::preset(Preset::Orbit);
        for (status, action) in
            [(401, Action::Disable), (410, Action::Disable), (400, Action::Retry), (500, Action::Retry)]
        {
            assert_eq!(policy.action(Some(status)), action, "{status}");
        }
        assert_eq!(policy.action(None), Action::Retry);
        let rule = ResponseRule { status: StatusSet::parse("400-499").unwrap(), action: Action::DeadLetter };
        policy.responses.insert(0, rule);
        assert_eq!(policy.action(Some(410)), Action::DeadLetter);
        assert_eq!(Policy::preset(Preset::Salaf).action(Some(404)), Action::Retry);
        assert_eq!(Policy::preset(Preset::Shellorbit).action(Some(410)), Action::DeadLetter);
    }

    #[test]
    fn s08_retry_after_only_lengthens_only_on_429_and_503_and_only_where_asked_for() {
        let obeys = Policy::preset(Preset::Shellorbit);
        for status in 300..600 {
            assert_eq!(obeys.obeys_retry_after(status), status == 429 || status == 503, "{status}");
            assert!(!Policy::preset(Preset::Orbit).obeys_retry_after(status));
        }
        let wait = |asked| obeys.delay(1, 0.0, Some(Span::from_secs(asked))).unwrap();
        assert_eq!(wait(60), Delay { span: Span::from_secs(60), by_receiver: true });
        assert_eq!(wait(5), Delay { span: Span::from_secs(8), by_receiver: false });
        assert_eq!(wait(9_999_999_999), Delay { span: Span::DAY, by_receiver: true });
    }

    proptest! {
        #[test]
        fn s09_no_delay_is_shorter_than_its_rung_or_longer_than_a_day(
            failed in 1u32..60, draw in 0.0f64..1.0, jitter in 0.0f64..=1.0, initial in 0u64..86_400_000,
            factor in 1.0f64..10.0, asked in proptest::option::of(0u64..u64::MAX),
        ) {
            let mut policy = Policy::preset(Preset::Shellorbit);
            policy.jitter = jitter;
            policy.schedule = Schedule::Exponential {
                initial: Span::from_millis(initial), factor, retries: 49, max_delay: Span::DAY,
            };
            let delay = policy.delay(failed, draw, asked.map(Span::from_secs));
            prop_assert_eq!(delay.is_some(), failed <= 49);
            if let Some(delay) = delay {
                let rung = policy.schedule.delay(failed).unwrap();
                prop_assert!(delay.span >= rung && delay.span <= Span::DAY);
            }
        }
    }
}
