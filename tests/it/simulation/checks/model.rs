//! The model: every endpoint and delivery as they must be after each step of the ledger.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use posthaste::domain::delivery::{DeadReason, Line, State};
use posthaste::domain::endpoint::Status;
use posthaste::domain::ids::{DeliveryNo, EndpointNo};
use posthaste::domain::notice::NoticeKind;
use posthaste::domain::policy::Policy;
use posthaste::domain::time::{Span, Timestamp};

use super::late::Lateness;
use crate::simulation::ledger::{Fault, Setup};

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
    pub full_since: Option<Timestamp>,
    pub full: Vec<Fault>,
    pub draining: Option<Timestamp>,
    pub endpoints: BTreeMap<EndpointNo, Endpoint>,
    pub deliveries: BTreeMap<DeliveryNo, Delivery>,
    pub bodies: BTreeMap<String, Vec<u8>>,
    /// Of the installation.
    pub told: BTreeMap<NoticeKind, u32>,
    pub seen: (usize, usize),
    /// Attempts begun and not over, in the order in which they began.
    pub open: BTreeSet<usize>,
    /// The policies under which an attempt that is not recorded may have begun.
    pub begun_under: BTreeMap<usize, Vec<Arc<Policy>>>,
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
            begun_under: BTreeMap::new(),
        }
    }

    /// The engine's length of a real span.
    pub fn real(&self, span: Span) -> Span {
        span.scaled(self.scale)
    }

    pub fn endpoint(&mut self, no: EndpointNo) -> &mut Endpoint {
        self.endpoints.get_mut(&no).expect("an endpoint that was created")
    }
}

impl Endpoint {
    pub fn new(id: String, setup: Setup, at: Timestamp) -> Endpoint {
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
