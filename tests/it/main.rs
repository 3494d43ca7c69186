//! The integration program: everything that needs sockets, files or a browser.

mod simulation;
mod support;
mod transport;
