//! Receivers whose mood changes while the soak runs. Each keeps, outside the process under test, what came and what was
//! said to it.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use posthaste::domain::ids::parse_delivery_id;
use posthaste::domain::secret::SigningSecret;
use posthaste::domain::signature::{verify_standard, verify_timestamped};
use posthaste::domain::time::Span;

use crate::support::raw::RawRequest;
use crate::support::receiver::read_request;
use crate::support::server::wait_for;

/// How a receiver treats what comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mood {
    Healthy,
    /// 503 to every other one.
    Half,
    /// Right, after a while.
    Slow,
    /// Says nothing.
    Hang,
    /// Reads the request and resets the connection.
    Reset,
    /// Right, and closes the connection without saying so.
    Closing,
    /// Bytes that are no HTTP.
    Garbage,
    /// 200, and a body that never ends.
    Endless,
    /// Nobody listens.
    Away,
}

impl Mood {
    pub const ALL: [Mood; 9] = [
        Mood::Healthy,
        Mood::Half,
        Mood::Slow,
        Mood::Hang,
        Mood::Reset,
        Mood::Closing,
        Mood::Garbage,
        Mood::Endless,
        Mood::Away,
    ];
}

/// What a request was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// Not a byte, or none yet.
    Nothing,
    Status(u16),
    Garbage,
}

/// One request.
#[derive(Clone, Debug)]
pub struct Arrival {
    pub receiver: usize,
    pub endpoint: String,
    pub delivery: i64,
    pub event: String,
    pub kind: String,
    /// The number within the run, as the header says it.
    pub attempt: u32,
    pub path: String,
    pub at: Instant,
    /// The same in microseconds since 1970.
    pub wall: i64,
    pub life: usize,
    /// Its place among the requests of its connection, from 0.
    pub nth: u32,
    /// Of the whole body, and of the caller's data in it.
    pub body: u64,
    pub data: u64,
    /// What is wrong with its signatures or its body.
    pub fault: Option<String>,
    pub told: Told,
    /// It was answered (noted before the answer is written), or its connection ended.
    pub end: Option<Instant>,
    /// The sender ended it.
    pub left: bool,
}

pub fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}

/// So many seconds ahead is the subject's wall clock at times.
pub const CLOCK_STEP: i64 = 7_200;

pub fn wall() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as i64)
}

/// What all receivers write into, in order of arrival.
#[derive(Default)]
pub struct Book {
    arrivals: Mutex<Vec<Arrival>>,
    /// Connections that are not over yet.
    open: AtomicUsize,
    life: AtomicUsize,
    /// The sender's wall clock may be [`CLOCK_STEP`] ahead.
    pub stepped: AtomicBool,
    /// Requests that were signed so much ahead, and at the right time.
    pub ahead: AtomicUsize,
    pub right: AtomicUsize,
}

impl Book {
    pub fn all(&self) -> Vec<Arrival> {
        self.arrivals.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn count(&self) -> usize {
        self.arrivals.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    fn with<T>(&self, change: impl FnOnce(&mut Vec<Arrival>) -> T) -> T {
        change(&mut self.arrivals.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

pub struct Receiver {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    number: usize,
    secret: SigningSecret,
    book: Arc<Book>,
    mood: Mutex<Mood>,
    turns: AtomicU64,
    /// Accepting ends; a connection of ours wakes it.
    closed: AtomicBool,
}

impl Receiver {
    /// Each has an address of its own, so that no outgoing connection takes its port while nobody listens.
    pub fn start(number: usize, secret: &str, book: Arc<Book>) -> Receiver {
        let listener = TcpListener::bind(SocketAddr::from(([127, 0, 1, number as u8 + 1], 0))).expect("a local port");
        let shared = Arc::new(Shared {
            number,
            secret: SigningSecret::parse(secret).expect("a secret"),
            book,
            mood: Mutex::new(Mood::Healthy),
            turns: AtomicU64::new(0),
            closed: AtomicBool::new(false),
        });
        let receiver = Receiver { address: listener.local_addr().expect("bound"), shared };
        receiver.listen(listener);
        receiver
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub fn mood(&self) -> Mood {
        *self.shared.mood.lock().expect("mood")
    }

    pub fn set(&self, mood: Mood) {
        let before = std::mem::replace(&mut *self.shared.mood.lock().expect("mood"), mood);
        if mood == Mood::Away && before != Mood::Away {
            self.leave();
        } else if mood != Mood::Away && before == Mood::Away {
            self.shared.closed.store(false, Ordering::SeqCst);
            let bound = || TcpListener::bind(self.address).ok();
            self.listen(wait_for("the port is free again", Duration::from_secs(20), bound));
        }
    }

    fn leave(&self) {
        self.shared.closed.store(true, Ordering::SeqCst);
        // The thread that accepts drops the listener with this connection.
        if let Ok(mut waker) = TcpStream::connect(self.address) {
            let _ = waker.read(&mut [0]);
        }
    }

    fn listen(&self, listener: TcpListener) {
        let shared = self.shared.clone();
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if shared.closed.load(Ordering::SeqCst) {
                    return;
                }
                let shared = shared.clone();
                shared.book.open.fetch_add(1, Ordering::SeqCst);
                let serve = move || {
                    // However it ends: what came is in the book.
                    let _ = shared.serve(stream);
                    shared.book.open.fetch_sub(1, Ordering::SeqCst);
                };
                thread::Builder::new().stack_size(256 * 1024).spawn(serve).expect("a thread");
            }
        });
    }

    /// Returns when all connections made before are accepted: the listener's queue is in order.
    fn barrier(&self) {
        if self.mood() != Mood::Away {
            let mut stream = TcpStream::connect(self.address).expect("it listens");
            stream.write_all(b"GET /barrier HTTP/1.1\r\n\r\n").expect("written");
            let _ = stream.read(&mut [0; 64]);
        }
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        if self.mood() != Mood::Away {
            self.leave();
        }
    }
}

/// The process under test has died: once all that it had sent is in the book, the next life is counted.
pub fn next_life(receivers: &[&Receiver], book: &Book) {
    receivers.iter().for_each(|receiver| receiver.barrier());
    wait_for("connections of a dead process end", Duration::from_secs(20), || {
        (book.open.load(Ordering::SeqCst) == 0).then_some(())
    });
    book.life.fetch_add(1, Ordering::SeqCst);
}

impl Shared {
    fn serve(&self, stream: TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let mut stream = BufReader::with_capacity(16 * 1024, stream);
        for nth in 0.. {
            let Some(request) = read_request(&mut stream)? else { return Ok(()) };
            if request.request_line().contains("/barrier") {
                return stream.get_mut().write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
            }
            let arrival = self.arrival(&request, nth);
            let index = self.book.with(|all| {
                all.push(arrival);
                all.len() - 1
            });
            let goes_on = self.answer(&mut stream, index);
            self.over(index, None);
            if !goes_on? {
                return Ok(());
            }
        }
        Ok(())
    }

    fn arrival(&self, request: &RawRequest, nth: u32) -> Arrival {
        let header = |name| request.header(name).unwrap_or_default().to_owned();
        let (event, kind) = (header("webhook-id"), header("posthaste-event-type"));
        let text = String::from_utf8_lossy(&request.body);
        let start = format!("{{\"id\":\"{event}\",\"type\":\"{kind}\",\"created_at\":\"");
        let data = text.find(",\"data\":").map(|at| &request.body[at + 8..request.body.len() - 1]);
        let whole = text.starts_with(&start) && text.ends_with('}') && data.is_some();
        let fault = if whole { self.wrongly_signed(request) } else { Some(format!("a body that is none: {text}")) };
        Arrival {
            receiver: self.number,
            endpoint: header("posthaste-endpoint-id"),
            delivery: parse_delivery_id(&header("posthaste-delivery-id")).map_or(0, |no| no.0),
            attempt: header("posthaste-attempt").parse().unwrap_or(0),
            path: request.request_line().split(' ').nth(1).unwrap_or_default().to_owned(),
            at: Instant::now(),
            wall: wall(),
            life: self.book.life.load(Ordering::SeqCst),
            nth,
            body: hash(&request.body),
            data: hash(data.unwrap_or_default()),
            event,
            kind,
            fault,
            told: Told::Nothing,
            end: None,
            left: false,
        }
    }

    fn wrongly_signed(&self, request: &RawRequest) -> Option<String> {
        let now = wall() / 1_000_000;
        let wrong = self.wrongly_signed_at(request, now);
        if wrong.is_some() && self.book.stepped.load(Ordering::SeqCst) {
            // The sender's clock is ahead, or was when the request was signed.
            let ahead = self.wrongly_signed_at(request, now + CLOCK_STEP);
            self.book.ahead.fetch_add(usize::from(ahead.is_none()), Ordering::SeqCst);
            return ahead;
        }
        self.book.right.fetch_add(usize::from(wrong.is_none()), Ordering::SeqCst);
        wrong
    }

    fn wrongly_signed_at(&self, request: &RawRequest, now: i64) -> Option<String> {
        let header = |name| request.header(name).unwrap_or_default();
        let (tolerance, secrets) = (Span::from_secs(60), [&self.secret]);
        let (id, time, signature) = (header("webhook-id"), header("webhook-timestamp"), header("webhook-signature"));
        let standard = verify_standard(id, time, signature, &request.body, &secrets, now, tolerance);
        let signature = header("posthaste-signature");
        let timestamped = verify_timestamped(signature, &request.body, &secrets, now, tolerance);
        standard.and(timestamped).err().map(|error| error.to_string())
    }

    /// Notes what is told before it is written: whoever acts upon it acts later.
    fn over(&self, index: usize, told: Option<Told>) {
        self.book.with(|all| {
            let arrival = &mut all[index];
            arrival.left |= told.is_none() && arrival.end.is_none();
            arrival.end.get_or_insert_with(Instant::now);
            arrival.told = told.unwrap_or(arrival.told);
        });
    }

    /// Whether the connection goes on.
    fn answer(&self, stream: &mut BufReader<TcpStream>, index: usize) -> io::Result<bool> {
        let turn = self.turns.fetch_add(1, Ordering::SeqCst);
        let mood = *self.mood.lock().expect("mood");
        let (told, bytes): (Told, &[u8]) = match mood {
            Mood::Half if turn.is_multiple_of(2) => {
                (Told::Status(503), b"HTTP/1.1 503 No\r\nContent-Length: 5\r\n\r\nlater")
            }
            Mood::Garbage => (Told::Garbage, b"\x16\x03\x01 what?\r\n\0\r\n\r\n"),
            Mood::Endless => (Told::Status(200), b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"),
            Mood::Hang => {
                let mut rest = [0; 64];
                while stream.read(&mut rest)? > 0 {}
                return Ok(false);
            }
            Mood::Reset | Mood::Away => {
                self.over(index, Some(Told::Nothing));
                socket2::SockRef::from(stream.get_ref()).set_linger(Some(Duration::ZERO))?;
                return Ok(false);
            }
            _ => (Told::Status(200), b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
        };
        if mood == Mood::Slow {
            thread::sleep(Duration::from_millis(50 + turn % 7 * 60));
        }
        self.over(index, Some(told));
        stream.get_mut().write_all(bytes)?;
        if mood == Mood::Endless {
            // Until the sender has had enough, which is an error here.
            loop {
                stream.get_mut().write_all(b"400\r\n")?;
                stream.get_mut().write_all(&[b'x'; 0x400])?;
                stream.get_mut().write_all(b"\r\n")?;
            }
        }
        Ok(!matches!(mood, Mood::Garbage | Mood::Closing))
    }
}
