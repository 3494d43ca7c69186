//! How the rest of the program talks to the database: a *sentence* changes something, a *question* reads. Each is a
//! plain struct; what it means is written once in `queries/` and compiled for each backend.

use std::collections::BTreeMap;
use std::future::Future;

use diesel::QueryResult;

use super::directory::Directory;
use super::hint::Hint;
use super::unfiled::Unfiled;
use crate::domain::content::ByteBudget;
use crate::domain::ids::{DeliveryNo, EndpointNo, EventNo};
use crate::domain::time::Timestamp;

/// A change. It joins other changes in one transaction, so it checks first and writes then: a sentence that answers with
/// a refusal has written nothing.
pub trait Sentence<C>: Send + 'static {
    type Reply: Send + 'static;

    /// Carries it out. May be called again in a later transaction if this one fails.
    fn run(&self, tx: &mut Tx<'_, C>) -> impl Future<Output = QueryResult<Self::Reply>>;

    /// What it holds in memory while it waits.
    fn bytes(&self) -> usize {
        512
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

    /// The endpoint whose deliveries have to be filed before this is asked: it is answered from the indexes by endpoint
    /// (see [`Unfiled`]).
    fn files(&self) -> Option<EndpointNo> {
        None
    }
}

/// One transaction of the writer, shared by the sentences of a group.
pub struct Tx<'a, C> {
    pub conn: &'a mut C,
    /// The endpoints as this transaction sees them.
    pub directory: &'a mut Directory,
    /// The transaction's `updated_at`: later than any before it (S24).
    pub stamp: Timestamp,
    pub counters: &'a mut Counters,
    /// Changes to the counts of endpoints, written once at the end.
    pub touched: &'a mut BTreeMap<EndpointNo, Touched>,
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

/// What a group of acceptances changes about an endpoint's health row.
#[derive(Clone, Copy, Debug, Default)]
pub struct Touched {
    pub pending: i64,
    pub failed: i64,
    pub dead: i64,
    pub last_delivery: Option<DeliveryNo>,
    /// The actor is needed at this instant, or earlier if the row says so.
    pub wake_at: Option<Timestamp>,
}
