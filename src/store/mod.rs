//! The only door to the database. A request to change something is a [`Sentence`], one to read a [`Question`]; what the
//! engine needs is the trait [`Queue`], so that the simulation can stand between engine and store.
//!
//! [`Sentence`]: sentence::Sentence
//! [`Question`]: sentence::Question

pub mod accept;
pub mod change;
pub mod endpoint_record;
pub mod error;
pub mod guard;
pub mod hint;
pub mod list;
pub mod load;
pub mod record;
pub mod rows;
pub mod view;

mod directory;
pub mod numbers;
mod schema;
pub mod sentence;
pub mod sqlite;
mod unfiled;
mod unwritten;
mod vault;

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use async_trait::async_trait;

use crate::clock::Clock;
use crate::domain::content::{ByteBudget, Content};
use crate::domain::dispatcher::{Batch, Loaded, Rest};
use crate::domain::health::Health;
use crate::domain::ids::{DeliveryNo, EndpointNo, EventNo, TenantNo};
use crate::domain::notice::Notice;
use change::{File, ReleaseSpared, Tell, WriteRows};
use endpoint_record::EndpointRecord;
use error::StoreError;
use hint::HintSink;
use list::{EventFound, FindEvent, FindRange};
use load::{LoadContents, LoadEndpoint, LoadLines, LoadWindow, Needed, NeededBy};
use record::{Record, RecordRest, Recorded};
use sentence::{Needs, Question, Sentence};
pub use vault::{Vault, WrongKey};

/// The tenant that exists from the start.
pub const DEFAULT_TENANT: TenantNo = TenantNo(1);

/// An endpoint as its actor needs it.
#[derive(Clone, Debug)]
pub struct Owned {
    pub record: EndpointRecord,
    pub health: Health,
    pub health_version: i64,
    /// The endpoint's newest delivery.
    pub newest: DeliveryNo,
    /// Run and attempts ever made of the deliveries asked for.
    pub positions: HashMap<DeliveryNo, (u32, u32)>,
}

/// What the engine asks of the store.
#[async_trait]
pub trait Queue: Send + Sync {
    /// An endpoint, and where these of its deliveries stand; `None` if it is deleted.
    async fn endpoint(&self, endpoint: EndpointNo, positions: Vec<DeliveryNo>) -> Result<Option<Owned>, StoreError>;
    /// The beginnings of its two lines.
    async fn window(&self, window: LoadWindow) -> Result<Loaded, StoreError>;
    /// The events of attempts about to start; those that are gone are missing.
    async fn contents(&self, events: Vec<EventNo>) -> Result<Vec<(EventNo, Content)>, StoreError>;
    /// Writes what attempts came to.
    async fn record(&self, batch: Batch) -> Result<Recorded, StoreError>;
    /// Gives deliveries up to the cut that spared them.
    async fn release(&self, deliveries: Vec<DeliveryNo>) -> Result<(), StoreError>;
    /// Writes when an actor with nothing to do is needed next.
    async fn rest(&self, rest: Rest) -> Result<(), StoreError>;
    /// Tells the installation's operators something.
    async fn tell_operators(&self, notice: Notice) -> Result<(), StoreError>;
    /// The endpoints whose actors are needed.
    async fn needed_by(&self, question: NeededBy) -> Result<Vec<Needed>, StoreError>;
}

/// The store on its database. Clones share it.
#[derive(Clone)]
pub struct Store(Arc<Inner>);

struct Inner {
    writer: sqlite::WriterHandle,
    readers: sqlite::Readers,
    vault: Vault,
    clock: Clock,
}

/// How a store is run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Connections that read.
    pub readers: usize,
    /// Bytes of acceptances that may queue for the writer, and as many of everything else.
    pub write_queue: usize,
    /// Bodies of events that the actors may hold.
    pub budget: ByteBudget,
}

/// The writer's thread. Ends when the store is closed.
pub struct WriterThread(JoinHandle<()>);

impl WriterThread {
    /// Waits until everything queued is written.
    pub fn join(self) {
        if self.0.join().is_err() {
            log::error!("the writer's thread panicked");
        }
    }
}

impl Store {
    /// Runs the store on a database that was opened: the writer on a thread of its own, readers on `runtime`.
    pub fn start(
        path: &Path,
        opened: sqlite::Opened,
        clock: Clock,
        vault: Vault,
        sink: Arc<dyn HintSink>,
        options: Options,
        runtime: tokio::runtime::Handle,
    ) -> Result<(Store, WriterThread), StoreError> {
        let sqlite::Opened { mut conn, counters, last_stamp, key_check, .. } = opened;
        let new_check = key_check.is_none().then(|| vault.check(clock.random_bits()));
        sqlite::begin(&mut conn, clock.anchor(), new_check)?;
        let (writer, handle) =
            sqlite::Writer::new(conn, clock.clone(), counters, last_stamp, options.budget, sink, options.write_queue)?;
        let writer = match sqlite::Room::make(path) {
            Ok(room) => writer.with_room(room),
            Err(error) => {
                log::warn!("no room is made for the write-ahead log: {error}");
                writer
            }
        };
        let presence = sqlite::Presence::of(path).map_err(|error| StoreError::Unavailable(error.to_string()))?;
        let writer = writer.watching(presence);
        let checkpointer = sqlite::Checkpointer::start(path, clock.clone())?;
        let thread = std::thread::Builder::new().name("store-writer".into()).spawn(move || {
            writer.run();
            drop(checkpointer);
        });
        let thread = thread.map_err(|error| StoreError::Unavailable(error.to_string()))?;
        let readers = sqlite::Readers::pool(&path.to_string_lossy(), options.readers, runtime)?;
        Ok((Store(Arc::new(Inner { writer: handle, readers, vault, clock })), WriterThread(thread)))
    }

    /// A store of parts: for tests that keep everything on one thread.
    pub fn assembled(writer: sqlite::WriterHandle, readers: sqlite::Readers, vault: Vault, clock: Clock) -> Store {
        Store(Arc::new(Inner { writer, readers, vault, clock }))
    }

    /// Carries a sentence out and waits for its commit: when it returns, the change is on disk.
    pub async fn write<S: Sentence<sqlite::Conn>>(&self, sentence: S) -> Result<S::Reply, StoreError> {
        self.0.writer.write(sentence).await
    }

    /// Answers a question from one snapshot, in which everything is in rows that was committed before it was asked and
    /// that it reads.
    pub async fn ask<Q: Question<sqlite::Conn>>(&self, question: Q) -> Result<Q::Answer, StoreError> {
        match question.needs() {
            Needs::Nothing => {}
            Needs::Endpoint(endpoint) => drop(self.file(endpoint).await?),
            Needs::Delivery(no) => self.write_rows(no, no).await?,
            Needs::Event(tenant, id) => {
                if self.0.writer.written_through().is_some()
                    && let Some((first, last)) = self.0.readers.ask(FindRange { tenant, id }).await?
                {
                    self.write_rows(first, last).await?;
                }
            }
            Needs::Rows => self.write_rows(DeliveryNo(0), DeliveryNo(i64::MAX)).await?,
        }
        self.0.readers.ask(question).await
    }

    /// An event by its id, with all its deliveries in rows, also if it is accepted in this moment.
    pub async fn event(&self, question: FindEvent) -> Result<Option<EventFound>, StoreError> {
        match self.ask(question.clone()).await? {
            Some(found) if found.summary.without_rows > 0 => self.ask(question).await,
            found => Ok(found),
        }
    }

    /// Has all of an endpoint filed and counted. Answers up to where, unless all of all was filed already.
    pub async fn file(&self, endpoint: EndpointNo) -> Result<Option<DeliveryNo>, StoreError> {
        if !self.0.writer.has_unfiled() {
            return Ok(None);
        }
        self.write(File(endpoint)).await.map(Some)
    }

    /// Has the rows of these deliveries written, both included.
    async fn write_rows(&self, first: DeliveryNo, last: DeliveryNo) -> Result<(), StoreError> {
        // Those that come in meanwhile are not waited for.
        let Some((written, newest)) = self.0.writer.written_through() else { return Ok(()) };
        let (first, last) = (first.max(DeliveryNo(written.0 + 1)), last.min(newest));
        while first <= last && self.write(WriteRows { first, last }).await? {}
        Ok(())
    }

    /// Finishes what is queued, then ends the writer.
    pub fn close(&self) {
        self.0.writer.close();
    }

    pub fn clock(&self) -> &Clock {
        &self.0.clock
    }

    /// Reads an endpoint's row.
    pub fn decode(&self, row: rows::EndpointRow) -> Result<EndpointRecord, StoreError> {
        EndpointRecord::from_row(row, &self.0.vault)
    }

    /// The row of an endpoint.
    pub fn encode(&self, record: &EndpointRecord) -> rows::EndpointRow {
        record.to_row(&self.0.vault, [self.0.clock.random_bits(), self.0.clock.random_bits()])
    }
}

#[async_trait]
impl Queue for Store {
    async fn endpoint(&self, endpoint: EndpointNo, positions: Vec<DeliveryNo>) -> Result<Option<Owned>, StoreError> {
        let Some(found) = self.ask(LoadEndpoint { endpoint, positions }).await? else {
            return Ok(None);
        };
        Ok(Some(Owned {
            record: self.decode(found.endpoint)?,
            health: found.health.health(),
            health_version: found.health.version,
            newest: DeliveryNo(found.health.last_delivery),
            positions: found.positions,
        }))
    }

    async fn window(&self, window: LoadWindow) -> Result<Loaded, StoreError> {
        let filed_through = self.file(window.endpoint).await?;
        self.ask(LoadLines { window, filed_through }).await
    }

    async fn contents(&self, events: Vec<EventNo>) -> Result<Vec<(EventNo, Content)>, StoreError> {
        self.ask(LoadContents(events)).await
    }

    async fn record(&self, batch: Batch) -> Result<Recorded, StoreError> {
        self.write(Record(batch)).await
    }

    async fn release(&self, deliveries: Vec<DeliveryNo>) -> Result<(), StoreError> {
        self.write(ReleaseSpared(deliveries)).await
    }

    async fn rest(&self, rest: Rest) -> Result<(), StoreError> {
        self.write(RecordRest(rest)).await
    }

    async fn tell_operators(&self, notice: Notice) -> Result<(), StoreError> {
        // Operators read the default tenant's inbox.
        self.write(Tell { tenant: DEFAULT_TENANT, notice, now: self.0.clock.now() }).await
    }

    async fn needed_by(&self, question: NeededBy) -> Result<Vec<Needed>, StoreError> {
        let mut needed = self.ask(question).await?;
        // Rows learn of new deliveries a little late; a lost hint is to be found all the same.
        for one in &mut needed {
            one.newest = one.newest.max(self.0.writer.newest_of(one.endpoint).unwrap_or(one.newest));
        }
        Ok(needed)
    }
}
