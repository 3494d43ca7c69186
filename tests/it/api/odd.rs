//! What nobody thought of: odd bodies, queries, paths and headers, made at random, for every route there is.

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use super::*;
use crate::support::seed::seed;

/// Routes with a body, and one that is right for each.
fn posts(endpoint: &str, delivery: &str) -> Vec<(&'static str, String, Value)> {
    let event = json!({"type": "a", "data": {"x": [1, "y"]}, "id": "e", "created_at": "2026-09-03T12:04:01Z"});
    let whole = json!({
        "url": "https://example.com", "description": "d", "event_types": ["a.*"], "headers": {"A": "1"},
        "policy": {"preset": "salaf", "schedule": {"exponential": {"initial": "1s", "factor": 2, "retries": 3}},
            "responses": [{"status": "500-599", "action": "retry"}], "auto_disable": {"failures": 5}},
        "header_prefix": "P", "max_in_flight": 3, "metadata": {"a": {"b": 1}},
    });
    let bulk = json!({"endpoint_id": endpoint, "event_type": "a", "since": "2026-09-03T12:04:01Z", "limit": 5});
    vec![
        ("POST", "/events".into(), event.clone()),
        ("POST", "/events/batch".into(), json!({"events": [event]})),
        ("POST", "/endpoints".into(), whole.clone()),
        ("PATCH", format!("/endpoints/{endpoint}"), whole),
        ("POST", format!("/endpoints/{endpoint}/disable"), json!({"reason": "x"})),
        ("POST", format!("/endpoints/{endpoint}/enable"), json!({})),
        (
            "POST",
            format!("/endpoints/{endpoint}/secret/rotate"),
            json!({"secret": "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz", "overlap": "24h"}),
        ),
        ("POST", "/policies/simulate".into(), json!({"policy": "orbit", "script": ["503"], "events": {"count": 2}})),
        ("POST", format!("/endpoints/{endpoint}/ping"), json!({})),
        ("DELETE", "/endpoints/ep_none".into(), json!({})),
        ("POST", format!("/deliveries/{delivery}/retry"), json!({})),
        ("POST", format!("/dlq/{delivery}/requeue"), json!({})),
        ("POST", "/notifications/ntf_none/read".into(), json!({})),
        ("POST", "/dlq/requeue".into(), bulk),
    ]
}

/// Values that somebody might put anywhere.
fn odd() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,20}".prop_map(Value::from),
        prop::sample::select(vec![
            "",
            "\0",
            "-1d",
            "99999999999d",
            "1e9",
            "9999-12-31T23:59:60Z",
            "***",
            "whsec_",
            "a.*"
        ])
        .prop_map(Value::from),
        Just(json!([])),
        Just(json!({})),
        Just(json!([[[{"a": null}]]])),
        Just(json!({"": {"": []}, "preset": "orbit"})),
    ]
}

/// Puts `with` at the `at`-th place of a value, counted through.
fn spoil(value: &mut Value, at: &mut usize, with: &Value) {
    if *at == 0 {
        *value = with.clone();
        *at = usize::MAX;
        return;
    }
    *at -= 1;
    match value {
        Value::Array(elements) => elements.iter_mut().for_each(|element| spoil(element, at, with)),
        Value::Object(members) => members.values_mut().for_each(|member| spoil(member, at, with)),
        _ => {}
    }
}

/// The routes in `src/api/mod.rs`, as method and pattern.
fn declared() -> Vec<(String, String)> {
    let source = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/api/mod.rs")).unwrap();
    let routes = source.lines().filter_map(|line| line.trim().strip_prefix('"')?.split_once("\": "));
    let routes = routes.flat_map(|(path, handlers)| {
        let methods = handlers.split(", ").map(|handler| handler.split(' ').next().unwrap().to_owned());
        methods.map(move |method| (method, path.to_owned()))
    });
    routes.collect()
}

fn fits(pattern: &str, path: &str) -> bool {
    let (pattern, path): (Vec<_>, Vec<_>) = (pattern.split('/').collect(), path.split('/').collect());
    pattern.len() == path.len() && pattern.iter().zip(&path).all(|(want, got)| want.starts_with('{') || want == got)
}

#[test]
fn every_route_that_changes_something_gets_odd_bodies() {
    let posts = posts("ep_1", "dlv_1");
    let changing: Vec<_> = declared().into_iter().filter(|(method, _)| method != "GET").collect();
    assert!(changing.len() >= 14, "{changing:?}");
    for (method, pattern) in changing {
        let is_there = posts.iter().any(|(known, path, _)| *known == method && fits(&pattern, path));
        assert!(is_there, "{method} {pattern} is not in posts()");
    }
}

/// What is stored, by way of the newest of each list.
async fn stored(server: &Server) -> Vec<String> {
    let mut all = Vec::new();
    for list in ["/events", "/endpoints", "/deliveries"] {
        let list = server.get(&format!("{list}?limit=100")).await.ok(200);
        all.extend(list["data"].as_array().unwrap().iter().map(|one| text(&one["id"])));
    }
    all
}

/// A refusal says which field it is about.
#[track_caller]
fn is_named(got: &Got) {
    let body = got.json();
    let named = body["errors"].as_array().is_some_and(|errors| !errors.is_empty());
    assert!(named && body["code"] == "validation", "{got:?}");
}

fn runner() -> TestRunner {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed().to_le_bytes());
    TestRunner::new_with_rng(Config::default(), TestRng::from_seed(RngAlgorithm::ChaCha, &bytes))
}

/// No body makes a 500, and none that is refused leaves anything: right ones with something odd in them, cut off or with a
/// byte changed.
#[actix_web::test]
async fn no_body_makes_a_500() {
    let server = Server::start().await;
    let receiver = refusing();
    let (endpoint, delivery) = server.dead(&receiver).await;
    let posts = posts(&endpoint, &delivery);
    let cases = (0..posts.len(), 0..24usize, odd(), any::<prop::sample::Index>(), any::<Option<u8>>(), 0..4u8);
    let mut runner = runner();
    let mut before = stored(&server).await;
    for _ in 0..600 {
        let tree = cases.new_tree(&mut runner).unwrap();
        let (route, mut place, value, index, byte, kind) = tree.current();
        let (method, path, mut body) = posts[route].clone();
        spoil(&mut body, &mut place, &value);
        let mut bytes = body.to_string().into_bytes();
        let at = index.index(bytes.len());
        match (kind, byte) {
            (0, _) => bytes.truncate(at),
            (1, Some(byte)) => bytes[at] = byte,
            _ => {}
        }
        let headers = [("X-API-Key", KEY), ("Content-Type", "application/json")];
        let got = server.send(method, &path, &headers, bytes.clone()).await;
        let known = [200, 201, 202, 400, 404, 409];
        assert!(known.contains(&got.status), "{method} {path} {}: {got:?}", String::from_utf8_lossy(&bytes));
        if got.status == 400 {
            is_named(&got);
        }
        let after = stored(&server).await;
        assert!(got.status < 400 || before == after, "{method} {path} left something: {got:?}");
        before = after;
    }
    server.stop().await;
}

/// What people put into an address: nearly right ids and values, and anything else.
fn odd_text(ids: Vec<String>) -> impl Strategy<Value = String> {
    let words =
        ["", "0", "-1", "1e3", "9223372036854775808", "true", "a.*", "**", "2026-09-03T12:04:01Z", "9999-99-99T", "%"];
    prop_oneof![
        4 => prop::sample::select(ids.clone()),
        2 => (prop::sample::select(ids), ".{0,3}").prop_map(|(id, more)| id + &more),
        4 => prop::sample::select(words.map(str::to_owned).to_vec()),
        2 => ".{0,12}",
        1 => (100usize..3_000).prop_map(|count| "x".repeat(count)),
    ]
}

/// No query, no path and no header makes a 500.
#[actix_web::test]
async fn no_address_makes_a_500() {
    let server = Server::start().await;
    let receiver = refusing();
    let (endpoint, delivery) = server.dead(&receiver).await;
    let page = server.get("/events?limit=1").await.ok(200);
    let event = text(&page["data"][0]["id"]);
    let cursor = text(&server.get("/deliveries?updated_after=2020-01-01T00:00:00Z").await.ok(200)["resume"]);
    let routes = declared();
    let names = [
        "limit",
        "cursor",
        "updated_after",
        "state",
        "endpoint_id",
        "event_id",
        "event_type",
        "status",
        "error_kind",
        "created_after",
        "created_before",
        "since",
        "until",
        "unread",
        "dry_run",
        "kind",
        "x",
    ];
    let ids = vec![endpoint, delivery, event, cursor];
    let query = proptest::collection::vec((prop::sample::select(names.to_vec()), odd_text(ids.clone())), 0..4);
    let cases = (0..routes.len(), odd_text(ids.clone()), query, prop::option::of("[ -~\u{80}-\u{ff}]{0,300}"));
    let mut runner = runner();
    for _ in 0..800 {
        let (route, id, query, header) = cases.new_tree(&mut runner).unwrap().current();
        let (method, pattern) = &routes[route];
        let mut address = url::Url::parse("http://x/").unwrap();
        let segments = pattern.split('/').filter(|part| !part.is_empty());
        address
            .path_segments_mut()
            .unwrap()
            .clear()
            .extend(segments.map(|part| if part.starts_with('{') { &id } else { part }));
        if !query.is_empty() {
            address.query_pairs_mut().extend_pairs(&query);
        }
        let path = address[url::Position::BeforePath..].to_owned();
        let mut headers = vec![("X-API-Key", KEY), ("Content-Type", "application/json")];
        headers.extend(header.as_deref().map(|value| ("Idempotency-Key", value)));
        let got = server.send(method, &path, &headers, if method == "GET" { "" } else { "{}" }).await;
        let known = [200, 201, 202, 204, 400, 404, 405, 409, 414];
        assert!(known.contains(&got.status), "{method} {path} {header:?}: {got:?}");
        if got.status == 400 {
            is_named(&got);
        }
    }
    server.stop().await;
}
