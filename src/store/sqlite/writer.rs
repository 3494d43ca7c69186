//! The one writer: everything that arrived while the last commit ran goes into one transaction (group commit).
//!
//! Each member checks before it writes, so a group normally fails only with the database. If it does fail, it is split
//! in halves until the culprit stands alone; the others go through.

use std::sync::Arc;
use std::time::Duration;

use diesel::QueryResult;
use diesel::connection::{AnsiTransactionManager, SimpleConnection, TransactionManager};

use super::queue::{Behind, Job, Shared, WriterHandle};
use super::{Conn, Room, Tx, dsl, queries};
use crate::clock::Clock;
use crate::domain::content::ByteBudget;
use crate::domain::ids::DeliveryNo;
use crate::domain::time::{Span, Timestamp};
use crate::store::directory::Directory;
use crate::store::error::StoreError;
use crate::store::hint::HintSink;
use crate::store::sentence::{Counters, Credit, Hints, Uncounted};
use crate::store::unfiled::Unfiled;
use crate::store::unwritten::Unwritten;

/// With nothing else to write for so long, the writer writes and files everything that is behind.
const IDLE: Duration = Duration::from_millis(250);
const FOREVER: Duration = Duration::from_secs(86_400);

/// The writer itself: owns the connection and all that it knows between transactions.
pub struct Writer {
    conn: Conn,
    clock: Clock,
    directory: Directory,
    counters: Counters,
    last_stamp: Timestamp,
    unwritten: Unwritten,
    unfiled: Unfiled,
    uncounted: Uncounted,
    /// A transaction has failed: what is behind has to be found out from the database first.
    lost: bool,
    /// Nobody has wanted anything for a while.
    idle: bool,
    /// How much of what is behind may be done before something is added to it again.
    credit: Credit,
    /// Commits are not waited for at present (`PRAGMA synchronous`).
    relaxed: bool,
    room: Option<Room>,
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
        let shared = Shared::new(limit, DeliveryNo(counters.delivery));
        let handle = WriterHandle(shared.clone());
        let writer = Writer {
            conn,
            clock,
            directory,
            counters,
            last_stamp,
            unwritten: Unwritten::default(),
            unfiled: Unfiled::default(),
            uncounted: Uncounted::default(),
            lost: false,
            idle: false,
            credit: Credit::default(),
            relaxed: false,
            room: None,
            budget,
            sink,
            shared,
        };
        Ok((writer, handle))
    }

    /// Keeps room for the log.
    pub fn with_room(self, room: Room) -> Writer {
        Writer { room: Some(room), ..self }
    }

    /// Writes until the queue is closed and empty. Blocks; run it on a thread of its own.
    pub fn run(mut self) {
        while let Some(group) = self.next() {
            self.commit(group);
            self.keep_room();
        }
    }

    fn keep_room(&mut self) {
        if let Some(Err(error)) = self.room.as_mut().map(Room::keep) {
            log::warn!("no room is made for the write-ahead log any more: {error}");
            self.room = None;
        }
    }

    /// What to do next: a group, or (an empty one) what is behind. `None` at the end.
    fn next(&mut self) -> Option<Vec<Box<dyn Job>>> {
        let shared = self.shared.clone();
        let mut queue = shared.lock();
        loop {
            let group = queue.take();
            self.idle &= group.is_empty();
            if !group.is_empty() || self.has_time_for_more() {
                return Some(group);
            }
            if queue.closed {
                return None;
            }
            let waited = shared.arrived.wait_timeout(queue, self.patience());
            let (again, timeout) = waited.unwrap_or_else(|poisoned| poisoned.into_inner());
            queue = again;
            self.idle = timeout.timed_out();
        }
    }

    /// The same as [`run`](Self::run) on the calling thread, a group whenever something is queued: on virtual time
    /// everything has to happen on one thread.
    pub async fn run_here(mut self) {
        loop {
            let (group, closed) = {
                let mut queue = self.shared.lock();
                (queue.take(), queue.closed)
            };
            self.idle &= group.is_empty();
            if !group.is_empty() || self.has_time_for_more() {
                self.commit(group);
            } else if closed {
                return;
            } else {
                let arrived = tokio::time::timeout(self.patience(), self.shared.arrived_here.notified());
                self.idle = arrived.await.is_err();
            }
        }
    }

    /// With nothing in the queue: whether something that is behind is to be done now.
    fn has_time_for_more(&mut self) -> bool {
        if self.idle {
            return !self.unfiled.is_empty();
        }
        let last = DeliveryNo(self.counters.delivery);
        let through = self.unwritten.written_through(last);
        (self.credit.rows > 0 && self.unwritten.is_due(last))
            || (self.credit.cards > 0 && self.unfiled.due(last, through).is_some())
    }

    /// How long to wait for something to write before all that is behind is done.
    fn patience(&self) -> Duration {
        if self.unfiled.is_empty() { FOREVER } else { IDLE }
    }

    /// Commits a group, or, if there is none, some of what is behind.
    fn commit(&mut self, mut group: Vec<Box<dyn Job>>) {
        let mut hints = Hints::new();
        match self.transaction(&mut group, &mut hints) {
            Ok(()) => {
                let newest = DeliveryNo(self.counters.delivery);
                self.shared.publish(Behind {
                    unfiled: self.unfiled.len(),
                    written_through: self.unwritten.written_through(newest),
                    newest,
                    all_counted: self.uncounted.is_empty(),
                    hints: &hints,
                });
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
        let counters = self.counters;
        let result = self.recover().and_then(|()| self.try_transaction(group, hints));
        if result.is_err() {
            self.counters = counters;
            hints.clear();
            self.unwritten = Unwritten::default();
            self.unfiled = Unfiled::default();
            self.uncounted = Uncounted::default();
            self.lost = true;
        }
        result
    }

    /// After a failure, what the failed members changed in memory never happened. So everything is read again, and what
    /// is behind is written and filed from the database alone, in a transaction of its own, so that the next group's
    /// failure does not undo it.
    fn recover(&mut self) -> QueryResult<()> {
        if !self.lost {
            return Ok(());
        }
        let last_stamp = self.conn.immediate_transaction(|conn| dsl::run(queries::catch_up_from_rows(conn)))?;
        self.last_stamp = self.last_stamp.max(last_stamp);
        self.directory = dsl::run(queries::directory(&mut self.conn))?;
        self.lost = false;
        Ok(())
    }

    /// What is behind can be worked out again, so nobody has to wait until it is on disk; everything else is on disk when
    /// its transaction is over, and all that came before with it.
    fn relax(&mut self, relaxed: bool) -> QueryResult<()> {
        if self.relaxed != relaxed {
            self.conn.batch_execute(if relaxed {
                "PRAGMA synchronous = NORMAL"
            } else {
                "PRAGMA synchronous = FULL"
            })?;
            self.relaxed = relaxed;
        }
        Ok(())
    }

    fn try_transaction(&mut self, group: &mut [Box<dyn Job>], hints: &mut Hints) -> QueryResult<()> {
        let stamp = self.clock.now().max(self.last_stamp + Span::from_micros(1));
        self.relax(group.is_empty())?;
        AnsiTransactionManager::begin_transaction_sql(&mut self.conn, "BEGIN IMMEDIATE")?;
        let (idle, mut credit) = (self.idle, self.credit);
        let last = DeliveryNo(self.counters.delivery);
        let mut tx = Tx {
            conn: &mut self.conn,
            directory: &mut self.directory,
            stamp,
            counters: &mut self.counters,
            uncounted: &mut self.uncounted,
            unwritten: &mut self.unwritten,
            unfiled: &mut self.unfiled,
            hints,
            budget: &self.budget,
        };
        let written = match group.is_empty() {
            true => dsl::run(queries::catch_up(&mut tx, &mut credit, idle)),
            false => group.iter_mut().try_for_each(|job| job.run(&mut tx)),
        };
        let written = written.and_then(|()| dsl::run(queries::flush(&mut tx, last)));
        let committed = written.and_then(|()| AnsiTransactionManager::commit_transaction(&mut self.conn));
        match &committed {
            Ok(()) => {
                self.last_stamp = stamp;
                credit.add(self.counters.delivery - last.0);
                self.credit = credit;
            }
            // The error that made it fail matters more than one of rolling back.
            Err(_) => drop(AnsiTransactionManager::rollback_transaction(&mut self.conn)),
        }
        committed
    }
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
