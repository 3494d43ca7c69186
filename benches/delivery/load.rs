//! Callers: so many at once, each posting its next event when the last was answered (closed), or at a rate whatever happens
//! (open).

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until};

use super::book::Book;
use super::subject::KEY;

/// Stands before an event's number in its data.
pub const NUMBER: &[u8] = b"\"n\":1";
/// Behind the 1, so that the number has no leading zeros.
const DIGITS: usize = 12;

/// What is posted.
#[derive(Clone)]
pub struct Events {
    /// The type of the event with a number.
    pub kind: Arc<dyn Fn(u64) -> String + Send + Sync>,
    /// Bytes of the whole body.
    pub bytes: usize,
}

impl Events {
    /// All of one type.
    pub fn of(kind: &'static str, bytes: usize) -> Events {
        Events { kind: Arc::new(move |_| kind.into()), bytes }
    }

    /// The request that posts the event with this number.
    fn request(&self, number: u64, request: &mut Vec<u8>) {
        let kind = (self.kind)(number);
        let body = format!("{{\"type\":\"{kind}\",\"data\":{{\"n\":1{number:0DIGITS$},\"pad\":\"\"}}}}");
        let padding = self.bytes.saturating_sub(body.len());
        request.clear();
        let head = format!(
            "POST /api/v1/webhooks/events HTTP/1.1\r\nHost: bench\r\nX-API-Key: {KEY}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len() + padding
        );
        request.extend_from_slice(head.as_bytes());
        request.extend_from_slice(&body.as_bytes()[..body.len() - 3]);
        request.resize(request.len() + padding, b'x');
        request.extend_from_slice(&body.as_bytes()[body.len() - 3..]);
    }
}

/// A load that goes on until it is told to stop.
pub struct Load {
    stop: Arc<AtomicBool>,
    accepted: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Load {
    /// So many callers, each of which waits for its answers.
    pub fn closed(to: SocketAddr, callers: usize, events: Events, book: Arc<Book>) -> Load {
        Load::start(move |stop, accepted| {
            let call = move || {
                let (events, book, stop, accepted) = (events.clone(), book.clone(), stop.clone(), accepted.clone());
                async move {
                    let mut caller = Caller::new(to).await?;
                    while !stop.load(Ordering::Relaxed) {
                        caller.post(&events, book.submit()).await?;
                        accepted.fetch_add(1, Ordering::Relaxed);
                    }
                    Ok(())
                }
            };
            Box::new(move || {
                in_a_runtime(async move { join_all((0..callers).map(|_| call())).await.into_iter().collect() })
            })
        })
    }

    /// So many events a second, through as many callers as it takes.
    pub fn open(to: SocketAddr, rate: u64, callers: u64, events: Events, book: Arc<Book>) -> Load {
        Load::start(move |stop, accepted| {
            Box::new(move || {
                in_a_runtime(async move {
                    let began = Instant::now();
                    let calls = (0..callers).map(|first| {
                        let (events, book, stop, accepted) =
                            (events.clone(), book.clone(), stop.clone(), accepted.clone());
                        async move {
                            let mut caller = Caller::new(to).await?;
                            for turn in (first..).step_by(callers as usize) {
                                sleep_until(began + Duration::from_nanos(turn * 1_000_000_000 / rate)).await;
                                if stop.load(Ordering::Relaxed) {
                                    break;
                                }
                                caller.post(&events, book.submit()).await?;
                                accepted.fetch_add(1, Ordering::Relaxed);
                            }
                            Ok(())
                        }
                    });
                    join_all(calls).await.into_iter().collect()
                })
            })
        })
    }

    fn start(job: impl FnOnce(Arc<AtomicBool>, Arc<AtomicU64>) -> Box<dyn FnOnce() -> io::Result<()> + Send>) -> Load {
        let (stop, accepted) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let job = job(stop.clone(), accepted.clone());
        let thread = std::thread::spawn(move || job().expect("every event is accepted"));
        Load { stop, accepted, thread: Some(thread) }
    }

    pub fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed)
    }

    /// Returns how many were accepted in all.
    pub fn stop(mut self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().expect("once").join().expect("the load");
        self.accepted()
    }
}

fn in_a_runtime<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(work)
}

/// Posts so many events as fast as they are taken.
pub fn post_all(to: SocketAddr, count: u64, events: &Events, book: &Arc<Book>) {
    let left = Arc::new(AtomicU64::new(count));
    let calls = (0..64).map(|_| {
        let (left, events, book) = (left.clone(), events.clone(), book.clone());
        async move {
            let mut caller = Caller::new(to).await?;
            while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok() {
                caller.post(&events, book.submit()).await?;
            }
            Ok::<_, io::Error>(())
        }
    });
    let done: io::Result<Vec<()>> = in_a_runtime(async move { join_all(calls).await.into_iter().collect() });
    done.expect("every event is accepted");
}

/// One connection to the API.
struct Caller {
    stream: TcpStream,
    request: Vec<u8>,
    answer: Vec<u8>,
}

impl Caller {
    async fn new(to: SocketAddr) -> io::Result<Caller> {
        let stream = TcpStream::connect(to).await?;
        stream.set_nodelay(true)?;
        Ok(Caller { stream, request: Vec::new(), answer: Vec::with_capacity(4 * 1024) })
    }

    async fn post(&mut self, events: &Events, number: u64) -> io::Result<()> {
        events.request(number, &mut self.request);
        self.stream.write_all(&self.request).await?;
        self.answer.clear();
        loop {
            if self.stream.read_buf(&mut self.answer).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if is_whole(&self.answer) {
                break;
            }
        }
        match self.answer.starts_with(b"HTTP/1.1 202") {
            true => Ok(()),
            false => Err(io::Error::other(String::from_utf8_lossy(&self.answer).into_owned())),
        }
    }
}

fn is_whole(answer: &[u8]) -> bool {
    let Some(head) = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n") else { return false };
    let text = String::from_utf8_lossy(&answer[..head]).to_ascii_lowercase();
    let length = text.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse::<usize>().ok());
    answer.len() >= head + 4 + length.unwrap_or(0)
}
