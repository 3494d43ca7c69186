//! Certificates, names and protocols of https receivers.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use posthaste::domain::attempt::{ErrorKind, Finding};
use posthaste::domain::time::Span;
use posthaste::transport::Request;
use posthaste::transport::awc::Options;
use rcgen::CertificateParams;
use rustls::SupportedProtocolVersion;
use rustls::version::{TLS12, TLS13};

use super::{StubResolver, answer, failure, local_options, on_actix, request, transport_with};
use crate::support::raw::RawReceiver;
use crate::support::tls::{Asks, Authority, Manner, Stream};

/// One version at a time.
const OLD: &[&SupportedProtocolVersion] = &[&TLS12];
const NEW: &[&SupportedProtocolVersion] = &[&TLS13];

/// Options that trust the authority and resolve every name to this machine.
fn trusting(authority: &Authority) -> Options {
    let resolver = StubResolver::fixed(&["127.0.0.1"]);
    Options { extra_roots: vec![authority.root()], resolver, ..local_options() }
}

#[test]
fn c22_the_dot_is_not_in_sni_and_an_address_sends_none() {
    on_actix(async {
        let authority = Authority::new("ours");
        let receiver = authority.server(&["r.test", "127.0.0.1"], |_| ());
        for (host, sni) in [("r.test", Some("r.test")), ("r.test.", Some("r.test")), ("127.0.0.1", None)] {
            let report = transport_with(trusting(&authority)).send(request(&receiver.url(host))).await;
            assert!(report.timing.tls.is_some() && report.timing.connect.is_some());
            assert_eq!(&answer(report).excerpt[..], b"ok");
            let (seen, alpn) = receiver.hellos.recv().expect("a hello");
            assert_eq!((seen.as_deref(), alpn.as_deref()), (sni, Some(&b"http/1.1"[..])), "{host}");
        }
    });
}

#[test]
fn a_tls_connection_is_used_again() {
    on_actix(async {
        let authority = Authority::new("ours");
        let receiver = authority.server(&["r.test"], |_| ());
        let transport = transport_with(trusting(&authority));
        for turn in 0..4 {
            let report = transport.send(request(&receiver.url("r.test"))).await;
            assert_eq!(report.timing.tls.is_none(), turn > 0);
            answer(report);
        }
        assert_eq!(receiver.hellos.try_iter().count(), 1);
    });
}

#[test]
fn c22_bad_certificates_are_named_tls_failures() {
    on_actix(async {
        let (authority, stranger) = (Authority::new("ours"), Authority::new("a stranger's"));
        let expired = |params: &mut CertificateParams| params.not_after = rcgen::date_time_ymd(2020, 1, 1);
        let early = |params: &mut CertificateParams| params.not_before = rcgen::date_time_ymd(2100, 1, 1);
        for (receiver, wording) in [
            (stranger.server(&["r.test"], |_| ()), "trusted authority"),
            (authority.server(&["r.test"], expired), "expired"),
            (authority.server(&["r.test"], early), "not valid yet"),
            (authority.server(&["other.test"], |_| ()), "another host"),
        ] {
            let report = transport_with(trusting(&authority)).send(request(&receiver.url("r.test"))).await;
            let (kind, error) = failure(&report);
            assert_eq!(kind, ErrorKind::Tls);
            assert!(error.contains(wording), "{error}, not {wording}");
            assert_eq!(report.remote_addr, Some(receiver.address));
        }
    });
}

#[test]
fn a_receiver_without_tls_is_a_tls_failure() {
    on_actix(async {
        let plain = RawReceiver::scripted(|conversation| {
            conversation.write(b"HTTP/1.1 400 Bad Request\r\n\r\n");
            conversation.wait_for_close();
        });
        let closing = RawReceiver::scripted(|_| ());
        for (receiver, wording) in [(&plain, "does not speak TLS"), (&closing, "broke during")] {
            let url = receiver.url("/").replace("http:", "https:");
            let (kind, error) = failure(&transport_with(local_options()).send(request(&url)).await);
            assert_eq!(kind, ErrorKind::Tls);
            assert!(error.contains(wording), "{error}");
        }
    });
}

#[test]
fn c22_a_certificate_must_be_for_the_host_as_it_is_written() {
    on_actix(async {
        let authority = Authority::new("ours");
        for (names, host, good) in [
            (&["*.hooks.test"][..], "r.hooks.test", true),
            (&["*.hooks.test"], "a.r.hooks.test", false),
            (&["*.hooks.test"], "hooks.test", false),
            (&["r.test"], "R.TEST.", true),
            (&["r.test"], "127.0.0.1", false),
            (&["127.0.0.2"], "127.0.0.1", false),
            (&["127.0.0.1"], "127.1", true),
            (&["127.0.0.1"], "r.test", false),
            (&["xn--bcher-kva.test"], "b\u{fc}cher.test", true),
        ] {
            let receiver = authority.server(names, |_| ());
            let report = transport_with(trusting(&authority)).send(request(&receiver.url(host))).await;
            match good {
                true => assert_eq!(answer(report).status, 200, "{names:?} for {host}"),
                false => assert_eq!(failure(&report), (ErrorKind::Tls, "the certificate is for another host")),
            }
        }
    });
}

#[test]
fn tls_1_2_and_1_3_are_spoken_and_a_request_for_a_certificate_is_answered_with_none() {
    on_actix(async {
        let authority = Authority::new("ours");
        for versions in [OLD, NEW] {
            for asks_for_a_certificate in [Asks::Never, Asks::Maybe, Asks::Always] {
                let manner = Manner { versions, asks_for_a_certificate, ..Manner::default() };
                let receiver = authority.server_that(
                    &["r.test"],
                    |_| (),
                    manner,
                    |stream| {
                        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
                    },
                );
                let report = transport_with(trusting(&authority)).send(request(&receiver.url("r.test"))).await;
                match asks_for_a_certificate {
                    Asks::Always => {
                        let expected = (ErrorKind::Tls, "the receiver asks for a client certificate");
                        assert_eq!(failure(&report), expected, "{versions:?}");
                    }
                    _ => assert_eq!(answer(report).status, 200, "{versions:?}"),
                }
            }
        }
    });
}

/// Records of which nothing ever comes out are no answer, and no reason to read for as long as they come.
#[test]
fn s19_a_flood_within_tls_is_given_up_long_before_the_timeout() {
    on_actix(async {
        let authority = Authority::new("ours");
        let manner = Manner { versions: NEW, tickets: 20_000, ..Manner::default() };
        let receiver = authority.server_that(
            &["r.test"],
            |_| (),
            manner,
            |stream| {
                let _ = stream.read(&mut [0; 64]);
            },
        );
        let given = Request { timeout: Span::from_secs(60), ..request(&receiver.url("r.test")) };
        let report = transport_with(trusting(&authority)).send(given).await;
        // Either rustls or we have enough (`transport/metered.rs`).
        assert!(matches!(failure(&report).0, ErrorKind::Protocol | ErrorKind::Reset), "{report:?}");
        assert!(report.took < Span::from_secs(30), "{:?}", report.took);
    });
}

/// What an exchange may bring is counted anew for each.
#[test]
fn a_tls_connection_may_bring_as_much_as_it_likes_in_many_exchanges() {
    on_actix(async {
        let authority = Authority::new("ours");
        let receiver = authority.server_that(
            &["r.test"],
            |_| (),
            Manner::default(),
            |stream| {
                let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: 15000\r\n\r\n{}", "x".repeat(15_000));
                while stream.write_all(answer.as_bytes()).is_ok() {
                    let Ok(1..) = stream.read(&mut [0; 4096]) else { break };
                }
            },
        );
        let transport = transport_with(trusting(&authority));
        for _ in 0..50 {
            assert_eq!(answer(transport.send(request(&receiver.url("r.test"))).await).status, 200);
        }
        assert_eq!(receiver.hellos.try_iter().count(), 1);
    });
}

/// What a server says that has no version in common with us, that does not know the name, or that breaks.
#[test]
fn alerts_during_the_handshake_are_named() {
    on_actix(async {
        for (alert, wording) in [
            (70, "no TLS version or cipher suite in common"),
            (71, "no TLS version or cipher suite in common"),
            (40, "the receiver refused the TLS handshake"),
            (112, "the receiver refused the TLS handshake"),
            (80, "the receiver refused the TLS handshake"),
        ] {
            let receiver = RawReceiver::scripted(move |conversation| {
                conversation.write(&[21, 3, 3, 0, 2, 2, alert]);
                conversation.wait_for_close();
            });
            let url = receiver.url("/").replace("http:", "https:");
            let report = transport_with(local_options()).send(request(&url)).await;
            assert_eq!(failure(&report), (ErrorKind::Tls, wording), "alert {alert}");
        }
    });
}

/// The connections to `address` come through here, and each of them breaks off after so many bytes of the server's, in
/// their order; later ones do not.
fn breaking_off(address: SocketAddr, limits: Vec<u64>, reset: bool) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let here = listener.local_addr().expect("bound");
    thread::spawn(move || {
        let limits = limits.into_iter().chain(std::iter::repeat(u64::MAX));
        for (client, limit) in listener.incoming().flatten().zip(limits) {
            let relay = move || -> io::Result<()> {
                let server = TcpStream::connect(address)?;
                // A reset throws away what still waits for an acknowledgement.
                client.set_nodelay(true)?;
                let (mut from, mut to) = (client.try_clone()?, server.try_clone()?);
                thread::spawn(move || io::copy(&mut from, &mut to));
                let _ = io::copy(&mut (&server).take(limit), &mut &client);
                // It may be gone already.
                let _ = server.shutdown(Shutdown::Both);
                if reset {
                    socket2::SockRef::from(&client).set_linger(Some(Duration::ZERO))?;
                    // The other thread's handle must not keep the socket open.
                    client.shutdown(Shutdown::Read)
                } else {
                    client.shutdown(Shutdown::Both)
                }
            };
            thread::spawn(relay);
        }
    });
    here
}

/// A handshake or an answer that breaks off anywhere: a failure of TLS, then a reset, then the answer; and the next attempt
/// is never harmed.
#[test]
fn s05_tls_may_break_off_after_any_byte() {
    on_actix(async {
        let authority = Authority::new("ours");
        for (versions, reset) in [(OLD, false), (NEW, false), (OLD, true), (NEW, true)] {
            let manner = Manner { versions, ..Manner::default() };
            let receiver = authority.server_that(
                &["r.test"],
                |_| (),
                manner,
                |stream| {
                    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
                },
            );
            let mut seen = Vec::new();
            // In steps that are larger than what a signature's length varies by.
            for limit in (0..).step_by(41) {
                let address = breaking_off(receiver.address, vec![limit], reset);
                let transport = transport_with(trusting(&authority));
                let url = format!("https://r.test:{}/", address.port());
                let stage = match transport.send(request(&url)).await.finding {
                    Finding::Failed { kind: ErrorKind::Tls, error } => {
                        assert_eq!(error, "the connection broke during the TLS handshake");
                        0
                    }
                    // Before the handshake has begun, it may be the bare connection that is found broken.
                    Finding::Failed { kind: ErrorKind::Reset, .. } => i32::from(limit > 0),
                    Finding::Answered(answer) => {
                        assert_eq!((answer.status, &answer.excerpt[..]), (200, &b"ok"[..]));
                        2
                    }
                    other => panic!("{versions:?} {limit}: {other:?}"),
                };
                seen.push(stage);
                let next = transport.send(request(&url)).await;
                assert_eq!(next.finding.status(), Some(200), "{versions:?} {reset} {limit} {stage}: {next:?}");
                if stage == 2 {
                    break;
                }
            }
            assert!(seen.is_sorted() && seen.contains(&0) && seen.contains(&1), "{versions:?}: {seen:?}");
        }
    });
}

#[test]
fn a_handshake_that_stops_is_ended_by_the_timeout() {
    on_actix(async {
        // The beginning of a record that says it is a ServerHello of 1,000 bytes.
        let receiver = RawReceiver::scripted(|conversation| {
            conversation.write(&[22, 3, 3, 3, 232, 2, 0, 3, 228, 3, 3]);
            conversation.wait_for_close();
        });
        let url = receiver.url("/").replace("http:", "https:");
        let given = Request { timeout: Span::from_millis(300), ..request(&url) };
        let report = transport_with(local_options()).send(given).await;
        assert_eq!(failure(&report).0, ErrorKind::Timeout);
        assert!(report.took < Span::SECOND);
    });
}

/// Data that ends without `close_notify` may have been cut by anybody on the way: a body that only the close could end
/// counts as cut, one with a length does not need it; the status counts in any case.
#[test]
fn s04_data_without_close_notify() {
    on_actix(async {
        let authority = Authority::new("ours");
        let say_goodbye = |stream: &mut Stream| {
            stream.conn.send_close_notify();
            let _ = stream.flush();
        };
        for (response, goodbye, excerpt, truncated) in [
            ("HTTP/1.1 200 OK\r\n\r\nall", true, "all", false),
            ("HTTP/1.1 200 OK\r\n\r\nall", false, "all", true),
            ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nall", false, "all", false),
            ("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nall", true, "all", true),
            ("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nall", false, "all", true),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nall\r\n0\r\n", false, "all", true),
        ] {
            let receiver = authority.server_that(
                &["r.test"],
                |_| (),
                Manner::default(),
                move |stream| {
                    let _ = stream.write_all(response.as_bytes());
                    if goodbye {
                        say_goodbye(stream);
                    }
                },
            );
            let transport = transport_with(trusting(&authority));
            for _ in 0..2 {
                let answer = answer(transport.send(request(&receiver.url("r.test"))).await);
                assert_eq!(answer.status, 200);
                assert_eq!((&*answer.excerpt, answer.excerpt_truncated), (excerpt.as_bytes(), truncated), "{response}");
            }
        }
        // Nor is half a head with a proper goodbye an answer.
        let receiver = authority.server_that(
            &["r.test"],
            |_| (),
            Manner::default(),
            move |stream| {
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n");
                say_goodbye(stream);
            },
        );
        let report = transport_with(trusting(&authority)).send(request(&receiver.url("r.test"))).await;
        assert_eq!(failure(&report).0, ErrorKind::Reset);
    });
}
