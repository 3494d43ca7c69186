//! Https servers with certificates of every kind.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, SanType};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned, SupportedProtocolVersion};

/// A private certificate authority.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub fn new(name: &str) -> Authority {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Authority(CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("a root"))
    }

    pub fn root(&self) -> CertificateDer<'static> {
        self.0.der().clone()
    }

    /// The same as a certificate file holds it.
    pub fn root_pem(&self) -> String {
        self.0.pem()
    }

    /// A server that shows a certificate for these names or addresses and answers every request with `ok`.
    pub fn server(&self, names: &[&str], change: impl FnOnce(&mut CertificateParams)) -> TlsReceiver {
        self.server_that(names, change, Manner::default(), |stream| {
            // The requests of these tests come in one record.
            while stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").is_ok() {
                let Ok(1..) = stream.read(&mut [0; 4096]) else { break };
            }
        })
    }

    /// A server of its own manner, which runs `script` once the first request of a connection was read.
    pub fn server_that(
        &self,
        names: &[&str],
        change: impl FnOnce(&mut CertificateParams),
        manner: Manner,
        script: impl Fn(&mut Stream) + Send + 'static,
    ) -> TlsReceiver {
        let mut params = CertificateParams::new([]).expect("no names");
        params.subject_alt_names = names
            .iter()
            .map(|name| match name.parse() {
                Ok(ip) => SanType::IpAddress(ip),
                Err(_) => SanType::DnsName((*name).try_into().expect("a name")),
            })
            .collect();
        change(&mut params);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.0).expect("a certificate");
        let key = PrivateKeyDer::try_from(key.serialize_der()).expect("a key");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider.clone());
        let builder = builder.with_protocol_versions(manner.versions).expect("versions");
        let builder = match manner.asks_for_a_certificate {
            Asks::Never => builder.with_no_client_auth(),
            asks => {
                let mut roots = RootCertStore::empty();
                roots.add(self.root()).expect("a root");
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                let verifier = if asks == Asks::Maybe { verifier.allow_unauthenticated() } else { verifier };
                builder.with_client_cert_verifier(verifier.build().expect("a verifier"))
            }
        };
        let mut config = builder.with_single_cert(vec![certificate.der().clone()], key).expect("a matching key");
        config.send_tls13_tickets = manner.tickets;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        TlsReceiver::start(config, script)
    }
}

/// How a server does its handshakes.
#[derive(Clone, Copy)]
pub struct Manner {
    pub versions: &'static [&'static SupportedProtocolVersion],
    pub asks_for_a_certificate: Asks,
    /// Session tickets after a handshake (TLS 1.3).
    pub tickets: usize,
}

/// Whether a server asks its clients for certificates.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Asks {
    Never,
    /// And goes on without one.
    Maybe,
    Always,
}

impl Default for Manner {
    fn default() -> Manner {
        Manner { versions: rustls::ALL_VERSIONS, asks_for_a_certificate: Asks::Never, tickets: 2 }
    }
}

/// A connection on the server's side.
pub type Stream = StreamOwned<ServerConnection, TcpStream>;

/// Serves one connection after the other over TLS, and tells what was asked for.
pub struct TlsReceiver {
    pub address: SocketAddr,
    /// SNI and ALPN of each connection.
    pub hellos: mpsc::Receiver<(Option<String>, Option<Vec<u8>>)>,
}

impl TlsReceiver {
    fn start(config: ServerConfig, script: impl Fn(&mut Stream) + Send + 'static) -> TlsReceiver {
        let config = Arc::new(config);
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        let (told, hellos) = mpsc::channel();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let connection = ServerConnection::new(Arc::clone(&config)).expect("a connection");
                let mut stream = StreamOwned::new(connection, stream);
                stream.sock.set_read_timeout(Some(Duration::from_secs(5))).expect("a timeout");
                // A client that does not like our certificate leaves here.
                let Ok(1..) = stream.read(&mut [0; 4096]) else { continue };
                let sni = stream.conn.server_name().map(str::to_owned);
                let alpn = stream.conn.alpn_protocol().map(<[u8]>::to_vec);
                if told.send((sni, alpn)).is_err() {
                    return;
                }
                script(&mut stream);
            }
        });
        TlsReceiver { address, hellos }
    }

    pub fn url(&self, host: &str) -> String {
        format!("https://{host}:{}/h", self.address.port())
    }
}
