//! What a policy does with a receiver that answers by a script, on virtual time: the engine's own dispatcher and judge
//! with a clock that jumps. Behind `POST /policies/simulate` and `posthaste simulate`.

mod cue;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use cue::Cue;

use super::attempt::{Attempt, Outcome, Trigger};
use super::delivery::{DeadReason, Next, State, Waiting};
use super::dispatcher::{Dispatcher, Effect, Limits, Loaded, Room, Start};
use super::endpoint::{Endpoint, Status};
use super::health::{CircuitState, Health};
use super::ids::{DeliveryNo, EndpointNo, EventNo};
use super::policy::{MAX_ATTEMPTS, Policy, WhileDisabled};
use super::time::{Span, Timestamp};

/// The most events one simulation may have.
pub const MAX_EVENTS: u32 = 1_000;
/// The most entries a script may have.
pub const MAX_SCRIPT: usize = 1_000;
/// The most attempts that one simulation makes; it stops there. No plan within the limits above gets further, as no run
/// has more than [`MAX_ATTEMPTS`].
pub const MAX_STEPS: usize = 50_000;
const _: () = assert!(MAX_EVENTS as usize * MAX_ATTEMPTS as usize <= MAX_STEPS);

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
    /// To the delivery's own next due time; `None` if there is none.
    pub next_wait: Option<Span>,
    /// This attempt's verdict disabled the endpoint, by a response rule or by its streak.
    pub disables: bool,
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
    /// So many events have arrived; the number of the last one and of its delivery.
    arrived: i64,
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
        arrived: 0,
        last_event: None,
        disabled_at: None,
        last_at: START,
    };
    world.run();
    let World { dispatcher, steps, last_event, disabled_at, last_at, now, .. } = world;
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
        while self.steps.len() <= MAX_STEPS {
            self.pump();
            let arrival = (self.arrived < i64::from(self.plan.events))
                .then(|| START + Span::from_micros(self.plan.every.as_micros().saturating_mul(self.arrived)));
            let ending = self.on_the_wire.keys().next().map(|&(at, _)| at);
            let waking = self.dispatcher.wake_at(self.now);
            let Some(next) = [arrival, ending, waking].into_iter().flatten().min() else {
                return;
            };
            self.now = self.now.max(next);
            if ending.is_some_and(|at| at <= self.now) {
                self.end_one();
            } else if arrival.is_some_and(|at| at <= self.now) {
                self.arrive();
            }
        }
    }

    fn arrive(&mut self) {
        self.arrived += 1;
        self.last_at = self.now;
        let no = self.arrived;
        let endpoint = self.dispatcher.endpoint();
        if !endpoint.is_enabled() {
            let dead = endpoint.policy.while_disabled == WhileDisabled::DeadLetter;
            self.last_event = dead.then_some((State::Dead, Some(DeadReason::EndpointDisabled)));
            return;
        }
        self.last_event = Some((State::Pending, None));
        let accepted = Waiting::accepted(DeliveryNo(no), EventNo(no), self.now);
        let waiting = Waiting { cut: endpoint.cut, ..accepted };
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
                                self.disabled_by(ended.delivery.no);
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
                    Effect::Reload { .. } | Effect::Release(_) | Effect::Rest(_) => {}
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
            disables: false,
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
        self.dispatcher.ended(no, attempt, self.plan.draw, ended_at.as_secs(), false);
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
        if no.0 == self.arrived {
            self.last_event = Some((next.state(), reason));
        }
    }

    /// The endpoint was disabled by an attempt of this delivery. The newest, if it waits, is dead with it (S15).
    fn disabled_by(&mut self, by: DeliveryNo) {
        if let Some(&(_, index)) = self.last.get(&by) {
            self.steps[index].disables = true;
        }
        let newest = DeliveryNo(self.arrived);
        let waits = matches!(self.last_event, Some((state, _)) if state.waits());
        let flying = self.on_the_wire.keys().any(|&(_, no)| no == newest);
        if newest != by && waits && !flying {
            self.last_event = Some((State::Dead, Some(DeadReason::EndpointDisabled)));
        }
    }
}
