//! What is made of well-formed and ill-formed responses. Where a response ends is proved on bytes alone beside the code
//! (`src/transport/framing_tests.rs`); here it goes through sockets, awc and its pool.

use std::time::{Duration, Instant};

use bytes::Bytes;
use posthaste::domain::attempt::ErrorKind;
use posthaste::transport::{Request, Transport};

use super::{answer, failure, on_actix, request, transport};
use crate::support::raw::RawReceiver;

/// Sends one request; returns its answer's status, excerpt and whether that was cut.
async fn ask(transport: &dyn Transport, request: Request) -> (u16, String, bool) {
    let answer = answer(transport.send(request).await);
    (answer.status, String::from_utf8_lossy(&answer.excerpt).into_owned(), answer.excerpt_truncated)
}

/// An answer, then another request to the same receiver, which must be answered alike: nothing of the first may leak.
async fn twice(receiver: &RawReceiver) -> (u16, String, bool) {
    let transport = transport();
    let first = ask(&*transport, request(&receiver.url("/"))).await;
    assert_eq!(ask(&*transport, request(&receiver.url("/"))).await, first);
    first
}

#[test]
fn c01_a_body_without_length_is_read_to_the_close_and_the_next_request_is_unharmed() {
    on_actix(async {
        for head in ["HTTP/1.1 500 Oops\r\nConnection: close\r\n\r\n", "HTTP/1.1 500 Oops\r\n\r\n"] {
            let receiver = RawReceiver::answering_once(format!("{head}quota exceeded"));
            assert_eq!(twice(&receiver).await, (500, "quota exceeded".into(), false));
            assert_eq!(receiver.connections(), 2);
        }
    });
}

#[test]
fn c02_an_answer_that_comes_before_the_body_is_read() {
    on_actix(async {
        for (line, retry_after) in [
            ("413 Payload Too Large", None),
            ("200 OK", None),
            ("410 Gone", None),
            ("429 Slow\r\nRetry-After: 60", Some("60")),
        ] {
            let response = format!("HTTP/1.1 {line}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            // Closes with the rest of the body unread, so that a reset follows the answer.
            let receiver = RawReceiver::scripted(move |conversation| {
                conversation.head();
                conversation.write(response.as_bytes());
            });
            let request = Request { body: Bytes::from(vec![b'x'; 8 << 20]), ..request(&receiver.url("/")) };
            let report = transport().send(request).await;
            let answer = answer(report);
            assert_eq!(line.split(' ').next(), Some(&*answer.status.to_string()));
            assert_eq!(answer.retry_after.as_deref(), retry_after);
        }
    });
}

#[test]
fn c02_a_connection_that_breaks_without_an_answer_is_a_reset() {
    on_actix(async {
        let receiver = RawReceiver::scripted(|conversation| {
            conversation.head();
        });
        let request = Request { body: Bytes::from(vec![b'x'; 8 << 20]), ..request(&receiver.url("/")) };
        assert_eq!(failure(&transport().send(request).await).0, ErrorKind::Reset);
        assert_eq!(receiver.connections(), 1, "a fresh connection's failure is the receiver's");
    });
}

#[test]
fn c05_c06_statuses_without_a_body_do_not_wait_for_one() {
    on_actix(async {
        for (response, status) in [
            ("HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n", 204),
            ("HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nhello", 204),
            ("HTTP/1.1 204 No Content\r\n\r\nhello", 204),
            ("HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", 304),
            ("HTTP/1.1 205 Reset Content\r\n\r\n", 205),
            ("HTTP/1.1 206 -\r\nContent-Length: 0\r\n\r\n", 206),
            ("HTTP/1.1 299 -\r\nContent-Length: 0\r\n\r\n", 299),
        ] {
            let start = Instant::now();
            let receiver = RawReceiver::answering(response);
            assert_eq!(twice(&receiver).await, (status, String::new(), false), "{response}");
            assert!(start.elapsed() < Duration::from_secs(2), "{response}");
        }
    });
}

#[test]
fn c11_c14_heads_at_fault_are_named() {
    on_actix(async {
        let many = "A: 1\r\n".repeat(101);
        let large = format!("Server: {}\r\n", "x".repeat(130_000));
        for (head, wording) in [
            ("Content-Length: 2\r\nContent-Length: 3\r\n", "Content-Length"),
            ("Content-Length: +2\r\n", "Content-Length"),
            ("Content-Length: -1\r\n", "Content-Length"),
            ("Content-Length: 18446744073709551616\r\n", "Content-Length"),
            (&many, "100 header lines"),
            (&large, "64 KiB"),
        ] {
            let receiver = RawReceiver::answering(format!("HTTP/1.1 200 OK\r\n{head}\r\nok"));
            let (kind, error) = failure(&transport().send(request(&receiver.url("/"))).await);
            assert_eq!(kind, ErrorKind::Protocol);
            assert!(error.contains(wording), "{error}");
        }
        let both = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n";
        assert_eq!(twice(&RawReceiver::answering(both)).await, (200, "ok".into(), false));
    });
}

#[test]
fn c14_bytes_beyond_ascii_in_headers_are_let_pass() {
    on_actix(async {
        let mut response =
            b"HTTP/1.1 200 OK\r\nX-A: caf\xe9\r\nLocation: \xff\xfe\r\nRetry-After: \xa0\r\nServer: ".to_vec();
        response.extend([b'x'; 60_000]);
        response.extend(b"\r\nContent-Length: 2\r\n\r\nok");
        let answer = answer(transport().send(request(&RawReceiver::answering(response).url("/"))).await);
        assert_eq!((answer.status, answer.retry_after, &answer.excerpt[..]), (200, None, &b"ok"[..]));
    });
}

#[test]
fn c12_c13_a_long_body_is_cut_and_its_connection_dropped() {
    on_actix(async {
        let sized = format!("HTTP/1.1 200 OK\r\nContent-Length: 3000000\r\n\r\n{}", "x".repeat(3_000_000));
        let endless = |conversation: &mut crate::support::raw::Conversation| {
            conversation.request();
            conversation.write(b"HTTP/1.1 500 Oops\r\nTransfer-Encoding: chunked\r\n\r\n");
            let chunk = format!("10000\r\n{}\r\n", "y".repeat(0x10000));
            while conversation.write(chunk.as_bytes()) {}
        };
        assert_eq!(twice(&RawReceiver::answering_once(sized)).await, (200, "x".repeat(1024), true));
        let endless = RawReceiver::scripted(endless);
        assert_eq!(twice(&endless).await, (500, "y".repeat(1024), true));
        assert_eq!(endless.connections(), 2);
    });
}

#[test]
fn c10_a_coded_body_is_kept_as_it_came() {
    on_actix(async {
        for coding in ["gzip", "deflate", "x-unknown", "br, gzip"] {
            let response =
                format!("HTTP/1.1 200 OK\r\nContent-Encoding: {coding}\r\nContent-Length: 8\r\n\r\nnot gzip");
            assert_eq!(twice(&RawReceiver::answering(response)).await, (200, "not gzip".into(), false));
        }
    });
}

#[test]
fn c15_redirects_are_answers_and_never_followed() {
    on_actix(async {
        let elsewhere = RawReceiver::answering("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        for status in [301, 302, 303, 307, 308] {
            for location in [elsewhere.url("/"), format!("//{}/", elsewhere.address()), "/there".into(), String::new()]
            {
                let response = format!("HTTP/1.1 {status} -\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n");
                let receiver = RawReceiver::answering(response);
                assert_eq!(ask(&*transport(), request(&receiver.url("/"))).await.0, status);
                receiver.only_request();
            }
        }
        assert_eq!(elsewhere.connections(), 0);
    });
}

#[test]
fn s04_interim_responses_are_skipped_and_101_is_a_failure() {
    on_actix(async {
        let interim = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n";
        let receiver = RawReceiver::answering(format!("{interim}HTTP/1.1 202 -\r\nContent-Length: 2\r\n\r\nok"));
        assert_eq!(twice(&receiver).await, (202, "ok".into(), false));
        assert_eq!(receiver.connections(), 1);

        let receiver = RawReceiver::answering("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n");
        let (kind, error) = failure(&transport().send(request(&receiver.url("/"))).await);
        assert_eq!(kind, ErrorKind::Protocol);
        assert!(error.contains("101"), "{error}");
    });
}

#[test]
fn a_head_that_breaks_off_is_a_reset_and_noise_a_protocol_failure() {
    on_actix(async {
        for (bytes, kind) in [
            ("", ErrorKind::Reset),
            ("HTTP/1.1 200 OK\r\nContent-Le", ErrorKind::Reset),
            ("HTTP/1.1 100 Continue\r\n\r\n", ErrorKind::Reset),
            ("SSH-2.0-OpenSSH_9.6\r\n", ErrorKind::Protocol),
            ("HTTP/1.1 OK\r\n\r\n", ErrorKind::Protocol),
        ] {
            let report = transport().send(request(&RawReceiver::answering_once(bytes).url("/"))).await;
            assert_eq!(failure(&report).0, kind, "{bytes}");
        }
    });
}
