//! `Idempotency-Key`: done, running, other bytes, in parallel, across a restart (C73).

use std::io::Write;
use std::net::TcpStream;

use super::*;

const EVENT: &str = r#"{"type": "a", "data": {"n": 1}}"#;

#[track_caller]
fn is_replay(first: &Got, again: &Got) {
    assert_eq!((again.status, &again.text), (first.status, &first.text));
    assert_eq!((first.header("idempotency-replayed"), again.header("idempotency-replayed")), (None, Some("true")));
}

#[actix_web::test]
async fn c73_the_same_key_and_bytes_get_the_first_answer() {
    let server = Server::start().await;
    let first = server.keyed("/events", "k1", EVENT).await;
    first.ok(202);
    is_replay(&first, &server.keyed("/events", "k1", EVENT).await);
    assert_eq!(server.count("/events").await, 1);
    // The same JSON in other bytes is another body.
    let spaced = EVENT.replace(": ", ":");
    server.keyed("/events", "k1", &spaced).await.problem(422, "idempotency_mismatch", &[]);
    // Another key, and the same key on another path, are other requests.
    server.keyed("/events", "k2", EVENT).await.ok(202);
    let batch = format!(r#"{{"events": [{EVENT}]}}"#);
    let first = server.keyed("/events/batch", "k1", &batch).await;
    first.ok(202);
    is_replay(&first, &server.keyed("/events/batch", "k1", &batch).await);
    assert_eq!(server.count("/events").await, 3);
    server.stop().await;
}

#[actix_web::test]
async fn only_what_succeeded_is_remembered() {
    let server = Server::start().await;
    let endpoint = server.endpoint("https://example.com", json!({"event_types": ["b"]})).await;
    let narrowed = json!({"type": "a", "data": 1, "endpoint_ids": [endpoint["id"]]}).to_string();
    server.keyed("/events", "k", &narrowed).await.problem(400, "validation", &["endpoint_ids[0]"]);
    let path = format!("/endpoints/{}", text(&endpoint["id"]));
    server.call("PATCH", &path, json!({"event_types": null})).await.ok(200);
    let now = server.keyed("/events", "k", &narrowed).await;
    assert_eq!((now.status, now.header("idempotency-replayed")), (202, None), "executed anew");
    // And with other bytes, as nothing was remembered of the first.
    server.keyed("/events", "bad", "{}").await.problem(400, "validation", &["type", "data"]);
    server.keyed("/events", "bad", EVENT).await.ok(202);
    server.stop().await;
}

#[actix_web::test]
async fn a_key_is_one_to_255_visible_characters() {
    let server = Server::start().await;
    let longest = "k".repeat(255);
    server.keyed("/events", &longest, EVENT).await.ok(202);
    let too_long = "k".repeat(256);
    for bad in ["", "a b", "\u{e9}", &too_long] {
        server.keyed("/events", bad, EVENT).await.problem(400, "validation", &["Idempotency-Key"]);
    }
    let twice = [("X-API-Key", KEY), ("Idempotency-Key", "a"), ("Idempotency-Key", "a")];
    server.send("POST", "/events", &twice, EVENT).await.problem(400, "validation", &["Idempotency-Key"]);
    assert_eq!(server.count("/events").await, 1);
    server.stop().await;
}

/// C73: twenty at once make one event; each is told the same, or to wait.
#[actix_web::test]
async fn c73_twenty_at_once_are_one() {
    let server = Server::start().await;
    let receiver = taking();
    server.endpoint_id(&receiver.url("/"), "orbit").await;
    let answers = futures_util::future::join_all((0..20).map(|_| server.keyed("/events", "k", EVENT))).await;
    let (done, waiting): (Vec<_>, Vec<_>) = answers.iter().partition(|got| got.status == 202);
    assert!(!done.is_empty());
    assert_eq!(done.iter().filter(|got| got.header("idempotency-replayed").is_none()).count(), 1);
    assert!(done.iter().all(|got| got.text == done[0].text));
    waiting.iter().for_each(|got| got.problem(409, "idempotency_in_progress", &[]));
    assert_eq!(server.count("/events").await, 1);
    let delivery = text(&done[0].json()["deliveries"][0]["id"]);
    server.until(&delivery, "delivered").await;
    assert_eq!(receiver.requests().len(), 1);
    server.stop().await;
}

/// A request that takes as long as its receiver: a ping.
#[actix_web::test]
async fn c73_while_the_first_is_running_the_second_waits() {
    let server = Server::start().await;
    let (release, held) = std::sync::mpsc::channel::<()>();
    let held = std::sync::Mutex::new(held);
    let receiver = RawReceiver::scripted(move |conversation| {
        while conversation.request().is_some() {
            let _ = held.lock().unwrap().recv();
            conversation.write(OK.as_bytes());
        }
    });
    let id = server.endpoint_id(&receiver.url("/"), "orbit").await;
    let path = format!("/endpoints/{id}/ping");
    let first = server.keyed(&path, "k", "{}");
    let others = async {
        until(|| async { (!receiver.requests().is_empty()).then_some(()) }).await;
        server.keyed(&path, "k", "{}").await.problem(409, "idempotency_in_progress", &[]);
        server.keyed(&path, "k", "{ }").await.problem(422, "idempotency_mismatch", &[]);
        release.send(()).unwrap();
    };
    let (first, ()) = futures_util::future::join(first, others).await;
    assert_eq!(first.ok(200)["outcome"], "delivered");
    is_replay(&first, &server.keyed(&path, "k", "{}").await);
    assert_eq!(receiver.requests().len(), 1);
    drop(release);
    server.stop().await;
}

/// Everything that can be asked with a key: the first answer again, and the work done once.
#[actix_web::test]
async fn every_post_can_be_repeated() {
    let server = Server::start().await;
    let receiver = refusing();
    let (endpoint, delivery) = server.dead(&receiver).await;
    let notification = {
        server.post(&format!("/endpoints/{endpoint}/disable"), json!({})).await.ok(200);
        server.act(&format!("/endpoints/{endpoint}/enable")).await.ok(200);
        text(&server.get("/notifications").await.ok(200)["data"][0]["id"])
    };
    for (path, body) in [
        (format!("/endpoints/{endpoint}/disable"), r#"{"reason": "moved"}"#),
        (format!("/endpoints/{endpoint}/enable"), ""),
        (format!("/endpoints/{endpoint}/ping"), ""),
        ("/policies/simulate".into(), r#"{"script": ["503"]}"#),
        (format!("/dlq/{delivery}/requeue"), "{}"),
        ("/dlq/requeue".into(), r#"{"dry_run": true}"#),
        (format!("/notifications/{notification}/read"), ""),
    ] {
        if path.ends_with("/requeue") {
            server.until(&delivery, "dead").await;
        }
        let first = server.keyed(&path, "k", body).await;
        assert!((200..300).contains(&first.status), "{path}: {first:?}");
        is_replay(&first, &server.keyed(&path, "k", body).await);
    }
    server.until(&delivery, "dead").await;
    let retry = format!("/deliveries/{delivery}/retry");
    let first = server.keyed(&retry, "k", "").await;
    assert_eq!(first.ok(202)["run"], 3);
    is_replay(&first, &server.keyed(&retry, "k", "").await);
    assert_eq!(server.until(&delivery, "dead").await["run"], 3);
    // Also when what it was about is gone.
    server.send("DELETE", &format!("/endpoints/{endpoint}"), &[("X-API-Key", KEY)], "").await;
    is_replay(&first, &server.keyed(&retry, "k", "").await);
    let enable = format!("/endpoints/{endpoint}/enable");
    assert_eq!(server.keyed(&enable, "k", "").await.status, 200);
    server.keyed(&enable, "new", "").await.problem(404, "not_found", &[]);
    server.stop().await;
}

/// A remembered answer holds no secret, and the secret that was shown is the one in use.
#[actix_web::test]
async fn secrets_are_null_in_a_replay() {
    let server = Server::start().await;
    let body = r#"{"url": "https://example.com"}"#;
    let created = server.keyed("/endpoints", "k", body).await.ok(201);
    let again = server.keyed("/endpoints", "k", body).await;
    let mut expected = created.clone();
    expected["secret"] = Value::Null;
    assert_eq!(again.ok(201), expected);
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    let path = format!("/endpoints/{}/secret", text(&created["id"]));
    assert_eq!(server.get(&path).await.ok(200)["secret"], created["secret"]);
    assert_eq!(server.count("/endpoints").await, 1);
    let rotated = server.keyed(&format!("{path}/rotate"), "k", "").await.ok(200);
    let again = server.keyed(&format!("{path}/rotate"), "k", "").await.ok(200);
    assert_eq!((&again["secret"], &again["overlap_ends_at"]), (&Value::Null, &rotated["overlap_ends_at"]));
    assert_eq!(server.get(&path).await.ok(200)["secret"], rotated["secret"], "rotated once");
    // C89: in the file neither in clear nor in an answer.
    let database = server.database();
    for name in [database.clone(), database.with_extension("db-wal")] {
        let bytes = std::fs::read(name).unwrap_or_default();
        for secret in [&created["secret"], &rotated["secret"]] {
            let secret = text(secret).into_bytes();
            assert!(!bytes.windows(secret.len()).any(|window| window == secret));
        }
    }
    server.stop().await;
}

#[actix_web::test]
async fn answers_are_remembered_across_a_restart() {
    let server = Server::start().await;
    let first = server.keyed("/events", "k", EVENT).await;
    let created = server.keyed("/endpoints", "k", r#"{"url": "https://example.com"}"#).await;
    created.ok(201);
    let server = server.restart().await;
    is_replay(&first, &server.keyed("/events", "k", EVENT).await);
    server.keyed("/events", "k", "{}").await.problem(400, "validation", &["type", "data"]);
    let other = r#"{"type": "a", "data": 2}"#;
    server.keyed("/events", "k", other).await.problem(422, "idempotency_mismatch", &[]);
    let again = server.keyed("/endpoints", "k", r#"{"url": "https://example.com"}"#).await;
    assert_eq!(again.ok(201)["id"], created.json()["id"]);
    assert_eq!((server.count("/events").await, server.count("/endpoints").await), (1, 1));
    server.stop().await;
}

/// A day, in engine time.
#[actix_web::test]
async fn answers_are_forgotten_after_a_day() {
    let server = Server::start_with(|given| given.time_scale = Some(60_000.0)).await;
    server.keyed("/events", "k", EVENT).await.ok(202);
    let anew = until(|| async {
        let got = server.keyed("/events", "k", EVENT).await;
        got.header("idempotency-replayed").is_none().then_some(got)
    })
    .await;
    anew.ok(202);
    assert_eq!(server.count("/events").await, 2);
    server.stop().await;
}

/// A caller that hangs up leaves nothing half done, and its key in order.
#[actix_web::test]
async fn a_caller_that_hangs_up_does_not_stop_its_request() {
    let server = Server::start().await;
    let receiver = hanging();
    let endpoint = server.endpoint(&receiver.url("/"), json!({"max_in_flight": 1})).await;
    server.event().await;
    let waiting = server.event().await;
    let path = format!("{ROOT}/endpoints/{}/disable", text(&endpoint["id"]));
    let mut socket = TcpStream::connect(server.app.address).unwrap();
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: x\r\nX-API-Key: {KEY}\r\nIdempotency-Key: gone\r\nContent-Length: 0\r\n\r\n"
    );
    socket.write_all(request.as_bytes()).unwrap();
    drop(socket);
    let dead = server.until(&waiting, "dead").await;
    assert_eq!(dead["dead_reason"], "endpoint_disabled");
    let again = until(|| async {
        let got = server.keyed(&path, "gone", "").await;
        (got.status == 200).then_some(got)
    })
    .await;
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    server.stop().await;
}
