//! How long each phase may take, and which of them is charged to whom.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::{BoxFuture, join_all, pending};
use posthaste::domain::attempt::{ErrorKind, Finding};
use posthaste::domain::time::Span;
use posthaste::transport::Request;
use posthaste::transport::TransportFactory;
use posthaste::transport::awc::{AwcFactory, Options};
use posthaste::transport::failure::{self, Failure};
use posthaste::transport::resolve::{DNS_LIMIT, MAX_LOOKUPS, Resolve, SystemResolver};

use super::{answer, failure, local_options, on_actix, request, transport, transport_with};
use crate::support::dns::{NameServer, Said};
use crate::support::raw::RawReceiver;

/// A resolver that never answers, as some name servers do.
struct Silent;

impl Resolve for Silent {
    fn resolve<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Vec<IpAddr>, Failure>> {
        Box::pin(pending())
    }
}

/// A resolver whose servers take their time to say that they cannot help: so many milliseconds.
struct Slow(u64);

impl Resolve for Slow {
    fn resolve<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Vec<IpAddr>, Failure>> {
        Box::pin(async {
            tokio::time::sleep(Duration::from_millis(self.0)).await;
            Err(failure::DNS_FAILED)
        })
    }
}

fn silent_dns() -> Options {
    Options { resolver: Arc::new(Silent), ..local_options() }
}

/// A request with a timeout of so many milliseconds.
fn hasty(url: &str, millis: u64) -> Request {
    Request { timeout: Span::from_millis(millis), ..request(url) }
}

#[test]
fn s04_the_timeout_runs_over_every_phase() {
    on_actix(async {
        let mute = RawReceiver::scripted(|conversation| conversation.wait_for_close());
        let half = RawReceiver::scripted(|conversation| {
            conversation.request();
            conversation.write(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Le");
            conversation.wait_for_close();
        });
        let never_tls = mute.url("/").replace("http:", "https:");
        for (options, url, sent) in [
            (silent_dns(), "http://r.test/", false),
            (local_options(), &never_tls, false),
            (local_options(), &mute.url("/"), true),
            (local_options(), &half.url("/"), true),
        ] {
            let report = transport_with(options).send(hasty(url, 300)).await;
            let (kind, error) = failure(&report);
            assert_eq!(kind, ErrorKind::Timeout, "{url}");
            assert_eq!(error.contains("may have processed"), sent, "{url}: {error}");
            assert_eq!(error.contains("nothing was sent"), !sent, "{url}: {error}");
            assert!((300..10_000).contains(&report.took.as_millis()), "{url}: {:?}", report.took);
            assert_eq!(report.timing.first_byte, None);
        }
    });
}

#[test]
fn c07_the_body_has_two_seconds_and_decides_nothing() {
    on_actix(async {
        let (ended, ends) = std::sync::mpsc::channel();
        let slow = RawReceiver::scripted(move |conversation| {
            conversation.request();
            conversation.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n");
            while conversation.write(b"x") {
                std::thread::sleep(Duration::from_millis(50));
            }
            let _ = ended.send(());
        });
        let mute = RawReceiver::answering("HTTP/1.1 500 Oops\r\n\r\nabc");
        let healthy = RawReceiver::answering("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        let transport = transport();
        // Shorter than what the body takes: the head was in time.
        let slow_ones = join_all((0..10).map(|_| transport.send(hasty(&slow.url("/"), 1_800))));
        let others = async {
            let report = super::transport().send(request(&healthy.url("/"))).await;
            assert!(report.took < Span::from_secs(2), "it waits for no other's body");
            super::transport().send(request(&mute.url("/"))).await
        };
        let start = Instant::now();
        let (reports, mute) = tokio::join!(slow_ones, others);
        assert!((Duration::from_secs(2)..Duration::from_secs(10)).contains(&start.elapsed()));
        for report in reports {
            assert!(report.took < Span::from_secs(2), "the attempt ends with the head: {:?}", report.took);
            let answer = answer(report);
            assert_eq!((answer.status, answer.excerpt_truncated), (200, true));
            assert!(!answer.excerpt.is_empty());
        }
        for _ in 0..10 {
            ends.recv_timeout(Duration::from_secs(10)).expect("no socket is kept");
        }
        let mute = answer(mute);
        assert_eq!((mute.status, &mute.excerpt[..], mute.excerpt_truncated), (500, &b"abc"[..], true));
    });
}

#[test]
fn a_small_complete_answer_is_not_waited_on() {
    on_actix(async {
        let receiver = RawReceiver::answering("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        let transport = transport();
        let start = Instant::now();
        for _ in 0..100 {
            answer(transport.send(request(&receiver.url("/"))).await);
        }
        // Two seconds each, if it were.
        assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    });
}

/// No sockets take part, so the clock may stand still and jump.
#[test]
fn s04_waiting_for_a_place_among_the_lookups_is_not_charged_to_the_receiver() {
    on_actix(async {
        // Every place is taken for 800 ms; then the last one's lookup takes 800 ms of its second.
        let factory = AwcFactory::new(Options { resolver: Arc::new(Slow(800)), ..local_options() }).expect("no roots");
        tokio::time::pause();
        let transports: Vec<_> = (0..=MAX_LOOKUPS).map(|_| factory.open()).collect();
        let begun = tokio::time::Instant::now();
        let reports = join_all(transports.iter().map(|one| one.send(hasty("http://r.test/", 1_000)))).await;
        assert_eq!(begun.elapsed().as_millis() / 100, 16);
        for report in reports {
            assert_eq!(report.finding, Finding::from(failure::DNS_FAILED));
            assert_eq!(
                (report.took.as_millis() / 100, report.timing.dns.map(|dns| dns.as_millis() / 100)),
                (8, Some(8))
            );
        }
    });
}

/// Likewise.
#[test]
fn s04_s06_no_place_among_the_lookups_is_a_fault_of_ours_however_short_the_timeout() {
    on_actix(async {
        let factory = AwcFactory::new(silent_dns()).expect("no roots");
        tokio::time::pause();
        let transports: Vec<_> = (0..=MAX_LOOKUPS).map(|_| factory.open()).collect();
        // The last one would wait for a place until the others give theirs back, after five seconds.
        let (last, others) = transports.split_last().expect("some");
        let others = join_all(others.iter().map(|transport| transport.send(hasty("http://r.test/", 10_000))));
        let late = async {
            tokio::time::sleep(Duration::from_millis(1)).await;
            last.send(hasty("http://r.test/", 100)).await
        };
        let (_, report) = tokio::join!(others, late);
        assert_eq!(report.finding, Finding::from(failure::DNS_BUSY));
    });
}

/// Likewise.
#[test]
fn c19_a_lookup_has_five_seconds() {
    on_actix(async {
        let transport = transport_with(silent_dns());
        tokio::time::pause();
        let report = transport.send(request("http://r.test/")).await;
        assert_eq!(report.finding, Finding::from(failure::DNS_TIMEOUT));
        assert_eq!(report.took.as_millis() / 1_000, 5);
    });
}

/// Likewise.
#[test]
fn c19_lookups_beyond_the_cap_are_put_off_and_suspects_have_a_lane_of_their_own() {
    on_actix(async {
        let factory = AwcFactory::new(silent_dns()).expect("no roots");
        tokio::time::pause();
        let transports: Vec<_> = (0..=MAX_LOOKUPS).map(|_| factory.open()).collect();
        let send_all = || join_all(transports.iter().map(|transport| transport.send(request("http://r.test/"))));
        let count = |reports: &[posthaste::domain::attempt::Report], failure| {
            reports.iter().filter(|report| report.finding == Finding::from(failure)).count()
        };
        let reports = send_all().await;
        assert_eq!(count(&reports, failure::DNS_TIMEOUT), MAX_LOOKUPS);
        assert_eq!(count(&reports, failure::DNS_BUSY), 1);
        // Now all but one are suspects: while they crowd their lane, an endpoint of good repute gets a place.
        let newcomer = factory.open();
        let (_, report) = tokio::join!(send_all(), newcomer.send(request("http://healthy.test/")));
        assert_eq!(report.finding, Finding::from(failure::DNS_TIMEOUT));
    });
}

/// The pool that answers the API's questions to the database must not wait for name servers: with its only thread taken,
/// the resolver still finds what it can find and gives up what it cannot.
#[test]
fn c19_a_lookup_needs_no_thread_of_a_pool() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).max_blocking_threads(1).enable_all().build();
    let (taken, take) = std::sync::mpsc::channel();
    let (give_back, given_back) = std::sync::mpsc::channel::<()>();
    let runtime = runtime.expect("a runtime");
    runtime.spawn_blocking(move || {
        let _ = taken.send(());
        let _ = given_back.recv();
    });
    take.recv().expect("the thread is taken");
    let server = NameServer::start(|_, _| Said::Code(3));
    let resolver = SystemResolver::asking(server.address);
    let limit = 4 * DNS_LIMIT;
    let (local, others) = runtime.block_on(async {
        let names: Vec<_> = (0..100).map(|number| format!("host{number}.test")).collect();
        let others = join_all(names.iter().map(|name| tokio::time::timeout(limit, resolver.resolve(name))));
        tokio::join!(tokio::time::timeout(limit, resolver.resolve("localhost")), others)
    });
    assert!(local.expect("in time").expect("from the hosts file").iter().all(IpAddr::is_loopback));
    assert!(others.into_iter().all(|other| other.expect("in time").is_err()));
    drop(give_back);
}
