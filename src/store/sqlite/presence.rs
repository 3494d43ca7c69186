//! Whether the database is still where it was opened. Linux lets a process go on writing to a file that was deleted or
//! replaced; what is accepted then is lost with the process, and nobody would know before.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use diesel::QueryResult;
use diesel::result::{DatabaseErrorKind, Error};

/// The file as it was when it was opened.
pub struct Presence {
    path: PathBuf,
    file: (u64, u64),
}

impl Presence {
    /// Remembers which file lies there.
    pub fn of(path: &Path) -> io::Result<Presence> {
        Ok(Presence { path: path.to_owned(), file: identity(path)? })
    }

    /// An error unless the same file lies there still. A look costs a microsecond, a commit hundreds.
    pub fn check(&self) -> QueryResult<()> {
        let why = match identity(&self.path) {
            Ok(file) if file == self.file => return Ok(()),
            Ok(_) => "is another file now".to_owned(),
            Err(error) => format!("is not there: {error}"),
        };
        let message = format!("{} {why}; nothing is accepted any more", self.path.display());
        Err(Error::DatabaseError(DatabaseErrorKind::Unknown, Box::new(message)))
    }
}

/// Device and number.
fn identity(path: &Path) -> io::Result<(u64, u64)> {
    std::fs::metadata(path).map(|found| (found.dev(), found.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_gone_or_replaced_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let (path, away) = (folder.path().join("a.db"), folder.path().join("b.db"));
        std::fs::write(&path, "1").unwrap();
        let presence = Presence::of(&path).unwrap();
        assert!(presence.check().is_ok());
        std::fs::rename(&path, &away).unwrap();
        assert!(presence.check().unwrap_err().to_string().contains("a.db is not there"));
        std::fs::write(&path, "2").unwrap();
        assert!(presence.check().unwrap_err().to_string().contains("another file"));
        std::fs::rename(&away, &path).unwrap();
        assert!(presence.check().is_ok(), "it is back");
    }
}
