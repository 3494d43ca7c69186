//! What the dispatcher hears of its rows: hints, pokes, reads. The rows are the truth; all else may be lost (the
//! database is the queue).

use super::super::delivery::{Place, Waiting};
use super::super::ids::DeliveryNo;
use super::super::time::Timestamp;
use super::{Dispatcher, Loaded, Loading};

impl Dispatcher {
    /// New deliveries, committed right after the endpoint's delivery `after`. Stale ones are ignored (the read covered
    /// them); a gap before them means that a hint was lost, and only reading helps.
    pub fn hint(&mut self, after: DeliveryNo, deliveries: Vec<Waiting>) {
        let known = self.seen_through.max(self.read_through);
        self.stale |= after > known;
        for delivery in deliveries {
            if delivery.no > known {
                self.seen_through = self.seen_through.max(delivery.no);
                // A person may have been quicker than the hint: what they hold, or have put back, is known better.
                if !self.locked.contains(&delivery.no) && !self.unhinted.contains(&delivery.no) {
                    self.admit(delivery);
                }
            }
        }
        let known = self.seen_through.max(self.read_through);
        self.unhinted.retain(|no| *no > known);
    }

    /// Of deliveries after `after`, up to `last`, no more is known: all stand behind [`full_at`](Self::full_at), so none would
    /// be held.
    pub fn passed(&mut self, after: DeliveryNo, last: DeliveryNo) {
        self.hint(after, Vec::new());
        self.seen_through = self.seen_through.max(last);
    }

    /// The place behind which new deliveries are not held but left to the next read; `None` while every one may matter.
    pub fn full_at(&self) -> Option<Place> {
        // What comes in during a read is kept apart for what it brings.
        self.first.known_to().filter(|_| self.loading.is_none() && self.unhinted.is_empty())
    }

    /// The row says that this actor is needed about now. Its newest delivery comes with that: if it was never heard of
    /// here, a hint was lost.
    pub fn poke(&mut self, newest: DeliveryNo) {
        self.poked = true;
        if newest > self.seen_through.max(self.read_through) {
            self.stale = true;
        }
    }

    /// Rows were changed behind the windows' back (a bulk requeue).
    pub fn refresh(&mut self) {
        self.stale = true;
    }

    /// What [`Effect::Load`] asked for.
    pub fn loaded(&mut self, rows: Loaded) {
        let Some(Loading { touched, late, .. }) = self.loading.take() else { return };
        self.read_through = self.read_through.max(rows.read_through);
        let busy = |row: &Waiting| touched.contains(&row.no) || row.cut != self.endpoint.cut;
        let fresh = |rows: Vec<Waiting>| rows.into_iter().filter(|row| !busy(row)).collect::<Vec<_>>();
        let newer = |waiting: &Waiting| waiting.no > rows.read_through || touched.contains(&waiting.no);
        // How far the read went, whatever of it is left out.
        let read_to = |rows: &[Waiting], complete: bool| rows.last().filter(|_| !complete).map(Waiting::place);
        let (first_to, second_to) =
            (read_to(&rows.first, rows.first_complete), read_to(&rows.second, rows.second_complete));
        self.first.replace(fresh(rows.first), first_to, newer);
        self.second.replace(fresh(rows.second), second_to, newer);
        late.into_iter().filter(newer).for_each(|waiting| self.admit(waiting));
    }

    /// The read failed; it is asked for again after a while.
    pub fn load_failed(&mut self, now: Timestamp) {
        self.let_go |= self.loading.take().is_some_and(|loading| loading.finds_let_go);
        self.stale = true;
        self.store_fault.failed(now);
    }
}
