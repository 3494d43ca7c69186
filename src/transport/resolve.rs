//! From a host name to addresses. Never by `getaddrinfo`, which blocks a thread of a pool that others need (C19):
//! hickory asks the system's name servers itself, and [`Lookups`] puts a deadline and a cap on that.

use std::borrow::Cow;
use std::cell::Cell;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::future::BoxFuture;
use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolveHosts, ResolverConfig};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::rr::RecordType;
use hickory_resolver::{ResolverBuilder, TokioResolver};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

use super::answers::{Answers, LOOKED_AT};
use super::failure::{self, Failure};
use super::now;

/// How long a lookup may take.
pub const DNS_LIMIT: Duration = Duration::from_secs(5);
/// Open lookups in the process. Each may hold a few sockets.
pub const MAX_LOOKUPS: usize = 512;
/// Of endpoints whose last lookup failed, so many besides: hundreds of names whose servers never answer must not fill
/// the places that others need (C19).
pub const MAX_SUSPECT_LOOKUPS: usize = 64;
/// How long an attempt waits for a place before it is put off (S6).
pub const PLACE_LIMIT: Duration = Duration::from_secs(1);
/// One question to a name server may take this long; it is asked twice. Twice this is below [`DNS_LIMIT`], so that a
/// server that swallows AAAA questions does not cost us the A answer it gave.
const QUESTION_LIMIT: Duration = Duration::from_secs(2);

/// That a name has no addresses is believed no longer than this, whatever its zone says: people who have just made the
/// record do not wait for hours (RFC 2308 §5 leaves the longest to whoever asks). In seconds.
const LONGEST_NONE: u32 = 60;

/// Finds the addresses of a host name, in the order of preference. What comes back is *not* trusted: every address is
/// judged before it is dialled (C24).
pub trait Resolve: Send + Sync {
    /// What is known of a name without asking anybody.
    fn known(&self, _name: &str) -> Option<Said> {
        None
    }

    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Said>;
}

/// The addresses of a name, at least one, or the failure to report for the attempt.
pub type Said = Result<Vec<IpAddr>, Failure>;

/// All lookups of the process: any resolver, with our deadline and our caps.
pub struct Lookups {
    resolver: Arc<dyn Resolve>,
    places: Semaphore,
    suspect_places: Semaphore,
}

impl Lookups {
    pub fn new(resolver: Arc<dyn Resolve>) -> Self {
        Lookups { resolver, places: Semaphore::new(MAX_LOOKUPS), suspect_places: Semaphore::new(MAX_SUSPECT_LOOKUPS) }
    }

    /// What is known of a name: that needs no place, however many lookups are open (C19).
    pub fn known(&self, name: &str) -> Option<Said> {
        self.resolver.known(name)
    }

    /// Waits for a place among the open lookups: our queue, so none of it is charged to the receiver (S4). `suspect` is
    /// the endpoint's memory of how its last lookup ended.
    ///
    /// # Errors
    /// No place came within [`PLACE_LIMIT`]: a fault of ours (S6).
    pub async fn place<'a>(&'a self, suspect: &'a Cell<bool>) -> Result<Place<'a>, Failure> {
        let places = if suspect.get() { &self.suspect_places } else { &self.places };
        match timeout(PLACE_LIMIT, places.acquire()).await {
            Ok(Ok(permit)) => Ok(Place { resolver: &*self.resolver, suspect, _permit: permit }),
            _ => Err(failure::DNS_BUSY),
        }
    }
}

/// A place among the open lookups, for one of them.
pub struct Place<'a> {
    resolver: &'a dyn Resolve,
    suspect: &'a Cell<bool>,
    _permit: SemaphorePermit<'a>,
}

impl Place<'_> {
    /// Looks a name up: here the receiver's time begins to run.
    ///
    /// # Errors
    /// The failure to report for the attempt.
    pub async fn find(self, name: &str) -> Said {
        let mut memory = Memory { suspect: self.suspect, failed: true };
        let answer = timeout(DNS_LIMIT, self.resolver.resolve(name)).await;
        memory.failed = !matches!(answer, Ok(Ok(_)));
        answer.unwrap_or(Err(failure::DNS_TIMEOUT))
    }
}

/// Notes how a lookup ended, also when the attempt is given up before it ends.
struct Memory<'a> {
    suspect: &'a Cell<bool>,
    failed: bool,
}

impl Drop for Memory<'_> {
    fn drop(&mut self) {
        self.suspect.set(self.failed);
    }
}

/// The system's resolver: `/etc/resolv.conf` and `/etc/hosts` as they were at the first lookup that could read them.
#[derive(Default)]
pub struct SystemResolver {
    hickory: OnceLock<TokioResolver>,
    /// That there is no resolver was told.
    told: AtomicBool,
    /// Of IPv6 and IPv4 addresses.
    answers: [Answers; 2],
    /// Asked instead of the servers in `/etc/resolv.conf`.
    server: Option<SocketAddr>,
}

impl SystemResolver {
    /// Asks this server alone, over UDP.
    pub fn asking(server: SocketAddr) -> SystemResolver {
        SystemResolver { server: Some(server), ..SystemResolver::default() }
    }

    fn builder(&self) -> Result<ResolverBuilder<TokioRuntimeProvider>, NetError> {
        let Some(server) = self.server else { return TokioResolver::builder_tokio() };
        let mut connection = ConnectionConfig::udp();
        connection.port = server.port();
        let servers = vec![NameServerConfig::new(server.ip(), true, vec![connection])];
        let config = ResolverConfig::from_parts(None, Vec::new(), servers);
        Ok(TokioResolver::builder_with_config(config, TokioRuntimeProvider::default()))
    }

    /// The resolver, made when it is first needed; a configuration that cannot be used is read again next time.
    fn hickory(&self) -> Option<&TokioResolver> {
        if let Some(made) = self.hickory.get() {
            return Some(made);
        }
        let built = self.builder().and_then(|mut builder| {
            let options = builder.options_mut();
            options.use_hosts_file = ResolveHosts::Always;
            options.timeout = QUESTION_LIMIT;
            options.attempts = 1;
            // We keep the answers ourselves: see `answers.rs`.
            options.cache_size = 0;
            options.max_active_requests = MAX_LOOKUPS;
            builder.build()
        });
        let built = match built {
            Ok(built) => built,
            Err(error) => {
                // Each attempt tries again; once is enough to say so (C70).
                if !self.told.swap(true, Ordering::Relaxed) {
                    log::error!("host names cannot be resolved: {error}");
                }
                return None;
            }
        };
        Some(self.hickory.get_or_init(|| built))
    }

    /// What is kept of the answers about a name, if that is all of it.
    fn kept(&self, name: &str) -> Option<Said> {
        let now = now().into_std();
        let [six, four] = self.answers.each_ref().map(|answers| answers.get(name, now));
        Some(together([Ok(six?), Ok(four?)]))
    }

    async fn lookup(&self, name: &str) -> Said {
        let hickory = self.hickory().ok_or(failure::NO_RESOLVER)?;
        let name = complete(name);
        let [six, four] = [RecordType::AAAA, RecordType::A].map(|kind| self.ask(hickory, &name, kind));
        let (six, four) = tokio::join!(six, four);
        together([six, four])
    }

    /// The addresses of one family. Asked apart from the other, so that half an answer is never kept for a whole one.
    async fn ask(&self, hickory: &TokioResolver, name: &str, kind: RecordType) -> Result<Arc<[IpAddr]>, Failure> {
        let answers = &self.answers[usize::from(kind == RecordType::A)];
        let now = now().into_std();
        if let Some(kept) = answers.get(name, now) {
            return Ok(kept);
        }
        let (addresses, ttl): (Arc<[IpAddr]>, _) = match hickory.lookup(name, kind).await {
            Ok(found) => {
                let records = found.answers();
                let addresses = records.iter().filter_map(|record| record.data.ip_addr()).take(LOOKED_AT).collect();
                (addresses, records.iter().map(|record| record.ttl).min())
            }
            // RFC 2308 §5: how long that holds stands in the answer, if anywhere.
            Err(NetError::Dns(DnsError::NoRecordsFound(none))) => {
                (Arc::default(), none.negative_ttl.map(|ttl| ttl.min(LONGEST_NONE)))
            }
            Err(error) => return Err(classify(&error)),
        };
        if let Some(ttl) = ttl {
            answers.keep(name, addresses.clone(), now + Duration::from_secs(ttl.into()));
        }
        Ok(addresses)
    }
}

impl Resolve for SystemResolver {
    fn known(&self, name: &str) -> Option<Said> {
        self.kept(&complete(name))
    }

    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Said> {
        Box::pin(self.lookup(name))
    }
}

/// A name with a dot is complete: the search list of resolv.conf would only turn `hooks.example.com` into some inner host's
/// name, and a failure into several questions.
fn complete(name: &str) -> Cow<'_, str> {
    if name.contains('.') && !name.ends_with('.') { format!("{name}.").into() } else { name.into() }
}

/// IPv6 first, as they are dialled in turns. One family is enough; that there is none takes the word of both.
fn together(families: [Result<Arc<[IpAddr]>, Failure>; 2]) -> Said {
    let found: Vec<IpAddr> = families.iter().flatten().flat_map(|addresses| addresses.iter().copied()).collect();
    match found.is_empty() {
        false => Ok(found),
        true => Err(families.into_iter().rev().find_map(Result::err).unwrap_or(failure::DNS_NO_ADDRESS)),
    }
}

/// What hickory's error means for the attempt.
fn classify(error: &NetError) -> Failure {
    match error {
        NetError::Dns(DnsError::NoRecordsFound(_)) => failure::DNS_NO_ADDRESS,
        NetError::Dns(_) => failure::DNS_FAILED,
        NetError::Timeout => failure::DNS_TIMEOUT,
        NetError::Busy => failure::DNS_BUSY,
        // Not one server could even be asked: our network or our configuration.
        NetError::NoConnections | NetError::Io(_) => failure::NO_RESOLVER,
        _ => failure::DNS_FAILED,
    }
}
