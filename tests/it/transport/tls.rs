//! Certificates, names and protocols of https receivers.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use posthaste::domain::attempt::ErrorKind;
use posthaste::transport::awc::Options;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, SanType};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::{StubResolver, answer, failure, local_options, on_actix, request, transport_with};
use crate::support::raw::RawReceiver;

/// A private certificate authority.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new(name: &str) -> Authority {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Authority(CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("a root"))
    }

    fn root(&self) -> CertificateDer<'static> {
        self.0.der().clone()
    }

    /// A server that shows a certificate for these names or addresses.
    fn server(&self, names: &[&str], change: impl FnOnce(&mut CertificateParams)) -> TlsReceiver {
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
struct TlsReceiver {
    address: SocketAddr,
    /// SNI and ALPN of each connection.
    hellos: mpsc::Receiver<(Option<String>, Option<Vec<u8>>)>,
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

    fn url(&self, host: &str) -> String {
        format!("https://{host}:{}/h", self.address.port())
    }
}

/// Options that trust the authority and resolve every name to this machine.
fn trusting(authority: &Authority) -> Options {
    let resolver = StubResolver::fixed(&["127.0.0.1"]);
    Options { extra_roots: vec![authority.root()], resolver, ..local_options() }
}

#[test]
fn c22_the_dot_is_not_in_sni_and_an_address_sends_none() {
    on_actix(async {
        let authority = Authority::new("ours");
        let receiver = authority.server(&["r.test", "127.0.0.1"], |_| ());
        for (host, sni) in [("r.test", Some("r.test")), ("r.test.", Some("r.test")), ("127.0.0.1", None)] {
            let report = transport_with(trusting(&authority)).send(request(&receiver.url(host))).await;
            assert!(report.timing.tls.is_some() && report.timing.connect.is_some());
            assert_eq!(&answer(report).excerpt[..], b"ok");
            let (seen, alpn) = receiver.hellos.recv().expect("a hello");
            assert_eq!((seen.as_deref(), alpn.as_deref()), (sni, Some(&b"http/1.1"[..])), "{host}");
        }
    });
}

#[test]
fn a_tls_connection_is_used_again() {
    on_actix(async {
        let authority = Authority::new("ours");
        let receiver = authority.server(&["r.test"], |_| ());
        let transport = transport_with(trusting(&authority));
        for turn in 0..4 {
            let report = transport.send(request(&receiver.url("r.test"))).await;
            assert_eq!(report.timing.tls.is_none(), turn > 0);
            answer(report);
        }
        assert_eq!(receiver.hellos.try_iter().count(), 1);
    });
}

#[test]
fn c22_bad_certificates_are_named_tls_failures() {
    on_actix(async {
        let (authority, stranger) = (Authority::new("ours"), Authority::new("a stranger's"));
        let expired = |params: &mut CertificateParams| params.not_after = rcgen::date_time_ymd(2020, 1, 1);
        let early = |params: &mut CertificateParams| params.not_before = rcgen::date_time_ymd(2100, 1, 1);
        for (receiver, wording) in [
            (stranger.server(&["r.test"], |_| ()), "trusted authority"),
            (authority.server(&["r.test"], expired), "expired"),
            (authority.server(&["r.test"], early), "not valid yet"),
            (authority.server(&["other.test"], |_| ()), "another host"),
        ] {
            let report = transport_with(trusting(&authority)).send(request(&receiver.url("r.test"))).await;
            let (kind, error) = failure(&report);
            assert_eq!(kind, ErrorKind::Tls);
            assert!(error.contains(wording), "{error}, not {wording}");
            assert_eq!(report.remote_addr, Some(receiver.address));
        }
    });
}

#[test]
fn a_receiver_without_tls_is_a_tls_failure() {
    on_actix(async {
        let plain = RawReceiver::scripted(|conversation| {
            conversation.write(b"HTTP/1.1 400 Bad Request\r\n\r\n");
            conversation.wait_for_close();
        });
        let closing = RawReceiver::scripted(|_| ());
        for (receiver, wording) in [(&plain, "does not speak TLS"), (&closing, "broke during")] {
            let url = receiver.url("/").replace("http:", "https:");
            let (kind, error) = failure(&transport_with(local_options()).send(request(&url)).await);
            assert_eq!(kind, ErrorKind::Tls);
            assert!(error.contains(wording), "{error}");
        }
    });
}
