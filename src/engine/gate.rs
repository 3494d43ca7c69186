//! One cap on attempts in the whole installation. Attempts older than a second may hold 80 % of it: the rest stays for
//! endpoints that answer (S19).

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use actix::Recipient;

use super::messages::Turn;

/// Judged results of all endpoints that may wait for their commit; beyond it nothing starts anywhere. A store that is slow
/// or away would otherwise gather the results of every endpoint there is. One takes 2 KiB as a rule (an excerpt of 1 KiB,
/// the URL) and is in memory twice while it is being written; what was on the wire when the limit was reached comes on top.
pub const MAX_UNRECORDED: usize = 16_384;

/// Of the cap, so many percent may be held by attempts older than a second.
const SLOW_PERCENT: usize = 80;

/// The gate; clones are the same one.
#[derive(Clone)]
pub struct Gate(Arc<Inner>);

struct Inner {
    cap: usize,
    open: AtomicUsize,
    slow: AtomicUsize,
    unrecorded: AtomicUsize,
    waiting: Mutex<Waiting>,
}

/// Endpoints that would start more if they might, in the order in which they came. Those with attempts older than a
/// second stand apart, because there may be room for the others alone.
#[derive(Default)]
struct Waiting {
    /// `[quick, slow]`.
    lines: [VecDeque<(u64, Recipient<Turn>)>; 2],
    came: u64,
}

impl Waiting {
    fn next(&mut self, room_for_slow: bool) -> Option<Recipient<Turn>> {
        let front = |line: &VecDeque<(u64, _)>| line.front().map(|(came, _)| *came);
        let (quick, slow) = (front(&self.lines[0]), front(&self.lines[1]).filter(|_| room_for_slow));
        let line = match (quick, slow) {
            (None, None) => return None,
            (Some(quick), Some(slow)) => usize::from(slow < quick),
            (quick, _) => usize::from(quick.is_none()),
        };
        self.lines[line].pop_front().map(|(_, endpoint)| endpoint)
    }
}

impl Gate {
    /// A gate for at most `cap` attempts (at least one).
    pub fn new(cap: usize) -> Gate {
        let (open, slow, unrecorded) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
        Gate(Arc::new(Inner { cap: cap.max(1), open, slow, unrecorded, waiting: Mutex::default() }))
    }

    /// How many attempts an endpoint may start now; `slow`: some of its attempts are older than a second.
    pub fn room(&self, slow: bool) -> usize {
        let full = self.0.unrecorded.load(Ordering::Relaxed) >= MAX_UNRECORDED;
        if full || slow && !self.has_room_for_slow() {
            return 0;
        }
        self.0.cap.saturating_sub(self.0.open.load(Ordering::Relaxed))
    }

    /// Counts an attempt until the pass is dropped; `None` if others, on other threads, have taken the room meanwhile.
    pub fn enter(&self) -> Option<Pass> {
        let one_more = |open: usize| (open < self.0.cap).then_some(open + 1);
        self.0.open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).ok()?;
        Some(Pass { gate: self.clone(), slow: false })
    }

    fn has_room_for_slow(&self) -> bool {
        let slow_cap = self.0.cap * SLOW_PERCENT / 100;
        self.0.slow.load(Ordering::Relaxed) < slow_cap.max(1)
    }

    /// Has this endpoint take a turn when there is room for it.
    pub fn wait(&self, endpoint: Recipient<Turn>, slow: bool) {
        let mut waiting = self.0.waiting.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        waiting.came += 1;
        let came = waiting.came;
        waiting.lines[usize::from(slow)].push_back((came, endpoint));
    }

    /// If there is room, has the next endpoint take a turn. Called when an attempt has ended, and by each endpoint after
    /// its turn: it may have had no use for the room.
    pub fn offer(&self) {
        if self.room(false) == 0 {
            return;
        }
        let room_for_slow = self.has_room_for_slow();
        let next = || self.0.waiting.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).next(room_for_slow);
        // Some may have died while they waited.
        if let Some(next) = std::iter::from_fn(next).find(Recipient::connected) {
            super::messages::tell(&next, Turn);
        }
    }
}

/// What one endpoint's actor has of results that are not committed; dropped with it.
pub struct Unrecorded {
    gate: Gate,
    count: usize,
}

impl Unrecorded {
    pub fn none(gate: &Gate) -> Unrecorded {
        Unrecorded { gate: gate.clone(), count: 0 }
    }

    /// It has so many now.
    pub fn set(&mut self, count: usize) {
        let before = std::mem::replace(&mut self.count, count);
        if count >= before {
            self.gate.0.unrecorded.fetch_add(count - before, Ordering::Relaxed);
        } else {
            self.gate.0.unrecorded.fetch_sub(before - count, Ordering::Relaxed);
            self.gate.offer();
        }
    }
}

impl Drop for Unrecorded {
    fn drop(&mut self) {
        self.set(0);
    }
}

/// One attempt on the wire, or about to be.
pub struct Pass {
    gate: Gate,
    slow: bool,
}

impl Pass {
    /// The attempt is older than a second.
    pub fn is_slow(&mut self) {
        if !std::mem::replace(&mut self.slow, true) {
            self.gate.0.slow.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        let inner = &self.gate.0;
        if self.slow {
            inner.slow.fetch_sub(1, Ordering::Relaxed);
        }
        inner.open.fetch_sub(1, Ordering::Relaxed);
        self.gate.offer();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s19_slow_attempts_leave_a_fifth_of_the_cap_to_others() {
        let gate = Gate::new(10);
        let mut passes: Vec<Pass> = (0..8).filter_map(|_| gate.enter()).collect();
        assert_eq!((gate.room(false), gate.room(true)), (2, 2));
        passes.iter_mut().for_each(Pass::is_slow);
        assert_eq!((gate.room(false), gate.room(true)), (2, 0));
        passes.pop();
        assert_eq!((gate.room(false), gate.room(true)), (3, 3));
        passes.extend((0..9).filter_map(|_| gate.enter()));
        assert_eq!((passes.len(), gate.room(false)), (10, 0), "never more than the cap");
    }
    #[test]
    fn s19_nothing_starts_while_too_many_results_wait_for_their_commit() {
        let gate = Gate::new(10);
        let (mut one, mut other) = (Unrecorded::none(&gate), Unrecorded::none(&gate));
        one.set(MAX_UNRECORDED - 1);
        assert_eq!(gate.room(false), 10);
        other.set(5);
        assert_eq!((gate.room(false), gate.room(true)), (0, 0));
        other.set(0);
        assert_eq!(gate.room(false), 10, "those were committed");
        other.set(5);
        drop(one);
        assert_eq!(gate.room(false), 10, "that actor is gone");
        drop(other);
        assert_eq!(gate.0.unrecorded.load(Ordering::Relaxed), 0);
    }
}
