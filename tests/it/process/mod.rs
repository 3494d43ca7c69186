//! The real binary, watched from outside: what it promises across crashes, under load, against receivers that fail.

mod circuit;
mod crash;
mod disable;
mod isolation;
mod ladders;
mod reading;
mod receivers;
mod requeue;
mod restart;
mod retry;
mod signatures;

use std::time::Duration;

/// For what should take milliseconds: generous, because the machine may be busy.
pub const SOON: Duration = Duration::from_secs(20);
