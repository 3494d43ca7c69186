//! Which addresses are dialled, and in which order.

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use posthaste::domain::attempt::{ErrorKind, Finding};
use posthaste::domain::target::AddressPolicy;
use posthaste::transport::awc::Options;
use posthaste::transport::failure;

use super::{StubResolver, answer, failure, local_options, on_actix, request, transport, transport_with};
use crate::support::raw::RawReceiver;

const OK: &str = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
/// An address of this machine's loopback network that stands in for a public one.
const PUBLIC: Ipv4Addr = Ipv4Addr::new(127, 9, 9, 9);

/// Options under which only [`PUBLIC`] may be called.
fn public_only(resolver: std::sync::Arc<StubResolver>) -> Options {
    let policy = AddressPolicy::new(["127.9.9.9/32".parse().expect("a network")]);
    Options { policy, resolver, ..Options::default() }
}

#[test]
fn c24_a_name_is_judged_by_the_address_that_is_dialled_each_time() {
    on_actix(async {
        let receiver = RawReceiver::bound_to(PUBLIC.into(), |conversation| {
            conversation.request();
            conversation.write(OK.as_bytes());
        });
        let port = receiver.address().port();
        // The same port on 127.0.0.1 is what an attacker would like to reach.
        let inner = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, port)).expect("the same port");
        inner.set_nonblocking(true).expect("non-blocking");

        let (public, private): (IpAddr, IpAddr) = (PUBLIC.into(), Ipv4Addr::LOCALHOST.into());
        let alternating = (0..20).map(|turn| Ok(vec![if turn % 2 == 0 { public } else { private }]));
        let resolver = StubResolver::new(alternating);
        let transport = transport_with(public_only(resolver.clone()));
        for turn in 0..20 {
            let report = transport.send(request(&format!("http://rebind.test:{port}/"))).await;
            if turn % 2 == 0 {
                assert_eq!(report.remote_addr, Some((public, port).into()));
                assert_eq!(answer(report).status, 200);
            } else {
                assert_eq!((failure(&report).0, report.remote_addr), (ErrorKind::BlockedAddress, None));
            }
        }
        assert_eq!(resolver.asked(), ["rebind.test"; 20]);

        // Of a mixed answer the bad address is dropped.
        let mixed = StubResolver::new([Ok(vec![private, public])]);
        let report = transport_with(public_only(mixed)).send(request(&format!("http://mixed.test:{port}/"))).await;
        assert_eq!(report.remote_addr, Some((public, port).into()));
        assert!(inner.accept().is_err(), "nobody may have dialled 127.0.0.1");
    });
}

#[test]
fn c26_c27_c29_literals_are_judged_like_names_and_nothing_is_told() {
    on_actix(async {
        let inner = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        inner.set_nonblocking(true).expect("non-blocking");
        let port = inner.local_addr().expect("bound").port();
        let transport = transport_with(Options::default());
        for host in [
            "127.0.0.1",
            "[::1]",
            "[::ffff:127.0.0.1]",
            "[::ffff:7f00:1]",
            "0.0.0.0",
            "[::]",
            "10.0.0.1",
            "169.254.169.254",
            "[fe80::1]",
            "localhost",
            "LOCALHOST",
        ] {
            let report = transport.send(request(&format!("http://{host}:{port}/"))).await;
            let (kind, error) = failure(&report);
            assert_eq!(
                (kind, report.remote_addr, report.timing.connect),
                (ErrorKind::BlockedAddress, None, None),
                "{host}"
            );
            assert!(!error.contains(|one: char| one.is_ascii_digit()), "{error}");
        }
        for record in ["127.0.0.1", "::ffff:127.0.0.1", "::1", "169.254.169.254"] {
            let transport = transport_with(Options { resolver: StubResolver::fixed(&[record]), ..Options::default() });
            let report = transport.send(request(&format!("http://r.test:{port}/"))).await;
            assert_eq!((failure(&report).0, report.remote_addr), (ErrorKind::BlockedAddress, None), "{record}");
        }
        assert!(inner.accept().is_err());
    });
}

#[test]
fn c18_a_black_hole_in_front_costs_a_head_start() {
    on_actix(async {
        let receiver = RawReceiver::answering(OK);
        let port = receiver.address().port();
        // A listener whose queue is full takes no further connection: the dial neither succeeds nor fails.
        let hole = BlackHole::new(port);
        let resolver = StubResolver::fixed(&[&hole.ip.to_string(), "127.0.0.1"]);
        let transport = transport_with(Options { resolver, ..local_options() });
        let start = Instant::now();
        let report = transport.send(request(&format!("http://r.test:{port}/"))).await;
        assert_eq!(report.remote_addr, Some(receiver.address()));
        answer(report);
        assert!((Duration::from_millis(250)..Duration::from_secs(2)).contains(&start.elapsed()));
    });
}

/// An address that swallows connection attempts.
struct BlackHole {
    ip: IpAddr,
    _listener: tokio::net::TcpListener,
    _queued: Vec<std::net::TcpStream>,
}

impl BlackHole {
    fn new(port: u16) -> BlackHole {
        let ip = IpAddr::from([127, 8, 8, 8]);
        let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
        socket.bind((ip, port).into()).expect("the same port");
        let listener = socket.listen(0).expect("listening");
        let patience = Duration::from_millis(100);
        let dial = || std::net::TcpStream::connect_timeout(&(ip, port).into(), patience).ok();
        let queued = std::iter::from_fn(dial).take(64).collect();
        BlackHole { ip, _listener: listener, _queued: queued }
    }
}

#[test]
fn c18_a_refusal_in_front_costs_nothing() {
    on_actix(async {
        let receiver = RawReceiver::answering(OK);
        let port = receiver.address().port();
        let resolver = StubResolver::fixed(&["::1", "127.7.7.7", "127.0.0.1"]);
        let transport = transport_with(Options { resolver, ..local_options() });
        let start = Instant::now();
        answer(transport.send(request(&format!("http://r.test:{port}/"))).await);
        assert!(start.elapsed() < Duration::from_millis(250));
    });
}

#[test]
fn a_refused_port_is_a_connect_failure() {
    on_actix(async {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        drop(listener);
        let report = transport().send(request(&format!("http://{address}/"))).await;
        assert_eq!(failure(&report), (ErrorKind::Connect, "connection refused"));
        assert_eq!(report.remote_addr, Some(address));
        assert!(report.timing.connect.is_some() && report.timing.first_byte.is_none());
    });
}

#[test]
fn s05_s06_failed_lookups_are_dns_failures_or_ours() {
    on_actix(async {
        for outcome in [failure::DNS_NO_ADDRESS, failure::DNS_FAILED, failure::NO_RESOLVER] {
            let transport = transport_with(Options { resolver: StubResolver::new([Err(outcome)]), ..local_options() });
            let report = transport.send(request("http://r.test/")).await;
            assert_eq!(report.finding, Finding::from(outcome));
            assert!(report.timing.dns.is_some() && report.remote_addr.is_none());
        }
    });
}

#[test]
fn the_hosts_file_is_honoured() {
    on_actix(async {
        let receiver = RawReceiver::answering(OK);
        let report = transport().send(request(&format!("http://localhost:{}/", receiver.address().port()))).await;
        assert!(report.timing.dns.is_some());
        assert_eq!(answer(report).status, 200);
    });
}
