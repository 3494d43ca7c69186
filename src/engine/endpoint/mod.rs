//! One endpoint as an actor: carries out what its dispatcher decides, and brings it the results.
//!
//! ```text
//!  built ──read──▶ awake ──(idle, nothing due within a minute, supervisor agrees)──▶ gone
//!                    │ every message: tell the dispatcher, take a turn, re-arm the one timer
//!                    └ panic: its attempts are aborted, the supervisor builds a new one from the rows
//! ```

mod between;
mod handlers;

use std::cell::Cell;
use std::collections::HashMap;
use std::fmt::Display;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;

use super::ends::{AttemptEnded, Ends};
use super::gate::{Pass, Unrecorded};
use super::making::{self, Making, Order};
use super::messages::*;
use super::outbox::Outbox;
use super::reading::Claim;
use super::supervisor::Supervisor;
use super::tray::Tray;
use super::{Env, operators, story};
use crate::domain::content::Content;
use crate::domain::dispatcher::{Dispatcher, Effect, Limits, Reloaded, Room, Start};
use crate::domain::egress::WayOut;
use crate::domain::ids::{DeliveryNo, EndpointNo, EventNo};
use crate::domain::notice::Notice;
use crate::domain::time::{Span, Timestamp};
use crate::store::endpoint_record::EndpointRecord;
use crate::store::error::StoreError;
use crate::store::load::LoadWindow;
use crate::store::record::Recorded;
use crate::transport::Transport;

/// Judged attempts that may wait for their commit.
const UNRECORDED: usize = 256;

pub struct EndpointActor {
    endpoint: EndpointNo,
    env: Arc<Env>,
    supervisor: Addr<Supervisor>,
    transport: Rc<dyn Transport>,
    /// Attempts on the wire; dropping one aborts it.
    making: HashMap<DeliveryNo, Making>,
    /// What those of them came to that are over.
    ends: Ends,
    /// Attempts about to begin.
    outbox: Outbox,
    brain: Brain,
    timer: Option<(Timestamp, SpawnHandle)>,
    /// Since when there has been nothing to do.
    idle_since: Option<Timestamp>,
    asked_to_leave: bool,
    /// Where its hints lie.
    tray: Arc<Tray>,
    /// Messages and hints heard from the supervisor.
    heard: u64,
    draining: Option<tokio::sync::oneshot::Sender<()>>,
    drained: bool,
    queued_at_gate: bool,
    /// Its part of the results that are not committed.
    unrecorded: Unrecorded,
    /// When it is needed next is being written.
    resting: Rc<Cell<bool>>,
    /// Last, so that it is dropped after the attempts: tells the supervisor that this incarnation is gone.
    obituary: Obituary,
}

/// The dispatcher, once its endpoint was read; what came in before waits for it.
enum Brain {
    Asleep(Early),
    Awake { dispatcher: Box<Dispatcher>, record: Arc<EndpointRecord> },
}

/// What came in before the endpoint was read. Nothing of this incarnation is on the wire then.
#[derive(Default)]
struct Early {
    locks: Vec<DeliveryNo>,
    frozen: u32,
    changed: bool,
    failures: u32,
}

/// Tells the supervisor, however the actor ends: a panic, a stop, the last address dropped.
struct Obituary {
    endpoint: EndpointNo,
    incarnation: u64,
    supervisor: Addr<Supervisor>,
    /// The endpoint is deleted: nobody is to take its place.
    last: bool,
}

impl Drop for Obituary {
    fn drop(&mut self) {
        let (endpoint, incarnation, last) = (self.endpoint, self.incarnation, self.last);
        tell_actor(&self.supervisor, Died { endpoint, incarnation, last });
    }
}

impl EndpointActor {
    /// An actor for `endpoint`; made on the thread that it lives on.
    pub fn new(
        endpoint: EndpointNo,
        incarnation: u64,
        env: Arc<Env>,
        supervisor: Addr<Supervisor>,
        tray: Arc<Tray>,
    ) -> EndpointActor {
        EndpointActor {
            endpoint,
            transport: Rc::from(env.transports.open()),
            obituary: Obituary { endpoint, incarnation, supervisor: supervisor.clone(), last: false },
            supervisor,
            making: HashMap::new(),
            ends: Ends::default(),
            outbox: Outbox::default(),
            brain: Brain::Asleep(Early::default()),
            timer: None,
            idle_since: None,
            asked_to_leave: false,
            tray,
            heard: 0,
            draining: None,
            drained: false,
            queued_at_gate: false,
            unrecorded: Unrecorded::none(&env.gate),
            resting: Rc::default(),
            env,
        }
    }

    fn dispatcher(&mut self) -> Option<&mut Dispatcher> {
        match &mut self.brain {
            Brain::Asleep(_) => None,
            Brain::Awake { dispatcher, .. } => Some(dispatcher),
        }
    }

    /// Reads the endpoint, for the first time or again.
    fn read_endpoint(&self, positions: Vec<DeliveryNo>, ctx: &Context<Self>) {
        let (queue, endpoint, me) = (self.env.queue.clone(), self.endpoint, ctx.address());
        tokio::task::spawn_local(async move {
            let answer = queue.endpoint(endpoint, positions).await;
            tell_actor(&me, EndpointRead(answer.map(|owned| owned.map(Box::new))));
        });
    }

    /// Has the dispatcher decide and carries out what it decides. The end of every handler.
    fn turn(&mut self, ctx: &mut Context<Self>) {
        let now = self.env.clock.now();
        let starts = if self.draining.is_some() || self.drained { 0 } else { self.env.gate.room(self.ends.has_slow()) };
        let Some(dispatcher) = self.dispatcher() else { return };
        let effects = dispatcher.pump(now, Room { starts, rate: None });
        for effect in effects {
            self.carry_out(effect, ctx);
        }
        self.send_what_is_ready(ctx);
        self.settle(now, ctx);
    }

    fn carry_out(&mut self, effect: Effect, ctx: &mut Context<Self>) {
        let (queue, me) = (self.env.queue.clone(), ctx.address());
        match effect {
            Effect::Start(start) => match (self.env.gate.enter(), self.dispatcher()) {
                (Some(pass), _) => self.outbox.push(start, pass),
                (None, Some(dispatcher)) => dispatcher.withdraw(start.delivery.no),
                (None, None) => {}
            },
            Effect::Record(batch) => {
                tokio::task::spawn_local(async move { tell_actor(&me, BatchWritten(queue.record(batch).await)) });
            }
            Effect::Load { limit } => {
                let Some(dispatcher) = self.dispatcher() else { return };
                let cut = dispatcher.endpoint().cut;
                let window = LoadWindow { endpoint: self.endpoint, cut, limit };
                tokio::task::spawn_local(async move { tell_actor(&me, WindowRead(queue.window(window).await)) });
            }
            Effect::Rest(rest) => {
                // If the store refuses, the next sweep asks again; while it takes its time, one in its queue is enough.
                let resting = self.resting.clone();
                if !resting.replace(true) {
                    tokio::task::spawn_local(async move {
                        let _ = queue.rest(rest).await;
                        resting.set(false);
                    });
                }
            }
            Effect::Reload { positions } => self.read_endpoint(positions, ctx),
            Effect::Pace(attempts) => {
                tell_actor(&self.supervisor, WantPace { endpoint: self.endpoint, attempts });
            }
            Effect::Release(deliveries) => {
                let (env, endpoint) = (self.env.clone(), self.endpoint);
                tokio::task::spawn_local(async move {
                    let refused = match queue.release(deliveries.clone()).await {
                        Ok(()) => Vec::new(),
                        Err(error) => {
                            let what = "deliveries off the wire could not be given up to their cut";
                            env.complaints.warn(&env.clock, what, format_args!("endpoint {endpoint}"), error);
                            deliveries
                        }
                    };
                    tell_actor(&me, Released(refused));
                });
            }
        }
    }

    /// Begins what can begin, and asks the store for the events that are missing.
    fn send_what_is_ready(&mut self, ctx: &Context<Self>) {
        while let Some((start, content, pass)) = self.outbox.pop() {
            self.send(start, content, pass, ctx.address());
        }
        let asked = self.outbox.take_to_read();
        if asked.is_empty() {
            return;
        }
        let (env, me) = (self.env.clone(), ctx.address());
        tokio::task::spawn_local(async move {
            let contents = env.reading.read(&*env.queue, &asked).await;
            tell_actor(&me, ContentsRead { asked, contents });
        });
    }

    /// The events of attempts about to begin were read, or were not.
    fn contents_read(&mut self, asked: Vec<EventNo>, contents: Result<HashMap<EventNo, Arc<Content>>, StoreError>) {
        let now = self.env.clock.now();
        if let Err(error) = &contents {
            self.complain("events to be attempted could not be read", error);
        }
        let (mut contents, mut kept) = (contents.unwrap_or_default(), HashMap::new());
        let wanted = contents.len();
        let (mut claim, reading) =
            (Claim { first: self.making.is_empty(), slow: self.ends.has_slow() }, &self.env.reading);
        for no in &asked {
            let Some(content) = contents.remove(no) else { continue };
            let Some(content) = reading.keep(*no, content, claim) else { break };
            claim.first = false;
            kept.insert(*no, content);
        }
        if kept.len() < wanted {
            self.complain("attempts wait for memory for their events", wanted - kept.len());
        }
        let mut given_back = self.outbox.read(&asked, kept).into_iter();
        if let Some(dispatcher) = self.dispatcher() {
            // Only the first could not begin; the others waited for it.
            given_back.next().into_iter().for_each(|no| dispatcher.not_started(no, now));
            given_back.for_each(|no| dispatcher.withdraw(no));
        }
    }

    fn send(&mut self, start: Start, content: Arc<Content>, pass: Pass, me: Addr<Self>) {
        let Brain::Awake { dispatcher, record } = &mut self.brain else { return };
        let no = start.delivery.no;
        if self.draining.is_some() || !dispatcher.may_begin(no) {
            dispatcher.withdraw(no);
            return;
        }
        log::debug!(
            "attempt {} of {} (run {}) for {} begins",
            start.delivery.attempt + 1,
            start.delivery.id(),
            start.delivery.run,
            record.id,
        );
        let Start { delivery, trigger, policy, .. } = start;
        let order = Order { record: record.clone(), delivery, content, trigger, timeout: policy.timeout };
        self.making.insert(no, making::make(&self.env, &self.transport, order, pass, (&self.ends, me)));
    }

    pub(super) fn ended(&mut self, ended: AttemptEnded) {
        let AttemptEnded { delivery, attempt, wall_secs, slow: _ } = ended;
        self.making.remove(&delivery);
        let way = self.way_out(&attempt);
        let draw = self.env.clock.draw();
        let Some(dispatcher) = self.dispatcher() else { return };
        dispatcher.ended(delivery, attempt, draw, wall_secs, way.blocked);
    }

    /// Whether anything leaves the installation (S6); tells operators once if not.
    fn way_out(&self, attempt: &crate::domain::attempt::Attempt) -> WayOut {
        let now = self.env.clock.uptime();
        let mut egress = self.env.egress.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let way = egress.after(&attempt.url, &attempt.report, now);
        if let Some((attempts, hosts)) = way.tell {
            log::warn!("the last {attempts} attempts to {hosts} hosts all failed before an answer; no streak grows");
            tokio::task::spawn_local(operators::tell(self.env.queue.clone(), Notice::no_egress(attempts, hosts)));
        }
        way
    }

    /// What the store said to the batch that was being written.
    fn written(&mut self, written: Result<Recorded, StoreError>, now: Timestamp) {
        let Some(dispatcher) = self.dispatcher() else { return };
        match written {
            Ok(Recorded::Done { skipped }) => {
                let results = dispatcher.recorded(skipped);
                results.iter().for_each(|(ended, verdict)| {
                    story::tell(dispatcher.endpoint(), dispatcher.health(), ended, verdict)
                });
            }
            Ok(Recorded::Outdated | Recorded::Gone) => dispatcher.outdated(),
            Err(error) => {
                dispatcher.refused(now);
                self.complain("results could not be recorded, and nothing is sent until they are", error);
            }
        }
    }

    fn complain(&self, what: &'static str, why: impl Display) {
        match &self.brain {
            Brain::Awake { record, .. } => self.env.complaints.warn(&self.env.clock, what, &record.id, why),
            Brain::Asleep(_) => {
                self.env.complaints.warn(&self.env.clock, what, format_args!("endpoint {}", self.endpoint), why)
            }
        }
    }

    /// The endpoint could not be read: again after a while.
    fn endpoint_unread(&mut self, error: StoreError, now: Timestamp, ctx: &mut Context<Self>) {
        self.complain("an endpoint could not be read", error);
        match &mut self.brain {
            Brain::Awake { dispatcher, .. } => dispatcher.reload_failed(now),
            Brain::Asleep(early) => {
                early.failures += 1;
                let wait = Duration::from_millis(100 * u64::from(early.failures.min(50)));
                #[allow(clippy::disallowed_methods)] // no dispatcher yet that could want the one timer
                ctx.run_later(wait, |actor, ctx| actor.read_endpoint(Vec::new(), ctx));
            }
        }
    }

    /// The endpoint as it was read: the first time it wakes the dispatcher, later it is judged by.
    fn endpoint_read(&mut self, owned: Option<Box<crate::store::Owned>>, ctx: &mut Context<Self>) {
        match (&mut self.brain, owned) {
            (Brain::Awake { dispatcher, .. }, None) => dispatcher.reloaded(None),
            (Brain::Awake { dispatcher, record }, Some(owned)) => {
                let endpoint = owned.record.endpoint();
                *record = Arc::new(owned.record);
                let (health, health_version, positions) = (owned.health, owned.health_version, owned.positions);
                // What was decided under the old state and has not begun is decided again.
                self.outbox.take_back().into_iter().for_each(|no| dispatcher.withdraw(no));
                dispatcher.reloaded(Some(Reloaded { endpoint, health, health_version, positions }));
            }
            (Brain::Asleep(_), None) => {
                log::debug!("endpoint {} is deleted; its actor ends", self.endpoint);
                self.obituary.last = true;
                ctx.stop();
            }
            (Brain::Asleep(early), Some(owned)) => {
                let limits = Limits {
                    window: self.env.settings.window,
                    unrecorded: UNRECORDED,
                    real_second: self.env.clock.engine_span(Span::SECOND),
                    paced_before: self.env.started_at,
                };
                let endpoint = owned.record.endpoint();
                let mut dispatcher = Dispatcher::new(endpoint, owned.health, owned.health_version, limits);
                early.locks.iter().for_each(|&no| {
                    let _ = dispatcher.lock(no);
                });
                for _ in 0..early.frozen {
                    dispatcher.freeze();
                }
                if early.changed {
                    dispatcher.changed();
                }
                self.brain = Brain::Awake { dispatcher: Box::new(dispatcher), record: Arc::new(owned.record) };
            }
        }
    }
}

impl Actor for EndpointActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        self.read_endpoint(Vec::new(), ctx);
    }
}
