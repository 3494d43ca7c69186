//! An attempt begins: may it, now, and is it this one's turn?

use std::collections::BTreeSet;

use posthaste::domain::delivery::{Line, State};
use posthaste::domain::endpoint::Status;
use posthaste::domain::ids::{DeliveryNo, EndpointNo};
use posthaste::domain::time::{Span, Timestamp};

use super::model::{Delivery, Endpoint, Model};
use crate::simulation::ledger::{Pages, Wire};

impl Model {
    pub fn begins(&mut self, pages: &Pages, index: usize) {
        let wire = &pages.wire[index];
        let (no, began) = (wire.delivery, wire.began);
        let what = format!("attempt {} of delivery {no} (endpoint {}) at {began}", wire.attempt, wire.endpoint);
        let delivery = self.deliveries.get(&no).unwrap_or_else(|| panic!("{what}: no such delivery"));
        let endpoint = &self.endpoints[&wire.endpoint];
        self.is_allowed(wire, delivery, endpoint, &what);
        let probes = self.circuit_lets_through(pages, wire, delivery, endpoint, &what);
        self.is_its_turn(pages, wire, delivery, endpoint, probes, &what);
        let hold = endpoint.circuit.map_or(Timestamp::MIN, |(_, retry_at)| retry_at);
        let due = if probes && delivery.line != Line::Single { delivery.due_at.max(hold) } else { delivery.due_at };
        let tick = self.tick();
        let needed = due.max(delivery.changed_at);
        if let Some(since) = endpoint.late.unexplained(needed, began, tick, || self.excuses(pages)) {
            panic!("{what}: due at {needed}, and nothing explains the delay from {since} on");
        }
        let opened_at = endpoint.circuit.map(|(opened_at, _)| opened_at);
        if self.is_overdue(delivery) && !probes {
            self.is_let_out_at_the_rate(began, &what);
        }
        let endpoint = &self.endpoints[&wire.endpoint];
        let setups = std::iter::once(&endpoint.setup).chain(&endpoint.old_setups);
        self.begun_under.insert(index, setups.map(|setup| setup.policy.clone()).collect());
        let endpoint = self.endpoint(wire.endpoint);
        endpoint.in_flight.insert(no, index);
        if probes && let Some(opened_at) = opened_at {
            endpoint.probe = Some((index, opened_at));
        }
        let (in_flight, max) = (endpoint.in_flight.len(), endpoint.setup.max_in_flight);
        endpoint.late.began(in_flight, max, began);
        self.whether_paced(wire.endpoint);
    }

    /// What was due before the process started is let out at a rate; a person's retry is not.
    fn is_overdue(&self, delivery: &Delivery) -> bool {
        delivery.due_at < self.life_began && delivery.line != Line::Single
    }

    /// No real second sees more overdue attempts begin than it may, but for the round that it begins in.
    fn is_let_out_at_the_rate(&mut self, began: Timestamp, what: &str) {
        let second = self.real(Span::SECOND);
        self.let_out.retain(|at| began.since(*at) < second);
        self.let_out.push(began);
        let limit = self.rate as usize + self.rate as usize / 50 + 1;
        assert!(self.let_out.len() <= limit, "{what}: more than {limit} overdue attempts within a second");
    }

    /// While something overdue waits its turn, it may hold others up too.
    pub fn whether_paced(&mut self, no: EndpointNo) {
        let endpoint = &self.endpoints[&no];
        let waits = |(no, delivery): (&DeliveryNo, &Delivery)| {
            let busy = endpoint.in_flight.contains_key(no) || endpoint.unrecorded.contains_key(no);
            delivery.state.waits() && !busy && self.is_overdue(delivery)
        };
        let paced = self.deliveries.iter().filter(|(_, delivery)| delivery.endpoint == no).any(waits);
        let now = self.now;
        self.endpoint(no).late.paced(paced, now);
    }

    /// Timers fire at the next whole millisecond of virtual time.
    pub fn tick(&self) -> Span {
        self.real(Span::MILLISECOND) + Span::from_micros(1)
    }

    /// States, due time, limits (S1, S2, S10–S12, S15, S19, S22).
    fn is_allowed(&self, wire: &Wire, delivery: &Delivery, endpoint: &Endpoint, what: &str) {
        let no = wire.delivery;
        assert_eq!((&delivery.event, delivery.endpoint), (&wire.event, wire.endpoint), "{what}: a mix-up");
        assert_eq!(self.bodies.get(&wire.event), Some(&wire.body), "{what}: S2, not the bytes that were accepted");
        assert!(delivery.state.waits(), "{what}: it is {} already", delivery.state);
        assert_eq!(wire.attempt, delivery.attempt + 1, "{what}: S12, not the next attempt of run {}", delivery.run);
        let draining = self.draining.is_some_and(|at| wire.began > at);
        assert!(!draining, "{what}: the process is shutting down");
        assert!(!endpoint.deleted, "{what}: S27, the endpoint is deleted");
        assert_eq!(endpoint.status, Status::Enabled, "{what}: S15, the endpoint is disabled");
        assert!(delivery.cut == endpoint.cut, "{what}: S15, a cut has taken it");
        assert!(!endpoint.in_flight.contains_key(&no), "{what}: it is on the wire already");
        assert!(!endpoint.unrecorded.contains_key(&no), "{what}: S1, its last result is not recorded yet");
        assert!(!delivery.held, "{what}: S12, a person's request is about to change it");
        assert!(wire.began >= delivery.due_at, "{what}: S10, due at {}", delivery.due_at);
        let setups = || std::iter::once(&endpoint.setup).chain(&endpoint.old_setups);
        assert!(setups().any(|setup| setup.url == wire.url), "{what}: S22, an old URL: {}", wire.url);
        let limit = setups().map(|setup| usize::from(setup.max_in_flight)).max().unwrap_or_default();
        assert!(endpoint.in_flight.len() < limit, "{what}: S19, {limit} are on the wire already");
    }

    /// The retries that stand first in line, as many as an actor is sure to hold: among these it looks for one that has
    /// not failed as a probe yet.
    fn in_view(&self, endpoint: EndpointNo) -> BTreeSet<DeliveryNo> {
        let retries = self.deliveries.iter().filter(|(_, delivery)| {
            delivery.endpoint == endpoint && delivery.state.waits() && delivery.line != Line::First
        });
        let places: BTreeSet<_> = retries.map(|(no, delivery)| delivery.place(*no)).collect();
        places.into_iter().take(self.window.div_ceil(4)).map(|place| place.2).collect()
    }

    /// S3: nothing that waits in the same line, and could have started too, comes before it.
    fn is_its_turn(
        &self,
        pages: &Pages,
        wire: &Wire,
        delivery: &Delivery,
        endpoint: &Endpoint,
        probes: bool,
        what: &str,
    ) {
        let began = wire.began;
        let opened_at = endpoint.circuit.map(|(opened_at, _)| opened_at);
        let place = |no: DeliveryNo, delivery: &Delivery| {
            let probed = delivery.probed_at.filter(|&at| probes && Some(at) >= opened_at);
            // S17: a single retry, then first attempts, then retries; among retries what failed as a probe comes last.
            let line = match (probes, delivery.line) {
                (true, Line::Single) => 0,
                (true, Line::First) => 1,
                (true, Line::Retry) => 2,
                (false, line) => line.code(),
            };
            (line, probed, delivery.place(no))
        };
        let mine = place(wire.delivery, delivery);
        let in_view = self.in_view(wire.endpoint);
        let first = delivery.line == Line::First;
        for (&no, other) in self.deliveries.iter().filter(|(_, other)| other.endpoint == wire.endpoint) {
            let same_line = probes || (other.line == Line::First) == first;
            let waits = matches!(other.state, State::Pending | State::Failed) && other.cut == endpoint.cut;
            let busy = endpoint.in_flight.contains_key(&no) || endpoint.unrecorded.contains_key(&no) || other.held;
            let due = other.due_at <= began && other.changed_at < began;
            if !(same_line && waits && !busy && due && place(no, other) < mine) {
                continue;
            }
            if probes && other.line == Line::Retry && !in_view.contains(&no) {
                continue;
            }
            // What the engine cannot have heard of yet, because the world was in its way, it cannot put in its place.
            let unheard = pages.faults.iter().any(|fault| fault.at <= began && fault.until >= other.changed_at);
            assert!(
                unheard,
                "{what}: S3, delivery {no} comes before it (at {} in line {:?})",
                other.order_at, other.line
            );
        }
    }
}
