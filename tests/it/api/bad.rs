//! Bad input of every kind: a 4xx that names the field, nothing stored. What nobody thought of is in [`super::odd`].

use super::*;

async fn nothing_stored(server: &Server) {
    for list in ["/events", "/endpoints", "/deliveries"] {
        assert_eq!(server.count(list).await, 0, "{list}");
    }
}

/// C33, C34, C36, C40, C87.
#[actix_web::test]
async fn bad_events_are_named_and_not_stored() {
    let server = Server::start().await;
    let deep = |depth: usize| format!(r#"{{"type": "a", "data": {}}}"#, "[".repeat(depth) + &"]".repeat(depth));
    for (body, fields) in [
        ("", &[""][..]),
        ("{", &[""]),
        ("null", &[""]),
        ("[]", &[""]),
        ("\u{feff}{}", &[""]),
        (r#"{"type": "a", "data": 1} x"#, &[""]),
        (r#"{"type": "a", "data": 1}{"type": "a", "data": 1}"#, &[""]),
        ("{}", &["type", "data"]),
        (r#"{"type": "a"}"#, &["data"]),
        (r#"{"data": 1}"#, &["type"]),
        (r#"{"type": "a", "data": 1, "data": 1}"#, &["data"]),
        (r#"{"type": "a", "data": 1, "dta": 1, "Type": 1}"#, &["dta", "Type"]),
        (r#"{"type": "a b", "data": 1}"#, &["type"]),
        (r#"{"type": "a\r\nX: 1", "data": 1}"#, &["type"]),
        (r#"{"type": "posthaste", "data": 1}"#, &["type"]),
        (r#"{"type": "posthaste.ping", "data": 1}"#, &["type"]),
        (r#"{"type": ["a"], "data": 1}"#, &["type"]),
        (r#"{"type": "a", "data": 1, "id": "a.1700000000.{}"}"#, &["id"]),
        (r#"{"type": "a", "data": 1, "id": "a b"}"#, &["id"]),
        (r#"{"type": "a", "data": 1, "id": "a\r"}"#, &["id"]),
        (r#"{"type": "a", "data": 1, "id": ""}"#, &["id"]),
        (r#"{"type": "a", "data": 1, "id": "batch"}"#, &["id"]),
        (r#"{"type": "a", "data": 1, "id": "é"}"#, &["id"]),
        (r#"{"type": "a", "data": 1, "id": 7}"#, &["id"]),
        (r#"{"type": "a", "data": 1, "created_at": 1788437041}"#, &["created_at"]),
        (r#"{"type": "a", "data": 1, "created_at": "2026-09-03"}"#, &["created_at"]),
        (r#"{"type": "a", "data": 1, "endpoint_ids": "ep_1"}"#, &["endpoint_ids"]),
        (r#"{"type": "a", "data": 1, "endpoint_ids": [1]}"#, &["endpoint_ids[0]"]),
        (&deep(129), &["data"]),
        (&deep(20_000), &["data"]),
    ] {
        server.call_text("POST", "/events", body).await.problem(400, "validation", fields);
    }
    let long = json!({"type": "a".repeat(129), "data": 1, "id": "x".repeat(300)});
    server.post("/events", long).await.problem(400, "validation", &["type", "id"]);
    let headers = [("X-API-Key", KEY), ("Content-Type", "application/json")];
    for bytes in [&b"{\"type\":\"a\",\"data\":\"\xff\"}"[..], b"\xff\xfe{}", b"{\"type\":\"a\",\"data\":\"\x00\"}"] {
        server.send("POST", "/events", &headers, bytes).await.problem(400, "validation", &[""]);
    }
    server.call_text("POST", "/events?dry_run=1", "{}").await.problem(400, "validation", &["dry_run"]);
    nothing_stored(&server).await;
    server.stop().await;
}

#[actix_web::test]
async fn bad_endpoints_are_named_and_not_stored() {
    let server = Server::start_with(|given| given.allow_target = None).await;
    for (members, fields) in [
        (json!({}), &["url"][..]),
        (json!({"url": "http://127.0.0.1/"}), &["url"]),
        (json!({"url": "http://2130706433/"}), &["url"]),
        (json!({"url": "http://0/"}), &["url"]),
        (json!({"url": "http://①②⑦.0.0.1/"}), &["url"]),
        (json!({"url": "http://[::1]/"}), &["url"]),
        (json!({"url": "http://169.254.169.254/"}), &["url"]),
        (json!({"url": "http://ok.test\\@127.0.0.1/"}), &["url"]),
        (json!({"url": "http://user:pw@ok.test/"}), &["url"]),
        (json!({"url": "http:///x"}), &["url"]),
        (json!({"url": "https://ok.test/\n"}), &["url"]),
        (json!({"url": "https://ok.test:99999/"}), &["url"]),
        (json!({"url": "x".repeat(9_000)}), &["url"]),
        (json!({"url": "https://ok.test/{}"}), &["url"]),
        (json!({"url": "https://ok.test", "event_types": [], "policy": 1, "x": 2}), &["x", "event_types", "policy"]),
        (json!({"url": "https://ok.test", "headers": {"Host": "x"}}), &["headers.Host"]),
        (json!({"url": "https://ok.test", "headers": {"A": "1\n"}}), &["headers.A"]),
        (json!({"url": "https://ok.test", "secret": "hunter2"}), &["secret"]),
        (json!({"url": "https://ok.test", "max_in_flight": 1.5}), &["max_in_flight"]),
        (json!({"url": "https://ok.test", "metadata": {"a": "x".repeat(20_000)}}), &["metadata"]),
        (json!({"url": "https://ok.test", "description": "x".repeat(1_001)}), &["description"]),
        (
            json!({"url": "https://ok.test", "policy": {"schedule": {"ladder": vec!["1s"; 50]}}}),
            &["policy.schedule.ladder"],
        ),
    ] {
        let got = server.post("/endpoints", members).await;
        got.problem(400, "validation", fields);
        assert!(!got.text.contains("hunter2") && !got.text.contains("pw@"), "{got:?}");
    }
    let many: Vec<_> = (0..500).map(|number| format!("\"H{number}\": \"1\"")).collect();
    let body = format!(r#"{{"url": "https://ok.test", "headers": {{{}}}}}"#, many.join(","));
    server.call_text("POST", "/endpoints", &body).await.problem(400, "validation", &["headers"]);
    nothing_stored(&server).await;
    server.stop().await;
}

#[actix_web::test]
async fn a_url_is_kept_as_it_was_written() {
    let server = Server::start().await;
    for url in [
        "https://example.com/a%2Fb/../c//?x=1%3A2&x=3&sig=a+b%2B&e=#frag",
        "https://example.com",
        "https://EXAMPLE.com./",
        "https://bücher.example/x",
        "http://example.com:8443/?",
    ] {
        assert_eq!(server.endpoint(url, json!({})).await["url"], url);
    }
    server.stop().await;
}

#[actix_web::test]
async fn https_can_be_insisted_on() {
    let server = Server::start_with(|given| given.https_only = Some(true)).await;
    server.post("/endpoints", json!({"url": "http://example.com"})).await.problem(400, "validation", &["url"]);
    let endpoint = server.endpoint("https://example.com", json!({})).await;
    let path = format!("/endpoints/{}", text(&endpoint["id"]));
    server.call("PATCH", &path, json!({"url": "http://example.com"})).await.problem(400, "validation", &["url"]);
    server.stop().await;
}

/// C77.
#[actix_web::test]
async fn c77_bodies_are_json_by_name() {
    let server = Server::start().await;
    let event = r#"{"type": "a", "data": 1}"#;
    let post = async |headers: &[(&str, &str)]| {
        let mut all = vec![("X-API-Key", KEY)];
        all.extend(headers);
        server.send("POST", "/events", &all, event).await
    };
    for good in ["application/json", "application/json; charset=utf-8", "application/cloudevents+json"] {
        post(&[("Content-Type", good)]).await.ok(202);
    }
    for bad in ["text/plain", "application/x-www-form-urlencoded", "application/xml", "json"] {
        post(&[("Content-Type", bad)]).await.problem(415, "unsupported_media_type", &[]);
    }
    let zipped = [("Content-Type", "application/json"), ("Content-Encoding", "gzip")];
    post(&zipped).await.problem(415, "unsupported_media_type", &[]);
    assert_eq!(server.count("/events").await, 3);
    server.stop().await;
}
