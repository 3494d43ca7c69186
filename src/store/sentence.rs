//! How the rest of the program talks to the database: a *sentence* changes something, a *question* reads. Each is a
//! plain struct; what it means is written once in `queries/` and compiled for each backend.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;

use diesel::QueryResult;

use super::directory::Directory;
use super::hint::Hint;
use super::unfiled::Unfiled;
use super::unwritten::Unwritten;
use crate::domain::content::ByteBudget;
use crate::domain::ids::{DeliveryNo, EndpointNo, EventNo, TenantNo};
use crate::domain::time::Timestamp;

/// What any sentence takes in the queue, in bytes: its fields of one size, and the way back for its reply.
pub const FIXED_BYTES: usize = 512;

/// A change. It joins other changes in one transaction, so it checks first and writes then: a sentence that answers with
/// a refusal has written nothing.
pub trait Sentence<C>: Send + 'static {
    type Reply: Send + 'static;

    /// Carries it out. May be called again in a later transaction if this one fails.
    fn run(&self, tx: &mut Tx<'_, C>) -> impl Future<Output = QueryResult<Self::Reply>>;

    /// What it holds in memory while it waits, in bytes: what the queue is bounded by. As it stands here it is that of a
    /// sentence with nothing in it that a caller can make longer.
    fn bytes(&self) -> usize {
        FIXED_BYTES
    }

    /// How many rows it is about: what a group may hold is counted in these.
    fn weight(&self) -> usize {
        1
    }

    /// Whether it brings events in, as opposed to results and management: of a group each kind gets half at most.
    fn is_acceptance(&self) -> bool {
        false
    }
}

/// A read in one snapshot.
pub trait Question<C>: Send + 'static {
    type Answer: Send + 'static;

    fn ask(&self, conn: &mut C) -> impl Future<Output = QueryResult<Self::Answer>>;

    /// What has to be in rows before this is asked.
    fn needs(&self) -> Needs;
}

/// What a question reads that may not be in rows yet (see [`Unwritten`], [`Unfiled`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Needs {
    Nothing,
    /// One delivery's row.
    Delivery(DeliveryNo),
    /// The rows of the event with this id.
    Event(TenantNo, String),
    /// The deliveries of an endpoint, their entries in the indexes by endpoint, and its counts.
    Endpoint(EndpointNo),
    /// Every row.
    Rows,
}

/// One transaction of the writer, shared by the sentences of a group.
pub struct Tx<'a, C> {
    pub conn: &'a mut C,
    /// The endpoints as this transaction sees them.
    pub directory: &'a mut Directory,
    /// The transaction's `updated_at`: later than any before it (S24).
    pub stamp: Timestamp,
    pub counters: &'a mut Counters,
    /// So many deliveries have the events that it has accepted or answered as duplicates: what it costs, in time and memory.
    pub deliveries: usize,
    /// Changes to the counts of endpoints.
    pub uncounted: &'a mut Uncounted,
    /// What has no row yet.
    pub unwritten: &'a mut Unwritten,
    /// What is not yet in the indexes by endpoint.
    pub unfiled: &'a mut Unfiled,
    /// What the engine is told after the commit.
    pub hints: &'a mut Hints,
    /// For the contents that go with hints.
    pub budget: &'a ByteBudget,
}

/// Hints by endpoint, in commit order.
pub type Hints = BTreeMap<EndpointNo, Hint>;

/// The numbers last given out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counters {
    pub event: i64,
    pub delivery: i64,
    /// Endpoints and notifications.
    pub other: i64,
}

impl Counters {
    pub fn next_event(&mut self) -> EventNo {
        self.event += 1;
        EventNo(self.event)
    }

    pub fn next_delivery(&mut self) -> DeliveryNo {
        self.delivery += 1;
        DeliveryNo(self.delivery)
    }

    pub fn next_other(&mut self) -> i64 {
        self.other += 1;
        self.other
    }
}

/// What acceptances and changes add to an endpoint's health row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Touched {
    pub pending: i64,
    pub failed: i64,
    pub dead: i64,
    pub last_delivery: Option<DeliveryNo>,
    /// The actor is needed at this instant, or earlier if the row says so.
    pub wake_at: Option<Timestamp>,
}

/// What is not in the counts of endpoints yet. New deliveries are counted when they are filed, or with whatever else is
/// written about their endpoint's health; everything else is counted in the transaction in which it happens.
#[derive(Debug, Default)]
pub struct Uncounted {
    touched: BTreeMap<EndpointNo, Touched>,
    now: BTreeSet<EndpointNo>,
}

impl Uncounted {
    /// To be written some time; may be lost with the process. For new deliveries only.
    pub fn later(&mut self, endpoint: EndpointNo) -> &mut Touched {
        self.touched.entry(endpoint).or_default()
    }

    /// To be written with this transaction.
    pub fn now(&mut self, endpoint: EndpointNo) -> &mut Touched {
        self.now.insert(endpoint);
        self.touched.entry(endpoint).or_default()
    }

    /// What is to be written about an endpoint, by the caller.
    pub fn take(&mut self, endpoint: EndpointNo) -> Option<Touched> {
        self.now.remove(&endpoint);
        self.touched.remove(&endpoint)
    }

    pub fn is_empty(&self) -> bool {
        self.touched.is_empty()
    }

    /// An endpoint that is to be written with this transaction.
    pub fn next(&self) -> Option<EndpointNo> {
        self.now.first().copied()
    }
}

/// How much of what is behind the writer may do in its free time: a little more than is added. All at once, as much as it
/// finds, would make waiting whoever comes meanwhile: endpoints that get the same events have enough to be filed at the
/// same moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Credit {
    /// Rows to write.
    pub rows: i64,
    /// Deliveries to file.
    pub cards: i64,
}

impl Credit {
    /// For so many new deliveries.
    pub fn add(&mut self, deliveries: i64) {
        if deliveries == 0 {
            return;
        }
        let more = deliveries + deliveries / 4 + 1;
        // What was not used is not saved for later.
        *self = Credit { rows: self.rows.min(more) + more, cards: self.cards.min(more) + more };
    }
}
