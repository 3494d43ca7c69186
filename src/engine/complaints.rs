//! Warnings about what befalls endpoints when something is wrong with all of them. A full disk, a lack of descriptors or a
//! slow database would fill the log with a line for each endpoint and attempt; so of each kind there is one now and then, and
//! the others are there for whoever reads at debug level (C70).

use std::sync::{Mutex, PoisonError};

use crate::clock::Clock;
use crate::domain::seldom::Seldom;

/// What is complained of; each is told by itself.
#[derive(Clone, Copy)]
pub enum About {
    /// Results that could not be recorded.
    Results,
    /// Queues, events and endpoints that could not be read.
    Reading,
    /// Attempts that wait for memory.
    Memory,
    /// Attempts that did not count.
    Ours,
}

#[derive(Default)]
pub struct Complaints(Mutex<[Seldom; 4]>);

impl Complaints {
    pub fn warn(&self, about: About, clock: &Clock, text: &str) {
        let turn = {
            let mut kinds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            kinds[about as usize].turn(clock.uptime(), 1)
        };
        match turn {
            Some(more) => log::warn!("{text}{more}"),
            None => log::debug!("{text}"),
        }
    }
}
