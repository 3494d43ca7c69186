//! What one request holds is its own (C64).

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::SOON;
use crate::support::receiver::Receiver;
use crate::support::server::{Options, Server, beside_others};

/// Header fields of a request, by lower-case name.
fn fields(head: &str) -> BTreeMap<String, Vec<String>> {
    let mut fields: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, value) in head.lines().skip(1).filter_map(|line| line.split_once(": ")) {
        fields.entry(name.to_ascii_lowercase()).or_default().push(value.to_owned());
    }
    fields
}

#[test]
fn c64_every_request_holds_its_own_event_and_its_endpoints_headers_once() {
    let _machine = beside_others();
    let receiver = Receiver::always(200);
    let server = Server::start(Options::default());
    let paths = ["/plain", "/query?token=1&x=%20"];
    for (number, path) in paths.iter().enumerate() {
        let headers = json!({format!("X-Own-{number}"): number.to_string()});
        server.endpoint(json!({"url": receiver.url(path), "headers": headers}));
    }
    for n in 0..5 {
        let data = json!({"n": n, "pad": "x".repeat(10 * n)});
        server.post("/events", &json!({"id": format!("e{n}"), "type": "a.b", "data": data}), 202);
        receiver.wait("both have it", SOON, |ledger| ledger.len() == 2 * (n + 1));
    }
    let mut names = BTreeMap::new();
    for arrival in receiver.ledger() {
        let body: Value = serde_json::from_slice(&arrival.request.body).expect("JSON and nothing behind it");
        let n: usize = arrival.event[1..].parse().expect("a number");
        assert_eq!((&body["id"], &body["data"]["n"]), (&json!(arrival.event), &json!(n)));
        assert_eq!(body["data"]["pad"].as_str().map(str::len), Some(10 * n));
        let number = paths.iter().position(|path| *path == arrival.path).expect("as it was given");
        let fields = fields(&arrival.request.head);
        assert!(fields.values().all(|values| values.len() == 1), "{fields:?}");
        assert_eq!(fields.get(&format!("x-own-{number}")), Some(&vec![number.to_string()]));
        assert!(!fields.contains_key(&format!("x-own-{}", 1 - number)), "{fields:?}");
        let known = names.entry(number).or_insert_with(|| fields.keys().cloned().collect::<Vec<_>>());
        assert_eq!(*known, fields.keys().cloned().collect::<Vec<_>>(), "the same fields each time");
    }
}
