//! The sub-commands that need no server, as programs: what they print, where, and how they exit.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command};
use std::time::{Duration, Instant};

use posthaste::domain::secret::SigningSecret;
use posthaste::domain::signature::{sign_standard, sign_timestamped};
use serde_json::Value;

use crate::support::program::{program, run};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const OTHER: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX";
const BODY: &str = r#"{"id":"evt_1","type":"order.created"}"#;
const SIGNED_AT: i64 = 1_788_445_441;
/// For what happens in milliseconds.
const PATIENCE: Duration = Duration::from_secs(20);

fn wait(child: &mut Child) -> i32 {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code().unwrap();
        }
        assert!(Instant::now() < deadline, "it does not end");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The cells of a table's row, which never hold two spaces themselves.
fn cells(row: &str) -> Vec<&str> {
    row.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect()
}

#[test]
fn s09_simulate_prints_the_seeds_tables() {
    let check = |preset: &str, waits: &str, elapsed: &str| {
        let rungs: Vec<_> =
            std::iter::once(("— (initial)", "0s")).chain(waits.split(' ').zip(elapsed.split(' '))).collect();
        let (code, out, err) = run(&["simulate", "--policy", preset, "--script", "503"], "");
        assert_eq!((code, err.as_str()), (0, ""));
        let mut lines = out.lines();
        let header = cells(lines.next().unwrap()).join("|");
        assert_eq!(header, "EVENT|ATTEMPT|WAIT BEFORE ATTEMPT|ELAPSED|ANSWER|OUTCOME");
        for (index, (wait, elapsed)) in rungs.iter().enumerate() {
            let attempt = (index + 1).to_string();
            let outcome = match rungs.get(index + 1) {
                Some((next, _)) => format!("retry in {next}"),
                None => "dead-letter queue".into(),
            };
            assert_eq!(cells(lines.next().unwrap()), ["1", &attempt, wait, elapsed, "503", &outcome], "{preset}");
        }
        assert_eq!(lines.next(), Some(""));
        let end = format!("The delivery is dead (exhausted) after {}. Endpoint enabled,", rungs[rungs.len() - 1].1);
        assert!(lines.next().unwrap().starts_with(&end), "{out}");
        assert_eq!(lines.next(), None);
    };
    let waits = "30s 1m 2m 4m 8m 16m 32m 1h4m 2h8m";
    check("orbit", waits, "30s 1m30s 3m30s 7m30s 15m30s 31m30s 1h3m30s 2h7m30s 4h15m30s");
    check("shellorbit", "8s 32s 2m 12m", "8s 40s 2m40s 14m40s");
    let waits = "30s 2m 10m 30m 2h 6h 12h 24h";
    check("salaf", waits, "30s 2m30s 12m30s 42m30s 2h42m30s 8h42m30s 20h42m30s 44h42m30s");
}

#[test]
fn simulate_takes_policies_and_scripts_in_every_form() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("policy.json");
    std::fs::write(&file, "{\"preset\": \"shellorbit\", \"schedule\": {\"ladder\": [\"5s\", \"0s\"]}}\n").unwrap();
    let at_file = format!("@{}", file.display());
    let last = |arguments: &[&str]| {
        let (code, out, err) = run(&[&["simulate"], arguments].concat(), "");
        assert_eq!(code, 0, "{err}");
        out.lines().last().unwrap().to_owned()
    };
    let check = |arguments: &[&str], end: &str| {
        let last = last(arguments);
        assert!(last.starts_with(end), "{arguments:?}: {last}");
    };
    check(&[], "The delivery is dead (exhausted) after 4h15m30s.");
    check(&["--jitter"], "The delivery is dead (exhausted) after 4h15m30s to 5h6m36s.");
    check(&["--policy", &at_file], "The delivery is dead (exhausted) after 5s.");
    check(&["--policy", r#"{"schedule": {"ladder": []}}"#], "The delivery is dead (exhausted) after 0s.");
    for script in ["timeout*2,200", "hang,timeout,200"] {
        check(&["--policy", "shellorbit", "--script", script], "The delivery is delivered after 1m10s.");
    }
    check(
        &["--policy", "shellorbit", "--script", "503*2", "--script", "429;retry-after=60,200"],
        "The delivery is delivered after 2m40s.",
    );
    check(
        &["--script", "410"],
        "The delivery is dead (permanent_response) after 0s. Endpoint auto_disabled since 0s, circuit closed, 1 failed \
         attempt and 1 exhausted delivery in a row.",
    );
    check(
        &["--script", "410", "--events", "2", "--every", "1h"],
        "The last event's delivery is dead (endpoint_disabled) after 1h.",
    );
    check(
        &["--script", "410", "--events", "2", "--policy", r#"{"while_disabled": "skip"}"#],
        "The last event came to a disabled endpoint and was skipped after 1m.",
    );
}

#[test]
fn simulate_answers_as_the_api_does() {
    let (code, out, _) = run(&["simulate", "--json", "--jitter", "--script", "503,200"], "");
    let answer: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, out.lines().count()), (0, 1), "{out}");
    assert!(out.starts_with(r#"{"attempts":[{"event":1,"attempt":1,"wait":"#), "{out}");
    assert_eq!(answer["attempts"][1]["wait"], serde_json::json!({"min": "30s", "max": "36s"}));
    assert_eq!(answer["final"]["state"], "delivered");
}

#[test]
fn arguments_that_make_no_sense_are_named() {
    let refused = |arguments: &[&str], parts: &[&str]| {
        let (code, out, err) = run(arguments, "");
        assert_eq!((code, out.as_str()), (2, ""), "{arguments:?}: {err}");
        parts.iter().for_each(|part| assert!(err.contains(part), "{arguments:?}: {err}"));
        assert!(!err.contains("panicked"), "{err}");
    };
    refused(&["simulate", "--policy", "orbital"], &["--policy: 'orbital' is not one of orbit, shellorbit, salaf."]);
    refused(&["simulate", "--policy", "{"], &["--policy: this is not JSON"]);
    refused(&["simulate", "--policy", "@/no/such/file"], &["--policy: /no/such/file: "]);
    let two = r#"{"timeout": 5, "colour": 1}"#;
    refused(&["simulate", "--policy", two], &["--policy: colour: ", "--policy: timeout: A duration is text"]);
    refused(&["simulate", "--script", "soon"], &["--script: `soon`"]);
    refused(&["simulate", "--script", "503*0"], &["--script: `503*0`: after the * stands how many times"]);
    let long = format!("503;retry-after={}", "9".repeat(100));
    refused(&["simulate", "--script", &long], &["--script: '503;retry-after=9", "is longer than 100 bytes"]);
    refused(&["simulate", "--events", "0"], &["--events: "]);
    refused(&["simulate", "--every", "1y"], &["--every: "]);
    for script in ["dns", "bogus", "503;x=1"] {
        let (_, _, err) = run(&["receive", "--script", script], "");
        assert!(err.contains(&format!("--script: `{script}`: ")) && !err.contains("tls"), "{err}");
        refused(&["receive", "--script", script], &["a status from 200 to 599, ", "hang or reset"]);
    }
    refused(&["receive", "--listen", "localhost"], &["--listen", "write HOST:PORT"]);
    refused(&["serve", "--listen", "no-such-host.invalid:0"], &["--listen", "`no-such-host.invalid`"]);
    refused(&["receive", "--delay", "soon"], &["--delay"]);
    refused(&["receive", "--hang", "--script", "200"], &["cannot be used with"]);
    refused(&["verify"], &["--secret"]);
    refused(&["verify", "--secret", SECRET, "--header", "nothing"], &["`name: value`"]);
    refused(&["verify", "--secret", SECRET, "--headers", "/no/such/file"], &["--headers: /no/such/file: "]);
    // A secret is not repeated, however wrong it is.
    for command in ["verify", "receive"] {
        let (code, _, err) = run(&[command, "--secret", "whsec_almost-a-secret"], "");
        assert_eq!(code, 2);
        assert!(err.contains("--secret: ") && !err.contains("almost"), "{err}");
    }
}

/// A signed request's headers, as a receiver sees them.
fn signed(secrets: &[&str], at: i64, body: &str) -> Vec<String> {
    let secrets: Vec<_> = secrets.iter().map(|text| SigningSecret::parse(text).unwrap()).collect();
    let secrets: Vec<_> = secrets.iter().collect();
    vec![
        "webhook-id: evt_1".into(),
        format!("Webhook-Timestamp: {at}"),
        format!("webhook-signature: {}", sign_standard("evt_1", at, body.as_bytes(), &secrets)),
        "Posthaste-Event-Id: evt_1".into(),
        "Posthaste-Event-Type: order.created".into(),
        "Posthaste-Attempt: 3".into(),
        format!("Posthaste-Signature: {}", sign_timestamped(at, body.as_bytes(), &secrets)),
    ]
}

#[test]
fn s23_verify_says_yes_or_why_not() {
    let at = SIGNED_AT.to_string();
    let verify = |secret: &str, more: &[&str], headers: &[String], body: &str| {
        let mut arguments = vec!["verify", "--secret", secret];
        arguments.extend(more);
        headers.iter().for_each(|header| arguments.extend(["--header", header]));
        run(&arguments, body)
    };
    let headers = signed(&[SECRET], SIGNED_AT, BODY);
    let yes = |result: (i32, String, String), sentence: &str| assert_eq!(result, (0, sentence.into(), String::new()));
    let no = |(code, out, err): (i32, String, String), part: &str| {
        assert_eq!((code, out.as_str()), (1, ""));
        assert!(err.contains(part), "{err}");
    };
    yes(verify(SECRET, &["--at", &at], &headers, BODY), "both signatures are valid\n");
    yes(verify(SECRET, &["--at", &at], &headers[..3], BODY), "the signature is valid\n");
    yes(verify(SECRET, &["--at", &at], &headers[6..], BODY), "the signature is valid\n");
    yes(verify(OTHER, &["--secret", SECRET, "--at", &at], &headers, BODY), "both signatures are valid\n");
    let rotated = signed(&[OTHER, SECRET], SIGNED_AT, BODY);
    yes(verify(SECRET, &["--at", &at], &rotated, BODY), "both signatures are valid\n");
    let later = (SIGNED_AT + 300).to_string();
    yes(verify(SECRET, &["--at", &later], &headers, BODY), "both signatures are valid\n");
    let too_late = (SIGNED_AT + 301).to_string();
    no(verify(SECRET, &["--at", &too_late], &headers, BODY), "the timestamp is 301 s old");
    yes(verify(SECRET, &["--at", &too_late, "--tolerance", "6m"], &headers, BODY), "both signatures are valid\n");
    no(verify(SECRET, &["--tolerance", "1s"], &signed(&[SECRET], 1, BODY), BODY), "s old");
    no(verify(OTHER, &["--at", &at], &headers, BODY), "no signature matches");
    no(verify(SECRET, &["--at", &at], &headers, "{}"), "no signature matches");
    no(verify(SECRET, &["--at", &at], &headers, &format!("{BODY}\n")), "without the line end");
    no(verify(SECRET, &["--at", &at], &headers[1..3], BODY), "the header webhook-id is missing");
    no(verify(SECRET, &["--at", &at], &[], BODY), "no signature is among the headers");

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("headers");
    std::fs::write(&file, headers.join("\r\n") + "\r\n\r\n").unwrap();
    let result = run(&["verify", "--secret", SECRET, "--at", &at, "--headers", file.to_str().unwrap()], BODY);
    yes(result, "both signatures are valid\n");
}

/// A receiver that runs until it is dropped.
struct Receiver {
    child: Child,
    lines: BufReader<ChildStdout>,
    address: String,
}

impl Receiver {
    fn start(arguments: &[&str]) -> Receiver {
        let mut child = program(&[&["receive", "--listen", "127.0.0.1:0"], arguments].concat()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        let mut receiver = Receiver { child, lines, address: String::new() };
        let first = receiver.line();
        let address = match serde_json::from_str::<Value>(&first) {
            Ok(first) => first["listening"].as_str().unwrap().to_owned(),
            Err(_) => first.strip_prefix("receiving on ").unwrap().to_owned(),
        };
        receiver.address = address.strip_prefix("http://").unwrap().to_owned();
        receiver
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn object(&mut self) -> Value {
        serde_json::from_str(&self.line()).unwrap()
    }

    /// Sends a request, without waiting for its answer.
    fn send(&self, target: &str, headers: &[String], body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
        let head = format!("POST {target} HTTP/1.1\r\nHost: r.test\r\nConnection: close\r\n{headers}");
        write!(stream, "{head}Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
        stream
    }

    /// The answer's head, in lower case; empty if there was none.
    fn post(&self, target: &str, headers: &[String], body: &str) -> String {
        let mut answer = Vec::new();
        // A connection that is reset has given no answer either.
        let _ = self.send(target, headers, body).read_to_end(&mut answer);
        String::from_utf8(answer).unwrap().to_ascii_lowercase()
    }

    fn status(&self, headers: &[String], body: &str) -> u16 {
        let head = self.post("/hooks", headers, body);
        head.split(' ').nth(1).unwrap_or_else(|| panic!("{head:?}")).parse().unwrap()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn unix_now() -> i64 {
    let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    i64::try_from(since_epoch.as_secs()).unwrap()
}

#[test]
fn receive_answers_by_its_script_and_prints_what_comes() {
    let mut receiver = Receiver::start(&["--script", "503*2,429;retry-after=60", "--script", "204", "--show-body"]);
    let headers = signed(&[SECRET], SIGNED_AT, BODY);
    let answers: Vec<u16> = (0..2).map(|_| receiver.status(&headers, BODY)).collect();
    assert_eq!(answers, [503, 503]);
    let third = receiver.post("/hooks?a=%1b", &headers, "{\"a\":\"\u{1b}[2J\"}\r\n");
    assert!(third.starts_with("http/1.1 429") && third.contains("\r\nretry-after: 60\r\n"), "{third}");
    assert_eq!([receiver.status(&headers, BODY), receiver.status(&[], "")], [204, 204], "the last entry repeats");

    let rest = |line: String| line.split_once("Z ").map(|(_, rest)| rest.to_owned()).unwrap_or(line);
    let usual = format!("attempt 3, {} bytes, signature: not checked;", BODY.len());
    for answered in ["503", "503"] {
        let line = rest(receiver.line());
        assert_eq!(line, format!("POST /hooks order.created evt_1 {usual} answered {answered}"));
        assert_eq!(receiver.line(), format!("    {BODY}"));
    }
    let line = rest(receiver.line());
    assert!(line.starts_with("POST /hooks?a=%1b order.created evt_1 attempt 3, 14 bytes"), "{line}");
    assert_eq!(receiver.line(), r#"    {"a":"\u{1b}[2J"}\r\n"#);
    receiver.line();
    receiver.line();
    assert_eq!(rest(receiver.line()), "POST /hooks - - attempt -, 0 bytes, signature: not checked; answered 204");
}

#[test]
fn s23_receive_checks_signatures_and_refuses_what_is_not_signed() {
    let mut receiver = Receiver::start(&["--json", "--secret", OTHER, "--secret", SECRET, "--script", "503,200"]);
    let now = unix_now();
    let good = signed(&[SECRET], now, BODY);
    assert_eq!(receiver.status(&good, "{}"), 401, "another body");
    assert_eq!(receiver.status(&signed(&[SECRET], now - 600, BODY), BODY), 401, "an old timestamp");
    assert_eq!(receiver.status(&[], BODY), 401, "nothing at all");
    assert_eq!(receiver.status(&good, BODY), 503, "what was refused took no turn of the script");
    assert_eq!(receiver.status(&good, BODY), 200);
    for why in ["no signature matches", "s old", "no signature is among the headers"] {
        let line = receiver.object();
        assert_eq!((&line["signature_valid"], &line["answered"]), (&Value::Bool(false), &Value::from(401)));
        assert!(line["signature"].as_str().unwrap().contains(why), "{line}");
    }
    let line = receiver.object();
    assert_eq!((&line["signature_valid"], &line["answered"]), (&Value::Bool(true), &Value::from(503)));
    assert_eq!((&line["event_id"], &line["attempt"], &line["bytes"]), (&"evt_1".into(), &3.into(), &BODY.len().into()));
    assert_eq!(line.get("body"), None);
}

#[test]
fn receive_hangs_resets_and_delays_on_cue() {
    let mut receiver = Receiver::start(&["--script", "reset,hang,200", "--delay", "200ms", "--json"]);
    assert_eq!(receiver.post("/", &[], ""), "", "closed without an answer");
    let mut hanging = receiver.send("/", &[], "");
    assert_eq!((receiver.object()["act"].take(), receiver.object()["act"].take()), ("reset".into(), "hang".into()));
    let began = Instant::now();
    assert_eq!(receiver.status(&[], ""), 200);
    assert!(began.elapsed() >= Duration::from_millis(200));
    // As long as it took to answer the one after it, and once more.
    hanging.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    let error = hanging.read(&mut [0; 1]).unwrap_err();
    assert!(matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut), "{error}");
}

#[test]
fn receive_ends_when_told_to_and_when_nobody_reads_it() {
    let mut receiver = Receiver::start(&["--hang"]);
    // Not even an attempt that hangs keeps it from ending.
    let _hanging = receiver.send("/", &[], "");
    assert!(receiver.line().ends_with("; not answered"));
    let id = receiver.child.id().to_string();
    assert!(Command::new("kill").arg(&id).status().unwrap().success());
    assert_eq!(wait(&mut receiver.child), 0);

    let mut child = program(&["receive", "--listen", "127.0.0.1:0"]).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut first = String::new();
    lines.read_line(&mut first).unwrap();
    drop(lines);
    let address = first.trim_end().strip_prefix("receiving on http://").unwrap().to_owned();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: r.test\r\n\r\n").unwrap();
    assert_eq!(wait(&mut child), 0);
    let mut complaints = String::new();
    child.stderr.take().unwrap().read_to_string(&mut complaints).unwrap();
    assert_eq!(complaints, "");
}

#[test]
fn an_address_in_use_is_a_sentence() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let (code, out, err) = run(&["receive", "--listen", &address], "");
    assert_eq!((code, out.as_str()), (1, ""));
    assert!(err.contains(&format!("cannot listen on {address}: ")), "{err}");
}

#[test]
fn a_reader_that_leaves_is_no_panic() {
    // More than a pipe holds, so that it is still writing when nobody reads any more.
    let mut child = program(&["simulate", "--events", "1000", "--every", "0s", "--policy", "salaf"]).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(wait(&mut child), 0);
    let mut complaints = String::new();
    child.stderr.take().unwrap().read_to_string(&mut complaints).unwrap();
    assert_eq!(complaints, "");
}
