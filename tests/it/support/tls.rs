//! Https servers with certificates of every kind.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, SanType};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

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

    /// A server that shows a certificate for these names or addresses.
    pub fn server(&self, names: &[&str], change: impl FnOnce(&mut CertificateParams)) -> TlsReceiver {
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
        TlsReceiver::start(certificate.der().clone(), PrivateKeyDer::try_from(key.serialize_der()).expect("a key"))
    }
}

/// Answers every request, one connection after the other, over TLS, and tells what was asked for.
pub struct TlsReceiver {
    pub address: SocketAddr,
    /// SNI and ALPN of each connection.
    pub hellos: mpsc::Receiver<(Option<String>, Option<Vec<u8>>)>,
}

impl TlsReceiver {
    fn start(certificate: CertificateDer<'static>, key: PrivateKeyDer<'static>) -> TlsReceiver {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = rustls::ServerConfig::builder_with_provider(provider);
        let builder = builder.with_safe_default_protocol_versions().expect("versions").with_no_client_auth();
        let mut config = builder.with_single_cert(vec![certificate], key).expect("a matching key");
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let config = Arc::new(config);
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        let (told, hellos) = mpsc::channel();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let connection = rustls::ServerConnection::new(Arc::clone(&config)).expect("a connection");
                let mut stream = rustls::StreamOwned::new(connection, stream);
                stream.sock.set_read_timeout(Some(Duration::from_secs(5))).expect("a timeout");
                // A client that does not like our certificate leaves here.
                let Ok(1..) = stream.read(&mut [0; 4096]) else { continue };
                let sni = stream.conn.server_name().map(str::to_owned);
                let alpn = stream.conn.alpn_protocol().map(<[u8]>::to_vec);
                if told.send((sni, alpn)).is_err() {
                    return;
                }
                // The requests of these tests come in one record.
                while stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").is_ok() {
                    let Ok(1..) = stream.read(&mut [0; 4096]) else { break };
                }
            }
        });
        TlsReceiver { address, hellos }
    }

    pub fn url(&self, host: &str) -> String {
        format!("https://{host}:{}/h", self.address.port())
    }
}
