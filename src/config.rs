//! Every setting: its name on the command line, in the environment (`POSTHASTE_…`) and in the configuration file, its
//! default, its bounds. Read once, validated once; nothing else reads the environment.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};

use clap::Args;
use ipnet::IpNet;
use serde::{Deserialize, Deserializer};

use crate::domain::duration_text::parse_duration;
use crate::domain::headers::HeaderPrefix;
use crate::domain::target::AddressPolicy;
use crate::domain::time::Span;

/// Bodies of events that actors may hold in memory while they wait.
pub const WAITING_BODIES_BYTES: usize = 128 * 1024 * 1024;
/// Bodies of events that are read for attempts about to begin, and held until those are over.
pub const READ_BODIES_BYTES: usize = 128 * 1024 * 1024;
/// Bytes of new events that may queue for the database's writer, and as many of everything else; what comes beyond it gets
/// 503, and results are offered again.
pub const WRITE_QUEUE_BYTES: usize = 64 * 1024 * 1024;
/// Threads with endpoint actors for each worker. More than there are processors, so that the system shares these out: a
/// thread whose endpoints' attempts all time out at the same moment does not hold up the endpoints of the others
/// (measured: `docs/performance.md`).
pub const ARBITERS_PER_WORKER: usize = 4;
/// Of so many workers' threads one works up the ends of slow attempts, if there are many: about half of the processors stay free.
pub const WORKERS_PER_FLOOR: usize = 2;

/// File descriptors without which nothing is started: files, threads and a few connections of each kind.
pub const MIN_DESCRIPTORS: usize = 256;
/// Who may have which part of the file descriptors: one in so many. What is left is for files and threads. If callers who
/// only sit there, or connections that wait for the next attempt, could have them all, no attempt could be made for as
/// long as they stay (C08).
pub const ATTEMPTS_SHARE: usize = 2;
pub const CALLERS_SHARE: usize = 4;
pub const IDLE_SHARE: usize = 8;
/// An engine's clock that is further ahead of the wall clock at a start is told of.
pub const CLOCK_AHEAD: Span = Span::MINUTE;

/// Deliveries that an endpoint's actor holds in memory of each of its two lines.
pub const WINDOW: usize = 512;
/// Overdue attempts per second after a start.
pub const RESTART_RATE: u32 = 500;
/// Connections that read from the database.
pub const READERS: usize = 4;
/// How long a drain waits for answers: more than the longest default timeout.
pub const DRAIN_TIMEOUT: Span = Span::from_secs(35);
/// The fastest clock: a day in under a second.
pub const MAX_TIME_SCALE: f64 = 100_000.0;

/// The settings as they can be given: each may be missing.
#[derive(Args, Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Given {
    /// Address, or a host's name, and port of the HTTP API [default: 127.0.0.1:8080]
    #[arg(long, env = "POSTHASTE_LISTEN", value_name = "HOST:PORT", value_parser = listen_address)]
    #[serde(deserialize_with = "listen_in_file")]
    pub listen: Option<SocketAddr>,
    /// Where everything is kept: sqlite:FILE [default: sqlite:posthaste.db]
    #[arg(long, env = "POSTHASTE_DATABASE_URL")]
    pub database_url: Option<String>,
    /// A network that may be called although it is private, e.g. 10.0.0.0/8 (repeatable; several with commas)
    #[arg(long, env = "POSTHASTE_ALLOW_TARGET", value_name = "CIDR", value_delimiter = ',')]
    pub allow_target: Option<Vec<String>>,
    /// Accept only https endpoints [default: false]
    #[arg(long, env = "POSTHASTE_HTTPS_ONLY", num_args = 0..=1, default_missing_value = "true")]
    pub https_only: Option<bool>,
    /// Run engine time so many times faster, for rehearsal [default: 1]
    #[arg(long, env = "POSTHASTE_TIME_SCALE", value_name = "N")]
    pub time_scale: Option<f64>,
    /// How long a shutdown waits for answers [default: 35s]
    #[arg(long, env = "POSTHASTE_DRAIN_TIMEOUT", value_name = "DURATION")]
    pub drain_timeout: Option<String>,
    /// Prefix of the headers of endpoints that have none of their own [default: Posthaste]
    #[arg(long, env = "POSTHASTE_HEADER_PREFIX")]
    pub header_prefix: Option<String>,
    /// Attempts on the wire at once [default: half the file descriptors]
    #[arg(long, env = "POSTHASTE_MAX_ATTEMPTS")]
    pub max_attempts: Option<usize>,
    /// Overdue attempts per second after a start [default: 500]
    #[arg(long, env = "POSTHASTE_RESTART_RATE")]
    pub restart_rate: Option<u32>,
    /// Threads that serve the API and make attempts [default: one per core]
    #[arg(long, env = "POSTHASTE_WORKERS")]
    pub workers: Option<usize>,
    /// The operator's API key, 16 to 255 visible ASCII characters beginning `ph_`
    #[arg(long, env = "POSTHASTE_OPERATOR_KEY", hide_env_values = true)]
    #[serde(skip)]
    pub operator_key: Option<String>,
    /// 64 hexadecimal digits that encrypt secrets in the database [default: kept in the file DATABASE.key]
    #[arg(long, env = "POSTHASTE_ENCRYPTION_KEY", hide_env_values = true)]
    #[serde(skip)]
    pub encryption_key: Option<String>,
}

/// The settings in force.
#[derive(Clone, Debug)]
pub struct Config {
    pub listen: SocketAddr,
    /// The SQLite file.
    pub database: PathBuf,
    pub targets: AddressPolicy,
    pub https_only: bool,
    pub time_scale: f64,
    pub drain_timeout: Span,
    pub header_prefix: HeaderPrefix,
    /// `None`: half the file descriptors.
    pub max_attempts: Option<usize>,
    pub restart_rate: u32,
    pub workers: usize,
    pub operator_key: Option<Hidden<String>>,
    pub encryption_key: Option<Hidden<[u8; 32]>>,
}

/// A value that no log shows.
#[derive(Clone)]
pub struct Hidden<T>(pub T);

impl<T> std::fmt::Debug for Hidden<T> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("hidden")
    }
}

/// A setting that cannot be used, and why.
#[derive(Debug, thiserror::Error)]
#[error("{name}: {message}")]
pub struct ConfigError {
    pub name: String,
    pub message: String,
}

fn wrong(name: &str, message: impl Into<String>) -> ConfigError {
    ConfigError { name: name.into(), message: message.into() }
}

fn in_words(text: &str, error: &toml::de::Error) -> String {
    let line =
        error.span().map(|span| text.as_bytes().iter().take(span.start).filter(|&&byte| byte == b'\n').count() + 1);
    let line = line.map_or(String::new(), |line| format!("line {line}: "));
    format!("{line}{}", error.message())
}

impl Given {
    /// Reads a configuration file (TOML, the names of the flags with `_`).
    pub fn from_file(path: &Path) -> Result<Given, ConfigError> {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|error| wrong(&name, error.to_string()))?;
        // Without the line that is wrong: there may be a secret in it.
        toml::from_str(&text).map_err(|error| wrong(&name, in_words(&text, &error)))
    }

    /// What is not given here is taken from `fallback`.
    pub fn or(self, fallback: Given) -> Given {
        Given {
            listen: self.listen.or(fallback.listen),
            database_url: self.database_url.or(fallback.database_url),
            allow_target: self.allow_target.or(fallback.allow_target),
            https_only: self.https_only.or(fallback.https_only),
            time_scale: self.time_scale.or(fallback.time_scale),
            drain_timeout: self.drain_timeout.or(fallback.drain_timeout),
            header_prefix: self.header_prefix.or(fallback.header_prefix),
            max_attempts: self.max_attempts.or(fallback.max_attempts),
            restart_rate: self.restart_rate.or(fallback.restart_rate),
            workers: self.workers.or(fallback.workers),
            operator_key: self.operator_key.or(fallback.operator_key),
            encryption_key: self.encryption_key.or(fallback.encryption_key),
        }
    }

    /// Fills in the defaults and checks everything once.
    ///
    /// # Errors
    /// The first setting that cannot be used, by name.
    pub fn validate(self) -> Result<Config, ConfigError> {
        let time_scale = self.time_scale.unwrap_or(1.0);
        if !(1.0..=MAX_TIME_SCALE).contains(&time_scale) {
            return Err(wrong("time-scale", format!("must be between 1 and {MAX_TIME_SCALE}")));
        }
        let networks = self.allow_target.unwrap_or_default().into_iter();
        let networks: Result<Vec<IpNet>, _> = networks
            .map(|entry| AddressPolicy::parse_entry(&entry).map_err(|why| wrong("allow-target", why)))
            .collect();
        let drain_timeout = match &self.drain_timeout {
            Some(text) => parse_duration(text).map_err(|why| wrong("drain-timeout", why))?,
            None => DRAIN_TIMEOUT,
        };
        let header_prefix = match &self.header_prefix {
            Some(text) => HeaderPrefix::parse(text).map_err(|why| wrong("header-prefix", why))?,
            None => HeaderPrefix::default(),
        };
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
        Ok(Config {
            listen: self.listen.unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 8080))),
            database: database(self.database_url.as_deref().unwrap_or("sqlite:posthaste.db"))?,
            targets: AddressPolicy::new(networks?),
            https_only: self.https_only.unwrap_or(false),
            time_scale,
            drain_timeout,
            header_prefix,
            max_attempts: at_least_one("max-attempts", self.max_attempts)?,
            restart_rate: at_least_one("restart-rate", self.restart_rate)?.unwrap_or(RESTART_RATE),
            workers: at_least_one("workers", self.workers)?.unwrap_or(cores),
            operator_key: self.operator_key.map(operator_key).transpose()?,
            encryption_key: self.encryption_key.as_deref().map(encryption_key).transpose()?,
        })
    }
}

fn at_least_one<T: PartialEq + From<u8>>(name: &str, value: Option<T>) -> Result<Option<T>, ConfigError> {
    match value {
        Some(value) if value == T::from(0) => Err(wrong(name, "must be at least 1")),
        value => Ok(value),
    }
}

/// Where to listen: an address, or a host's name, and a port. A name is looked up here, once; its first address counts.
pub fn listen_address(text: &str) -> Result<SocketAddr, String> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let parts = text.rsplit_once(':').filter(|(host, _)| !host.is_empty() && !host.contains([':', '[', ' ']));
    let number = |port: &str| port.parse::<u16>().ok();
    let Some((host, port)) = parts.and_then(|(host, port)| Some((host, number(port)?))) else {
        return Err("write HOST:PORT, such as 127.0.0.1:8080, localhost:8080 or [::1]:8080".into());
    };
    let mut found = (host, port).to_socket_addrs().map_err(|error| format!("`{host}` is not found: {error}"))?;
    found.next().ok_or_else(|| format!("`{host}` has no address"))
}

fn listen_in_file<'de, D: Deserializer<'de>>(value: D) -> Result<Option<SocketAddr>, D::Error> {
    let text = String::deserialize(value)?;
    listen_address(&text).map(Some).map_err(|why| serde::de::Error::custom(format!("listen: {why}")))
}

/// The file of a `sqlite:` URL.
fn database(url: &str) -> Result<PathBuf, ConfigError> {
    let name = "database-url";
    let Some(path) = url.strip_prefix("sqlite:") else {
        return Err(wrong(name, format!("`{url}` is not understood: write sqlite:FILE")));
    };
    let path = path.strip_prefix("//").unwrap_or(path);
    if path.is_empty() || path.starts_with(':') || path.contains('?') {
        return Err(wrong(name, "needs the path of a file: an in-memory database would lose events"));
    }
    Ok(PathBuf::from(path))
}

fn operator_key(key: String) -> Result<Hidden<String>, ConfigError> {
    let visible = key.bytes().all(|byte| byte.is_ascii_graphic());
    match (16..=255).contains(&key.len()) && visible && key.starts_with("ph_") {
        true => Ok(Hidden(key)),
        false => Err(wrong("operator-key", "must be 16 to 255 visible ASCII characters beginning `ph_`")),
    }
}

fn encryption_key(text: &str) -> Result<Hidden<[u8; 32]>, ConfigError> {
    parse_key(text).map(Hidden).ok_or_else(|| wrong("encryption-key", "must be 64 hexadecimal digits"))
}

/// 32 bytes from 64 hexadecimal digits.
pub fn parse_key(text: &str) -> Option<[u8; 32]> {
    let text = text.trim();
    let mut key = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    for (index, byte) in key.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * index..2 * index + 2)?, 16).ok()?;
    }
    Some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_first_wins() {
        let flags = Given { time_scale: Some(10.0), ..Given::default() };
        let file: Given = toml::from_str("time_scale = 5\nlisten = \"0.0.0.0:9\"").unwrap();
        let config = flags.or(file).validate().unwrap();
        assert_eq!((config.time_scale, config.listen.port()), (10.0, 9));
        assert_eq!(config.database, PathBuf::from("posthaste.db"));
    }

    #[test]
    fn settings_that_cannot_be_used_are_named() {
        let check = |given: Given, name: &str| assert_eq!(given.validate().unwrap_err().name, name);
        let text = |text: &str| Some(text.to_owned());
        check(Given { time_scale: Some(0.5), ..Given::default() }, "time-scale");
        check(Given { time_scale: Some(f64::NAN), ..Given::default() }, "time-scale");
        check(Given { allow_target: Some(vec!["hooks.lan".into()]), ..Given::default() }, "allow-target");
        check(Given { database_url: text("postgres://x"), ..Given::default() }, "database-url");
        check(Given { database_url: text("sqlite::memory:"), ..Given::default() }, "database-url");
        check(Given { drain_timeout: text("soon"), ..Given::default() }, "drain-timeout");
        check(Given { max_attempts: Some(0), ..Given::default() }, "max-attempts");
        check(Given { operator_key: text("ph_short"), ..Given::default() }, "operator-key");
        check(Given { encryption_key: text("00"), ..Given::default() }, "encryption-key");
        assert!(toml::from_str::<Given>("listn = \"x\"").is_err());
    }

    #[test]
    fn a_place_to_listen_may_have_a_name() {
        for text in ["127.0.0.1:80", "[::1]:0", "localhost:8080"] {
            let address = listen_address(text).unwrap();
            assert!(address.ip().is_loopback() && text.ends_with(&format!(":{}", address.port())), "{text}: {address}");
        }
        for bad in ["", ":80", "localhost", "localhost:", "localhost:65536", "localhost:http", "::1:80", "a b:80"] {
            assert!(listen_address(bad).unwrap_err().starts_with("write HOST:PORT"), "{bad}");
        }
        assert!(listen_address("no-such-host.invalid:80").unwrap_err().contains("`no-such-host.invalid` "));
        let file: Given = toml::from_str("listen = \"localhost:9\"").unwrap();
        assert_eq!(file.listen.map(|address| address.port()), Some(9));
        assert!(toml::from_str::<Given>("listen = \"9\"").unwrap_err().message().starts_with("listen: write "));
    }

    #[test]
    fn secrets_are_not_shown() {
        let key = "ph_0123456789abcdef";
        let config = Given { operator_key: Some(key.into()), ..Given::default() }.validate().unwrap();
        assert!(!format!("{config:?}").contains(key));
    }
}
