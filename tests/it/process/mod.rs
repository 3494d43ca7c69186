//! The real binary, watched from outside: what it promises across crashes, under load, against receivers that fail.

mod backlog;
mod bodies;
mod burst;
mod circuit;
mod crash;
mod database;
mod disable;
mod ingest;
mod isolation;
mod ladders;
mod place;
mod reading;
mod receivers;
mod requeue;
mod restart;
mod retry;
mod secrets;
mod signatures;

use std::time::Duration;

/// For what should take milliseconds: generous, because the machine may be busy.
pub const SOON: Duration = Duration::from_secs(20);
