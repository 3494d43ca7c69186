//! What is printed of an answer, and what is said if it is none.

use std::os::unix::ffi::OsStrExt;

use super::{KEY, client, outcome};
use crate::support::program::{finish, program};
use crate::support::raw::RawReceiver;

/// A server that gives every request this answer.
fn server(status: &str, body: &str) -> RawReceiver {
    RawReceiver::answering(format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len()))
}

/// What the program prints about that answer.
fn printed(body: &str, arguments: &[&str]) -> String {
    let server = server("200 OK", body);
    let (code, out, err) = finish(client(&server.url(""), arguments), "");
    assert_eq!((code, err.as_str()), (0, ""), "{arguments:?}");
    out
}

const COMMANDS: [&[&str]; 15] = [
    &["send", "order.paid"],
    &["endpoints"],
    &["endpoints", "create", "http://r.test/"],
    &["endpoints", "show", "ep_1"],
    &["endpoints", "status", "ep_1"],
    &["endpoints", "ping", "ep_1"],
    &["endpoints", "enable", "ep_1"],
    &["endpoints", "disable", "ep_1"],
    &["deliveries"],
    &["deliveries", "show", "dlv_1"],
    &["deliveries", "retry", "dlv_1"],
    &["dlq"],
    &["dlq", "requeue", "dlv_1"],
    &["dlq", "requeue-all"],
    &["policies"],
];

#[test]
fn json_is_the_apis_own_text() {
    let body = "{\"z\":1.50, \"a\" : [123456789012345678901234567890,1E-400],\"z\":\"\\u00e9\\/\u{e9}\"}";
    for command in COMMANDS {
        assert_eq!(printed(body, &[command, &["--json"]].concat()), format!("{body}\n"), "{command:?}");
    }
}

#[test]
fn people_get_the_apis_order_too() {
    let body = r#"{"preset":"orbit","data":[{"preset":"x","schedule":{"z":1.0,"a":2}}]}"#;
    let shown = printed(body, &["endpoints", "show", "ep_1"]);
    assert!(shown.starts_with("{\n  \"preset\": \"orbit\",\n  \"data\": [\n"), "{shown}");
    let shown = printed(body, &["policies"]);
    assert!(shown.contains(r#" x       {"z":1.0,"a":2} "#), "{shown}");
}

#[test]
fn what_is_deleted_has_no_answer() {
    let server = RawReceiver::answering("HTTP/1.1 204 No Content\r\n\r\n");
    for (more, said) in [(&[][..], "ep_1 is deleted\n"), (&["--json"], "")] {
        let arguments = [&["endpoints", "delete", "ep_1"], more].concat();
        assert_eq!(finish(client(&server.url(""), &arguments), ""), (0, said.into(), String::new()));
    }
}

#[test]
fn ids_are_asked_for_as_they_are_typed() {
    for (arguments, path) in [
        (["deliveries", "show"], "/deliveries/x%20y%2F%23%3F%25"),
        (["deliveries", "retry"], "/deliveries/x%20y%2F%23%3F%25/retry"),
        (["dlq", "requeue"], "/dlq/x%20y%2F%23%3F%25/requeue"),
        (["endpoints", "status"], "/endpoints/x%20y%2F%23%3F%25/status"),
        (["endpoints", "delete"], "/endpoints/x%20y%2F%23%3F%25"),
    ] {
        let server = server("404 Not Found", r#"{"code":"not_found","detail":"There is no such thing."}"#);
        let arguments = [&arguments[..], &["x y/#?%"]].concat();
        let said = outcome(client(&server.url(""), &arguments));
        assert_eq!(said, (1, "posthaste: 404 not_found: There is no such thing.\n".into()));
        let request = server.only_request();
        let asked = request.request_line().split(' ').nth(1).unwrap();
        assert_eq!(asked, format!("/api/v1/webhooks{path}"));
    }
    let (code, err) = outcome(client("http://127.0.0.1:1", &["deliveries", "show", ""]));
    assert!(code == 2 && err.contains("an id is needed"), "{err}");
}

#[test]
fn a_key_that_is_missing_or_none_is_named_by_its_flag() {
    let answer = r#"{"code":"unauthorized","detail":"Send the key as X-API-Key: ph_…"}"#;
    for unset in [true, false] {
        let server = server("401 Unauthorized", answer);
        let mut command = program(&["policies", "--url", &server.url("")]);
        if !unset {
            command.env("POSTHASTE_API_KEY", "");
        }
        let (code, err) = outcome(command);
        assert!(code == 1 && err.contains("--api-key") && err.contains("POSTHASTE_API_KEY"), "{err}");
        assert_eq!(server.only_request().header("x-api-key"), None);
    }
    let mut command = program(&["policies"]);
    command.env("POSTHASTE_API_KEY", "ph_two\nlines");
    let (code, err) = outcome(command);
    assert!(code == 2 && err.contains("POSTHASTE_API_KEY") && !err.contains("two"), "{err}");
}

#[test]
fn a_variable_that_is_not_utf8_is_named() {
    for (name, arguments) in [("POSTHASTE_API_KEY", ["policies"]), ("POSTHASTE_DATABASE_URL", ["serve"])] {
        let mut command = program(&arguments);
        command.env(name, std::ffi::OsStr::from_bytes(b"ph_\xff"));
        assert_eq!(outcome(command), (2, format!("posthaste: {name} in the environment is not UTF-8\n")));
    }
    let mut command = program(&["policies", "--api-key"]);
    command.arg(std::ffi::OsStr::from_bytes(b"ph_\xff"));
    let (code, err) = outcome(command);
    assert!(code == 2 && !err.contains("environment"), "{err}");
}

#[test]
fn another_kind_of_server_is_told_from_ours() {
    for (status, body, shown) in [
        ("503 Busy", "", "it is empty"),
        ("200 OK", "<html>\r\n", r"it says `<html>\r\n`"),
        ("404 No", "{}", "says `{}`"),
    ] {
        let server = server(status, body);
        let (code, err) = outcome(client(&server.url(""), &["policies"]));
        let told = format!("{} answers {}, but this is no answer of a Posthaste server", server.url(""), &status[..3]);
        assert!(code == 1 && err.contains(&told) && err.contains(shown) && !err.contains(KEY), "{err}");
    }
}

#[test]
fn an_event_that_nobody_gets_is_told() {
    let said = printed(r#"{"id":"evt_1","duplicate":false,"deliveries":[]}"#, &["send", "order.paid"]);
    assert!(said.starts_with("evt_1\nNobody gets it: no endpoint is subscribed to order.paid,"), "{said}");
    let said = printed(r#"{"id":"evt_1","duplicate":true,"deliveries":[]}"#, &["send", "order.paid"]);
    assert!(said.starts_with("evt_1 (was there before)\nNobody got it: "), "{said}");
    let taken = r#"{"id":"evt_1","deliveries":[{"id":"dlv_1","endpoint_id":"ep_1","state":"pending"}]}"#;
    let said = printed(taken, &["send", "order.paid"]);
    assert!(said.contains("\n dlv_1 ") && !said.contains("Nobody"), "{said}");
}
