//! Disable, enable, delete, drain: what has happened when the answer comes (S15, S16, S26, S27, C83, C84).

use super::*;

async fn reached(receiver: &RawReceiver, count: usize) {
    until(|| async { (receiver.requests().len() >= count).then_some(()) }).await;
}

#[actix_web::test]
async fn s15_after_a_disable_nothing_starts_and_nothing_waits() {
    let server = Server::start().await;
    let receiver = hanging();
    let endpoint = server.endpoint(&receiver.url("/"), json!({"max_in_flight": 2})).await;
    let path = format!("/endpoints/{}", text(&endpoint["id"]));
    let mut deliveries = Vec::new();
    for _ in 0..6 {
        deliveries.push(server.event().await);
    }
    reached(&receiver, 2).await;
    let disabled = server.post(&format!("{path}/disable"), json!({"reason": "receiver moves"})).await.ok(200);
    assert_eq!((&disabled["status"], &disabled["disabled_reason"]), (&json!("disabled"), &json!("receiver moves")));
    assert!(disabled["disabled_at"].is_string());
    let states = server.get("/deliveries").await.ok(200);
    let dead = |state: &str| states["data"].as_array().unwrap().iter().filter(|one| one["state"] == state).count();
    assert_eq!((dead("dead"), dead("pending")), (4, 2), "what is on the wire finishes");
    let status = server.get(&format!("{path}/status")).await.ok(200);
    assert_eq!(status["queue"], json!({"pending": 2, "failed": 0, "in_flight": 2, "dead": 4}));
    assert_eq!((&status["next_retry_at"], &status["status"]), (&Value::Null, &json!("disabled")));
    assert_eq!(server.count("/dlq").await, 4);
    // New events are dead letters; a second disable changes nothing.
    let late = server.post("/events", json!({"type": "a", "data": 1})).await.ok(202);
    assert_eq!(late["deliveries"][0]["state"], "dead");
    let again = server.post(&format!("{path}/disable"), json!({"reason": "other"})).await.ok(200);
    assert_eq!(again["disabled_reason"], "receiver moves");
    let enabled = server.act(&format!("{path}/enable")).await.ok(200);
    assert_eq!(
        (&enabled["status"], &enabled["disabled_reason"], &enabled["disabled_at"]),
        (&json!("enabled"), &Value::Null, &Value::Null)
    );
    assert_eq!(server.count("/dlq").await, 5, "S16");
    assert_eq!(receiver.requests().len(), 2);
    server.act("/endpoints/ep_x/enable").await.problem(404, "not_found", &[]);
    server.post("/endpoints/ep_x/disable", json!({})).await.problem(404, "not_found", &[]);
    server.stop().await;
}

#[actix_web::test]
async fn s16_only_a_person_enables_which_clears_everything_and_resurrects_nothing() {
    let server = Server::start().await;
    let (gone, well) = (RawReceiver::answering("HTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n"), taking());
    let endpoint = server.endpoint(&gone.url("/"), json!({"policy": "orbit"})).await;
    let path = format!("/endpoints/{}", text(&endpoint["id"]));
    let fatal = server.event().await;
    server.until(&fatal, "dead").await;
    let shown = server.get(&path).await.ok(200);
    assert_eq!((&shown["status"], shown["disabled_reason"].is_string()), (&json!("auto_disabled"), true));
    // Neither an edit, nor a ping that gets through, nor an event enables it.
    server.call("PATCH", &path, json!({"url": well.url("/")})).await.ok(200);
    assert_eq!(server.act(&format!("{path}/ping")).await.ok(200)["outcome"], "delivered");
    let meanwhile = server.event().await;
    assert_eq!(server.get(&path).await.ok(200)["status"], "auto_disabled");
    assert_eq!(server.delivery(&meanwhile).await["state"], "dead");

    let enabled = server.act(&format!("{path}/enable")).await.ok(200);
    let reason = (&enabled["status"], &enabled["disabled_reason"], &enabled["disabled_at"]);
    assert_eq!(reason, (&json!("enabled"), &Value::Null, &Value::Null));
    let status = server.get(&format!("{path}/status")).await.ok(200);
    assert_eq!(status["failure_streak"], json!({"failures": 0, "since": null}));
    assert_eq!((&status["exhausted_streak"], &status["circuit"]["state"]), (&json!(0), &json!("closed")));
    // What comes now would stand behind what was brought back (S3): when it is delivered, nothing was.
    let after = server.event().await;
    server.until(&after, "delivered").await;
    assert_eq!(well.requests().len(), 1 + 1, "the ping, and the event after the enable");
    for dead in [&fatal, &meanwhile] {
        assert_eq!(server.delivery(dead).await["state"], "dead");
    }
    server.stop().await;
}

#[actix_web::test]
async fn a_disabled_endpoint_may_skip_new_events() {
    let server = Server::start().await;
    let endpoint = server.endpoint("https://example.com", json!({"policy": "salaf"})).await;
    server.post(&format!("/endpoints/{}/disable", text(&endpoint["id"])), json!({})).await.ok(200);
    let got = server.post("/events", json!({"type": "a", "data": 1})).await.ok(202);
    assert_eq!(got["deliveries"], json!([]));
    server.stop().await;
}

#[actix_web::test]
async fn s27_a_deleted_endpoint_is_gone() {
    let server = Server::start().await;
    let receiver = hanging();
    let endpoint = server.endpoint(&receiver.url("/"), json!({"max_in_flight": 1})).await;
    let id = text(&endpoint["id"]);
    let (flying, waiting) = (server.event().await, server.event().await);
    reached(&receiver, 1).await;
    let event = text(&server.delivery(&waiting).await["event_id"]);
    let gone = server.send("DELETE", &format!("/endpoints/{id}"), &[("X-API-Key", KEY)], "").await;
    assert_eq!((gone.status, gone.text.as_str()), (204, ""));
    for path in [
        format!("/endpoints/{id}"),
        format!("/endpoints/{id}/status"),
        format!("/deliveries/{flying}"),
        format!("/deliveries/{waiting}"),
        format!("/endpoints/{id}/secret"),
    ] {
        server.get(&path).await.problem(404, "not_found", &[]);
    }
    server.act(&format!("/deliveries/{waiting}/retry")).await.problem(404, "not_found", &[]);
    server.send("DELETE", &format!("/endpoints/{id}"), &[("X-API-Key", KEY)], "").await.problem(404, "not_found", &[]);
    for list in ["/endpoints", "/deliveries", "/dlq"] {
        assert_eq!(server.count(list).await, 0, "{list}");
    }
    let shown = server.get(&format!("/events/{event}")).await.ok(200);
    assert_eq!((&shown["deliveries"], &shown["data"]), (&json!([]), &json!({"n": 1})));
    // Its successor inherits nothing.
    let next = taking();
    server.endpoint(&next.url("/"), json!({})).await;
    let delivery = server.event().await;
    server.until(&delivery, "delivered").await;
    assert_eq!((next.requests().len(), receiver.requests().len()), (1, 1));
    server.stop().await;
}

/// S26: changes that race with each other end in one order, each with its answer.
#[actix_web::test]
async fn s26_changes_at_once_take_turns() {
    let server = Server::start().await;
    let receiver = refusing();
    let endpoint = server.endpoint(&receiver.url("/"), json!({"policy": "shellorbit"})).await;
    let path = format!("/endpoints/{}", text(&endpoint["id"]));
    for _ in 0..5 {
        server.event().await;
    }
    let edits = (0..10).map(|number| {
        let (server, path) = (&server, &path);
        async move {
            match number % 3 {
                0 => server.post(&format!("{path}/disable"), json!({})).await.ok(200),
                1 => server.act(&format!("{path}/enable")).await.ok(200),
                _ => {
                    let body = json!({"description": format!("{number}"), "headers": {format!("H{number}"): "1"}});
                    server.call("PATCH", path, body).await.ok(200)
                }
            }
        }
    });
    futures_util::future::join_all(edits).await;
    let last = server.post(&format!("{path}/disable"), json!({})).await.ok(200);
    assert_eq!(last["headers"], json!({"H2": "****", "H5": "****", "H8": "****"}), "no edit is lost");
    // What was on the wire ends (S15), and is not retried.
    until(|| async {
        let (pending, failed) = ("/deliveries?state=pending", "/deliveries?state=failed");
        (server.count(pending).await + server.count(failed).await == 0).then_some(())
    })
    .await;
    let requests = receiver.requests().len();
    let other = taking();
    server.endpoint(&other.url("/"), json!({})).await;
    let posted = server.post("/events", json!({"type": "a", "data": {"n": 1}})).await.ok(202);
    let [dead, delivered] = [0, 1].map(|place| text(&posted["deliveries"][place]["id"]));
    server.until(&delivered, "delivered").await;
    let dead = server.delivery(&dead).await;
    assert_eq!(
        (&dead["state"], &dead["attempts"]),
        (&json!("dead"), &json!([])),
        "C84: nothing starts after the answer"
    );
    assert_eq!(receiver.requests().len(), requests);
    server.stop().await;
}

/// C71: many at once on every route, with the readers that there are.
#[actix_web::test]
async fn c71_many_at_once_do_not_block_each_other() {
    let server = Server::start().await;
    let receiver = refusing();
    let (endpoint, delivery) = server.dead(&receiver).await;
    let paths = [
        "/events".to_owned(),
        "/endpoints".into(),
        "/deliveries".into(),
        "/dlq".into(),
        "/notifications".into(),
        format!("/endpoints/{endpoint}/status"),
        format!("/deliveries/{delivery}"),
    ];
    let reads = (0..20).flat_map(|_| paths.iter().map(|path| server.get(path)));
    let writes = (0..20).map(|number| {
        let body = json!({"type": "b", "data": number});
        let server = &server;
        async move { server.post("/events", body).await }
    });
    let (reads, writes) =
        futures_util::future::join(futures_util::future::join_all(reads), futures_util::future::join_all(writes)).await;
    assert!(reads.iter().all(|got| got.status == 200) && writes.iter().all(|got| got.status == 202));
    server.stop().await;
}

/// C79: ids are unique whatever comes in the same millisecond.
#[actix_web::test]
async fn c79_ids_are_unique() {
    let server = Server::start().await;
    let batch = json!({"events": vec![json!({"type": "a", "data": 1}); 1_000]});
    let answers = futures_util::future::join_all((0..5).map(|_| server.post("/events/batch", batch.clone()))).await;
    let mut ids: Vec<_> = answers
        .iter()
        .flat_map(|got| got.ok(202)["events"].as_array().unwrap().clone())
        .map(|one| text(&one["id"]))
        .collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 5_000);
    server.stop().await;
}

#[actix_web::test]
async fn while_draining_only_reading_goes_on() {
    let server = Server::start_with(|given| given.drain_timeout = Some("5s".into())).await;
    let receiver = hanging();
    let endpoint = server.endpoint(&receiver.url("/"), json!({})).await;
    server.event().await;
    reached(&receiver, 1).await;
    let draining = tokio::time::timeout(Duration::from_millis(200), server.app.engine.drain());
    assert!(draining.await.is_err(), "an attempt is on the wire");
    let id = text(&endpoint["id"]);
    for (method, path) in [
        ("POST", "/events".to_owned()),
        ("POST", "/events/batch".into()),
        ("POST", "/endpoints".into()),
        ("PATCH", format!("/endpoints/{id}")),
        ("DELETE", format!("/endpoints/{id}")),
        ("POST", format!("/endpoints/{id}/disable")),
        ("POST", "/dlq/requeue".into()),
    ] {
        server.call(method, &path, json!({"type": "a", "data": 1})).await.problem(503, "unavailable", &[]);
    }
    let ready = server.get("/readyz").await;
    assert_eq!((ready.status, &ready.json()["draining"]), (503, &json!(true)));
    assert!(ready.header("retry-after").is_some());
    server.get("/healthz").await.ok(200);
    assert_eq!(server.count("/events").await, 1);
    server.stop().await;
}

/// C92: what the store does not confirm is a 503, and reads that cannot be answered are too.
#[actix_web::test]
async fn c92_a_store_that_is_closed_confirms_nothing() {
    let server = Server::start().await;
    let endpoint = server.endpoint("https://example.com", json!({})).await;
    server.app.store.close();
    server.post("/events", json!({"type": "a", "data": 1})).await.problem(503, "unavailable", &[]);
    server.keyed("/events", "k", r#"{"type": "a", "data": 1}"#).await.problem(503, "unavailable", &[]);
    let path = format!("/endpoints/{}", text(&endpoint["id"]));
    server.call("PATCH", &path, json!({"description": "x"})).await.problem(503, "unavailable", &[]);
    server.act(&format!("{path}/enable")).await.problem(503, "unavailable", &[]);
    server.post(&format!("{path}/disable"), json!({})).await.problem(503, "unavailable", &[]);
    server.post("/dlq/requeue", json!({})).await.problem(503, "unavailable", &[]);
    let ready = server.get("/readyz").await;
    assert_eq!((ready.status, &ready.json()["store_writable"]), (503, &json!(false)));
    assert_eq!(server.get(&path).await.ok(200)["description"], "");
    assert_eq!(server.count("/events").await, 0);
    server.stop().await;
}

/// Everything that was said is still true after a restart.
#[actix_web::test]
async fn what_was_answered_survives_a_restart() {
    let server = Server::start().await;
    let receiver = refusing();
    let (endpoint, delivery) = server.dead(&receiver).await;
    let paths = [
        format!("/endpoints/{endpoint}"),
        format!("/endpoints/{endpoint}/status"),
        format!("/endpoints/{endpoint}/secret"),
        format!("/deliveries/{delivery}"),
        "/events".into(),
        "/dlq".into(),
    ];
    let mut before = Vec::new();
    for path in &paths {
        before.push(server.get(path).await.ok(200));
    }
    let server = server.restart().await;
    for (path, before) in paths.iter().zip(before) {
        assert_eq!(server.get(path).await.ok(200), before, "{path}");
    }
    server.stop().await;
}
