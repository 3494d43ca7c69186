//! The real binary, started, killed and restarted from outside, and a small blocking client of its API.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

pub use super::client::{Answer, Client, KEY};
pub use super::machine::{alone, beside_others};

/// A process that has not said where it listens by then is broken.
const START_LIMIT: Duration = Duration::from_secs(30);

/// Looks every few milliseconds until there is an answer; the test fails if there is none in time.
#[track_caller]
pub fn wait_for<T>(what: &str, limit: Duration, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "{what}: not within {limit:?}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// The binary as it was when the first test needed it: held open, so that a build that replaces the file meanwhile
/// (several work trees share a target directory) does not change what is being tested. `POSTHASTE_TEST_BINARY` names
/// another one, such as a release build.
pub fn binary() -> PathBuf {
    static BINARY: OnceLock<File> = OnceLock::new();
    let file = BINARY.get_or_init(|| {
        let path = std::env::var("POSTHASTE_TEST_BINARY").unwrap_or_else(|_| env!("CARGO_BIN_EXE_posthaste").into());
        File::open(path).expect("the binary is built")
    });
    PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()))
}

/// How to start the binary.
#[derive(Clone, Debug)]
pub struct Options {
    pub scale: f64,
    /// Further arguments of `posthaste serve`.
    pub arguments: Vec<String>,
    /// `RUST_LOG`, if it is to be set.
    pub log: Option<&'static str>,
    /// `TZ`, if it is to be set.
    pub zone: Option<String>,
    /// A program and its arguments that start the binary as their only child; empty: nothing between.
    pub starter: Vec<&'static str>,
}

impl Default for Options {
    fn default() -> Options {
        Options { scale: 1.0, arguments: Vec::new(), log: None, zone: None, starter: Vec::new() }
    }
}

impl Options {
    pub fn scaled(scale: f64) -> Options {
        Options { scale, ..Options::default() }
    }

    pub fn with(mut self, arguments: &[&str]) -> Options {
        self.arguments.extend(arguments.iter().map(|&argument| argument.to_owned()));
        self
    }
}

/// A server with a directory of its own. Dropping it kills the process; if the test has failed, the end of its log is
/// printed.
pub struct Server {
    directory: TempDir,
    options: Options,
    /// It is started with the operator's key [`KEY`].
    keyed: bool,
    process: Option<Child>,
    address: Option<SocketAddr>,
    client: Mutex<Option<Client>>,
}

impl Server {
    /// A running server on an empty database.
    pub fn start(options: Options) -> Server {
        let mut server = Server::stopped(options);
        server.restart();
        server
    }

    /// One that is not running yet.
    pub fn stopped(options: Options) -> Server {
        let directory = tempfile::tempdir().expect("a directory");
        Server { directory, options, keyed: true, process: None, address: None, client: Mutex::default() }
    }

    /// The same at another time scale, from the next start on.
    pub fn rescaled(mut self, scale: f64) -> Server {
        self.options.scale = scale;
        self
    }

    /// The same without an operator's key in its environment, from the next start on.
    pub fn without_key(&mut self) -> &mut Server {
        self.keyed = false;
        self
    }

    pub fn database(&self) -> PathBuf {
        self.directory.path().join("posthaste.db")
    }

    /// `posthaste serve` on this server's database, ready to be spawned.
    pub fn command(&self) -> Command {
        let mut command = match self.options.starter.split_first() {
            Some((starter, arguments)) => {
                let mut command = Command::new(starter);
                command.args(arguments).arg(binary());
                command
            }
            None => Command::new(binary()),
        };
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--allow-target", "127.0.0.0/8"])
            .args(["--database-url", &format!("sqlite:{}", self.database().display())])
            .args(["--time-scale", &self.options.scale.to_string()])
            .args(&self.options.arguments)
            .stdin(Stdio::null());
        if let Some(log) = self.options.log {
            command.env("RUST_LOG", log);
        }
        if let Some(zone) = &self.options.zone {
            command.env("TZ", zone);
        }
        if self.keyed {
            command.env("POSTHASTE_OPERATOR_KEY", KEY);
        }
        command
    }

    /// Starts the process and does not wait for anything.
    pub fn launch(&mut self) {
        assert!(self.process.is_none(), "it runs already");
        let log = File::options().create(true).append(true).open(self.log_path()).expect("a log");
        let process = self.command().stdout(Stdio::piped()).stderr(log).spawn().expect("the binary starts");
        self.process = Some(process);
    }

    /// Starts the process and waits until it listens.
    pub fn restart(&mut self) {
        self.launch();
        let out = self.process.as_mut().and_then(|process| process.stdout.take()).expect("its output");
        let (said, line) = std::sync::mpsc::channel();
        // Reads on for as long as the process lives, so that it never writes into a closed pipe.
        thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                let _ = said.send(line);
            }
        });
        let line = line.recv_timeout(START_LIMIT).unwrap_or_else(|_| panic!("no start:\n{}", self.log()));
        let address = line.strip_prefix("listening on http://").expect("the line that says where");
        let address = address.split_whitespace().next().and_then(|text| text.parse().ok());
        self.address = Some(address.unwrap_or_else(|| panic!("no address in {line}")));
        *self.client.lock().expect("client") = None;
    }

    /// `kill -9`, and gone when this returns.
    pub fn kill(&mut self) {
        let mut process = self.process.take().expect("it runs");
        process.kill().expect("killed");
        process.wait().expect("its end");
    }

    /// SIGTERM.
    pub fn terminate(&self) {
        self.signal("TERM");
    }

    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([format!("-{name}"), self.pid().to_string()]).status();
        assert!(sent.expect("kill").success());
    }

    /// The binary's own process, whoever has started it.
    pub fn pid(&self) -> u32 {
        let pid = self.process.as_ref().expect("it runs").id();
        if self.options.starter.is_empty() {
            return pid;
        }
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).expect("its children");
        children.trim().parse().unwrap_or_else(|_| panic!("no only child: {children}"))
    }

    /// Waits for the process to end by itself.
    pub fn wait_for_exit(&mut self, limit: Duration) -> ExitStatus {
        let mut process = self.process.take().expect("it runs");
        wait_for("the process ends", limit, || process.try_wait().expect("its state"))
    }

    fn log_path(&self) -> PathBuf {
        self.directory.path().join("log")
    }

    /// What the processes have logged so far.
    pub fn log(&self) -> String {
        fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    pub fn address(&self) -> SocketAddr {
        self.address.expect("it has been started")
    }

    /// A client of its own connection.
    pub fn client(&self) -> Client {
        Client::new(self.address())
    }

    /// Asks; the server must answer, with whatever status.
    #[track_caller]
    pub fn call(&self, method: &str, path: &str, body: Option<&Value>) -> Answer {
        let mut slot = self.client.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let client = slot.get_or_insert_with(|| self.client());
        let body = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
        match client.send(method, path, &body) {
            Ok(answer) => answer,
            Err(error) => panic!("{method} {path}: {error}"),
        }
    }

    #[track_caller]
    pub fn get(&self, path: &str) -> Value {
        self.call("GET", path, None).json(200)
    }

    /// POSTs and expects this status.
    #[track_caller]
    pub fn post(&self, path: &str, body: &Value, status: u16) -> Value {
        self.call("POST", path, Some(body)).json(status)
    }

    /// A new endpoint's id.
    #[track_caller]
    pub fn endpoint(&self, body: Value) -> String {
        text(&self.post("/endpoints", &body, 201)["id"])
    }

    /// Posts an event with this id and type; returns its deliveries' ids.
    #[track_caller]
    pub fn event(&self, id: &str, kind: &str) -> Vec<String> {
        let answer = self.post("/events", &json!({"id": id, "type": kind, "data": {"n": 1}}), 202);
        answer["deliveries"].as_array().expect("deliveries").iter().map(|one| text(&one["id"])).collect()
    }

    #[track_caller]
    pub fn status(&self, endpoint: &str) -> Value {
        self.get(&format!("/endpoints/{endpoint}/status"))
    }

    #[track_caller]
    pub fn delivery(&self, id: &str) -> Value {
        self.get(&format!("/deliveries/{id}"))
    }

    /// Every row of a list.
    #[track_caller]
    pub fn all(&self, path: &str) -> Vec<Value> {
        let separator = if path.contains('?') { '&' } else { '?' };
        let mut rows = Vec::new();
        let mut cursor = String::new();
        loop {
            let page = self.get(&format!("{path}{separator}limit=250{cursor}"));
            rows.extend(page["data"].as_array().expect("data").iter().cloned());
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return rows,
            }
        }
    }

    /// The kinds of all notifications, oldest first.
    #[track_caller]
    pub fn notices(&self) -> Vec<String> {
        self.all("/notifications").iter().rev().map(|notice| text(&notice["kind"])).collect()
    }

    /// The database as it was left behind, to be read: a copy, so that the reading changes nothing.
    pub fn remains(&self) -> Remains {
        assert!(self.process.is_none(), "only a dead process leaves remains");
        let directory = tempfile::tempdir().expect("a directory");
        let copy = directory.path().join("posthaste.db");
        for ending in ["", "-wal"] {
            let from = with_ending(&self.database(), ending);
            if from.exists() {
                fs::copy(&from, with_ending(&copy, ending)).expect("a copy");
            }
        }
        Remains { path: copy, _directory: directory }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
        if thread::panicking() {
            let log = self.log();
            let lines: Vec<&str> = log.lines().collect();
            eprintln!("the end of the server's log:\n{}", lines[lines.len().saturating_sub(40)..].join("\n"));
        }
    }
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

/// The text of a JSON value that must be one.
#[track_caller]
pub fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}")).to_owned()
}

/// A time of the API in microseconds.
#[track_caller]
pub fn micros(value: &Value) -> i64 {
    let text = text(value);
    posthaste::domain::time::Timestamp::parse(&text).unwrap_or_else(|| panic!("no time: {text}")).as_micros()
}

/// A database that a dead process left behind.
pub struct Remains {
    path: PathBuf,
    _directory: TempDir,
}

impl Remains {
    pub fn connect(&self) -> diesel::SqliteConnection {
        diesel::Connection::establish(&self.path.to_string_lossy()).expect("the copy opens")
    }
}
