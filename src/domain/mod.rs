//! What Posthaste promises, as pure code: no clock, no randomness, no I/O, no actors, no database. Time and random
//! numbers come in as arguments, so the same code runs in production, in `simulate` and in tests that live through a
//! 45-hour outage in milliseconds.

pub mod attempt;
pub mod content;
pub mod delivery;
pub mod dispatcher;
pub mod duration_text;
pub mod egress;
pub mod endpoint;
pub mod envelope;
pub mod event;
pub mod event_type;
pub mod excerpt;
pub mod field_error;
pub mod headers;
pub mod health;
pub mod hold;
pub mod ids;
pub(crate) mod json_reader;
pub mod judge;
pub mod notice;
pub mod policy;
pub mod policy_json;
pub mod policy_spec;
pub mod pressure;
pub mod retry_after;
pub mod schedule;
pub mod secret;
pub mod seldom;
pub mod signature;
pub mod simulate;
pub mod simulate_request;
pub mod subscription;
pub mod target;
pub mod time;
pub mod window;
pub(crate) mod words;
