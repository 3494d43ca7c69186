//! The API as a plain HTTP client calls it.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// The operator's key of every server that tests start as a process.
pub const KEY: &str = "ph_process_tests_0123456789";
/// Where the routes of the contract stand.
const ROOT: &str = "/api/v1/webhooks";
/// No call of the API takes longer.
const CALL_LIMIT: Duration = Duration::from_secs(30);

/// One connection to the API. Any error closes it; the next call opens another.
pub struct Client {
    address: SocketAddr,
    stream: Option<BufReader<TcpStream>>,
}

/// What the server answered.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Answer {
    /// The body, if the status is this one.
    #[track_caller]
    pub fn json(&self, status: u16) -> Value {
        let body = String::from_utf8_lossy(&self.body);
        assert_eq!(self.status, status, "{body}");
        serde_json::from_str(&body).unwrap_or(Value::Null)
    }
}

impl Client {
    pub fn new(address: SocketAddr) -> Client {
        Client { address, stream: None }
    }

    /// One request and its answer. `path` stands below the API's root unless it is one of the root's own.
    pub fn send(&mut self, method: &str, path: &str, body: &[u8]) -> io::Result<Answer> {
        self.send_with("", method, path, body)
    }

    /// A POST with an `Idempotency-Key`.
    pub fn keyed(&mut self, key: &str, path: &str, body: &Value) -> io::Result<Answer> {
        self.send_with(&format!("Idempotency-Key: {key}\r\n"), "POST", path, body.to_string().as_bytes())
    }

    /// With further header lines.
    fn send_with(&mut self, lines: &str, method: &str, path: &str, body: &[u8]) -> io::Result<Answer> {
        let answer = self.exchange(lines, method, path, body);
        let closes = answer.as_ref().map_or(true, |answer| {
            let head = answer.head.to_ascii_lowercase();
            head.contains("connection: close")
        });
        if closes {
            self.stream = None;
        }
        answer
    }

    fn exchange(&mut self, lines: &str, method: &str, path: &str, body: &[u8]) -> io::Result<Answer> {
        if self.stream.is_none() {
            let stream = TcpStream::connect(self.address)?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(CALL_LIMIT))?;
            self.stream = Some(BufReader::with_capacity(64 * 1024, stream));
        }
        let Some(stream) = &mut self.stream else { return Err(io::ErrorKind::NotConnected.into()) };
        let root = if path.starts_with("/healthz") || path.starts_with("/readyz") { "" } else { ROOT };
        let kind = if body.is_empty() { "" } else { "Content-Type: application/json\r\n" };
        let head = format!(
            "{method} {root}{path} HTTP/1.1\r\nHost: test\r\nX-API-Key: {KEY}\r\n{lines}{kind}Content-Length: {}\r\n\r\n",
            body.len()
        );
        let request = [head.as_bytes(), body].concat();
        stream.get_mut().write_all(&request)?;
        read_answer(stream)
    }
}

fn read_answer(stream: &mut BufReader<TcpStream>) -> io::Result<Answer> {
    let mut head = String::new();
    loop {
        let start = head.len();
        if stream.read_line(&mut head)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if head[start..].trim_end().is_empty() {
            break;
        }
    }
    let bad = || io::Error::from(io::ErrorKind::InvalidData);
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or_else(bad)?;
    let field = |name: &str| {
        let fields = head.lines().filter_map(|line| line.split_once(':'));
        fields.into_iter().find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    };
    let body = if field("transfer-encoding").is_some_and(|coding| coding == "chunked") {
        read_chunks(stream)?
    } else {
        let length = field("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
        let mut body = vec![0; length];
        stream.read_exact(&mut body)?;
        body
    };
    Ok(Answer { status, head, body })
}

fn read_chunks(stream: &mut BufReader<TcpStream>) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line)?;
        let bad = |_| io::Error::from(io::ErrorKind::InvalidData);
        let length = usize::from_str_radix(line.trim(), 16).map_err(bad)?;
        let start = body.len();
        body.resize(start + length + 2, 0);
        stream.read_exact(&mut body[start..])?;
        body.truncate(start + length);
        if length == 0 {
            return Ok(body);
        }
    }
}
