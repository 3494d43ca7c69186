//! Copies the write-ahead log back into the database, on a thread of its own: done by the writer, every few hundred
//! commits would wait for it.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use diesel::connection::SimpleConnection;

use super::Conn;
use super::open::{beside_with, connect};
use crate::store::error::StoreError;

/// How often the log's size is looked at.
const EVERY: Duration = Duration::from_millis(200);
/// A log of so many bytes is copied back.
const LARGE: u64 = 4 * 1024 * 1024;

/// While it lives, the log is kept short.
pub struct Checkpointer {
    _ends: Sender<()>,
}

impl Checkpointer {
    /// Starts the thread. Should it fall behind, the writer's own checkpoints step in (see `PRAGMAS`).
    pub fn start(path: &Path) -> Result<Checkpointer, StoreError> {
        let unavailable = |error: String| StoreError::Unavailable(error);
        let conn = connect(&path.to_string_lossy()).map_err(|error| unavailable(error.to_string()))?;
        let (ends, ended) = channel();
        // SQLite puts the log beside the file that a link leads to.
        let path = path.canonicalize().map_err(|error| unavailable(error.to_string()))?;
        let log = beside_with(&path, "-wal");
        let thread = std::thread::Builder::new().name("store-checkpoint".into());
        thread.spawn(move || run(conn, log, ended)).map_err(|error| unavailable(error.to_string()))?;
        Ok(Checkpointer { _ends: ends })
    }
}

fn run(mut conn: Conn, log: PathBuf, ended: Receiver<()>) {
    while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(EVERY) {
        let size = std::fs::metadata(&log).map_or(0, |file| file.len());
        if size < LARGE {
            continue;
        }
        // Waits for nobody: what a reader still needs is copied the next time.
        if let Err(error) = conn.batch_execute("PRAGMA wal_checkpoint(PASSIVE)") {
            log::warn!("the write-ahead log could not be copied back: {error}");
        }
    }
}
