//! The store as an engine with a fault sees it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use bytes::Bytes;
use posthaste::domain::content::Content;
use posthaste::domain::delivery::{Line, Next, Waiting};
use posthaste::domain::dispatcher::{Batch, Loaded, Rest, Versions};
use posthaste::domain::endpoint::Status;
use posthaste::domain::health::{Circuit, Health};
use posthaste::domain::ids::{DeliveryNo, EndpointNo, EventNo};
use posthaste::domain::notice::{Notice, NoticeKind};
use posthaste::domain::policy_spec::PolicySpec;
use posthaste::domain::schedule::Schedule;
use posthaste::domain::time::{Span, Timestamp};
use posthaste::store::error::StoreError;
use posthaste::store::load::{LoadWindow, Needed, NeededBy};
use posthaste::store::record::Recorded;
use posthaste::store::{Owned, Queue};

use super::Plant;
use crate::simulation::trouble::TroubledQueue;

pub struct PlantedQueue {
    pub plant: Plant,
    pub inner: TroubledQueue,
    remembered: Mutex<HashMap<EndpointNo, Remembered>>,
}

/// What a lie about an endpoint needs to know.
#[derive(Default)]
struct Remembered {
    url: Option<Arc<str>>,
    health: Health,
    disabled: Option<(String, Notice)>,
    /// When the circuit opened, and how often the endpoint was read since.
    opened_at: Option<Timestamp>,
    reads: u64,
}

impl Remembered {
    /// An instant that no probe on the wire knows.
    fn other_outage(&mut self, opened_at: Timestamp) -> Timestamp {
        self.reads = if self.opened_at == Some(opened_at) { self.reads + 1 } else { 1 };
        self.opened_at = Some(opened_at);
        opened_at + Span::from_micros(self.reads as i64)
    }

    /// The outage that was meant: what is written is right.
    fn true_outage(&self, at: Timestamp) -> Timestamp {
        let latest = |opened_at: Timestamp| opened_at + Span::from_micros(self.reads as i64);
        self.opened_at.filter(|&opened_at| opened_at < at && at <= latest(opened_at)).unwrap_or(at)
    }
}

impl PlantedQueue {
    pub fn new(plant: Plant, inner: TroubledQueue) -> PlantedQueue {
        PlantedQueue { plant, inner, remembered: Mutex::default() }
    }

    fn remembered(&self) -> MutexGuard<'_, HashMap<EndpointNo, Remembered>> {
        self.remembered.lock().unwrap()
    }

    fn lie_about_endpoint(&self, owned: &mut Owned) {
        let record = &mut owned.record;
        match self.plant {
            Plant::OneAttemptTooMany => change_ladder(&mut record.policy, |rungs| rungs.push(Span::MINUTE)),
            Plant::ShortDelay => change_ladder(&mut record.policy, |rungs| {
                rungs.iter_mut().filter(|rung| **rung > Span::ZERO).for_each(|rung| *rung = *rung - Span::MILLISECOND);
            }),
            Plant::HeldSent => owned.health.circuit = Circuit::Closed,
            Plant::TwoProbes => {
                if let Circuit::Open { opened_at, .. } = &mut owned.health.circuit {
                    *opened_at = self.remembered().entry(record.no).or_default().other_outage(*opened_at);
                }
            }
            Plant::OldUrl => {
                let mut remembered = self.remembered();
                record.url = remembered.entry(record.no).or_default().url.get_or_insert(record.url.clone()).clone();
            }
            Plant::OneSlotTooMany => record.max_in_flight += 1,
            Plant::RetryAfterIgnored => record.policy.overrides.retry_after = Some(false),
            _ => {}
        }
    }

    /// A row that waits, read in this life. `draw` is uniform in [0, 1).
    fn lie_about_row(&self, row: &mut Waiting, now: Timestamp, draw: f64) {
        match self.plant {
            Plant::OutOfOrder if row.line == Line::First => row.order_at = Timestamp::MIN,
            Plant::RedrawnJitter if row.line == Line::Retry && self.inner.life > 1 && row.due_at > now => {
                row.due_at = now + row.due_at.since(now).scaled(0.9 + 0.2 * draw);
                row.order_at = row.due_at;
            }
            _ => {}
        }
    }

    async fn lie_about_batch(&self, batch: &mut Batch) -> Result<(), StoreError> {
        let succeeded = batch.results.iter().any(|(_, verdict)| verdict.next == Next::Delivered);
        match self.plant {
            Plant::StreakKept if succeeded => {
                let before = self.remembered().entry(batch.endpoint).or_default().health;
                batch.health = Health { circuit: batch.health.circuit, ..before };
            }
            Plant::StreakKept => self.remembered().entry(batch.endpoint).or_default().health = batch.health,
            Plant::DisabledTwice => self.disable_again(batch).await?,
            Plant::TwoProbes => {
                let mut remembered = self.remembered();
                let remembered = remembered.entry(batch.endpoint).or_default();
                if let Circuit::Open { opened_at, .. } = &mut batch.health.circuit {
                    *opened_at = remembered.true_outage(*opened_at);
                }
                for (ended, _) in &mut batch.results {
                    ended.probe_of = ended.probe_of.map(|at| remembered.true_outage(at));
                }
            }
            Plant::WrittenTwice => {
                if let Some((mut ended, verdict)) = batch.results.last().cloned() {
                    ended.delivery.attempt += 1;
                    ended.delivery.attempts_total += 1;
                    batch.results.push((ended, verdict));
                }
            }
            Plant::VersionIgnored => {
                if let Some(owned) = self.inner.store.endpoint(batch.endpoint, Vec::new()).await? {
                    batch.expected = Versions { endpoint: owned.record.version, health: owned.health_version };
                }
            }
            Plant::NeverWoken => batch.wake_at = None,
            Plant::NobodySpared => batch.spared.clear(),
            _ => {}
        }
        Ok(())
    }

    /// The first failure after the endpoint was disabled by another disables it too.
    async fn disable_again(&self, batch: &mut Batch) -> Result<(), StoreError> {
        let status = self.inner.store.endpoint(batch.endpoint, Vec::new()).await?.map(|owned| owned.record.status);
        let mut remembered = self.remembered();
        let remembered = remembered.entry(batch.endpoint).or_default();
        if status == Some(Status::AutoDisabled)
            && let Some((reason, notice)) = remembered.disabled.take()
            && let Some((_, verdict)) = batch.results.iter_mut().find(|(_, verdict)| verdict.next != Next::Delivered)
        {
            verdict.disable = Some(reason);
            verdict.notices.push(notice);
            return Ok(());
        }
        for (_, verdict) in &batch.results {
            let notice = verdict.notices.iter().find(|notice| notice.kind == NoticeKind::AutoDisabled);
            if let (Some(reason), Some(notice)) = (&verdict.disable, notice) {
                remembered.disabled = Some((reason.clone(), notice.clone()));
            }
        }
        Ok(())
    }
}

#[async_trait]
impl Queue for PlantedQueue {
    async fn endpoint(&self, endpoint: EndpointNo, positions: Vec<DeliveryNo>) -> Result<Option<Owned>, StoreError> {
        let mut owned = self.inner.endpoint(endpoint, positions).await?;
        owned.iter_mut().for_each(|owned| self.lie_about_endpoint(owned));
        Ok(owned)
    }

    async fn window(&self, window: LoadWindow) -> Result<Loaded, StoreError> {
        let mut loaded = self.inner.window(window).await?;
        if self.plant == Plant::CutResurrected {
            for cut in 0..window.cut {
                let taken = self.inner.store.window(LoadWindow { cut, ..window }).await?;
                let alive = |row| Waiting { cut: window.cut, ..row };
                loaded.first.extend(taken.first.into_iter().map(alive));
                loaded.second.extend(taken.second.into_iter().map(alive));
            }
        }
        if self.plant == Plant::StaleHint {
            loaded.read_through = DeliveryNo(0);
        }
        let clock = self.inner.store.clock();
        for line in [&mut loaded.first, &mut loaded.second] {
            line.iter_mut().for_each(|row| self.lie_about_row(row, clock.now(), clock.draw()));
            line.sort_by_key(Waiting::place);
        }
        Ok(loaded)
    }

    async fn contents(&self, events: Vec<EventNo>) -> Result<Vec<(EventNo, Content)>, StoreError> {
        let mut contents = self.inner.contents(events).await?;
        if self.plant == Plant::OtherBytes {
            for (_, content) in &mut contents {
                content.body = Bytes::from(String::from_utf8_lossy(&content.body).replace(": ", ":"));
            }
        }
        Ok(contents)
    }

    async fn record(&self, mut batch: Batch) -> Result<Recorded, StoreError> {
        self.lie_about_batch(&mut batch).await?;
        let mut answer = self.inner.record(batch.clone()).await;
        while self.plant == Plant::VersionIgnored && matches!(answer, Ok(Recorded::Outdated)) {
            // It moved on again while the store took its time.
            self.lie_about_batch(&mut batch).await?;
            answer = self.inner.record(batch.clone()).await;
        }
        match (self.plant, answer) {
            (Plant::ResultLost, Err(_)) => Ok(Recorded::Done { skipped: false }),
            (_, answer) => answer,
        }
    }

    async fn release(&self, deliveries: Vec<DeliveryNo>) -> Result<(), StoreError> {
        self.inner.release(deliveries).await
    }

    async fn rest(&self, rest: Rest) -> Result<(), StoreError> {
        self.inner.rest(rest).await
    }

    async fn tell_operators(&self, notice: Notice) -> Result<(), StoreError> {
        self.inner.tell_operators(notice).await
    }

    async fn needed_by(&self, question: NeededBy) -> Result<Vec<Needed>, StoreError> {
        match self.plant {
            Plant::LostHint => Ok(Vec::new()),
            _ => self.inner.needed_by(question).await,
        }
    }
}

/// Writes the policy's schedule out as a ladder and changes that.
fn change_ladder(policy: &mut PolicySpec, change: impl FnOnce(&mut Vec<Span>)) {
    let schedule = policy.resolve().schedule.clone();
    let mut rungs: Vec<Span> = (1..).map_while(|failed| schedule.delay(failed)).collect();
    change(&mut rungs);
    policy.overrides.schedule = Some(Schedule::Ladder(rungs));
}
