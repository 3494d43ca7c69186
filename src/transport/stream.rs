//! The connection as awc sees it: a receiver that reads any request and answers with one clean, short HTTP/1.1
//! response.
//!
//! ```text
//!   awc ── the request it would write ──► (dropped)
//!                                          Stream ── our request ─────────────► receiver
//!   awc ◄── one clean, short response ──── Stream ◄── whatever it sends ─────── receiver
//! ```
//!
//! awc (3.11, HTTP/1.1) gets four things wrong that a webhook sender cannot live with, all of them between it and the
//! socket, so they are mended here and nowhere else:
//!
//! - *What it writes:* names in lower case and in the order of a hash table, always a `Date`, no request target that
//!   `http::Uri` dislikes, and a copy of the whole body. So the request is composed by us
//!   ([`Exchange::new`](super::exchange::Exchange::new)) and written from the bytes that the store gave us.
//! - *When it reads:* only after everything is written; a write error hides an answer that has come (C02). Here both
//!   directions run at once, and a success that comes early does not cut our body off.
//! - *Where a response ends:* interim responses, bodies without length, `204` with a length, HTTP/1.0, `close` in a list
//!   (see [`ResponseFraming`]). awc gets a head with a `content-length` that is true.
//! - *What it puts back into the pool:* it gets `connection: close` unless the message ended exactly where it should and
//!   there is a place for another idle connection.

use std::fmt;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use actix_rt::net::{ActixStream, Ready};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep_until};

use super::exchange::{CURRENT, Exchange};
use super::failure::{self, Failure};
use super::framing::ResponseFraming;
use super::idle::{IdlePlace, Janitor, Line};
use super::now;
use super::wire::Wire;

/// How long a body may take after the head (S4), and our own request's if the head came before its end.
pub const BODY_LIMIT: Duration = Duration::from_secs(2);
/// Read from the socket at once. A usual response fits; it lies on the stack.
const READ_BYTES: usize = 4 * 1024;

/// A connection in awc's hands.
pub struct Stream {
    line: Rc<Line>,
    janitor: Rc<Janitor>,
    phase: Phase,
}

/// What the connection is doing.
enum Phase {
    /// Nothing: it is new, or waits in the pool.
    Idle,
    /// Our request goes out, the answer comes in.
    Asking(Box<Asking>),
    /// awc is handed the answer; another request may follow if there is a place to wait for it.
    Answering { clean: Bytes, place: Option<IdlePlace> },
    /// It has carried its last exchange.
    Over,
}

impl Stream {
    pub fn new(line: Rc<Line>, janitor: Rc<Janitor>) -> Self {
        Stream { line, janitor, phase: Phase::Idle }
    }

    /// Begins the running task's exchange.
    fn begin(&mut self) -> io::Result<()> {
        let exchange = CURRENT.try_with(Rc::clone).map_err(io::Error::other)?;
        self.line.take_up();
        self.line.wire.borrow_mut().iter_mut().for_each(Wire::begin);
        let mut trace = exchange.trace.borrow_mut();
        trace.reused = self.line.used.get();
        trace.remote_addr = Some(self.line.peer);
        trace.asked_at = Some(now());
        drop(trace);
        self.phase = Phase::Asking(Box::new(Asking::new(exchange)));
        Ok(())
    }

    /// awc's pool looks whether a waiting connection is still good: it reads, and takes "pending" for yes and an end for
    /// no.
    fn poll_idle(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let unwanted = CURRENT.try_with(|exchange| exchange.fresh_only.get()).unwrap_or(false);
        let mut wire = self.line.wire.borrow_mut();
        let good = !unwanted && wire.as_mut().is_some_and(|wire| wire.is_quiet(cx));
        if good { Poll::Pending } else { Poll::Ready(Ok(())) }
    }

    /// Goes on with the exchange; when it has ended, the clean answer is ready to be handed over.
    fn poll_answer(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Phase::Asking(asking) = &mut self.phase else {
            return Poll::Ready(Ok(()));
        };
        let outcome = match self.line.wire.borrow_mut().as_mut() {
            Some(wire) => ready!(asking.poll(wire, cx)),
            None => Err(failure::CLOSED),
        };
        self.phase = match outcome {
            Ok(()) => {
                asking.exchange.trace.borrow_mut().body_truncated = asking.framing.is_truncated();
                let place = if asking.is_reusable() { self.janitor.place() } else { None };
                Phase::Answering { clean: asking.clean_response(place.is_some()), place }
            }
            Err(failure) => {
                asking.exchange.fail(failure);
                self.close();
                return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
            }
        };
        Poll::Ready(Ok(()))
    }

    /// Closes the socket now, wherever awc keeps the stream.
    fn close(&mut self) {
        self.line.close();
        self.phase = Phase::Over;
    }
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_answer(cx))?;
        match &mut this.phase {
            Phase::Idle => this.poll_idle(cx),
            Phase::Answering { clean, place } => {
                let part = clean.split_to(clean.len().min(buf.remaining()));
                buf.put_slice(&part);
                if clean.has_remaining() {
                    return Poll::Ready(Ok(()));
                }
                match place.take() {
                    Some(place) => {
                        this.phase = Phase::Idle;
                        this.janitor.lay_down(&this.line, place);
                    }
                    None => this.close(),
                }
                Poll::Ready(Ok(()))
            }
            Phase::Asking(_) | Phase::Over => Poll::Ready(Ok(())),
        }
    }
}

impl AsyncWrite for Stream {
    /// Whatever awc writes only says that an exchange begins.
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        match this.phase {
            Phase::Idle => this.begin()?,
            Phase::Asking(_) => {}
            Phase::Answering { .. } | Phase::Over => return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
        }
        Poll::Ready(Ok(buf.len()))
    }

    /// Never keeps awc waiting: it would not read meanwhile. What is left to write is written while it reads.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().close();
        Poll::Ready(Ok(()))
    }
}

/// Asked for by a bound of awc's connector; nothing calls it.
impl ActixStream for Stream {
    fn poll_read_ready(&self, _: &mut Context<'_>) -> Poll<io::Result<Ready>> {
        Poll::Ready(Ok(Ready::ALL))
    }

    fn poll_write_ready(&self, _: &mut Context<'_>) -> Poll<io::Result<Ready>> {
        Poll::Ready(Ok(Ready::ALL))
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Stream").field("peer", &self.line.peer).finish_non_exhaustive()
    }
}

/// One exchange under way.
struct Asking {
    exchange: Rc<Exchange>,
    /// Bytes of head and body written so far.
    sent: usize,
    /// Everything is written and flushed.
    all_sent: bool,
    /// Writing goes on: it has not failed, and no answer has come that makes it pointless.
    writing: bool,
    framing: ResponseFraming,
    /// Ends what is left after the head; set when it does not come with the head.
    rest_timer: Option<Pin<Box<Sleep>>>,
}

impl Asking {
    fn new(exchange: Rc<Exchange>) -> Self {
        Asking { exchange, sent: 0, all_sent: false, writing: true, framing: ResponseFraming::new(), rest_timer: None }
    }

    /// Ready when the final response is in, or as much of it as is wanted, and nothing is left to write.
    ///
    /// # Errors
    /// There will be no final response head.
    fn poll(&mut self, wire: &mut Wire, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        loop {
            self.write(wire, cx);
            if self.framing.is_done() {
                let owing = self.writing && !self.all_sent;
                return if owing { self.poll_rest_limit(cx) } else { Poll::Ready(Ok(())) };
            }
            let mut space = [0; READ_BYTES];
            let mut read = ReadBuf::new(&mut space);
            match Pin::new(&mut *wire).poll_read(cx, &mut read) {
                Poll::Pending => return self.poll_rest_limit(cx),
                Poll::Ready(Ok(())) if !read.filled().is_empty() => self.take(read.filled())?,
                // Whatever happens after the head is no failure (S4).
                Poll::Ready(Ok(())) if self.framing.head().is_some() => self.framing.end(),
                Poll::Ready(Err(_)) if self.framing.head().is_some() => self.framing.cut(),
                Poll::Ready(Ok(())) if !self.exchange.trace.borrow().answer_began => {
                    return Poll::Ready(Err(failure::CLOSED));
                }
                Poll::Ready(Ok(())) => return Poll::Ready(Err(failure::RESET)),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(self.broken(&error))),
            }
        }
    }

    /// Writes what the socket takes. An error is no reason to stop reading: the answer may be there already (C02), and
    /// if it is not, reading will say so.
    fn write(&mut self, wire: &mut Wire, cx: &mut Context<'_>) {
        while self.writing && !self.all_sent {
            match self.write_some(Pin::new(wire), cx) {
                Poll::Pending => return,
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(_)) => self.writing = false,
            }
        }
    }

    /// One step of writing: head and body together while there is some head left, then the body, then the flush.
    fn write_some(&mut self, wire: Pin<&mut Wire>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let (head, body) = (&self.exchange.head, &self.exchange.body);
        let written = if self.sent < head.len() {
            ready!(wire.poll_write_vectored(cx, &[IoSlice::new(&head[self.sent..]), IoSlice::new(body)]))?
        } else if self.sent < head.len() + body.len() {
            ready!(wire.poll_write(cx, &body[self.sent - head.len()..]))?
        } else {
            ready!(wire.poll_flush(cx))?;
            self.all_sent = true;
            return Poll::Ready(Ok(()));
        };
        if written == 0 {
            return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
        }
        self.sent += written;
        Poll::Ready(Ok(()))
    }

    /// What a connection that breaks before the head is complete means. In TLS 1.3 a receiver refuses us only after the
    /// handshake has ended for us, so a fresh connection's first word may be a refusal.
    fn broken(&self, error: &io::Error) -> Failure {
        if error.kind() == io::ErrorKind::QuotaExceeded {
            return failure::TLS_FLOOD;
        }
        let trace = self.exchange.trace.borrow();
        let first_word = !trace.reused && !trace.answer_began;
        failure::of_tls_refusal(error).filter(|_| first_word).unwrap_or(failure::RESET)
    }

    /// Takes what the receiver sent.
    fn take(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let mut trace = self.exchange.trace.borrow_mut();
        trace.answer_began = true;
        self.framing.feed(bytes)?;
        let Some(head) = self.framing.head().filter(|_| trace.answered_at.is_none()) else {
            return Ok(());
        };
        trace.answered_at = Some(now());
        // Whoever answers early with a failure does not want the rest (RFC 9112 §9.5). An early success may come from a
        // receiver that still reads, and it is to have the whole event: nobody will send it again.
        self.writing &= matches!(head.status, 200..=299);
        Ok(())
    }

    /// Nothing to read or write now: wait, but after the head not for long.
    fn poll_rest_limit(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        let Some(answered_at) = self.exchange.trace.borrow().answered_at else {
            return Poll::Pending;
        };
        let until = answered_at + BODY_LIMIT;
        // A timer alone would not do: it wants a share of the task's budget (tokio's `coop`), which a flood uses up.
        if now() < until {
            let timer = self.rest_timer.get_or_insert_with(|| Box::pin(sleep_until(until)));
            ready!(timer.as_mut().poll(cx));
        }
        self.writing = false;
        self.framing.cut();
        Poll::Ready(Ok(()))
    }

    /// The message ended where it should, and so did ours.
    fn is_reusable(&self) -> bool {
        self.framing.is_reusable() && self.all_sent
    }

    /// The answer as awc gets it: what matters of the head, and what was kept of the body as if that were all.
    /// `goes_on` tells whether the connection may carry another exchange.
    fn clean_response(&self, goes_on: bool) -> Bytes {
        let Some(head) = self.framing.head() else {
            return Bytes::new();
        };
        let kept = self.framing.kept();
        let mut clean = BytesMut::with_capacity(kept.len() + 128);
        clean.put_slice(format!("HTTP/1.1 {} \r\ncontent-length: {}\r\n", head.status, kept.len()).as_bytes());
        if let Some(retry_after) = &head.retry_after {
            clean.put_slice(b"retry-after: ");
            clean.put_slice(retry_after.as_bytes());
            clean.put_slice(b"\r\n");
        }
        if !goes_on {
            clean.put_slice(b"connection: close\r\n");
        }
        clean.put_slice(b"\r\n");
        clean.put_slice(kept);
        clean.freeze()
    }
}
