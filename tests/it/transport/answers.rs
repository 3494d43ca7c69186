//! What is made of well-formed and ill-formed responses.

use super::{answer, failure, on_actix, request, transport};
use crate::support::raw::RawReceiver;
use posthaste::domain::attempt::ErrorKind;

#[test]
fn a_plain_answer_is_taken_and_the_connection_used_again() {
    on_actix(async {
        let receiver = RawReceiver::answering("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
        let transport = transport();
        for _ in 0..3 {
            let report = transport.send(request(&receiver.url("/h"))).await;
            assert_eq!(report.remote_addr, Some(receiver.address()));
            let answer = answer(report);
            assert_eq!(
                (answer.status, &answer.excerpt[..], answer.excerpt_truncated),
                (200, &b"hello"[..], false)
            );
        }
        assert_eq!((receiver.connections(), receiver.requests().len()), (1, 3));
    });
}

#[test]
fn a_refused_port_is_a_connect_failure() {
    on_actix(async {
        let port = std::net::TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let report = transport().send(request(&format!("http://127.0.0.1:{port}/"))).await;
        assert_eq!(failure(&report).0, ErrorKind::Connect);
    });
}
