//! Warnings about what befalls endpoints when something is wrong with all of them. A full disk, a lack of descriptors or a
//! slow database would fill the log with a line for each endpoint and attempt; so of each kind there is one now and then, and
//! the others are there for whoever reads at debug level (C70).

use std::fmt::Display;
use std::sync::{Mutex, PoisonError};

use crate::clock::Clock;
use crate::domain::seldom::Seldom;

#[derive(Default)]
pub struct Complaints(Mutex<Seldom>);

impl Complaints {
    /// Something happened to somebody, for a reason.
    pub fn warn(&self, clock: &Clock, what: &'static str, whose: impl Display, why: impl Display) {
        let turn = self.0.lock().unwrap_or_else(PoisonError::into_inner).turn(what, clock.uptime());
        match turn {
            Some(more) => log::warn!("{what}: {whose}: {why}{more}"),
            None => log::debug!("{what}: {whose}: {why}"),
        }
    }
}
