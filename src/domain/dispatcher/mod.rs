//! The endpoint's brain: what arrives + now → what to do. Pure: the actor carries the effects out and feeds results
//! back; `simulate` and the tests do the same with other hands.
//!
//! ```text
//!   hint, load ──▶ two windows (S3) ──start──▶ on the wire ──ended──▶ judged ──record──▶ committed
//!                    ▲    ▲                        │ local fault (S6)    │ refused or stale     │ retry
//!                    │    └────────────────────────┘                     └─▶ reload, judge again │
//!                    └───────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! Every message that comes in is told the time first and followed by [`Dispatcher::pump`], which says what to start,
//! write and read. Precedence of holds: disabled, paused, circuit, rate, slots.

mod arrivals;
mod effects;
#[cfg(test)]
mod memory;
#[cfg(test)]
mod patience;
mod people;
#[cfg(test)]
mod races;
mod record;
mod select;

use std::collections::{HashMap, HashSet, VecDeque};

pub use effects::{Effect, Loaded, Rest, Room, Start, Versions};
pub use record::{Batch, Reloaded, Spared};

use super::attempt::{Attempt, Finding};
use super::delivery::{Line, Waiting};
use super::endpoint::Endpoint;
use super::health::Health;
use super::ids::DeliveryNo;
use super::judge::{Ended, Verdict};

use super::pressure::{Allowance, BackOff};
use super::time::{Span, Timestamp};
use super::window::Window;

/// What a dispatcher is made with.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Deliveries held in memory of each of the two lines.
    pub window: usize,
    /// Judged attempts that may wait for their commit; beyond it nothing starts.
    pub unrecorded: usize,
    /// The engine's length of one real second (S25: back-off against our own faults is real time).
    pub real_second: Span,
    /// Deliveries due before this instant were overdue when the process started: they are paced.
    pub paced_before: Timestamp,
}

/// What came in while rows are being read.
#[derive(Debug, Default)]
struct Loading {
    /// Whose rows may be older than what is known here.
    touched: HashSet<DeliveryNo>,
    /// What found no place in the present windows; it may find one in those that are being read, which may be older.
    late: Vec<Waiting>,
    /// When this read is over, nothing that was let go is missing from the lines (see [`Dispatcher::let_go`]).
    finds_let_go: bool,
}

/// The delivery has an attempt on the wire, or one whose result is not yet committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OnTheWire;

/// See the module's text.
#[derive(Debug)]
pub struct Dispatcher {
    limits: Limits,
    /// What the store has, as far as is known here.
    committed: Versions,
    /// With every judged attempt counted in, committed or not: what is decided by.
    endpoint: Endpoint,
    health: Health,
    first: Window,
    second: Window,
    /// Attempts on the wire.
    in_flight: HashMap<DeliveryNo, Start>,
    /// Judged attempts that are not in `recording`.
    unrecorded: VecDeque<(Ended, Verdict)>,
    /// The batch being written.
    recording: Option<Vec<(Ended, Verdict)>>,
    /// Deliveries that a person's request is about to change.
    locked: HashSet<DeliveryNo>,
    /// Deliveries that came back from such a request before their hint, which is stale when it comes.
    unhinted: HashSet<DeliveryNo>,
    /// A person let a delivery go that is in no line here: until its row was read nothing starts, or what stands behind
    /// it would go first (S3).
    let_go: bool,
    /// While rows are being read.
    loading: Option<Loading>,
    /// Memory and store differ in a way that only reading mends.
    stale: bool,
    /// Nothing starts until endpoint and health were read again.
    reload: Reload,
    /// So many people's changes are being committed; nothing starts, and nothing is written or read, until their outcome
    /// is known.
    frozen: u32,
    /// The newest delivery known of, read or hinted.
    seen_through: DeliveryNo,
    /// The newest delivery covered by a read.
    read_through: DeliveryNo,
    allowance: Allowance,
    local_fault: BackOff,
    store_fault: BackOff,
    /// The store has refused results that are not committed yet: until they are, nothing starts (S1).
    owed: bool,
    /// Permissions left to start overdue attempts, and whether more were asked for.
    permits: usize,
    pacing: bool,
    /// The last single free slot went to a first attempt (S3: they alternate).
    after_first: bool,
    /// Taken out of their lines and not attempted, while the endpoint was being changed.
    given_back: Vec<Waiting>,
    /// To be given up to the cut, and how many times that is being written.
    released: Vec<DeliveryNo>,
    releasing: u32,
    /// The row says that this actor is needed about now.
    poked: bool,
    /// See [`is_bare`](Self::is_bare), as of the last pump.
    bare: bool,
    gone: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reload {
    No,
    Wanted,
    Asked,
    /// The endpoint was changed again while it was being read.
    AskedAgain,
}

impl Dispatcher {
    /// A dispatcher for an endpoint just read; its windows are read with the first [`pump`](Self::pump).
    pub fn new(endpoint: Endpoint, health: Health, health_version: i64, limits: Limits) -> Dispatcher {
        let second = limits.real_second;
        Dispatcher {
            limits,
            committed: Versions { endpoint: endpoint.version, health: health_version },
            endpoint,
            health,
            first: Window::new(limits.window),
            second: Window::new(limits.window),
            in_flight: HashMap::new(),
            unrecorded: VecDeque::new(),
            recording: None,
            locked: HashSet::new(),
            unhinted: HashSet::new(),
            let_go: false,
            loading: None,
            stale: true,
            reload: Reload::No,
            frozen: 0,
            seen_through: DeliveryNo(0),
            read_through: DeliveryNo(0),
            allowance: Allowance::full(),
            local_fault: BackOff::new(second, second.scaled(60.0)),
            store_fault: BackOff::new(second.scaled(0.1), second.scaled(5.0)),
            owed: false,
            permits: 0,
            pacing: false,
            after_first: false,
            given_back: Vec::new(),
            released: Vec::new(),
            releasing: 0,
            poked: false,
            bare: false,
            gone: false,
        }
    }

    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    pub fn health(&self) -> &Health {
        &self.health
    }

    /// The endpoint was deleted: whatever comes is dropped.
    pub fn is_gone(&self) -> bool {
        self.gone
    }

    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Judged attempts that are not committed.
    pub fn unrecorded(&self) -> usize {
        self.unrecorded.len() + self.recording.as_ref().map_or(0, Vec::len)
    }

    pub fn is_narrowed(&self) -> bool {
        self.allowance.is_narrowed()
    }

    /// No event is kept in memory while it waits here (S19): of a narrowed endpoint, or one whose circuit is open, because
    /// what they hold back for hours would fill the budget that all endpoints share. What they may attempt meanwhile can
    /// afford to be read.
    pub fn is_bare(&self) -> bool {
        self.allowance.is_narrowed() || self.health.circuit.opened_at().is_some()
    }

    /// Nothing is on the wire, being written, read or changed.
    pub fn is_idle(&self) -> bool {
        self.in_flight.is_empty()
            && self.recording.is_none()
            && self.unrecorded.is_empty()
            && self.locked.is_empty()
            && self.loading.is_none()
            && self.released.is_empty()
            && self.releasing == 0
            && self.given_back.is_empty()
            && self.is_settled()
            // Of a disabled endpoint nothing is read.
            && !(self.stale && self.endpoint.is_enabled())
    }

    /// Nothing is on the wire and every result is committed: all that a drain waits for.
    pub fn is_drained(&self) -> bool {
        self.in_flight.is_empty() && self.recording.is_none() && (self.unrecorded.is_empty() || self.gone)
    }

    /// Deliveries with an attempt on the wire or a result not yet committed.
    pub fn on_the_wire(&self) -> Vec<DeliveryNo> {
        let judged = self.recording.iter().flatten().chain(&self.unrecorded);
        self.in_flight.keys().copied().chain(judged.map(|(ended, _)| ended.delivery.no)).collect()
    }

    fn is_on_the_wire(&self, no: DeliveryNo) -> bool {
        let mut judged = self.recording.iter().flatten().chain(&self.unrecorded);
        self.in_flight.contains_key(&no) || judged.any(|(ended, _)| ended.delivery.no == no)
    }

    /// An attempt is over. `draw` is uniform in [0, 1); `wall_secs` the wall clock; `no_egress`: see S6.
    pub fn ended(&mut self, no: DeliveryNo, attempt: Attempt, draw: f64, wall_secs: i64, no_egress: bool) {
        let Some(start) = self.in_flight.remove(&no) else {
            return;
        };
        if self.gone {
            return;
        }
        if let Finding::Local { .. } = attempt.report.finding {
            self.local_fault.failed(attempt.ended_at);
            self.give_back(start.delivery);
            return;
        }
        self.local_fault.succeeded();
        self.allowance.after(&attempt.report, self.endpoint.max_in_flight);
        let Start { delivery, probe_of, policy, .. } = start;
        let ended = Ended { delivery, attempt, probe_of, policy, draw, wall_secs, no_egress };
        let verdict = super::judge::judge(&ended, &mut self.endpoint, &mut self.health);
        if verdict.disable.is_some() {
            self.forget_cut();
        }
        self.unrecorded.push_back((ended, verdict));
    }

    /// Whether an attempt that [`Effect::Start`] asked for may still begin, after its event had to be read: not if the
    /// endpoint is being changed, was disabled or has its circuit open since (S15, S17).
    pub fn may_begin(&self, no: DeliveryNo) -> bool {
        let Some(start) = self.in_flight.get(&no) else { return false };
        let passes = self.health.circuit.opened_at().is_none_or(|opened_at| start.probe_of == Some(opened_at));
        let enabled = self.endpoint.is_enabled() && !self.endpoint.paused && start.delivery.cut == self.endpoint.cut;
        self.is_settled() && !self.owed && !self.gone && enabled && passes
    }

    /// The endpoint as it is known here is what it is.
    fn is_settled(&self) -> bool {
        self.reload == Reload::No && self.frozen == 0
    }

    /// An attempt that was to start did not begin, and not for a fault: the delivery keeps its place.
    pub fn withdraw(&mut self, no: DeliveryNo) {
        if let Some(start) = self.in_flight.remove(&no) {
            self.give_back(start.delivery);
        }
    }

    /// An attempt could not start for a fault of ours (its event could not be read): again after a while (S6).
    pub fn not_started(&mut self, no: DeliveryNo, now: Timestamp) {
        self.local_fault.failed(now);
        self.withdraw(no);
    }

    /// Puts a delivery back that was taken out of its line, or gives it up to a cut.
    fn give_back(&mut self, delivery: Waiting) {
        if !self.is_settled() {
            // It may have been spared by a cut that is being committed; the reload tells.
            self.given_back.push(delivery);
        } else if delivery.cut == self.endpoint.cut {
            self.touch(delivery.no);
            self.admit(delivery);
        } else {
            self.released.push(delivery.no);
        }
    }

    /// What [`Effect::Release`] asked for is written, or these deliveries were refused and are tried again after a while.
    pub fn released(&mut self, refused: Vec<DeliveryNo>, now: Timestamp) {
        self.releasing = self.releasing.saturating_sub(1);
        if !refused.is_empty() {
            self.store_fault.failed(now);
            self.released.extend(refused);
        }
    }

    /// So many overdue attempts may start.
    pub fn paced(&mut self, permits: usize) {
        self.pacing = false;
        self.permits += permits;
    }

    /// Takes a delivery into its line.
    fn admit(&mut self, mut delivery: Waiting) {
        if delivery.cut != self.endpoint.cut || self.gone {
            return;
        }
        if self.is_bare() {
            delivery.content = None;
        }
        let left = match delivery.line {
            Line::First => self.first.admit(delivery),
            Line::Single | Line::Retry => self.second.admit(delivery),
        };
        if let (Some(left), Some(loading)) = (left, &mut self.loading) {
            if loading.late.len() < self.limits.window {
                loading.late.push(Waiting { content: None, ..left });
            } else {
                self.stale = true;
            }
        }
    }

    /// Remembers that a row read before now would be older than what is known here.
    fn touch(&mut self, no: DeliveryNo) {
        if let Some(loading) = &mut self.loading {
            loading.touched.insert(no);
        }
    }

    /// Drops what a cut has taken out of the lines.
    fn forget_cut(&mut self) {
        let cut = self.endpoint.cut;
        self.first.retain(|waiting| waiting.cut == cut);
        self.second.retain(|waiting| waiting.cut == cut);
    }

    fn busy(&self) -> HashSet<DeliveryNo> {
        self.on_the_wire().into_iter().chain(self.locked.iter().copied()).collect()
    }
}
