//! What Posthaste promises, as pure code: no clock, no randomness, no I/O, no actors, no database. Time and random
//! numbers come in as arguments, so the same code runs in production, in `simulate` and in tests that live through a
//! 45-hour outage in milliseconds.

pub mod attempt;
pub mod duration_text;
pub mod event;
pub mod event_type;
pub mod excerpt;
pub mod headers;
pub mod retry_after;
pub mod secret;
pub mod signature;
pub mod subscription;
pub mod target;
pub mod time;
mod words;
