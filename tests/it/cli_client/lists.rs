//! Lists, page by page.

use super::{KEY, client, outcome};
use crate::support::program::{finish, program};
use crate::support::raw::RawReceiver;

/// What a list's command asks for, and what it prints about `answer`.
fn asked(answer: &str, arguments: &[&str]) -> (String, String) {
    let server = RawReceiver::answering(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{answer}", answer.len()));
    let mut command = program(arguments);
    command.env("POSTHASTE_URL", server.url("")).env("POSTHASTE_API_KEY", KEY);
    let (code, out, err) = finish(command, "");
    assert_eq!((code, err.as_str()), (0, ""), "{arguments:?}");
    let request = server.only_request();
    let target = request.request_line().split(' ').nth(1).unwrap();
    (target.strip_prefix("/api/v1/webhooks").unwrap().to_owned(), out)
}

const EMPTY: &str = r#"{"data":[],"next_cursor":null}"#;

#[test]
fn every_filter_of_the_api_has_a_flag() {
    let check = |arguments: &[&str], target: &str| assert_eq!(asked(EMPTY, arguments).0, target);
    check(&["endpoints"], "/endpoints");
    check(
        &["endpoints", "--status", "disabled", "--event-type", "a.b", "--limit", "250", "--cursor", "-x"],
        "/endpoints?status=disabled&event_type=a.b&limit=250&cursor=-x",
    );
    check(
        &["endpoints", "--updated-after", "2026-01-01T00:00:00+02:00"],
        "/endpoints?updated_after=2026-01-01T00%3A00%3A00%2B02%3A00",
    );
    check(
        &[
            "deliveries",
            "--state",
            "dead",
            "--endpoint",
            "ep 1",
            "--event",
            "evt_1",
            "--event-type",
            "a.b",
            "--status",
            "503",
        ],
        "/deliveries?state=dead&endpoint_id=ep+1&event_id=evt_1&event_type=a.b&status=503",
    );
    check(
        &[
            "deliveries",
            "--error-kind",
            "dns",
            "--created-after",
            "1",
            "--created-before",
            "2",
            "--updated-after",
            "3",
            "--limit",
            "1",
        ],
        "/deliveries?error_kind=dns&created_after=1&created_before=2&updated_after=3&limit=1",
    );
    check(
        &[
            "dlq",
            "--endpoint",
            "ep_1",
            "--event-type",
            "a",
            "--dead-reason",
            "expired",
            "--updated-after",
            "3",
            "--cursor",
            "c",
        ],
        "/dlq?endpoint_id=ep_1&event_type=a&dead_reason=expired&updated_after=3&cursor=c",
    );
}

#[test]
fn the_next_page_is_asked_for_by_what_is_printed() {
    let answer = r#"{"data":[{"id":"dlv_1"}],"next_cursor":"AQ-_"}"#;
    let again = |arguments: &[&str]| {
        let (_, out) = asked(answer, arguments);
        out.lines().last().unwrap().strip_prefix("More: posthaste ").unwrap().to_owned()
    };
    assert_eq!(again(&["dlq"]), "dlq --cursor AQ-_");
    let arguments = ["deliveries", "--cursor", "old", "--limit", "2", "--endpoint", "ep 1", "--state", "dead"];
    let next = "deliveries --state dead --endpoint 'ep 1' --limit 2 --cursor AQ-_";
    assert_eq!(again(&arguments), next);
    assert_eq!(again(&["endpoints", "--limit", "2"]), "endpoints --limit 2 --cursor AQ-_");
    // An address that no variable says has to be typed again; a key is not shown.
    let server = RawReceiver::answering(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{answer}", answer.len()));
    let (_, out, _) = finish(client(&server.url(""), &["dlq"]), "");
    let last = out.lines().last().unwrap();
    assert_eq!(last, format!("More: posthaste dlq --url {} --cursor AQ-_", server.url("")));
}

#[test]
fn a_page_has_a_size_that_the_api_knows() {
    for limit in ["0", "251", "x"] {
        let (code, err) = outcome(client("http://127.0.0.1:1", &["deliveries", "--limit", limit]));
        assert!(code == 2 && err.contains("--limit"), "{err}");
    }
}

#[test]
fn an_empty_list_says_so() {
    let check = |arguments: &[&str], said: &str| assert_eq!(asked(EMPTY, arguments).1, format!("{said}\n"));
    check(&["endpoints"], "There are no endpoints.");
    check(&["deliveries", "--limit", "5"], "There are no deliveries.");
    check(&["dlq"], "The dead-letter queue is empty.");
    check(&["dlq", "--endpoint", "ep_1"], "There is nothing like that.");
    check(&["deliveries", "--cursor", "c"], "There is nothing more.");
    check(&["dlq", "--json"], EMPTY);
}

/// `dlq --endpoint ID requeue-all` must not requeue everybody's.
#[test]
fn what_a_sub_command_would_ignore_is_refused() {
    for (arguments, flag) in [
        (&["dlq", "--endpoint", "ep_1", "requeue-all"][..], "--endpoint"),
        (&["deliveries", "--state", "dead", "show", "dlv_1"], "--state"),
        (&["endpoints", "--limit", "1", "show", "ep_1"], "--limit"),
    ] {
        let (code, err) = outcome(client("http://127.0.0.1:1", arguments));
        assert!(code == 2 && err.contains(&format!("{flag} before a sub-command would be ignored")), "{err}");
    }
}
