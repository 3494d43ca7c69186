//! What owners see of receivers that may not be called, or that lead to some: through the test ping and through a
//! delivery, which go the same way out.

use super::*;

/// Answers and attempts of a ping and of a delivery to `url`; each as the API tells it.
async fn both_ways(server: &Server, url: &str) -> [Value; 2] {
    let policy = json!({"schedule": {"ladder": []}, "responses": [], "auto_disable": null});
    let endpoint = text(&server.endpoint(url, json!({"policy": policy})).await["id"]);
    let ping = server.act(&format!("/endpoints/{endpoint}/ping")).await.ok(200);
    let delivery = server.event().await;
    let dead = server.until(&delivery, "dead").await;
    server.call("DELETE", &format!("/endpoints/{endpoint}"), json!({})).await;
    [ping, dead["attempts"][0].clone()]
}

/// Only this one address of the machine may be called.
async fn server() -> Server {
    Server::start_with(|given| given.allow_target = Some(vec!["127.0.0.1/32".into()])).await
}

#[actix_web::test]
async fn c15_c25_a_redirect_to_an_inner_service_is_the_end_for_pings_and_deliveries() {
    let server = server().await;
    let secret = "the inner service's secret";
    let inner = RawReceiver::bound_to([127, 0, 0, 2].into(), move |conversation| {
        conversation.request();
        conversation.write(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{secret}", secret.len()).as_bytes());
    });
    let allowed = taking();
    for status in [301, 302, 303, 307, 308] {
        for to in [inner.url("/secret"), "http://169.254.169.254/latest/meta-data/".into(), allowed.url("/")] {
            let receiver = RawReceiver::answering(format!(
                "HTTP/1.1 {status} -\r\nLocation: {to}\r\nContent-Length: 5\r\n\r\nmoved"
            ));
            for attempt in both_ways(&server, &receiver.url("/h")).await {
                assert_eq!((&attempt["status"], &attempt["error_kind"]), (&json!(status), &Value::Null), "{attempt}");
                assert_eq!(attempt["excerpt"], "moved", "{attempt}");
                assert!(!attempt.to_string().contains(secret));
            }
            assert_eq!(receiver.requests().len(), 2);
        }
    }
    assert_eq!((inner.connections(), allowed.connections()), (0, 0));
    server.stop().await;
}

#[actix_web::test]
async fn c24_c29_a_name_of_an_inner_address_is_refused_without_a_word_about_it() {
    let server = Server::start_with(|given| given.allow_target = Some(vec!["127.0.0.2/32".into()])).await;
    let inner = taking();
    let port = inner.address().port();
    for attempt in both_ways(&server, &format!("http://localhost:{port}/h")).await {
        assert_eq!((&attempt["status"], &attempt["error_kind"]), (&Value::Null, &json!("blocked_address")));
        assert_eq!((&attempt["remote_addr"], &attempt["excerpt"]), (&Value::Null, &json!("")), "{attempt}");
        let error = text(&attempt["error"]);
        assert!(!error.contains("127") && !error.contains("::1") && !error.contains(&port.to_string()), "{error}");
    }
    // A literal is refused when it is written.
    let body = json!({"url": inner.url("/h")});
    server.post("/endpoints", body).await.problem(400, "validation", &["url"]);
    assert_eq!(inner.connections(), 0);
    server.stop().await;
}

#[actix_web::test]
async fn c29_a_closed_inner_port_is_told_in_fixed_words() {
    let server = server().await;
    let closed = TakenPort::closed();
    for attempt in both_ways(&server, &format!("http://{}/h", closed.address)).await {
        assert_eq!((&attempt["error_kind"], &attempt["error"]), (&json!("connect"), &json!("connection refused")));
        assert_eq!(attempt["excerpt"], "", "{attempt}");
    }
    server.stop().await;
}
