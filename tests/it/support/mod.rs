//! What several tests need.

pub mod client;
pub mod closed;
pub mod dns;
pub mod program;
pub mod raw;
pub mod receiver;
pub mod server;
pub mod stored;
pub mod tls;
