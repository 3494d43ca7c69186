//! Which attempts start now, and when it is worth asking again (S3, S17, S19).

use super::super::attempt::Trigger;
use super::super::delivery::{Line, Place, Waiting};
use super::super::health::Circuit;
use super::super::time::Timestamp;
use super::{Dispatcher, Effect, Loading, Reload, Rest, Room, Start};

impl Dispatcher {
    /// What there is to do now. Call it after everything that came in, and when [`wake_at`](Self::wake_at) has come.
    pub fn pump(&mut self, now: Timestamp, room: Room) -> Vec<Effect> {
        let mut effects = Vec::new();
        if self.gone {
            return effects;
        }
        let bare = self.is_bare();
        if bare && !self.bare {
            self.first.forget_contents();
            self.second.forget_contents();
        }
        self.bare = bare;
        if !self.released.is_empty() && self.store_fault.until(now).is_none() {
            self.releasing += 1;
            effects.push(Effect::Release(std::mem::take(&mut self.released)));
        }
        self.start_what_may(now, room, &mut effects);
        effects.extend(self.next_batch(now));
        effects.extend(self.next_read(now));
        effects.extend(self.next_rest(now));
        effects
    }

    /// After a poke that found nothing to do: whatever the row's instant was written for is over, and left alone it would
    /// bring the actor back for ever.
    fn next_rest(&mut self, now: Timestamp) -> Option<Effect> {
        if !std::mem::take(&mut self.poked) || !self.is_idle() {
            return None;
        }
        let wake_at = self.next_due();
        let soon = now + self.limits.real_second.scaled(60.0);
        wake_at.is_none_or(|at| at > soon).then(|| {
            let (endpoint, expected) = (self.endpoint.no, self.committed);
            Effect::Rest(Rest { endpoint, expected, wake_at, seen_through: self.seen_through.max(self.read_through) })
        })
    }

    /// When to call [`pump`](Self::pump) next if nothing comes in before; `None`: no need. What could start already and
    /// did not waits for something that will come in (a slot, a permission, a read), not for time.
    pub fn wake_at(&self, now: Timestamp) -> Option<Timestamp> {
        let wants_store = self.reload == Reload::Wanted
            || self.wants_load()
            || !self.unrecorded.is_empty()
            || !self.released.is_empty();
        let store = self.store_fault.until(now).filter(|_| wants_store);
        store.into_iter().chain(self.next_start(now).filter(|&at| at > now)).min()
    }

    /// When the next attempt may start by everything known here except slots and permissions; `None` if nothing waits.
    pub fn next_start(&self, now: Timestamp) -> Option<Timestamp> {
        let next = self.next_due()?;
        Some(self.local_fault.until(now).map_or(next, |until| until.max(next)))
    }

    /// Something is due and has a slot: whoever waits for room outside the endpoint waits for this.
    pub fn would_start(&self, now: Timestamp) -> bool {
        let slots = self.allowance.slots(self.endpoint.max_in_flight);
        self.in_flight.len() < slots && self.next_start(now).is_some_and(|at| at <= now)
    }

    /// No delivery that comes in now could start before this dispatcher is pumped for another reason: an attempt's end or a
    /// read, or its [`wake_at`](Self::wake_at), which is passed in.
    pub fn is_patient(&self, wake_at: Option<Timestamp>) -> bool {
        if !self.in_flight.is_empty() && self.in_flight.len() >= self.allowance.slots(self.endpoint.max_in_flight) {
            return true;
        }
        match self.health.circuit {
            Circuit::Open { opened_at, retry_at } => self.probes(opened_at) || wake_at.is_some_and(|at| at <= retry_at),
            Circuit::Closed => false,
        }
    }

    /// [`next_start`](Self::next_start) for whoever knows nothing of faults of ours.
    pub(super) fn next_due(&self) -> Option<Timestamp> {
        if !self.endpoint.is_enabled() || self.endpoint.paused || self.gone {
            return None;
        }
        let first = self.first.first().map(|waiting| self.hold_until(waiting.due_at));
        let second = self.second.first().map(|waiting| match waiting.line {
            Line::Single => waiting.due_at,
            _ => self.hold_until(waiting.due_at),
        });
        first.into_iter().chain(second).min()
    }

    /// The later of a due time and the circuit's hold.
    pub(super) fn hold_until(&self, due_at: Timestamp) -> Timestamp {
        self.health.circuit.retry_at().map_or(due_at, |retry_at| retry_at.max(due_at))
    }

    fn start_what_may(&mut self, now: Timestamp, room: Room, effects: &mut Vec<Effect>) {
        let blocked = !self.is_settled()
            || self.owed
            || self.let_go
            || self.loading.as_ref().is_some_and(|loading| loading.finds_let_go)
            || self.store_fault.until(now).is_some()
            || !self.endpoint.is_enabled()
            || self.endpoint.paused
            || self.local_fault.until(now).is_some()
            || self.unrecorded() >= self.limits.unrecorded;
        if blocked {
            return;
        }
        if let Circuit::Open { opened_at, retry_at } = self.health.circuit {
            if room.starts > 0 {
                effects.extend(self.probe(now, opened_at, retry_at, room));
            }
            return;
        }
        if room.rate.is_some_and(|until| until > now) {
            return;
        }
        let slots = self.allowance.slots(self.endpoint.max_in_flight);
        let free = slots.saturating_sub(self.in_flight.len()).min(room.starts);
        let mut barred = [false; 2];
        for turn in 0..free {
            // S3: with several free slots first attempts take the odd ones; a single one goes to whoever did not have
            // the last single one.
            let first_turn = if free == 1 { !self.after_first } else { turn % 2 == 0 };
            let place = loop {
                let Some((place, due_at)) = self.next_place(now, first_turn, barred) else {
                    return;
                };
                if self.permitted(place.line, due_at, effects) {
                    break place;
                }
                barred[usize::from(place.line != Line::First)] = true;
            };
            if free == 1 {
                self.after_first = place.line == Line::First;
            }
            let trigger = if place.line == Line::Single { Trigger::Manual } else { Trigger::Schedule };
            effects.extend(self.start(place, trigger, None));
        }
    }

    /// The head of one line, or of the other if that one has nothing due or is barred; and when it was due.
    fn next_place(&self, now: Timestamp, first_turn: bool, barred: [bool; 2]) -> Option<(Place, Timestamp)> {
        let due = |head: Option<&Waiting>| head.filter(|head| head.due_at <= now).map(|it| (it.place(), it.due_at));
        let first = due(self.first.first()).filter(|_| !barred[0]);
        let second = due(self.second.first()).filter(|_| !barred[1]);
        if first_turn { first.or(second) } else { second.or(first) }
    }

    /// The outage that began then has its probe on the wire.
    fn probes(&self, opened_at: Timestamp) -> bool {
        self.in_flight.values().any(|start| start.probe_of == Some(opened_at))
    }

    /// The one attempt that an open circuit lets through, if it is time and none is on the wire (S17).
    fn probe(&mut self, now: Timestamp, opened_at: Timestamp, retry_at: Timestamp, room: Room) -> Option<Effect> {
        if self.probes(opened_at) {
            return None;
        }
        let head = self.second.first();
        if let Some(single) = head.filter(|head| head.line == Line::Single).map(Waiting::place) {
            return self.start(single, Trigger::Manual, Some(opened_at));
        }
        if now < retry_at || room.rate.is_some_and(|until| until > now) {
            return None;
        }
        // A delivery that failed as a probe of this outage goes behind all that did not.
        let turn = |waiting: &&Waiting| (waiting.probed_at.filter(|&at| at >= opened_at), waiting.place());
        let due = |waiting: &&Waiting| waiting.due_at <= now;
        let first = self.first.iter().filter(due).min_by_key(turn);
        let chosen = first.or_else(|| self.second.iter().filter(due).min_by_key(turn)).map(Waiting::place)?;
        self.start(chosen, Trigger::Probe, Some(opened_at))
    }

    /// Whether an attempt may start as far as pacing goes: what was overdue when the process started needs permission.
    fn permitted(&mut self, line: Line, due_at: Timestamp, effects: &mut Vec<Effect>) -> bool {
        if line == Line::Single || due_at >= self.limits.paced_before {
            return true;
        }
        if self.permits > 0 {
            self.permits -= 1;
            return true;
        }
        if !self.pacing {
            self.pacing = true;
            let waiting = self.first.len() + self.second.len();
            effects.push(Effect::Pace(waiting.min(usize::from(self.endpoint.max_in_flight))));
        }
        false
    }

    fn start(&mut self, place: Place, trigger: Trigger, probe_of: Option<Timestamp>) -> Option<Effect> {
        let window = if place.line == Line::First { &mut self.first } else { &mut self.second };
        let delivery = window.remove(&place)?;
        self.touch(delivery.no);
        let start = Start { delivery, trigger, probe_of, policy: self.endpoint.policy.clone() };
        self.in_flight.insert(start.delivery.no, start.clone());
        Some(Effect::Start(start))
    }

    fn wants_load(&self) -> bool {
        let more = self.stale || self.first.is_low() || self.second.is_low();
        more && self.endpoint.is_enabled() && self.loading.is_none() && self.is_settled()
    }

    /// What has to be read, if the store is to be asked now: state before rows.
    fn next_read(&mut self, now: Timestamp) -> Option<Effect> {
        if self.store_fault.until(now).is_some() {
            return None;
        }
        // Results being written either commit or come back; the state is read when that is known.
        if self.reload == Reload::Wanted && self.frozen == 0 && self.recording.is_none() {
            self.reload = Reload::Asked;
            // Attempts on the wire too: they may be over before the answer is here.
            return Some(Effect::Reload { positions: self.on_the_wire() });
        }
        if !self.wants_load() {
            return None;
        }
        let busy = self.busy();
        let limit = self.limits.window + busy.len();
        self.stale = false;
        let finds_let_go = std::mem::take(&mut self.let_go);
        self.loading = Some(Loading { touched: busy, late: Vec::new(), finds_let_go });
        Some(Effect::Load { limit })
    }
}
