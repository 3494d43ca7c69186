//! Deliveries, attempts, retries and the dead-letter queue.

use super::*;

#[actix_web::test]
async fn a_delivery_is_answered_as_in_the_contract() {
    let server = Server::start().await;
    let receiver = refusing();
    let policy = json!({"schedule": {"ladder": ["1h"]}, "jitter": 0, "responses": [], "auto_disable": null});
    let endpoint = server.endpoint(&receiver.url("/x"), json!({"policy": policy})).await;
    let id = server.event().await;
    let shown = server.until(&id, "failed").await;
    let attempt = shown["attempts"][0].clone();
    for (member, value) in [
        ("id", json!(id)),
        ("event_type", json!("a")),
        ("endpoint_id", endpoint["id"].clone()),
        ("run", json!(1)),
        ("attempt", json!(1)),
        ("attempts_total", json!(1)),
        ("next_retry_reason", json!("schedule")),
        ("dead_reason", Value::Null),
        ("dead_at", Value::Null),
        ("replayable_until", Value::Null),
        ("last_status", json!(503)),
        ("last_error_kind", Value::Null),
        ("delivered_at", Value::Null),
    ] {
        assert_eq!(shown[member], value, "{member}");
    }
    assert!(shown["next_retry_at"].as_str() > shown["updated_at"].as_str());
    for (member, value) in [
        ("run", json!(1)),
        ("attempt", json!(1)),
        ("trigger", json!("schedule")),
        ("remote_addr", json!(receiver.address().to_string())),
        ("url", json!(receiver.url("/x"))),
        ("status", json!(503)),
        ("error_kind", Value::Null),
        ("error", Value::Null),
        ("excerpt", json!("busy")),
        ("excerpt_truncated", json!(false)),
        ("outcome", json!("retry")),
    ] {
        assert_eq!(attempt[member], value, "{member}");
    }
    let listed = server.get(&format!("/deliveries/{id}/attempts")).await.ok(200);
    assert_eq!(listed, json!({"data": [attempt], "next_cursor": null}));
    let mut plain = shown.clone();
    plain.as_object_mut().unwrap().remove("attempts");
    assert_eq!(server.get("/deliveries").await.ok(200)["data"], json!([plain]));
    let event = server.get(&format!("/events/{}", text(&shown["event_id"]))).await.ok(200);
    assert_eq!(event["deliveries"], json!([plain]));
    // Ids of the right make that are none.
    for wrong in [id.replace("dlv_0", "dlv_1"), format!("{}9", &id[..id.len() - 1]), "dlv_x".into(), "x".into()] {
        server.get(&format!("/deliveries/{wrong}")).await.problem(404, "not_found", &[]);
        server.get(&format!("/deliveries/{wrong}/attempts")).await.problem(404, "not_found", &[]);
        server.act(&format!("/deliveries/{wrong}/retry")).await.problem(404, "not_found", &[]);
        server.act(&format!("/dlq/{wrong}/requeue")).await.problem(404, "not_found", &[]);
    }
    server.stop().await;
}

/// One delivery for each state, and for each reason to be dead that does not take 30 days.
#[actix_web::test]
async fn s11_a_delivery_is_pending_failed_delivered_or_dead_for_a_reason() {
    let server = Server::start().await;
    let gone = RawReceiver::answering("HTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n");
    let (hangs, refuses, takes) = (hanging(), refusing(), taking());
    let policy = |ladder: Value| {
        let rules = json!([{"status": "410", "action": "dead_letter"}]);
        json!({"schedule": {"ladder": ladder}, "jitter": 0, "responses": rules, "auto_disable": null})
    };
    let mut deliveries = Vec::new();
    for (kind, receiver, ladder) in [
        ("pending", &hangs, json!(["1h"])),
        ("failed", &refuses, json!(["1h"])),
        ("delivered", &takes, json!(["1h"])),
        ("exhausted", &refuses, json!([])),
        ("permanent_response", &gone, json!(["1h"])),
        ("endpoint_disabled", &refuses, json!(["1h"])),
    ] {
        let members = json!({"policy": policy(ladder), "event_types": [kind]});
        let endpoint = text(&server.endpoint(&receiver.url("/"), members).await["id"]);
        let answer = server.post("/events", json!({"type": kind, "data": 1})).await.ok(202);
        assert_eq!(answer["deliveries"][0]["state"], "pending", "{kind}: created, and not yet attempted");
        deliveries.push((kind, text(&answer["deliveries"][0]["id"]), endpoint));
    }
    let id = |kind: &str| &deliveries.iter().find(|one| one.0 == kind).unwrap().1;
    let (_, cut, disabled) = deliveries.last().unwrap();
    server.until(cut, "failed").await;
    server.post(&format!("/endpoints/{disabled}/disable"), json!({})).await.ok(200);
    until(|| async { (!hangs.requests().is_empty()).then_some(()) }).await;
    for (kind, state, reason) in [
        ("pending", "pending", None),
        ("failed", "failed", None),
        ("delivered", "delivered", None),
        ("exhausted", "dead", Some("exhausted")),
        ("permanent_response", "dead", Some("permanent_response")),
        ("endpoint_disabled", "dead", Some("endpoint_disabled")),
    ] {
        let shown = server.until(id(kind), state).await;
        assert_eq!(shown["dead_reason"], json!(reason), "{kind}");
        let waits = matches!(state, "pending" | "failed");
        assert_eq!(
            (shown["next_retry_at"].is_string(), shown["next_retry_reason"].is_string()),
            (waits, waits),
            "{kind}"
        );
        let dead = [&shown["dead_at"], &shown["replayable_until"]].map(Value::is_string);
        assert_eq!(dead, [state == "dead"; 2], "{kind}");
        assert_eq!(shown["delivered_at"].is_string(), state == "delivered", "{kind}");
        // In `pending` no attempt of this run is over, however long one has been on the wire.
        assert_eq!(shown["attempt"], u8::from(state != "pending"), "{kind}");
        let last = shown["attempts"].as_array().unwrap().last().map_or(Value::Null, |one| one["outcome"].clone());
        let outcome = match kind {
            "pending" => Value::Null,
            "failed" | "endpoint_disabled" => json!("retry"),
            "delivered" => json!("delivered"),
            _ => json!("dead_letter"),
        };
        assert_eq!(last, outcome, "{kind}");
    }
    server.stop().await;
}

#[actix_web::test]
async fn s12_a_retry_starts_a_new_run_from_any_state() {
    let server = Server::start().await;
    let receiver = taking();
    server.endpoint_id(&receiver.url("/"), "orbit").await;
    let id = server.event().await;
    let first = server.until(&id, "delivered").await;
    assert_eq!((&first["next_retry_at"], &first["next_retry_reason"]), (&Value::Null, &Value::Null));
    // The door of the dead-letter queue is for the dead.
    server.act(&format!("/dlq/{id}/requeue")).await.problem(404, "not_found", &[]);
    let again = server.act(&format!("/deliveries/{id}/retry")).await.ok(202);
    assert_eq!((&again["state"], &again["run"], &again["attempt"]), (&json!("pending"), &json!(2), &json!(0)));
    assert_eq!((&again["next_retry_reason"], &again["delivered_at"]), (&json!("manual"), &first["delivered_at"]));
    let second = server.until(&id, "delivered").await;
    assert_eq!((&second["attempts_total"], &second["delivered_at"]), (&json!(2), &first["delivered_at"]));
    let triggers: Vec<_> = second["attempts"].as_array().unwrap().iter().map(|one| one["trigger"].clone()).collect();
    assert_eq!(triggers, ["schedule", "manual"], "oldest first");
    let newest_first = server.get(&format!("/deliveries/{id}/attempts")).await.ok(200);
    assert_eq!(newest_first["data"][0]["trigger"], "manual");
    server.call("POST", &format!("/deliveries/{id}/retry"), json!({"now": true})).await.problem(
        400,
        "validation",
        &["now"],
    );
    server.stop().await;
}

#[actix_web::test]
async fn s12_what_cannot_be_retried_is_refused_and_unchanged() {
    let server = Server::start().await;
    let receiver = hanging();
    let endpoint = server.endpoint(&receiver.url("/"), json!({"max_in_flight": 1})).await;
    let flying = server.event().await;
    until(|| async { (!receiver.requests().is_empty()).then_some(()) }).await;
    server.act(&format!("/deliveries/{flying}/retry")).await.problem(409, "conflict", &[]);
    server.act(&format!("/dlq/{flying}/requeue")).await.problem(404, "not_found", &[]);
    let waiting = server.event().await;
    let path = format!("/endpoints/{}", text(&endpoint["id"]));
    server.post(&format!("{path}/disable"), json!({})).await.ok(200);
    let dead = server.delivery(&waiting).await;
    assert_eq!((&dead["state"], &dead["dead_reason"]), (&json!("dead"), &json!("endpoint_disabled")));
    for door in [format!("/deliveries/{waiting}/retry"), format!("/dlq/{waiting}/requeue")] {
        server.act(&door).await.problem(409, "endpoint_disabled", &[]);
    }
    let mut after = server.delivery(&waiting).await;
    // The job that rewrites what the disable has cut may have come by; nothing else.
    after["updated_at"] = dead["updated_at"].clone();
    assert_eq!(after, dead);
    server.act(&format!("{path}/enable")).await.ok(200);
    assert_eq!(server.delivery(&waiting).await["state"], "dead", "S16: nothing is resurrected");
    server.act(&format!("/dlq/{waiting}/requeue")).await.ok(202);
    server.stop().await;
}

#[actix_web::test]
async fn s20_a_dead_letter_past_its_time_is_gone_from_the_queue() {
    // A day passes in a second and a half.
    let server = Server::start_with(|given| given.time_scale = Some(60_000.0)).await;
    let receiver = refusing();
    let policy = json!({
        "schedule": {"ladder": []}, "responses": [], "auto_disable": null, "retention": {"dead_letters": "1d"},
    });
    server.endpoint(&receiver.url("/"), json!({"policy": policy})).await;
    let id = server.event().await;
    let dead = server.until(&id, "dead").await;
    assert_eq!(dead["dead_reason"], "exhausted");
    assert!(dead["replayable_until"].as_str() > dead["dead_at"].as_str());
    until(|| async { (server.count("/dlq").await == 0).then_some(()) }).await;
    for door in [format!("/deliveries/{id}/retry"), format!("/dlq/{id}/requeue")] {
        server.act(&door).await.problem(409, "conflict", &[]);
    }
    assert_eq!(server.post("/dlq/requeue", json!({})).await.ok(202)["matched"], 0);
    assert_eq!(server.count("/deliveries?state=dead").await, 1, "it stays in the history");
    server.stop().await;
}

#[actix_web::test]
async fn the_dead_letter_queue_is_filtered_and_requeued_in_bulk() {
    let server = Server::start().await;
    let receiver = refusing();
    let policy = json!({"schedule": {"ladder": []}, "responses": [], "auto_disable": null});
    let new = async |types: Value| {
        text(&server.endpoint(&receiver.url("/"), json!({"policy": policy, "event_types": types})).await["id"])
    };
    let (first, second) = (new(json!(["a"])).await, new(json!(["b"])).await);
    for kind in ["a", "a", "b", "a", "b"] {
        let got = server.post("/events", json!({"type": kind, "data": 1})).await.ok(202);
        server.until(&text(&got["deliveries"][0]["id"]), "dead").await;
    }
    assert_eq!(server.count("/dlq").await, 5);
    assert_eq!(server.count(&format!("/dlq?endpoint_id={second}")).await, 2);
    assert_eq!(server.count("/dlq?event_type=a&dead_reason=exhausted").await, 3);
    assert_eq!(server.count("/dlq?dead_reason=expired").await, 0);
    assert_eq!(server.count("/dlq?endpoint_id=ep_x").await, 0);
    server.get("/dlq?dead_reason=old&state=dead").await.problem(400, "validation", &["state", "dead_reason"]);

    let bulk = async |body: Value| server.post("/dlq/requeue", body).await.ok(202);
    let told = |matched: u64, requeued: u64, disabled: u64| json!({"matched": matched, "requeued": requeued, "skipped": {"endpoint_disabled": disabled}});
    assert_eq!(bulk(json!({"dry_run": true})).await, told(5, 5, 0));
    assert_eq!(bulk(json!({"dry_run": true, "limit": 2})).await, told(2, 2, 0));
    assert_eq!(bulk(json!({"dry_run": true, "event_type": "b"})).await, told(2, 2, 0));
    assert_eq!(bulk(json!({"dry_run": true, "until": "2020-01-01T00:00:00Z"})).await, told(0, 0, 0));
    let third = server.get("/dlq").await.ok(200)["data"][2].clone();
    assert_eq!(bulk(json!({"dry_run": true, "since": third["dead_at"]})).await, told(3, 3, 0));
    assert_eq!(bulk(json!({"dry_run": true, "until": third["dead_at"]})).await, told(2, 2, 0));
    assert_eq!(server.count("/dlq").await, 5, "a dry run changes nothing");

    // What belongs to a disabled endpoint is skipped and does not use up the limit.
    server.post(&format!("/endpoints/{first}/disable"), json!({})).await.ok(200);
    assert_eq!(bulk(json!({"limit": 2})).await, told(5, 2, 3));
    let run = until(|| async {
        let got = server.get(&format!("/deliveries?endpoint_id={second}&state=dead")).await.ok(200);
        (got["data"].as_array().unwrap().len() == 2).then_some(got["data"][0]["run"].clone())
    })
    .await;
    assert_eq!(run, 2, "requeued, attempted, dead again");
    let last = format!("/dlq/{}/requeue", text(&server.get("/dlq").await.ok(200)["data"][0]["id"]));
    assert_eq!(server.act(&last).await.ok(202)["run"], 3);
    server.post("/dlq/requeue", json!({"endpoint_id": "ep_x"})).await.problem(400, "validation", &["endpoint_id"]);
    server.post("/dlq/requeue", json!({"limit": 10_001})).await.problem(400, "validation", &["limit"]);
    assert_eq!(server.act("/dlq/requeue").await.ok(202)["skipped"]["endpoint_disabled"], 3, "an empty body is {{}}");
    server.stop().await;
}

#[actix_web::test]
async fn lists_are_filtered() {
    let server = Server::start().await;
    let (good, bad) = (taking(), refusing());
    let policy = json!({"schedule": {"ladder": ["1h"]}, "responses": [], "auto_disable": null});
    let healthy = text(&server.endpoint(&good.url("/"), json!({"event_types": ["a"]})).await["id"]);
    let failing = text(&server.endpoint(&bad.url("/"), json!({"policy": policy, "event_types": ["a"]})).await["id"]);
    let posted = server.post("/events", json!({"type": "a", "data": 1, "id": "e1"})).await.ok(202);
    let (first, second) = (text(&posted["deliveries"][0]["id"]), text(&posted["deliveries"][1]["id"]));
    server.until(&first, "delivered").await;
    let failed = server.until(&second, "failed").await;
    let check = async |query: &str, wanted: &[&String]| {
        let got = server.get(&format!("/deliveries?{query}")).await.ok(200);
        let ids: Vec<_> = got["data"].as_array().unwrap().iter().map(|delivery| text(&delivery["id"])).collect();
        assert_eq!(ids.iter().collect::<Vec<_>>(), wanted, "{query}");
    };
    check("", &[&second, &first]).await;
    check("state=failed", &[&second]).await;
    check("state=pending", &[]).await;
    check(&format!("endpoint_id={healthy}"), &[&first]).await;
    check(&format!("endpoint_id={failing}&status=503"), &[&second]).await;
    check("endpoint_id=ep_x", &[]).await;
    check("event_id=e1&event_type=a", &[&second, &first]).await;
    check("event_id=e2", &[]).await;
    check("status=200", &[&first]).await;
    check("error_kind=timeout", &[]).await;
    check(&format!("created_before={}", text(&failed["created_at"])), &[]).await;
    check("created_after=2020-01-01T00:00:00Z", &[&second, &first]).await;
    server
        .get("/deliveries?state=x&status=99&error_kind=y&event_type=.&endpoint_id=&created_after=z&foo=1")
        .await
        .problem(
            400,
            "validation",
            &["foo", "created_after", "endpoint_id", "state", "event_type", "status", "error_kind"],
        );
    server.stop().await;
}
