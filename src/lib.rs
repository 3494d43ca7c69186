//! Posthaste: a webhook delivery engine.
#![forbid(unsafe_code)]

pub mod clock;
pub mod domain;
pub mod store;
pub mod transport;
