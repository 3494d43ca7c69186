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

/// A log of so many bytes has not begun anew for long, because there was never a moment without a reader (C69): then the
/// writer is held up for [`PATIENCE_MS`] at most, for such a moment.
const HUGE: u64 = 256 * 1024 * 1024;
const PATIENCE_MS: u32 = 100;

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
    if let Err(error) = conn.batch_execute(&format!("PRAGMA busy_timeout = {PATIENCE_MS}")) {
        log::warn!("the write-ahead log is left to the writer: {error}");
        return;
    }
    while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(EVERY) {
        let size = std::fs::metadata(&log).map_or(0, |file| file.len());
        if size < LARGE {
            continue;
        }
        // Passive: waits for nobody; what a reader still needs is copied the next time.
        let how = if size < HUGE { "PASSIVE" } else { "RESTART" };
        if let Err(error) = conn.batch_execute(&format!("PRAGMA wal_checkpoint({how})")) {
            log::warn!("the write-ahead log could not be copied back: {error}");
        }
    }
}
