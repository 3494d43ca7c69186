//! The world: a database file, receivers, time. Builds one life of the process after the other on it.

use std::path::PathBuf;
use std::rc::Rc;
use std::sync::{Arc, OnceLock};

use posthaste::clock::Clock;
use posthaste::domain::content::ByteBudget;
use posthaste::domain::headers::HeaderPrefix;
use posthaste::domain::time::{Span, Timestamp};
use posthaste::engine::{Engine, HintDoor, Settings};
use posthaste::store::hint::HintSink;
use posthaste::store::sqlite::{self, Readers, Writer};
use posthaste::store::{Queue, Store, Vault};
use tempfile::TempDir;

use super::checks::Checks;
use super::ledger::{Ledger, Result, Wire};
use super::life::Life;
use super::planted::{Plant, PlantedHints, PlantedQueue};
use super::trouble::{Plan, Trouble, TroubledHints, TroubledQueue};
use super::wire::{Receivers, Scripted};

/// When every world begins: 2026-09-03T14:24:01.412Z.
pub const BEGINNING: Timestamp = Timestamp::from_micros(1_788_445_441_412_000);

pub struct World {
    pub seed: u64,
    /// How much faster engine time runs than virtual time.
    pub scale: f64,
    pub settings: Settings,
    /// Trouble to come, of the next life on.
    pub plan: Plan,
    /// The fault that is planted, if one is.
    pub plant: Option<Plant>,
    pub ledger: Ledger,
    pub receivers: Receivers,
    checks: Rc<Checks>,
    now: Timestamp,
    lives: u32,
    dir: TempDir,
}

impl World {
    pub fn new(seed: u64, scale: f64) -> World {
        let dir = tempfile::Builder::new().prefix("posthaste-sim-").tempdir_in(fast_disk()).expect("a directory");
        std::fs::write(dir.path().join("db"), template()).expect("a file");
        World {
            seed,
            scale,
            settings: Settings {
                max_attempts: 10_000,
                restart_rate: 500,
                window: 512,
                read_bodies: 1 << 30,
                arbiters: 0,
                floors: 0,
                header_prefix: HeaderPrefix::default(),
            },
            plan: Plan::default(),
            plant: None,
            ledger: Ledger::default(),
            receivers: Receivers::default(),
            checks: Rc::new(Checks::new(&dir.path().join("db"), scale)),
            now: BEGINNING,
            lives: 0,
            dir,
        }
    }

    pub fn path(&self) -> String {
        self.dir.path().join("db").to_string_lossy().into_owned()
    }

    /// Engine time while no process lives.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Time passes while the process is dead.
    pub fn rest(&mut self, span: Span) {
        self.now = self.now + span;
    }

    /// Every request so far.
    pub fn wires(&self) -> Vec<Wire> {
        self.ledger.pages().wire.clone()
    }

    /// Every recorded result so far, in the order of the commits.
    pub fn results(&self) -> Vec<Result> {
        self.ledger.results()
    }

    /// The end of the world: nothing waits any more.
    pub fn end(self) {
        let model = self.checks.model.borrow();
        let waits = model.deliveries.iter().find(|(_, delivery)| delivery.state.waits());
        if let Some((no, delivery)) = waits {
            panic!(
                "delivery {no} still waits at the end of the world ({}): {}, due at {}",
                self.now, delivery.state, delivery.due_at
            );
        }
    }

    /// One life of the process. When the script returns, the process is killed: whatever is on the wire, queued or half
    /// done is lost.
    pub fn live<T>(&mut self, script: impl AsyncFnOnce(&Life) -> T) -> T {
        self.lives += 1;
        self.checks.model.borrow_mut().life_begins(self.lives, self.now, &self.settings);
        let runtime = || {
            let mut builder = tokio::runtime::Builder::new_current_thread();
            builder.enable_time().start_paused(true).build().expect("a runtime")
        };
        let system = actix_rt::System::with_tokio_rt(runtime);
        let (answer, ended) = system.block_on(async {
            // Everything of this life is a task of this set; dropping it inside the runtime is the kill.
            let tasks = tokio::task::LocalSet::new();
            let lived = tasks.run_until(async {
                let life = self.begin();
                let answer = script(&life).await;
                (answer, life.clock.now())
            });
            let lived = lived.await;
            drop(tasks);
            lived
        });
        self.now = ended;
        self.checks.inspect(&self.ledger);
        self.checks.model.borrow_mut().life_ended(&self.ledger.pages(), ended);
        answer
    }

    fn begin(&self) -> Life {
        let clock = Clock::simulated(self.now, self.seed ^ u64::from(self.lives) << 32, self.scale);
        let path = self.path();
        let opened = sqlite::open(&path).expect("the database opens");
        let mut conn = opened.conn;
        let new_check = opened.key_check.is_none().then(Vec::new);
        sqlite::begin(&mut conn, clock.anchor(), new_check).expect("the clock's anchor is kept");
        let door = HintDoor::default();
        let seed = self.seed.wrapping_mul(31).wrapping_add(u64::from(self.lives));
        let trouble = Trouble::new(self.plan.clone(), seed, self.ledger.clone(), clock.clone());
        let hints = Arc::new(TroubledHints { door: door.clone(), trouble: trouble.clone() });
        let hints: Arc<dyn HintSink> = match self.plant {
            Some(plant) => Arc::new(PlantedHints { plant, inner: hints }),
            None => hints,
        };
        let (writer, handle) = Writer::new(
            conn,
            clock.clone(),
            opened.counters,
            opened.last_stamp,
            ByteBudget::new(1 << 20),
            hints,
            1 << 24,
        )
        .expect("a writer");
        tokio::task::spawn_local(writer.run_here());
        let readers = Readers::inline(&path).expect("a reader");
        let store = Store::assembled(handle, readers, Vault::new([7; 32]), clock.clone());
        let wire = Scripted {
            receivers: self.receivers.clone(),
            ledger: self.ledger.clone(),
            clock: clock.clone(),
            life: self.lives,
            opened: Arc::default(),
        };
        let opened = wire.opened.clone();
        let queue = TroubledQueue { store: store.clone(), trouble: trouble.clone(), life: self.lives };
        let queue: Arc<dyn Queue> = match self.plant {
            Some(plant) => Arc::new(PlantedQueue::new(plant, queue)),
            None => Arc::new(queue),
        };
        let engine = Engine::start(queue, Arc::new(wire), clock.clone(), &door, self.settings.clone());
        Life {
            store,
            engine,
            clock,
            ledger: self.ledger.clone(),
            receivers: self.receivers.clone(),
            opened,
            trouble,
            checks: self.checks.clone(),
            number: self.lives,
            plant: self.plant,
        }
    }
}

/// Memory if there is a file system in it: thousands of commits wait for the disk otherwise.
fn fast_disk() -> PathBuf {
    let memory = PathBuf::from("/dev/shm");
    if memory.is_dir() { memory } else { std::env::temp_dir() }
}

/// An empty database with its schema, made once.
fn template() -> &'static [u8] {
    static TEMPLATE: OnceLock<Vec<u8>> = OnceLock::new();
    TEMPLATE.get_or_init(|| {
        let dir = tempfile::tempdir_in(fast_disk()).expect("a directory");
        let path = dir.path().join("db");
        drop(sqlite::open(&path.to_string_lossy()).expect("an empty database"));
        std::fs::read(path).expect("the file")
    })
}
