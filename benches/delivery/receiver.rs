//! A receiver that costs little: one thread, an answer to whatever is a whole request. What it does stands in the path.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::book::Book;

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
const FAILED: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n";

/// Paths begin so.
pub const WELL: &str = "/well";
pub const FAILS: &str = "/fails";
pub const HANGS: &str = "/hangs";
/// Fails the first attempt of each event, takes the second; what is measured then is how late it comes after [`LADDER`].
pub const RETRY: &str = "/retry";
pub const LADDER: Duration = Duration::from_secs(5);

/// Fails the first attempt of each event and says when the storm is to break loose; what is measured is how late it comes.
pub const STORM: &str = "/storm";

pub struct Receiver {
    pub address: SocketAddr,
    pub book: Arc<Book>,
    storm: Arc<OnceLock<Storm>>,
}

/// What the first attempts are answered, and when it breaks loose by the book.
struct Storm {
    answer: Vec<u8>,
    at: u64,
}

impl Receiver {
    pub fn start() -> Receiver {
        let book = Arc::<Book>::default();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.set_nonblocking(true).expect("an option");
        let address = listener.local_addr().expect("its address");
        let storm = Arc::<OnceLock<Storm>>::default();
        let theirs = (book.clone(), storm.clone());
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().expect("a runtime");
            runtime.block_on(async move {
                let listener = TcpListener::from_std(listener).expect("a listener");
                while let Ok((stream, _)) = listener.accept().await {
                    let _ = stream.set_nodelay(true);
                    tokio::spawn(serve(stream, theirs.0.clone(), theirs.1.clone()));
                }
            });
        });
        Receiver { address, book, storm }
    }

    /// Lets a storm break loose at a whole second, about then. Once.
    pub fn storm_in(&self, time: Duration) -> Instant {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
        let second = Duration::from_secs((wall + time).as_secs());
        let date = httpdate::fmt_http_date(UNIX_EPOCH + second);
        let answer = format!("HTTP/1.1 503 -\r\nRetry-After: {date}\r\nContent-Length: 0\r\n\r\n").into_bytes();
        let left = second - wall;
        let at = self.book.now() + left.as_nanos() as u64;
        assert!(self.storm.set(Storm { answer, at }).is_ok(), "one storm is enough");
        Instant::now() + left
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

/// One connection, until the sender closes it.
async fn serve(mut stream: TcpStream, book: Arc<Book>, storm: Arc<OnceLock<Storm>>) {
    let mut buffer = Vec::with_capacity(16 * 1024);
    loop {
        while let Some(length) = whole(&buffer) {
            let Some(answer) = answer(&buffer[..length], &book, storm.get()) else {
                // It hangs, until the sender has enough.
                while stream.read_buf(&mut buffer).await.is_ok_and(|count| count > 0) {
                    buffer.clear();
                }
                return;
            };
            if stream.write_all(answer).await.is_err() {
                return;
            }
            buffer.drain(..length);
        }
        if !stream.read_buf(&mut buffer).await.is_ok_and(|count| count > 0) {
            return;
        }
    }
}

/// The length of a request, if it is all there.
fn whole(buffer: &[u8]) -> Option<usize> {
    let head = find(buffer, b"\r\n\r\n")? + 4;
    let body = value(&buffer[..head], b"content-length: ").unwrap_or(0) as usize;
    (buffer.len() >= head + body).then_some(head + body)
}

fn answer<'a>(request: &[u8], book: &Book, storm: Option<&'a Storm>) -> Option<&'a [u8]> {
    let path = &request[b"POST ".len()..];
    let number = || value(request, super::load::NUMBER).unwrap_or(u64::MAX);
    if path.starts_with(HANGS.as_bytes()) {
        return None;
    }
    if path.starts_with(FAILS.as_bytes()) {
        return Some(FAILED);
    }
    let first = || value(request, b"posthaste-attempt: ") == Some(1);
    if path.starts_with(RETRY.as_bytes()) && first() {
        book.starts(number(), book.now() + LADDER.as_nanos() as u64);
        return Some(FAILED);
    }
    if let Some(storm) = storm.filter(|_| path.starts_with(STORM.as_bytes()) && first()) {
        book.starts(number(), storm.at);
        return Some(&storm.answer);
    }
    book.arrive(number());
    Some(OK)
}

/// The number behind a text, whose letters may be of either case.
fn value(within: &[u8], text: &[u8]) -> Option<u64> {
    let at = find(within, text)? + text.len();
    let digits = within[at..].iter().take_while(|byte| byte.is_ascii_digit());
    Some(digits.fold(0, |number, digit| number * 10 + u64::from(digit - b'0')))
}

fn find(within: &[u8], text: &[u8]) -> Option<usize> {
    let first = text[0];
    let mut from = 0;
    // By the first byte, which is rare: requests are long and this is done for each.
    while let Some(at) = within[from..].iter().position(|byte| byte.eq_ignore_ascii_case(&first)) {
        let at = from + at;
        if within[at..].get(..text.len()).is_some_and(|found| found.eq_ignore_ascii_case(text)) {
            return Some(at);
        }
        from = at + 1;
    }
    None
}
