//! S17: what begins while a circuit is open, and what began between the attempt that opened it and the commit that says
//! so.

use posthaste::domain::attempt::Finding;
use posthaste::domain::delivery::Line;
use posthaste::domain::ids::EndpointNo;
use posthaste::domain::time::Timestamp;

use super::model::{Delivery, Endpoint, Model};
use crate::simulation::ledger::{Pages, Wire, WireEnd};

impl Model {
    /// The attempts of an endpoint up to now that began after the place `seq` in the ledger, newest first; not those of
    /// the very instant `at` of that place, in which what is decided and what happens cannot be told apart, nor those
    /// that began under another state, before a person changed it.
    pub fn begun_since<'a>(
        &'a self,
        pages: &'a Pages,
        no: EndpointNo,
        seq: u64,
        at: Timestamp,
    ) -> impl Iterator<Item = (usize, &'a Wire)> {
        let endpoint = &self.endpoints[&no];
        let same_state = endpoint.old_setups.is_empty();
        let at = at.max(endpoint.last_changed);
        let up_to_now = pages.wire.iter().enumerate().rev().skip_while(|(_, wire)| wire.seq > self.seq);
        up_to_now
            .take_while(move |(_, wire)| wire.seq > seq)
            .filter(move |(_, wire)| same_state && wire.endpoint == no && wire.began > at)
    }

    /// The result of the attempt `opener` has opened the circuit, which it did when it ended. Since then it has held
    /// everything but one probe at a time, unless a success that is not committed yet has closed it.
    pub fn circuit_opened(&mut self, pages: &Pages, no: EndpointNo, opener: usize) {
        let endpoint = &self.endpoints[&no];
        let (opened_at, mut retry_at) = endpoint.circuit.expect("an open circuit");
        let opened = ended(pages, opener).expect("an attempt that ended").seq;
        let mut probe: Option<usize> = None;
        let mut begun: Vec<_> = self.begun_since(pages, no, opened, opened_at).collect();
        begun.reverse();
        for (index, wire) in begun {
            if closes(endpoint, pages, opened..wire.seq) {
                break;
            }
            let what = format!("attempt {} of delivery {} at {}", wire.attempt, wire.delivery, wire.began);
            if let Some(probe) = probe {
                let over = ended(pages, probe).filter(|end| end.seq < wire.seq);
                let over = over.unwrap_or_else(|| panic!("{what}: S17, a probe was on the wire already"));
                retry_at = cooled_down(endpoint, over).unwrap_or(retry_at);
            }
            let single = self.deliveries.get(&wire.delivery).is_some_and(|delivery| delivery.line == Line::Single);
            let allowed = single || wire.began >= retry_at;
            assert!(allowed, "{what}: S17, an attempt began while the circuit was open until {retry_at}");
            probe = Some(index);
        }
        if let Some(probe) = probe {
            self.endpoint(no).probe = Some((probe, opened_at));
        }
    }

    /// An attempt begins. Answers whether it is the open circuit's probe.
    pub fn circuit_lets_through(
        &self,
        pages: &Pages,
        wire: &Wire,
        delivery: &Delivery,
        endpoint: &Endpoint,
        what: &str,
    ) -> bool {
        let Some((opened_at, mut retry_at)) = endpoint.circuit else { return false };
        if closes(endpoint, pages, 0..wire.seq) {
            return false;
        }
        if let Some((probe, _)) = endpoint.probe.filter(|probe| probe.1 == opened_at) {
            let over = !endpoint.in_flight.values().any(|&index| index == probe);
            assert!(over, "{what}: S17, a probe is on the wire already");
            if endpoint.unrecorded.values().any(|&index| index == probe) {
                retry_at = ended(pages, probe).and_then(|end| cooled_down(endpoint, end)).unwrap_or(retry_at);
            }
        }
        let single = delivery.line == Line::Single;
        assert!(single || wire.began >= retry_at, "{what}: S17, the circuit is open until {retry_at}");
        true
    }
}

fn ended(pages: &Pages, index: usize) -> Option<&WireEnd> {
    pages.wire[index].ended.as_ref()
}

/// Whether a success that ended within these places of the ledger, and is not committed yet, has closed the circuit.
fn closes(endpoint: &Endpoint, pages: &Pages, within: std::ops::Range<u64>) -> bool {
    endpoint.unrecorded.values().any(|&index| {
        let end = ended(pages, index).filter(|end| within.contains(&end.seq));
        end.is_some_and(|end| end.finding.is_success()) && pages.wire[index].began >= endpoint.counted_from
    })
}

/// Until when a probe that ended like this has the circuit hold everything again; `None` if it says nothing.
fn cooled_down(endpoint: &Endpoint, probe: &WireEnd) -> Option<Timestamp> {
    let says_nothing = matches!(probe.finding, Finding::Local { .. }) || probe.finding.is_success();
    let breaker = endpoint.setup.policy.circuit_breaker.filter(|_| !says_nothing)?;
    Some(probe.at + breaker.cooldown)
}
