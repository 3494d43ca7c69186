//! Nothing secret is in any log, at any level, nor in any error, nor in clear in the database (C89).

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use serde_json::{Value, json};

use super::SOON;
use crate::support::raw::RawReceiver;
use crate::support::receiver::{Receiver, Tarpit};
use crate::support::server::{KEY, Options, Server, beside_others, text as text_of, wait_for};
use crate::support::taken::TakenPort;
use crate::support::tls::Authority;

/// What nobody may find anywhere: each is a part of something that was said once.
const SIGNING: &str = "cGxhbnRlZHNpZ25pbmdzZWNyZXQwMTIzNDU2Nzg5";
const ROTATED: &str = "cGxhbnRlZHJvdGF0ZWRzZWNyZXQwMTIzNDU2Nzg5";
const PLANTED: [&str; 12] = [
    KEY,
    "ph_planted_key_of_nobody",
    SIGNING,
    ROTATED,
    "planted-header-value",
    "planted-header-changed",
    "planted-bad-secret",
    "planted-data",
    "planted-path",
    "planted-query",
    "planted-answer",
    "planted-answer-header",
];

/// What those who have the key may see: events, URLs, and what receivers answered.
const SHOWN: [&str; 4] = ["planted-data", "planted-path", "planted-query", "planted-answer"];

/// The answer to a request with this header.
fn ask(address: SocketAddr, header: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    let request =
        format!("GET /api/v1/webhooks/endpoints HTTP/1.1\r\nHost: x\r\n{header}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("asked");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

/// The parts of `PLANTED` that are in a text.
fn found(text: &str) -> Vec<&'static str> {
    PLANTED.into_iter().filter(|planted| text.contains(planted)).collect()
}

#[test]
fn no_secret_is_in_any_log_or_error() {
    let _machine = beside_others();
    let mut server = Server::start(Options { log: Some("trace"), ..Options::default() });
    let key = std::fs::read_to_string(server.database().with_extension("db.key")).expect("the encryption key");
    let healthy = Receiver::always(200);
    let said =
        |first: &str| format!("{first}\r\nX-Said: planted-answer-header\r\nContent-Length: 14\r\n\r\nplanted-answer");
    let raw = [
        "HTTP/1.1 500 No",
        "HTTP/1.1 410 Gone",
        "HTTP/1.1 302 Found\r\nLocation: http://x/planted-answer",
        "GARBAGE planted-answer",
    ];
    let raw = raw.map(|first| RawReceiver::answering(said(first)));
    let closed = TakenPort::closed();
    let dead = closed.address;
    let path = "/planted-path?token=planted-query";
    let mut urls = vec![healthy.url(path), format!("http://{dead}{path}")];
    urls.extend(raw.iter().map(|receiver| receiver.url(path)));
    urls.push(format!("https://{dead}{path}"));
    // One that hangs, and one whose certificate nobody trusts.
    let (tarpit, strange) = (Tarpit::start(), Authority::new("nobody's").server(&["127.0.0.1"], |_| ()));
    urls.push(format!("http://{}{path}", tarpit.address));
    urls.push(format!("https://{}{path}", strange.address));
    let policy = json!({"timeout": "2s", "auto_disable": null});
    let endpoints: Vec<String> = urls
        .iter()
        .map(|url| {
            let headers = json!({"X-Auth": "planted-header-value"});
            let secret = format!("whsec_{SIGNING}");
            server.endpoint(json!({"url": url, "headers": headers, "secret": secret, "policy": policy}))
        })
        .collect();
    server.post("/events", &json!({"id": "e1", "type": "a", "data": {"card": "planted-data"}}), 202);
    let ended = |endpoint: &String| {
        let page = server.get(&format!("/deliveries?endpoint_id={endpoint}"));
        page["data"][0]["attempt"].as_i64() > Some(0)
    };
    wait_for("an attempt at each", SOON, || endpoints.iter().all(ended).then_some(()));

    // Refusals, which must not repeat what they refuse.
    let refused = |method: &str, path: &str, body: &str| {
        let mut client = server.client();
        let answer = client.send(method, path, body.as_bytes()).expect("an answer");
        assert!((400..500).contains(&answer.status), "{method} {path}: {answer:?}");
        let text = format!("{}{}", answer.head, String::from_utf8_lossy(&answer.body));
        assert_eq!(found(&text), Vec::<&str>::new(), "{method} {path}: {text}");
    };
    let one = format!("/endpoints/{}", endpoints[0]);
    refused("POST", "/endpoints", r#"{"url": "https://ok.test", "secret": "planted-bad-secret"}"#);
    refused("POST", "/endpoints", r#"{"url": "https://ok.test", "headers": {"A": "planted-header-value\n"}}"#);
    refused("POST", "/endpoints", r#"{"url": "https://u:planted-bad-secret@ok.test/planted-path"}"#);
    refused("POST", "/endpoints", r#"{"url": "http://10.0.0.1/planted-path?token=planted-query"}"#);
    refused("PATCH", &one, r#"{"headers": {"A": ["planted-header-value"]}}"#);
    refused("POST", &format!("{one}/secret/rotate"), r#"{"secret": "planted-bad-secret"}"#);
    refused("POST", "/events", r#"{"type": "a", "data": "planted-data""#);
    refused("POST", "/events", r#"{"id": "e1", "type": "a", "data": "planted-data"}"#);
    for header in ["X-API-Key: ph_planted_key_of_nobody", "Authorization: Bearer ph_planted_key_of_nobody"] {
        let answer = ask(server.address(), header);
        assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
        assert_eq!(found(&answer), Vec::<&str>::new(), "{answer}");
    }
    let own = ask(server.address(), &format!("Authorization: Bearer {KEY}"));
    assert!(own.starts_with("HTTP/1.1 200") && !own.contains(KEY), "{own}");
    let changed = json!({"headers": {"X-Auth": "planted-header-changed"}});
    assert_eq!(server.call("PATCH", &one, Some(&changed)).status, 200);
    server.post(&format!("{one}/secret/rotate"), &json!({"secret": format!("whsec_{ROTATED}")}), 200);
    endpoints.iter().for_each(|endpoint| drop(server.call("POST", &format!("/endpoints/{endpoint}/ping"), None)));
    server.post("/events", &json!({"id": "e2", "type": "a", "data": {"card": "planted-data"}}), 202);
    healthy.wait("it gets both and the ping", SOON, |ledger| ledger.len() >= 3);
    for endpoint in &endpoints {
        server.post(&format!("/endpoints/{endpoint}/disable"), &json!({}), 200);
    }

    let shown: Vec<Value> = endpoints.iter().map(|endpoint| server.get(&format!("/endpoints/{endpoint}"))).collect();
    let text = Value::from(shown).to_string();
    let secret: Vec<_> = found(&text).into_iter().filter(|planted| !urls[0].contains(planted)).collect();
    assert_eq!(secret, Vec::<&str>::new(), "an endpoint shows its URL and nothing else");
    // Everywhere else there are events, URLs and excerpts, which is what it is for, but nothing that is sealed.
    let lists = ["/endpoints", "/deliveries", "/events", "/dlq", "/notifications", "/policies"];
    let mut paths: Vec<String> = lists.map(String::from).into();
    paths.extend(endpoints.iter().map(|endpoint| format!("/endpoints/{endpoint}/status")));
    let deliveries = server.get("/deliveries");
    let deliveries = deliveries["data"].as_array().expect("deliveries");
    paths.extend(deliveries.iter().map(|delivery| format!("/deliveries/{}", text_of(&delivery["id"]))));
    for path in paths {
        let answer = server.get(&path).to_string();
        let secret: Vec<_> = found(&answer).into_iter().filter(|planted| !SHOWN.contains(planted)).collect();
        assert_eq!(secret, Vec::<&str>::new(), "{path}: {answer}");
    }
    let log = server.log();
    assert!(log.lines().count() > 100, "it logs at all");
    for line in log.lines() {
        assert_eq!(found(line), Vec::<&str>::new(), "{line}");
        assert!(!line.contains(key.trim()), "{line}");
    }

    // In the file they are sealed; events, URLs and excerpts are kept there as they are, which is what it is for.
    server.kill();
    let sealed = [KEY, SIGNING, ROTATED, "plantedsigningsecret", "plantedrotatedsecret"];
    let sealed = sealed.into_iter().chain(PLANTED.into_iter().filter(|planted| planted.starts_with("planted-header")));
    let files: Vec<Vec<u8>> = [server.database(), server.database().with_extension("db-wal")]
        .iter()
        .map(|file| std::fs::read(file).expect("a file"))
        .collect();
    let holds = |text: &str| files.iter().any(|file| file.windows(text.len()).any(|part| part == text.as_bytes()));
    assert!(holds("planted-data"), "what is looked for would be found");
    for text in sealed {
        assert!(!holds(text), "{text} is in the database");
    }
}
