//! The process under test and what is done to it and to its disk.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::support::server::{KEY, binary, wait_for};

/// A start that takes longer is broken, whether it comes to anything or not.
const START_LIMIT: Duration = Duration::from_secs(30);
/// How long a drain waits for answers.
pub const DRAIN: Duration = Duration::from_secs(2);
/// Descriptors of an ordinary life.
pub const DESCRIPTORS: u64 = 4_096;

/// A small file system of its own, if we may mount one; else a folder.
pub struct Disk {
    folder: TempDir,
    mounted: bool,
}

fn succeeds(program: &str, arguments: &[&str]) -> bool {
    let quiet = Command::new(program).args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status();
    quiet.is_ok_and(|status| status.success())
}

impl Disk {
    pub fn new(mebibytes: u64) -> Disk {
        let folder = tempfile::tempdir().expect("a folder");
        let (size, place) = (format!("size={mebibytes}m"), folder.path().to_string_lossy().into_owned());
        let mounted = succeeds("mount", &["-t", "tmpfs", "-o", &size, "tmpfs", &place]);
        Disk { folder, mounted }
    }

    /// Whether it can be filled and made read-only.
    pub fn is_own(&self) -> bool {
        self.mounted
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Takes all the room there is.
    pub fn fill(&self) {
        assert!(self.mounted, "only a disk of our own is filled");
        let mut filler = File::create(self.path().join("filler")).expect("a file");
        let mut piece = vec![0; 1 << 20];
        while !piece.is_empty() {
            if filler.write_all(&piece).is_err() {
                piece.truncate(piece.len() / 2);
            }
        }
    }

    pub fn free(&self) {
        fs::remove_file(self.path().join("filler")).expect("it was filled");
    }

    /// Possible only while nobody has a file open for writing.
    pub fn remount(&self, how: &str) {
        let place = self.path().to_string_lossy().into_owned();
        assert!(succeeds("mount", &["-o", &format!("remount,{how}"), &place]), "remount,{how}");
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if self.mounted {
            succeeds("umount", &["-l", &self.path().to_string_lossy()]);
        }
    }
}

/// A wall clock that can be set for the process alone, if libfaketime is installed.
pub struct WallClock {
    library: PathBuf,
    setting: TempDir,
}

impl WallClock {
    /// The process reads the setting again after so long.
    const NOTICED_AFTER: Duration = Duration::from_secs(1);

    fn find() -> Option<WallClock> {
        let folders = fs::read_dir("/usr/lib").ok()?.filter_map(Result::ok);
        let mut libraries = folders.map(|folder| folder.path().join("faketime/libfaketime.so.1"));
        let library = libraries.find(|library| library.exists())?;
        let clock = WallClock { library, setting: tempfile::tempdir().expect("a folder") };
        clock.write(0);
        Some(clock)
    }

    fn path(&self) -> PathBuf {
        self.setting.path().join("offset")
    }

    /// Seconds from the right time; replaced in one go. The process notices after a while.
    pub fn write(&self, offset: i64) {
        let new = self.setting.path().join("new");
        fs::write(&new, format!("{offset:+}")).expect("the offset");
        fs::rename(new, self.path()).expect("the offset");
    }
}

/// What was logged, in all lives. It passes through us, so it needs no disk.
pub type Log = Arc<Mutex<String>>;

pub struct Subject {
    process: Option<Child>,
    address: Option<SocketAddr>,
    pub disk: Disk,
    pub clock: Option<WallClock>,
    log: Log,
    /// The highest VmRSS seen, in KiB.
    pub peak: u64,
}

impl Subject {
    pub fn new(disk: Disk) -> Subject {
        Subject { process: None, address: None, disk, clock: WallClock::find(), log: Log::default(), peak: 0 }
    }

    pub fn database(&self) -> PathBuf {
        self.disk.path().join("posthaste.db")
    }

    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    pub fn log(&self) -> String {
        self.log.lock().expect("log").clone()
    }

    /// Starts a life without waiting for it. A write beyond a file's limit is an error here, not a signal.
    pub fn launch(&mut self, descriptors: u64) -> mpsc::Receiver<String> {
        assert!(self.process.is_none(), "it runs already");
        let mut command = Command::new("sh");
        if let Some(clock) = &self.clock {
            // Elapsed time stays what it is: only the wall clock steps.
            command
                .env("LD_PRELOAD", &clock.library)
                .env("FAKETIME_TIMESTAMP_FILE", clock.path())
                .env("FAKETIME_CACHE_DURATION", WallClock::NOTICED_AFTER.as_secs().to_string())
                .env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        }
        let mut process = command
            .args(["-c", &format!("trap '' XFSZ; ulimit -n {descriptors}; exec \"$0\" \"$@\"")])
            .arg(binary())
            .args(["serve", "--listen", "127.0.0.1:0", "--allow-target", "127.0.0.0/8", "--drain-timeout", "2s"])
            .args(["--database-url", &format!("sqlite:{}", self.database().display()), "--restart-rate", "2000"])
            .env("POSTHASTE_OPERATOR_KEY", KEY)
            .env("RUST_LOG", "info,posthaste=debug,actix_server=warn,actix_http=off")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let (out, err) = (process.stdout.take().expect("out"), process.stderr.take().expect("err"));
        let log = self.log.clone();
        thread::spawn(move || {
            for line in BufReader::new(err).lines().map_while(Result::ok) {
                *log.lock().expect("log") += &format!("{line}\n");
            }
        });
        let (said, lines) = mpsc::channel();
        // Reads on for as long as the process lives, so that it never writes into a closed pipe.
        thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                let _ = said.send(line);
            }
        });
        self.process = Some(process);
        lines
    }

    /// Starts a life and waits until it listens; false if it ends instead.
    pub fn start(&mut self, descriptors: u64) -> bool {
        let lines = self.launch(descriptors);
        match lines.recv_timeout(START_LIMIT) {
            Ok(line) => {
                let address = line.strip_prefix("listening on http://").expect("the line that says where");
                self.address = Some(address.parse().expect("an address"));
                true
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                let mut process = self.process.take().expect("it was launched");
                let status = wait_for("it ends", START_LIMIT, || process.try_wait().expect("its state"));
                assert_eq!(status.code(), Some(1), "a start that fails says so");
                false
            }
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("no start within {START_LIMIT:?}"),
        }
    }

    fn pid(&self) -> u32 {
        self.process.as_ref().expect("it runs").id()
    }

    pub fn signal(&self, signal: &str) {
        assert!(succeeds("kill", &[signal, &self.pid().to_string()]), "kill {signal}");
    }

    /// `kill -9`, and gone when this returns.
    pub fn kill(&mut self) {
        let mut process = self.process.take().expect("it runs");
        process.kill().expect("killed");
        process.wait().expect("its end");
        self.address = None;
    }

    /// SIGTERM; it must end by itself, and well.
    pub fn drain(&mut self) {
        self.signal("-TERM");
        let mut process = self.process.take().expect("it runs");
        let status = wait_for("it drains", Duration::from_secs(20), || process.try_wait().expect("its state"));
        assert!(status.success(), "it drained: {status}");
        self.address = None;
    }

    /// From now on it can write no file, or any.
    pub fn writes(&self, allowed: bool) {
        let (limit, none) = (if allowed { rlimit::INFINITY } else { 0 }, rlimit::INFINITY);
        let pid = self.pid().try_into().expect("a pid");
        rlimit::prlimit(pid, rlimit::Resource::FSIZE, Some((limit, none)), None).expect("a limit");
    }

    /// The processor time that it has used.
    pub fn processor_time(&self) -> Duration {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid())).expect("it lives");
        // Behind the name, which may hold anything, the 12th and 13th field, in hundredths of a second (proc(5)).
        let fields = stat.rsplit(')').next().expect("one").split_whitespace().skip(11).take(2);
        let hundredths: u64 = fields.map(|field| field.parse::<u64>().expect("a number")).sum();
        Duration::from_millis(10 * hundredths)
    }

    /// From now on it can open no file and no socket, or again as many as before.
    pub fn opens(&self, allowed: bool) {
        let pid = self.pid().try_into().expect("a pid");
        let (mut soft, mut hard) = (0, 0);
        rlimit::prlimit(pid, rlimit::Resource::NOFILE, None, Some((&mut soft, &mut hard))).expect("its limits");
        let soft = if allowed { hard } else { 1 };
        rlimit::prlimit(pid, rlimit::Resource::NOFILE, Some((soft, hard)), None).expect("a limit");
    }

    /// Looks after it: it must be alive.
    pub fn look(&mut self) {
        let Some(process) = &mut self.process else { return };
        assert!(process.try_wait().expect("its state").is_none(), "it died by itself");
        let status = fs::read_to_string(format!("/proc/{}/status", process.id())).unwrap_or_default();
        let field = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let size = field.and_then(|rest| rest.trim().trim_end_matches(" kB").parse().ok());
        self.peak = self.peak.max(size.unwrap_or(0));
    }

    /// Lets it live, looking after it.
    pub fn live(&mut self, time: Duration) {
        let until = Instant::now() + time;
        while Instant::now() < until {
            self.look();
            thread::sleep(Duration::from_millis(100).min(time));
        }
    }

    /// A copy of the database as a dead process left it.
    pub fn remains(&self) -> (diesel::SqliteConnection, TempDir) {
        assert!(self.process.is_none(), "only a dead process leaves remains");
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["posthaste.db", "posthaste.db-wal"] {
            let from = self.disk.path().join(name);
            if from.exists() {
                fs::copy(&from, folder.path().join(name)).expect("a copy");
            }
        }
        let path = folder.path().join("posthaste.db");
        (diesel::Connection::establish(&path.to_string_lossy()).expect("the copy opens"), folder)
    }
}

impl Drop for Subject {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}
