//! What happened, written down outside the engine: every commit that matters in the order of the transactions, every
//! attempt as its receiver saw it. The checks know nothing else.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use diesel::{QueryResult, SqliteConnection};
use posthaste::clock::Clock;
use posthaste::domain::attempt::Finding;
use posthaste::domain::delivery::Next;
use posthaste::domain::ids::{DeliveryNo, EndpointNo};
use posthaste::domain::notice::NoticeKind;
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
    /// `None`: not over, or cut off before its end.
    pub ended: Option<WireEnd>,
    /// Where and when it was cut off: the process died, or its endpoint's actor is gone.
    pub cut_off: Option<(u64, Timestamp)>,
}

#[derive(Clone, Debug)]
pub struct WireEnd {
    pub seq: u64,
    pub at: Timestamp,
    pub finding: Finding,
    /// It took more than a second of real time, or timed out (S19).
    pub slow: bool,
}

/// A committed change, or a person's request that is under way.
#[derive(Clone, Debug)]
pub struct Entry {
    pub seq: u64,
    pub life: u32,
    /// Engine time of the commit.
    pub at: Timestamp,
    pub what: What,
}

/// An endpoint's configuration, as far as it matters here.
#[derive(Clone, Debug)]
pub struct Setup {
    pub policy: Arc<Policy>,
    pub max_in_flight: u16,
    pub url: String,
}

#[derive(Clone, Debug)]
pub enum What {
    Created {
        endpoint: EndpointNo,
        id: String,
        setup: Setup,
    },
    Accepted(Acceptance),
    Recorded {
        endpoint: EndpointNo,
        results: Vec<Result>,
        disabled: bool,
        skipped: bool,
    },
    Disabled {
        endpoint: EndpointNo,
        now: Timestamp,
    },
    Enabled {
        endpoint: EndpointNo,
        now: Timestamp,
    },
    Edited {
        endpoint: EndpointNo,
        setup: Setup,
        new_url: bool,
        close_circuit: bool,
        now: Timestamp,
    },
    /// Whoever edited has been answered: nothing starts under the old state any more (S26).
    EditAnswered {
        endpoint: EndpointNo,
    },
    /// A person's single retry or requeue.
    PutBack {
        delivery: DeliveryNo,
        now: Timestamp,
    },
    /// Every dead letter of an endpoint but those on the wire.
    RequeuedAll {
        endpoint: EndpointNo,
        count: u64,
        now: Timestamp,
        spared: Vec<DeliveryNo>,
    },
    Told {
        kind: NoticeKind,
    },
    Deleted {
        endpoint: EndpointNo,
    },
    /// The process begins to shut down: nothing starts any more.
    Draining,
    /// A person's request holds this delivery, or this endpoint, from here to its end.
    Holding {
        hold: Hold,
        begins: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    Delivery(DeliveryNo),
    Endpoint(EndpointNo),
}

/// An accepted event.
#[derive(Clone, Debug)]
pub struct Acceptance {
    pub event: String,
    pub body: Vec<u8>,
    pub created_at: Timestamp,
    pub received_at: Timestamp,
    /// The endpoint's id and the delivery's number.
    pub deliveries: Vec<(String, DeliveryNo)>,
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
    /// By which the engine read the answer.
    pub policy: Arc<Policy>,
    /// The engine sent it as the probe of the circuit that opened then.
    pub probe_of: Option<Timestamp>,
}

/// What may explain, from `at` to `until`, that an attempt starts late.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    pub at: Timestamp,
    pub until: Timestamp,
}

#[derive(Debug, Default)]
pub struct Pages {
    pub wire: Vec<Wire>,
    pub entries: Vec<Entry>,
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

    /// Every recorded result so far, in the order of the commits.
    pub fn results(&self) -> Vec<Result> {
        let pages = self.pages();
        let results = pages.entries.iter().filter_map(|entry| match &entry.what {
            What::Recorded { results, .. } => Some(results),
            _ => None,
        });
        results.flatten().cloned().collect()
    }

    pub fn next_seq(&self) -> u64 {
        self.seq.fetch_add(1, Ordering::Relaxed)
    }

    pub fn enter(&self, life: u32, at: Timestamp, what: What) {
        let seq = self.next_seq();
        self.pages().entries.push(Entry { seq, life, at, what });
    }
}

/// A sentence that is written down when it is carried out, in the order of the transactions. (On virtual time a
/// transaction is over when its last sentence is: nothing can come between.)
pub struct Noted<S, F> {
    pub sentence: S,
    pub ledger: Ledger,
    pub life: u32,
    pub clock: Clock,
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
            self.ledger.enter(self.life, self.clock.now(), what);
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
