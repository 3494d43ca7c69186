//! What the world puts in the engine's way: a store that refuses, that fails after its commit, that takes its time; hints
//! that are lost or late. Every piece of trouble is written down with how long it may explain a late attempt.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use posthaste::clock::Clock;
use posthaste::domain::content::Content;
use posthaste::domain::dispatcher::{Batch, Loaded, Rest};
use posthaste::domain::ids::{DeliveryNo, EndpointNo, EventNo};
use posthaste::domain::notice::Notice;
use posthaste::domain::time::{Span, Timestamp};
use posthaste::engine::HintDoor;
use posthaste::store::change::Tell;
use posthaste::store::error::StoreError;
use posthaste::store::hint::{Hint, HintSink};
use posthaste::store::load::{LoadWindow, Needed, NeededBy};
use posthaste::store::record::{Record, Recorded};
use posthaste::store::{DEFAULT_TENANT, Owned, Queue, Store};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::ledger::{Fault, Ledger, Noted, Result as Outcome, What};

/// How likely each kind of trouble is, between 0 and 1.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// A write is refused before it is made.
    pub refuse: f64,
    /// A write is made, and its answer is an error.
    pub fail: f64,
    /// A read fails.
    pub unreadable: f64,
    /// Each step of the store takes up to so many milliseconds of real time before it happens, and again before its
    /// answer is heard.
    pub linger: u64,
    pub lose_hint: f64,
    /// A hint comes up to a second late.
    pub late_hint: f64,
    /// The store takes no part at all within these windows.
    pub outages: Vec<(Timestamp, Timestamp)>,
}

/// The back-off after the store's refusals goes up to so much real time.
const STORE_BACK_OFF: Span = Span::from_secs(5);
/// A lost hint is found by a sweep: one every second.
const SWEEP: Span = Span::from_millis(1_100);

#[derive(Clone)]
pub struct Trouble {
    plan: Plan,
    random: Arc<Mutex<StdRng>>,
    ledger: Ledger,
    clock: Clock,
}

impl Trouble {
    pub fn new(plan: Plan, seed: u64, ledger: Ledger, clock: Clock) -> Trouble {
        Trouble { plan, random: Arc::new(Mutex::new(StdRng::seed_from_u64(seed))), ledger, clock }
    }

    fn happens(&self, chance: f64) -> bool {
        chance > 0.0 && self.random.lock().unwrap().random_bool(chance)
    }

    /// Notes trouble that may explain lateness for so much real time from now on.
    fn note(&self, real: Span) {
        let at = self.clock.now();
        self.ledger.pages().faults.push(Fault { at, until: at + self.clock.engine_span(real) });
    }

    /// Something that explains late attempts for so much real time from now on.
    pub fn explains(&self, real: Span) {
        self.note(real);
    }

    /// A hint does not come: the next sweep has to find what it would have told.
    pub fn sweep_must_find(&self) {
        self.note(SWEEP);
    }

    async fn linger(&self) {
        if self.plan.linger == 0 || self.happens(0.5) {
            return;
        }
        let millis = self.random.lock().unwrap().random_range(0..=self.plan.linger);
        self.note(Span::from_millis(millis + 2));
        tokio::time::sleep(Duration::from_millis(millis)).await;
    }

    fn error(&self, chance: f64) -> Result<(), StoreError> {
        let now = self.clock.now();
        let down = self.plan.outages.iter().any(|(from, to)| (*from..*to).contains(&now));
        if !down && !self.happens(chance) {
            return Ok(());
        }
        self.note(STORE_BACK_OFF);
        Err(StoreError::Unavailable("the simulation says no".into()))
    }

    /// A write with all that may happen to it.
    pub async fn write<T>(&self, write: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        self.linger().await;
        self.error(self.plan.refuse)?;
        let answer = write.await;
        self.linger().await;
        self.error(self.plan.fail)?;
        answer
    }

    async fn read<T>(&self, read: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        self.linger().await;
        self.error(self.plan.unreadable)?;
        let answer = read.await;
        self.linger().await;
        answer
    }
}

/// The store as the engine sees it.
pub struct TroubledQueue {
    pub store: Store,
    pub trouble: Trouble,
    pub life: u32,
}

impl TroubledQueue {
    fn noted<S, F>(&self, sentence: S, note: F) -> Noted<S, F> {
        let ledger = self.trouble.ledger.clone();
        Noted { sentence, ledger, life: self.life, clock: self.trouble.clock.clone(), note }
    }
}

#[async_trait]
impl Queue for TroubledQueue {
    async fn endpoint(&self, endpoint: EndpointNo, positions: Vec<DeliveryNo>) -> Result<Option<Owned>, StoreError> {
        self.trouble.read(self.store.endpoint(endpoint, positions)).await
    }

    async fn window(&self, window: LoadWindow) -> Result<Loaded, StoreError> {
        self.trouble.read(self.store.window(window)).await
    }

    async fn contents(&self, events: Vec<EventNo>) -> Result<Vec<(EventNo, Content)>, StoreError> {
        let contents = self.trouble.read(self.store.contents(events)).await;
        if contents.is_err() {
            // S6: taken for a fault of ours.
            self.trouble.note(Span::MINUTE);
        }
        contents
    }

    async fn record(&self, batch: Batch) -> Result<Recorded, StoreError> {
        let noted = self.noted(Record(batch), recorded);
        self.trouble.write(self.store.write(noted)).await
    }

    async fn release(&self, deliveries: Vec<DeliveryNo>) -> Result<(), StoreError> {
        self.trouble.write(self.store.release(deliveries)).await
    }

    async fn rest(&self, rest: Rest) -> Result<(), StoreError> {
        self.trouble.write(self.store.rest(rest)).await
    }

    async fn tell_operators(&self, notice: Notice) -> Result<(), StoreError> {
        let now = self.trouble.clock.now();
        let told = |sentence: &Tell, _: &()| vec![What::Told { kind: sentence.notice.kind }];
        let noted = self.noted(Tell { tenant: DEFAULT_TENANT, notice, now }, told);
        self.trouble.write(self.store.write(noted)).await
    }

    async fn needed_by(&self, question: NeededBy) -> Result<Vec<Needed>, StoreError> {
        // Another sweep comes in a second.
        self.trouble.read(self.store.needed_by(question)).await
    }
}

/// What a batch changed, if it was written.
fn recorded(sentence: &Record, answer: &Recorded) -> Vec<What> {
    let batch = &sentence.0;
    let Recorded::Done { skipped } = *answer else { return Vec::new() };
    let results = batch.results.iter().map(|(ended, verdict)| Outcome {
        delivery: ended.delivery.no,
        run: ended.delivery.run,
        attempt: ended.delivery.attempt + 1,
        started: ended.attempt.started_at,
        ended: ended.attempt.ended_at,
        status: ended.attempt.report.finding.status(),
        next: verdict.next,
        no_egress: ended.no_egress,
        policy: ended.policy.clone(),
        probe_of: ended.probe_of,
    });
    let disabled = batch.disable().is_some();
    vec![What::Recorded { endpoint: batch.endpoint, results: results.collect(), disabled, skipped }]
}

/// The way of hints, with losses.
pub struct TroubledHints {
    pub door: HintDoor,
    pub trouble: Trouble,
}

impl HintSink for TroubledHints {
    fn committed(&self, hints: Vec<Hint>) {
        let trouble = &self.trouble;
        if trouble.happens(trouble.plan.lose_hint) {
            trouble.sweep_must_find();
        } else if trouble.happens(trouble.plan.late_hint) {
            let millis = trouble.random.lock().unwrap().random_range(0..1_000);
            trouble.sweep_must_find();
            let door = self.door.clone();
            tokio::task::spawn_local(async move {
                tokio::time::sleep(Duration::from_millis(millis)).await;
                door.committed(hints);
            });
        } else {
            self.door.committed(hints);
        }
    }
}
