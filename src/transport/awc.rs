//! The real transport: one [`awc`] client for each endpoint, so that no connection is ever shared between two.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use awc::http::header;
use awc::{Client, ClientBuilder};
use futures_util::future::LocalBoxFuture;
use rustls::pki_types::CertificateDer;

use super::connect::{Connector, Surroundings};
use super::exchange::{CURRENT, Exchange};
use super::failure::{self, Failure};
pub use super::idle::MAX_IDLE;
use super::idle::{IDLE_LIMIT, IdlePlaces};
use super::now;
use super::resolve::{Lookups, Resolve, SystemResolver};
use super::{Request, Transport, TransportFactory};
use crate::domain::attempt::{Answer, Finding, Report, Timing};
use crate::domain::excerpt::{EXCERPT_BYTES, clean};
use crate::domain::target::{AddressPolicy, TargetUrl};
use crate::domain::time::Span;
use crate::tls;

/// Requests in flight per endpoint; above every `max_in_flight` (S19), so that nothing ever waits in awc's pool, where
/// the wait would count in the receiver's timeout.
const POOL_LIMIT: usize = 1024;
/// A connection is given up at this age, so that a change of the host's addresses is noticed.
const CONNECTION_LIFETIME: Duration = Duration::from_secs(75);
/// awc insists on a limit of its own for connecting; ours are shorter.
const NEVER: Duration = Duration::from_secs(24 * 3600);

/// What awc is given for a URI. It is only the key of the pool and is never looked up.
const ANYWHERE: &str = "http://endpoint/";

/// How attempts go out of this installation.
pub struct Options {
    /// Which addresses may be called.
    pub policy: AddressPolicy,
    /// Authorities to trust besides the system's.
    pub extra_roots: Vec<CertificateDer<'static>>,
    /// Where host names are looked up.
    pub resolver: Arc<dyn Resolve>,
    /// Connections that may wait for another request, of all endpoints together.
    pub max_idle: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            policy: AddressPolicy::default(),
            extra_roots: Vec::new(),
            resolver: Arc::new(SystemResolver::default()),
            max_idle: MAX_IDLE,
        }
    }
}

/// Opens transports that share a resolver, an address policy, a TLS configuration and the places for idle connections.
pub struct AwcFactory(Arc<Surroundings>);

impl AwcFactory {
    /// Reads the system's root certificates: call it once, at start.
    ///
    /// # Errors
    /// One of the extra roots is not a usable certificate.
    pub fn new(options: Options) -> Result<Self, rustls::Error> {
        let tls = tls::client_config(&options.extra_roots)?;
        Ok(AwcFactory(Arc::new(Surroundings {
            lookups: Lookups::new(options.resolver),
            policy: options.policy,
            tls,
            idle_places: IdlePlaces::new(options.max_idle),
        })))
    }
}

impl TransportFactory for AwcFactory {
    fn open(&self) -> Box<dyn Transport> {
        Box::new(AwcTransport { connector: Connector::new(Arc::clone(&self.0)), route: RefCell::default() })
    }
}

/// One endpoint's way out. Lives on one thread, inside an actix system (it spawns local tasks).
pub struct AwcTransport {
    /// Its memory is the endpoint's, whatever its URL.
    connector: Connector,
    /// To where the last request went; nothing before there is one, since most endpoints of most installations are idle.
    route: RefCell<Option<Route>>,
}

/// The endpoint's URL as parsed when it was last new, and the connections that were made for it: those to different hosts,
/// plain ones and TLS must not be mistaken for each other, so an edit of the URL leaves the old pool to itself.
#[derive(Clone)]
struct Route {
    url: Arc<str>,
    target: Arc<TargetUrl>,
    client: Client,
}

impl Route {
    fn new(url: &Arc<str>, connector: &Connector) -> Option<Route> {
        let target = TargetUrl::parse(url, false).ok()?;
        let connector = awc::Connector::new()
            .connector(connector.clone())
            .timeout(NEVER)
            .limit(POOL_LIMIT)
            .conn_keep_alive(IDLE_LIMIT)
            .conn_lifetime(CONNECTION_LIFETIME);
        let client = ClientBuilder::new()
            .connector(connector)
            .disable_timeout()
            .disable_redirects()
            .no_default_headers()
            .finish();
        Some(Route { url: Arc::clone(url), target: Arc::new(target), client })
    }
}

impl AwcTransport {
    /// The way to `url`; made once per URL, not once per attempt.
    fn route(&self, url: &Arc<str>) -> Option<Route> {
        let mut last = self.route.borrow_mut();
        if let Some(route) = last.as_ref().filter(|route| route.url == *url) {
            return Some(route.clone());
        }
        Some(last.insert(Route::new(url, &self.connector)?).clone())
    }
}

impl Transport for AwcTransport {
    fn send(&self, request: Request) -> LocalBoxFuture<'static, Report> {
        let route = self.route(&request.url);
        Box::pin(async move {
            let prepared = route.and_then(|route| {
                let exchange = Exchange::new(route.target, &request)?;
                Some((route.client, Rc::new(exchange)))
            });
            let Some((client, exchange)) = prepared else {
                return report(failure::UNUSABLE_REQUEST.into(), Timing::default(), None, Span::ZERO);
            };
            let limit = request.timeout.to_std();
            let mut outcome = attempt(&client, &exchange, limit).await;
            if outcome.is_err() && exchange.found_a_dead_connection() {
                exchange.start_over();
                outcome = attempt(&client, &exchange, limit).await;
            }
            let trace = exchange.trace.borrow();
            let took = exchange.charged.at(trace.answered_at.unwrap_or_else(now));
            let finding = outcome.map_or_else(Finding::from, Finding::Answered);
            report(finding, exchange.timing(), trace.remote_addr, Span::from_std(took))
        })
    }
}

fn report(finding: Finding, timing: Timing, remote_addr: Option<SocketAddr>, took: Span) -> Report {
    Report { finding, timing, remote_addr, took }
}

/// Makes the request once, within what is left of `limit`.
async fn attempt(client: &Client, exchange: &Rc<Exchange>, limit: Duration) -> Result<Answer, Failure> {
    // Boxed by awc already; what is pinned here is small.
    let mut answer = pin!(CURRENT.scope(Rc::clone(exchange), ask(client)));
    let outcome = match exchange.charged.limit(limit, &mut answer).await {
        Some(outcome) => outcome,
        // The head was in time; what is left of the body has a limit of its own, which the stream keeps.
        None if exchange.trace.borrow().answered_at.is_some() => answer.await,
        None if exchange.may_be_known() => return Err(failure::TIMEOUT),
        None => return Err(failure::TIMEOUT_UNSENT),
    };
    let trace = exchange.trace.borrow();
    match outcome {
        Ok(mut answer) => {
            answer.excerpt_truncated = trace.body_truncated;
            Ok(answer)
        }
        Err(error) => Err(trace.failure.unwrap_or_else(|| {
            log::warn!("the HTTP client failed in an unexpected way: {error}");
            failure::CLIENT_FAILED
        })),
    }
}

/// Lets awc find a connection and take the answer from it. The request itself is in the exchange.
async fn ask(client: &Client) -> Result<Answer, Box<dyn std::error::Error>> {
    let mut response = client.post(ANYWHERE).no_decompress().send().await?;
    let retry_after = response.headers().get(header::RETRY_AFTER).and_then(|value| value.to_str().ok());
    let retry_after = retry_after.map(str::to_owned);
    let body = response.body().limit(EXCERPT_BYTES).await?;
    Ok(Answer { status: response.status().as_u16(), retry_after, excerpt: clean(&body), excerpt_truncated: false })
}
