//! How a person's change and an attempt are kept apart: locks on deliveries, freezes of the endpoint (S12, S15, S26).

use super::super::delivery::Waiting;
use super::super::ids::DeliveryNo;
use super::{Dispatcher, OnTheWire, Reload, Spared};

impl Dispatcher {
    /// A person's request is about to change this delivery: no attempt of it starts until [`unlock`](Self::unlock).
    pub fn lock(&mut self, no: DeliveryNo) -> Result<(), OnTheWire> {
        if self.is_on_the_wire(no) || !self.locked.insert(no) {
            return Err(OnTheWire);
        }
        for window in [&mut self.first, &mut self.second] {
            if let Some(place) = window.find(no) {
                window.remove(&place);
            }
        }
        if let Some(loading) = &mut self.loading {
            loading.late.retain(|waiting| waiting.no != no);
        }
        self.touch(no);
        Ok(())
    }

    /// The request is through: the delivery as it waits now, or `None` if that is not known (it is read again).
    pub fn unlock(&mut self, no: DeliveryNo, delivery: Option<Waiting>) {
        self.locked.remove(&no);
        if no > self.seen_through.max(self.read_through) {
            self.unhinted.insert(no);
        }
        match delivery {
            Some(delivery) => self.admit(delivery),
            None => (self.stale, self.let_go) = (true, true),
        }
    }

    /// A disable or delete is about to be committed: nothing starts until [`thaw`](Self::thaw). Returns what is on the
    /// wire: those deliveries finish (S15).
    pub fn freeze(&mut self) -> Vec<Spared> {
        self.frozen += 1;
        let judged = self.recording.iter().flatten().chain(&self.unrecorded).map(|(ended, _)| &ended.delivery);
        self.in_flight.values().map(|start| &start.delivery).chain(judged).map(Spared::of).collect()
    }

    /// The end of a [`freeze`](Self::freeze), whatever became of the change.
    pub fn thaw(&mut self) {
        self.frozen = self.frozen.saturating_sub(1);
        self.changed();
    }

    /// The endpoint was (or may have been) changed: nothing starts under the old state any more (S26).
    pub fn changed(&mut self) {
        self.reload = match self.reload {
            Reload::Asked | Reload::AskedAgain => Reload::AskedAgain,
            _ => Reload::Wanted,
        };
    }
}
