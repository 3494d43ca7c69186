//! What each sentence and question means in SQL, written once. The backends include this folder with `#[path]`, each
//! with its own `Conn` and `RunQueryDsl` beside it.

mod accept;
mod bulk;
mod cut;
mod deliveries;
mod endpoints;
mod events;
mod filing;
mod guard;
mod jobs;
mod lists;
mod load;
mod misc;
mod record;
mod requeue;
mod statements;
mod views;
mod writing;

/// Inserts rows, many in one statement: its text depends on their number, and it is prepared once for each.
macro_rules! insert_all {
    ($conn:expr, $table:expr, $rows:expr) => {{
        let (chunks, rest) = $rows.as_chunks::<16>();
        for chunk in chunks {
            diesel::insert_into($table).values(chunk).execute($conn).await?;
        }
        for row in rest {
            diesel::insert_into($table).values(row).execute($conn).await?;
        }
    }};
}
use insert_all;

use super::{Backend, Conn, RunQueryDsl, Tx};

pub use cut::recover;
pub use filing::{catch_up, catch_up_from_rows};
pub use load::directory;
pub use misc::flush;
