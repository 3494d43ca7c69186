//! What receivers do to single deliveries, seen from the API: odd bodies, late answers, neighbours that fail, ourselves as
//! the receiver (C49, C50, C60, C66, C85, C91).

use diesel::{Connection, RunQueryDsl, SqliteConnection};

use super::*;

/// C49: the status decides; what else the answer holds makes no second request.
#[actix_web::test]
async fn c49_a_success_is_a_success_whatever_its_body() {
    let server = Server::start().await;
    let answers = [
        "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK",
        "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 13\r\n\r\n<html></html>",
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 12\r\n\r\n{\"ok\":false}",
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 7\r\n\r\n{\"half\"",
        "HTTP/1.1 201 Created\r\nContent-Type: no/such; type=\r\nContent-Length: 2\r\n\r\n\x01\x02",
        "HTTP/1.1 299 Odd\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nerror\r\n0\r\n\r\n",
    ];
    let receivers = answers.map(RawReceiver::answering);
    let policy = json!({"schedule": {"ladder": ["0s", "0s"]}});
    for receiver in &receivers {
        server.endpoint(&receiver.url("/"), json!({"policy": policy})).await;
    }
    let event = server.post("/events", json!({"type": "a", "data": 1})).await.ok(202);
    for (delivery, answer) in event["deliveries"].as_array().unwrap().iter().zip(answers) {
        let delivered = server.until(&text(&delivery["id"]), "delivered").await;
        assert_eq!((&delivered["attempts_total"], delivered["attempts"].as_array().unwrap().len()), (&json!(1), 1));
        assert_eq!(delivered["attempts"][0]["outcome"], "delivered", "{answer}");
    }
    receivers.iter().for_each(|receiver| drop(receiver.only_request()));
    server.stop().await;
}

/// C50: whoever did the work and answered too late is told by the id that it is the same event.
#[actix_web::test]
async fn c50_after_a_timeout_the_same_id_and_bytes_come_again() {
    let server = Server::start().await;
    let receiver = RawReceiver::scripted(|conversation| {
        let Some(request) = conversation.request() else { return };
        match request.header("posthaste-attempt") {
            // It never answers: however late, it would be too late.
            Some("1") => conversation.wait_for_close(),
            _ => drop(conversation.write(OK.as_bytes())),
        }
    });
    let policy = json!({"schedule": {"ladder": ["0s"]}, "timeout": "300ms"});
    server.endpoint(&receiver.url("/"), json!({"policy": policy})).await;
    let delivery = server.event().await;
    let delivered = server.until(&delivery, "delivered").await;
    let first = &delivered["attempts"][0];
    assert_eq!(
        (&first["status"], &first["error_kind"], &first["outcome"]),
        (&Value::Null, &json!("timeout"), &json!("retry"))
    );
    assert!(text(&first["error"]).contains("may have processed"), "{first}");
    let requests = receiver.requests();
    assert_eq!(requests.len(), 2);
    assert_eq!(requests[0].header("webhook-id"), requests[1].header("webhook-id"));
    assert_eq!(requests[0].header("posthaste-delivery-id"), requests[1].header("posthaste-delivery-id"));
    assert_eq!(requests[0].body, requests[1].body);
    server.stop().await;
}

#[derive(diesel::QueryableByName)]
struct Kept {
    #[diesel(sql_type = diesel::sql_types::Binary)]
    excerpt: Vec<u8>,
}

/// C91: a receiver may answer bytes that no text column can hold; they are kept as they came, and shown as text.
#[actix_web::test]
async fn c91_bytes_that_are_no_text_are_kept() {
    let server = Server::start().await;
    const SAID: &[u8] = b"a\0b\xff\xfe\xed\xa0\x80c";
    let receiver = RawReceiver::scripted(|conversation| {
        conversation.request();
        conversation.write(b"HTTP/1.1 410 Gone\r\nContent-Length: 9\r\n\r\n");
        conversation.write(SAID);
    });
    server.endpoint(&receiver.url("/"), json!({"policy": "orbit"})).await;
    let delivery = server.event().await;
    let dead = server.until(&delivery, "dead").await;
    assert_eq!(dead["attempts"][0]["excerpt"], String::from_utf8_lossy(SAID).as_ref());
    let mut conn = SqliteConnection::establish(&server.database().to_string_lossy()).unwrap();
    let [kept] = &diesel::sql_query("SELECT excerpt FROM attempts").load::<Kept>(&mut conn).unwrap()[..] else {
        panic!("one attempt")
    };
    assert_eq!(kept.excerpt, SAID);
    server.stop().await;
}

#[actix_web::test]
async fn c60_a_neighbour_that_fails_ends_no_fan_out_and_repeats_nothing() {
    let server = Server::start().await;
    let (first, third) = (taking(), taking());
    let closed = TakenPort::closed();
    let policy = json!({"schedule": {"ladder": ["0s", "0s"]}});
    for url in [first.url("/1"), format!("http://{}/2", closed.address), third.url("/3")] {
        server.endpoint(&url, json!({"policy": policy})).await;
    }
    let event = server.post("/events", json!({"type": "a", "data": 1})).await.ok(202);
    let mut ends = Vec::new();
    for delivery in event["deliveries"].as_array().unwrap() {
        let id = text(&delivery["id"]);
        let ended = until(|| async {
            let found = server.delivery(&id).await;
            ["delivered", "dead"].contains(&text(&found["state"]).as_str()).then_some(found)
        });
        let ended = ended.await;
        ends.push((ended["state"].clone(), ended["attempts_total"].clone()));
    }
    let (delivered, dead) = ((json!("delivered"), json!(1)), (json!("dead"), json!(3)));
    assert_eq!(ends, [delivered.clone(), dead, delivered]);
    first.only_request();
    third.only_request();
    server.stop().await;
}

/// C66: what a receiver gets is a whole event with its id, so an installation that posts to itself, and two that post to
/// each other, see the same event again (S21) and send nothing.
#[actix_web::test]
async fn c66_a_webhook_that_posts_to_ourselves_goes_round_once() {
    let (server, other) = (Server::start().await, Server::start().await);
    let key = json!({"headers": {"X-API-Key": KEY}});
    server.endpoint(&server.url("/events"), key.clone()).await;
    server.endpoint(&other.url("/events"), key.clone()).await;
    other.endpoint(&server.url("/events"), key).await;
    let event = server.post("/events", json!({"type": "a", "data": {"n": 1}})).await.ok(202);
    let id = text(&event["id"]);
    let ends = async |server: &Server| {
        until(|| async {
            let shown = server.get(&format!("/events/{id}")).await;
            let deliveries = shown.json()["deliveries"].as_array().cloned().unwrap_or_default();
            let ended = !deliveries.is_empty() && deliveries.iter().all(|one| one["state"] == "delivered");
            ended.then_some(deliveries)
        })
        .await
    };
    let (here, there) = (ends(&server).await, ends(&other).await);
    assert_eq!((here.len(), there.len()), (2, 1));
    assert!(here.iter().chain(&there).all(|one| one["attempts_total"] == 1), "each was posted once");
    assert_eq!((server.count("/events").await, other.count("/events").await), (1, 1));
    server.stop().await;
    other.stop().await;
}

#[actix_web::test]
async fn c85_after_five_edits_an_event_comes_once() {
    let server = Server::start().await;
    let receiver = taking();
    let endpoint = server.endpoint("https://example.com/old", json!({"event_types": ["x"]})).await;
    let path = format!("/endpoints/{}", text(&endpoint["id"]));
    for edit in [
        json!({"url": receiver.url("/a"), "event_types": ["a", "a.*"]}),
        json!({"event_types": ["*", "a"]}),
        json!({"url": receiver.url("/b")}),
        json!({"max_in_flight": 4, "policy": "salaf"}),
        json!({"url": receiver.url("/b"), "event_types": ["*", "a"], "policy": "salaf"}),
    ] {
        server.call("PATCH", &path, edit).await.ok(200);
    }
    let event = server.post("/events", json!({"type": "a", "data": 1})).await.ok(202);
    assert_eq!(event["deliveries"].as_array().unwrap().len(), 1);
    server.until(&text(&event["deliveries"][0]["id"]), "delivered").await;
    // First attempts leave in their order (S3): what came before the second event's request is all of the first's.
    let second = server.event().await;
    server.until(&second, "delivered").await;
    let lines: Vec<_> = receiver.requests().iter().map(|request| request.request_line().to_owned()).collect();
    assert_eq!(lines, ["POST /b HTTP/1.1"; 2]);
    server.stop().await;
}

/// C91: a hostile body is text in JSON, never a page of ours.
#[actix_web::test]
async fn c91_a_hostile_answer_is_shown_as_text_in_json() {
    let server = Server::start().await;
    let hostile = "<script>alert(1)</script></pre><img src=x onerror=1>\u{1b}[2J\u{202e}";
    let answer =
        format!("HTTP/1.1 500 No\r\nContent-Type: text/html\r\nContent-Length: {}\r\n\r\n{hostile}", hostile.len());
    let receiver = RawReceiver::answering(answer);
    let (_, delivery) = server.dead(&receiver).await;
    for path in [format!("/deliveries/{delivery}"), format!("/deliveries/{delivery}/attempts")] {
        let got = server.get(&path).await;
        let shown = got.ok(200);
        assert_eq!(got.header("x-content-type-options"), Some("nosniff"), "no browser takes it for a page");
        let attempt = if shown["attempts"].is_array() { &shown["attempts"][0] } else { &shown["data"][0] };
        assert_eq!(attempt["excerpt"], hostile);
        assert!(!got.text.contains('\u{1b}'), "control characters are escaped: {}", got.text);
    }
    server.stop().await;
}
