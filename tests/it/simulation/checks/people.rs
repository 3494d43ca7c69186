//! What callers and people change, and what that must mean: events accepted, endpoints disabled and enabled, deliveries put
//! back.

use posthaste::domain::delivery::{DeadReason, Line, State};
use posthaste::domain::endpoint::Status;
use posthaste::domain::ids::{DeliveryNo, EndpointNo};
use posthaste::domain::notice::NoticeKind;
use posthaste::domain::policy::WhileDisabled;
use posthaste::domain::time::Timestamp;

use super::model::{Delivery, Model};
use crate::simulation::ledger::Acceptance;

impl Model {
    /// S15, S26: exactly one delivery for each endpoint, dead at once or none at all while it is disabled.
    pub fn accepted(&mut self, event: &Acceptance, at: Timestamp) {
        let clash = self.bodies.insert(event.event.clone(), event.body.clone());
        assert!(clash.is_none(), "{} was accepted twice", event.event);
        let mut given = event.deliveries.iter();
        for (no, endpoint) in self.endpoints.iter_mut().filter(|(_, endpoint)| !endpoint.deleted) {
            let dead = endpoint.status != Status::Enabled;
            if dead && endpoint.setup.policy.while_disabled == WhileDisabled::Skip {
                continue;
            }
            let Some((id, delivery)) = given.next() else { panic!("{} has no delivery to {no}", event.event) };
            assert_eq!(*id, endpoint.id, "{}: its deliveries are not those of the subscribers", event.event);
            let delivery_of = Delivery {
                endpoint: *no,
                event: event.event.clone(),
                state: if dead { State::Dead } else { State::Pending },
                run: 1,
                attempt: 0,
                total: 0,
                line: Line::First,
                order_at: event.created_at.min(event.received_at),
                due_at: event.received_at,
                cut: endpoint.cut,
                spared: false,
                dead_reason: dead.then_some(DeadReason::EndpointDisabled),
                replayable_until: dead.then(|| event.received_at + endpoint.setup.policy.dead_letters),
                delivered_at: None,
                probed_at: None,
                changed_at: at,
                held: false,
                attempts: Vec::new(),
            };
            let before = self.deliveries.insert(*delivery, delivery_of);
            assert!(before.is_none(), "the number {delivery} was given twice");
        }
        assert!(given.next().is_none(), "{} has a delivery too many", event.event);
    }

    /// S15: a cut takes everything that waits, but for what is on the wire.
    pub fn disabled(&mut self, no: EndpointNo, now: Timestamp) {
        let at = self.now;
        let endpoint = self.endpoint(no);
        endpoint.last_changed = at;
        if endpoint.status == Status::Enabled {
            endpoint.status = Status::Disabled;
            endpoint.cut += 1;
            self.cut(no, now);
        }
    }

    pub fn cut(&mut self, no: EndpointNo, at: Timestamp) {
        let now = self.now;
        let endpoint = &mut self.endpoints.get_mut(&no).expect("an endpoint");
        endpoint.late.shut(now);
        let (cut, kept) = (endpoint.cut, endpoint.setup.policy.dead_letters);
        for (no, delivery) in self.deliveries.iter_mut().filter(|(_, delivery)| delivery.endpoint == no) {
            if !delivery.state.waits() || delivery.cut >= cut {
                continue;
            }
            if endpoint.in_flight.contains_key(no) || endpoint.unrecorded.contains_key(no) {
                delivery.spared = true;
            } else if !delivery.spared {
                delivery.die(DeadReason::EndpointDisabled, at, kept);
                delivery.changed_at = now;
            }
        }
    }

    /// A spared delivery of which no result comes: the cut takes it after all.
    pub fn cut_off(&mut self, no: DeliveryNo, at: Timestamp) {
        let delivery = self.deliveries.get_mut(&no).expect("a delivery");
        let kept = self.endpoints[&delivery.endpoint].setup.policy.dead_letters;
        delivery.spared = false;
        delivery.die(DeadReason::EndpointDisabled, at, kept);
    }

    /// S16.
    pub fn enabled(&mut self, no: EndpointNo, now: Timestamp, at: Timestamp) {
        let endpoint = self.endpoint(no);
        if endpoint.status != Status::Enabled {
            *endpoint.notices.entry(NoticeKind::Enabled).or_default() += 1;
            endpoint.late.opened(at);
        }
        endpoint.status = Status::Enabled;
        endpoint.counted_from = now;
        endpoint.last_changed = at;
        endpoint.clear_streaks();
        endpoint.close_circuit(at);
    }

    pub fn requeued(&mut self, no: EndpointNo, count: u64, now: Timestamp, spared: &[DeliveryNo], at: Timestamp) {
        let dead = |(_, delivery): &(&DeliveryNo, &Delivery)| {
            let replayable = delivery.replayable_until.is_some_and(|until| until > now);
            delivery.endpoint == no && delivery.state == State::Dead && replayable
        };
        let meant: Vec<DeliveryNo> = self.deliveries.iter().filter(dead).map(|(no, _)| *no).collect();
        let meant: Vec<DeliveryNo> = meant.into_iter().filter(|no| !spared.contains(no)).collect();
        assert_eq!(meant.len() as u64, count, "a bulk requeue of endpoint {no} took another number of dead letters");
        meant.into_iter().for_each(|no| self.put_back(no, Line::Retry, now, at));
    }

    /// S12.
    pub fn put_back(&mut self, no: DeliveryNo, line: Line, now: Timestamp, at: Timestamp) {
        let delivery = self.deliveries.get_mut(&no).expect("a delivery");
        let endpoint = &self.endpoints[&delivery.endpoint];
        assert_eq!(endpoint.status, Status::Enabled, "delivery {no} was put back while its endpoint was disabled");
        let busy = endpoint.in_flight.contains_key(&no) || endpoint.unrecorded.contains_key(&no);
        assert!(!busy, "delivery {no} was put back while an attempt of it was on the wire");
        if delivery.state == State::Dead {
            let until = delivery.replayable_until.expect("dead, so with an end");
            assert!(until > now, "delivery {no} was put back after its retention ended at {until}");
        }
        if delivery.state != State::Pending {
            (delivery.run, delivery.attempt, delivery.state) = (delivery.run + 1, 0, State::Pending);
            (delivery.cut, delivery.probed_at) = (endpoint.cut, None);
            (delivery.dead_reason, delivery.replayable_until) = (None, None);
        }
        (delivery.line, delivery.order_at, delivery.due_at) = (line, now, now);
        delivery.changed_at = at;
    }
}
