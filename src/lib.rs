//! Posthaste: a webhook delivery engine. This page is the map; what is promised stands in `docs/semantics.md` (rules S1 to
//! S27), how it is built and why in `docs/architecture.md`.
//!
//! # What lives where, and who may import whom
//!
//! ```text
//!   domain      nothing of ours          everything is decided here
//!   clock       domain
//!   tls         nothing of ours
//!   store       domain, clock            three rooms that know nothing of each other's insides:
//!   transport   domain, tls              the database, the network,
//!   engine      domain, clock, store, transport                       the actors
//!   api         domain, clock, config, store, engine
//!   cli         domain, clock, config, app, tls
//!   app         everything
//! ```
//!
//! | Room | What is in it |
//! |---|---|
//! | [`domain`] | every decision, as pure code: time and random numbers come in as arguments, effects go out. Imports nothing of ours |
//! | [`store`] | the only door to the database: *sentences* change, *questions* read; one writer that commits in groups |
//! | [`transport`] | one HTTP request to a receiver: resolve, judge the address, dial, TLS, framing |
//! | [`engine`] | the actors: a supervisor, one per endpoint with work, the sweeper; carries the domain's effects out |
//! | [`api`] | the routes, keys, errors and idempotency; sees the engine through its handle only |
//! | [`cli`] | the sub-commands |
//! | [`app`] | puts everything together, and takes it apart in order |
//! | [`config`] | every setting, validated once |
//! | [`clock`] | the only reader of time and randomness |
//! | [`tls`] | whom our TLS connections trust, those of attempts and of the command line |
//!
//! `tests/it/house.rs` checks the imports.
//!
//! # The life of an event
//!
//! ```text
//!   caller ──POST──▶ api ──Accept──▶ store: one transaction, synced ──202──▶ caller
//!                                      │ hint
//!                                      ▼
//!                     supervisor ──▶ endpoint actor ──▶ dispatcher: whose turn is it? ◀────────────┐
//!                                                          │ Start                                 │
//!                                                          ▼                                       │
//!                     receiver ◀──POST, signed now── transport ──report──▶ judge ──Record──▶ store ┘
//! ```
//!
//! 1. `api/events` checks the request and composes the body once; every attempt sends these bytes.
//! 2. [`store::sqlite`] finds the endpoints and inserts event and deliveries in one transaction. Only then the 202.
//! 3. A [`store::hint`] tells the supervisor; if it is lost, the sweeper finds the endpoint by its row.
//! 4. [`domain::dispatcher`] chooses: disabled, paused, circuit, rate, slots; then the two lines.
//! 5. [`transport`] makes the attempt.
//! 6. [`domain::judge`] says what it means: delivered, the next rung, dead; streaks, circuit, notifications.
//! 7. One transaction records all of that. What it scheduled is the dispatcher's again.
#![forbid(unsafe_code)]

pub mod api;
pub mod app;
pub mod cli;
pub mod clock;
pub mod config;
pub mod domain;
pub mod engine;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
pub mod signals;
pub mod store;
pub mod tls;
pub mod transport;
