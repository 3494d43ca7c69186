//! Recording results, as the engine asks for it.

use crate::domain::dispatcher::{Batch, Rest};

/// Write what these attempts came to, if endpoint and health still have the versions they were judged by.
#[derive(Clone, Debug)]
pub struct Record(pub Batch);

/// What became of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// Committed. `skipped`: some results no longer belonged to their rows and were left out.
    Done { skipped: bool },
    /// Endpoint or health moved on: read them and judge again. Nothing was written.
    Outdated,
    /// The endpoint is deleted. Nothing was written.
    Gone,
}

/// Write when an actor with nothing to do is needed next, if nothing moved since it worked that out.
#[derive(Clone, Copy, Debug)]
pub struct RecordRest(pub Rest);
