//! What can go wrong between the engine and its database.

/// Why the store did not do what it was asked. Nothing of the request was committed, unless the text of a variant says
/// otherwise.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum StoreError {
    /// The writer's queue is full (`config::WRITE_QUEUE_BYTES`); nothing was queued.
    #[error("the write queue is full")]
    Overloaded,
    /// The database refused, or is not there. Whether a write took effect is not known: ask again with the same id.
    #[error("the database does not take part: {0}")]
    Unavailable(String),
    /// The process is shutting down.
    #[error("the store is closed")]
    Closed,
    /// A row holds what this version cannot read; only a hand in the database does that.
    #[error("unreadable row: {0}")]
    Corrupt(String),
}

impl From<diesel::result::Error> for StoreError {
    fn from(error: diesel::result::Error) -> StoreError {
        match error {
            diesel::result::Error::DeserializationError(error) => StoreError::Corrupt(error.to_string()),
            other => StoreError::Unavailable(other.to_string()),
        }
    }
}

/// For a row that breaks its own rules: makes the query fail with [`StoreError::Corrupt`].
pub(super) fn corrupt(what: impl std::fmt::Display) -> diesel::result::Error {
    diesel::result::Error::DeserializationError(what.to_string().into())
}
