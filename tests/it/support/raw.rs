//! Receivers that write exactly the bytes they are told to. Each connection is served by a thread of its own, by a
//! script of blocking calls; everything ends when the receiver is dropped or the sender closes.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

/// No blocking call of a script waits longer; a test that runs into this hangs for its own reasons.
const PATIENCE: Duration = Duration::from_secs(20);

/// A request as it came, byte for byte.
#[derive(Clone, Debug, Default)]
pub struct RawRequest {
    /// Request line and headers, with the empty line.
    pub head: String,
    pub body: Vec<u8>,
}

impl RawRequest {
    pub fn request_line(&self) -> &str {
        self.head.lines().next().unwrap_or_default()
    }

    /// The value of the first header of this name, in any case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().skip(1).filter_map(|line| line.split_once(": "));
        lines.into_iter().find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

/// A scripted receiver on a local port.
pub struct RawReceiver {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    /// The receiver was dropped.
    over: Mutex<bool>,
    ended: Condvar,
    connections: AtomicUsize,
    requests: Mutex<Vec<RawRequest>>,
    /// A second handle on every connection whose script still runs, by its number.
    open: Mutex<HashMap<usize, TcpStream>>,
}

impl RawReceiver {
    /// Runs `script` for every connection.
    pub fn scripted(script: impl Fn(&mut Conversation) + Send + Sync + 'static) -> RawReceiver {
        Self::bound_to(Ipv4Addr::LOCALHOST.into(), script)
    }

    /// The same on another local address.
    pub fn bound_to(ip: std::net::IpAddr, script: impl Fn(&mut Conversation) + Send + Sync + 'static) -> RawReceiver {
        let listener = TcpListener::bind((ip, 0)).expect("a local port");
        let address = listener.local_addr().expect("its address");
        let shared = Arc::new(Shared::default());
        let (script, theirs) = (Arc::new(script), Arc::clone(&shared));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else { return };
                let number = theirs.connections.fetch_add(1, Ordering::SeqCst);
                // The receiver that was dropped wakes us up with a connection of its own.
                let Ok(twin) = stream.try_clone() else { return };
                if *theirs.over.lock().expect("over") {
                    return;
                }
                theirs.open.lock().expect("open").insert(number, twin);
                let (script, shared) = (Arc::clone(&script), Arc::clone(&theirs));
                thread::spawn(move || {
                    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
                    stream.set_nodelay(true).expect("no delay");
                    let mut conversation = Conversation { stream, number, shared, ahead: Vec::new() };
                    script(&mut conversation);
                });
            }
        });
        RawReceiver { address, shared }
    }

    /// Answers every request on every connection with these bytes, and closes only when the sender does.
    pub fn answering(answer: impl Into<Vec<u8>>) -> RawReceiver {
        let answer = answer.into();
        Self::scripted(move |conversation| {
            while conversation.request().is_some() {
                conversation.write(&answer);
            }
        })
    }

    /// Answers one request for each connection and closes at once.
    pub fn answering_once(answer: impl Into<Vec<u8>>) -> RawReceiver {
        let answer = answer.into();
        Self::scripted(move |conversation| {
            conversation.request();
            conversation.write(&answer);
        })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// `http://<address><path>`.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// How many connections were accepted.
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }

    /// The requests that were read by the script so far, in order of arrival.
    pub fn requests(&self) -> Vec<RawRequest> {
        self.shared.requests.lock().expect("requests").clone()
    }

    /// The only request that came.
    pub fn only_request(&self) -> RawRequest {
        let requests = self.requests();
        assert_eq!(requests.len(), 1, "{requests:?}");
        requests.into_iter().next().expect("one")
    }
}

impl Drop for RawReceiver {
    fn drop(&mut self) {
        *self.shared.over.lock().expect("over") = true;
        self.shared.ended.notify_all();
        for stream in self.shared.open.lock().expect("open").values() {
            let _ = stream.shutdown(Shutdown::Both);
        }
        self.shared = Arc::default();
        let _ = TcpStream::connect(self.address);
    }
}

/// One connection, from the receiver's side.
pub struct Conversation {
    stream: TcpStream,
    number: usize,
    shared: Arc<Shared>,
    /// Read but not yet used.
    ahead: Vec<u8>,
}

impl Conversation {
    /// Reads one whole request; `None` when the sender has closed.
    pub fn request(&mut self) -> Option<RawRequest> {
        let head = self.read_head()?;
        let mut request = RawRequest { head, body: Vec::new() };
        request.body = self.rest(&request)?;
        self.shared.requests.lock().expect("requests").push(request.clone());
        Some(request)
    }

    /// Reads what is left of a request whose head was read.
    pub fn rest(&mut self, request: &RawRequest) -> Option<Vec<u8>> {
        let length = request.header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
        while self.ahead.len() < length {
            self.read_more()?;
        }
        Some(self.ahead.drain(..length).collect())
    }

    /// Reads the head of a request and leaves the body where it is.
    pub fn head(&mut self) -> Option<RawRequest> {
        let request = RawRequest { head: self.read_head()?, body: Vec::new() };
        self.shared.requests.lock().expect("requests").push(request.clone());
        Some(request)
    }

    /// Writes bytes as they are; false if the sender is gone, which is its right.
    pub fn write(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).is_ok()
    }

    /// Says that nothing more will be written, and can still read.
    pub fn finish_writing(&self) {
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// From now on closing means a reset, whatever was read.
    pub fn close_with_a_reset(&self) {
        socket2::SockRef::from(&self.stream).set_linger(Some(Duration::ZERO)).expect("a socket option");
    }

    /// Which of the receiver's connections this is, from 0 on.
    pub fn number(&self) -> usize {
        self.number
    }

    /// Ends the connection now, as far as the sender can see.
    pub fn end(&mut self) {
        self.shared.open.lock().expect("open").remove(&self.number);
        let unconnected = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("a socket");
        self.stream = unconnected.into();
    }

    /// Neither reads nor writes until the receiver is dropped.
    pub fn wait_for_end_of_test(&self) {
        let over = self.shared.over.lock().expect("over");
        drop(self.shared.ended.wait_while(over, |over| !*over));
    }

    /// Says nothing until the sender closes.
    pub fn wait_for_close(&mut self) {
        while self.read_more().is_some() {
            self.ahead.clear();
        }
    }

    fn read_head(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.ahead.windows(4).position(|four| four == b"\r\n\r\n") {
                let head: Vec<u8> = self.ahead.drain(..end + 4).collect();
                return Some(String::from_utf8_lossy(&head).into_owned());
            }
            self.read_more()?;
        }
    }

    fn read_more(&mut self) -> Option<()> {
        let mut space = [0; 16 * 1024];
        let length = self.stream.read(&mut space).ok().filter(|length| *length > 0)?;
        self.ahead.extend_from_slice(&space[..length]);
        Some(())
    }
}

/// The script has ended: the connection is closed, with a reset if something of the sender's is unread.
impl Drop for Conversation {
    fn drop(&mut self) {
        self.shared.open.lock().expect("open").remove(&self.number);
    }
}
