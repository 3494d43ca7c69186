//! What everybody outside the process knows: what was acknowledged, what people did, where the process can be reached.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use posthaste::domain::ids::parse_delivery_id;
use serde_json::Value;

use super::receivers::wall;
use crate::support::server::{Answer, Client, text};

/// In every place where a secret may stand; no log has it.
pub const PLANTED: &str = "soak-planted";

/// An event that was answered 202.
#[derive(Clone, Debug)]
pub struct Accepted {
    pub kind: String,
    /// Of the data's bytes.
    pub data: u64,
    /// Number and endpoint of each of its deliveries.
    pub deliveries: Vec<(i64, String)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deed {
    Disable,
    Enable,
    /// The new path.
    Url(String),
    Delete,
    /// A retry or requeue of this delivery.
    Again(i64),
    /// A bulk requeue of the endpoint's dead letters.
    Bulk,
}

/// Something a person did. `status` 0: no answer came.
#[derive(Clone, Debug)]
pub struct Act {
    pub endpoint: String,
    pub deed: Deed,
    /// When it was first sent and when it was answered; on both clocks.
    pub sent: (Instant, i64),
    pub answered: (Instant, i64),
    pub status: u16,
}

#[derive(Default)]
pub struct Ledger {
    address: Mutex<Option<SocketAddr>>,
    pub stop: AtomicBool,
    /// Events are large for a while.
    pub fat: AtomicBool,
    pub accepted: Mutex<HashMap<String, Accepted>>,
    pub acts: Mutex<Vec<Act>>,
    /// What callers and people saw that must not be.
    pub faults: Mutex<Vec<String>>,
    /// Answers 503, and requests without an answer.
    pub refused: AtomicU64,
    pub unanswered: AtomicU64,
}

pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub fn now() -> (Instant, i64) {
    (Instant::now(), wall())
}

impl Ledger {
    pub fn address(&self) -> Option<SocketAddr> {
        *lock(&self.address)
    }

    pub fn set_address(&self, address: Option<SocketAddr>) {
        *lock(&self.address) = address;
    }

    pub fn stopped(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    pub fn fault(&self, what: String) {
        lock(&self.faults).push(what);
    }

    pub fn act(&self, endpoint: &str, deed: Deed, sent: (Instant, i64), status: u16) {
        lock(&self.acts).push(Act { endpoint: endpoint.to_owned(), deed, sent, answered: now(), status });
    }

    /// Writes down one event of an answer.
    pub fn accept(&self, kind: &str, data: u64, answer: &Value) {
        let deliveries = answer["deliveries"].as_array().expect("deliveries").iter().map(|one| {
            let no = parse_delivery_id(&text(&one["id"])).expect("an id");
            (no.0, text(&one["endpoint_id"]))
        });
        let found = Accepted { kind: kind.to_owned(), data, deliveries: deliveries.collect() };
        let id = text(&answer["id"]);
        let mut accepted = lock(&self.accepted);
        match accepted.get(&id) {
            None => drop(accepted.insert(id, found)),
            // S27: a delivery may have gone with its endpoint meanwhile; none may have come.
            Some(first) => {
                let known = found.deliveries.iter().all(|one| first.deliveries.contains(one));
                if !known || first.data != data {
                    self.fault(format!("S21: {id} was answered {first:?}, and then {found:?}"));
                }
            }
        }
    }
}

/// A caller's connection to whatever life there is.
#[derive(Default)]
pub struct Line(Option<(SocketAddr, Client)>);

impl Line {
    /// One try; `None` if there was no answer, or 503 (not confirmed).
    pub fn ask(&mut self, ledger: &Ledger, ask: impl FnOnce(&mut Client) -> std::io::Result<Answer>) -> Option<Answer> {
        let pause = |time| std::thread::sleep(Duration::from_millis(time));
        let Some(address) = ledger.address() else {
            pause(2);
            return None;
        };
        if self.0.as_ref().is_none_or(|(of, _)| *of != address) {
            self.0 = Some((address, Client::new(address)));
        }
        match ask(&mut self.0.as_mut()?.1) {
            Ok(answer) if answer.status == 503 => {
                ledger.refused.fetch_add(1, Ordering::SeqCst);
                // What `Retry-After` says would be a second; a hasty caller is harder to bear.
                pause(20);
                None
            }
            Ok(answer) => Some(answer),
            Err(_) => {
                ledger.unanswered.fetch_add(1, Ordering::SeqCst);
                pause(5);
                None
            }
        }
    }

    /// The same request until it is answered.
    pub fn insist(&mut self, ledger: &Ledger, method: &str, path: &str, body: &[u8]) -> Answer {
        loop {
            if let Some(answer) = self.ask(ledger, |client| client.send(method, path, body)) {
                return answer;
            }
        }
    }
}
