//! Answers that come before the request's body was sent (C02). The bodies are larger than what two sockets hold.

use std::time::{Duration, Instant};

use bytes::Bytes;
use posthaste::domain::attempt::Answer;
use posthaste::transport::{Request, Transport};

use super::{answer, on_actix, request, transport};
use crate::support::raw::RawReceiver;

const LARGE: usize = 8 << 20;

async fn send_large(transport: &dyn Transport, receiver: &RawReceiver) -> (Answer, Duration) {
    let start = Instant::now();
    let request = Request { body: Bytes::from(vec![b'x'; LARGE]), ..request(&receiver.url("/")) };
    let answer = answer(transport.send(request).await);
    (answer, start.elapsed())
}

/// Python's `http.server` and every framework that streams can say 200 before they read. Nobody sends such an event again,
/// so it has to arrive whole.
#[test]
fn c02_an_early_success_does_not_cut_the_body_off() {
    on_actix(async {
        for (response, connections) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 1),
            ("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 1),
            ("HTTP/1.1 202 -\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", 1),
            ("HTTP/1.1 204 -\r\n\r\n", 1),
            ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok", 2),
            ("HTTP/1.0 200 OK\r\n\r\nok", 2),
        ] {
            let (told, whole) = std::sync::mpsc::channel();
            let receiver = RawReceiver::scripted(move |conversation| {
                while let Some(head) = conversation.head() {
                    conversation.write(response.as_bytes());
                    if response.starts_with("HTTP/1.0") {
                        conversation.finish_writing();
                    }
                    let body = conversation.rest(&head);
                    let _ = told.send(body.is_some_and(|body| body.len() == LARGE));
                }
            });
            let transport = transport();
            for _ in 0..2 {
                let (answer, took) = send_large(&*transport, &receiver).await;
                assert!((200..300).contains(&answer.status), "{response} {took:?}");
                assert!(whole.recv().expect("told"), "{response}: the body arrives whole");
            }
            assert_eq!(receiver.connections(), connections, "{response}");
        }
    });
}

/// It has two seconds for that, like a response's body.
#[test]
fn c02_s04_a_receiver_that_answers_and_never_reads_costs_two_seconds() {
    on_actix(async {
        let receiver = RawReceiver::scripted(|conversation| {
            conversation.head();
            conversation.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
            // Reads nothing, so that it is full, until the next connection has come and gone.
            conversation.wait_for_end_of_test();
        });
        let transport = transport();
        for turn in 1..=2 {
            let (answer, took) = send_large(&*transport, &receiver).await;
            assert_eq!((answer.status, &answer.excerpt[..], answer.excerpt_truncated), (200, &b"ok"[..], false));
            assert!((Duration::from_secs(2)..Duration::from_secs(10)).contains(&took), "{took:?}");
            assert_eq!(receiver.connections(), turn, "what was not sent whole is never used again");
        }
    });
}

/// A failure that comes early ends the sending: its event will be sent again.
#[test]
fn c02_an_early_failure_ends_the_sending_at_once() {
    on_actix(async {
        for line in ["413 Payload Too Large", "401 -", "302 -", "503 -\r\nRetry-After: 60", "500 -"] {
            let response = format!("HTTP/1.1 {line}\r\nContent-Length: 2\r\n\r\nno");
            let receiver = RawReceiver::scripted(move |conversation| {
                conversation.head();
                conversation.write(response.as_bytes());
                conversation.wait_for_end_of_test();
            });
            let transport = transport();
            for turn in 1..=2 {
                let (answer, took) = send_large(&*transport, &receiver).await;
                assert_eq!((line[..3].parse(), &answer.excerpt[..]), (Ok(answer.status), &b"no"[..]));
                assert!(took < Duration::from_secs(2), "a success would have two seconds; {line}: {took:?}");
                assert_eq!(receiver.connections(), turn, "{line}");
            }
        }
    });
}
