//! What waits for the writer, and the door to it.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use diesel::QueryResult;
use tokio::sync::{Notify, oneshot};

use super::{Conn, Tx, dsl};
use crate::domain::ids::{DeliveryNo, EndpointNo};
use crate::store::error::StoreError;
use crate::store::hint::Hint;
use crate::store::sentence::{Hints, Sentence};

/// What a group may hold of each kind, by weight: so much that its commit costs each member little, and so little that
/// nobody waits long for the others. When a hundred receivers hang, their sixteen hundred results come at once.
const GROUP: usize = 128;

/// A sentence in the queue, with the way back for its reply.
pub trait Job: Send {
    fn run(&mut self, tx: &mut Tx<'_>) -> QueryResult<()>;
    fn bytes(&self) -> usize;
    fn weight(&self) -> usize;
    fn is_acceptance(&self) -> bool;
    fn committed(self: Box<Self>);
    fn failed(self: Box<Self>, error: StoreError);
}

struct Queued<S: Sentence<Conn>> {
    sentence: S,
    reply: Option<S::Reply>,
    back: oneshot::Sender<Result<S::Reply, StoreError>>,
}

impl<S: Sentence<Conn>> Job for Queued<S> {
    fn run(&mut self, tx: &mut Tx<'_>) -> QueryResult<()> {
        self.reply = Some(dsl::run(self.sentence.run(tx))?);
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.sentence.bytes()
    }

    fn weight(&self) -> usize {
        self.sentence.weight()
    }

    fn is_acceptance(&self) -> bool {
        self.sentence.is_acceptance()
    }

    fn committed(self: Box<Self>) {
        if let Some(reply) = self.reply {
            // Whoever asked may have gone; what was committed stays committed.
            let _ = self.back.send(Ok(reply));
        }
    }

    fn failed(self: Box<Self>, error: StoreError) {
        let _ = self.back.send(Err(error));
    }
}

/// Acceptances and the rest queue apart: of a group each gets half at most, and each may hold as many bytes as the other.
///
/// Nothing else bounds the rest. Callers who lose patience leave their changes in the queue and may send others, and
/// results come from any number of endpoints. (Results are bounded a second time where they come from, by the gate's
/// `MAX_UNRECORDED`, because those that are refused here stay with their actors and are offered again.)
#[derive(Default)]
pub struct Queue {
    acceptances: Line,
    others: Line,
    pub closed: bool,
}

impl Queue {
    /// Takes the next group, acceptances first; what it holds in memory is no longer counted as queued.
    pub fn take(&mut self) -> Vec<Box<dyn Job>> {
        let mut group: Vec<Box<dyn Job>> = Vec::new();
        for line in [&mut self.acceptances, &mut self.others] {
            let mut weight = 0;
            while let Some(job) = line.jobs.pop_front_if(|job| weight == 0 || weight + job.weight() <= GROUP) {
                weight += job.weight().max(1);
                line.bytes = line.bytes.saturating_sub(job.bytes());
                group.push(job);
            }
        }
        group
    }

    /// Puts the end of a group back, in its order. They are the next to be taken.
    pub fn put_back(&mut self, jobs: Vec<Box<dyn Job>>) {
        for job in jobs.into_iter().rev() {
            let line = if job.is_acceptance() { &mut self.acceptances } else { &mut self.others };
            line.bytes += job.bytes();
            line.jobs.push_front(job);
        }
    }
}

#[derive(Default)]
struct Line {
    jobs: VecDeque<Box<dyn Job>>,
    bytes: usize,
}

/// What the writer and its callers share.
pub struct Shared {
    queue: Mutex<Queue>,
    /// Something was queued, or the queue was closed.
    pub arrived: Condvar,
    /// The same for a writer that runs on its callers' thread.
    pub arrived_here: Notify,
    limit: usize,
    /// So many deliveries are not filed.
    unfiled: AtomicUsize,
    /// All deliveries up to this one have rows.
    written_through: AtomicI64,
    newest: AtomicI64,
    /// The newest delivery of endpoints whose row may not have it yet.
    newest_of: Mutex<HashMap<EndpointNo, DeliveryNo>>,
}

/// What is behind after a commit.
pub struct Behind<'a> {
    pub unfiled: usize,
    pub written_through: DeliveryNo,
    pub newest: DeliveryNo,
    /// Every endpoint's row has its newest delivery.
    pub all_counted: bool,
    /// What the commit told the engine.
    pub hints: &'a Hints,
}

impl Shared {
    /// An empty queue. `limit`: bytes of acceptances that it may hold, and as many of everything else. `newest`: the newest
    /// delivery of all.
    pub fn new(limit: usize, newest: DeliveryNo) -> Arc<Shared> {
        Arc::new(Shared {
            queue: Mutex::default(),
            arrived: Condvar::new(),
            arrived_here: Notify::new(),
            limit,
            unfiled: AtomicUsize::new(0),
            written_through: AtomicI64::new(newest.0),
            newest: AtomicI64::new(newest.0),
            newest_of: Mutex::default(),
        })
    }

    /// Lets others know what is behind.
    pub fn publish(&self, behind: Behind<'_>) {
        let mut newest_of = self.newest_of();
        if behind.all_counted {
            newest_of.clear();
        } else {
            let newest = |(endpoint, hint): (&EndpointNo, &Hint)| Some((*endpoint, hint.deliveries.last()?.no));
            newest_of.extend(behind.hints.iter().filter_map(newest));
        }
        self.unfiled.store(behind.unfiled, Ordering::Release);
        self.written_through.store(behind.written_through.0, Ordering::Release);
        self.newest.store(behind.newest.0, Ordering::Release);
    }

    fn wake(&self) {
        self.arrived.notify_one();
        self.arrived_here.notify_one();
    }

    pub fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn newest_of(&self) -> MutexGuard<'_, HashMap<EndpointNo, DeliveryNo>> {
        self.newest_of.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// The door to the writer; clones share the queue.
#[derive(Clone)]
pub struct WriterHandle(pub(super) Arc<Shared>);

impl WriterHandle {
    /// Queues a sentence and waits for its commit.
    ///
    /// # Errors
    /// [`StoreError::Overloaded`] if the queue is full, [`StoreError::Closed`] after [`close`](Self::close), otherwise
    /// what the database said.
    pub async fn write<S: Sentence<Conn>>(&self, sentence: S) -> Result<S::Reply, StoreError> {
        let (back, answer) = oneshot::channel();
        let (bytes, acceptance) = (sentence.bytes(), sentence.is_acceptance());
        {
            let mut queue = self.0.lock();
            if queue.closed {
                return Err(StoreError::Closed);
            }
            let line = if acceptance { &mut queue.acceptances } else { &mut queue.others };
            if line.bytes + bytes > self.0.limit {
                return Err(StoreError::Overloaded);
            }
            line.bytes += bytes;
            line.jobs.push_back(Box::new(Queued { sentence, reply: None, back }));
        }
        self.0.wake();
        answer.await.unwrap_or(Err(StoreError::Closed))
    }

    /// If committed deliveries have no rows yet: the last one before them, and the newest of all.
    pub fn written_through(&self) -> Option<(DeliveryNo, DeliveryNo)> {
        let written_through = self.0.written_through.load(Ordering::Acquire);
        let newest = self.0.newest.load(Ordering::Acquire);
        (written_through < newest).then_some((DeliveryNo(written_through), DeliveryNo(newest)))
    }

    /// An endpoint's newest delivery, if its row may not have it yet.
    pub fn newest_of(&self, endpoint: EndpointNo) -> Option<DeliveryNo> {
        self.0.newest_of().get(&endpoint).copied()
    }

    /// Whether deliveries are not yet in the indexes by endpoint.
    pub fn has_unfiled(&self) -> bool {
        self.0.unfiled.load(Ordering::Acquire) > 0
    }

    /// Lets the writer finish what is queued and end.
    pub fn close(&self) {
        self.0.lock().closed = true;
        self.0.wake();
    }
}
