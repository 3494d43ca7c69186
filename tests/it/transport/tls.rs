//! Certificates, names and protocols of https receivers.

use posthaste::domain::attempt::ErrorKind;
use posthaste::transport::awc::Options;
use rcgen::CertificateParams;

use super::{StubResolver, answer, failure, local_options, on_actix, request, transport_with};
use crate::support::raw::RawReceiver;
use crate::support::tls::Authority;

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
