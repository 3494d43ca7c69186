//! The supervisor: knows every endpoint's actor, builds them when there is work, routes to them, lets them go, and
//! buries the dead.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use actix::prelude::*;

use super::Env;
use super::endpoint::EndpointActor;
use super::messages::*;
use super::pacer::Pacer;
use super::sweeper;
use super::tray::{Put, Tray};
use crate::domain::ids::EndpointNo;
use crate::domain::time::{Span, Timestamp};

/// An actor that dies more often than this within [`BUDGET_WINDOW`] rests for so long.
const RESTART_BUDGET: u32 = 5;
const BUDGET_WINDOW: Span = Span::MINUTE;
/// Between two rounds of the pacer.
const PACE_EVERY: Duration = Duration::from_millis(20);

pub struct Supervisor {
    env: Arc<Env>,
    arbiters: Vec<Arbiter>,
    actors: HashMap<EndpointNo, Known>,
    deaths: HashMap<EndpointNo, Deaths>,
    incarnations: u64,
    pacer: Pacer,
    /// The next round is coming.
    pacing: bool,
    /// The last round, in engine time.
    paced_at: Timestamp,
    sweeping: bool,
}

/// A living actor.
struct Known {
    addr: Addr<EndpointActor>,
    incarnation: u64,
    tray: Arc<Tray>,
    /// Messages and hints sent to it: it may leave only if it has heard them all.
    sent: u64,
}

impl Known {
    fn has_put(&mut self, put: Put) {
        self.sent += u64::from(put.counts);
        if put.tell {
            tell_actor(&self.addr, LookIntoTray);
        }
    }
}

/// How often an endpoint's actor has died lately.
struct Deaths {
    count: u32,
    since: Timestamp,
}

impl Supervisor {
    pub fn new(env: Arc<Env>) -> Supervisor {
        let arbiters = (0..env.settings.arbiters).map(|_| Arbiter::new()).collect();
        Supervisor {
            env,
            arbiters,
            actors: HashMap::new(),
            deaths: HashMap::new(),
            incarnations: 0,
            pacer: Pacer::default(),
            pacing: false,
            paced_at: Timestamp::MIN,
            sweeping: false,
        }
    }

    fn is_draining(&self) -> bool {
        self.env.draining.load(Ordering::Acquire)
    }

    /// The endpoint's actor, built if need be; `None` while draining or while it rests after too many deaths.
    fn actor(&mut self, endpoint: EndpointNo, me: &Addr<Self>) -> Option<&mut Known> {
        if !self.actors.contains_key(&endpoint) && self.rests(endpoint) {
            return None;
        }
        self.actor_for_people(endpoint, me)
    }

    /// The endpoint's actor, built if need be; `None` while draining. People may always act on an endpoint, to disable it
    /// for instance, also if its actor dies again of what it does next.
    fn actor_for_people(&mut self, endpoint: EndpointNo, me: &Addr<Self>) -> Option<&mut Known> {
        if !self.actors.contains_key(&endpoint) && self.is_draining() {
            return None;
        }
        match self.actors.entry(endpoint) {
            Entry::Occupied(known) => Some(known.into_mut()),
            Entry::Vacant(vacant) => {
                self.incarnations += 1;
                let (incarnation, env, supervisor) = (self.incarnations, self.env.clone(), me.clone());
                let tray = Arc::<Tray>::default();
                let its = tray.clone();
                let build = move |_: &mut Context<EndpointActor>| {
                    EndpointActor::new(endpoint, incarnation, env, supervisor, its)
                };
                let addr = match self.arbiters.len() {
                    0 => EndpointActor::create(build),
                    count => {
                        let arbiter = &self.arbiters[endpoint.0.unsigned_abs() as usize % count];
                        EndpointActor::start_in_arbiter(&arbiter.handle(), build)
                    }
                };
                Some(vacant.insert(Known { addr, incarnation, tray, sent: 0 }))
            }
        }
    }

    /// Whether an endpoint's actor has died so often that it is not built for a while.
    fn rests(&mut self, endpoint: EndpointNo) -> bool {
        let (now, window) = (self.env.clock.now(), self.env.clock.engine_span(BUDGET_WINDOW));
        match self.deaths.get(&endpoint) {
            Some(deaths) if now.since(deaths.since) > window => {
                self.deaths.remove(&endpoint);
                false
            }
            Some(deaths) => deaths.count > RESTART_BUDGET,
            None => false,
        }
    }

    fn sweep(&mut self, ctx: &mut Context<Self>) {
        if !self.sweeping && !self.is_draining() {
            self.sweeping = true;
            tokio::task::spawn_local(sweeper::sweep(self.env.clone(), ctx.address()));
        }
    }

    /// One round: what the time since the last one allows, but no more than a regular round.
    fn pace(&mut self, ctx: &mut Context<Self>) {
        let now = self.env.clock.now();
        let passed = now.since(self.paced_at).as_secs_f64() / self.env.clock.scale();
        self.paced_at = now;
        let seconds = passed.min(PACE_EVERY.as_secs_f64());
        for (endpoint, permits) in self.pacer.tick(self.env.settings.restart_rate, seconds) {
            if let Some(known) = self.actors.get_mut(&endpoint) {
                known.sent += 1;
                tell_actor(&known.addr, Paced(permits));
            }
        }
        self.pacing = !self.pacer.is_empty();
        if self.pacing {
            #[allow(clippy::disallowed_methods)] // ends by itself when nobody waits
            ctx.run_later(PACE_EVERY, Self::pace);
        }
    }
}

impl Actor for Supervisor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.set_mailbox_capacity(1_024);
        self.sweep(ctx);
        ctx.run_interval(sweeper::EVERY.to_std(), |supervisor, ctx| supervisor.sweep(ctx));
    }

    fn stopped(&mut self, _: &mut Self::Context) {
        self.arbiters.iter().for_each(|arbiter| {
            arbiter.stop();
        });
    }
}

impl Handler<Hints> for Supervisor {
    type Result = ();

    fn handle(&mut self, Hints(hints): Hints, ctx: &mut Context<Self>) {
        let me = ctx.address();
        for hint in hints {
            let Some(known) = self.actor(hint.endpoint, &me) else { continue };
            known.has_put(known.tray.put(hint));
        }
    }
}

impl Handler<Swept> for Supervisor {
    type Result = ();

    fn handle(&mut self, Swept { needed, last }: Swept, ctx: &mut Context<Self>) {
        let me = ctx.address();
        for needed in needed {
            let Some(known) = self.actor(needed.endpoint, &me) else { continue };
            known.has_put(known.tray.poke(needed.newest));
        }
        self.sweeping &= !last;
    }
}

impl Handler<Died> for Supervisor {
    type Result = ();

    fn handle(&mut self, Died { endpoint, incarnation, last }: Died, ctx: &mut Context<Self>) {
        // One that was let go is not in the book any more.
        if self.actors.get(&endpoint).is_none_or(|known| known.incarnation != incarnation) {
            return;
        }
        self.actors.remove(&endpoint);
        if last || self.is_draining() {
            return;
        }
        let since = self.env.clock.now();
        let deaths = self.deaths.entry(endpoint).or_insert(Deaths { count: 0, since });
        deaths.count += 1;
        log::error!("the actor of endpoint {endpoint} died ({} times lately)", deaths.count);
        self.actor(endpoint, &ctx.address());
    }
}

impl Handler<AskLeave> for Supervisor {
    type Result = ();

    fn handle(&mut self, AskLeave { endpoint, incarnation, heard }: AskLeave, _: &mut Context<Self>) {
        let known = self.actors.get_mut(&endpoint).filter(|known| known.incarnation == incarnation);
        let Some(known) = known else { return };
        let yes = known.sent == heard;
        tell_actor(&known.addr, LetGo(yes));
        if yes {
            self.actors.remove(&endpoint);
        }
    }
}

impl Handler<WantPace> for Supervisor {
    type Result = ();

    fn handle(&mut self, WantPace { endpoint, attempts }: WantPace, ctx: &mut Context<Self>) {
        self.pacer.want(endpoint, attempts);
        if !self.pacing {
            self.pace(ctx);
        }
    }
}

impl Handler<PassOn> for Supervisor {
    type Result = ();

    fn handle(&mut self, PassOn { endpoint, message, build }: PassOn, ctx: &mut Context<Self>) {
        let me = ctx.address();
        let known = if build { self.actor_for_people(endpoint, &me) } else { self.actors.get_mut(&endpoint) };
        // Dropping the message tells whoever waits for its answer.
        let Some(known) = known else { return };
        known.sent += 1;
        match message {
            Passed::Lock(message) => tell_actor(&known.addr, message),
            Passed::Unlock(message) => tell_actor(&known.addr, message),
            Passed::Freeze(message) => tell_actor(&known.addr, message),
            Passed::Thaw(message) => tell_actor(&known.addr, message),
            Passed::Changed(message) => tell_actor(&known.addr, message),
            Passed::Live(message) => tell_actor(&known.addr, message),
            Passed::Refresh => tell_actor(&known.addr, Refresh),
        }
    }
}

impl Handler<Drain> for Supervisor {
    type Result = ();

    fn handle(&mut self, Drain(back): Drain, _: &mut Context<Self>) {
        let answers: Vec<_> = self
            .actors
            .values()
            .map(|known| {
                let (drained, answer) = tokio::sync::oneshot::channel();
                tell_actor(&known.addr, DrainEndpoint(drained));
                answer
            })
            .collect();
        tokio::task::spawn_local(async move {
            futures_util::future::join_all(answers).await;
            let _ = back.send(());
        });
    }
}
