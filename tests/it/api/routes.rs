//! The route table, and what goes with every answer.

use super::*;

/// Path, and the methods that it knows besides HEAD.
const ROUTES: [(&str, &[&str]); 24] = [
    ("/healthz", &["GET"]),
    ("/readyz", &["GET"]),
    ("/events", &["GET", "POST"]),
    ("/events/batch", &["POST"]),
    ("/events/x", &["GET"]),
    ("/endpoints", &["GET", "POST"]),
    ("/endpoints/x", &["GET", "PATCH", "DELETE"]),
    ("/endpoints/x/status", &["GET"]),
    ("/endpoints/x/enable", &["POST"]),
    ("/endpoints/x/disable", &["POST"]),
    ("/endpoints/x/ping", &["POST"]),
    ("/endpoints/x/secret", &["GET"]),
    ("/endpoints/x/secret/rotate", &["POST"]),
    ("/policies", &["GET"]),
    ("/policies/simulate", &["POST"]),
    ("/deliveries", &["GET"]),
    ("/deliveries/x", &["GET"]),
    ("/deliveries/x/attempts", &["GET"]),
    ("/deliveries/x/retry", &["POST"]),
    ("/dlq", &["GET"]),
    ("/dlq/requeue", &["POST"]),
    ("/dlq/x/requeue", &["POST"]),
    ("/notifications", &["GET"]),
    ("/notifications/x/read", &["POST"]),
];

#[actix_web::test]
async fn every_route_is_there_and_knows_its_methods() {
    let server = Server::start().await;
    for (path, methods) in ROUTES {
        for method in ["GET", "POST", "PATCH", "DELETE", "PUT", "OPTIONS", "TRACE", "BREW"] {
            let got = server.send(method, path, &[("X-API-Key", KEY)], "").await;
            assert_ne!(got.status, 500, "{method} {path}: {got:?}");
            if methods.contains(&method) {
                let json = got.json();
                assert!(got.status != 405 && json["detail"] != "There is no such path.", "{method} {path}: {got:?}");
            } else {
                got.problem(405, "method_not_allowed", &[]);
                let mut allowed = methods.join(", ");
                allowed = allowed.replacen("GET", "GET, HEAD", 1);
                assert_eq!(got.header("allow"), Some(allowed.as_str()), "{path}");
            }
        }
    }
    server.stop().await;
}

#[actix_web::test]
async fn unknown_paths_are_problems_with_or_without_a_key() {
    let server = Server::start().await;
    for path in [
        "/",
        "/x",
        "/api",
        "/api/v1/webhooks",
        "/api/v1/webhooks/",
        "/api/v1/webhooks/event",
        "/api/v1/webhooks/events/",
        "/api/v1/webhooks/events/x/y",
        "/api/v1/webhooks/endpoints/x/pause",
        "/api/v1/nothing",
        "/api/v1/webhooks/%2e%2e/x",
        "/api/v1/webhooks/events%2fbatch%ff",
    ] {
        for headers in [&[][..], &[("X-API-Key", KEY)]] {
            let got = server.send("GET", path, headers, "").await;
            match got.status {
                // An id that looks like a path is an id.
                401 => got.problem(401, "unauthorized", &[]),
                _ => got.problem(404, "not_found", &[]),
            }
        }
    }
    server.stop().await;
}

#[actix_web::test]
async fn head_is_get_without_the_body() {
    let server = Server::start().await;
    for path in ["/healthz", "/events", "/policies"] {
        let (get, head) = (server.get(path).await, server.send("HEAD", path, &[("X-API-Key", KEY)], "").await);
        assert_eq!((head.status, head.text.as_str()), (get.status, ""), "{path}");
        assert_eq!(head.header("content-length"), get.header("content-length"), "{path}");
    }
    server.stop().await;
}

#[actix_web::test]
async fn health_is_told_to_everybody() {
    let server = Server::start().await;
    let health = server.send("GET", "/healthz", &[], "").await;
    assert_eq!(health.ok(200), json!({"status": "ok"}));
    let ready = until(|| async {
        let got = server.send("GET", "/readyz", &[], "").await;
        (got.status == 200).then_some(got)
    })
    .await
    .ok(200);
    assert_eq!(
        ready,
        json!({
            "ready": true, "store_writable": true, "engine_ticking": true, "draining": false, "oldest_due_age_ms": 0,
        })
    );
    server.send("GET", "/healthz?x=1", &[], "").await.problem(400, "validation", &["x"]);
    server.stop().await;
}

#[actix_web::test]
async fn s25_a_rehearsal_says_so_on_every_answer() {
    let server = Server::start_with(|given| given.time_scale = Some(10.0)).await;
    for path in ["/healthz", "/x", "/events", "/endpoints/x"] {
        let got = server.get(path).await;
        assert_eq!(got.header("posthaste-time-scale"), Some("10"), "{path}");
        assert_eq!(got.header("cache-control"), Some("no-store"), "{path}");
        assert_eq!(got.header("x-content-type-options"), Some("nosniff"), "{path}");
    }
    let unsigned = server.send("POST", "/events", &[], "{}").await;
    assert_eq!((unsigned.status, unsigned.header("posthaste-time-scale")), (401, Some("10")));
    server.stop().await;
    let server = Server::start().await;
    assert_eq!(server.get("/events").await.header("posthaste-time-scale"), None);
    server.stop().await;
}

#[actix_web::test]
async fn the_presets_are_a_list_like_any_other() {
    let server = Server::start().await;
    let all = server.get("/policies").await.ok(200);
    let names: Vec<_> = all["data"].as_array().unwrap().iter().map(|policy| policy["preset"].clone()).collect();
    assert_eq!(names, ["orbit", "shellorbit", "salaf"]);
    assert_eq!(all["next_cursor"], Value::Null);
    let first = server.get("/policies?limit=2").await.ok(200);
    let cursor = text(&first["next_cursor"]);
    let second = server.get(&format!("/policies?limit=2&cursor={cursor}")).await.ok(200);
    assert_eq!((&second["data"][0]["preset"], &second["next_cursor"]), (&json!("salaf"), &Value::Null));
    let text = server.get("/policies").await.text;
    assert!(text.contains(r#"{"preset":"orbit","schedule":{"exponential":{"initial":"30s","factor":2,"#), "{text}");
    server.stop().await;
}

#[actix_web::test]
async fn a_simulation_is_the_engines_own() {
    let server = Server::start().await;
    let got = server.post("/policies/simulate", json!({"policy": "shellorbit", "script": ["503"]})).await.ok(200);
    assert_eq!(got["attempts"].as_array().unwrap().len(), 5);
    assert_eq!(got["final"]["state"], "dead");
    assert_eq!(got["final"]["elapsed"], "14m40s");
    let long = json!({"policy": "orbit", "script": ["503"], "events": {"count": 1000, "every": "1h"}});
    server.post("/policies/simulate", long).await.ok(200);
    server.post("/policies/simulate", json!({})).await.problem(400, "validation", &["script"]);
    server.act("/policies/simulate").await.problem(400, "validation", &[""]);
    server.stop().await;
}
