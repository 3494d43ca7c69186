//! Names, looked up by the resolver that is used in earnest, from a name server that answers as it is told.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use posthaste::domain::attempt::{ErrorKind, Finding};
use posthaste::transport::awc::Options;
use posthaste::transport::failure;
use posthaste::transport::resolve::SystemResolver;

use super::{answer, failure as failure_of, local_options, on_actix, request, transport_with};
use crate::support::dns::{A, AAAA, NameServer, Said};
use crate::support::raw::RawReceiver;

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// Each attempt dials anew.
const CLOSING: &str = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok";

fn asking(server: std::net::SocketAddr) -> Options {
    Options { resolver: Arc::new(SystemResolver::asking(server)), ..local_options() }
}

/// These addresses, valid for no time at all.
fn addresses(of: &[&str]) -> Said {
    Said::Addresses(of.iter().map(|ip| ip.parse::<IpAddr>().expect("an address")).collect(), 0)
}

/// That a name gives no address is its owner's fault (S5). Of a name server that says nothing we cannot know whose it is:
/// should it be ours, no attempt reaches anybody, which has a rule of its own (S6).
#[test]
fn s05_c19_what_name_servers_say_is_sorted() {
    on_actix(async {
        let server = NameServer::start(|name, kind| match name {
            "nx.test" => Said::Code(3),
            "broken.test" => Said::Code(2),
            "refused.test" => Said::Code(5),
            "mute.test" => Said::Nothing,
            "garbage.test" => Said::Garbage,
            // It knows no AAAA, or swallows such questions.
            "half.test" if kind == AAAA => Said::Nothing,
            "empty.test" => addresses(&[]),
            _ => addresses(&["127.0.0.1"]),
        });
        let receiver = RawReceiver::answering(OK);
        let port = receiver.address().port();
        let transport = transport_with(asking(server.address));
        for (name, expected) in [
            ("nx.test", Some(failure::DNS_NO_ADDRESS)),
            ("empty.test", Some(failure::DNS_NO_ADDRESS)),
            ("broken.test", Some(failure::DNS_FAILED)),
            ("refused.test", Some(failure::DNS_FAILED)),
            ("mute.test", Some(failure::DNS_TIMEOUT)),
            ("garbage.test", Some(failure::DNS_FAILED)),
            ("half.test", None),
            ("good.test", None),
        ] {
            let report = transport.send(request(&format!("http://{name}:{port}/"))).await;
            match expected {
                Some(expected) => assert_eq!(report.finding, Finding::from(expected), "{name}"),
                None => assert_eq!(answer(report).status, 200, "{name}"),
            }
        }
        let asked = server.asked();
        assert!(asked.contains(&("good.test".into(), A)), "{asked:?}");
        assert!(asked.iter().all(|(name, _)| name.ends_with(".test")), "nothing is searched for: {asked:?}");
    });
}

/// C24: a name that means something else at the second look is judged at the second look, and of a mixed answer only what
/// may be called is called.
#[test]
fn c24_a_name_server_that_changes_its_mind_reaches_nobody_new() {
    on_actix(async {
        let receiver = RawReceiver::answering(CLOSING);
        let port = receiver.address().port();
        let looks = Arc::new(AtomicUsize::new(0));
        let server = NameServer::start(move |name, kind| match (name, kind) {
            ("mixed.test", A) => addresses(&["10.0.0.1", "169.254.169.254", "127.0.0.1"]),
            ("rebinding.test", A) if looks.fetch_add(1, Ordering::SeqCst) > 0 => addresses(&["169.254.169.254"]),
            (_, A) => addresses(&["127.0.0.1"]),
            _ => addresses(&[]),
        });
        let transport = transport_with(asking(server.address));
        let url = |name| format!("http://{name}.test:{port}/");
        let mixed = transport.send(request(&url("mixed"))).await;
        assert_eq!(mixed.remote_addr, Some(receiver.address()));
        assert_eq!(answer(mixed).status, 200);
        assert_eq!(answer(transport.send(request(&url("rebinding"))).await).status, 200);
        let second = transport.send(request(&url("rebinding"))).await;
        assert_eq!(second.finding, Finding::from(failure::BLOCKED));
        assert_eq!(second.remote_addr, None, "it was not dialled");
    });
}

/// C19: who asks for each attempt makes its name server slow, and its receiver's answers late.
#[test]
fn c19_an_answer_is_asked_for_once_while_it_holds_and_the_first_addresses_are_looked_at() {
    on_actix(async {
        let receiver = RawReceiver::answering(CLOSING);
        let server = NameServer::start(|name, kind| match (name, kind) {
            ("kept.test", A) => Said::Addresses(vec![Ipv4Addr::LOCALHOST.into()], 200),
            // Of these none may be called but the last; it comes too late.
            ("long.test", A) => {
                let refused = (0..50).map(|last| IpAddr::from([10, 0, 0, last]));
                Said::Addresses(refused.chain([Ipv4Addr::LOCALHOST.into()]).collect(), 200)
            }
            (_, A) => addresses(&["127.0.0.1"]),
            _ => addresses(&[]),
        });
        let transport = transport_with(asking(server.address));
        for name in ["kept", "kept", "kept", "passing", "passing", "long", "long"] {
            let url = format!("http://{name}.test:{}/", receiver.address().port());
            let report = transport.send(request(&url)).await;
            match name {
                "long" => assert_eq!(report.finding, Finding::from(failure::BLOCKED)),
                _ => assert_eq!(answer(report).status, 200, "{name}"),
            }
        }
        let asked = server.asked();
        let times = |name: &str| asked.iter().filter(|(asked, kind)| asked == name && *kind == A).count();
        assert_eq!((times("kept.test"), times("passing.test"), times("long.test")), (1, 2, 1), "{asked:?}");
    });
}

/// One lost or failed question is no answer: neither is the other family's answer kept for the whole, nor does the name have no
/// address.
#[test]
fn c19_half_an_answer_is_not_kept_for_a_whole_one() {
    on_actix(async {
        let receiver = RawReceiver::answering(CLOSING);
        let port = receiver.address().port();
        let broken = Arc::new(AtomicBool::new(true));
        let fails = broken.clone();
        let server = NameServer::start(move |name, kind| match (name, kind) {
            // Nobody listens there.
            ("six.test", AAAA) => Said::Addresses(vec![Ipv6Addr::LOCALHOST.into()], 200),
            ("none.test", _) | (_, AAAA) => Said::None(200),
            _ if fails.load(Ordering::SeqCst) => Said::Code(2),
            _ => Said::Addresses(vec![Ipv4Addr::LOCALHOST.into()], 200),
        });
        let transport = transport_with(asking(server.address));
        let attempt = |name: &str| transport.send(request(&format!("http://{name}.test:{port}/")));
        assert_eq!(failure_of(&attempt("six").await).0, ErrorKind::Connect);
        assert_eq!(attempt("four").await.finding, Finding::from(failure::DNS_FAILED), "not: it has no address");
        assert_eq!(attempt("none").await.finding, Finding::from(failure::DNS_NO_ADDRESS));
        broken.store(false, Ordering::SeqCst);
        let before = server.asked().len();
        for _ in 0..2 {
            assert_eq!(answer(attempt("six").await).status, 200, "its other address was asked for again");
            assert_eq!(answer(attempt("four").await).status, 200);
            assert_eq!(attempt("none").await.finding, Finding::from(failure::DNS_NO_ADDRESS));
        }
        let again = server.asked().split_off(before);
        assert_eq!(again, [("six.test".into(), A), ("four.test".into(), A)], "the rest is known");
    });
}
