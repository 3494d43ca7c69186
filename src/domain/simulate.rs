//! What a policy does with a receiver that answers by a script, on virtual time: the engine's own dispatcher and judge
//! with a clock that jumps. Behind `POST /policies/simulate` and `posthaste simulate`.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::attempt::{Answer, Attempt, ErrorKind, Finding, Outcome, Report, Timing, Trigger};
use super::delivery::{DeadReason, Line, Next, State, Waiting};
use super::dispatcher::{Dispatcher, Effect, Limits, Loaded, Room, Start};
use super::endpoint::{Endpoint, Status};
use super::health::{CircuitState, Health};
use super::ids::{DeliveryNo, EndpointNo, EventNo};
use super::policy::{Policy, WhileDisabled};
use super::time::{Span, Timestamp};

/// The most events one simulation may have.
pub const MAX_EVENTS: u32 = 1_000;
/// The most entries a script may have.
pub const MAX_SCRIPT: usize = 1_000;

/// What the scripted receiver does with one attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cue {
    Answer { status: u16, retry_after: Option<String> },
    Fail(ErrorKind),
}

impl Cue {
    /// `503`, `429;retry-after=60`, `timeout`, or another `error_kind`.
    pub fn parse(text: &str) -> Result<Cue, String> {
        let (head, option) = match text.split_once(';') {
            Some((head, option)) => (head.trim(), Some(option.trim())),
            None => (text.trim(), None),
        };
        let retry_after = match option.map(|option| option.split_once('=')) {
            None => None,
            Some(Some(("retry-after", value))) => Some(value.to_string()),
            Some(_) => return Err(format!("`{text}`: the only option is `;retry-after=…`")),
        };
        if let Ok(status) = head.parse::<u16>()
            && (200..=599).contains(&status)
        {
            return Ok(Cue::Answer { status, retry_after });
        }
        let kind = ErrorKind::parse(head).filter(|_| option.is_none());
        let kinds: Vec<_> = ErrorKind::ALL.iter().map(|kind| kind.as_str()).collect();
        kind.map(Cue::Fail).ok_or_else(|| {
            format!(
                "`{text}` is neither a status from 200 to 599 nor one of {}",
                kinds.join(", ")
            )
        })
    }

    fn report(&self, timeout: Span) -> Report {
        let (finding, took) = match self {
            Cue::Answer { status, retry_after } => {
                let answer = Answer {
                    status: *status,
                    retry_after: retry_after.clone(),
                    excerpt: Default::default(),
                    excerpt_truncated: false,
                };
                (Finding::Answered(answer), Span::ZERO)
            }
            Cue::Fail(kind) => {
                let took = if *kind == ErrorKind::Timeout {
                    timeout
                } else {
                    Span::ZERO
                };
                (Finding::Failed { kind: *kind, error: "" }, took)
            }
        };
        Report {
            finding,
            timing: Timing::default(),
            remote_addr: None,
            took,
        }
    }
}

impl std::fmt::Display for Cue {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Cue::Answer {
                status,
                retry_after: None,
            } => write!(out, "{status}"),
            Cue::Answer {
                status,
                retry_after: Some(value),
            } => write!(out, "{status};retry-after={value}"),
            Cue::Fail(kind) => write!(out, "{kind}"),
        }
    }
}

/// What to simulate: `events` events, one `every` so often, to one endpoint.
#[derive(Clone, Debug)]
pub struct Plan {
    pub policy: Policy,
    /// One cue per attempt in the order in which they start; the last repeats. Not empty.
    pub script: Vec<Cue>,
    pub events: u32,
    pub every: Span,
    /// Where in its jitter range each delay falls: 0 is nominal, 1 the longest.
    pub draw: f64,
}

/// One attempt of the simulation.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Counted from 1.
    pub event: u32,
    pub attempt: u32,
    /// From the end of the attempt before; for the first from the event's creation.
    pub wait: Span,
    /// From the first event's creation to the attempt's start.
    pub elapsed: Span,
    pub cue: Cue,
    pub outcome: Outcome,
    /// To the delivery's own next due time.
    pub next_wait: Option<Span>,
}

/// How it stands when nothing more happens: the delivery is the last event's.
#[derive(Clone, Debug, PartialEq)]
pub struct Ending {
    /// `None`: the last event came while the endpoint was disabled, and its policy creates no delivery then.
    pub state: Option<State>,
    pub dead_reason: Option<DeadReason>,
    pub elapsed: Span,
    pub status: Status,
    /// From the first event's creation.
    pub disabled_at: Option<Span>,
    pub circuit: CircuitState,
    pub failures: u32,
    pub exhausted: u32,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Timeline {
    pub steps: Vec<Step>,
    pub ending: Ending,
}

const START: Timestamp = Timestamp::from_micros(0);

struct World<'a> {
    plan: &'a Plan,
    now: Timestamp,
    dispatcher: Dispatcher,
    steps: Vec<Step>,
    /// Attempts on the wire by the instant at which they end.
    on_the_wire: BTreeMap<(Timestamp, DeliveryNo), (Start, Timestamp, Cue)>,
    /// Per delivery: when its last attempt ended, and the step of that attempt.
    last: BTreeMap<DeliveryNo, (Timestamp, usize)>,
    last_event: Option<(State, Option<DeadReason>)>,
    disabled_at: Option<Timestamp>,
    /// When the last thing happened.
    last_at: Timestamp,
}

/// Runs the plan to its end.
pub fn simulate(plan: &Plan) -> Timeline {
    let endpoint = Endpoint {
        no: EndpointNo(1),
        id: "ep_simulated".into(),
        url: "https://receiver.example/".into(),
        version: 1,
        status: Status::Enabled,
        policy: Arc::new(plan.policy.clone()),
        max_in_flight: super::endpoint::DEFAULT_MAX_IN_FLIGHT,
        cut: 0,
        counted_from: Timestamp::MIN,
        paused: false,
    };
    let limits = Limits {
        window: MAX_EVENTS as usize + 1,
        unrecorded: usize::MAX,
        real_second: Span::SECOND,
        paced_before: Timestamp::MIN,
    };
    let mut world = World {
        plan,
        now: START,
        dispatcher: Dispatcher::new(endpoint, Health::default(), 1, limits),
        steps: Vec::new(),
        on_the_wire: BTreeMap::new(),
        last: BTreeMap::new(),
        last_event: None,
        disabled_at: None,
        last_at: START,
    };
    world.run();
    let World {
        dispatcher,
        steps,
        last_event,
        disabled_at,
        last_at,
        now,
        ..
    } = world;
    let health = *dispatcher.health();
    let ending = Ending {
        state: last_event.map(|(state, _)| state),
        dead_reason: last_event.and_then(|(_, reason)| reason),
        elapsed: last_at.since(START),
        status: dispatcher.endpoint().status,
        disabled_at: disabled_at.map(|at| at.since(START)),
        circuit: health.circuit.state(now),
        failures: health.failures,
        exhausted: health.exhausted,
    };
    Timeline { steps, ending }
}

impl World<'_> {
    fn run(&mut self) {
        let mut arrived = 0;
        loop {
            self.pump();
            let arrival = (arrived < self.plan.events)
                .then(|| START + Span::from_micros(self.plan.every.as_micros().saturating_mul(i64::from(arrived))));
            let ending = self.on_the_wire.keys().next().map(|&(at, _)| at);
            let waking = self.dispatcher.wake_at(self.now);
            let Some(next) = [arrival, ending, waking].into_iter().flatten().min() else {
                return;
            };
            self.now = self.now.max(next);
            if ending.is_some_and(|at| at <= self.now) {
                self.end_one();
            } else if arrival.is_some_and(|at| at <= self.now) {
                arrived += 1;
                self.arrive(i64::from(arrived));
            }
        }
    }

    fn arrive(&mut self, no: i64) {
        self.last_at = self.now;
        let endpoint = self.dispatcher.endpoint();
        if !endpoint.is_enabled() {
            let dead = endpoint.policy.while_disabled == WhileDisabled::DeadLetter;
            self.last_event = dead.then_some((State::Dead, Some(DeadReason::EndpointDisabled)));
            return;
        }
        self.last_event = Some((State::Pending, None));
        let waiting = Waiting {
            no: DeliveryNo(no),
            event: EventNo(no),
            created_at: self.now,
            line: Line::First,
            order_at: self.now,
            due_at: self.now,
            run: 1,
            attempt: 0,
            attempts_total: 0,
            cut: endpoint.cut,
            probed_at: None,
            content: None,
        };
        self.last.insert(waiting.no, (self.now, usize::MAX));
        self.dispatcher.hint(DeliveryNo(no - 1), vec![waiting]);
    }

    fn pump(&mut self) {
        loop {
            let effects = self.dispatcher.pump(self.now, Room::PLENTY);
            if effects.is_empty() {
                return;
            }
            for effect in effects {
                match effect {
                    Effect::Start(start) => self.start(start),
                    Effect::Record(batch) => {
                        for (ended, verdict) in &batch.results {
                            self.record(ended.delivery.no, verdict.outcome, verdict.next);
                            if verdict.disable.is_some() {
                                self.disabled_at = Some(ended.attempt.ended_at);
                                self.cut_the_rest(ended.delivery.no);
                            }
                        }
                        self.dispatcher.recorded(false);
                    }
                    // Only the very first one: the windows hold all there is from then on.
                    Effect::Load { .. } => self.dispatcher.loaded(Loaded {
                        first_complete: true,
                        second_complete: true,
                        ..Loaded::default()
                    }),
                    Effect::Pace(permits) => self.dispatcher.paced(permits),
                    Effect::Reload { .. } | Effect::Release(_) => {}
                }
            }
        }
    }

    fn start(&mut self, start: Start) {
        let index = self.steps.len();
        let cue = self.plan.script[index.min(self.plan.script.len() - 1)].clone();
        let took = cue.report(self.plan.policy.timeout).took;
        let no = start.delivery.no;
        let since = self.last.get(&no).map_or(self.now, |last| last.0);
        self.steps.push(Step {
            event: no.0 as u32,
            attempt: start.delivery.attempt + 1,
            wait: self.now.since(since),
            elapsed: self.now.since(START),
            cue: cue.clone(),
            outcome: Outcome::Retry,
            next_wait: None,
        });
        self.last.insert(no, (self.now + took, index));
        self.on_the_wire.insert((self.now + took, no), (start, self.now, cue));
    }

    fn end_one(&mut self) {
        let Some(((ended_at, no), (start, started_at, cue))) = self.on_the_wire.pop_first() else {
            return;
        };
        self.last_at = ended_at;
        let attempt = Attempt {
            trigger: Trigger::Schedule,
            started_at,
            ended_at,
            url: self.dispatcher.endpoint().url.clone(),
            report: cue.report(self.plan.policy.timeout),
        };
        debug_assert_eq!(start.delivery.no, no);
        self.dispatcher
            .ended(no, attempt, self.plan.draw, ended_at.as_secs(), false);
    }

    fn record(&mut self, no: DeliveryNo, outcome: Outcome, next: Next) {
        let Some(&(ended_at, index)) = self.last.get(&no) else {
            return;
        };
        let step = &mut self.steps[index];
        step.outcome = outcome;
        let reason = match next {
            Next::Delivered => None,
            Next::Retry { due_at, .. } => {
                step.next_wait = Some(due_at.since(ended_at));
                None
            }
            Next::Dead(reason) => Some(reason),
        };
        if no.0 == i64::from(self.plan.events) || self.is_newest(no) {
            self.last_event = Some((next.state(), reason));
        }
    }

    fn is_newest(&self, no: DeliveryNo) -> bool {
        self.last.keys().next_back() == Some(&no)
    }

    /// The endpoint was disabled by an attempt of another delivery: the newest, if it waits, is dead with it (S15).
    fn cut_the_rest(&mut self, by: DeliveryNo) {
        let newest = self.last.keys().next_back().copied();
        let waits = matches!(self.last_event, Some((state, _)) if state.waits());
        let flying = self.on_the_wire.keys().any(|&(_, no)| Some(no) == newest);
        if newest != Some(by) && waits && !flying {
            self.last_event = Some((State::Dead, Some(DeadReason::EndpointDisabled)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::policy::Preset;
    use super::*;

    fn plan(preset: Preset, script: &[&str], events: u32, every: Span) -> Plan {
        let script = script.iter().map(|cue| Cue::parse(cue).unwrap()).collect();
        Plan {
            policy: Policy::preset(preset),
            script,
            events,
            every,
            draw: 0.0,
        }
    }

    fn elapsed_millis(timeline: &Timeline) -> Vec<i64> {
        timeline.steps.iter().map(|step| step.elapsed.as_millis()).collect()
    }

    #[test]
    fn s09_orbit_walks_its_ladder_to_the_millisecond() {
        let timeline = simulate(&plan(Preset::Orbit, &["503"], 1, Span::ZERO));
        let seconds = [0, 30, 90, 210, 450, 930, 1890, 3810, 7650, 15330];
        assert_eq!(elapsed_millis(&timeline), seconds.map(|second: i64| second * 1000));
        assert_eq!(timeline.ending.state, Some(State::Dead));
        assert_eq!(timeline.ending.dead_reason, Some(DeadReason::Exhausted));
        assert_eq!((timeline.ending.failures, timeline.ending.exhausted), (10, 1));
        let longest = simulate(&Plan {
            draw: 1.0,
            ..plan(Preset::Orbit, &["503"], 1, Span::ZERO)
        });
        assert_eq!(longest.ending.elapsed.as_millis(), 18_396_000, "5.1 hours");
    }

    #[test]
    fn s09_shellorbit_and_salaf_walk_their_ladders_to_the_millisecond() {
        let timeline = simulate(&plan(Preset::Shellorbit, &["500"], 1, Span::ZERO));
        assert_eq!(elapsed_millis(&timeline), [0, 8_000, 40_000, 160_000, 880_000]);
        let timeline = simulate(&plan(Preset::Salaf, &["404"], 1, Span::ZERO));
        let seconds = [0, 30, 150, 750, 2550, 9750, 31350, 74550, 160950];
        assert_eq!(elapsed_millis(&timeline), seconds.map(|second: i64| second * 1000));
    }

    #[test]
    fn s09_delays_run_from_the_end_of_a_timeout() {
        let timeline = simulate(&plan(Preset::Shellorbit, &["timeout", "200"], 1, Span::ZERO));
        assert_eq!(elapsed_millis(&timeline), [0, 15_000 + 8_000]);
        assert_eq!(timeline.ending.state, Some(State::Delivered));
    }

    #[test]
    fn s14_orbit_disables_at_fifty_and_the_rest_is_dead_lettered() {
        let timeline = simulate(&plan(Preset::Orbit, &["500"], 60, Span::SECOND));
        assert_eq!(timeline.steps.len(), 50);
        assert_eq!(timeline.ending.status, Status::AutoDisabled);
        assert_eq!(timeline.ending.state, Some(State::Dead));
        assert_eq!(timeline.ending.dead_reason, Some(DeadReason::EndpointDisabled));
    }

    #[test]
    fn s07_a_proven_dead_answer_disables_at_once() {
        let timeline = simulate(&plan(Preset::Orbit, &["410"], 1, Span::ZERO));
        assert_eq!(timeline.steps.len(), 1);
        assert_eq!(timeline.ending.status, Status::AutoDisabled);
        assert_eq!(timeline.ending.dead_reason, Some(DeadReason::PermanentResponse));
        let timeline = simulate(&plan(Preset::Shellorbit, &["410"], 1, Span::ZERO));
        assert_eq!(timeline.ending.status, Status::Enabled);
        assert_eq!(timeline.ending.dead_reason, Some(DeadReason::PermanentResponse));
    }

    #[test]
    fn s14_salaf_disables_after_three_days_of_failure_and_skips_what_comes_then() {
        let timeline = simulate(&plan(Preset::Salaf, &["500"], 100, Span::HOUR));
        assert_eq!(timeline.ending.status, Status::AutoDisabled);
        let disabled_at = timeline.ending.disabled_at.unwrap();
        assert_eq!(disabled_at, Span::from_secs(3 * 86_400));
        assert_eq!(timeline.ending.state, None);
        let two_days = simulate(&plan(Preset::Salaf, &["500"], 1, Span::ZERO));
        assert_eq!(
            two_days.ending.status,
            Status::Enabled,
            "one event's ladder is shorter than three days"
        );
    }

    #[test]
    fn s17_shellorbit_opens_after_ten_probes_and_closes_at_the_first_success() {
        // Ten events exhaust their five attempts; the eleventh is held, probes, and succeeds.
        let script: Vec<&str> = std::iter::repeat_n("500", 50).chain(["503", "200"]).collect();
        let mut plan = plan(Preset::Shellorbit, &script, 12, Span::SECOND);
        plan.every = Span::from_secs(100);
        let timeline = simulate(&plan);
        assert_eq!(timeline.ending.circuit, CircuitState::Closed);
        assert_eq!(timeline.ending.state, Some(State::Delivered));
    }

    #[test]
    fn s08_retry_after_moves_the_next_attempt() {
        let timeline = simulate(&plan(Preset::Shellorbit, &["429;retry-after=60", "200"], 1, Span::ZERO));
        assert_eq!(elapsed_millis(&timeline), [0, 60_000]);
    }

    #[test]
    fn cues_are_read_and_written_back() {
        for text in ["503", "200", "timeout", "blocked_address", "429;retry-after=60"] {
            assert_eq!(Cue::parse(text).unwrap().to_string(), text);
        }
        for bad in ["", "99", "600", "soon", "503;x=1", "timeout;retry-after=1", "503;"] {
            assert!(Cue::parse(bad).is_err(), "{bad}");
        }
    }
}
