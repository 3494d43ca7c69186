//! A fast receiver that answers by a script and keeps a ledger outside the process under test: who came when, with which
//! attempt, and what was answered.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use super::raw::RawRequest;

/// One request.
#[derive(Clone, Debug)]
pub struct Arrival {
    pub path: String,
    pub event: String,
    /// The number within the run, as the header says it.
    pub attempt: u32,
    pub at: Instant,
    /// During which life of the process under test, as told by [`Receiver::next_life`].
    pub life: u64,
    /// What was answered, noted before it is written; `None`: nothing yet.
    pub answer: Option<u16>,
    pub request: RawRequest,
}

/// What to do with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    Answer(u16),
    /// Nothing, until the sender closes.
    Hang,
}

type Script = dyn Fn(&Arrival) -> Reply + Send + Sync;

pub struct Receiver {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    ledger: Mutex<Vec<Arrival>>,
    changed: Condvar,
    open: AtomicUsize,
    life: AtomicU64,
    closed: AtomicBool,
    script: Box<Script>,
}

impl Shared {
    fn ledger(&self) -> MutexGuard<'_, Vec<Arrival>> {
        self.ledger.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Receiver {
    /// Answers each request as `script` says; the script may take its time, each connection has a thread.
    pub fn start(script: impl Fn(&Arrival) -> Reply + Send + Sync + 'static) -> Receiver {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a local port");
        let address = listener.local_addr().expect("its address");
        let shared = Arc::new(Shared {
            ledger: Mutex::default(),
            changed: Condvar::new(),
            open: AtomicUsize::new(0),
            life: AtomicU64::new(0),
            closed: AtomicBool::new(false),
            script: Box::new(script),
        });
        let theirs = shared.clone();
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if theirs.closed.load(Ordering::SeqCst) {
                    return;
                }
                let shared = theirs.clone();
                shared.open.fetch_add(1, Ordering::SeqCst);
                let serve = move || {
                    // However the connection ends: the sender's end of it is in the ledger.
                    let _ = shared.serve(stream);
                    shared.open.fetch_sub(1, Ordering::SeqCst);
                };
                thread::Builder::new().stack_size(128 * 1024).spawn(serve).expect("a thread");
            }
        });
        Receiver { address, shared }
    }

    /// Always the same status.
    pub fn always(status: u16) -> Receiver {
        Receiver::start(move |_| Reply::Answer(status))
    }

    /// A 200 for each request, once the gate is open.
    pub fn behind_a_gate() -> (Receiver, Gate) {
        let gate = Gate::default();
        let theirs = gate.clone();
        let receiver = Receiver::start(move |_| {
            theirs.pass();
            Reply::Answer(200)
        });
        (receiver, gate)
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Everything so far, in order of arrival.
    pub fn ledger(&self) -> Vec<Arrival> {
        self.shared.ledger().clone()
    }

    /// How many requests came so far.
    pub fn count(&self) -> usize {
        self.shared.ledger().len()
    }

    /// The ids of the events that came, in order of arrival.
    pub fn events(&self) -> Vec<String> {
        self.shared.ledger().iter().map(|arrival| arrival.event.clone()).collect()
    }

    /// Waits until the ledger is as wanted.
    #[track_caller]
    pub fn wait(&self, what: &str, limit: Duration, wanted: impl Fn(&[Arrival]) -> bool) {
        let deadline = Instant::now() + limit;
        let mut ledger = self.shared.ledger();
        while !wanted(&ledger) {
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "{what}: not within {limit:?}; {} requests came", ledger.len());
            let step = left.min(Duration::from_millis(100));
            ledger = self.shared.changed.wait_timeout(ledger, step).unwrap_or_else(|poisoned| poisoned.into_inner()).0;
        }
    }

    /// The process under test has died: waits until all that it had sent is in the ledger, then counts its next life.
    pub fn next_life(&self) {
        super::server::wait_for("connections of a dead process end", Duration::from_secs(20), || {
            (self.shared.open.load(Ordering::SeqCst) == 0).then_some(())
        });
        self.new_life();
    }

    /// The same without waiting: all that was sent is known to be here, though scripts still hold it.
    pub fn new_life(&self) {
        self.shared.life.fetch_add(1, Ordering::SeqCst);
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
    }
}

impl Shared {
    fn serve(&self, stream: TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let mut stream = BufReader::with_capacity(16 * 1024, stream);
        while let Some(request) = read_request(&mut stream)? {
            let header = |name| request.header(name).unwrap_or_default().to_owned();
            let arrival = Arrival {
                path: request.request_line().split(' ').nth(1).unwrap_or_default().to_owned(),
                event: header("webhook-id"),
                attempt: header("posthaste-attempt").parse().unwrap_or(0),
                at: Instant::now(),
                life: self.life.load(Ordering::SeqCst),
                answer: None,
                request,
            };
            let index = {
                let mut ledger = self.ledger();
                ledger.push(arrival.clone());
                self.changed.notify_all();
                ledger.len() - 1
            };
            match (self.script)(&arrival) {
                Reply::Answer(status) => {
                    self.ledger()[index].answer = Some(status);
                    self.changed.notify_all();
                    let answer = format!("HTTP/1.1 {status} Scripted\r\nContent-Length: 0\r\n\r\n");
                    stream.get_mut().write_all(answer.as_bytes())?;
                }
                Reply::Hang => {
                    let mut rest = [0; 64];
                    while stream.read(&mut rest)? > 0 {}
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

/// The next request on a connection; `None` if it was closed before one began.
pub fn read_request(stream: &mut BufReader<TcpStream>) -> io::Result<Option<RawRequest>> {
    let mut head = String::new();
    loop {
        let start = head.len();
        if stream.read_line(&mut head)? == 0 {
            return Ok(None);
        }
        if head[start..].trim_end().is_empty() {
            break;
        }
    }
    let mut request = RawRequest { head, body: Vec::new() };
    let length = request.header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    request.body = vec![0; length];
    stream.read_exact(&mut request.body)?;
    Ok(Some(request))
}

/// A place where scripts wait until it is opened.
#[derive(Clone, Default)]
pub struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    pub fn pass(&self) {
        let mut open = self.0.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        while !*open {
            open = self.0.1.wait(open).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
    }

    pub fn open(&self) {
        *self.0.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = true;
        self.0.1.notify_all();
    }
}

/// Receivers that take connections and never say anything. One thread however many they are.
pub struct Tarpit {
    pub address: SocketAddr,
    closed: Arc<AtomicBool>,
}

impl Tarpit {
    pub fn start() -> Tarpit {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a local port");
        let address = listener.local_addr().expect("its address");
        let closed = Arc::new(AtomicBool::new(false));
        let theirs = closed.clone();
        thread::spawn(move || {
            let mut held = Vec::new();
            for stream in listener.incoming() {
                if theirs.load(Ordering::SeqCst) {
                    return;
                }
                held.extend(stream);
            }
        });
        Tarpit { address, closed }
    }
}

impl Drop for Tarpit {
    fn drop(&mut self) {
        self.closed.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
    }
}
