//! The integration program: everything that needs sockets, files, processes or virtual time.
#![allow(clippy::disallowed_methods)] // tests measure with the wall clock and have no actors to block

mod api;
mod behind;
mod changes;
mod cli_client;
mod cli_offline;
mod fan_out;
mod house;
mod plans;
mod process;
mod questions;
mod readme;
mod simulation;
mod soak;
mod support;
mod transport;
mod write_queue;
