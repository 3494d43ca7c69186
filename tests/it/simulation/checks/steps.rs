//! The ledger, step by step: what began, what ended, what was committed, and the beginning and end of each life.

use posthaste::domain::attempt::Finding;
use posthaste::domain::delivery::Line;
use posthaste::domain::ids::{DeliveryNo, EndpointNo};
use posthaste::domain::time::{Span, Timestamp};
use posthaste::engine::Settings;

use super::model::{Endpoint, Model};
use crate::simulation::ledger::{Entry, Fault, Hold, Pages, What, Wire};

/// Steps of the ledger.
enum Step<'a> {
    Begins(usize),
    Ends(usize),
    /// Dropped before its end.
    CutOff(usize, Timestamp),
    Entry(&'a Entry),
}

/// A step, for whoever looks into a failure.
struct Shown<'a>(&'a Step<'a>, &'a Pages);

impl std::fmt::Debug for Shown<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let wire = |index: &usize| &self.1.wire[*index];
        match self.0 {
            Step::Begins(index) => {
                let Wire { life, endpoint, delivery, attempt, began, .. } = wire(index);
                write!(out, "{began} life {life}: {delivery} to {endpoint}, attempt {attempt} begins")
            }
            Step::Ends(index) => {
                let (wire, end) = (wire(index), wire(index).ended.as_ref().expect("an end"));
                let finding = end.finding.status().map_or_else(|| format!("{:?}", end.finding), |it| it.to_string());
                write!(out, "{} {} to {} ends: {finding}", end.at, wire.delivery, wire.endpoint)
            }
            Step::CutOff(index, at) => {
                write!(out, "{at} {} to {} is cut off", wire(index).delivery, wire(index).endpoint)
            }
            Step::Entry(entry) => write!(out, "{} life {}: {:?}", entry.at, entry.life, entry.what),
        }
    }
}

impl Model {
    /// Takes in what the ledger says since the last time.
    pub fn advance(&mut self, pages: &Pages) {
        let mut steps: Vec<(u64, Step)> = Vec::new();
        for index in self.seen.0..pages.wire.len() {
            steps.push((pages.wire[index].seq, Step::Begins(index)));
        }
        for index in self.open.iter().copied().chain(self.seen.0..pages.wire.len()) {
            steps.extend(pages.wire[index].ended.as_ref().map(|end| (end.seq, Step::Ends(index))));
            steps.extend(pages.wire[index].cut_off.map(|(seq, at)| (seq, Step::CutOff(index, at))));
        }
        steps.extend(pages.entries[self.seen.1..].iter().map(|entry| (entry.seq, Step::Entry(entry))));
        steps.sort_by_key(|step| step.0);
        self.seen = (pages.wire.len(), pages.entries.len());
        let trace = std::env::var_os("POSTHASTE_TRACE").is_some();
        for (seq, step) in steps {
            if trace {
                eprintln!("{seq} {step:?}", step = Shown(&step, pages));
            }
            self.seq = seq;
            match step {
                Step::Begins(index) => {
                    self.now = pages.wire[index].began;
                    self.open.insert(index);
                    assert!(self.open.len() <= self.cap, "more than {} attempts are on the wire", self.cap);
                    self.begins(pages, index);
                    self.whether_full();
                }
                Step::Ends(index) => {
                    self.open.remove(&index);
                    self.ends(&pages.wire[index], index);
                    self.whether_full();
                }
                Step::CutOff(index, at) => {
                    // If its endpoint is not deleted, it counts as on the wire there until the process dies.
                    self.now = at;
                    self.open.remove(&index);
                    self.whether_full();
                }
                Step::Entry(entry) => {
                    self.now = entry.at;
                    self.entry(pages, entry);
                }
            }
        }
    }

    /// The process died at `at`: what was on the wire is cut off; what was over and not recorded had a reason.
    pub fn life_ended(&mut self, pages: &Pages, at: Timestamp) {
        self.now = at;
        self.open.clear();
        self.begun_under.clear();
        self.whether_full();
        for endpoint in self.endpoints.values_mut() {
            let unrecorded = std::mem::take(&mut endpoint.unrecorded);
            let cut_off = std::mem::take(&mut endpoint.in_flight);
            for no in unrecorded.keys().chain(cut_off.keys()) {
                if let Some(delivery) = self.deliveries.get_mut(no) {
                    delivery.changed_at = at;
                }
            }
            for (no, index) in unrecorded {
                let ended = pages.wire[index].ended.as_ref().map_or(at, |end| end.at);
                let excused = ended == at || pages.faults.iter().any(|fault| fault.at <= at && fault.until >= ended);
                assert!(excused, "delivery {no}: the attempt that ended at {ended} was not recorded until {at}");
            }
            endpoint.probe = None;
            endpoint.old_setups.clear();
            endpoint.late.life_ended(at);
        }
        self.deliveries.values_mut().for_each(|delivery| delivery.held = false);
    }

    /// A new process: nothing is spared any more.
    pub fn life_begins(&mut self, life: u32, at: Timestamp, settings: &Settings) {
        (self.rate, self.window, self.cap) = (settings.restart_rate, settings.window, settings.max_attempts);
        self.let_out.clear();
        (self.life, self.life_began, self.now, self.draining) = (life, at, at, None);
        self.endpoints.values_mut().for_each(|endpoint| endpoint.late.life_begins(at));
        let spared: Vec<DeliveryNo> =
            self.deliveries.iter().filter(|(_, delivery)| delivery.spared).map(|(no, _)| *no).collect();
        spared.into_iter().for_each(|no| self.cut_off(no, at));
        let endpoints: Vec<EndpointNo> = self.endpoints.keys().copied().collect();
        endpoints.into_iter().for_each(|no| self.whether_paced(no));
    }

    /// S19: of the installation's cap, attempts older than a second may hold four fifths; their endpoints wait then.
    fn whether_full(&mut self) {
        let full = self.open.len() >= (self.cap * 4 / 5).max(1);
        match self.full_since {
            None if full => self.full_since = Some(self.now),
            Some(at) if !full => {
                self.full.push(Fault { at, until: self.now + self.real(Span::MILLISECOND) });
                self.full_since = None;
            }
            _ => {}
        }
    }

    /// What may have held any endpoint's attempts back until now.
    pub fn excuses(&self, pages: &Pages) -> Vec<Fault> {
        let present = self.full_since.map(|at| Fault { at, until: self.now });
        pages.faults.iter().chain(&self.full).copied().chain(present).collect()
    }

    fn ends(&mut self, wire: &Wire, index: usize) {
        let end = wire.ended.as_ref().expect("an attempt that ended");
        self.now = end.at;
        let (back_off, slack) = (self.real(Span::MINUTE), self.real(Span::from_millis(1)));
        let endpoint = self.endpoint(wire.endpoint);
        endpoint.in_flight.remove(&wire.delivery);
        if endpoint.deleted {
            return;
        }
        endpoint.late.ended(end, endpoint.in_flight.len(), endpoint.setup.max_in_flight, slack);
        match end.finding {
            Finding::Local { .. } => {
                endpoint.late.excuse(end.at, end.at + back_off);
                let delivery = self.deliveries.get_mut(&wire.delivery).expect("a delivery");
                delivery.changed_at = end.at;
                if delivery.spared {
                    self.cut_off(wire.delivery, end.at);
                }
            }
            _ => {
                endpoint.unrecorded.insert(wire.delivery, index);
            }
        }
    }

    fn entry(&mut self, pages: &Pages, entry: &Entry) {
        let at = entry.at;
        match &entry.what {
            What::Created { endpoint, id, setup } => {
                self.endpoints.insert(*endpoint, Endpoint::new(id.clone(), setup.clone(), at));
            }
            What::Accepted(acceptance) => self.accepted(acceptance, at),
            What::Recorded { endpoint, results, disabled, skipped } => {
                self.recorded(pages, *endpoint, results, *disabled, *skipped);
            }
            What::Disabled { endpoint, now } => self.disabled(*endpoint, *now),
            What::Enabled { endpoint, now } => self.enabled(*endpoint, *now, at),
            What::Edited { endpoint, setup, new_url, close_circuit, now } => {
                let endpoint = self.endpoint(*endpoint);
                let old = std::mem::replace(&mut endpoint.setup, setup.clone());
                endpoint.old_setups.push(old);
                endpoint.last_changed = at;
                endpoint.late.whether_full(endpoint.in_flight.len(), setup.max_in_flight, at, Span::ZERO);
                if *new_url {
                    endpoint.counted_from = *now;
                    endpoint.clear_streaks();
                }
                if *new_url || *close_circuit {
                    endpoint.close_circuit(at);
                }
            }
            What::EditAnswered { endpoint } => {
                let endpoint = self.endpoint(*endpoint);
                endpoint.old_setups.clear();
                endpoint.last_changed = at;
            }
            What::PutBack { delivery, now } => self.put_back(*delivery, Line::Single, *now, at),
            What::RequeuedAll { endpoint, count, now, spared } => self.requeued(*endpoint, *count, *now, spared, at),
            What::Told { kind } => *self.told.entry(*kind).or_default() += 1,
            What::Deleted { endpoint } => {
                let gone = self.endpoint(*endpoint);
                gone.deleted = true;
                // S27: late results are dropped.
                gone.unrecorded.clear();
                self.deliveries.retain(|_, delivery| delivery.endpoint != *endpoint);
            }
            What::Draining => {
                self.draining = Some(at);
                self.endpoints.values_mut().for_each(|endpoint| endpoint.late.draining(at));
            }
            What::Holding { hold: Hold::Delivery(no), begins } => {
                if let Some(delivery) = self.deliveries.get_mut(no) {
                    delivery.held = *begins;
                    if !begins {
                        // The engine hears of it in the same instant, which may be after it has started others.
                        delivery.changed_at = delivery.changed_at.max(at);
                    }
                    let endpoint = delivery.endpoint;
                    self.endpoint(endpoint).late.hold(*begins, at);
                }
            }
            What::Holding { hold: Hold::Endpoint(no), begins } => self.endpoint(*no).late.hold(*begins, at),
        }
    }
}
