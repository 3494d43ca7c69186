//! Pages: each row once, in both orders, while more comes in (C74, C75, S24).

use super::*;

fn ids(page: &Value) -> Vec<String> {
    page["data"].as_array().unwrap().iter().map(|row| text(&row["id"])).collect()
}

/// Twenty-five events in one transaction: they share every time that they have.
async fn twenty_five(server: &Server) {
    let events: Vec<_> =
        (0..25).map(|number| json!({"type": "a", "data": number, "id": format!("e{number:02}")})).collect();
    server.post("/events/batch", json!({"events": events})).await.ok(202);
}

#[actix_web::test]
async fn c74_rows_with_equal_times_come_once_while_new_ones_arrive() {
    let server = Server::start().await;
    let receiver = taking();
    server.endpoint_id(&receiver.url("/"), "orbit").await;
    twenty_five(&server).await;
    for list in ["/events", "/deliveries"] {
        let before = server.get(&format!("{list}?limit=250")).await.ok(200);
        let mut seen = Vec::new();
        let mut cursor = String::new();
        for count in [10, 10] {
            let page = server.get(&format!("{list}?limit=10{cursor}")).await.ok(200);
            assert_eq!(page["data"].as_array().unwrap().len(), count);
            assert!(page.get("resume").is_none(), "only in the order of changes");
            seen.extend(ids(&page));
            cursor = format!("&cursor={}", text(&page["next_cursor"]));
            server.event().await;
        }
        let rest = server.get(&format!("{list}?limit=250{cursor}")).await.ok(200);
        assert_eq!(rest["next_cursor"], Value::Null);
        seen.extend(ids(&rest));
        assert_eq!(seen, ids(&before), "{list}: each once, newest first, none of the new");
    }
    server.stop().await;
}

#[actix_web::test]
async fn s24_a_walk_by_changes_can_be_resumed_for_ever() {
    let server = Server::start().await;
    twenty_five(&server).await;
    let mut at = "updated_after=2020-01-01T00:00:00Z".to_owned();
    let mut seen = Vec::new();
    let mut resume = String::new();
    for (count, more) in [(10, true), (10, true), (5, false)] {
        let page = server.get(&format!("/events?limit=10&{at}")).await.ok(200);
        assert_eq!((ids(&page).len(), page["next_cursor"].is_string()), (count, more));
        seen.extend(ids(&page));
        resume = text(&page["resume"]);
        if more {
            // With the parameter or without.
            let keep = if seen.len() == 10 { "updated_after=2020-01-01T00:00:00Z&" } else { "" };
            at = format!("{keep}cursor={}", text(&page["next_cursor"]));
        }
    }
    let oldest_first: Vec<_> = (0..25).map(|number| format!("e{number:02}")).collect();
    assert_eq!(seen, oldest_first);
    for _ in 0..2 {
        let nothing = server.get(&format!("/events?cursor={resume}")).await.ok(200);
        assert_eq!((&nothing["data"], &nothing["next_cursor"]), (&json!([]), &Value::Null));
        resume = text(&nothing["resume"]);
    }
    server.post("/events", json!({"type": "a", "data": 1, "id": "late"})).await.ok(202);
    let page = server.get(&format!("/events?cursor={resume}")).await.ok(200);
    assert_eq!(ids(&page), ["late"]);
    assert_ne!(text(&page["resume"]), resume);
    // From the instant of the last change on there is nothing: the bound is exclusive.
    let last = text(&page["data"][0]["updated_at"]);
    assert_eq!(server.count(&format!("/events?updated_after={last}")).await, 0);
    server.stop().await;
}

#[actix_web::test]
async fn s24_a_row_that_changes_again_appears_again() {
    let server = Server::start().await;
    let receiver = taking();
    let endpoint = server.endpoint_id(&receiver.url("/"), "orbit").await;
    let id = server.event().await;
    let delivered = server.until(&id, "delivered").await;
    let page = server.get("/deliveries?updated_after=2020-01-01T00:00:00Z").await.ok(200);
    assert_eq!(ids(&page), std::slice::from_ref(&id));
    let resume = text(&page["resume"]);
    server.act(&format!("/deliveries/{id}/retry")).await.ok(202);
    until(|| async {
        let page = server.get(&format!("/deliveries?cursor={resume}")).await.ok(200);
        (ids(&page) == [id.clone()] && page["data"][0]["state"] == "delivered").then_some(())
    })
    .await;
    let events = server.get(&format!("/events?updated_after={}", text(&delivered["updated_at"]))).await.ok(200);
    assert_eq!(ids(&events), [text(&delivered["event_id"])], "an event changes with its deliveries");
    let page = server.get("/endpoints?updated_after=2020-01-01T00:00:00Z").await.ok(200);
    let resume = text(&page["resume"]);
    server.call("PATCH", &format!("/endpoints/{endpoint}"), json!({"description": "x"})).await.ok(200);
    assert_eq!(ids(&server.get(&format!("/endpoints?cursor={resume}")).await.ok(200)), [endpoint]);
    server.stop().await;
}

/// An event changes with its deliveries, so also when they are removed (S27).
#[actix_web::test]
async fn s24_an_event_outlives_its_endpoints_in_the_walk_by_changes() {
    let server = Server::start().await;
    let receiver = taking();
    let mut endpoints = Vec::new();
    for _ in 0..2 {
        endpoints.push(server.endpoint_id(&receiver.url("/"), "orbit").await);
    }
    let accepted = server.post("/events", json!({"type": "a", "data": 1, "id": "e1"})).await.ok(202);
    for delivery in accepted["deliveries"].as_array().unwrap() {
        server.until(&text(&delivery["id"]), "delivered").await;
    }
    let page = server.get("/events?updated_after=1970-01-01T00:00:00Z").await.ok(200);
    let mut seen = page["data"][0].clone();
    let mut resume = text(&page["resume"]);
    assert_eq!((ids(&page), &seen["deliveries"]["delivered"]), (vec!["e1".to_owned()], &json!(2)));
    for left in [1, 0] {
        let path = format!("/endpoints/{}", endpoints.pop().unwrap());
        assert_eq!(server.send("DELETE", &path, &[("X-API-Key", KEY)], "").await.status, 204);
        let page = until(|| async {
            let page = server.get(&format!("/events?cursor={resume}")).await.ok(200);
            (ids(&page) == ["e1"]).then_some(page)
        })
        .await;
        let event = &page["data"][0];
        assert_eq!(event["deliveries"], json!({"pending": 0, "failed": 0, "delivered": left, "dead": 0}));
        assert!(text(&event["updated_at"]) > text(&seen["updated_at"]), "{event} after {seen}");
        resume = text(&page["resume"]);
        let all = server.get("/events?updated_after=1970-01-01T00:00:00Z").await.ok(200);
        assert_eq!(all["data"], json!([event]), "once, and in its last state");
        assert_eq!(server.get("/events").await.ok(200)["data"], json!([event]));
        assert_eq!(server.get("/events/e1").await.ok(200)["updated_at"], event["updated_at"]);
        assert_eq!(server.count(&format!("/events?cursor={resume}")).await, 0, "nothing has changed since");
        seen = event.clone();
    }
    server.stop().await;
}

#[actix_web::test]
async fn c75_the_edges_of_limit_and_time() {
    let server = Server::start().await;
    twenty_five(&server).await;
    assert_eq!(server.count("/events").await, 25);
    assert_eq!(server.count("/events?limit=1").await, 1);
    for list in ["/events", "/endpoints", "/deliveries", "/dlq", "/notifications", "/policies"] {
        for bad in ["0", "-1", "251", "1000000000", "abc", "", "1e1", "%31%00"] {
            server.get(&format!("{list}?limit={bad}")).await.problem(400, "validation", &["limit"]);
        }
        for bad in ["", "x", "AAAA", "%F0%9F%98%80", &"A".repeat(4_000)] {
            server.get(&format!("{list}?cursor={bad}")).await.problem(400, "validation", &["cursor"]);
        }
        server.get(&format!("{list}?limit=1&limit=2&page=3")).await.problem(400, "validation", &["limit", "page"]);
    }
    for unescaped in ["2026-03-29T02:30:00+02:00", "2026-03-29T02:30:00%2B02:00", "2026-03-29T00:30:00Z"] {
        server.get(&format!("/events?created_after={unescaped}")).await.ok(200);
    }
    for bad in ["2026-03-29", "2026-02-30T00:00:00Z", "2026-03-29T02:30:00", "1774744200", "%00"] {
        server.get(&format!("/events?updated_after={bad}")).await.problem(400, "validation", &["updated_after"]);
    }
    server.stop().await;
}

/// C75: the newest, not the oldest, behind a bound.
#[actix_web::test]
async fn c75_a_bound_and_a_limit_give_the_newest() {
    let server = Server::start().await;
    for day in 1..=5 {
        let at = format!("2026-01-0{day}T00:00:00Z");
        server
            .post("/events", json!({"type": "a", "data": 1, "id": format!("e{day}"), "created_at": at}))
            .await
            .ok(202);
    }
    let page = server.get("/events?created_after=2026-01-01T00:00:00Z&limit=2").await.ok(200);
    assert_eq!(ids(&page), ["e5", "e4"]);
    let rest = format!("/events?created_after=2026-01-01T00:00:00Z&limit=3&cursor={}", text(&page["next_cursor"]));
    let rest = server.get(&rest).await.ok(200);
    assert_eq!((ids(&rest), &rest["next_cursor"]), (vec!["e3".into(), "e2".into()], &Value::Null));
    server.stop().await;
}

#[actix_web::test]
async fn a_cursor_is_of_one_list_and_one_order() {
    let server = Server::start().await;
    let receiver = taking();
    server.endpoint_id(&receiver.url("/"), "orbit").await;
    twenty_five(&server).await;
    let newest = text(&server.get("/events?limit=1").await.ok(200)["next_cursor"]);
    let changed = text(&server.get("/events?limit=1&updated_after=2020-01-01T00:00:00Z").await.ok(200)["next_cursor"]);
    for list in ["/deliveries", "/endpoints", "/dlq", "/notifications"] {
        for cursor in [&newest, &changed] {
            server.get(&format!("{list}?cursor={cursor}")).await.problem(400, "validation", &["cursor"]);
        }
    }
    let both = format!("/events?updated_after=2020-01-01T00:00:00Z&cursor={newest}");
    server.get(&both).await.problem(400, "validation", &["cursor"]);
    server.stop().await;
}

#[actix_web::test]
async fn attempts_and_notifications_have_pages() {
    let server = Server::start().await;
    let receiver = refusing();
    let policy = json!({"schedule": {"ladder": ["0s", "0s", "0s", "0s"]}, "responses": [], "auto_disable": null});
    let endpoint = server.endpoint(&receiver.url("/"), json!({"policy": policy})).await;
    let id = server.event().await;
    let dead = server.until(&id, "dead").await;
    let mut numbers = Vec::new();
    let mut cursor = String::new();
    for _ in 0..3 {
        let page = server.get(&format!("/deliveries/{id}/attempts?limit=2{cursor}")).await.ok(200);
        numbers.extend(page["data"].as_array().unwrap().iter().map(|attempt| attempt["attempt"].as_u64().unwrap()));
        cursor = format!("&cursor={}", page["next_cursor"].as_str().unwrap_or_default());
    }
    assert_eq!((numbers, dead["attempts_total"].as_u64()), (vec![5, 4, 3, 2, 1], Some(5)));

    let path = format!("/endpoints/{}", text(&endpoint["id"]));
    for _ in 0..3 {
        server.post(&format!("{path}/disable"), json!({})).await.ok(200);
        server.act(&format!("{path}/enable")).await.ok(200);
    }
    let page = server.get("/notifications?limit=2").await.ok(200);
    let notification = &page["data"][0];
    assert_eq!((&notification["kind"], &notification["endpoint_id"]), (&json!("endpoint.enabled"), &endpoint["id"]));
    assert!(text(&notification["id"]).starts_with("ntf_") && notification["read_at"].is_null());
    assert_eq!(server.count(&format!("/notifications?limit=2&cursor={}", text(&page["next_cursor"]))).await, 1);
    let read = format!("/notifications/{}/read", text(&notification["id"]));
    let first = server.act(&read).await.ok(200);
    assert!(first["read_at"].is_string());
    assert_eq!(server.act(&read).await.ok(200), first, "the first reading counts");
    assert_eq!((server.count("/notifications?unread=true").await, server.count("/notifications").await), (2, 3));
    server.get("/notifications?unread=yes").await.problem(400, "validation", &["unread"]);
    server.act("/notifications/ntf_x/read").await.problem(404, "not_found", &[]);
    server.stop().await;
}

/// The index by endpoint of what waits is written late: one endpoint's part of it while another's is still missing.
#[actix_web::test]
async fn s24_a_list_of_what_waits_is_whole_while_its_index_is_behind() {
    let server = Server::start().await;
    // Connections are made and never answered.
    let deaf = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", deaf.local_addr().unwrap());
    let mut endpoints = Vec::new();
    for kind in ["a", "b"] {
        let endpoint = json!({"url": url, "event_types": [kind], "policy": "salaf"});
        endpoints.push(text(&server.post("/endpoints", endpoint).await.ok(201)["id"]));
    }
    for round in 0..3 {
        server.post("/events", json!({"type": "a", "data": round})).await.ok(202);
        for _ in 0..2 {
            let many: Vec<_> = (0..100).map(|number| json!({"type": "b", "data": number})).collect();
            server.post("/events/batch", json!({"events": many})).await.ok(202);
        }
        for (list, count) in [
            ("/deliveries?state=pending".to_owned(), 201),
            ("/events?state=pending".to_owned(), 201),
            (format!("/deliveries?endpoint_id={}&state=pending", endpoints[0]), 1),
            (format!("/deliveries?endpoint_id={}", endpoints[1]), 200),
        ] {
            let mut seen = Vec::new();
            let mut cursor = String::new();
            loop {
                let page = server.get(&format!("{list}&limit=50{cursor}")).await.ok(200);
                seen.extend(ids(&page));
                match page["next_cursor"].as_str() {
                    Some(next) => cursor = format!("&cursor={next}"),
                    None => break,
                }
            }
            let found = seen.len();
            seen.sort_unstable();
            seen.dedup();
            assert_eq!((found, seen.len()), (count * (round + 1), count * (round + 1)), "{list}");
        }
    }
    server.stop().await;
}
