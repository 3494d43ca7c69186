//! The integration program: everything that needs sockets, files, processes or virtual time.
#![allow(clippy::disallowed_methods)] // tests measure with the wall clock and have no actors to block

#[allow(dead_code, unused_imports, clippy::cloned_ref_to_slice_refs)] // more of the suite follows
mod api;
mod house;
mod process;
mod readme;
#[allow(dead_code)] // the ledger holds more than the first checks read
mod simulation;
mod support;
mod transport;
