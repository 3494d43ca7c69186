//! Endpoints: create, read, edit, delete, ping, secrets, status.

use super::*;

#[actix_web::test]
async fn an_endpoint_is_answered_as_in_the_contract() {
    let server = Server::start().await;
    let body = json!({
        "url": "https://example.com/hooks?a=b%20c#frag", "description": "shop", "event_types": ["order.*", "invoice.paid"],
        "policy": {"preset": "salaf", "timeout": "5s"}, "headers": {"X-Shop": "42", "Authorization": "Bearer s3cret"},
        "header_prefix": "X-Salaf", "max_in_flight": 3, "secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "metadata": {"plan": 3, "nested": {"a": [null]}},
    });
    let created = server.post("/endpoints", body.clone()).await;
    let shown = created.ok(201);
    assert!(text(&shown["id"]).starts_with("ep_"));
    for member in ["url", "description", "event_types", "header_prefix", "max_in_flight", "secret", "metadata"] {
        assert_eq!(shown[member], body[member], "{member}");
    }
    assert_eq!((&shown["policy"]["preset"], &shown["policy"]["timeout"]), (&json!("salaf"), &json!("5s")));
    assert_eq!(shown["policy"]["schedule"]["ladder"].as_array().unwrap().len(), 8, "resolved");
    assert_eq!(shown["headers"], json!({"X-Shop": "****", "Authorization": "****"}));
    assert_eq!(shown["status"], "enabled");
    assert_eq!((&shown["disabled_reason"], &shown["disabled_at"]), (&Value::Null, &Value::Null));

    let read = server.get(&format!("/endpoints/{}", text(&shown["id"]))).await;
    let mut expected = shown.clone();
    expected.as_object_mut().unwrap().remove("secret");
    assert_eq!(read.ok(200), expected);
    assert_eq!(server.get("/endpoints").await.ok(200)["data"], json!([expected]));
    assert!(!read.text.contains("s3cret") && !read.text.contains("MfKQ9r8"));

    let least = server.endpoint("https://example.com", json!({})).await;
    assert_eq!((&least["event_types"], &least["header_prefix"]), (&json!(["*"]), &json!("Posthaste")));
    assert_eq!((&least["max_in_flight"], &least["policy"]["preset"]), (&json!(16), &json!("orbit")));
    assert_eq!(text(&least["secret"]).len(), "whsec_".len() + 44);
    let ordered = r#"{"url": "https://example.com", "headers": {"Z": "1", "A": "2", "M": "3"}}"#;
    let got = server.call_text("POST", "/endpoints", ordered).await;
    assert!(got.text.contains(r#""headers":{"Z":"****","A":"****","M":"****"}"#), "the owner's order: {got:?}");
    server.stop().await;
}

#[actix_web::test]
async fn endpoints_are_listed_by_status_and_by_what_they_want() {
    let server = Server::start().await;
    let new =
        async |types: Value| text(&server.endpoint("https://example.com", json!({"event_types": types})).await["id"]);
    let orders = new(json!(["order.*"])).await;
    let created = new(json!(["x", "order.created"])).await;
    let all = new(Value::Null).await;
    let upper = new(json!(["ORDER.*", "orders.*", "order"])).await;
    server.post(&format!("/endpoints/{orders}/disable"), json!({})).await.ok(200);
    let check = async |query: &str, wanted: &[&String]| {
        let got = server.get(&format!("/endpoints?{query}")).await.ok(200);
        let ids: Vec<_> = got["data"].as_array().unwrap().iter().map(|endpoint| text(&endpoint["id"])).collect();
        assert_eq!(ids.iter().collect::<Vec<_>>(), wanted, "{query}");
    };
    check("", &[&upper, &all, &created, &orders]).await;
    check("status=disabled", &[&orders]).await;
    check("status=auto_disabled", &[]).await;
    check("event_type=order.created", &[&all, &created, &orders]).await;
    check("event_type=order.created.v2", &[&all, &orders]).await;
    check("event_type=order", &[&upper, &all]).await;
    check("event_type=ORDER.x", &[&upper, &all]).await;
    check("event_type=order.created&status=enabled", &[&all, &created]).await;
    let first = server.get("/endpoints?event_type=order.created&limit=2").await.ok(200);
    let rest = format!("/endpoints?event_type=order.created&limit=2&cursor={}", text(&first["next_cursor"]));
    let second = server.get(&rest).await.ok(200);
    assert_eq!((&second["data"][0]["id"], &second["next_cursor"]), (&json!(orders), &Value::Null));
    server.get("/endpoints?event_type=order.*").await.problem(400, "validation", &["event_type"]);
    server.get("/endpoints?status=on").await.problem(400, "validation", &["status"]);
    server.stop().await;
}

#[actix_web::test]
async fn a_patch_changes_what_it_names() {
    let server = Server::start().await;
    let before =
        server.endpoint("https://example.com/a", json!({"headers": {"A": "1", "B": "2"}, "policy": "salaf"})).await;
    let path = format!("/endpoints/{}", text(&before["id"]));
    let patch = async |body: Value| server.call("PATCH", &path, body).await;
    let after = patch(json!({"description": "shop", "headers": {"B": null, "C": "3"}})).await.ok(200);
    assert_eq!(after["description"], "shop");
    assert_eq!(after["headers"], json!({"A": "****", "C": "****"}));
    assert_eq!(after["policy"], before["policy"]);
    assert!(after["updated_at"].as_str() > before["updated_at"].as_str());
    assert_eq!(after["created_at"], before["created_at"]);
    // C85, and no change at all.
    for same in [json!({}), json!({"description": "shop", "headers": {"C": "3"}})] {
        assert_eq!(patch(same).await.ok(200), after);
    }
    // C86: what was shown cannot be saved.
    patch(json!({"headers": after["headers"]})).await.problem(400, "validation", &["headers.A"]);
    patch(after.clone()).await.problem(
        400,
        "validation",
        &["created_at", "disabled_at", "disabled_reason", "id", "status", "updated_at", "headers.A"],
    );
    let defaults = patch(json!({"policy": null, "description": null, "max_in_flight": null})).await.ok(200);
    assert_eq!((&defaults["policy"]["preset"], &defaults["description"]), (&json!("orbit"), &json!("")));
    // Another origin takes the headers away.
    let moved = patch(json!({"url": "https://example.org/a"})).await.ok(200);
    assert_eq!(moved["headers"], json!({}));
    patch(json!({"url": null})).await.problem(400, "validation", &["url"]);
    patch(json!({"secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"})).await.problem(400, "validation", &["secret"]);
    assert_eq!(server.get(&path).await.ok(200), moved);
    server.call("PATCH", "/endpoints/ep_x", json!({})).await.problem(404, "not_found", &[]);
    server.stop().await;
}

/// S22: what is edited holds from the next attempt on.
#[actix_web::test]
async fn s22_the_next_attempt_goes_out_as_edited() {
    let server = Server::start().await;
    let (old, new) = (refusing(), taking());
    let policy = json!({"schedule": {"ladder": ["1h"]}, "responses": [], "auto_disable": null});
    let endpoint = server.endpoint(&old.url("/old"), json!({"policy": policy, "headers": {"X-Old": "1"}})).await;
    let path = format!("/endpoints/{}", text(&endpoint["id"]));
    let delivery = server.event().await;
    server.until(&delivery, "failed").await;
    assert_eq!(server.get(&format!("{path}/status")).await.ok(200)["failure_streak"]["failures"], 1);
    let body = json!({"url": new.url("/new"), "headers": {"X-New": "2"}});
    server.call("PATCH", &path, body).await.ok(200);
    let status = server.get(&format!("{path}/status")).await.ok(200);
    assert_eq!(status["failure_streak"], json!({"failures": 0, "since": null}), "S22: another URL clears the streak");
    server.act(&format!("/deliveries/{delivery}/retry")).await.ok(202);
    server.until(&delivery, "delivered").await;
    let request = new.only_request();
    assert_eq!(request.request_line(), "POST /new HTTP/1.1");
    assert_eq!((request.header("x-new"), request.header("x-old")), (Some("2"), None));
    server.stop().await;
}

#[actix_web::test]
async fn a_ping_is_an_attempt_that_counts_nowhere() {
    let server = Server::start().await;
    let receiver = RawReceiver::answering("HTTP/1.1 410 Gone\r\nContent-Length: 11\r\n\r\nno such\nbox");
    let endpoint = server.endpoint(&receiver.url("/p"), json!({"policy": "orbit", "headers": {"X-A": "1"}})).await;
    let path = format!("/endpoints/{}", text(&endpoint["id"]));
    let got = server.act(&format!("{path}/ping")).await.ok(200);
    assert_eq!((&got["status"], &got["outcome"], &got["trigger"]), (&json!(410), &Value::Null, &json!("ping")));
    assert_eq!((&got["excerpt"], &got["excerpt_truncated"]), (&json!("no such\nbox"), &json!(false)));
    assert!(
        text(&got["id"]).starts_with("att_") && got["duration_ms"].is_u64() && got["timing"]["connect_ms"].is_u64()
    );
    let request = receiver.only_request();
    assert_eq!(request.header("posthaste-event-type"), Some("posthaste.ping"));
    assert_eq!(request.header("x-a"), Some("1"));
    assert!(request.header("webhook-signature").is_some_and(|signature| signature.starts_with("v1,")));
    let body: Value = serde_json::from_slice(&request.body).unwrap();
    assert_eq!((&body["type"], &body["data"]), (&json!("posthaste.ping"), &json!({"endpoint_id": endpoint["id"]})));
    // S13, C80: no rule, no streak, no event, no delivery.
    let status = server.get(&format!("{path}/status")).await.ok(200);
    assert_eq!((&status["status"], &status["failure_streak"]["failures"]), (&json!("enabled"), &json!(0)));
    assert_eq!((&status["last_attempt"], server.count("/events").await), (&Value::Null, 0));
    server.get(&format!("/deliveries/{}", request.header("posthaste-delivery-id").unwrap())).await.problem(
        404,
        "not_found",
        &[],
    );

    let good = taking();
    server.call("PATCH", &path, json!({"url": good.url("/p")})).await.ok(200);
    server.post(&format!("{path}/disable"), json!({})).await.ok(200);
    assert_eq!(server.act(&format!("{path}/ping")).await.ok(200)["outcome"], "delivered", "works on a disabled one");
    let closed = TakenPort::closed();
    server.call("PATCH", &path, json!({"url": format!("http://{}/p", closed.address)})).await.ok(200);
    let refused = server.act(&format!("{path}/ping")).await.ok(200);
    assert_eq!((&refused["status"], &refused["error_kind"]), (&Value::Null, &json!("connect")));
    assert!(!text(&refused["error"]).contains("127"), "{refused}");
    server.call("POST", &format!("{path}/ping"), json!({"x": 1})).await.problem(400, "validation", &["x"]);
    server.act("/endpoints/ep_x/ping").await.problem(404, "not_found", &[]);
    server.stop().await;
}

/// A person cannot hold more connections open with pings than the process has for them.
#[actix_web::test]
async fn too_many_pings_at_once_are_refused() {
    let server = Server::start().await;
    let receiver = hanging();
    let endpoint = server.endpoint(&receiver.url("/"), json!({"policy": {"timeout": "3s"}})).await;
    let path = format!("/endpoints/{}/ping", text(&endpoint["id"]));
    let pings = futures_util::future::join_all((0..posthaste::api::limits::PINGS).map(|_| server.act(&path)));
    let one_more = async {
        until(|| async { (receiver.requests().len() == posthaste::api::limits::PINGS).then_some(()) }).await;
        server.act(&path).await.problem(429, "rate_limited", &[]);
    };
    let (pings, ()) = futures_util::future::join(pings, one_more).await;
    assert!(pings.iter().all(|got| got.ok(200)["error_kind"] == "timeout"));
    server.stop().await;
}

#[actix_web::test]
async fn s23_a_secret_is_rotated_with_an_overlap() {
    let server = Server::start().await;
    let receiver = taking();
    let endpoint = server.endpoint(&receiver.url("/"), json!({})).await;
    let path = format!("/endpoints/{}/secret", text(&endpoint["id"]));
    let shown = server.get(&path).await.ok(200);
    let alone = json!({"endpoint_id": endpoint["id"], "secret": endpoint["secret"], "overlap_ends_at": null});
    assert_eq!(shown, alone);
    let rotated = server.act(&format!("{path}/rotate")).await.ok(200);
    assert_ne!(rotated["secret"], endpoint["secret"]);
    assert!(rotated["overlap_ends_at"].is_string());
    assert_eq!(server.get(&path).await.ok(200), rotated);
    let signatures = async || {
        let delivery = server.event().await;
        server.until(&delivery, "delivered").await;
        let requests = receiver.requests();
        requests.last().unwrap().header("webhook-signature").unwrap().split(' ').count()
    };
    assert_eq!(signatures().await, 2);
    let rotate = async |body: Value| server.post(&format!("{path}/rotate"), body).await;
    let mine = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    assert_eq!(rotate(json!({"secret": mine, "overlap": "7d"})).await.ok(200)["secret"], mine);
    rotate(json!({"overlap": "1h"})).await.ok(200);
    rotate(json!({"overlap": "1h"})).await.ok(200);
    assert_eq!(signatures().await, 5);
    rotate(json!({"overlap": "1h"})).await.problem(409, "conflict", &[]);
    rotate(json!({"overlap": "0s"})).await.ok(200);
    assert_eq!(signatures().await, 5);
    rotate(json!({"overlap": "8d"})).await.problem(400, "validation", &["overlap"]);
    rotate(json!({"secret": "v1,whsec_x"})).await.problem(400, "validation", &["secret"]);
    server.get("/endpoints/ep_x/secret").await.problem(404, "not_found", &[]);
    server.stop().await;
}

#[actix_web::test]
async fn the_status_is_live() {
    let server = Server::start().await;
    let receiver = hanging();
    let endpoint = server.endpoint(&receiver.url("/"), json!({"max_in_flight": 1})).await;
    let path = format!("/endpoints/{}/status", text(&endpoint["id"]));
    let idle = server.get(&path).await.ok(200);
    assert_eq!(
        idle,
        json!({
            "endpoint_id": endpoint["id"], "status": "enabled",
            "circuit": {"state": "closed", "opened_at": null, "retry_at": null},
            "failure_streak": {"failures": 0, "since": null}, "exhausted_streak": 0,
            "queue": {"pending": 0, "failed": 0, "in_flight": 0, "dead": 0},
            "next_retry_at": null, "next_retry_reason": null,
            "last_success_at": null, "last_failure_at": null, "last_attempt": null,
        })
    );
    server.event().await;
    let flying = until(|| async {
        let status = server.get(&path).await.ok(200);
        (status["queue"]["in_flight"] == 1).then_some(status)
    })
    .await;
    assert_eq!(flying["queue"], json!({"pending": 1, "failed": 0, "in_flight": 1, "dead": 0}));
    assert_eq!(flying["next_retry_at"], Value::Null, "what is on the wire is not next");
    let second = server.event().await;
    let waiting = server.get(&path).await.ok(200);
    assert_eq!((&waiting["queue"]["pending"], &waiting["next_retry_reason"]), (&json!(2), &json!("initial")));
    assert_eq!(waiting["next_retry_at"], server.delivery(&second).await["next_retry_at"]);
    server.get("/endpoints/ep_x/status").await.problem(404, "not_found", &[]);
    server.stop().await;
}

/// S17: an open circuit shows everywhere.
#[actix_web::test]
async fn s17_an_open_circuit_is_seen_and_goes_with_its_breaker() {
    let server = Server::start().await;
    let receiver = refusing();
    let policy = json!({
        "schedule": {"ladder": []}, "responses": [], "auto_disable": null,
        "circuit_breaker": {"exhausted": 1, "cooldown": "1h"},
    });
    let endpoint = server.endpoint(&receiver.url("/"), json!({"policy": policy})).await;
    let path = format!("/endpoints/{}", text(&endpoint["id"]));
    let dead = server.event().await;
    server.until(&dead, "dead").await;
    let held = server.event().await;
    let status = server.get(&format!("{path}/status")).await.ok(200);
    assert_eq!(status["circuit"]["state"], "open");
    assert_eq!(
        (&status["next_retry_at"], &status["next_retry_reason"]),
        (&status["circuit"]["retry_at"], &json!("circuit_open"))
    );
    assert_eq!(
        (&status["last_attempt"]["delivery_id"], &status["last_attempt"]["status"]),
        (&json!(dead), &json!(503))
    );
    let delivery = server.delivery(&held).await;
    assert_eq!(
        (&delivery["next_retry_at"], &delivery["next_retry_reason"]),
        (&status["circuit"]["retry_at"], &json!("circuit_open"))
    );
    let kinds = server.get("/notifications").await.ok(200);
    assert_eq!(kinds["data"][0]["kind"], "circuit.opened");
    server.call("PATCH", &path, json!({"policy": {"schedule": {"ladder": []}, "responses": []}})).await.ok(200);
    server.until(&held, "dead").await;
    assert_eq!(server.get(&format!("{path}/status")).await.ok(200)["circuit"]["state"], "closed");
    server.stop().await;
}
