//! The TCP connection under a TLS connection: how much comes in for one exchange is limited here, because a receiver can
//! send records without end of which nothing ever comes out (empty ones, session tickets), and TLS reads them all.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// Bytes that a handshake, or an exchange after it, may bring. The largest of what is read is a head of 64 KiB
/// ([`super::framing`]), a body of 16 KiB, and a handshake message of 64 KiB; records add a few bytes each.
pub const LIMIT: usize = 512 * 1024;

/// See the module's text.
pub struct Metered {
    tcp: TcpStream,
    left: usize,
}

impl Metered {
    pub fn new(tcp: TcpStream) -> Metered {
        Metered { tcp, left: LIMIT }
    }

    pub fn tcp(&self) -> &TcpStream {
        &self.tcp
    }

    /// Another exchange begins.
    pub fn begin(&mut self) {
        self.left = LIMIT;
    }
}

impl AsyncRead for Metered {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.left == 0 {
            return Poll::Ready(Err(io::ErrorKind::QuotaExceeded.into()));
        }
        let before = buf.filled().len();
        let outcome = Pin::new(&mut self.tcp).poll_read(cx, buf);
        self.left = self.left.saturating_sub(buf.filled().len() - before);
        outcome
    }
}

impl AsyncWrite for Metered {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.tcp).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.tcp).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.tcp.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    #[actix_web::test]
    async fn an_exchange_brings_so_much_and_the_next_as_much_again() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let tcp = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (mut receiver, _) = listener.accept().await.unwrap();
        let flood = tokio::spawn(async move { while receiver.write_all(&[0; 4_096]).await.is_ok() {} });
        let (mut metered, mut space) = (Metered::new(tcp), vec![0; 4_096]);
        for _ in 0..2 {
            let mut came = 0;
            let error = loop {
                match metered.read(&mut space).await {
                    Ok(length) => came += length,
                    Err(error) => break error,
                }
            };
            assert_eq!(error.kind(), io::ErrorKind::QuotaExceeded);
            assert!((LIMIT..LIMIT + space.len()).contains(&came), "{came}");
            metered.begin();
        }
        flood.abort();
    }
}
