//! When a connection carries another request, and when not.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use posthaste::domain::attempt::ErrorKind;
use posthaste::domain::time::Span;
use posthaste::transport::Request;
use posthaste::transport::TransportFactory;
use posthaste::transport::awc::AwcFactory;

use super::{answer, failure, local_options, on_actix, request, transport};
use crate::support::raw::RawReceiver;

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

#[test]
fn a_clean_connection_is_used_again() {
    on_actix(async {
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX: y\r\n\r\n";
        let drained = format!("HTTP/1.1 200 OK\r\nContent-Length: 9000\r\n\r\n{}", "x".repeat(9_000));
        for response in [OK, chunked, &drained, "HTTP/1.1 204 No Content\r\n\r\n"] {
            let receiver = RawReceiver::answering(response);
            let transport = transport();
            for turn in 0..4 {
                let report = transport.send(request(&receiver.url("/"))).await;
                assert_eq!(report.remote_addr, Some(receiver.address()));
                // A reused connection has no connect phase (attempt.rs).
                assert_eq!(report.timing.connect.is_none(), turn > 0, "{response}");
                assert!(report.timing.first_byte.is_some() && report.timing.tls.is_none());
                answer(report);
            }
            assert_eq!(receiver.connections(), 1, "{response}");
        }
    });
}

#[test]
fn an_unclean_connection_is_not() {
    on_actix(async {
        for response in [
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: x, Close\r\n\r\nok",
            "HTTP/1.0 200 OK\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\nok",
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 500 Stray\r\nContent-Length: 0\r\n\r\n",
            "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nhello",
        ] {
            let receiver = RawReceiver::answering(response);
            let transport = transport();
            for _ in 0..3 {
                assert!(answer(transport.send(request(&receiver.url("/"))).await).status < 300);
            }
            assert_eq!(receiver.connections(), 3, "{response}");
        }
    });
}

#[test]
fn c05_stray_bytes_that_come_late_are_never_the_next_answer() {
    on_actix(async {
        let (written, stray_is_out) = mpsc::channel();
        let receiver = RawReceiver::scripted(move |conversation| {
            conversation.request();
            conversation.write(OK.as_bytes());
            conversation.write(b"HTTP/1.1 500 Stray\r\nContent-Length: 0\r\n\r\n");
            let _ = written.send(());
            conversation.wait_for_close();
        });
        let transport = transport();
        for _ in 0..3 {
            assert_eq!(answer(transport.send(request(&receiver.url("/"))).await).status, 200);
            stray_is_out.recv().expect("written");
        }
        assert_eq!(receiver.connections(), 3);
    });
}

#[test]
fn c04_a_connection_that_is_closed_right_after_its_answer_fails_nothing() {
    on_actix(async {
        let receiver =
            RawReceiver::answering_once("HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n");
        let transport = transport();
        for _ in 0..50 {
            assert_eq!(answer(transport.send(request(&receiver.url("/"))).await).status, 200);
        }
        assert_eq!(receiver.requests().len(), 50);
    });
}

#[test]
fn c04_a_reused_connection_that_dies_under_the_request_is_replaced_at_once() {
    on_actix(async {
        for size in [10, 4 << 20] {
            // The second request of each connection is read (of a large one only the beginning, so that a reset follows)
            // and not answered.
            let receiver = RawReceiver::scripted(|conversation| {
                conversation.request();
                conversation.write(OK.as_bytes());
                conversation.head();
            });
            let transport = transport();
            for _ in 0..6 {
                let request = Request { body: Bytes::from(vec![b'x'; size]), ..request(&receiver.url("/")) };
                assert_eq!(answer(transport.send(request).await).status, 200);
            }
            assert_eq!(receiver.connections(), 6);
        }
    });
}

#[test]
fn c04_once_a_byte_of_an_answer_came_nothing_is_sent_again() {
    on_actix(async {
        let receiver = RawReceiver::scripted(|conversation| {
            conversation.request();
            conversation.write(OK.as_bytes());
            conversation.request();
            conversation.write(b"HTTP/1.1 2");
        });
        let transport = transport();
        answer(transport.send(request(&receiver.url("/"))).await);
        super::failure(&transport.send(request(&receiver.url("/"))).await);
        assert_eq!(receiver.requests().len(), 2);
    });
}

#[test]
fn transports_share_no_connections_and_an_edited_url_uses_new_ones() {
    on_actix(async {
        let factory = AwcFactory::new(local_options()).expect("no roots");
        let receiver = RawReceiver::answering(OK);
        let (one, other) = (factory.open(), factory.open());
        for transport in [&one, &other, &one, &other] {
            answer(transport.send(request(&receiver.url("/a"))).await);
        }
        assert_eq!(receiver.connections(), 2);
        answer(one.send(request(&receiver.url("/b"))).await);
        assert_eq!(receiver.connections(), 3);
    });
}

/// What is on the wire when the URL is edited is answered, and its connection is not kept for anybody.
#[test]
fn an_attempt_outlasts_an_edit_and_its_connection_does_not() {
    on_actix(async {
        let (come, has_come) = mpsc::channel();
        let (go_on, goes_on) = mpsc::channel::<()>();
        let (closed, is_closed) = mpsc::channel();
        let goes_on = Mutex::new(goes_on);
        let receiver = RawReceiver::scripted(move |conversation| {
            while let Some(request) = conversation.request() {
                if request.head.starts_with("POST /old ") {
                    let _ = come.send(());
                    let _ = goes_on.lock().expect("one at a time").recv();
                    conversation.write(OK.as_bytes());
                    conversation.wait_for_close();
                    let _ = closed.send(());
                    return;
                }
                conversation.write(OK.as_bytes());
            }
        });
        let transport = transport();
        let old = actix_rt::spawn(transport.send(request(&receiver.url("/old"))));
        while has_come.try_recv().is_err() {
            tokio::task::yield_now().await;
        }
        answer(transport.send(request(&receiver.url("/new"))).await);
        go_on.send(()).expect("it waits");
        assert_eq!(answer(old.await.expect("no panic")).status, 200);
        while is_closed.try_recv().is_err() {
            tokio::task::yield_now().await;
        }
        answer(transport.send(request(&receiver.url("/new"))).await);
        assert_eq!(receiver.connections(), 2, "the new one's is used again");
    });
}

#[test]
fn an_idle_connection_is_closed_after_15_seconds() {
    on_actix(async {
        let (closed, closing) = mpsc::channel();
        let receiver = RawReceiver::scripted(move |conversation| {
            while conversation.request().is_some() {
                conversation.write(OK.as_bytes());
            }
            let _ = closed.send(());
        });
        let transport = transport();
        answer(transport.send(request(&receiver.url("/"))).await);
        tokio::time::pause();
        // The janitor's task takes note of its timer before time moves.
        tokio::task::yield_now().await;
        tokio::time::advance(Duration::from_millis(14_900)).await;
        tokio::task::yield_now().await;
        assert!(closing.try_recv().is_err());
        tokio::time::advance(Duration::from_millis(200)).await;
        tokio::task::yield_now().await;
        closing.recv_timeout(Duration::from_secs(5)).expect("closed by us");
        tokio::time::resume();
        answer(transport.send(request(&receiver.url("/"))).await);
        assert_eq!(receiver.connections(), 2);
    });
}

#[test]
fn a_dropped_attempt_closes_its_connection() {
    on_actix(async {
        let (closed, closing) = mpsc::channel();
        let (started, start) = tokio::sync::oneshot::channel();
        let started = std::sync::Mutex::new(Some(started));
        let receiver = RawReceiver::scripted(move |conversation| {
            conversation.request();
            let started = started.lock().expect("started").take();
            let _ = started.expect("once").send(());
            conversation.wait_for_close();
            let _ = closed.send(());
        });
        let attempt = actix_rt::spawn(transport().send(request(&receiver.url("/"))));
        start.await.expect("the request arrives");
        attempt.abort();
        assert!(attempt.await.expect_err("aborted").is_cancelled());
        closing.recv_timeout(Duration::from_secs(5)).expect("closed by us");
    });
}

/// C03: a place in awc's pool that an attempt which is given up would keep is missing after 1,024 of them.
#[test]
fn c03_eleven_hundred_timeouts_leave_the_pool_as_it_was() {
    on_actix(async {
        let well = Arc::new(AtomicBool::new(false));
        let receiver = {
            let well = well.clone();
            RawReceiver::scripted(move |conversation| {
                while conversation.request().is_some() {
                    if !well.load(Ordering::SeqCst) {
                        return conversation.wait_for_close();
                    }
                    conversation.write(OK.as_bytes());
                }
            })
        };
        let transport = transport();
        for _ in 0..11 {
            let hasty = Request { timeout: Span::from_millis(50), ..request(&receiver.url("/")) };
            for report in join_all((0..100).map(|_| transport.send(hasty.clone()))).await {
                assert_eq!(failure(&report).0, ErrorKind::Timeout);
            }
        }
        well.store(true, Ordering::SeqCst);
        for _ in 0..5 {
            assert_eq!(answer(transport.send(request(&receiver.url("/"))).await).status, 200);
        }
    });
}
