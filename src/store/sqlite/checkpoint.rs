//! Copies the write-ahead log back into the database, on a thread of its own: done by the writer, every few hundred
//! commits would wait for it.

use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel::sql_types::Integer;

use super::Conn;
use super::open::connect;
use crate::store::error::StoreError;

/// How often the log is looked at.
const EVERY: Duration = Duration::from_millis(200);
/// So many pages (16 MiB) are copied back, or fewer if nothing was written lately. Often would be dear: a page that many
/// commits changed is copied once, and whoever commits meanwhile shares the disk.
const MANY: i32 = 4_096;

/// A log of so many pages (256 MiB) has not begun anew for long, because there was never a moment without a reader (C69):
/// then the writer is held up for [`PATIENCE_MS`] at most, for such a moment.
const HUGE: i32 = 65_536;
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
        let thread = std::thread::Builder::new().name("store-checkpoint".into());
        thread.spawn(move || run(conn, ended)).map_err(|error| unavailable(error.to_string()))?;
        Ok(Checkpointer { _ends: ends })
    }
}

fn run(mut conn: Conn, ended: Receiver<()>) {
    if let Err(error) = conn.batch_execute(&format!("PRAGMA busy_timeout = {PATIENCE_MS}")) {
        log::warn!("the write-ahead log is left to the writer: {error}");
        return;
    }
    let mut before = 0;
    while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(EVERY) {
        if let Err(error) = look(&mut conn, &mut before) {
            log::warn!("the write-ahead log could not be copied back: {error}");
        }
    }
}

/// Copies the log back if it is time for that. `before`: its length at the last look.
fn look(conn: &mut Conn, before: &mut i32) -> QueryResult<()> {
    // The file's size would say nothing: it holds room as well.
    let length = checkpoint(conn, "NOOP")?;
    let quiet = std::mem::replace(before, length.log) == length.log;
    let left = length.log - length.checkpointed;
    if left > 0 && (left >= MANY || quiet) {
        // Passive: waits for nobody; what a reader still needs is copied the next time.
        checkpoint(conn, if length.log < HUGE { "PASSIVE" } else { "RESTART" })?;
    }
    Ok(())
}

/// The log's pages, and those of them that are copied back.
#[derive(QueryableByName, Clone, Copy, Debug, PartialEq, Eq)]
struct Length {
    #[diesel(sql_type = Integer)]
    log: i32,
    #[diesel(sql_type = Integer)]
    checkpointed: i32,
}

fn checkpoint(conn: &mut Conn, how: &str) -> QueryResult<Length> {
    diesel::sql_query(format!("PRAGMA wal_checkpoint({how})")).get_result(conn)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_copied_back_when_it_is_long_or_nobody_writes() {
        let folder = tempfile::tempdir().unwrap();
        let mut conn = connect(&folder.path().join("test.db").to_string_lossy()).unwrap();
        let write = |conn: &mut Conn, bytes: i32| {
            conn.batch_execute(&format!("INSERT INTO t VALUES (zeroblob({bytes}))")).unwrap();
        };
        conn.batch_execute("CREATE TABLE t (a)").unwrap();
        let mut before = 0;
        let mut left = |conn: &mut Conn| {
            look(conn, &mut before).unwrap();
            let length = checkpoint(conn, "NOOP").unwrap();
            length.log - length.checkpointed
        };
        assert!(left(&mut conn) > 0, "a short log that grows is left alone");
        write(&mut conn, 20_000);
        assert!(left(&mut conn) > 5);
        assert_eq!(left(&mut conn), 0, "nobody wrote since");
        write(&mut conn, 4_096 * MANY);
        assert_eq!(left(&mut conn), 0, "it is long");
    }
}
