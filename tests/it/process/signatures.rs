//! Signatures of real requests, checked with the public reference libraries (S23, C31, C35, C37, C38).

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use posthaste::domain::secret::SigningSecret;
use posthaste::domain::signature::{verify_standard, verify_timestamped};
use posthaste::domain::time::Span;
use serde_json::{Value, json};

use super::SOON;
use crate::support::raw::RawRequest;
use crate::support::receiver::{Receiver, Reply};
use crate::support::server::{Options, Server, beside_others, text};

/// Reads requests and secrets from its input; says for each pair whether both libraries accept it. The second scheme is
/// Stripe's, keyed with the secret's text.
const SCRIPT: &str = r#"
import base64, json, sys
from standardwebhooks.webhooks import Webhook, WebhookVerificationError
import stripe

def standard(secret, request):
    try:
        Webhook(secret).verify(base64.b64decode(request["body"]), request["headers"])
        return True
    except WebhookVerificationError:
        return False

def timestamped(secret, request):
    try:
        header = request["headers"]["posthaste-signature"]
        return stripe.WebhookSignature.verify_header(base64.b64decode(request["body"]), header, secret, tolerance=300)
    except stripe.SignatureVerificationError:
        return False

asked = json.load(sys.stdin)
print(json.dumps([[standard(a["secret"], a["request"]), timestamped(a["secret"], a["request"])] for a in asked]))
"#;

/// Whether (Standard Webhooks, Stripe) accept each request under its secret.
fn judge(pairs: &[(&RawRequest, &str)]) -> Vec<(bool, bool)> {
    let python = std::env::var("POSTHASTE_TEST_PYTHON").expect(
        "POSTHASTE_TEST_PYTHON must name a python with the packages standardwebhooks and stripe; tests/run makes one",
    );
    let asked: Vec<Value> = pairs
        .iter()
        .map(|(request, secret)| {
            let lines = request.head.lines().skip(1).filter_map(|line| line.split_once(": "));
            let headers = Value::from_iter(lines.map(|(name, value)| (name.to_ascii_lowercase(), value)));
            let body = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, &request.body);
            json!({"secret": secret, "request": {"headers": headers, "body": body}})
        })
        .collect();
    let mut child = Command::new(&python)
        .args(["-c", SCRIPT])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{python}: {error}"));
    child.stdin.take().expect("stdin").write_all(Value::from(asked).to_string().as_bytes()).expect("written");
    let out = child.wait_with_output().expect("its output");
    assert!(out.status.success(), "{python} failed; does it have standardwebhooks and stripe?");
    serde_json::from_slice(&out.stdout).expect("a list of pairs")
}

#[test]
fn s23_the_reference_libraries_accept_both_signatures_also_during_a_rotation() {
    let _machine = beside_others();
    let receiver = Receiver::always(200);
    let server = Server::start(Options::default());
    let created = server.post("/endpoints", &json!({"url": receiver.url("/")}), 201);
    let (endpoint, first) = (text(&created["id"]), text(&created["secret"]));
    // Odd spacing, a duplicate key, escapes, composed and decomposed accents, what lies outside the BMP.
    let data = "{\"b\":1, \"a\":{\"z\":0,\"y\":[]},\"a\":2,\"s\":\"\\u00e9/\\/ \u{e9} e\u{301} \u{1f600} \u{2028}\"}";
    let send = |number: usize| {
        let body = format!("{{\"type\":\"order.created\",\"data\": {data} }}");
        assert_eq!(server.client().send("POST", "/events", body.as_bytes()).expect("an answer").status, 202);
        receiver.wait("it comes", SOON, |ledger| ledger.len() == number);
        receiver.ledger().pop().expect("one").request
    };
    let before = send(1);
    assert!(before.body.ends_with(format!(",\"data\":{data}}}").as_bytes()), "byte for byte");
    let rotate = |overlap: &str| {
        let rotated = server.post(&format!("/endpoints/{endpoint}/secret/rotate"), &json!({"overlap": overlap}), 200);
        text(&rotated["secret"])
    };
    let second = rotate("24h");
    let during = send(2);
    let third = rotate("0s");
    let after = send(3);
    let own = {
        let mut own = before.clone();
        own.body.push(b' ');
        own
    };
    let verdicts = judge(&[
        (&before, &first),
        (&before, &second),
        (&during, &second),
        (&during, &first),
        (&after, &third),
        (&after, &second),
        (&own, &first),
    ]);
    let (yes, no) = ((true, true), (false, false));
    assert_eq!(verdicts, [yes, no, yes, yes, yes, no, no]);
    let kept = server.get(&format!("/endpoints/{endpoint}/secret"));
    assert_eq!(kept["secret"], third);
}

/// Each attempt is signed when it is sent, over the same bytes, whatever lies between: a wait, a restart.
#[test]
fn c31_c38_every_attempt_signs_the_same_bytes_at_its_own_time() {
    let _machine = beside_others();
    let receiver = Receiver::start(|arrival| Reply::Answer(if arrival.attempt < 3 { 503 } else { 200 }));
    let mut server = Server::start(Options::default());
    let policy = json!({"schedule": {"ladder": ["1100ms", "3s"]}, "jitter": 0, "auto_disable": null});
    let created = server.post("/endpoints", &json!({"url": receiver.url("/"), "policy": policy}), 201);
    let data = "{\"b\":1, \"a\":{\"z\":0,\"y\":[]},\"a\":2,\"s\":\"\\u00e9/\\/\"}";
    let body = format!("{{\"id\":\"e1\",\"type\":\"a.b\",\"data\":{data}\n}}\n");
    assert_eq!(server.client().send("POST", "/events", body.as_bytes()).expect("an answer").status, 202);
    receiver.wait("two attempts", SOON, |ledger| ledger.len() == 2);
    server.terminate();
    assert!(server.wait_for_exit(SOON).success());
    server.restart();
    receiver.wait("a third after a restart", SOON, |ledger| ledger.len() == 3);
    let ledger = receiver.ledger();
    let secret = SigningSecret::parse(&text(&created["secret"])).expect("a secret");
    let mut signed_at = Vec::new();
    for arrival in &ledger {
        let request = &arrival.request;
        assert!(request.body.ends_with(format!(",\"data\":{data}}}").as_bytes()), "byte for byte");
        assert_eq!(request.body, ledger[0].request.body);
        let header = |name| request.header(name).unwrap_or_else(|| panic!("no {name}"));
        let came = (SystemTime::now() - Instant::now().duration_since(arrival.at)).duration_since(UNIX_EPOCH);
        let came = came.expect("after 1970").as_secs() as i64;
        let (timestamp, tolerance) = (header("webhook-timestamp"), Span::from_secs(300));
        let (id, signature) = (header("webhook-id"), header("webhook-signature"));
        assert_eq!(id, "e1");
        let standard = verify_standard(id, timestamp, signature, &request.body, &[&secret], came, tolerance);
        assert_eq!(standard, Ok(()), "attempt {}", arrival.attempt);
        let both = header("posthaste-signature");
        assert_eq!(verify_timestamped(both, &request.body, &[&secret], came, tolerance), Ok(()));
        assert!(both.starts_with(&format!("t={timestamp},")), "{both}");
        let timestamp: i64 = timestamp.parse().expect("a number");
        assert!(came.abs_diff(timestamp) <= 5, "signed when it is sent: {timestamp}, and came at {came}");
        signed_at.push(timestamp);
    }
    assert!(signed_at.windows(2).all(|pair| pair[0] < pair[1]), "{signed_at:?}");
    let waits: Vec<Duration> = ledger.windows(2).map(|pair| pair[1].at - pair[0].at).collect();
    assert!(waits[1] > Duration::from_secs(2), "{waits:?}");
}
