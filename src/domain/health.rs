//! What an endpoint's owner knows of its receiver: both streaks (S13), the alert (S18), the circuit breaker (S17).
//!
//! ```text
//!            exhausted streak reaches n            retry_at reached
//!  closed ───────────────────────────────▶ open ─────────────────────▶ half_open (derived, never stored)
//!     ▲                                     ▲                              │
//!     │ any success, enable, edit of url    │ the probe fails              │ one probe
//!     └─────────────────────────────────────┴──────────────────────────────┘
//! ```

use super::policy::CircuitBreaker;
use super::time::Timestamp;
use super::words::words;

/// The circuit as it is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Circuit {
    #[default]
    Closed,
    /// Nothing starts before `retry_at`; from then on one probe at a time.
    Open { opened_at: Timestamp, retry_at: Timestamp },
}

words! {
    /// The circuit as people see it.
    pub enum CircuitState {
        Closed = "closed",
        Open = "open",
        HalfOpen = "half_open",
    }
}

impl Circuit {
    pub fn state(self, now: Timestamp) -> CircuitState {
        match self {
            Circuit::Closed => CircuitState::Closed,
            Circuit::Open { retry_at, .. } if now < retry_at => CircuitState::Open,
            Circuit::Open { .. } => CircuitState::HalfOpen,
        }
    }

    pub fn opened_at(self) -> Option<Timestamp> {
        match self {
            Circuit::Closed => None,
            Circuit::Open { opened_at, .. } => Some(opened_at),
        }
    }

    pub fn retry_at(self) -> Option<Timestamp> {
        match self {
            Circuit::Closed => None,
            Circuit::Open { retry_at, .. } => Some(retry_at),
        }
    }
}

/// Streaks and circuit of one endpoint. Survives restarts; a success, an enable or an edit of the URL clears it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// Failed attempts since the last success.
    pub failures: u32,
    /// The end of the first of them.
    pub failing_since: Option<Timestamp>,
    /// Deliveries in a row that died of their attempts.
    pub exhausted: u32,
    /// The failure alert of this exhausted streak has been given.
    pub alerted: bool,
    pub circuit: Circuit,
}

/// What happened to the circuit, to be told to people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CircuitChange {
    Opened,
    Closed,
}

impl Health {
    /// A failed attempt that ended at `ended_at` (S13).
    pub fn failed(&mut self, ended_at: Timestamp) {
        self.failures = self.failures.saturating_add(1);
        self.failing_since.get_or_insert(ended_at);
    }

    /// A delivery died of its attempts. Returns whether the failure alert is due now (S18: once per streak).
    pub fn exhausted(&mut self, alert: Option<u32>) -> bool {
        self.exhausted = self.exhausted.saturating_add(1);
        let due = !self.alerted && alert.is_some_and(|limit| self.exhausted >= limit);
        self.alerted |= due;
        due
    }

    /// Opens the circuit if it is closed and the exhausted streak is long enough.
    pub fn trip(&mut self, breaker: Option<CircuitBreaker>, now: Timestamp) -> Option<CircuitChange> {
        let breaker =
            breaker.filter(|breaker| self.circuit == Circuit::Closed && self.exhausted >= breaker.exhausted)?;
        self.circuit = Circuit::Open { opened_at: now, retry_at: now + breaker.cooldown };
        Some(CircuitChange::Opened)
    }

    /// The probe failed at `now`: another cool-down, which nobody is told of.
    pub fn probe_failed(&mut self, breaker: Option<CircuitBreaker>, now: Timestamp) {
        if let (Circuit::Open { retry_at, .. }, Some(breaker)) = (&mut self.circuit, breaker) {
            *retry_at = now + breaker.cooldown;
        }
    }

    /// A success, an enable or an edit of the URL: a clean slate.
    pub fn clear(&mut self) -> Option<CircuitChange> {
        let was_open = self.circuit != Circuit::Closed;
        *self = Health::default();
        was_open.then_some(CircuitChange::Closed)
    }
}

#[cfg(test)]
mod tests {
    use super::super::time::Span;
    use super::*;
    use proptest::prelude::*;

    const BREAKER: CircuitBreaker = CircuitBreaker { exhausted: 3, cooldown: Span::MINUTE };

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    #[test]
    fn s17_the_circuit_opens_at_its_limit_and_half_opens_by_itself() {
        let mut health = Health::default();
        for second in 1..=2 {
            health.exhausted(None);
            assert_eq!(health.trip(Some(BREAKER), at(second)), None);
        }
        health.exhausted(None);
        assert_eq!(health.trip(Some(BREAKER), at(3)), Some(CircuitChange::Opened));
        assert_eq!(health.circuit.state(at(62)), CircuitState::Open);
        assert_eq!(health.circuit.state(at(63)), CircuitState::HalfOpen);
        health.exhausted(None);
        assert_eq!(health.trip(Some(BREAKER), at(64)), None, "a straggler changes nothing");
        health.probe_failed(Some(BREAKER), at(70));
        assert_eq!(health.circuit, Circuit::Open { opened_at: at(3), retry_at: at(130) });
        assert_eq!(health.clear(), Some(CircuitChange::Closed));
        assert_eq!(health, Health::default());
        assert_eq!(health.clear(), None);
    }

    #[test]
    fn s18_the_alert_is_given_once_per_streak() {
        let mut health = Health::default();
        let alerts = |health: &mut Health| (0..6).map(|_| health.exhausted(Some(3))).filter(|&due| due).count();
        assert_eq!(alerts(&mut health), 1);
        health.clear();
        assert_eq!(alerts(&mut health), 1);
    }

    #[derive(Clone, Debug)]
    enum Step {
        Fail,
        Exhaust,
        ProbeFails,
        Clear,
    }

    proptest! {
        #[test]
        fn s13_s17_the_breaker_is_a_state_machine(steps in proptest::collection::vec(
            prop_oneof![Just(Step::Fail), Just(Step::Exhaust), Just(Step::ProbeFails), Just(Step::Clear)], 0..60,
        )) {
            let mut health = Health::default();
            let mut since_clear = Vec::new();
            for (second, step) in steps.into_iter().enumerate() {
                let now = at(second as i64);
                let before = health.circuit;
                match step {
                    Step::Fail => { health.failed(now); since_clear.push((now, false)); }
                    Step::Exhaust => {
                        health.failed(now);
                        health.exhausted(None);
                        since_clear.push((now, true));
                        let change = health.trip(Some(BREAKER), now);
                        prop_assert_eq!(change.is_some(), before == Circuit::Closed && health.exhausted >= 3);
                    }
                    Step::ProbeFails => health.probe_failed(Some(BREAKER), now),
                    Step::Clear => {
                        prop_assert_eq!(health.clear().is_some(), before != Circuit::Closed);
                        since_clear.clear();
                    }
                }
                prop_assert_eq!(health.failures as usize, since_clear.len());
                prop_assert_eq!(health.failing_since, since_clear.first().map(|first| first.0));
                prop_assert_eq!(health.exhausted as usize, since_clear.iter().filter(|one| one.1).count());
                prop_assert_eq!(health.circuit.opened_at().is_some(), health.exhausted >= 3);
                if let (Some(before), Some(after)) = (before.opened_at(), health.circuit.opened_at()) {
                    prop_assert_eq!(before, after, "an outage begins once");
                }
            }
        }
    }
}
