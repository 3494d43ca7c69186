//! The one writer: everything that arrived while the last commit ran goes into one transaction (group commit).
//!
//! Each member checks before it writes, so a group normally fails only with the database. If it does fail, it is split
//! in halves until the culprit stands alone; the others go through.

use std::sync::Arc;
use std::time::Duration;

use diesel::QueryResult;
use diesel::connection::{AnsiTransactionManager, SimpleConnection, TransactionManager};

use super::queue::{Behind, Job, Shared, WriterHandle};
use super::{Conn, Presence, Room, Tx, dsl, queries};
use crate::clock::Clock;
use crate::domain::content::ByteBudget;
use crate::domain::ids::DeliveryNo;
use crate::domain::seldom::Seldom;
use crate::domain::time::{Span, Timestamp};
use crate::store::directory::Directory;
use crate::store::error::StoreError;
use crate::store::hint::HintSink;
use crate::store::sentence::{Counters, Credit, Hints, Uncounted};
use crate::store::unfiled::Unfiled;
use crate::store::unwritten::Unwritten;

/// Whoever posts an event waits for at most so much of other work in the transaction before his, or for one endpoint's
/// results. When a hundred receivers hang, a hundred results come at the same moment.
const ENOUGH: Span = Span::from_micros(500);
/// So much is done in a transaction in which nobody waits for an event to be accepted.
const ENOUGH_ALONE: Span = Span::MILLISECOND;
/// Of events with so many deliveries together a transaction takes no more: a group is counted in events, but what they cost
/// is their deliveries. A full group for a hundred endpoints has fewer.
const DELIVERIES: usize = 16_384;
/// With nothing to write for so long, the writer does what is due of what is behind: not at once, because what it has just
/// committed is now on its way to receivers, and would have to share the processor with it.
const LULL: Duration = Duration::from_millis(1);
/// With nothing to write for so long, it does everything that is behind.
const IDLE: Duration = Duration::from_millis(250);
const FOREVER: Duration = Duration::from_secs(86_400);

/// For how long nobody has wanted anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quiet {
    No,
    Lull,
    Long,
}

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
    quiet: Quiet,
    /// How much of what is behind may be done before something is added to it again.
    credit: Credit,
    /// So many of the last group were carried out; the rest was left for another transaction.
    done: usize,
    /// Commits are not waited for at present (`PRAGMA synchronous`).
    relaxed: bool,
    room: Option<Room>,
    presence: Option<Presence>,
    /// Writes that were rolled back.
    told: Seldom,
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
        let now = clock.now();
        let behind = conn.immediate_transaction(|conn| dsl::run(queries::catch_up_from_rows(conn, now)))?;
        let last_stamp = last_stamp.max(behind);
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
            quiet: Quiet::No,
            credit: Credit::default(),
            done: 0,
            relaxed: false,
            room: None,
            presence: None,
            told: Seldom::default(),
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

    /// Refuses to write once the database is gone from its place.
    pub fn watching(self, presence: Presence) -> Writer {
        Writer { presence: Some(presence), ..self }
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
            if self.is_to_work(&group) {
                return Some(group);
            }
            if queue.closed {
                return None;
            }
            let (patience, then) = self.patience();
            let waited = shared.arrived.wait_timeout(queue, patience);
            let (again, timeout) = waited.unwrap_or_else(|poisoned| poisoned.into_inner());
            queue = again;
            if timeout.timed_out() {
                self.quiet = then;
            }
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
            if self.is_to_work(&group) {
                self.commit(group);
            } else if closed {
                return;
            } else {
                let (patience, then) = self.patience();
                if tokio::time::timeout(patience, self.shared.arrived_here.notified()).await.is_err() {
                    self.quiet = then;
                }
            }
        }
    }

    /// Whether there is something to do now: this group, or something that is behind.
    fn is_to_work(&mut self, group: &[Box<dyn Job>]) -> bool {
        if !group.is_empty() {
            self.quiet = Quiet::No;
        }
        match self.quiet {
            Quiet::No => !group.is_empty(),
            Quiet::Lull => self.is_due(),
            Quiet::Long => !self.unfiled.is_empty(),
        }
    }

    /// Whether something is so far behind that it is to be done in the next lull.
    fn is_due(&mut self) -> bool {
        let last = DeliveryNo(self.counters.delivery);
        let through = self.unwritten.written_through(last);
        (self.credit.rows > 0 && self.unwritten.is_due(last))
            || (self.credit.cards > 0 && self.unfiled.due(last, through).is_some())
    }

    /// How long to wait for something to write, and how quiet it is then.
    fn patience(&mut self) -> (Duration, Quiet) {
        match self.unfiled.is_empty() {
            true => (FOREVER, Quiet::Long),
            false if self.quiet == Quiet::No && self.is_due() => (LULL, Quiet::Lull),
            false => (IDLE, Quiet::Long),
        }
    }

    /// Commits a group, or, if there is none, some of what is behind.
    fn commit(&mut self, mut group: Vec<Box<dyn Job>>) {
        let mut hints = Hints::new();
        let result = self.transaction(&mut group, &mut hints);
        if self.done < group.len() {
            self.shared.lock().put_back(group.split_off(self.done));
        }
        match result {
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
                self.tell(group.len(), &error);
                let error = StoreError::from(error);
                group.into_iter().for_each(|job| job.failed(error.clone()));
            }
        }
    }

    /// Tells of writes that were rolled back; as long as that goes on, not of each of them.
    fn tell(&mut self, writes: usize, error: &diesel::result::Error) {
        if let Some(more) = self.told.turn("rolled back", self.clock.uptime()) {
            log::error!("{writes} writes were rolled back together: {error}{more}");
        }
    }

    /// Carries out as much of a group as one transaction takes.
    fn transaction(&mut self, group: &mut [Box<dyn Job>], hints: &mut Hints) -> QueryResult<()> {
        let counters = self.counters;
        self.done = group.len();
        let presence = self.presence.as_ref().map_or(Ok(()), Presence::check);
        let result = presence.and_then(|()| self.recover()).and_then(|()| self.try_transaction(group, hints));
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
        let now = self.clock.now();
        let last_stamp = self.conn.immediate_transaction(|conn| dsl::run(queries::catch_up_from_rows(conn, now)))?;
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
        let (idle, mut credit) = (self.quiet == Quiet::Long, self.credit);
        let last = DeliveryNo(self.counters.delivery);
        let mut tx = Tx {
            conn: &mut self.conn,
            directory: &mut self.directory,
            stamp,
            counters: &mut self.counters,
            deliveries: 0,
            uncounted: &mut self.uncounted,
            unwritten: &mut self.unwritten,
            unfiled: &mut self.unfiled,
            hints,
            budget: &self.budget,
        };
        let written = match group.is_empty() {
            true => dsl::run(queries::catch_up(&mut tx, &mut credit, idle)),
            false => run_all(group, &mut tx, &self.clock, &mut self.done),
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

/// Carries out a group's jobs: acceptances first, until they have [`DELIVERIES`], then the others for as long as those took,
/// or for [`ENOUGH`]. `done` tells how many jobs were carried out; what is left for another transaction stands behind them.
fn run_all(group: &mut [Box<dyn Job>], tx: &mut Tx<'_>, clock: &Clock, done: &mut usize) -> QueryResult<()> {
    let began = clock.uptime();
    let acceptances = group.iter().take_while(|job| job.is_acceptance()).count();
    let mut next = 0;
    while next < acceptances && tx.deliveries < DELIVERIES {
        group[next].run(tx)?;
        next += 1;
    }
    let left = acceptances - next;
    group[next..].rotate_left(left);
    // Should one of the others fail, those left have no part in it.
    *done = group.len() - left;
    let mut now = clock.uptime();
    let until = now + (now - began).max(if acceptances > 0 { ENOUGH } else { ENOUGH_ALONE });
    while next < *done && now <= until {
        group[next].run(tx)?;
        next += 1;
        now = clock.uptime();
    }
    *done = next;
    Ok(())
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
