//! From a target to a connection: resolve, judge, dial, TLS. Each step has its own limit; the attempt's timeout runs over
//! all of them.

use std::cell::Cell;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use actix_service::Service;
use actix_tls::connect::{ConnectError, ConnectInfo, Connection};
use awc::http::Uri;
use futures_util::future::LocalBoxFuture;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::dial::dial;
use super::exchange::{CURRENT, Exchange};
use super::failure::{self, Failure};
use super::idle::{IdlePlaces, Janitor, Line};
use super::metered::Metered;
use super::now;
use super::resolve::Lookups;
use super::stream::Stream;
use super::wire::Wire;
use crate::domain::target::{AddressPolicy, Host, Scheme, TargetUrl};
use crate::domain::time::Span;

/// How long it may take until one of the addresses accepts a connection.
pub const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// How long the TLS handshake may take.
pub const TLS_LIMIT: Duration = Duration::from_secs(10);

/// What every connection of the process needs.
pub struct Surroundings {
    pub lookups: Lookups,
    pub policy: AddressPolicy,
    pub tls: Arc<rustls::ClientConfig>,
    pub idle_places: IdlePlaces,
}

/// Makes connections for one endpoint's awc client.
#[derive(Clone)]
pub struct Connector {
    around: Arc<Surroundings>,
    own: Rc<Own>,
}

/// What belongs to one endpoint.
struct Own {
    janitor: Rc<Janitor>,
    /// The last lookup of its name failed.
    suspect: Cell<bool>,
}

impl Connector {
    pub fn new(around: Arc<Surroundings>) -> Self {
        let own = Own { janitor: Janitor::new(around.idle_places.clone()), suspect: Cell::new(false) };
        Connector { around, own: Rc::new(own) }
    }
}

impl Service<ConnectInfo<Uri>> for Connector {
    type Response = Connection<Uri, Stream>;
    type Error = ConnectError;
    type Future = LocalBoxFuture<'static, Result<Self::Response, Self::Error>>;

    actix_service::always_ready!();

    fn call(&self, info: ConnectInfo<Uri>) -> Self::Future {
        let Connector { around, own } = self.clone();
        Box::pin(async move {
            // awc's error types would lose what went wrong; it is left in the exchange, and awc only told that it did.
            let given_up = || ConnectError::Io(io::ErrorKind::NotConnected.into());
            let exchange = CURRENT.try_with(Rc::clone).map_err(|_| given_up())?;
            match around.connect(&exchange, &own.suspect).await {
                Ok((wire, peer)) => {
                    let stream = Stream::new(Line::new(wire, peer), Rc::clone(&own.janitor));
                    Ok(Connection::new(info.request().clone(), stream))
                }
                Err(failure) => {
                    exchange.fail(failure);
                    Err(given_up())
                }
            }
        })
    }
}

impl Surroundings {
    async fn connect(&self, exchange: &Exchange, suspect: &Cell<bool>) -> Result<(Wire, SocketAddr), Failure> {
        let addresses = self.addresses(exchange, suspect).await?;
        let (tcp, peer) = self.dial(exchange, addresses).await?;
        exchange.trace.borrow_mut().remote_addr = Some(peer);
        match exchange.target.scheme() {
            Scheme::Http => Ok((Wire::Plain(tcp), peer)),
            Scheme::Https => Ok((self.handshake(exchange, tcp).await?, peer)),
        }
    }

    /// The addresses that may be dialled. Names and literals are judged alike, and on every new connection: what a name
    /// means may have changed since it was last looked at (C24). Of a mixed answer the bad addresses are dropped.
    async fn addresses(&self, exchange: &Exchange, suspect: &Cell<bool>) -> Result<Vec<SocketAddr>, Failure> {
        let found = match exchange.target.host() {
            Host::Ip(ip) => vec![*ip],
            Host::Name(name) => {
                let (found, took) = match self.lookups.known(name) {
                    Some(known) => (known, Span::ZERO),
                    None => {
                        let place = exchange.charged.pause_for(self.lookups.place(suspect)).await?;
                        timed(place.find(name)).await
                    }
                };
                exchange.trace.borrow_mut().dns = Some(took);
                found?
            }
        };
        let port = exchange.target.port();
        // `::ffff:127.0.0.1` is dialled, and so must be judged, as what it is (C26).
        let canonical = found.iter().map(IpAddr::to_canonical);
        let allowed = canonical.filter(|ip| self.policy.judge(*ip).is_allowed());
        let addresses: Vec<_> = allowed.map(|ip| SocketAddr::new(ip, port)).collect();
        if addresses.is_empty() { Err(failure::BLOCKED) } else { Ok(addresses) }
    }

    async fn dial(&self, exchange: &Exchange, to: Vec<SocketAddr>) -> Result<(TcpStream, SocketAddr), Failure> {
        let dialled = |address| exchange.trace.borrow_mut().remote_addr = Some(address);
        let (outcome, took) = timed(timeout(CONNECT_LIMIT, dial(to, dialled))).await;
        exchange.trace.borrow_mut().connect = Some(took);
        outcome.unwrap_or(Err(failure::NO_CONNECTION))
    }

    async fn handshake(&self, exchange: &Exchange, tcp: TcpStream) -> Result<Wire, Failure> {
        let name = server_name(&exchange.target).ok_or(failure::CERT_OTHER_HOST)?;
        let connector = tokio_rustls::TlsConnector::from(Arc::clone(&self.tls));
        let (outcome, took) = timed(timeout(TLS_LIMIT, connector.connect(name, Metered::new(tcp)))).await;
        exchange.trace.borrow_mut().tls = Some(took);
        match outcome {
            Ok(Ok(stream)) => Ok(Wire::Tls(Box::new(stream))),
            Ok(Err(error)) => Err(failure::of_tls(&error)),
            Err(_) => Err(failure::TLS_TIMEOUT),
        }
    }
}

/// The name to verify the certificate against. A host name is also sent as SNI; for an address rustls sends none
/// (RFC 6066 §3, C22). `None` if no certificate could be for that name.
fn server_name(target: &TargetUrl) -> Option<ServerName<'static>> {
    ServerName::try_from(target.tls_name()).ok()
}

/// What a future came to, and how long it took.
async fn timed<T>(work: impl Future<Output = T>) -> (T, Span) {
    let start = now();
    let outcome = work.await;
    (outcome, Span::from_std(start.elapsed()))
}
