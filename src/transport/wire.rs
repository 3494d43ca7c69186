//! The bare connection: TCP, or TLS over it.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll};

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use super::metered::Metered;

/// A connection to a receiver. TLS is boxed: it is a kilobyte, TCP a few words.
pub enum Wire {
    Plain(TcpStream),
    Tls(Box<TlsStream<Metered>>),
}

impl Wire {
    /// An exchange begins: what it may bring is counted from here.
    pub fn begin(&mut self) {
        if let Wire::Tls(stream) = self {
            stream.get_mut().0.begin();
        }
    }

    /// Whether a waiting connection is still open and has nothing to say: only then may another request follow.
    ///
    /// The kernel is asked directly. tokio would answer from what it knew when it last looked at its sockets, and what
    /// came since (a close, or stray bytes behind the last answer) would meet the next request, or be taken for its
    /// answer. For TLS any record counts; at worst a late session ticket costs us a connection.
    pub fn is_quiet(&mut self, cx: &mut Context<'_>) -> bool {
        let tcp = match self {
            Wire::Plain(stream) => &*stream,
            Wire::Tls(stream) => stream.get_ref().0.tcp(),
        };
        let seen = SockRef::from(tcp).peek(&mut [MaybeUninit::uninit()]);
        let nothing = seen.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock);
        // TLS may hold bytes that are decrypted already.
        nothing && Pin::new(self).poll_read(cx, &mut ReadBuf::new(&mut [0])).is_pending()
    }
}

/// Calls the same method on whichever stream it is.
macro_rules! delegate {
    ($wire:expr, $stream:ident => $call:expr) => {
        match $wire.get_mut() {
            Wire::Plain($stream) => {
                let $stream = Pin::new($stream);
                $call
            }
            Wire::Tls($stream) => {
                let $stream = Pin::new($stream.as_mut());
                $call
            }
        }
    };
}

impl AsyncRead for Wire {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        delegate!(self, stream => stream.poll_read(cx, buf))
    }
}

impl AsyncWrite for Wire {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        delegate!(self, stream => stream.poll_write(cx, buf))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        delegate!(self, stream => stream.poll_write_vectored(cx, parts))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        delegate!(self, stream => stream.poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        delegate!(self, stream => stream.poll_shutdown(cx))
    }
}
