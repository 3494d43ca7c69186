//! What several tests need.

pub mod raw;
pub mod receiver;
pub mod server;
pub mod stored;
