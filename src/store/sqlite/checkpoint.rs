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
use crate::clock::Clock;
use crate::domain::seldom::Seldom;
use crate::store::error::StoreError;

/// How often the log is looked at while it grows, and otherwise.
const EVERY: Duration = Duration::from_millis(25);
const CALM: Duration = Duration::from_millis(200);
/// If it has not grown for so many looks, nobody writes at present.
const LOOKS: u32 = 8;
/// The log is copied back when it has so many pages that are not, or fewer if nobody writes. Few, although a page that
/// many commits change is then copied more often: what is copied has to reach the disk, and the next commit waits for that.
const MANY: i32 = 100;

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
    pub fn start(path: &Path, clock: Clock) -> Result<Checkpointer, StoreError> {
        let unavailable = |error: String| StoreError::Unavailable(error);
        let conn = connect(&path.to_string_lossy()).map_err(|error| unavailable(error.to_string()))?;
        let (ends, ended) = channel();
        let thread = std::thread::Builder::new().name("store-checkpoint".into());
        thread.spawn(move || run(conn, &clock, ended)).map_err(|error| unavailable(error.to_string()))?;
        Ok(Checkpointer { _ends: ends })
    }
}

fn run(mut conn: Conn, clock: &Clock, ended: Receiver<()>) {
    if let Err(error) = conn.batch_execute(&format!("PRAGMA busy_timeout = {PATIENCE_MS}")) {
        log::warn!("the write-ahead log is left to the writer: {error}");
        return;
    }
    let (mut seen, mut seldom) = (Seen::default(), Seldom::default());
    while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(seen.pause()) {
        if let Err(error) = look(&mut conn, &mut seen) {
            if let Some(more) = seldom.turn("copied", clock.uptime()) {
                log::warn!("the write-ahead log could not be copied back: {error}{more}");
            }
            seen.looks = LOOKS;
        }
    }
}

/// What the last looks found.
#[derive(Default)]
struct Seen {
    /// The log's length.
    log: i32,
    /// So many of them, one after the other, found that length.
    looks: u32,
}

impl Seen {
    fn quiet(&self) -> bool {
        self.looks >= LOOKS
    }

    fn pause(&self) -> Duration {
        // Whoever waits for a moment without a reader holds up the writer, who must get on in between.
        if self.quiet() || self.log >= HUGE { CALM } else { EVERY }
    }

    fn note(&mut self, log: i32) {
        self.looks = if log == self.log { self.looks.saturating_add(1) } else { 0 };
        self.log = log;
    }
}

/// Copies the log back if it is time for that.
fn look(conn: &mut Conn, seen: &mut Seen) -> QueryResult<()> {
    // The file's size would say nothing: it holds room as well.
    let length = checkpoint(conn, "NOOP")?;
    seen.note(length.log);
    let left = length.log - length.checkpointed;
    if left > 0 && (left >= MANY || seen.quiet()) {
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
        let mut seen = Seen::default();
        let mut left = |conn: &mut Conn| {
            look(conn, &mut seen).unwrap();
            let length = checkpoint(conn, "NOOP").unwrap();
            length.log - length.checkpointed
        };
        assert!(left(&mut conn) > 0, "a short log that grows is left alone");
        write(&mut conn, 20_000);
        let looks = (1..).find(|_| left(&mut conn) == 0);
        assert_eq!(looks, Some(1 + LOOKS), "nobody wrote since");
        write(&mut conn, 4_096 * MANY);
        assert_eq!(left(&mut conn), 0, "it is long");
    }
}
