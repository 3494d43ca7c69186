//! Posthaste: a webhook delivery engine.
#![forbid(unsafe_code)]

pub mod api;
pub mod app;
pub mod cli;
pub mod clock;
pub mod config;
pub mod domain;
pub mod engine;
pub mod store;
pub mod transport;
