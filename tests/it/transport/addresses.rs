//! Which addresses are dialled, and in which order.

use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::time::{Duration, Instant};

use posthaste::domain::attempt::{ErrorKind, Finding};
use posthaste::domain::target::AddressPolicy;
use posthaste::domain::time::Span;
use posthaste::transport::Request;
use posthaste::transport::awc::Options;
use posthaste::transport::failure;

use super::{StubResolver, answer, failure, local_options, on_actix, request, transport, transport_with};
use crate::support::raw::RawReceiver;
use crate::support::taken::TakenPort;

const OK: &str = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
/// An address of this machine's loopback network that stands in for a public one.
const PUBLIC: Ipv4Addr = Ipv4Addr::new(127, 9, 9, 9);

/// Options under which only [`PUBLIC`] may be called.
fn public_only(resolver: std::sync::Arc<StubResolver>) -> Options {
    let policy = AddressPolicy::new(["127.9.9.9/32".parse().expect("a network")]);
    Options { policy, resolver, ..Options::default() }
}

/// A receiver on [`PUBLIC`], and a listener on 127.0.0.1 that waits for nobody.
fn on_the_same_port() -> (RawReceiver, TcpListener) {
    loop {
        let receiver = RawReceiver::bound_to(PUBLIC.into(), |conversation| {
            conversation.request();
            conversation.write(OK.as_bytes());
        });
        // Somebody may have it.
        if let Ok(inner) = TcpListener::bind((Ipv4Addr::LOCALHOST, receiver.address().port())) {
            inner.set_nonblocking(true).expect("non-blocking");
            return (receiver, inner);
        }
    }
}

#[test]
fn c24_a_name_is_judged_by_the_address_that_is_dialled_each_time() {
    on_actix(async {
        // The same port on 127.0.0.1 is what an attacker would like to reach.
        let (receiver, inner) = on_the_same_port();
        let port = receiver.address().port();

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

/// C27, C29: every spelling, as a literal and behind a name, meets the same judge, which tells nothing.
#[test]
fn c26_c27_c29_what_nobody_may_call_is_judged_at_the_dial_however_it_is_spelt() {
    on_actix(async {
        let inner = TcpListener::bind("127.0.0.1:0").expect("a port");
        inner.set_nonblocking(true).expect("non-blocking");
        let port = inner.local_addr().expect("bound").port();
        let is_refused = async |options: Options, host: &str| {
            let report = transport_with(options).send(request(&format!("http://{host}:{port}/"))).await;
            let (kind, error) = failure(&report);
            assert_eq!(
                (kind, report.remote_addr, report.timing.connect),
                (ErrorKind::BlockedAddress, None, None),
                "{host}"
            );
            assert!(!error.contains(|one: char| one.is_ascii_digit()), "{error}");
        };
        for host in LITERALS {
            is_refused(Options::default(), host).await;
        }
        for record in RECORDS {
            let named = Options { resolver: StubResolver::fixed(&[record]), ..Options::default() };
            is_refused(named, "127.0.0.1.nip.test").await;
        }
        assert!(inner.accept().is_err(), "nobody may have dialled 127.0.0.1");
    });
}

const LITERALS: [&str; 26] = [
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
    "2130706433",
    "0x7f000001",
    "0177.0.0.1",
    "127.1",
    "0",
    "017700000001",
    "\u{2460}\u{2461}\u{2466}.0.0.1",
    "127.0.0.1.",
    "localhost.",
    "[0:0:0:0:0:ffff:a9fe:a9fe]",
    "[::127.0.0.1]",
    "[64:ff9b::7f00:1]",
    "[64:ff9b:1::7f00:1]",
    "[2002:7f00:1::]",
    "[::ffff:0:7f00:1]",
];

const RECORDS: [&str; 15] = [
    "127.0.0.1",
    "::ffff:127.0.0.1",
    "::1",
    "169.254.169.254",
    "0.0.0.0",
    "127.255.255.254",
    "::",
    "::127.0.0.1",
    "64:ff9b::7f00:1",
    "2002:7f00:1::",
    "2001:0:101:101:0:0:80ff:fffe",
    "fe80::1",
    "fd00::1",
    "100.64.0.1",
    "255.255.255.255",
];

#[test]
fn c18_a_black_hole_in_front_costs_a_head_start() {
    on_actix(async {
        let receiver = RawReceiver::answering(OK);
        let port = receiver.address().port();
        // A listener whose queue is full takes no further connection: the dial neither succeeds nor fails.
        let hole = BlackHole::new([127, 8, 8, 8], port);
        let resolver = StubResolver::fixed(&[&hole.ip.to_string(), "127.0.0.1"]);
        let transport = transport_with(Options { resolver, ..local_options() });
        let start = Instant::now();
        let report = transport.send(request(&format!("http://r.test:{port}/"))).await;
        assert_eq!(report.remote_addr, Some(receiver.address()));
        answer(report);
        // Waited for, it would cost the ten seconds that a connection may take.
        assert!((Duration::from_millis(250)..Duration::from_secs(8)).contains(&start.elapsed()));
    });
}

/// An address that swallows connection attempts.
struct BlackHole {
    ip: IpAddr,
    _listener: tokio::net::TcpListener,
    _queued: Vec<std::net::TcpStream>,
}

impl BlackHole {
    fn new(ip: [u8; 4], port: u16) -> BlackHole {
        let ip = IpAddr::from(ip);
        let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
        socket.bind((ip, port).into()).expect("the same port");
        let listener = socket.listen(0).expect("listening");
        let patience = Duration::from_millis(100);
        let dial = || std::net::TcpStream::connect_timeout(&(ip, port).into(), patience).ok();
        let queued = std::iter::from_fn(dial).take(64).collect();
        BlackHole { ip, _listener: listener, _queued: queued }
    }
}

const TIMED_OUT: &str = "no connection within the timeout; nothing was sent";

/// Nothing ever happens on the sockets, so the clock may stand still and jump.
#[test]
fn c18_black_holes_only_are_given_up_after_ten_seconds_or_with_the_timeout() {
    on_actix(async {
        let free = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = free.local_addr().expect("bound").port();
        let holes = [BlackHole::new([127, 8, 8, 10], port), BlackHole::new([127, 8, 8, 11], port)];
        let [first, second] = [&holes[0].ip, &holes[1].ip].map(IpAddr::to_string);
        let resolver = StubResolver::fixed(&[&first, &second]);
        let transport = transport_with(Options { resolver, ..local_options() });
        tokio::time::pause();
        for (timeout, expected, took) in
            [(30, (ErrorKind::Connect, "no connection in time"), 10), (3, (ErrorKind::Timeout, TIMED_OUT), 3)]
        {
            let given = Request { timeout: Span::from_secs(timeout), ..request(&format!("http://r.test:{port}/")) };
            let report = transport.send(given).await;
            assert_eq!(failure(&report), expected);
            assert_eq!(report.took.as_millis() / 1_000, took);
            assert_eq!(report.remote_addr, Some((holes[1].ip, port).into()), "both were tried");
        }
    });
}

/// Of many addresses the first eight are tried, families in turn; what is refused costs no head start.
#[test]
fn c18_many_addresses() {
    on_actix(async {
        let receiver = RawReceiver::answering(OK);
        let port = receiver.address().port();
        let dead: Vec<String> = (1..=20).map(|last| format!("127.7.7.{last}")).collect();
        // How many dead addresses stand before the living one, and whether it is reached.
        for (before, reached) in [(0, true), (3, true), (7, true), (8, false), (20, false)] {
            let mut answer: Vec<&str> = dead[..before].iter().map(String::as_str).collect();
            answer.push("127.0.0.1");
            answer.extend(dead[before..].iter().map(String::as_str));
            let transport = transport_with(Options { resolver: StubResolver::fixed(&answer), ..local_options() });
            let start = Instant::now();
            let report = transport.send(request(&format!("http://r.test:{port}/"))).await;
            match reached {
                true => assert_eq!(report.remote_addr, Some(receiver.address())),
                false => assert_eq!(failure(&report), (ErrorKind::Connect, "connection refused"), "{before}"),
            }
            // Seven head starts would take longer.
            assert!(start.elapsed() < Duration::from_millis(1_700), "{before}: {:?}", start.elapsed());
        }
        // Addresses that may not be called do not count.
        let mut mixed: Vec<String> = (1..=20).map(|last| format!("10.7.7.{last}")).collect();
        mixed.push("127.0.0.1".into());
        let mixed: Vec<&str> = mixed.iter().map(String::as_str).collect();
        let transport = transport_with(Options { resolver: StubResolver::fixed(&mixed), ..local_options() });
        answer(transport.send(request(&format!("http://r.test:{port}/"))).await);
    });
}

#[test]
fn c18_a_name_with_ipv6_addresses_only() {
    on_actix(async {
        let receiver = RawReceiver::bound_to("::1".parse().expect("loopback"), |conversation| {
            conversation.request();
            conversation.write(OK.as_bytes());
        });
        let resolver = StubResolver::fixed(&["::1"]);
        let transport = transport_with(Options { resolver, ..local_options() });
        let report = transport.send(request(&format!("http://six.test:{}/", receiver.address().port()))).await;
        assert_eq!(report.remote_addr, Some(receiver.address()));
        answer(report);
    });
}

/// The list is matched with the address that is dialled, whatever the URL says; a metadata service needs an entry of its
/// own (C30).
#[test]
fn c30_the_list_is_matched_with_the_dialled_address() {
    on_actix(async {
        let receiver = RawReceiver::bound_to(PUBLIC.into(), |conversation| {
            conversation.request();
            conversation.write(OK.as_bytes());
        });
        let port = receiver.address().port();
        for (allow, records, reached) in [
            (&["127.9.0.0/16"][..], &["127.9.9.9"][..], true),
            (&["127.9.0.0/16"], &["127.10.0.1", "127.9.9.9"], true),
            (&["127.9.0.0/16"], &["::1", "::ffff:127.9.9.9"], true),
            (&["::ffff:127.9.0.0/112"], &["127.9.9.9"], true),
            (&["127.9.0.0/16"], &["127.10.0.1", "127.8.255.255"], false),
            (&["127.9.9.8/32", "::/0"], &["127.9.9.9", "::ffff:127.9.9.9"], false),
            (&["0.0.0.0/0", "::/0"], &["169.254.169.254", "fd00:ec2::254", "64:ff9b::a9fe:a9fe"], false),
        ] {
            let policy = AddressPolicy::new(allow.iter().map(|net| net.parse().expect("a network")));
            let options = Options { policy, resolver: StubResolver::fixed(records), ..Options::default() };
            let report = transport_with(options).send(request(&format!("http://hooks.lan:{port}/"))).await;
            match reached {
                true => assert_eq!((report.remote_addr, answer(report).status), (Some(receiver.address()), 200)),
                false => {
                    let expected =
                        (ErrorKind::BlockedAddress, "the host has no address that this installation may call");
                    assert_eq!((failure(&report), report.remote_addr), (expected, None), "{allow:?} {records:?}");
                }
            }
        }
    });
}

#[test]
fn c18_a_refusal_in_front_costs_nothing() {
    on_actix(async {
        let receiver = RawReceiver::answering(OK);
        let port = receiver.address().port();
        let dead = (1..=6).map(|last| format!("127.7.7.{last}"));
        let addresses: Vec<String> = ["::1".to_owned()].into_iter().chain(dead).chain(["127.0.0.1".into()]).collect();
        let resolver = StubResolver::fixed(&addresses.iter().map(String::as_str).collect::<Vec<_>>());
        let transport = transport_with(Options { resolver, ..local_options() });
        let start = Instant::now();
        answer(transport.send(request(&format!("http://r.test:{port}/"))).await);
        assert!(start.elapsed() < Duration::from_millis(1_700), "seven head starts would take longer");
    });
}

#[test]
fn a_refused_port_is_a_connect_failure() {
    on_actix(async {
        let closed = TakenPort::closed();
        let address = closed.address;
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
