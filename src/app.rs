//! The composition root: what is started in which order, and how it all stops.
//!
//! Start: lock, address, migrations, clock, store, engine, background work, API. Stop, by conversation: the API answers 503, no
//! attempt starts, answers that come before the deadline are recorded, the store finishes what is queued.

use std::fs;
use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

use actix_web::dev::ServerHandle;
use tokio::sync::watch;

use crate::api::{self, Api};
use crate::clock::Clock;
use crate::config::{self, Config, parse_key};
use crate::domain::content::ByteBudget;
use crate::domain::duration_text::format_duration;
use crate::domain::time::Span;
use crate::engine::{Engine, HintDoor, Settings, retention};
use crate::signals::Signals;
use crate::store::error::StoreError;
use crate::store::sqlite::{self, Lock, OpenError};
use crate::store::{Options, Queue, Store, Vault, WriterThread};
use crate::transport::awc::{AwcFactory, MAX_IDLE, Options as TransportOptions};
use crate::transport::resolve::SystemResolver;

/// Why the process could not start; each text is for the person who started it.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error("the store did not start: {0}")]
    Store(#[from] StoreError),
    #[error("{what}: {error}")]
    Io { what: String, error: io::Error },
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
    #[error("{0}")]
    Key(String),
    #[error("{limit} file descriptors are too few, at least {needed} are needed (ulimit -n)")]
    Descriptors { limit: usize, needed: usize },
}

fn io_error(what: impl Into<String>) -> impl FnOnce(io::Error) -> StartError {
    let what = what.into();
    move |error| StartError::Io { what, error }
}

/// Everything that runs. Made inside an actix system.
pub struct App {
    pub address: SocketAddr,
    pub store: Store,
    pub engine: Engine,
    /// If it was generated at this start; it is printed then.
    pub generated_key: Option<String>,
    config: Config,
    server: ServerHandle,
    serving: actix_web::rt::task::JoinHandle<io::Result<()>>,
    writer: WriterThread,
    stop: watch::Sender<bool>,
    _threads: StoreThreads,
    _lock: Lock,
}

impl App {
    /// Starts everything; when it returns the API answers.
    pub async fn start(mut config: Config) -> Result<App, StartError> {
        let descriptors = raise_descriptor_limit()?;
        // One database has one lock, by whatever name it is called.
        config.database = sqlite::resolved(&config.database)?;
        let lock = Lock::take(&config.database)?;
        // Whatever may fail for reasons that people will put right comes before anything is made.
        let listener =
            TcpListener::bind(config.listen).map_err(io_error(format!("cannot listen on {}", config.listen)))?;
        let vault = Vault::new(encryption_key(&config)?);
        let opened = sqlite::open(&config.database.to_string_lossy())?;
        if opened.key_check.as_ref().is_some_and(|check| !vault.has_made(check)) {
            return Err(StartError::Key(format!(
                "the secrets in {} were encrypted with another key than the one that is given",
                config.database.display()
            )));
        }
        let clock = Clock::resume(opened.anchor, opened.last_stamp, config.time_scale);
        let ahead = clock.now().since(clock.wall());
        if config.time_scale == 1.0 && ahead > config::CLOCK_AHEAD {
            log::warn!(
                "the engine's clock is {} ahead of the wall clock, because this database was used with --time-scale or \
                 the wall clock was set back; it goes on from there, and every time it tells is as far ahead",
                format_duration(Span::from_secs(ahead.as_micros().unsigned_abs() / 1_000_000))
            );
        }
        let threads = StoreThreads::start()?;
        let door = HintDoor::default();
        let options = Options {
            readers: config::READERS,
            write_queue: config::WRITE_QUEUE_BYTES,
            budget: ByteBudget::new(config::WAITING_BODIES_BYTES),
        };
        let sink = Arc::new(door.clone());
        let (store, writer) =
            Store::start(&config.database, opened, clock.clone(), vault, sink, options, threads.handle())?;
        let transports = AwcFactory::new(TransportOptions {
            policy: config.targets.clone(),
            extra_roots: Vec::new(),
            resolver: Arc::new(SystemResolver::default()),
            max_idle: MAX_IDLE.min(descriptors / config::IDLE_SHARE),
        })?;
        let settings = Settings {
            max_attempts: config.max_attempts.unwrap_or(descriptors / config::ATTEMPTS_SHARE),
            restart_rate: config.restart_rate,
            window: config::WINDOW,
            read_bodies: config::READ_BODIES_BYTES,
            arbiters: config.workers * config::ARBITERS_PER_WORKER,
            floors: config.workers.div_ceil(config::WORKERS_PER_FLOOR),
            header_prefix: config.header_prefix.clone(),
        };
        let queue: Arc<dyn Queue> = Arc::new(store.clone());
        let engine = Engine::start(queue, Arc::new(transports), clock.clone(), &door, settings);
        let (stop, stopped) = watch::channel(false);
        actix_web::rt::spawn(retention::run(store.clone(), engine.clone(), stopped));
        let generated_key = match config.operator_key.is_some() || api::auth::has_operator(&store).await? {
            true => None,
            false => Some(first_key(&store).await?),
        };
        let api = Api::new(store.clone(), engine.clone(), &config).await?;
        let (address, server) = api::serve(api, listener, config.workers, descriptors / config::CALLERS_SHARE)
            .map_err(io_error(format!("cannot listen on {}", config.listen)))?;
        let handle = server.handle();
        let serving = actix_web::rt::spawn(server);
        Ok(App {
            address,
            store,
            engine,
            generated_key,
            config,
            server: handle,
            serving,
            writer,
            stop,
            _threads: threads,
            _lock: lock,
        })
    }

    /// Stops by conversation; the drain deadline cuts it short, or the end of `at_once`, a second signal.
    pub async fn stop(self, at_once: impl Future<Output = ()>) {
        log::info!("draining for at most {} s; a second signal stops at once", self.config.drain_timeout.as_secs_f64());
        let _ = self.stop.send(true);
        let drained = tokio::time::timeout(self.config.drain_timeout.to_std(), self.engine.drain());
        tokio::select! {
            done = drained => match done {
                Ok(()) => log::info!("drained: nothing is on the wire, every result is recorded"),
                Err(_) => log::warn!("the drain deadline has passed: what is still on the wire is made again at the next start"),
            },
            () = at_once => log::warn!("stopped at once: what is still on the wire is made again at the next start"),
        }
        let anchor = crate::store::change::KeepAnchor(self.store.clock().anchor());
        if let Err(error) = self.store.write(anchor).await {
            log::warn!("the clock's anchor was not kept: {error}");
        }
        self.server.stop(false).await;
        let _ = self.serving.await;
        self.store.close();
        self.writer.join();
    }
}

/// The store's own threads: a query must not hold up an actor, nor the other way round.
struct StoreThreads(Option<tokio::runtime::Runtime>);

impl StoreThreads {
    fn start() -> Result<StoreThreads, StartError> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .max_blocking_threads(config::READERS + 2)
            .thread_name("store-reader")
            .enable_time()
            .build();
        runtime.map(|runtime| StoreThreads(Some(runtime))).map_err(io_error("the store's threads did not start"))
    }

    fn handle(&self) -> tokio::runtime::Handle {
        self.0.as_ref().map(|runtime| runtime.handle().clone()).unwrap_or_else(tokio::runtime::Handle::current)
    }
}

impl Drop for StoreThreads {
    /// A runtime dropped where others must not wait (a start that fails is such a place) would panic.
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// Makes the operator's key and shows it. It is kept after that: nobody could get in with one that was lost between.
async fn first_key(store: &Store) -> Result<String, StartError> {
    let key = api::auth::new_key(store.clock());
    writeln!(io::stderr(), "Your operator key, shown only this once:\n\n    {key}\n")
        .map_err(io_error("the operator key could not be shown"))?;
    api::auth::keep_operator(store, &key).await?;
    Ok(key)
}

/// Serves until a signal comes. The banner says where, and how to get in.
pub async fn serve(config: Config) -> Result<(), StartError> {
    let mut signals = Signals::hear();
    // What comes meanwhile is heard of when everything is there to be stopped in order.
    let app = App::start(config).await?;
    let scale = app.store.clock().scale();
    let rehearsal = if scale == 1.0 { String::new() } else { format!(" (REHEARSAL: time runs {scale} times faster)") };
    log::info!("posthaste {} listens on http://{}{rehearsal}", env!("CARGO_PKG_VERSION"), app.address);
    // Nobody may be there to read it.
    let mut out = io::stdout();
    let _ = writeln!(out, "listening on http://{}{rehearsal}", app.address).and_then(|()| out.flush());
    signals.next().await;
    app.stop(signals.next()).await;
    Ok(())
}

/// Raises the soft limit of file descriptors to the hard one; returns what is to be had.
fn raise_descriptor_limit() -> Result<usize, StartError> {
    let limit = rlimit::increase_nofile_limit(u64::MAX).unwrap_or(1_024);
    let limit = usize::try_from(limit).unwrap_or(usize::MAX).min(1 << 20);
    match limit >= config::MIN_DESCRIPTORS {
        true => Ok(limit),
        false => Err(StartError::Descriptors { limit, needed: config::MIN_DESCRIPTORS }),
    }
}

/// The key that encrypts secrets: as given, or from the file beside the database, which is made for a new one.
fn encryption_key(config: &Config) -> Result<[u8; 32], StartError> {
    if let Some(key) = &config.encryption_key {
        return Ok(key.0);
    }
    let path = sqlite::beside(&config.database, "key");
    let unreadable = || StartError::Key(format!("{} does not hold 64 hexadecimal digits", path.display()));
    match fs::read_to_string(&path) {
        Ok(text) => {
            if is_empty(&config.database) {
                log::warn!("{} is new, although its key was there: is it the right place?", config.database.display());
            }
            parse_key(&text).ok_or_else(unreadable)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound && is_empty(&config.database) => make_key(&path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(StartError::Key(format!(
            "{} is missing: without it the secrets in the database cannot be read. Put it back, or give --encryption-key",
            path.display()
        ))),
        Err(error) => Err(StartError::Io { what: path.display().to_string(), error }),
    }
}

/// Nothing was ever written to the database.
fn is_empty(database: &Path) -> bool {
    fs::metadata(database).is_ok_and(|found| found.len() == 0)
}

/// Makes the key's file. It is there whole or not at all: an empty one would keep every later start from its secrets.
fn make_key(path: &Path) -> Result<[u8; 32], StartError> {
    let key: [u8; 32] = crate::clock::system_random();
    let text: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
    let unfinished = sqlite::beside(path, "new");
    let named = || path.display().to_string();
    let write = || {
        // Under the database's lock nobody else is here: what lies there is of a start that was cut off.
        let mut options = fs::OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&unfinished)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&unfinished, path)?;
        match path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            Some(parent) => fs::File::open(parent)?.sync_all(),
            None => Ok(()),
        }
    };
    write().map_err(io_error(named()))?;
    Ok(key)
}
