//! The integration program: everything that needs sockets, files or a browser.

mod support;
mod transport;
