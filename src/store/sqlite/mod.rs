//! The embedded database: one file, one process (an advisory lock beside it), one writer, a few readers.

mod checkpoint;
mod dsl;
mod open;
#[path = "../queries/mod.rs"]
mod queries;
mod readers;
mod writer;

pub use checkpoint::Checkpointer;
pub use open::{Lock, OpenError, Opened, begin, beside, open};
pub use readers::Readers;
pub use writer::{Writer, WriterHandle};

/// What `queries/` is compiled for.
pub type Conn = diesel::SqliteConnection;
type Backend = diesel::sqlite::Sqlite;
type Tx<'a> = crate::store::sentence::Tx<'a, Conn>;
use dsl::RunQueryDsl;
