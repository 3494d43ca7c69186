//! The only folder that knows actors: one per endpoint that has work, a supervisor that routes to them, the sweeper that
//! finds what a lost hint left behind, and the handle through which everybody else talks to them.

mod complaints;
mod endpoint;
mod ends;
mod gate;
mod making;
mod messages;
mod operators;
mod outbox;
mod pacer;
mod reading;
mod story;
mod supervisor;
mod sweeper;
mod tray;

pub mod retention;

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

use actix::prelude::*;
use tokio::sync::oneshot;

use crate::clock::Clock;
use crate::domain::attempt::{Attempt, Trigger};
use crate::domain::delivery::Waiting;
use crate::domain::dispatcher::{OnTheWire, Spared};
use crate::domain::egress::Egress;
use crate::domain::headers::HeaderPrefix;
use crate::domain::ids::{DeliveryNo, EndpointNo};
use crate::domain::time::Timestamp;
use crate::store::Queue;
use crate::store::hint::{Hint, HintSink};
use crate::transport::TransportFactory;
use complaints::Complaints;
use ends::Floor;
use gate::Gate;
use messages::{PassOn, Passed};
use reading::Reading;
use supervisor::Supervisor;

/// How the engine is run; each value's reason is in `config.rs`.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Attempts on the wire in the whole installation.
    pub max_attempts: usize,
    /// Overdue attempts per real second after a start.
    pub restart_rate: u32,
    /// Deliveries an actor holds of each of its two lines.
    pub window: usize,
    /// Bytes of events that are read for attempts.
    pub read_bodies: usize,
    /// Arbiters that endpoint actors live on; with 0 they live with the supervisor (tests on virtual time).
    pub arbiters: usize,
    /// How many of them may work up the ends of slow attempts at once; with 0 all may.
    pub floors: usize,
    /// The header prefix of endpoints that have none of their own.
    pub header_prefix: HeaderPrefix,
}

/// What every actor of the engine shares.
pub(crate) struct Env {
    pub clock: Clock,
    pub queue: Arc<dyn Queue>,
    pub transports: Arc<dyn TransportFactory>,
    pub gate: Gate,
    pub floor: Floor,
    pub complaints: Complaints,
    pub reading: Reading,
    pub egress: Mutex<Egress>,
    pub header_prefix: HeaderPrefix,
    pub settings: Settings,
    /// Deliveries due before this instant were overdue when the process started.
    pub started_at: Timestamp,
    pub draining: AtomicBool,
    /// Engine time of the last sweep that succeeded, in microseconds.
    pub swept_at: AtomicI64,
}

/// The engine's handle. Clones are the same engine.
#[derive(Clone)]
pub struct Engine {
    supervisor: Addr<Supervisor>,
    env: Arc<Env>,
}

/// What an endpoint's actor knows now.
#[derive(Clone, Debug, Default)]
pub struct Live {
    pub in_flight: usize,
    /// On the wire, or judged and not yet committed.
    pub on_the_wire: Vec<DeliveryNo>,
    /// When the next attempt may start; `None` if nothing waits in the actor's windows.
    pub next_start: Option<Timestamp>,
    /// Narrowed for answering slowly or not at all (S19).
    pub narrowed: bool,
}

/// The engine is draining or gone; nothing was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unavailable;

/// Why a delivery was not locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockRefused {
    OnTheWire,
    Unavailable,
}

/// Where the store's hints enter the engine. Made before the engine, because the store is.
#[derive(Clone, Default)]
pub struct HintDoor(Arc<Mutex<Option<Addr<Supervisor>>>>);

impl HintSink for HintDoor {
    fn committed(&self, hints: Vec<Hint>) {
        let door = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(supervisor) = &*door {
            // A refused hint is found by the sweeper: the rows say what the newest delivery is.
            let _ = supervisor.try_send(messages::Hints(hints));
        }
    }
}

impl Engine {
    /// Starts the engine on the current actix system.
    pub fn start(
        queue: Arc<dyn Queue>,
        transports: Arc<dyn TransportFactory>,
        clock: Clock,
        door: &HintDoor,
        settings: Settings,
    ) -> Engine {
        let env = Arc::new(Env {
            queue,
            transports,
            gate: Gate::new(settings.max_attempts),
            floor: Floor::new(settings.floors),
            complaints: Complaints::default(),
            reading: Reading::new(settings.read_bodies),
            egress: Mutex::default(),
            header_prefix: settings.header_prefix.clone(),
            started_at: clock.now(),
            draining: AtomicBool::new(false),
            swept_at: AtomicI64::new(i64::MIN),
            settings,
            clock,
        });
        let supervisor = Supervisor::new(env.clone()).start();
        *door.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(supervisor.clone());
        Engine { supervisor, env }
    }

    fn pass_on(&self, endpoint: EndpointNo, message: Passed, build: bool) {
        messages::tell_actor(&self.supervisor, PassOn { endpoint, message, build });
    }

    /// Keeps a delivery from being attempted until the token is done or dropped.
    ///
    /// # Errors
    /// If an attempt of it is on the wire or not yet recorded, or another request holds it; if the engine is draining.
    pub async fn lock(&self, endpoint: EndpointNo, delivery: DeliveryNo) -> Result<Locked, LockRefused> {
        let (back, answer) = oneshot::channel();
        self.pass_on(endpoint, Passed::Lock(messages::LockDelivery { delivery, back }), true);
        match answer.await {
            Ok(Ok(())) => Ok(Locked { engine: self.clone(), endpoint, delivery, waiting: None }),
            Ok(Err(OnTheWire)) => Err(LockRefused::OnTheWire),
            Err(_) => Err(LockRefused::Unavailable),
        }
    }

    /// Keeps an endpoint from starting anything until the token is done or dropped.
    ///
    /// # Errors
    /// If the engine is draining.
    pub async fn freeze(&self, endpoint: EndpointNo) -> Result<Frozen, Unavailable> {
        let (back, answer) = oneshot::channel();
        self.pass_on(endpoint, Passed::Freeze(messages::Freeze(back)), true);
        let spared = answer.await.map_err(|_| Unavailable)?;
        Ok(Frozen { spared, thaw: Some((self.clone(), endpoint)) })
    }

    /// After a committed change of an endpoint: returns when nothing starts under the old state any more (S26). What the
    /// change has let go (it may have closed the circuit) starts at once, so an actor is built if there is none.
    pub async fn changed(&self, endpoint: EndpointNo) {
        let (back, answer) = oneshot::channel();
        self.pass_on(endpoint, Passed::Changed(messages::Changed(back)), true);
        // Draining: no actor, no old state.
        let _ = answer.await;
    }

    /// Rows of these endpoints were changed behind their actors' backs.
    pub fn refresh(&self, endpoints: &[EndpointNo]) {
        endpoints.iter().for_each(|&endpoint| self.pass_on(endpoint, Passed::Refresh, true));
    }

    /// What an endpoint's actor knows; `None` if it has none, and so nothing on the wire.
    pub async fn live(&self, endpoint: EndpointNo) -> Option<Live> {
        let (back, answer) = oneshot::channel();
        self.pass_on(endpoint, Passed::Live(messages::AskLive(back)), false);
        answer.await.ok()
    }

    /// One attempt with this content outside any queue: the endpoint's test ping. Must be called on an actix thread.
    pub async fn ping(&self, order: Ping) -> Attempt {
        let env = &self.env;
        let started_at = env.clock.now();
        let url = order.record.url.clone();
        let request = making::ping_request(env, &order);
        let transport = env.transports.open();
        let report = transport.send(request).await;
        Attempt { trigger: Trigger::Ping, started_at, ended_at: env.clock.now(), url, report }
    }

    /// Starts nothing more and waits until nothing is on the wire and every result is committed. New requests for locks
    /// and freezes are refused from now on. Whoever runs out of patience drops the future.
    pub async fn drain(&self) {
        self.env.draining.store(true, Ordering::Release);
        let (back, answer) = oneshot::channel();
        messages::tell_actor(&self.supervisor, messages::Drain(back));
        let _ = answer.await;
    }

    /// New work is refused.
    pub fn is_draining(&self) -> bool {
        self.env.draining.load(Ordering::Acquire)
    }

    /// The sweeper has found its way through the store lately.
    pub fn is_ticking(&self) -> bool {
        let swept_at = Timestamp::from_micros(self.env.swept_at.load(Ordering::Relaxed));
        let limit = self.env.clock.engine_span(sweeper::EVERY.scaled(10.0));
        self.env.clock.now().since(swept_at) <= limit
    }
}

/// What a ping is made from.
pub struct Ping {
    pub record: Arc<crate::store::endpoint_record::EndpointRecord>,
    pub content: crate::domain::content::Content,
    /// An id that belongs to no delivery.
    pub delivery_id: String,
}

/// A delivery that is not attempted while this is held. Dropping it lets the delivery go again after it was read anew.
pub struct Locked {
    engine: Engine,
    endpoint: EndpointNo,
    delivery: DeliveryNo,
    waiting: Option<Waiting>,
}

impl Locked {
    /// The change is committed; the delivery as it waits now.
    pub fn done(mut self, waiting: Option<Waiting>) {
        self.waiting = waiting;
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        let message = messages::UnlockDelivery { delivery: self.delivery, waiting: self.waiting.take() };
        self.engine.pass_on(self.endpoint, Passed::Unlock(message), false);
    }
}

/// An endpoint that starts nothing while this is held. Dropping it has the endpoint read anew.
pub struct Frozen {
    /// What is on the wire: those deliveries finish (S15).
    pub spared: Vec<Spared>,
    thaw: Option<(Engine, EndpointNo)>,
}

impl Frozen {
    /// The change is committed (or failed): returns when nothing starts under the old state.
    pub async fn done(mut self) {
        if let Some((engine, endpoint)) = self.thaw.take() {
            let (back, answer) = oneshot::channel();
            engine.pass_on(endpoint, Passed::Thaw(messages::Thaw(back)), false);
            // No actor, no old state.
            let _ = answer.await;
        }
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        if let Some((engine, endpoint)) = self.thaw.take() {
            let (back, _) = oneshot::channel();
            engine.pass_on(endpoint, Passed::Thaw(messages::Thaw(back)), false);
        }
    }
}
