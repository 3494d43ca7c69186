//! One cap on attempts in the whole installation. Attempts older than a second may hold 80 % of it: the rest stays for
//! endpoints that answer (S19).

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use actix::Recipient;

use super::messages::Turn;

/// Of the cap, so many percent may be held by attempts older than a second.
const SLOW_PERCENT: usize = 80;

/// The gate; clones are the same one.
#[derive(Clone)]
pub struct Gate(Arc<Inner>);

struct Inner {
    cap: usize,
    open: AtomicUsize,
    slow: AtomicUsize,
    /// Endpoints that would start more if they might.
    waiting: Mutex<VecDeque<Recipient<Turn>>>,
}

impl Gate {
    /// A gate for at most `cap` attempts (at least one).
    pub fn new(cap: usize) -> Gate {
        let (open, slow, waiting) = (AtomicUsize::new(0), AtomicUsize::new(0), Mutex::default());
        Gate(Arc::new(Inner { cap: cap.max(1), open, slow, waiting }))
    }

    /// How many attempts an endpoint may start now; `slow`: some of its attempts are older than a second.
    pub fn room(&self, slow: bool) -> usize {
        let slow_cap = self.0.cap * SLOW_PERCENT / 100;
        if slow && self.0.slow.load(Ordering::Relaxed) >= slow_cap.max(1) {
            return 0;
        }
        self.0.cap.saturating_sub(self.0.open.load(Ordering::Relaxed))
    }

    /// Counts an attempt until the pass is dropped.
    pub fn enter(&self) -> Pass {
        self.0.open.fetch_add(1, Ordering::Relaxed);
        Pass { gate: self.clone(), slow: false }
    }

    /// Has this endpoint take a turn when an attempt has ended.
    pub fn wait(&self, endpoint: Recipient<Turn>) {
        self.0.waiting.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push_back(endpoint);
    }
}

/// One attempt on the wire.
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
        let next = inner.waiting.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).pop_front();
        if let Some(next) = next {
            super::messages::tell(&next, Turn);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s19_slow_attempts_leave_a_fifth_of_the_cap_to_others() {
        let gate = Gate::new(10);
        let mut passes: Vec<Pass> = (0..8).map(|_| gate.enter()).collect();
        assert_eq!((gate.room(false), gate.room(true)), (2, 2));
        passes.iter_mut().for_each(Pass::is_slow);
        assert_eq!((gate.room(false), gate.room(true)), (2, 0));
        passes.pop();
        assert_eq!((gate.room(false), gate.room(true)), (3, 3));
    }
}
