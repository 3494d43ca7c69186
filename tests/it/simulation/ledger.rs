//! What happened, written down outside the engine: every commit that matters in the order of the transactions, every
//! attempt as its receiver saw it. The checks know nothing else.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use diesel::{QueryResult, SqliteConnection};
use posthaste::domain::attempt::Finding;
use posthaste::domain::delivery::Next;
use posthaste::domain::ids::{DeliveryNo, EndpointNo};
use posthaste::domain::policy::Policy;
use posthaste::domain::time::Timestamp;
use posthaste::store::sentence::{Sentence, Tx};

/// One request as it reached a receiver.
#[derive(Clone, Debug)]
pub struct Wire {
    /// Its place among all that happened; unlike the time, never the same for two.
    pub seq: u64,
    pub life: u32,
    pub endpoint: EndpointNo,
    pub event: String,
    pub delivery: DeliveryNo,
    /// Within its run, as the header says.
    pub attempt: u32,
    pub url: String,
    pub body: Vec<u8>,
    pub began: Timestamp,
    /// `None`: cut off before its end.
    pub ended: Option<WireEnd>,
}

#[derive(Clone, Debug)]
pub struct WireEnd {
    pub seq: u64,
    pub at: Timestamp,
    pub finding: Finding,
}

/// A committed change.
#[derive(Clone, Debug)]
pub struct Entry {
    pub seq: u64,
    pub life: u32,
    /// Engine time of the commit.
    pub at: Timestamp,
    pub what: What,
}

#[derive(Clone, Debug)]
pub enum What {
    Created { endpoint: EndpointNo, policy: Arc<Policy>, max_in_flight: u16 },
    Accepted { event: String, created_at: Timestamp, received_at: Timestamp, deliveries: Vec<DeliveryNo> },
    Recorded { endpoint: EndpointNo, results: Vec<Result>, disabled: bool },
    Disabled { endpoint: EndpointNo },
    Enabled { endpoint: EndpointNo, now: Timestamp },
    Edited { endpoint: EndpointNo, policy: Arc<Policy>, max_in_flight: u16, new_url: bool, now: Timestamp },
    PutBack { endpoint: EndpointNo, delivery: DeliveryNo, now: Timestamp },
    Requeued { endpoint: EndpointNo, delivery: DeliveryNo, now: Timestamp },
    Deleted { endpoint: EndpointNo },
}

/// One recorded attempt.
#[derive(Clone, Debug)]
pub struct Result {
    pub delivery: DeliveryNo,
    pub run: u32,
    /// Within its run, counted from 1.
    pub attempt: u32,
    pub started: Timestamp,
    pub ended: Timestamp,
    pub status: Option<u16>,
    /// What the engine made of it.
    pub next: Next,
    pub no_egress: bool,
}

/// What a life did.
#[derive(Clone, Copy, Debug)]
pub struct LifeSpan {
    pub began: Timestamp,
    pub ended: Timestamp,
}

/// A fault that the world put in the engine's way.
#[derive(Clone, Debug)]
pub struct Fault {
    pub at: Timestamp,
    /// `None`: may concern any endpoint.
    pub endpoint: Option<EndpointNo>,
    /// For so long (engine time) it may explain a late attempt.
    pub until: Timestamp,
}

#[derive(Debug, Default)]
pub struct Pages {
    pub wire: Vec<Wire>,
    pub entries: Vec<Entry>,
    pub lives: Vec<LifeSpan>,
    pub faults: Vec<Fault>,
}

/// Clones write into the same pages.
#[derive(Clone, Default)]
pub struct Ledger {
    pages: Arc<Mutex<Pages>>,
    seq: Arc<AtomicU64>,
}

impl Ledger {
    pub fn pages(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub fn next_seq(&self) -> u64 {
        self.seq.fetch_add(1, Ordering::Relaxed)
    }
}

/// A sentence that is written down when it is carried out, in the order of the transactions. (On virtual time a
/// transaction is over when its last sentence is: nothing can come between.)
pub struct Noted<S, F> {
    pub sentence: S,
    pub ledger: Ledger,
    pub life: u32,
    pub at: Timestamp,
    pub note: F,
}

impl<S, F> Sentence<SqliteConnection> for Noted<S, F>
where
    S: Sentence<SqliteConnection>,
    F: Fn(&S, &S::Reply) -> Vec<What> + Send + 'static,
{
    type Reply = S::Reply;

    async fn run(&self, tx: &mut Tx<'_, SqliteConnection>) -> QueryResult<S::Reply> {
        let reply = self.sentence.run(tx).await?;
        for what in (self.note)(&self.sentence, &reply) {
            let seq = self.ledger.next_seq();
            self.ledger.pages().entries.push(Entry { seq, life: self.life, at: self.at, what });
        }
        Ok(reply)
    }

    fn bytes(&self) -> usize {
        self.sentence.bytes()
    }

    fn is_acceptance(&self) -> bool {
        self.sentence.is_acceptance()
    }
}
