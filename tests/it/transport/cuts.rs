//! Good answers that break off after each of their bytes, and connections that break while they wait.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};

use posthaste::domain::attempt::{ErrorKind, Finding};
use posthaste::transport::awc::AwcFactory;
use posthaste::transport::{Transport, TransportFactory};

use super::{answer, failure, local_options, on_actix, request};
use crate::support::raw::{Conversation, RawReceiver};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// A part of a good answer.
#[derive(Clone, Copy)]
enum Part {
    /// The head, and interim responses before it.
    Head(&'static str),
    /// What belongs to the coding of the body.
    Coding(&'static str),
    Data(&'static str),
}

use Part::{Coding, Data, Head};

const ANSWERS: [&[Part]; 4] = [
    &[Head("HTTP/1.1 201 Created\r\nContent-Length: 5\r\n\r\n"), Data("hello")],
    &[
        Head("HTTP/1.1 503 -\r\nTransfer-Encoding: chunked\r\n\r\n"),
        Coding("3;x=y\r\n"),
        Data("abc"),
        Coding("\r\n2\r\n"),
        Data("de"),
        Coding("\r\n0\r\nTrailer: x\r\n\r\n"),
    ],
    &[Head("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 202 -\nContent-Length: 1\n\n"), Data("x")],
    &[Head("HTTP/1.1 204 No Content\r\n\r\n")],
];

/// What is to become of an answer that is cut after `cut` bytes: `None` without a whole head, else the body's bytes.
fn expected(parts: &[Part], cut: usize) -> Option<String> {
    let (mut left, mut body) = (cut, String::new());
    for part in parts {
        let (Head(text) | Coding(text) | Data(text)) = part;
        let here = left.min(text.len());
        match part {
            Head(_) if here < text.len() => return None,
            Data(_) => body.push_str(&text[..here]),
            _ => {}
        }
        left -= here;
    }
    Some(body)
}

fn written(parts: &[Part]) -> String {
    parts.iter().map(|(Head(text) | Coding(text) | Data(text))| *text).collect()
}

/// How a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Fin,
    Reset,
}

/// Answers the first request of all, or the second one on the first connection if it is `used` by then, with the first
/// `cut` bytes of `whole`, and ends the connection. Every other request gets [`OK`].
fn cutting(whole: &str, cut: usize, end: End, used: bool) -> RawReceiver {
    let (bytes, reads) = (whole.as_bytes()[..cut].to_vec(), Arc::<AtomicUsize>::default());
    RawReceiver::scripted(move |conversation| {
        while conversation.request().is_some() {
            if reads.fetch_add(1, Ordering::SeqCst) == usize::from(used) {
                if end == End::Reset {
                    conversation.close_with_a_reset();
                }
                conversation.write(&bytes);
                return;
            }
            conversation.write(OK.as_bytes());
        }
    })
}

async fn status(transport: &dyn Transport, receiver: &RawReceiver) -> u16 {
    answer(transport.send(request(&receiver.url("/"))).await).status
}

/// By the rules at each byte: nothing at all on a connection that was used before is sent again (C04); no whole head is a
/// reset; once there is one it decides, and what came of the body is kept. The next attempt is never harmed.
#[test]
fn s04_s05_c04_an_answer_may_break_off_after_any_byte() {
    on_actix(async {
        let factory = AwcFactory::new(local_options()).expect("no roots");
        for parts in ANSWERS {
            let whole = written(parts);
            for (cut, end, used) in (0..=whole.len())
                .flat_map(|cut| [End::Fin, End::Reset].map(|end| (cut, end)))
                .flat_map(|(cut, end)| [false, true].map(|used| (cut, end, used)))
            {
                let receiver = cutting(&whole, cut, end, used);
                let transport = factory.open();
                if used {
                    assert_eq!(status(&*transport, &receiver).await, 200);
                }
                let report = transport.send(request(&receiver.url("/"))).await;
                let case = format!("{:?}, {end:?}, used before: {used}", &whole[..cut]);
                let again = used && cut == 0;
                match (report.finding, expected(parts, cut)) {
                    (Finding::Answered(got), _) if again => assert_eq!(got.status, 200, "{case}"),
                    (Finding::Failed { kind: ErrorKind::Reset, .. }, None) if !again => {}
                    (Finding::Answered(got), Some(body)) => {
                        assert!(whole.contains(&format!("HTTP/1.1 {} ", got.status)), "{case}");
                        assert_eq!(String::from_utf8_lossy(&got.excerpt), body, "{case}");
                        assert_eq!(got.excerpt_truncated, cut < whole.len(), "{case}");
                    }
                    (other, _) => panic!("{case}: {other:?}"),
                }
                assert_eq!(status(&*transport, &receiver).await, 200, "the next attempt after {case}");
                let requests = receiver.requests().len();
                assert_eq!(requests, 2 + usize::from(used) + usize::from(again), "{case}");
            }
        }
    });
}

/// Whether the dial, the writing or the reading notices first is a matter of microseconds; it is told as the same.
#[test]
fn s05_a_connection_that_is_reset_as_soon_as_it_is_taken_is_a_reset() {
    on_actix(async {
        let receiver = RawReceiver::scripted(|conversation| conversation.close_with_a_reset());
        let transport = AwcFactory::new(local_options()).expect("no roots").open();
        for _ in 0..200 {
            assert_eq!(failure(&transport.send(request(&receiver.url("/"))).await).0, ErrorKind::Reset);
        }
    });
}

#[test]
fn c04_a_request_is_sent_again_once_and_never_twice() {
    on_actix(async {
        for end in [End::Fin, End::Reset] {
            // The first request of all is answered; after that each connection dies under its request.
            let receiver = RawReceiver::scripted(move |conversation| {
                conversation.request();
                if conversation.number() == 0 {
                    conversation.write(OK.as_bytes());
                    conversation.request();
                }
                if end == End::Reset {
                    conversation.close_with_a_reset();
                }
            });
            let transport = AwcFactory::new(local_options()).expect("no roots").open();
            assert_eq!(status(&*transport, &receiver).await, 200);
            let report = transport.send(request(&receiver.url("/"))).await;
            assert_eq!(failure(&report).0, ErrorKind::Reset, "{end:?}");
            assert!(report.timing.connect.is_some(), "the report is of the fresh connection");
            assert_eq!((receiver.requests().len(), receiver.connections()), (3, 2), "{end:?}");
        }
    });
}

/// Connections of one endpoint that wait, all of which are dead or have something to say: the next request takes a fresh
/// one at once, and not each of them in turn.
#[test]
fn c04_idle_connections_that_are_closed_or_speak_are_never_used() {
    on_actix(async {
        type Script = fn(&mut Conversation);
        let scripts: [(&str, Script); 5] = [
            ("closed", |_| ()),
            ("reset", |conversation| conversation.close_with_a_reset()),
            ("half closed", |conversation| conversation.finish_writing()),
            ("answers before a request", |conversation| {
                conversation.write(b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n");
            }),
            ("one byte", |conversation| {
                conversation.write(b"\n");
            }),
        ];
        for (name, script) in scripts {
            const WAITING: usize = 4;
            let together = Arc::new(std::sync::Barrier::new(WAITING));
            let (done, ended) = mpsc::channel();
            let (go, go_on) = mpsc::channel::<()>();
            let go_on = std::sync::Mutex::new(go_on);
            let receiver = RawReceiver::scripted(move |conversation| {
                conversation.request();
                if conversation.number() >= WAITING {
                    conversation.write(OK.as_bytes());
                    return;
                }
                together.wait();
                conversation.write(OK.as_bytes());
                let _ = go_on.lock().expect("go on").recv();
                script(conversation);
                if matches!(name, "closed" | "reset") {
                    conversation.end();
                    let _ = done.send(());
                    return;
                }
                let _ = done.send(());
                conversation.wait_for_close();
            });
            let transport = AwcFactory::new(local_options()).expect("no roots").open();
            let sends = (0..WAITING).map(|_| transport.send(request(&receiver.url("/"))));
            for report in futures_util::future::join_all(sends).await {
                answer(report);
            }
            for _ in 0..WAITING {
                go.send(()).expect("they wait");
                ended.recv().expect("it ends");
            }
            let report = transport.send(request(&receiver.url("/"))).await;
            assert!(report.timing.connect.is_some(), "{name}: a fresh connection");
            assert_eq!(answer(report).status, 200, "{name}");
            assert_eq!((receiver.requests().len(), receiver.connections()), (WAITING + 1, WAITING + 1), "{name}");
        }
    });
}
