//! Results on their way into the store: judged at once, written in batches, judged again if the endpoint was changed
//! meanwhile (S1, S13, S14).

use std::collections::HashMap;

use super::super::delivery::{Line, Next, Waiting};
use super::super::endpoint::Endpoint;
use super::super::health::Health;
use super::super::ids::{DeliveryNo, EndpointNo};
use super::super::judge::{self, Ended, Verdict};
use super::super::time::Timestamp;
use super::{Dispatcher, Effect, Reload, Versions, Window};

/// Everything that the results of an endpoint change, to be written in one transaction, and only if both versions still
/// hold.
#[derive(Clone, Debug)]
pub struct Batch {
    pub endpoint: EndpointNo,
    pub expected: Versions,
    pub results: Vec<(Ended, Verdict)>,
    /// Streaks and circuit after the last result.
    pub health: Health,
    /// When the actor is needed next; applies unless the store knows a delivery newer than `seen_through`.
    pub wake_at: Option<Timestamp>,
    pub seen_through: DeliveryNo,
    /// What is on the wire while a verdict in this batch disables the endpoint: those deliveries finish (S15).
    pub spared: Vec<Spared>,
}

impl Batch {
    /// The reason, if one of the results disables the endpoint.
    pub fn disable(&self) -> Option<&str> {
        self.results.iter().find_map(|(_, verdict)| verdict.disable.as_deref())
    }
}

/// A delivery on the wire while its endpoint is disabled: it finishes (S15).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spared {
    pub no: DeliveryNo,
    /// Where it stood when its attempt began: if its row has moved on since, it is on the wire no more.
    pub run: u32,
    pub attempts_total: u32,
}

impl Spared {
    pub(super) fn of(delivery: &Waiting) -> Spared {
        Spared { no: delivery.no, run: delivery.run, attempts_total: delivery.attempts_total }
    }
}

/// The endpoint as it stands in the store.
#[derive(Debug)]
pub struct Reloaded {
    pub endpoint: Endpoint,
    pub health: Health,
    pub health_version: i64,
    /// Run and attempts ever made of the deliveries asked for; those deleted are missing.
    pub positions: HashMap<DeliveryNo, (u32, u32)>,
}

impl Dispatcher {
    /// The next batch, if there is one and none is being written.
    pub(super) fn next_batch(&mut self, now: Timestamp) -> Option<Effect> {
        if self.unrecorded.is_empty() || self.recording.is_some() || !self.is_settled() {
            return None;
        }
        if self.store_fault.until(now).is_some() {
            return None;
        }
        let results: Vec<(Ended, Verdict)> = self.unrecorded.drain(..).collect();
        self.recording = Some(results.clone());
        let disables = results.iter().any(|(_, verdict)| verdict.disable.is_some());
        Some(Effect::Record(Batch {
            endpoint: self.endpoint.no,
            expected: self.committed,
            results,
            health: self.health,
            wake_at: self.wake_when_recorded(now),
            seen_through: self.seen_through.max(self.read_through),
            spared: if disables {
                self.in_flight.values().map(|start| Spared::of(&start.delivery)).collect()
            } else {
                Vec::new()
            },
        }))
    }

    /// When the actor is needed once the batch at hand is committed, should the process die right then. What is on the
    /// wire, in a person's hands or not read yet must be found again, so it counts as needed now; and the next process
    /// knows nothing of our back-off.
    fn wake_when_recorded(&self, now: Timestamp) -> Option<Timestamp> {
        if !self.endpoint.is_enabled() {
            return None;
        }
        let in_hand = !self.in_flight.is_empty() || !self.locked.is_empty() || !self.given_back.is_empty();
        let unread = |window: &Window| window.is_empty() && window.has_more();
        if in_hand || self.stale || self.loading.is_some() || unread(&self.first) || unread(&self.second) {
            return Some(now);
        }
        let retries = self.recording.iter().flatten().filter_map(|(_, verdict)| match verdict.next {
            Next::Retry { due_at, .. } => Some(self.hold_until(due_at)),
            _ => None,
        });
        retries.chain(self.next_due()).min()
    }

    /// The batch is committed. `skipped`: some of its results no longer belonged to their rows and were left out.
    /// Returns the results.
    pub fn recorded(&mut self, skipped: bool) -> Vec<(Ended, Verdict)> {
        let Some(results) = self.recording.take() else { return Vec::new() };
        self.store_fault.succeeded();
        self.refused = false;
        let disabled = results.iter().any(|(_, verdict)| verdict.disable.is_some());
        self.committed.health += 1;
        self.committed.endpoint += i64::from(disabled);
        self.stale |= skipped;
        for (ended, verdict) in &results {
            self.touch(ended.delivery.no);
            if let Next::Retry { due_at, .. } = verdict.next {
                self.admit(after_failure(&ended.delivery, due_at, verdict.probed_at));
            }
        }
        results
    }

    /// The store did not take the batch, or it is not known whether it did. Nothing starts until it has (S1).
    pub fn refused(&mut self, now: Timestamp) {
        self.store_fault.failed(now);
        self.refused = true;
        self.put_back();
        self.changed();
    }

    /// The endpoint was changed since the batch was judged: read it and judge the same results again.
    pub fn outdated(&mut self) {
        self.put_back();
        self.changed();
    }

    fn put_back(&mut self) {
        for result in self.recording.take().into_iter().flatten().rev() {
            self.unrecorded.push_front(result);
        }
    }

    /// What [`Effect::Reload`] asked for; `None` if the endpoint is deleted.
    pub fn reloaded(&mut self, reloaded: Option<Reloaded>) {
        if self.reload == Reload::AskedAgain {
            self.reload = Reload::Wanted;
            return;
        }
        self.reload = Reload::No;
        let Some(reloaded) = reloaded else {
            self.gone = true;
            self.first.retain(|_| false);
            self.second.retain(|_| false);
            self.unrecorded.clear();
            self.given_back.clear();
            self.recording = None;
            return;
        };
        let Reloaded { endpoint, health, health_version, positions } = reloaded;
        let before =
            std::mem::replace(&mut self.committed, Versions { endpoint: endpoint.version, health: health_version });
        // Rows may have been read under the old state and left out for it, or changed behind the windows' back.
        self.stale |= before != self.committed;
        (self.endpoint, self.health) = (endpoint, health);
        for (ended, _) in std::mem::take(&mut self.unrecorded) {
            let delivery = &ended.delivery;
            if positions.get(&delivery.no) != Some(&(delivery.run, delivery.attempts_total)) {
                // Already recorded (the store took the batch after all), or no longer there.
                self.stale = true;
                continue;
            }
            let verdict = judge::judge(&ended, &mut self.endpoint, &mut self.health);
            self.unrecorded.push_back((ended, verdict));
        }
        // That it can be read does not mean that it takes what it refused.
        self.refused &= !self.unrecorded.is_empty();
        if !self.refused {
            self.store_fault.succeeded();
        }
        self.forget_cut();
        for delivery in std::mem::take(&mut self.given_back) {
            self.give_back(delivery);
        }
    }

    /// The endpoint could not be read; it is asked for again after a while.
    pub fn reload_failed(&mut self, now: Timestamp) {
        self.store_fault.failed(now);
        self.reload = Reload::Wanted;
    }
}

/// The delivery as it waits after a failed attempt.
fn after_failure(delivery: &Waiting, due_at: Timestamp, probed_at: Option<Timestamp>) -> Waiting {
    Waiting {
        line: Line::Retry,
        order_at: due_at,
        due_at,
        attempt: delivery.attempt + 1,
        attempts_total: delivery.attempts_total + 1,
        probed_at: probed_at.or(delivery.probed_at),
        content: None,
        ..delivery.clone()
    }
}
