//! The model: every endpoint and delivery as they must be after each step of the ledger.

use std::collections::{BTreeMap, BTreeSet};

use posthaste::domain::delivery::{DeadReason, Line, State};
use posthaste::domain::endpoint::Status;
use posthaste::domain::ids::{DeliveryNo, EndpointNo};
use posthaste::domain::notice::NoticeKind;
use posthaste::domain::policy::WhileDisabled;
use posthaste::domain::time::{Span, Timestamp};

use posthaste::engine::Settings;

use super::late::Lateness;
use crate::simulation::ledger::{Acceptance, Entry, Fault, Hold, Pages, Setup, What, Wire};

/// What must hold of one endpoint.
pub struct Endpoint {
    pub id: String,
    pub setup: Setup,
    /// Edited, and whoever did it is not answered yet: attempts may still start by these (S26).
    pub old_setups: Vec<Setup>,
    pub status: Status,
    pub cut: u32,
    pub counted_from: Timestamp,
    pub failures: u32,
    pub since: Option<Timestamp>,
    pub exhausted: u32,
    pub alerted: bool,
    /// `opened_at`, `retry_at`.
    pub circuit: Option<(Timestamp, Timestamp)>,
    pub deleted: bool,
    /// On the wire, and since when.
    pub in_flight: BTreeMap<DeliveryNo, usize>,
    /// Over, and not yet recorded.
    pub unrecorded: BTreeMap<DeliveryNo, usize>,
    /// The attempt that is, or last was, the probe, and of which outage.
    pub probe: Option<(usize, Timestamp)>,
    /// The last change by a person: until then attempts may have begun by another state than the one that is judged by.
    pub last_changed: Timestamp,
    pub notices: BTreeMap<NoticeKind, u32>,
    pub late: Lateness,
}

/// What must hold of one delivery.
pub struct Delivery {
    pub endpoint: EndpointNo,
    pub event: String,
    pub state: State,
    pub run: u32,
    pub attempt: u32,
    pub total: u32,
    pub line: Line,
    pub order_at: Timestamp,
    pub due_at: Timestamp,
    pub cut: u32,
    /// On the wire when a cut came.
    pub spared: bool,
    pub dead_reason: Option<DeadReason>,
    pub replayable_until: Option<Timestamp>,
    pub delivered_at: Option<Timestamp>,
    pub probed_at: Option<Timestamp>,
    /// Since when its row says what it says.
    pub changed_at: Timestamp,
    /// A person's request holds it.
    pub held: bool,
    /// Number, run, attempt, start, status of what was recorded.
    pub attempts: Vec<(u32, u32, u32, Timestamp, Option<u16>)>,
}

impl Delivery {
    pub fn place(&self, no: DeliveryNo) -> (Line, Timestamp, DeliveryNo) {
        (self.line, self.order_at, no)
    }
}

pub struct Model {
    pub scale: f64,
    pub now: Timestamp,
    /// The place in the ledger of the step at hand.
    pub seq: u64,
    pub life: u32,
    pub life_began: Timestamp,
    /// Overdue attempts per real second after a start, and when the last ones began.
    pub rate: u32,
    pub let_out: Vec<Timestamp>,
    /// Deliveries that an actor holds of each line.
    pub window: usize,
    /// Attempts that may be on the wire in the whole installation, and when that held attempts back.
    pub cap: usize,
    full_since: Option<Timestamp>,
    pub full: Vec<Fault>,
    pub draining: Option<Timestamp>,
    pub endpoints: BTreeMap<EndpointNo, Endpoint>,
    pub deliveries: BTreeMap<DeliveryNo, Delivery>,
    pub bodies: BTreeMap<String, Vec<u8>>,
    /// Of the installation.
    pub told: BTreeMap<NoticeKind, u32>,
    seen: (usize, usize),
    /// Attempts begun and not over, in the order in which they began.
    open: BTreeSet<usize>,
}

/// Steps of the ledger.
enum Step<'a> {
    Begins(usize),
    Ends(usize),
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
            Step::Entry(entry) => write!(out, "{} life {}: {:?}", entry.at, entry.life, entry.what),
        }
    }
}

impl Model {
    pub fn new(scale: f64) -> Model {
        Model {
            scale,
            now: Timestamp::MIN,
            seq: 0,
            life: 0,
            life_began: Timestamp::MIN,
            rate: 0,
            let_out: Vec::new(),
            window: 0,
            cap: 0,
            full_since: None,
            full: Vec::new(),
            draining: None,
            endpoints: BTreeMap::new(),
            deliveries: BTreeMap::new(),
            bodies: BTreeMap::new(),
            told: BTreeMap::new(),
            seen: (0, 0),
            open: BTreeSet::new(),
        }
    }

    /// The engine's length of a real span.
    pub fn real(&self, span: Span) -> Span {
        span.scaled(self.scale)
    }

    pub fn endpoint(&mut self, no: EndpointNo) -> &mut Endpoint {
        self.endpoints.get_mut(&no).expect("an endpoint that was created")
    }

    /// Takes in what the ledger says since the last time.
    pub fn advance(&mut self, pages: &Pages) {
        let mut steps: Vec<(u64, Step)> = Vec::new();
        for index in self.seen.0..pages.wire.len() {
            steps.push((pages.wire[index].seq, Step::Begins(index)));
        }
        for index in self.open.iter().copied().chain(self.seen.0..pages.wire.len()) {
            steps.extend(pages.wire[index].ended.as_ref().map(|end| (end.seq, Step::Ends(index))));
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
            posthaste::domain::attempt::Finding::Local { .. } => {
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
                    let endpoint = delivery.endpoint;
                    self.endpoint(endpoint).late.hold(*begins, at);
                }
            }
            What::Holding { hold: Hold::Endpoint(no), begins } => self.endpoint(*no).late.hold(*begins, at),
        }
    }

    /// S15, S26: exactly one delivery for each endpoint, dead at once or none at all while it is disabled.
    fn accepted(&mut self, event: &Acceptance, at: Timestamp) {
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
    fn disabled(&mut self, no: EndpointNo, now: Timestamp) {
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
    fn cut_off(&mut self, no: DeliveryNo, at: Timestamp) {
        let delivery = self.deliveries.get_mut(&no).expect("a delivery");
        let kept = self.endpoints[&delivery.endpoint].setup.policy.dead_letters;
        delivery.spared = false;
        delivery.die(DeadReason::EndpointDisabled, at, kept);
    }

    /// S16.
    fn enabled(&mut self, no: EndpointNo, now: Timestamp, at: Timestamp) {
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

    fn requeued(&mut self, no: EndpointNo, count: u64, now: Timestamp, spared: &[DeliveryNo], at: Timestamp) {
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
    fn put_back(&mut self, no: DeliveryNo, line: Line, now: Timestamp, at: Timestamp) {
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

impl Endpoint {
    fn new(id: String, setup: Setup, at: Timestamp) -> Endpoint {
        Endpoint {
            id,
            setup,
            old_setups: Vec::new(),
            status: Status::Enabled,
            cut: 0,
            counted_from: at,
            failures: 0,
            since: None,
            exhausted: 0,
            alerted: false,
            circuit: None,
            deleted: false,
            in_flight: BTreeMap::new(),
            unrecorded: BTreeMap::new(),
            probe: None,
            last_changed: at,
            notices: BTreeMap::new(),
            late: Lateness::default(),
        }
    }

    pub fn clear_streaks(&mut self) {
        (self.failures, self.since, self.exhausted, self.alerted) = (0, None, 0, false);
    }

    pub fn close_circuit(&mut self, at: Timestamp) {
        if self.circuit.take().is_some() {
            *self.notices.entry(NoticeKind::CircuitClosed).or_default() += 1;
            self.late.opened(at);
        }
    }
}

impl Delivery {
    pub fn die(&mut self, reason: DeadReason, at: Timestamp, kept: Span) {
        (self.state, self.dead_reason, self.replayable_until) = (State::Dead, Some(reason), Some(at + kept));
    }
}
