//! The integration program: everything that needs sockets, files, processes or virtual time.
#![allow(clippy::disallowed_methods)] // tests measure with the wall clock and have no actors to block

mod house;
mod readme;
mod support;
mod transport;
