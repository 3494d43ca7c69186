//! The one writer: everything that arrived while the last commit ran goes into one transaction (group commit).
//!
//! Each member checks before it writes, so a group normally fails only with the database. If it does fail, it is split
//! in halves until the culprit stands alone; the others go through.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use diesel::QueryResult;
use diesel::connection::{AnsiTransactionManager, TransactionManager};
use tokio::sync::{Notify, oneshot};

use super::{Conn, Tx, dsl, queries};
use crate::clock::Clock;
use crate::domain::content::ByteBudget;
use crate::domain::ids::DeliveryNo;
use crate::domain::time::{Span, Timestamp};
use crate::store::directory::Directory;
use crate::store::error::StoreError;
use crate::store::hint::HintSink;
use crate::store::sentence::{Counters, Hints, Sentence};
use crate::store::unfiled::Unfiled;

/// What a group may hold of each kind, by weight: so much that its commit costs each member little, and so little that
/// nobody waits long for the others. When a hundred receivers hang, their sixteen hundred results come at once.
const GROUP: usize = 128;

/// With nothing else to write for so long, the writer files what is not filed.
const IDLE: Duration = Duration::from_millis(250);
const FOREVER: Duration = Duration::from_secs(86_400);

/// A sentence in the queue, with the way back for its reply.
trait Job: Send {
    fn run(&mut self, tx: &mut Tx<'_>) -> QueryResult<()>;
    fn bytes(&self) -> usize;
    fn weight(&self) -> usize;
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
struct Queue {
    acceptances: Line,
    others: Line,
    closed: bool,
}

#[derive(Default)]
struct Line {
    jobs: VecDeque<Box<dyn Job>>,
    bytes: usize,
}

struct Shared {
    queue: Mutex<Queue>,
    arrived: Condvar,
    /// The same for [`Writer::run_here`].
    arrived_here: Notify,
    limit: usize,
    /// So many deliveries are not filed.
    unfiled: AtomicUsize,
}

impl Shared {
    fn wake(&self) {
        self.arrived.notify_one();
        self.arrived_here.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// The door to the writer; clones share the queue.
#[derive(Clone)]
pub struct WriterHandle(Arc<Shared>);

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

    /// Whether deliveries are in rows and not yet in the indexes by endpoint.
    pub fn has_unfiled(&self) -> bool {
        self.0.unfiled.load(Ordering::Acquire) > 0
    }

    /// Lets the writer finish what is queued and end.
    pub fn close(&self) {
        self.0.lock().closed = true;
        self.0.wake();
    }
}

/// The writer itself: owns the connection and all that it knows between transactions.
pub struct Writer {
    conn: Conn,
    clock: Clock,
    directory: Directory,
    counters: Counters,
    last_stamp: Timestamp,
    unfiled: Unfiled,
    /// What is not filed has to be found out from the rows first: a transaction has failed.
    refile: bool,
    budget: ByteBudget,
    sink: Arc<dyn HintSink>,
    shared: Arc<Shared>,
}

impl Writer {
    /// A writer on an opened database. `limit`: bytes of acceptances that may queue, and as many of everything else.
    pub fn new(
        mut conn: Conn,
        clock: Clock,
        counters: Counters,
        last_stamp: Timestamp,
        budget: ByteBudget,
        sink: Arc<dyn HintSink>,
        limit: usize,
    ) -> Result<(Writer, WriterHandle), StoreError> {
        let directory = dsl::run(queries::directory(&mut conn))?;
        let shared = Arc::new(Shared {
            queue: Mutex::default(),
            arrived: Condvar::new(),
            arrived_here: Notify::new(),
            limit,
            unfiled: AtomicUsize::new(0),
        });
        let handle = WriterHandle(shared.clone());
        let (unfiled, refile) = (Unfiled::default(), false);
        Ok((Writer { conn, clock, directory, counters, last_stamp, unfiled, refile, budget, sink, shared }, handle))
    }

    /// Writes until the queue is closed and empty. Blocks; run it on a thread of its own.
    pub fn run(mut self) {
        loop {
            let group = {
                let mut queue = self.shared.lock();
                loop {
                    let group = take(&mut queue);
                    if !group.is_empty() {
                        break group;
                    }
                    if queue.closed {
                        return;
                    }
                    let waited = self.shared.arrived.wait_timeout(queue, self.patience());
                    let (again, timeout) = waited.unwrap_or_else(|poisoned| poisoned.into_inner());
                    queue = again;
                    if timeout.timed_out() && !self.unfiled.is_empty() {
                        break take(&mut queue);
                    }
                }
            };
            self.commit(group);
        }
    }

    /// The same on the calling thread, a group whenever something is queued: on virtual time everything has to happen
    /// on one thread.
    pub async fn run_here(mut self) {
        loop {
            let (group, closed) = {
                let mut queue = self.shared.lock();
                (take(&mut queue), queue.closed)
            };
            match group.is_empty() {
                false => self.commit(group),
                true if closed => return,
                true => {
                    let arrived = tokio::time::timeout(self.patience(), self.shared.arrived_here.notified());
                    if arrived.await.is_err() && !self.unfiled.is_empty() {
                        self.commit(Vec::new());
                    }
                }
            }
        }
    }

    /// How long to wait for something to write before filing what is not filed.
    fn patience(&self) -> Duration {
        if self.unfiled.is_empty() { FOREVER } else { IDLE }
    }

    /// Commits a group; an empty one only files.
    fn commit(&mut self, mut group: Vec<Box<dyn Job>>) {
        let mut hints = Hints::new();
        match self.transaction(&mut group, &mut hints) {
            Ok(()) => {
                self.shared.unfiled.store(self.unfiled.len(), Ordering::Release);
                group.into_iter().for_each(|job| job.committed());
                if !hints.is_empty() {
                    self.sink.committed(hints.into_values().collect());
                }
            }
            Err(error) if group.len() > 1 && is_members_fault(&error) => {
                let second = group.split_off(group.len() / 2);
                self.commit(group);
                self.commit(second);
            }
            Err(error) => {
                log::error!("a group of {} writes was rolled back: {error}", group.len());
                let error = StoreError::from(error);
                group.into_iter().for_each(|job| job.failed(error.clone()));
            }
        }
    }

    fn transaction(&mut self, group: &mut [Box<dyn Job>], hints: &mut Hints) -> QueryResult<()> {
        let (counters, stamp) = (self.counters, self.clock.now().max(self.last_stamp + Span::from_micros(1)));
        let result = self.refile().and_then(|()| self.try_transaction(group, hints, stamp));
        match &result {
            Ok(()) => self.last_stamp = stamp,
            Err(_) => {
                self.counters = counters;
                hints.clear();
                self.unfiled = Unfiled::default();
                self.refile = true;
                // What the failed members changed in memory never happened. If this read fails too, the next
                // transaction fails on the same database.
                match dsl::run(queries::directory(&mut self.conn)) {
                    Ok(directory) => self.directory = directory,
                    Err(error) => log::error!("the directory of endpoints could not be read again: {error}"),
                }
            }
        }
        result
    }

    /// After a failure: files what is not filed, from the rows, in a transaction of its own, so that the next group's
    /// failure does not undo it.
    fn refile(&mut self) -> QueryResult<()> {
        if self.refile {
            self.conn.immediate_transaction(|conn| dsl::run(queries::refile(conn)))?;
            self.refile = false;
        }
        Ok(())
    }

    fn try_transaction(&mut self, group: &mut [Box<dyn Job>], hints: &mut Hints, stamp: Timestamp) -> QueryResult<()> {
        AnsiTransactionManager::begin_transaction_sql(&mut self.conn, "BEGIN IMMEDIATE")?;
        let mut touched = BTreeMap::new();
        let (idle, last) = (group.is_empty(), DeliveryNo(self.counters.delivery));
        let mut tx = Tx {
            conn: &mut self.conn,
            directory: &mut self.directory,
            stamp,
            counters: &mut self.counters,
            touched: &mut touched,
            unfiled: &mut self.unfiled,
            hints,
            budget: &self.budget,
        };
        let written = group
            .iter_mut()
            .try_for_each(|job| job.run(&mut tx))
            .and_then(|()| dsl::run(queries::flush(&mut tx, last, idle)));
        let committed = written.and_then(|()| AnsiTransactionManager::commit_transaction(&mut self.conn));
        if committed.is_err() {
            // The error that made it fail matters more than one of rolling back.
            let _ = AnsiTransactionManager::rollback_transaction(&mut self.conn);
        }
        committed
    }
}

/// Takes the next group; what it holds in memory is no longer counted as queued.
fn take(queue: &mut Queue) -> Vec<Box<dyn Job>> {
    let mut group: Vec<Box<dyn Job>> = Vec::new();
    for line in [&mut queue.others, &mut queue.acceptances] {
        let mut weight = 0;
        while let Some(job) = line.jobs.pop_front_if(|job| weight == 0 || weight + job.weight() <= GROUP) {
            weight += job.weight().max(1);
            line.bytes = line.bytes.saturating_sub(job.bytes());
            group.push(job);
        }
    }
    group
}

/// Whether one member may be to blame, rather than the database as a whole.
fn is_members_fault(error: &diesel::result::Error) -> bool {
    use diesel::result::{DatabaseErrorKind, Error};
    match error {
        Error::DatabaseError(kind, _) => {
            !matches!(kind, DatabaseErrorKind::Unknown | DatabaseErrorKind::ClosedConnection)
        }
        Error::NotFound
        | Error::DeserializationError(_)
        | Error::SerializationError(_)
        | Error::QueryBuilderError(_) => true,
        _ => false,
    }
}
