//! What a reader sees while the world changes (S24), and the bytes of what was posted (S2, C31–C36).

use std::collections::{HashMap, HashSet};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::SOON;
use crate::support::receiver::{Receiver, Reply};
use crate::support::server::{Options, Server, beside_others, text, wait_for};

const CALLERS: usize = 8;
const EACH: usize = 40;

/// Follows a list by `resume` until `done` says so on a page that is the last for now; returns each row as it was seen
/// last, by its id.
fn follow(server: &Server, list: &str, done: impl Fn(&HashMap<String, Value>) -> bool) -> HashMap<String, Value> {
    let mut client = server.client();
    let mut get = |path: &str| client.send("GET", path, b"").expect("an answer").json(200);
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut seen: HashMap<String, Value> = HashMap::new();
    let mut last_change = String::new();
    let mut page = get(&format!("{list}?limit=7&updated_after=2020-01-01T00:00:00Z"));
    loop {
        let rows = page["data"].as_array().expect("data");
        assert!(rows.len() <= 7);
        for row in rows {
            let changed = text(&row["updated_at"]);
            assert!(changed >= last_change, "oldest change first");
            last_change = changed;
            seen.insert(text(&row["id"]), row.clone());
        }
        if page["next_cursor"].is_null() {
            if done(&seen) {
                return seen;
            }
            assert!(Instant::now() < deadline, "the world does not come to rest");
            thread::sleep(Duration::from_millis(5));
        }
        page = get(&format!("{list}?limit=7&cursor={}", text(&page["resume"])));
    }
}

#[test]
fn s24_a_walk_by_changes_sees_the_last_state_of_everything() {
    let _machine = beside_others();
    // Half of the attempts fail: the first of every other event, and some events for ever.
    let receiver = Receiver::start(|arrival| {
        let number: usize = arrival.event.rsplit('-').next().and_then(|text| text.parse().ok()).expect("a number");
        Reply::Answer(if number % 8 == 7 || number % 2 == 1 && arrival.attempt == 1 { 503 } else { 200 })
    });
    let server = Server::start(Options::default());
    let policy = json!({"schedule": {"ladder": ["50ms", "100ms"]}, "jitter": 0.2, "auto_disable": null});
    for kind in ["*", "order.*"] {
        server.endpoint(json!({"url": receiver.url("/"), "event_types": [kind], "policy": policy}));
    }
    let expected = CALLERS * EACH * 2;
    let settled = |seen: &HashMap<String, Value>| {
        let over = |row: &&Value| row["state"] == "delivered" || row["state"] == "dead";
        seen.values().filter(over).count() == expected
    };
    let counted = |seen: &HashMap<String, Value>| {
        let over = |row: &&Value| row["deliveries"]["pending"] == 0 && row["deliveries"]["failed"] == 0;
        seen.values().filter(over).count() == CALLERS * EACH
    };
    let (deliveries, events) = thread::scope(|scope| {
        let deliveries = scope.spawn(|| follow(&server, "/deliveries", settled));
        let events = scope.spawn(|| follow(&server, "/events", counted));
        for caller in 0..CALLERS {
            let mut client = server.client();
            scope.spawn(move || {
                for n in 0..EACH {
                    let body = json!({"id": format!("e{caller}-{n}"), "type": "order.created", "data": {"n": n}});
                    let answer = client.send("POST", "/events", body.to_string().as_bytes()).expect("an answer");
                    assert_eq!(answer.status, 202);
                }
            });
        }
        (deliveries.join().expect("a walk"), events.join().expect("a walk"))
    });
    assert_eq!(deliveries.len(), expected);
    let mut states: HashMap<String, usize> = HashMap::new();
    for (id, row) in &deliveries {
        let mut whole = server.delivery(id);
        whole.as_object_mut().expect("an object").remove("attempts");
        assert_eq!(*row, whole, "as it was seen last");
        *states.entry(text(&row["state"])).or_default() += 1;
    }
    println!("{expected} deliveries, last states {states:?}, {} requests", receiver.count());
    for (id, row) in &events {
        let whole = server.get(&format!("/events/{id}"));
        let members: HashSet<&str> = HashSet::from(["id", "type", "created_at", "received_at", "updated_at", "size"]);
        assert!(members.iter().all(|&name| row[name] == whole[name]), "{row} is not {whole}");
        let counts = |state: &str| {
            whole["deliveries"].as_array().into_iter().flatten().filter(|one| one["state"] == state).count()
        };
        for state in ["pending", "failed", "delivered", "dead"] {
            assert_eq!(row["deliveries"][state], counts(state), "{state} of {row}");
        }
    }
}

/// Awkward JSON that must pass untouched.
const AWKWARD: &[&str] = &[
    // C31: odd spacing, a duplicate key, escapes.
    "{\"b\":1, \"a\":{\"z\":0,\"y\":[]},\"a\":2,\"s\":\"\\u00e9/\\/\"}",
    // C32: numbers that no double holds.
    "{\"id\":8202522731445525542,\"u\":18446744073709551615,\"h\":123456789012345678901234567890,\"e\":1E400,\"z\":-0.0}",
    // C33: lone surrogates, an escaped pair, a raw one.
    "{\"s\":\"\\ud800\",\"t\":\"\\udc00x\",\"\\ud800\":1,\"p\":\"\\ud83d\\ude00\",\"raw\":\"\u{1f600}\"}",
    // C35: composed, decomposed, line separator.
    "{\"c\":\"\u{e9}\",\"d\":\"e\u{301}\",\"l\":\"\u{2028}\"}",
    // C36: an escaped NUL.
    "{\"s\":\"a\\u0000b\"}",
    "[ ]",
    "null",
    "\"\"",
    " 0 ",
];

#[test]
fn s02_data_is_the_same_bytes_for_receivers_retries_and_readers() {
    let _machine = beside_others();
    let receiver = Receiver::start(|arrival| Reply::Answer(if arrival.attempt < 3 { 503 } else { 200 }));
    let mut server = Server::start(Options::default());
    let policy = json!({"schedule": {"ladder": ["50ms", "1500ms"]}, "jitter": 0, "auto_disable": null});
    server.endpoint(json!({"url": receiver.url("/"), "policy": policy}));
    for (number, data) in AWKWARD.iter().enumerate() {
        let body = format!("{{\"id\":\"e{number}\",\"type\":\"a.b\",\"data\":{data}}}\n");
        let answer = server.client().send("POST", "/events", body.as_bytes()).expect("an answer");
        assert_eq!(answer.status, 202, "{data}: {}", String::from_utf8_lossy(&answer.body));
    }
    receiver.wait("two attempts of each", SOON, |ledger| ledger.len() == AWKWARD.len() * 2);
    wait_for("they are recorded", SOON, || {
        let all = server.all("/deliveries");
        all.iter().all(|delivery| delivery["attempts_total"] == 2).then_some(())
    });
    server.kill();
    server.restart();
    receiver.wait("a third after a restart", SOON, |ledger| ledger.len() == AWKWARD.len() * 3);
    let ledger = receiver.ledger();
    for (number, data) in AWKWARD.iter().enumerate() {
        let id = format!("e{number}");
        let bodies: HashSet<&[u8]> =
            ledger.iter().filter(|one| one.event == id).map(|one| one.request.body.as_slice()).collect();
        assert_eq!(bodies.len(), 1, "{data}: the same bytes at every attempt");
        let body = bodies.into_iter().next().expect("one");
        // White space around a value belongs to nobody.
        let tail = format!(",\"data\":{}}}", data.trim());
        assert!(body.ends_with(tail.as_bytes()), "{data}: {}", String::from_utf8_lossy(body));
        let answer = server.client().send("GET", &format!("/events/{id}"), b"").expect("an answer");
        let shown = String::from_utf8_lossy(&answer.body).into_owned();
        assert_eq!(answer.status, 200);
        assert!(shown.contains(&format!("\"data\":{}", data.trim())), "{data}: {shown}");
    }
}
