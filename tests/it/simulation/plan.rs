//! From a seed to a world: endpoints, receivers, events, crashes, trouble, people.

use std::time::Duration;

use posthaste::domain::attempt::ErrorKind;
use posthaste::domain::ids::EndpointNo;
use posthaste::domain::policy::{Action, AutoDisable, CircuitBreaker, Preset, ResponseRule, WhileDisabled};
use posthaste::domain::policy_spec::PolicySpec;
use posthaste::domain::schedule::{Schedule, StatusSet};
use posthaste::domain::time::{Span, Timestamp};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::acts::Act;
use super::planted::Plant;
use super::receiver::{self, Receiver, Turn};
use super::trouble::Plan;
use super::world::{BEGINNING, World};

/// Draws for a scenario.
pub struct Dice(StdRng);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice(StdRng::seed_from_u64(seed))
    }

    pub fn chance(&mut self, chance: f64) -> bool {
        self.0.random_bool(chance)
    }

    pub fn upto(&mut self, limit: u64) -> u64 {
        self.0.random_range(0..=limit)
    }

    pub fn one<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.0.random_range(0..of.len())].clone()
    }

    pub fn secs(&mut self, from: u64, to: u64) -> Span {
        Span::from_millis(self.0.random_range(from * 1_000..=to * 1_000))
    }
}

/// All that is to happen in one world.
pub struct Scenario {
    seed: u64,
    dice: Dice,
    world: World,
    /// When the acting is over and every receiver is well.
    end: Timestamp,
}

impl Scenario {
    pub fn new(seed: u64) -> Scenario {
        let mut dice = Dice::new(seed);
        // From minutes to more than the longest ladder takes.
        let hours = dice.one(&[1, 1, 2, 6, 6, 24, 60, 100]);
        let scale = dice.one(&[50.0, 200.0, 500.0]) * (hours as f64 / 6.0).max(0.2);
        let mut world = World::new(seed, scale.round());
        world.settings.window = dice.one(&[2, 3, 4, 8, 512]);
        world.settings.restart_rate = dice.one(&[500, 500, 100]);
        world.settings.max_attempts = dice.one(&[10_000, 10_000, 10_000, 10, 3]);
        if dice.chance(0.6) {
            world.plan = trouble(&mut dice, BEGINNING, Span::from_secs(hours * 3_600));
        }
        Scenario { seed, dice, world, end: BEGINNING + Span::from_secs(hours * 3_600) }
    }

    /// The same world with a fault in its engine.
    pub fn with(mut self, plant: Plant) -> Scenario {
        self.world.plant = Some(plant);
        self
    }

    pub fn run(mut self) {
        let posts = self.posts();
        let times: Vec<Timestamp> = posts.iter().map(|(at, _)| *at).collect();
        let crashes = self.dice.one(&[0, 0, 1, 1, 2, 3]);
        let mut deaths: Vec<Timestamp> = (0..crashes).map(|_| self.some_time(&times)).collect();
        deaths.push(self.end);
        deaths.sort_unstable();
        let mut acts = self.acts(posts, &times);
        let mut endpoints: Vec<EndpointNo> = Vec::new();
        for death in deaths {
            let (mine, later): (Vec<_>, Vec<_>) = acts.into_iter().partition(|(at, _)| *at < death);
            acts = later;
            let clean = self.dice.chance(0.3);
            let made = endpoints.is_empty();
            let plans: Vec<_> = if made { (0..=self.dice.upto(3)).map(|_| self.endpoint()).collect() } else { vec![] };
            if self.world.now() >= death {
                continue;
            }
            let known = &mut endpoints;
            self.world.live(async |life| {
                for (policy, max_in_flight, receiver) in plans {
                    known.push(life.endpoint(policy, max_in_flight, receiver).await);
                }
                life.act(mine, known, death).await;
                if clean {
                    // Whoever loses patience kills it.
                    let _ = tokio::time::timeout(Duration::from_secs(10), life.shut_down()).await;
                }
            });
            let dead_for = self.dice.one(&[0, 1, 60, 3_600]);
            self.world.rest(Span::from_secs(self.dice.upto(dead_for)));
        }
        self.settle(&endpoints);
        self.world.end();
    }

    /// Nothing more goes wrong: what waits is delivered.
    fn settle(&mut self, endpoints: &[EndpointNo]) {
        self.world.plan = Plan::default();
        self.world.receivers.heal();
        let enable = self.dice.chance(0.5);
        self.world.live(async |life| {
            if enable {
                for &endpoint in endpoints {
                    life.enable(endpoint).await.expect("the store is well");
                }
            }
            posthaste::engine::retention::rewrite(&life.store).await.expect("the store is well");
            // The longest rung is a day; a probe may have to wait for its cool-down before.
            for _ in 0..60 {
                life.pass(Span::HOUR).await;
                if life.nothing_waits() {
                    break;
                }
            }
            life.inspect();
        });
    }

    fn instant(&mut self) -> Timestamp {
        let whole = self.end.since(BEGINNING).as_millis() as u64;
        BEGINNING + Span::from_millis(self.dice.upto(whole))
    }

    /// An instant in the first half, mostly early.
    fn early(&mut self) -> Timestamp {
        let whole = self.end.since(BEGINNING).as_millis() as u64;
        let limit = self.dice.one(&[1_000, 60_000, 600_000, whole / 2]).min(whole / 2);
        BEGINNING + Span::from_millis(self.dice.upto(limit))
    }

    /// An instant at which nothing much may be going on, or one just after an event was posted: attempts begin and end
    /// then, and their results are written.
    fn some_time(&mut self, posts: &[Timestamp]) -> Timestamp {
        match self.dice.upto(3) {
            0 => self.early(),
            1 => self.instant(),
            _ => {
                let real = Span::from_millis(self.dice.one(&[0, 1, 5, 10, 50, 1_510]) + self.dice.upto(5));
                (self.dice.one(posts) + real.scaled(self.world.scale)).min(self.end)
            }
        }
    }

    fn posts(&mut self) -> Vec<(Timestamp, Act)> {
        let mut acts = Vec::new();
        for n in 0..5 + self.dice.upto(55).min(self.dice.upto(55)) {
            let at = self.early();
            let created_at = match self.dice.upto(3) {
                0 => at,
                1 => at + self.dice.secs(0, 3_600),
                _ => at - self.dice.secs(0, 86_400),
            };
            // Some are posted twice (S21).
            let n = if self.dice.chance(0.05) { n / 2 } else { n };
            acts.push((at, Act::Post { event: format!("evt_{}_{n}", self.seed), created_at }));
        }
        acts
    }

    /// Everything that people and callers do, in its order.
    fn acts(&mut self, posts: Vec<(Timestamp, Act)>, times: &[Timestamp]) -> Vec<(Timestamp, Act)> {
        let mut acts = posts;
        for _ in 0..self.dice.one(&[0, 0, 2, 5, 12]) {
            let at = self.some_time(times);
            let act = Act::draw(&mut self.dice);
            if let Act::Disable { endpoint } = act {
                let within = self.dice.one(&[1, 60, 7_200]);
                acts.push((at + self.dice.secs(0, within), Act::Enable { endpoint }));
            }
            acts.push((at, act));
        }
        for _ in 0..self.dice.upto(6) {
            acts.push((self.instant(), Act::Inspect));
        }
        if self.world.plant == Some(Plant::TwoProbes) {
            // The engine has to read the endpoint while a probe is on the wire, so people edit it without pause.
            for _ in 0..200 {
                let (at, endpoint) = (self.instant(), self.dice.upto(3) as usize);
                acts.push((at, Act::MaxInFlight { endpoint, max_in_flight: 5 }));
            }
        }
        acts.sort_by_key(|act| act.0);
        acts
    }

    fn endpoint(&mut self) -> (PolicySpec, u16, Receiver) {
        let policy = policy(&mut self.dice);
        let max_in_flight = self.dice.one(&[1, 1, 2, 3, 16]);
        (policy, max_in_flight, self.receiver())
    }

    fn receiver(&mut self) -> Receiver {
        let down = self.failure();
        let plain = match self.dice.upto(6) {
            0 => receiver::healthy(),
            1 => receiver::always(down),
            2 => receiver::outage(self.windows(), down, receiver::healthy()),
            3 => receiver::flapping(self.dice.secs(1, 7_200), down),
            4 => {
                let poisoned = (0..60).filter(|_| self.dice.chance(0.15)).map(|n| format!("evt_{}_{n}", self.seed));
                let poisoned = poisoned.collect();
                receiver::poison(poisoned, down, receiver::healthy())
            }
            5 => receiver::always(Turn::status(200).after(Duration::from_millis(self.dice.upto(20_000)))),
            _ => {
                let mut turns = vec![Turn::status(200); self.dice.upto(4) as usize];
                turns.extend((0..=self.dice.upto(4)).map(|_| self.failure()));
                receiver::by_chance(self.seed, turns)
            }
        };
        match self.dice.chance(0.15) {
            true => receiver::outage(self.windows(), Turn::local(), plain),
            false => plain,
        }
    }

    fn windows(&mut self) -> Vec<(Timestamp, Timestamp)> {
        let whole = self.end.since(BEGINNING).as_millis() as u64 / 1_000;
        let window = |dice: &mut Dice, from: Timestamp| (from, from + dice.secs(1, whole.max(2) / 2));
        (0..=self.dice.upto(2))
            .map(|_| {
                let from = self.early();
                window(&mut self.dice, from)
            })
            .collect()
    }

    fn failure(&mut self) -> Turn {
        let turn = match self.dice.upto(9) {
            0..3 => Turn::status(500),
            3 => Turn::status(410),
            4 => Turn::status(self.dice.one(&[302, 404, 422])),
            5 => Turn::retry_after(self.dice.one(&[429, 503]), self.dice.one(&["0", "20", "400", "90000", "soon"])),
            6 => Turn::hang(),
            _ => Turn::failed(self.dice.one(&[ErrorKind::Connect, ErrorKind::Reset, ErrorKind::Tls])),
        };
        let delay = self.dice.one(&[0, 3, 40, 1_500]);
        if turn.after == Duration::MAX { turn } else { turn.after(Duration::from_millis(delay)) }
    }
}

fn trouble(dice: &mut Dice, beginning: Timestamp, whole: Span) -> Plan {
    let mut some = |chance: f64| if dice.chance(0.5) { chance } else { 0.0 };
    let (refuse, fail, unreadable) = (some(0.1), some(0.1), some(0.1));
    let (lose_hint, late_hint) = (some(0.3), some(0.3));
    let linger = dice.one(&[0, 0, 3, 50]);
    let outages = match dice.chance(0.2) {
        true => {
            let from = beginning + Span::from_millis(dice.upto(whole.as_millis() as u64 / 2));
            vec![(from, from + dice.secs(1, 600))]
        }
        false => Vec::new(),
    };
    Plan { refuse, fail, unreadable, linger, lose_hint, late_hint, outages }
}

pub fn policy(dice: &mut Dice) -> PolicySpec {
    let mut spec = PolicySpec::from(dice.one(&[Preset::Orbit, Preset::Shellorbit, Preset::Salaf]));
    let own = &mut spec.overrides;
    if dice.chance(0.4) {
        let short = |secs: &[u64]| Schedule::Ladder(secs.iter().map(|&secs| Span::from_secs(secs)).collect());
        own.schedule =
            Some(dice.one(&[short(&[]), short(&[0]), short(&[1, 5]), short(&[60, 60, 60]), short(&[0, 0, 300])]));
    }
    if dice.chance(0.3) {
        own.jitter = Some(dice.one(&[0.0, 0.5, 1.0]));
    }
    if dice.chance(0.4) {
        let exhausted = 1 + dice.upto(2) as u32;
        own.circuit_breaker =
            Some(dice.chance(0.8).then_some(CircuitBreaker { exhausted, cooldown: dice.secs(1, 1_200) }));
    }
    if dice.chance(0.4) {
        let failures = dice.chance(0.7).then(|| 2 + dice.upto(10) as u32);
        let failing_for = (failures.is_none() || dice.chance(0.3)).then(|| dice.secs(3_600, 20_000));
        own.auto_disable = Some(dice.chance(0.8).then_some(AutoDisable { failures, failing_for }));
    }
    if dice.chance(0.3) {
        own.alert = Some(dice.chance(0.8).then_some(1 + dice.upto(3) as u32));
    }
    if dice.chance(0.3) {
        own.while_disabled = Some(dice.one(&[WhileDisabled::DeadLetter, WhileDisabled::Skip]));
    }
    if dice.chance(0.3) {
        let action = dice.one(&[Action::DeadLetter, Action::Disable, Action::Retry]);
        let status = StatusSet::parse(dice.one(&["500", "410,422", "300-399", "429-503"])).expect("statuses");
        own.responses = Some(vec![ResponseRule { status, action }]);
    }
    spec
}
