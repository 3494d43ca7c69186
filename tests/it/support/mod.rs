//! What several tests need.

pub mod raw;
