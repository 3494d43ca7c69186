//! What several tests need.

pub mod client;
pub mod dns;
pub mod machine;
pub mod program;
pub mod raw;
pub mod receiver;
pub mod seed;
pub mod server;
pub mod stored;
pub mod taken;
pub mod tls;
