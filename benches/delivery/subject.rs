//! The process that is measured.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{Setting, machine};

/// The operator's key.
pub const KEY: &str = "ph_bench_0123456789abcdef";

pub struct Subject {
    pub address: SocketAddr,
    folder: TempDir,
    binary: PathBuf,
    process: Child,
    /// From its launch until it said where it listens.
    pub started_in: Duration,
}

impl Subject {
    pub fn start(setting: &Setting) -> Subject {
        let folder = tempfile::tempdir_in(&setting.store).expect("a folder");
        let (process, address, started_in) = launch(&setting.binary, &folder);
        Subject { address, folder, binary: setting.binary.clone(), process, started_in }
    }

    /// `kill -9`, and a new process on the same store.
    pub fn restart(&mut self) {
        self.kill();
        (self.process, self.address, self.started_in) = launch(&self.binary, &self.folder);
    }

    pub fn kill(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    pub fn database(&self) -> PathBuf {
        self.folder.path().join("posthaste.db")
    }

    pub fn processor_time(&self) -> Duration {
        machine::of_process(self.process.id())
    }

    /// Now, and the most so far, in MB.
    pub fn memory(&self) -> (f64, f64) {
        machine::memory(self.process.id())
    }

    /// Makes endpoints, as many as there are bodies.
    pub fn endpoints(&self, bodies: &[Value]) -> Vec<String> {
        let threads = 16.min(bodies.len());
        let made = std::thread::scope(|scope| {
            let makers: Vec<_> = (0..threads)
                .map(|first| {
                    scope.spawn(move || {
                        let mut api = Api::new(self.address);
                        let mine = (first..bodies.len()).step_by(threads);
                        mine.map(|index| (index, api.ask("POST", "/endpoints", &bodies[index]))).collect::<Vec<_>>()
                    })
                })
                .collect();
            let mut made: Vec<_> = makers.into_iter().flat_map(|maker| maker.join().expect("a maker")).collect();
            made.sort_by_key(|(index, _)| *index);
            made
        });
        made.iter().map(|(_, one)| one["id"].as_str().expect("an id").to_owned()).collect()
    }

    pub fn endpoint(&self, body: Value) -> String {
        self.endpoints(&[body]).remove(0)
    }

    pub fn status(&self, endpoint: &str) -> Value {
        Api::new(self.address).ask("GET", &format!("/endpoints/{endpoint}/status"), &Value::Null)
    }
}

impl Drop for Subject {
    fn drop(&mut self) {
        self.kill();
    }
}

/// An endpoint of this type of event, with nothing that would end the measurement.
pub fn endpoint(url: &str, kind: &str, max_in_flight: u32, more: Value) -> Value {
    let mut policy = json!({"timeout": "15s", "auto_disable": null, "circuit_breaker": null, "jitter": 0});
    for (name, value) in more.as_object().into_iter().flatten() {
        policy[name] = value.clone();
    }
    json!({"url": url, "event_types": [kind], "max_in_flight": max_in_flight, "policy": policy})
}

fn launch(binary: &PathBuf, folder: &TempDir) -> (Child, SocketAddr, Duration) {
    let began = Instant::now();
    let mut process = Command::new(binary)
        .args(["serve", "--listen", "127.0.0.1:0", "--allow-target", "127.0.0.0/8"])
        .args(["--database-url", &format!("sqlite:{}/posthaste.db", folder.path().display())])
        .env("POSTHASTE_OPERATOR_KEY", KEY)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(std::fs::File::options().append(true).create(true).open(folder.path().join("log")).expect("a log"))
        .spawn()
        .expect("the binary starts");
    let mut line = String::new();
    BufReader::new(process.stdout.take().expect("its output")).read_line(&mut line).expect("a line");
    let address = line.trim().strip_prefix("listening on http://").and_then(|address| address.parse().ok());
    (process, address.unwrap_or_else(|| panic!("it did not start: {line}")), began.elapsed())
}

/// One connection for the calls that are not measured.
struct Api(BufReader<TcpStream>);

impl Api {
    fn new(to: SocketAddr) -> Api {
        let stream = TcpStream::connect(to).expect("a connection");
        stream.set_nodelay(true).expect("an option");
        Api(BufReader::new(stream))
    }

    fn ask(&mut self, method: &str, path: &str, body: &Value) -> Value {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let request = format!(
            "{method} /api/v1/webhooks{path} HTTP/1.1\r\nHost: bench\r\nX-API-Key: {KEY}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        self.0.get_mut().write_all(request.as_bytes()).expect("sent");
        let (mut head, mut length) = (String::new(), 0);
        loop {
            let start = head.len();
            self.0.read_line(&mut head).expect("a line");
            let line = head[start..].trim().to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            length =
                line.strip_prefix("content-length:").map_or(length, |value| value.trim().parse().expect("a length"));
        }
        let mut answer = vec![0; length];
        self.0.read_exact(&mut answer).expect("a body");
        assert!(head.starts_with("HTTP/1.1 2"), "{method} {path}: {head}{}", String::from_utf8_lossy(&answer));
        serde_json::from_slice(&answer).unwrap_or(Value::Null)
    }
}
