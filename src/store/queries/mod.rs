//! What each sentence and question means in SQL, written once. The backends include this folder with `#[path]`, each
//! with its own `Conn` and `RunQueryDsl` beside it.

mod accept;
mod cut;
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
mod views;

use super::{Conn, RunQueryDsl, Tx};

pub use cut::recover;
pub use filing::refile;
pub use load::directory;
pub use misc::flush;
