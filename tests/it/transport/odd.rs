//! Heads and bodies that are odd in one way: what is let pass, what is refused and how that is named. Each goes through
//! sockets twice, and the second answer must be like the first: nothing of one is left for the other.

use std::time::{Duration, Instant};

use posthaste::domain::attempt::{ErrorKind, Finding};
use posthaste::domain::time::Span;
use posthaste::transport::{Request, TransportFactory};

use super::{answer, failure, local_options, on_actix, request, transport};
use crate::support::raw::RawReceiver;
use posthaste::transport::awc::AwcFactory;

const BODY: &str = "Content-Length: 2\r\n\r\nok";

/// What came of an answer, and of the same once more on the same transport: status, excerpt (or the failure's wording and
/// no excerpt), whether it was cut; and how many connections that took.
async fn twice(
    factory: &AwcFactory,
    response: &[u8],
) -> (Result<(u16, String, bool), (ErrorKind, &'static str)>, usize) {
    let receiver = RawReceiver::answering(response);
    let transport = factory.open();
    let mut seen = Vec::new();
    for _ in 0..2 {
        seen.push(match transport.send(request(&receiver.url("/"))).await.finding {
            Finding::Answered(answer) => {
                let excerpt = String::from_utf8_lossy(&answer.excerpt).into_owned();
                Ok((answer.status, excerpt, answer.excerpt_truncated))
            }
            Finding::Failed { kind, error } => Err((kind, error)),
            Finding::Local { reason } => panic!("{reason}"),
        });
    }
    assert_eq!(seen[0], seen[1], "{}", response.escape_ascii());
    (seen.remove(0), receiver.connections())
}

/// Answers that deliver `ok` with status 200, and whether their connection carries the next request.
#[test]
fn c11_c14_odd_heads_that_are_let_pass() {
    on_actix(async {
        let factory = AwcFactory::new(local_options()).expect("no roots");
        let many = "X-A: 1\r\n".repeat(99);
        let long_reason = "r".repeat(60_000);
        for (head, kept) in [
            // Lines that end in LF, spaces before the colon, folded lines, odd values.
            ("HTTP/1.1 200 OK\nContent-Length: 2\n\nok", true),
            ("HTTP/1.1 200 OK\r\nX: 1\nContent-Length: 2\r\n\nok", true),
            ("HTTP/1.1 200 OK\r\nContent-Length : 2\r\n\r\nok", true),
            ("HTTP/1.1 200 OK\r\nContent-Length\t: \t2\t \r\n\r\nok", true),
            ("HTTP/1.1 200 OK\r\nX-A: 1\r\n\t2\r\n  3\r\nContent-Length: 2\r\n\r\nok", true),
            ("HTTP/1.1 200 OK\r\nContent-Length:\r\n 2\r\n\r\nok", true),
            ("HTTP/1.1 200 OK\r\nno colon here\r\nContent-Length: 2\r\n\r\nok", true),
            ("HTTP/1.1 200 OK\r\n: no name\r\nContent-Length: 2\r\n\r\nok", true),
            ("HTTP/1.1 200 OK\r\nX-\u{e9}: 1\r\nX-B: \u{1}\u{7f}\r\nContent-Length: 2\r\n\r\nok", true),
            ("HTTP/1.1 200 OK\r\nX:\r\nContent-Length: 2\r\n\r\nok", true),
            // Status lines.
            ("HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok", true),
            ("HTTP/1.1 200 \r\nContent-Length: 2\r\n\r\nok", true),
            ("HTTP/1.1   200   O K\r\nContent-Length: 2\r\n\r\nok", true),
            ("\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", true),
            (&format!("HTTP/1.1 200 {long_reason}\r\n{BODY}"), true),
            (&format!("HTTP/1.1 200 OK\r\n{many}{BODY}"), true),
            // Lengths that agree, and codings that mean none.
            ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\ncontent-length: 002\r\n\r\nok", true),
            ("HTTP/1.1 200 OK\r\nContent-Length: 2 , 2\r\n\r\nok", true),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\nContent-Length: 2\r\n\r\nok", true),
            // Chunked beats a length, and then nothing of the connection is trusted.
            ("HTTP/1.1 200 OK\r\nContent-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", false),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding:\r\n CHUNKED\r\n\r\n2\r\nok\r\n0\r\n\r\n", true),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding : gzip, chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", true),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
                true,
            ),
        ] {
            let (outcome, connections) = twice(&factory, head.as_bytes()).await;
            assert_eq!(outcome, Ok((200, "ok".into(), false)), "{:.200}", head);
            assert_eq!(connections, if kept { 1 } else { 2 }, "{:.200}", head);
        }
    });
}

#[test]
fn c11_c14_odd_heads_that_are_refused_are_named() {
    on_actix(async {
        let factory = AwcFactory::new(local_options()).expect("no roots");
        let large = format!("X: {}\r\n", "x".repeat(70_000));
        let blank = "\r\n".repeat(40_000);
        let interims = "HTTP/1.1 102 -\r\n\r\n".repeat(21);
        let fault = "is invalid or contradicts itself";
        for (response, wording) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok", fault),
            ("HTTP/1.1 200 OK\r\nContent-Length: 2, 3\r\n\r\nok", fault),
            ("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n 2\r\n\r\nok", fault),
            ("HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\nok", fault),
            ("HTTP/1.1 200 OK\r\nContent-Length: 2;\r\n\r\nok", fault),
            ("HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nok", fault),
            ("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\nok", fault),
            ("HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551616\r\n\r\nok", fault),
            (&format!("HTTP/1.1 200 OK\r\n{large}{BODY}"), "larger than 64 KiB"),
            (&format!("{blank}HTTP/1.1 200 OK\r\n{BODY}"), "larger than 64 KiB"),
            (&format!("HTTP/1.1 200 OK\r\n{}{BODY}", "X: 1\r\n".repeat(100)), "more than 100 header lines"),
            (&format!("{interims}HTTP/1.1 200 OK\r\n{BODY}"), "too many interim responses"),
            // RFC 9110 §5.5: a NUL or a bare CR may be what another parser cuts at.
            ("HTTP/1.1 200 OK\r\nX: a\u{0}b\r\nContent-Length: 2\r\n\r\nok", "malformed"),
            ("HTTP/1.1 200 OK\r\nX: a\rb\r\nContent-Length: 2\r\n\r\nok", "malformed"),
            ("HTTP/1.1 20 OK\r\n\r\n", "malformed"),
            ("HTTP/1.1 2000 OK\r\n\r\n", "malformed"),
            ("HTTP/1.1 -200 OK\r\n\r\n", "malformed"),
            ("HTTP/1.1 099 OK\r\n\r\n", "malformed"),
            ("HTTP/1.1 OK 200\r\n\r\n", "malformed"),
            ("HTTP/2 200\r\n\r\n", "not an HTTP/1.x response"),
            ("HTTP/1.10 200 OK\r\n\r\n", "not an HTTP/1.x response"),
            ("http/1.1 200 OK\r\n\r\n", "not an HTTP/1.x response"),
            ("200 OK\r\n\r\n", "not an HTTP/1.x response"),
            ("{\"status\": \"ok\"}", "not an HTTP/1.x response"),
        ] {
            let (outcome, connections) = twice(&factory, response.as_bytes()).await;
            let Err((kind, error)) = outcome else { panic!("{response:.200}: {outcome:?}") };
            assert_eq!((kind, connections), (ErrorKind::Protocol, 2), "{response:.200}");
            assert!(error.contains(wording), "{response:.200}: {error}");
        }
    });
}

/// Every spelling of `Connection`, and HTTP/1.0. Reused is only what is provably open (RFC 9112 §9.3).
#[test]
fn c01_every_spelling_of_connection() {
    on_actix(async {
        let factory = AwcFactory::new(local_options()).expect("no roots");
        for (start, lines, kept) in [
            ("HTTP/1.1", "", true),
            ("HTTP/1.1", "Connection: keep-alive\r\n", true),
            ("HTTP/1.1", "Connection: Keep-Alive\r\nKeep-Alive: timeout=5, max=100\r\n", true),
            ("HTTP/1.1", "Connection: upgrade, x-y\r\n", true),
            ("HTTP/1.1", "Connection:\r\n", true),
            ("HTTP/1.1", "Connection: closed\r\nX-Connection: close\r\n", true),
            // Not a field of a response, whatever old proxies send (RFC 9110 §7.6.1).
            ("HTTP/1.1", "Proxy-Connection: close\r\n", true),
            ("HTTP/1.1", "Connection: close\r\n", false),
            ("HTTP/1.1", "Connection: Close\r\n", false),
            ("HTTP/1.1", "CONNECTION: CLOSE\r\n", false),
            ("HTTP/1.1", "connection:close\r\n", false),
            ("HTTP/1.1", "Connection : \tclose \r\n", false),
            ("HTTP/1.1", "Connection: keep-alive, close\r\n", false),
            ("HTTP/1.1", "Connection: ,close,,keep-alive\r\n", false),
            ("HTTP/1.1", "Connection: keep-alive\r\nConnection: close\r\n", false),
            ("HTTP/1.1", "Connection: close\r\nConnection: keep-alive\r\n", false),
            ("HTTP/1.1", "Connection: keep-alive,\r\n close\r\n", false),
            ("HTTP/1.0", "", false),
            ("HTTP/1.0", "Connection: keep-alive\r\n", false),
            ("HTTP/1.0", "Connection: close\r\n", false),
        ] {
            let (outcome, connections) = twice(&factory, format!("{start} 200 OK\r\n{lines}{BODY}").as_bytes()).await;
            assert_eq!(outcome, Ok((200, "ok".into(), false)), "{start} {lines}");
            assert_eq!(connections, if kept { 1 } else { 2 }, "{start} {lines}");
        }
    });
}

/// The chunked coding and its oddities: what of the body is kept, and whether it was cut. The status counts in any case.
#[test]
fn c12_s04_odd_chunks_decide_nothing() {
    on_actix(async {
        let factory = AwcFactory::new(local_options()).expect("no roots");
        let extension = |length| format!("2;{}\r\nok\r\n0\r\n\r\n", "x".repeat(length));
        let tiny = "1\r\na\r\n".repeat(1_000) + "0\r\n\r\n";
        let ok = ("ok".to_owned(), false);
        let cut = |text: &str| (text.to_owned(), true);
        for (body, (excerpt, truncated), kept) in [
            ("2;name=value;other=\"a;b\"\r\nok\r\n0;last\r\n\r\n", ok.clone(), true),
            ("002 \t\r\nok\r\n0\r\n\r\n", ok.clone(), true),
            ("2\r\nok\r\n0\r\nX-Trailer: 1\r\nContent-Length: 9\r\n\r\n", ok.clone(), true),
            ("1\r\no\r\n1\r\nk\r\n00000\r\n\r\n", ok.clone(), true),
            (&extension(8_000), ok.clone(), true),
            (&tiny, ("a".repeat(1_000), false), true),
            // From here on not the chunked coding, or more of it than is read.
            (&extension(9_000), cut(""), false),
            ("2\nok\n0\n\n", cut(""), false),
            ("2\r\nok0\r\n\r\n", cut("ok"), false),
            ("2\r\noks\r\n0\r\n\r\n", cut("ok"), false),
            ("\r\n", cut(""), false),
            ("0x2\r\nok\r\n0\r\n\r\n", cut(""), false),
            ("-2\r\nok\r\n0\r\n\r\n", cut(""), false),
            ("+2\r\nok\r\n0\r\n\r\n", cut(""), false),
            (" 2\r\nok\r\n0\r\n\r\n", cut(""), false),
            ("g\r\nok\r\n0\r\n\r\n", cut(""), false),
            ("FFFFFFFFFFFFFFFF\r\nok", cut(""), false),
            ("10000000000000002\r\nok\r\n0\r\n\r\n", cut(""), false),
            ("2\r\nok\r\n0\r\n\r\nHTTP/1.1 500 Smuggled\r\nContent-Length: 0\r\n\r\n", ok.clone(), false),
        ] {
            let response = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{body}");
            let start = Instant::now();
            let (outcome, connections) = twice(&factory, response.as_bytes()).await;
            assert_eq!(outcome, Ok((200, excerpt, truncated)), "{body:.100}");
            assert_eq!(connections, if kept { 1 } else { 2 }, "{body:.100}");
            assert!(start.elapsed() < Duration::from_secs(2), "{body:.100}: {:?}", start.elapsed());
        }
    });
}

/// Bodies that end late, or not: two seconds, all at once so that the test takes no longer than one of them.
#[test]
fn c01_c07_bodies_whose_end_does_not_come_are_left_after_two_seconds() {
    on_actix(async {
        let factory = AwcFactory::new(local_options()).expect("no roots");
        let cases = [
            ("HTTP/1.1 200 OK\r\n\r\nok", "ok"),
            ("HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\nok", "ok"),
            ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok", "ok"),
            ("HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551615\r\n\r\nok", "ok"),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n", "ok"),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r", "ok"),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nok", "ok"),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFF\r\nok", "ok"),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", ""),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\nContent-Length: 1\r\n\r\nok", "ok"),
            ("HTTP/1.1 206 -\r\nContent-Encoding: gzip\r\n\r\n", ""),
        ];
        let start = Instant::now();
        let all = futures_util::future::join_all(cases.map(async |(response, excerpt)| {
            let receiver = RawReceiver::answering(response);
            let transport = factory.open();
            for turn in 1..=2 {
                let report = transport.send(request(&receiver.url("/"))).await;
                assert!(report.took < Span::from_secs(2), "the body is not charged: {response}");
                let answer = answer(report);
                assert_eq!((answer.status / 100, &*answer.excerpt), (2, excerpt.as_bytes()), "{response}");
                assert!(answer.excerpt_truncated, "{response}");
                assert_eq!(receiver.connections(), turn, "{response}");
            }
        }));
        all.await;
        assert!((Duration::from_secs(4)..Duration::from_secs(15)).contains(&start.elapsed()), "{:?}", start.elapsed());
    });
}

/// 204, 205 and 304 with every combination of length, coding and bytes that should not be there.
#[test]
fn c05_c06_bodiless_statuses_in_every_combination() {
    on_actix(async {
        let factory = AwcFactory::new(local_options()).expect("no roots");
        for status in [204, 205, 304] {
            for (lines, clean) in [
                ("", true),
                ("Content-Length: 0\r\n", true),
                ("Connection: close\r\n", false),
                ("Content-Length: 5\r\n", false),
                ("Content-Length: x\r\n", false),
                ("Content-Length: 1\r\nContent-Length: 2\r\n", false),
                ("Transfer-Encoding: chunked\r\n", false),
            ] {
                for stray in ["", "hello", "0\r\n\r\n", "HTTP/1.1 500 Stray\r\n\r\n"] {
                    let start = Instant::now();
                    let response = format!("HTTP/1.1 {status} -\r\n{lines}\r\n{stray}");
                    let (outcome, connections) = twice(&factory, response.as_bytes()).await;
                    assert_eq!(outcome, Ok((status, String::new(), false)), "{response}");
                    assert_eq!(connections, if clean && stray.is_empty() { 1 } else { 2 }, "{response}");
                    assert!(start.elapsed() < Duration::from_secs(2), "{response}");
                }
            }
        }
    });
}

/// Interim responses of every kind, and what follows on the same connection (RFC 9110 §15.2).
#[test]
fn s04_interim_responses_in_every_form() {
    on_actix(async {
        let factory = AwcFactory::new(local_options()).expect("no roots");
        let hints = format!("HTTP/1.1 103 Early Hints\r\n{}\r\n", "Link: </a>; rel=preload\r\n".repeat(90));
        let most = "HTTP/1.1 102 Processing\r\n\r\n".repeat(20);
        for interims in [
            "HTTP/1.1 100 Continue\r\n\r\n",
            "HTTP/1.1 100\r\n\r\n",
            "HTTP/1.0 100 Continue\r\n\r\n",
            "HTTP/1.1 100 Continue\n\n",
            "HTTP/1.1 199 -\r\n\r\n",
            // Lengths and codings of an interim response mean nothing.
            "HTTP/1.1 100 -\r\nContent-Length: 500\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n",
            "HTTP/1.1 100 -\r\n\r\nHTTP/1.1 102 -\r\nX: y\r\n\r\n\r\nHTTP/1.1 103 -\r\n\r\n",
            &hints,
            &most,
        ] {
            let (outcome, connections) =
                twice(&factory, format!("{interims}HTTP/1.1 500 -\r\n{BODY}").as_bytes()).await;
            assert_eq!((outcome, connections), (Ok((500, "ok".into(), false)), 1), "{interims:.100}");
        }
        // Each at its own time, the last of them after the request.
        let receiver = RawReceiver::scripted(|conversation| {
            conversation.write(b"HTTP/1.1 103 Early Hints\r\n\r\n");
            while conversation.request().is_some() {
                for piece in
                    ["HTTP/1.1 1", "00 Continue\r\n\r", "\nHTTP/1.1 102 -\r\n\r\n", "HTTP/1.1 200 OK\r\n", BODY]
                {
                    conversation.write(piece.as_bytes());
                }
            }
        });
        let transport = factory.open();
        for _ in 0..3 {
            assert_eq!(answer(transport.send(request(&receiver.url("/"))).await).status, 200);
        }
        assert_eq!(receiver.connections(), 1);

        for switching in ["", "HTTP/1.1 100 Continue\r\n\r\n"] {
            let response =
                format!("{switching}HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\n\r\nHTTP/1.1 200 OK\r\n{BODY}");
            let (outcome, connections) = twice(&factory, response.as_bytes()).await;
            let expected = (ErrorKind::Protocol, "the receiver switched protocols (101)");
            assert_eq!((outcome, connections), (Err(expected), 2));
        }
    });
}

/// A flood that is never a response ends by itself or with the timeout, never later.
#[test]
fn s04_floods_end_with_the_timeout() {
    on_actix(async {
        for (flood, kind) in [
            ("\r\n", ErrorKind::Protocol),
            ("HTTP/1.1 100 Continue\r\n\r\n", ErrorKind::Protocol),
            ("HTTP/1.1 200 OK\r\nX: y\r\n", ErrorKind::Protocol),
        ] {
            let receiver = RawReceiver::scripted(move |conversation| {
                conversation.request();
                let many = flood.repeat(10_000);
                while conversation.write(many.as_bytes()) {}
            });
            let start = Instant::now();
            let report = transport().send(Request { timeout: Span::from_secs(2), ..request(&receiver.url("/")) }).await;
            assert_eq!(failure(&report).0, kind, "{flood}");
            assert!(start.elapsed() < Duration::from_secs(10), "{flood}");
        }
    });
}
