//! What goes out, byte for byte.

use bytes::Bytes;
use posthaste::domain::attempt::ErrorKind;
use posthaste::transport::Request;

use super::{StubResolver, answer, failure, local_options, on_actix, request, transport, transport_with};
use crate::support::raw::{RawReceiver, RawRequest};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

/// Sends one request to `url`, whose host resolves to this machine, and returns what arrived.
async fn arrives(receiver: &RawReceiver, request: Request) -> RawRequest {
    let resolver = StubResolver::fixed(&["127.0.0.1"]);
    let transport = transport_with(super::Options { resolver, ..local_options() });
    answer(transport.send(request).await);
    receiver.requests().pop().expect("a request")
}

#[test]
fn c20_c23_the_request_is_written_as_given() {
    on_actix(async {
        let receiver = RawReceiver::answering(OK);
        let headers = [("X-Api-Key", "v"), ("x-lower", ""), ("ODD_Name", "caf\u{e9}"), ("X-Api-Key", "w")];
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
        for body in ["", "null", "{\"a\": 1}\n"] {
            let given = Request { headers: headers.to_vec(), body: Bytes::from(body), ..request(&receiver.url("/h")) };
            let arrived = arrives(&receiver, given).await;
            let expected = format!(
                "POST /h HTTP/1.1\r\nHost: {}\r\nX-Api-Key: v\r\nx-lower: \r\nODD_Name: caf\u{e9}\r\nX-Api-Key: w\r\n\
                 Content-Length: {}\r\n\r\n",
                receiver.address(),
                body.len(),
            );
            assert_eq!((arrived.head, &arrived.body[..]), (expected, body.as_bytes()));
        }
    });
}

#[test]
fn large_bodies_arrive_whole() {
    on_actix(async {
        let receiver = RawReceiver::answering(OK);
        let body: Vec<u8> = (0..3_000_000_u32).map(|at| (at % 251) as u8).collect();
        let given = Request { body: Bytes::from(body.clone()), ..request(&receiver.url("/")) };
        assert!(arrives(&receiver, given).await.body == body);
    });
}

#[test]
fn c16_c17_host_names_the_port_and_keeps_the_brackets() {
    on_actix(async {
        let receiver = RawReceiver::answering(OK);
        let port = receiver.address().port();
        let arrived = arrives(&receiver, request(&format!("http://r.test:{port}/"))).await;
        assert_eq!(arrived.header("host"), Some(&*format!("r.test:{port}")));

        let receiver = RawReceiver::bound_to("::1".parse().expect("loopback"), |conversation| {
            while conversation.request().is_some() {
                conversation.write(OK.as_bytes());
            }
        });
        let arrived = arrives(&receiver, request(&receiver.url("/h"))).await;
        assert_eq!(arrived.header("host"), Some(&*receiver.address().to_string()));
        assert!(arrived.header("host").expect("one").starts_with("[::1]:"));
    });
}

#[test]
fn c78_the_target_goes_out_as_stored_without_the_fragment() {
    on_actix(async {
        let receiver = RawReceiver::answering(OK);
        let long = format!("/{}", "x".repeat(1_900));
        for (stored, sent) in [
            ("/a%2Fb/../c//?x=1%3A2&x=3&sig=a+b%2B&e=#frag", "/a%2Fb/../c//?x=1%3A2&x=3&sig=a+b%2B&e="),
            ("", "/"),
            ("/", "/"),
            ("?q", "/?q"),
            ("/a/./b/;v=1,2/@:!$&'()*+=~%7e%7E", "/a/./b/;v=1,2/@:!$&'()*+=~%7e%7E"),
            (&long, &long),
        ] {
            let arrived = arrives(&receiver, request(&receiver.url(stored))).await;
            assert_eq!(arrived.request_line(), format!("POST {sent} HTTP/1.1"));
        }
    });
}

#[test]
fn c87_what_cannot_be_written_fails_without_a_connection() {
    on_actix(async {
        let receiver = RawReceiver::answering(OK);
        for (name, value) in [("X", "a\r\nY: 1"), ("X Y", "a"), ("Content-Length", "1"), ("Host", "other.test")] {
            let headers = vec![(name.to_owned(), value.to_owned())];
            let report = transport().send(Request { headers, ..request(&receiver.url("/")) }).await;
            assert_eq!(failure(&report).0, ErrorKind::Protocol);
        }
        for url in ["ftp://r.test/", "http://", "http://user:pw@r.test/", "nonsense"] {
            assert_eq!(failure(&transport().send(request(url)).await).0, ErrorKind::Protocol, "{url}");
        }
        assert_eq!(receiver.connections(), 0);
    });
}
