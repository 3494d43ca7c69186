//! Posting and reading events.

use super::*;

#[actix_web::test]
async fn an_event_is_accepted_delivered_and_shown() {
    let server = Server::start().await;
    let receiver = taking();
    let endpoint = server.endpoint_id(&receiver.url("/hooks"), "orbit").await;
    let posted = server.post("/events", json!({"type": "order.created", "data": {"any": "JSON"}})).await.ok(202);
    let (id, delivery) = (text(&posted["id"]), text(&posted["deliveries"][0]["id"]));
    assert!(id.starts_with("evt_") && delivery.starts_with("dlv_"), "{posted}");
    assert_eq!(posted["created_at"], posted["received_at"]);
    let mut expected = posted.clone();
    expected["type"] = json!("order.created");
    expected["duplicate"] = json!(false);
    expected["deliveries"] = json!([{"id": delivery, "endpoint_id": endpoint, "state": "pending"}]);
    assert_eq!(posted, expected);
    assert_eq!(posted.as_object().unwrap().len(), 6);

    server.until(&delivery, "delivered").await;
    let shown = server.get(&format!("/events/{id}")).await.ok(200);
    assert_eq!(shown["data"], json!({"any": "JSON"}));
    assert_eq!(shown["counts"], json!({"pending": 0, "failed": 0, "delivered": 1, "dead": 0}));
    assert_eq!(shown["deliveries"][0]["id"], json!(delivery));
    assert!(shown["updated_at"].as_str() > shown["received_at"].as_str());
    let listed = server.get("/events").await.ok(200)["data"][0].clone();
    assert_eq!(listed["deliveries"], json!({"pending": 0, "failed": 0, "delivered": 1, "dead": 0}));
    for member in ["id", "type", "created_at", "received_at", "updated_at", "size"] {
        assert_eq!(listed[member], shown[member], "{member}");
    }
    assert_eq!(receiver.only_request().body.len() as u64, listed["size"].as_u64().unwrap());
    server.stop().await;
}

/// C20, C31–C36: what was posted arrives, and is shown, byte for byte.
#[actix_web::test]
async fn s02_data_is_the_same_bytes_everywhere() {
    let server = Server::start().await;
    let receiver = taking();
    server.endpoint_id(&receiver.url("/"), "orbit").await;
    let deep = "[".repeat(128) + &"]".repeat(128);
    let all = [
        r#"{"b":1, "a":{"z":0,"y":[]},"a":2,"s":"\u00e9/\/"}"#,
        r#"{"id":8202522731445525542,"u":18446744073709551615,"h":123456789012345678901234567890,"e":1.50E+3}"#,
        r#"{"s":"\ud800","\udc00x":1,"t":"\ud83d\ude00 😀"}"#,
        "\"é e\u{301} \u{2028}\"",
        r#"{"s":"a\u0000b"}"#,
        "null",
        "\"\"",
        "[ 1,\n\t2 ]",
        &deep,
    ];
    for (number, data) in all.iter().enumerate() {
        let body = format!("{{\"type\": \"a\", \"id\": \"evt-{number}\", \"data\": {data} }}\n");
        let posted = server.call_text("POST", "/events", &body).await.ok(202);
        let delivery = text(&posted["deliveries"][0]["id"]);
        server.until(&delivery, "delivered").await;
        let shown = server.get(&format!("/events/evt-{number}")).await;
        assert_eq!(shown.status, 200);
        assert!(shown.text.contains(&format!("\"data\":{data},\"deliveries\":")), "{data}: {}", shown.text);
        let created_at = text(&posted["created_at"]);
        let sent = format!(r#"{{"id":"evt-{number}","type":"a","created_at":"{created_at}","data":{data}}}"#);
        let requests = receiver.requests();
        let request = requests.last().unwrap();
        assert_eq!(String::from_utf8_lossy(&request.body), sent);
        assert_eq!(request.header("content-length"), Some(sent.len().to_string().as_str()));
    }
    server.stop().await;
}

#[actix_web::test]
async fn s21_the_same_id_is_one_event() {
    let server = Server::start().await;
    let receiver = taking();
    server.endpoint_id(&receiver.url("/"), "orbit").await;
    let body = json!({"type": "a", "data": {"n": 1}, "id": "mine-1"});
    let first = server.post("/events", body.clone()).await.ok(202);
    server.until(&text(&first["deliveries"][0]["id"]), "delivered").await;
    let again = server.post("/events", body.clone()).await.ok(202);
    let mut expected = first.clone();
    expected["duplicate"] = json!(true);
    expected["deliveries"][0]["state"] = json!("delivered");
    assert_eq!(again, expected);
    // Another created_at is no other content; another type, other bytes are.
    let dated = json!({"type": "a", "data": {"n": 1}, "id": "mine-1", "created_at": "2026-01-01T00:00:00Z"});
    assert_eq!(server.post("/events", dated).await.ok(202)["created_at"], first["created_at"]);
    for other in [
        r#"{"type": "b", "data": {"n":1}, "id": "mine-1"}"#,
        r#"{"type": "a", "data": {"n":2}, "id": "mine-1"}"#,
        r#"{"type": "a", "data": {"n": 1}, "id": "mine-1"}"#,
    ] {
        server.call_text("POST", "/events", other).await.problem(409, "conflict", &["id"]);
    }
    assert_eq!(server.count("/events").await, 1);
    assert_eq!(receiver.requests().len(), 1);
    server.stop().await;
}

#[actix_web::test]
async fn a_batch_is_all_or_nothing() {
    let server = Server::start().await;
    let receiver = taking();
    server.endpoint(&receiver.url("/"), json!({"event_types": ["a"]})).await;
    let member = |id: &str, kind: &str| json!({"type": kind, "data": id, "id": id});
    let good = json!({"events": [member("e1", "a"), member("e2", "b"), member("e1", "a")]});
    let got = server.post("/events/batch", good).await.ok(202);
    let shown: Vec<_> = (got["events"].as_array().unwrap().iter())
        .map(|event| {
            (event["id"].as_str().unwrap(), event["duplicate"] == true, event["deliveries"].as_array().unwrap().len())
        })
        .collect();
    assert_eq!(shown, [("e1", false, 1), ("e2", false, 0), ("e1", true, 1)]);

    let post = async |events: Value| server.post("/events/batch", json!({"events": events})).await;
    post(json!([member("e3", "a"), member("e4", "a..b")])).await.problem(400, "validation", &["events[1].type"]);
    let conflict = json!([member("e3", "a"), member("e3", "b")]);
    post(conflict).await.problem(409, "conflict", &["events[1].id"]);
    post(json!([member("e3", "a"), member("e1", "b")])).await.problem(409, "conflict", &["events[1].id"]);
    let narrowed = json!({"type": "a", "data": 1, "endpoint_ids": ["ep_x"]});
    post(json!([member("e3", "a"), narrowed])).await.problem(400, "validation", &["events[1].endpoint_ids[0]"]);
    post(json!([])).await.problem(400, "validation", &["events"]);
    post(json!(vec![member("e3", "a"); 1_001])).await.problem(400, "validation", &["events"]);
    server.get("/events/e3").await.problem(404, "not_found", &[]);
    assert_eq!(server.count("/events").await, 2);
    let many: Vec<_> = (0..1_000).map(|number| member(&format!("m{number}"), "b")).collect();
    assert_eq!(post(json!(many)).await.ok(202)["events"].as_array().unwrap().len(), 1_000);
    server.stop().await;
}

#[actix_web::test]
async fn the_fan_out_can_be_narrowed_and_can_be_empty() {
    let server = Server::start().await;
    let receiver = taking();
    let first = text(&server.endpoint(&receiver.url("/1"), json!({"event_types": ["order.*"]})).await["id"]);
    let second = text(&server.endpoint(&receiver.url("/2"), json!({})).await["id"]);
    let targets = async |kind: &str, ids: Value| {
        let got = server.post("/events", json!({"type": kind, "data": 1, "endpoint_ids": ids})).await;
        let targets = got.ok(202)["deliveries"].as_array().unwrap().clone();
        targets.iter().map(|delivery| text(&delivery["endpoint_id"])).collect::<Vec<_>>()
    };
    assert_eq!(targets("order.paid", Value::Null).await, [first.clone(), second.clone()]);
    assert_eq!(targets("order.paid", json!([second, second])).await, std::slice::from_ref(&second), "each once");
    assert_eq!(targets("invoice", Value::Null).await, std::slice::from_ref(&second));
    let post =
        async |ids: Value| server.post("/events", json!({"type": "invoice", "data": 1, "endpoint_ids": ids})).await;
    post(json!([second, "ep_x"])).await.problem(400, "validation", &["endpoint_ids[1]"]);
    post(json!([second, first])).await.problem(400, "validation", &["endpoint_ids[1]"]);
    post(json!([])).await.problem(400, "validation", &["endpoint_ids"]);
    server.send("DELETE", &format!("/endpoints/{second}"), &[("X-API-Key", KEY)], "").await;
    post(json!([second])).await.problem(400, "validation", &["endpoint_ids[0]"]);
    // Nobody wants it: kept all the same.
    let nobody = server.post("/events", json!({"type": "invoice", "data": 1})).await.ok(202);
    assert_eq!(nobody["deliveries"], json!([]));
    let shown = server.get(&format!("/events/{}", text(&nobody["id"]))).await.ok(200);
    assert_eq!(shown["counts"], json!({"pending": 0, "failed": 0, "delivered": 0, "dead": 0}));
    server.stop().await;
}

#[actix_web::test]
async fn lists_are_filtered() {
    let server = Server::start().await;
    let receiver = refusing();
    let policy = json!({"schedule": {"ladder": []}, "responses": [], "auto_disable": null});
    server.endpoint(&receiver.url("/"), json!({"policy": policy, "event_types": ["bad"]})).await;
    let post = async |kind: &str, at: &str| {
        let body = json!({"type": kind, "data": 1, "created_at": at});
        server.post("/events", body).await.ok(202)
    };
    let dead = post("bad", "2026-01-01T00:00:00Z").await;
    post("good", "2026-01-02T00:00:00Z").await;
    post("good", "2026-01-03T00:00:00Z").await;
    server.until(&text(&dead["deliveries"][0]["id"]), "dead").await;
    let check =
        async |query: &str, count: usize| assert_eq!(server.count(&format!("/events?{query}")).await, count, "{query}");
    check("", 3).await;
    check("type=good", 2).await;
    check("type=goo", 0).await;
    check("state=dead", 1).await;
    check("state=dead&type=good", 0).await;
    check("state=delivered", 0).await;
    check("created_after=2026-01-01T00:00:00Z", 2).await;
    check("created_after=2025-12-31T23:59:59.999999Z&created_before=2026-01-02T01:00:00+01:00", 1).await;
    check("created_before=2026-01-03T00:00:00Z", 2).await;
    for (query, field) in [
        ("type=a..b", "type"),
        ("state=lost", "state"),
        ("created_after=monday", "created_after"),
        ("created_after=2026-01-02T00:00:00Z&created_before=2026-01-01T00:00:00Z", "created_before"),
        ("status=200", "status"),
        ("type=a&type=b", "type"),
    ] {
        server.get(&format!("/events?{query}")).await.problem(400, "validation", &[field]);
    }
    server.stop().await;
}

/// C93: content is never a de-duplication key.
#[actix_web::test]
async fn c93_two_events_alike_are_two() {
    let server = Server::start().await;
    let body = json!({"type": "a", "data": 1});
    let posts = (0..100).map(|_| server.post("/events", body.clone()));
    let answers = futures_util::future::join_all(posts).await;
    let mut ids: Vec<_> = answers.iter().map(|got| text(&got.ok(202)["id"])).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 100);
    assert_eq!(server.count("/events?limit=250").await, 100);
    server.stop().await;
}

/// A thousand events are within the limit of a batch; for a hundred and one endpoints their deliveries are not.
#[actix_web::test]
async fn c77_a_batch_with_too_many_deliveries_is_to_be_split() {
    let server = Server::start().await;
    let receiver = hanging();
    for _ in 0..101 {
        server.endpoint(&receiver.url("/"), json!({"event_types": ["a"]})).await;
    }
    let events = |count: usize| (0..count).map(|no| json!({"type": "a", "data": no, "id": format!("e{no}")})).collect();
    let batch = |events: Vec<Value>| json!({"events": events}).to_string();
    let refused = server.keyed("/events/batch", "k", &batch(events(1_000))).await;
    refused.problem(413, "payload_too_large", &["events"]);
    let detail = text(&refused.json()["detail"]);
    assert!(detail.contains("at most 100000 deliveries") && detail.contains("its first 990"), "{detail}");
    assert_eq!((server.count("/events").await, server.count("/deliveries").await), (0, 0), "nothing is stored");
    // The key stands for nothing yet, and nobody's events are no burden.
    let nobodys = batch((0..1_000).map(|no| json!({"type": "b", "data": no})).collect());
    server.keyed("/events/batch", "k", &nobodys).await.ok(202);
    let part = server.post("/events/batch", json!({"events": Vec::from_iter::<Vec<Value>>(events(3))})).await.ok(202);
    for event in part["events"].as_array().unwrap() {
        assert_eq!((&event["duplicate"], event["deliveries"].as_array().unwrap().len()), (&json!(false), 101));
    }
    server.stop().await;
}
