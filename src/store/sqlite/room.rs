//! Room for the write-ahead log. While a log grows, every commit has to make the file's new size durable as well, which
//! takes a file system several times as long as the commit. So zeros are written ahead of the log. SQLite ignores what is
//! behind the log's last frame, and overwrites it: a frame counts only with its checksum.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;

use super::open::beside_with;

/// What is written at start.
const FIRST: u64 = 16 * 1024 * 1024;
/// What is added at a time when the log has outgrown it.
const STEP: u64 = 4 * 1024 * 1024;
/// Where the log begins anew (`PRAGMAS`), so more is not needed.
const MOST: u64 = 64 * 1024 * 1024;

/// The log of an opened database. Only the thread that writes to the database may extend it, and only between two
/// transactions.
pub struct Room {
    log: File,
    reserved: u64,
}

impl Room {
    /// Makes the first room, before anything is written to the database.
    ///
    /// # Errors
    /// If the log cannot be written to. Without room everything works, only slower.
    pub fn make(database: &Path) -> io::Result<Room> {
        // SQLite puts the log beside the file that a link leads to.
        let path = beside_with(&database.canonicalize()?, "-wal");
        let log = OpenOptions::new().write(true).open(path)?;
        let mut room = Room { log, reserved: 0 };
        room.extend(FIRST)?;
        Ok(room)
    }

    /// The log has outgrown its room: makes more. Takes a few milliseconds.
    ///
    /// # Errors
    /// If the log cannot be written to.
    pub fn keep(&mut self) -> io::Result<()> {
        let size = self.log.metadata()?.len();
        if size > self.reserved && size < MOST {
            self.extend(size + STEP)?;
        }
        Ok(())
    }

    fn extend(&mut self, to: u64) -> io::Result<()> {
        let size = self.log.seek(SeekFrom::End(0))?;
        let zeros = [0; 65_536];
        let mut missing = to.saturating_sub(size);
        while missing > 0 {
            let piece = missing.min(zeros.len() as u64);
            self.log.write_all(&zeros[..piece as usize])?;
            missing -= piece;
        }
        self.log.sync_all()?;
        self.reserved = size.max(to);
        Ok(())
    }
}
