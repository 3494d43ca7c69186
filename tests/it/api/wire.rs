//! What happens on the connection: bodies too large, cut off, chunked, slow, pipelined (C77).

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Instant;

use super::*;

const MIB: usize = 1024 * 1024;

/// The start of a request with a body.
fn head(path: &str, framing: &str) -> String {
    format!(
        "POST {ROOT}{path} HTTP/1.1\r\nHost: x\r\nX-API-Key: {KEY}\r\nContent-Type: application/json\r\n{framing}\r\n\r\n"
    )
}

/// A body of exactly so many bytes that is an event.
fn event(bytes: usize) -> String {
    let frame = r#"{"type":"a","data":""}"#;
    format!(r#"{{"type":"a","data":"{}"}}"#, "x".repeat(bytes - frame.len()))
}

/// Talks to the server on a thread of its own, as the server lives on this one.
async fn on_a_socket<T: Send + 'static>(server: &Server, talk: impl FnOnce(TcpStream) -> T + Send + 'static) -> T {
    let address = server.app.address;
    let talking = actix_web::web::block(move || {
        let socket = TcpStream::connect(address).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        talk(socket)
    });
    talking.await.unwrap()
}

/// Status line and body of the next answer; `None` if the connection is at its end.
fn answer(socket: &mut TcpStream) -> Option<(String, Value)> {
    let mut bytes = Vec::new();
    let mut one = [0];
    while !bytes.ends_with(b"\r\n\r\n") {
        match socket.read(&mut one) {
            Ok(0) => return None,
            Ok(_) => bytes.push(one[0]),
            Err(error) => panic!("{error} after {}", String::from_utf8_lossy(&bytes)),
        }
    }
    let head = String::from_utf8(bytes).unwrap();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap().parse().unwrap();
    let mut body = vec![0; length];
    socket.read_exact(&mut body).unwrap();
    Some((head, serde_json::from_slice(&body).unwrap()))
}

/// C77: the limit is exact, whichever way the body comes.
#[actix_web::test]
async fn c77_one_mebibyte_is_the_limit_of_an_event() {
    let server = Server::start().await;
    let receiver = taking();
    server.endpoint_id(&receiver.url("/"), "orbit").await;
    for bytes in [MIB - 1, MIB] {
        let got = server.call_text("POST", "/events", &event(bytes)).await.ok(202);
        let id = text(&got["deliveries"][0]["id"]);
        // Accepted means deliverable and displayable.
        server.until(&id, "delivered").await;
        assert!(receiver.requests().last().unwrap().body.len() > bytes);
        let shown = server.get(&format!("/events/{}", text(&got["id"]))).await.ok(200);
        assert_eq!(shown["data"].as_str().unwrap().len(), bytes - 22);
    }
    server.call_text("POST", "/events", &event(MIB + 1)).await.problem(413, "payload_too_large", &[]);
    let member = event(MIB + 1);
    let batch = format!(r#"{{"events":[{member}]}}"#);
    server.call_text("POST", "/events/batch", &batch).await.problem(413, "payload_too_large", &["events[0]"]);
    let batch = format!(r#"{{"events":[{}]}}"#, vec![event(MIB - 30); 16].join(","));
    assert_eq!(server.call_text("POST", "/events/batch", &batch).await.ok(202)["events"].as_array().unwrap().len(), 16);
    let batch = format!(r#"{{"events":[{}]}}"#, vec![event(MIB); 16].join(","));
    server.call_text("POST", "/events/batch", &batch).await.problem(413, "payload_too_large", &[]);
    let body = json!({"url": "https://example.com", "description": "x".repeat(300_000)});
    server.post("/endpoints", body).await.problem(413, "payload_too_large", &[]);
    assert_eq!(server.count("/events").await, 18);
    server.stop().await;
}

/// The answer comes before the body has, and can be read although the sender goes on sending.
#[actix_web::test]
async fn c77_too_much_is_answered_first_and_read_afterwards() {
    let server = Server::start().await;
    for framing in ["Content-Length: 4194304", "Transfer-Encoding: chunked"] {
        let (early, told, sent) = on_a_socket(&server, move |mut socket| {
            socket.write_all(head("/events", framing).as_bytes()).unwrap();
            let chunked = framing.starts_with('T');
            let piece = match chunked {
                true => format!("10000\r\n{}\r\n", "x".repeat(0x10000)),
                false => "x".repeat(0x10000),
            };
            // Enough to be too much, less than everything.
            (0..17).for_each(|_| socket.write_all(piece.as_bytes()).unwrap());
            let asked = Instant::now();
            let told = answer(&mut socket).unwrap();
            let early = asked.elapsed();
            let sent = (17..64).filter(|_| socket.write_all(piece.as_bytes()).is_ok()).count();
            (early, told, sent)
        })
        .await;
        assert!(told.0.starts_with("HTTP/1.1 413 "), "{framing}: {}", told.0);
        assert!(told.0.to_ascii_lowercase().contains("connection: close"), "{framing}: {}", told.0);
        assert_eq!(told.1["code"], "payload_too_large");
        assert!(early < Duration::from_secs(10), "{framing}: answered after {early:?}");
        assert_eq!(sent, 47, "{framing}: the rest was read, not reset");
    }
    server.stop().await;
}

/// … but not for ever.
#[actix_web::test]
async fn an_endless_body_is_not_read_for_ever() {
    let server = Server::start().await;
    let lasted = on_a_socket(&server, |mut socket| {
        socket.write_all(head("/events", "Transfer-Encoding: chunked").as_bytes()).unwrap();
        let piece = format!("10000\r\n{}\r\n", "x".repeat(0x10000));
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(15) {
            if socket.write_all(piece.as_bytes()).is_err() {
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        began.elapsed()
    })
    .await;
    assert!(lasted < Duration::from_secs(12), "{lasted:?}");
    server.get("/events").await.ok(200);
    server.stop().await;
}

/// A caller without a key is answered before its body is asked for.
#[actix_web::test]
async fn an_error_does_not_wait_for_the_body() {
    let server = Server::start().await;
    for (request, status) in [
        ("POST /api/v1/webhooks/events HTTP/1.1\r\nHost: x\r\nContent-Length: 900000\r\n\r\n{", "401"),
        ("POST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 900000\r\n\r\n{", "404"),
        ("PUT /api/v1/webhooks/events HTTP/1.1\r\nHost: x\r\nContent-Length: 900000\r\n\r\n{", "405"),
    ] {
        let told = on_a_socket(&server, move |mut socket| {
            socket.write_all(request.as_bytes()).unwrap();
            answer(&mut socket).unwrap()
        })
        .await;
        assert!(told.0.starts_with(&format!("HTTP/1.1 {status} ")), "{}", told.0);
    }
    server.stop().await;
}

/// C77: a length that is not true; a body that ends too soon.
#[actix_web::test]
async fn c77_a_body_that_does_not_come_whole_is_not_stored() {
    let server = Server::start().await;
    on_a_socket(&server, |mut socket| {
        socket.write_all(head("/events", "Content-Length: 100").as_bytes()).unwrap();
        socket.write_all(br#"{"type":"a","data":1}"#).unwrap();
        socket.shutdown(Shutdown::Write).unwrap();
        let mut rest = Vec::new();
        match socket.read_to_end(&mut rest) {
            Ok(_) => assert!(!String::from_utf8_lossy(&rest).contains(" 202 ")),
            Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
        }
    })
    .await;
    let told = on_a_socket(&server, |mut socket| {
        // Shorter than the body: what follows is no request.
        socket.write_all(head("/events", "Content-Length: 10").as_bytes()).unwrap();
        socket.write_all(br#"{"type":"a","data":1}"#).unwrap();
        answer(&mut socket).unwrap()
    })
    .await;
    assert!(told.0.starts_with("HTTP/1.1 400 "), "{}", told.0);
    assert_eq!(server.count("/events").await, 0);
    server.stop().await;
}

#[actix_web::test]
async fn chunked_and_pipelined_requests_are_answered_in_order() {
    let server = Server::start().await;
    let answers = on_a_socket(&server, |mut socket| {
        let body = r#"{"type":"a","data":1,"id":"one"}"#;
        let (first, second) = body.split_at(7);
        let chunked = format!("{:x}\r\n{first}\r\n{:x}\r\n{second}\r\n0\r\n\r\n", first.len(), second.len());
        let plain = body.replace("one", "two");
        let framing = format!("Content-Length: {}", plain.len());
        let both = head("/events", "Transfer-Encoding: chunked") + &chunked + &head("/events", &framing) + &plain;
        socket.write_all(both.as_bytes()).unwrap();
        [answer(&mut socket).unwrap(), answer(&mut socket).unwrap()]
    })
    .await;
    let ids: Vec<_> =
        answers.iter().map(|(head, body)| (head.starts_with("HTTP/1.1 202 "), body["id"].clone())).collect();
    assert_eq!(ids, [(true, json!("one")), (true, json!("two"))]);
    server.stop().await;
}

#[actix_web::test]
async fn a_caller_that_asks_first_is_told_to_go_on() {
    let server = Server::start().await;
    let told = on_a_socket(&server, |mut socket| {
        let body = r#"{"type":"a","data":1}"#;
        let framing = format!("Content-Length: {}\r\nExpect: 100-continue", body.len());
        socket.write_all(head("/events", &framing).as_bytes()).unwrap();
        let mut interim = [0; 25];
        socket.read_exact(&mut interim).unwrap();
        assert_eq!(&interim, b"HTTP/1.1 100 Continue\r\n\r\n");
        socket.write_all(body.as_bytes()).unwrap();
        answer(&mut socket).unwrap()
    })
    .await;
    assert!(told.0.starts_with("HTTP/1.1 202 "), "{}", told.0);
    server.stop().await;
}
