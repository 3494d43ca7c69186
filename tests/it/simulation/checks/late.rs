//! When an attempt starts late, something must have held it: the slots, the circuit, a person, a fault of the store or of
//! ours, the process being dead. What held an endpoint when is kept here; a delay that it does not cover is a fault.

use posthaste::domain::attempt::{ErrorKind, Finding};
use posthaste::domain::time::{Span, Timestamp};

use crate::simulation::ledger::{Fault, WireEnd};

#[derive(Clone, Copy)]
enum Why {
    Slots,
    Disabled,
    Circuit,
    Person,
    Dead,
    Paced,
}

/// What held one endpoint's attempts back, and when.
#[derive(Default)]
pub struct Lateness {
    past: Vec<(Timestamp, Timestamp)>,
    present: [Option<Timestamp>; 6],
    holds: u32,
    /// S19, as far as it is known outside: failures in a row that were slow, and what the endpoint is narrowed to.
    slow: u32,
    narrowed: Option<usize>,
}

impl Lateness {
    fn from(&mut self, why: Why, at: Timestamp) {
        self.present[why as usize].get_or_insert(at);
    }

    fn to(&mut self, why: Why, at: Timestamp) {
        if let Some(from) = self.present[why as usize].take() {
            self.past.push((from, at));
        }
    }

    pub fn excuse(&mut self, from: Timestamp, to: Timestamp) {
        self.past.push((from, to));
    }

    fn slots(&self, max: u16) -> usize {
        self.narrowed.unwrap_or(usize::MAX).min(usize::from(max))
    }

    /// An attempt began; so many are on the wire now.
    pub fn began(&mut self, in_flight: usize, max: u16, at: Timestamp) {
        if in_flight >= self.slots(max) {
            self.from(Why::Slots, at);
        }
    }

    /// An attempt ended; so many are still on the wire.
    pub fn ended(&mut self, end: &WireEnd, in_flight: usize, max: u16, slack: Span) {
        if let Finding::Local { .. } = end.finding {
            // Says nothing about the receiver.
        } else if end.finding.is_success() {
            (self.slow, self.narrowed) = (0, self.narrowed.map(|slots| slots * 2).filter(|slots| *slots < 256));
        } else {
            match &end.finding {
                _ if end.slow => self.slow += 1,
                Finding::Answered(_) => self.slow = 0,
                Finding::Failed { kind: ErrorKind::Connect | ErrorKind::BlockedAddress, .. } => {}
                _ => self.slow += 1,
            }
            if self.slow >= 10 {
                self.narrowed = Some(2);
            }
        }
        self.whether_full(in_flight, max, end.at, slack);
    }

    /// An attempt ended, or the limit was changed.
    pub fn whether_full(&mut self, in_flight: usize, max: u16, at: Timestamp, slack: Span) {
        if in_flight < self.slots(max) {
            self.to(Why::Slots, at + slack);
        } else {
            self.from(Why::Slots, at);
        }
    }

    pub fn shut(&mut self, at: Timestamp) {
        self.from(Why::Disabled, at);
    }

    pub fn circuit_opened(&mut self, at: Timestamp) {
        self.from(Why::Circuit, at);
    }

    /// Enabled, or the circuit closed.
    pub fn opened(&mut self, at: Timestamp) {
        self.to(Why::Disabled, at);
        self.to(Why::Circuit, at);
    }

    pub fn circuit_closed(&mut self, at: Timestamp) {
        self.to(Why::Circuit, at);
    }

    pub fn hold(&mut self, begins: bool, at: Timestamp) {
        self.holds = if begins { self.holds + 1 } else { self.holds.saturating_sub(1) };
        match self.holds {
            0 => self.to(Why::Person, at),
            _ => self.from(Why::Person, at),
        }
    }

    pub fn paced(&mut self, paced: bool, at: Timestamp) {
        if paced { self.from(Why::Paced, at) } else { self.to(Why::Paced, at) }
    }

    pub fn draining(&mut self, at: Timestamp) {
        self.from(Why::Dead, at);
    }

    pub fn life_ended(&mut self, at: Timestamp) {
        self.holds = 0;
        self.to(Why::Person, at);
        self.to(Why::Slots, at);
        self.to(Why::Paced, at);
        (self.slow, self.narrowed) = (0, None);
        self.from(Why::Dead, at);
    }

    pub fn life_begins(&mut self, at: Timestamp) {
        self.to(Why::Dead, at);
    }

    /// Whether everything between `due` and `began` is explained; if not, the first instant that is not.
    pub fn unexplained(
        &self,
        due: Timestamp,
        began: Timestamp,
        tick: Span,
        faults: impl FnOnce() -> Vec<Fault>,
    ) -> Option<Timestamp> {
        let mut reached = due + tick;
        if reached >= began {
            return None;
        }
        let present = self.present.iter().flatten().map(|from| (*from, began));
        let faults = faults().into_iter().map(|fault| (fault.at, fault.until));
        let mut spans: Vec<(Timestamp, Timestamp)> = self.past.iter().copied().chain(present).chain(faults).collect();
        spans.retain(|span| span.1 + tick > reached && span.0 <= began);
        spans.sort_unstable();
        for (from, to) in spans {
            if from > reached {
                break;
            }
            reached = reached.max(to + tick);
        }
        (reached < began).then_some(reached)
    }
}
