//! The sub-commands that talk to the API, as programs, against servers that answer as they please.

mod answers;
mod lists;

use std::process::Command;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::support::program::{finish, program};
use crate::support::raw::RawReceiver;
use crate::support::tls::Authority;

const KEY: &str = "ph_0123456789abcdef";
/// An answer of the API with nothing in it.
const ANSWER: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";

/// The program, told where the API is.
fn client(url: &str, arguments: &[&str]) -> Command {
    program(&[arguments, &["--url", url, "--api-key", KEY]].concat())
}

/// Runs it: exit code and standard error.
fn outcome(command: Command) -> (i32, String) {
    let (code, _, err) = finish(command, "");
    (code, err)
}

#[test]
fn s02_send_posts_the_data_as_it_was_given() {
    #[derive(Deserialize)]
    struct Posted<'a> {
        r#type: String,
        #[serde(borrow)]
        data: &'a RawValue,
        id: Option<String>,
        endpoint_ids: Option<Vec<String>>,
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("data.json");
    for data in [
        r#"{"z":1,"a":123456789012345678901234567890,"f":1.0e0,"z":2}"#,
        r#"{ "price" : 19.90, "tiny":1E-400,
             "text":"\u00e9\/\ud83d\ude00é" }"#,
        "-0.0",
        "null",
    ] {
        std::fs::write(&file, format!("\n {data}\n")).unwrap();
        let at_file = format!("@{}", file.display());
        for (given, stdin) in [(data, ""), (&at_file, ""), ("-", data)] {
            let receiver = RawReceiver::answering(ANSWER);
            let options = ["--id", "evt_1", "--endpoint", "ep_1", "--endpoint", "ep_2"];
            // `--`: a number below zero is no option.
            let arguments = [&["send"], &options[..], &["--", "order.paid", given]].concat();
            let mut command = program(&arguments);
            command.env("POSTHASTE_URL", receiver.url("/")).env("POSTHASTE_API_KEY", KEY);
            let (code, _, err) = finish(command, stdin);
            assert_eq!(code, 0, "{err}");
            let request = receiver.only_request();
            assert_eq!(request.request_line(), "POST /api/v1/webhooks/events HTTP/1.1");
            assert_eq!(request.header("content-type"), Some("application/json"));
            let posted: Posted = serde_json::from_slice(&request.body).unwrap();
            assert_eq!((posted.data.get(), posted.r#type.as_str()), (data, "order.paid"), "{given}");
            let ids = (posted.id.unwrap(), posted.endpoint_ids.unwrap().concat());
            assert_eq!(ids, ("evt_1".into(), "ep_1ep_2".into()));
        }
    }
}

#[test]
fn what_is_not_said_is_not_posted() {
    let receiver = RawReceiver::answering(ANSWER);
    assert_eq!(outcome(client(&receiver.url(""), &["send", "order.paid"])).0, 0);
    assert_eq!(receiver.only_request().body, br#"{"type":"order.paid","data":{}}"#);
}

#[test]
fn data_that_is_not_json_is_not_posted() {
    let receiver = RawReceiver::answering(ANSWER);
    for data in ["", "{", "{} {}", "order"] {
        let (code, err) = outcome(client(&receiver.url(""), &["send", "order.paid", data]));
        assert_eq!(code, 2);
        assert!(err.contains("data: this is not JSON: "), "{err}");
    }
    assert_eq!(receiver.connections(), 0);
}

#[test]
fn a_policy_goes_out_as_it_was_given_too() {
    let policy = r#"{"preset": "orbit", "jitter": 1.0, "preset": "salaf"}"#;
    let folder = tempfile::tempdir().unwrap();
    let (json, name) = (folder.path().join("policy.json"), folder.path().join("name"));
    std::fs::write(&json, format!("\n{policy}\n")).unwrap();
    std::fs::write(&name, "salaf\n").unwrap();
    let (at_json, at_name) = (format!("@{}", json.display()), format!("@{}", name.display()));
    let preset = r#""salaf""#;
    for (given, posted) in [(policy, policy), ("salaf", preset), (&at_json, policy), (&at_name, preset)] {
        let receiver = RawReceiver::answering(ANSWER);
        let arguments = ["endpoints", "create", "http://r.test/", "--policy", given, "--event-type", "order.*"];
        assert_eq!(outcome(client(&receiver.url(""), &arguments)).0, 0);
        let body = String::from_utf8(receiver.only_request().body).unwrap();
        assert_eq!(body, format!(r#"{{"url":"http://r.test/","policy":{posted},"event_types":["order.*"]}}"#));
    }
}

#[test]
fn a_policy_that_cannot_be_read_is_not_posted() {
    let receiver = RawReceiver::answering(ANSWER);
    for (given, why) in [("@/no/such/file", "--policy: /no/such/file: "), ("{", "--policy: this is not JSON")] {
        let arguments = ["endpoints", "create", "http://r.test/", "--policy", given];
        let (code, err) = outcome(client(&receiver.url(""), &arguments));
        assert!(code == 2 && err.contains(why), "{code}: {err}");
    }
    assert_eq!(receiver.connections(), 0);
}

#[test]
fn a_redirect_is_told_and_never_followed() {
    let elsewhere = RawReceiver::answering(ANSWER);
    for status in ["301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent"] {
        for arguments in [&["policies"][..], &["send", "order.paid"]] {
            let location = elsewhere.url("/login");
            let server = RawReceiver::answering(format!(
                "HTTP/1.1 {status}\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n"
            ));
            let (code, err) = outcome(client(&server.url(""), arguments));
            assert_eq!(code, 1, "{status}");
            assert!(err.contains(&location) && err.contains("redirect") && err.contains(&status[..3]), "{err}");
            assert!(!err.contains(KEY) && server.only_request().header("x-api-key") == Some(KEY), "{err}");
        }
    }
    assert_eq!(elsewhere.connections(), 0);
}

#[test]
fn where_a_redirect_points_is_told_in_full_if_it_says_so_at_all() {
    for (location, told) in [("Location: /login?next=1\r\n", "/login?next=1"), ("", "does not say where")] {
        let server = RawReceiver::answering(format!("HTTP/1.1 302 Found\r\n{location}Content-Length: 0\r\n\r\n"));
        let (code, err) = outcome(client(&server.url(""), &["policies"]));
        let told = if told.starts_with('/') { server.url(told) } else { told.to_owned() };
        assert!(code == 1 && err.contains(&told), "{err}");
    }
}

#[test]
fn an_https_server_is_asked_if_an_authority_vouches_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let (ours, stranger) = (Authority::new("ours"), Authority::new("a stranger's"));
    let file = folder.path().join("roots.pem");
    std::fs::write(&file, ours.root_pem()).unwrap();
    let trusting = |url: &str| {
        let mut command = client(url, &["policies"]);
        command.env("SSL_CERT_FILE", &file).env_remove("SSL_CERT_DIR");
        outcome(command)
    };
    for host in ["localhost", "127.0.0.1"] {
        let server = ours.server(&["localhost", "127.0.0.1"], |_| ());
        // It was heard, and what it said is not taken for the API's answer.
        let (code, err) = trusting(&server.url(host));
        assert!(code == 1 && err.contains("answers 200, but this is no answer of a Posthaste server"), "{err}");
        let (_, alpn) = server.hellos.recv().unwrap();
        assert_eq!(alpn.as_deref(), Some(&b"http/1.1"[..]));
    }
    for server in [stranger.server(&["localhost"], |_| ()), ours.server(&["other.test"], |_| ())] {
        let (code, err) = trusting(&server.url("localhost"));
        assert_eq!(code, 1);
        assert!(err.contains("certificate") && err.contains("SSL_CERT_FILE") && err.contains("localhost"), "{err}");
        assert!(server.hellos.try_recv().is_err(), "nothing is asked of a stranger");
    }
    // Without the file the system's authorities count, and they know nothing of ours.
    let server = ours.server(&["localhost"], |_| ());
    let (code, err) = outcome(client(&server.url("localhost"), &["policies"]));
    assert!(code == 1 && err.contains("certificate"), "{err}");
}

#[test]
fn a_server_without_tls_is_told_apart() {
    let plain = RawReceiver::scripted(|conversation| {
        conversation.write(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        conversation.wait_for_close();
    });
    let (code, err) = outcome(client(&plain.url("").replace("http:", "https:"), &["policies"]));
    assert!(code == 1 && err.contains("does not speak TLS"), "{err}");
}

#[test]
fn an_address_that_is_none_is_named() {
    for (url, code, part) in [
        ("127.0.0.1:8080", 2, "--url: 127.0.0.1:8080/"),
        ("ht tp://x", 2, "--url: ht tp://x/"),
        ("ftp://x", 1, "no answer from ftp://x: "),
        ("https://127.0.0.1:1", 1, "no answer from https://127.0.0.1:1: "),
    ] {
        let (exit, err) = outcome(client(url, &["policies"]));
        assert!(exit == code && err.contains(part), "{exit}: {err}");
    }
}
