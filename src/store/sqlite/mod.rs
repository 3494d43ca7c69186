//! The embedded database: one file, one process (an advisory lock beside it), one writer, a few readers.

mod checkpoint;
mod dsl;
mod open;
mod presence;
#[path = "../queries/mod.rs"]
mod queries;
mod queue;
mod readers;
mod room;
mod writer;

pub use checkpoint::Checkpointer;
pub use open::{Lock, OpenError, Opened, begin, beside, open, resolved};
pub use presence::Presence;
pub use queue::WriterHandle;
pub use readers::Readers;
pub use room::Room;
pub use writer::Writer;

/// What `queries/` is compiled for.
pub type Conn = diesel::SqliteConnection;
/// Like `INSERT INTO`, for a statement of many rows that keeps no way back for a part of itself: SQLite would copy every
/// page first.
const INSERT_MANY: &str = "INSERT OR FAIL INTO";
type Backend = diesel::sqlite::Sqlite;
type Tx<'a> = crate::store::sentence::Tx<'a, Conn>;
use dsl::RunQueryDsl;
