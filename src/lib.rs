//! Posthaste: a webhook delivery engine.
#![forbid(unsafe_code)]

pub mod domain;
pub mod transport;
