//! Opening the file: lock first, then migrations, then what the clock and the writer go on from.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel_migrations::{EmbeddedMigrations, MigrationHarness, embed_migrations};

use super::{Conn, dsl, queries};
use crate::clock::Anchor;
use crate::domain::time::Timestamp;
use crate::store::error::StoreError;
use crate::store::rows::at;
use crate::store::schema::meta;
use crate::store::sentence::Counters;

const MIGRATIONS: EmbeddedMigrations = embed_migrations!("migrations/sqlite");

/// Why the file could not be opened; each text is for the person who starts the process.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("{path} is locked: another posthaste process is using this database")]
    Locked { path: PathBuf },
    #[error("cannot open {path}: {error}")]
    Io { path: PathBuf, error: io::Error },
    #[error("cannot open the database: {0}")]
    Database(String),
    #[error("the database was written by a newer posthaste (it has the migration `{0}`, unknown to this version)")]
    Newer(String),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Where the database really lies: whoever opens it through a link gets the lock, key and log of the same file.
///
/// # Errors
/// If its folder is not there, or the path is a link to nothing.
pub fn resolved(database: &Path) -> Result<PathBuf, OpenError> {
    let io = |error| OpenError::Io { path: database.to_owned(), error };
    if database.symlink_metadata().is_ok() {
        return database.canonicalize().map_err(io);
    }
    let folder = database.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = database.file_name().ok_or_else(|| io(io::ErrorKind::InvalidFilename.into()))?;
    Ok(folder.canonicalize().map_err(io)?.join(name))
}

/// The advisory locks on the database; held as long as the process lives.
#[derive(Debug)]
pub struct Lock {
    /// The file that people see, with our process's number in it.
    _beside: File,
    /// The database itself, which may have several names (hard links).
    _database: File,
}

impl Lock {
    /// Takes the locks or says what stands in the way: `<database>.lock`, and the database, which is made (empty) if it is
    /// not there. The kernel drops them with the process, however that ends.
    pub fn take(database: &Path) -> Result<Lock, OpenError> {
        let path = beside(database, "lock");
        if database.is_dir() {
            return Err(OpenError::Io { path: database.to_owned(), error: io::ErrorKind::IsADirectory.into() });
        }
        let mut beside = lock(&path)?;
        let database = lock(database)?;
        let number = beside.set_len(0).and_then(|()| writeln!(beside, "{}", std::process::id()));
        number.map_err(|error| OpenError::Io { path, error })?;
        Ok(Lock { _beside: beside, _database: database })
    }
}

fn lock(path: &Path) -> Result<File, OpenError> {
    let io = |error| OpenError::Io { path: path.to_owned(), error };
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(path).map_err(io)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(OpenError::Locked { path: path.to_owned() }),
        Err(TryLockError::Error(error)) => Err(io(error)),
    }
}

/// The file `<database>.<ending>`.
pub fn beside(database: &Path, ending: &str) -> PathBuf {
    beside_with(database, &format!(".{ending}"))
}

/// The file whose name is the database's and this.
pub fn beside_with(database: &Path, ending: &str) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

/// A database ready to be written to.
pub struct Opened {
    pub conn: Conn,
    pub anchor: Option<Anchor>,
    pub last_stamp: Timestamp,
    pub counters: Counters,
    /// What the key was checked by that the secrets are encrypted with; `None` if the schema was just made.
    pub key_check: Option<Vec<u8>>,
}

/// How every connection is set up. WAL with FULL: a commit is on disk when it returns. The log is copied back by a thread
/// of its own, and by whoever commits when it has 16,384 pages (64 MiB) nevertheless; it is cut back to that size (C69).
const PRAGMAS: &str = "PRAGMA busy_timeout = 10000; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; \
     PRAGMA foreign_keys = ON; PRAGMA wal_autocheckpoint = 16384; PRAGMA journal_size_limit = 67108864; \
     PRAGMA cache_size = -16384; PRAGMA temp_store = MEMORY;";

/// Opens a connection.
pub fn connect(path: &str) -> Result<Conn, OpenError> {
    let mut conn = Conn::establish(path).map_err(|error| OpenError::Database(error.to_string()))?;
    conn.batch_execute(PRAGMAS).map_err(|error| OpenError::Database(error.to_string()))?;
    Ok(conn)
}

/// Opens the database (the caller holds its [`Lock`]), brings its schema up to date, cleans up after a crash.
pub fn open(path: &str) -> Result<Opened, OpenError> {
    let mut conn = connect(path)?;
    refuse_newer(&mut conn)?;
    conn.run_pending_migrations(MIGRATIONS).map_err(|error| OpenError::Database(error.to_string()))?;
    let database = |error: diesel::result::Error| OpenError::Database(error.to_string());
    let recovered = conn.immediate_transaction(|conn| dsl::run(queries::recover(conn)));
    let recovered = recovered.map_err(database)?;
    if recovered > 0 {
        log::info!("{recovered} attempts were cut off when the last process ended while their endpoint was disabled");
    }
    let row = meta::table
        .find(1)
        .select((
            (meta::clock_wall, meta::clock_engine, meta::clock_scale),
            meta::last_stamp,
            (meta::last_event, meta::last_delivery, meta::last_other),
            meta::key_check,
        ))
        .first::<((i64, i64, f64), i64, (i64, i64, i64), Vec<u8>)>(&mut conn)
        .optional()
        .map_err(database)?;
    Ok(match row {
        Some(((wall, engine, scale), last_stamp, (event, delivery, other), key_check)) => Opened {
            conn,
            anchor: Some(Anchor { wall: at(wall), engine: at(engine), scale }),
            last_stamp: at(last_stamp),
            counters: Counters { event, delivery, other },
            key_check: Some(key_check),
        },
        None => Opened {
            conn,
            anchor: None,
            last_stamp: Timestamp::MIN,
            counters: Counters { event: 0, delivery: 0, other: 0 },
            key_check: None,
        },
    })
}

/// A schema that knows more than we do is not ours to write to.
fn refuse_newer(conn: &mut Conn) -> Result<(), OpenError> {
    let database = |error: Box<dyn std::error::Error + Send + Sync>| OpenError::Database(error.to_string());
    let ours: Vec<String> = diesel::migration::MigrationSource::<diesel::sqlite::Sqlite>::migrations(&MIGRATIONS)
        .map_err(database)?
        .iter()
        .map(|migration| migration.name().version().to_string())
        .collect();
    let applied = conn.applied_migrations().map_err(database)?;
    match applied.iter().map(ToString::to_string).find(|version| !ours.contains(version)) {
        Some(unknown) => Err(OpenError::Newer(unknown)),
        None => Ok(()),
    }
}

/// Keeps the clock's anchor from which this process starts; in a new store with the first `meta` row, for which
/// `new_check` tells by what its key is to be checked.
pub fn begin(conn: &mut Conn, anchor: Anchor, new_check: Option<Vec<u8>>) -> Result<(), StoreError> {
    let Some(check) = new_check else {
        let clock = (
            meta::clock_wall.eq(anchor.wall.as_micros()),
            meta::clock_engine.eq(anchor.engine.as_micros()),
            meta::clock_scale.eq(anchor.scale),
        );
        diesel::update(meta::table.find(1)).set(clock).execute(conn)?;
        return Ok(());
    };
    let values = (
        meta::id.eq(1),
        meta::clock_wall.eq(anchor.wall.as_micros()),
        meta::clock_engine.eq(anchor.engine.as_micros()),
        meta::clock_scale.eq(anchor.scale),
        meta::last_stamp.eq(anchor.engine.as_micros()),
        (meta::last_event.eq(0), meta::last_delivery.eq(0), meta::last_other.eq(0)),
        (meta::written_through.eq(0), meta::filed_through.eq(0)),
        meta::key_check.eq(check),
    );
    diesel::insert_into(meta::table).values(values).execute(conn)?;
    Ok(())
}
