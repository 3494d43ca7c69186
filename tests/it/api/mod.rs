//! The HTTP API against its contract: a real server on a port of its own, called as an outsider calls it.

mod auth;
mod bad;
mod deliveries;
mod endpoints;
mod events;
mod guarded;
mod idempotency;
mod lifecycle;
mod odd;
mod paging;
mod receivers;
mod routes;
mod wire;

use std::future::Future;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use awc::Client;
use awc::http::header::HeaderMap;
use posthaste::app::App;
use posthaste::config::Given;
use serde_json::{Value, json};

use crate::support::machine::{Place, beside_others};
use crate::support::raw::RawReceiver;
use crate::support::taken::TakenPort;

const KEY: &str = "ph_operator_0123456789";
const ROOT: &str = "/api/v1/webhooks";

/// An answer.
#[derive(Clone, Debug)]
struct Got {
    status: u16,
    headers: HeaderMap,
    text: String,
}

impl Got {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The body of an answer with this status.
    #[track_caller]
    fn ok(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(self.header("content-type"), Some("application/json"), "{self:?}");
        self.json()
    }

    /// Asserts a problem answer of this kind, and that it names these fields.
    #[track_caller]
    fn problem(&self, status: u16, code: &str, fields: &[&str]) {
        let body = self.json();
        assert_eq!((self.status, body["code"].as_str()), (status, Some(code)), "{self:?}");
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        assert_eq!(body["status"], status);
        for member in ["type", "title", "detail"] {
            assert!(body[member].as_str().is_some_and(|text| !text.is_empty()), "{member} in {self:?}");
        }
        let named: Vec<_> = body["errors"].as_array().into_iter().flatten().map(|error| &error["field"]).collect();
        assert_eq!(named, fields, "{self:?}");
        assert_eq!(self.header("retry-after").is_some(), matches!(status, 429 | 503), "{self:?}");
    }
}

/// A server on a database of its own.
struct Server {
    app: App,
    client: Client,
    key: String,
    folder: Option<tempfile::TempDir>,
    given: Given,
    machine: Place,
}

/// What every test starts from: a local port, one worker, receivers on this machine allowed.
fn given(database: &Path) -> Given {
    Given {
        listen: Some(SocketAddr::from(([127, 0, 0, 1], 0))),
        database_url: Some(format!("sqlite:{}", database.display())),
        allow_target: Some(vec!["127.0.0.0/8".into()]),
        drain_timeout: Some("1s".into()),
        workers: Some(1),
        operator_key: Some(KEY.into()),
        ..Given::default()
    }
}

impl Server {
    async fn start() -> Server {
        Server::start_with(|_| {}).await
    }

    /// With other settings than a test's usual ones.
    async fn start_with(change: impl FnOnce(&mut Given)) -> Server {
        let folder = tempfile::tempdir().unwrap();
        let mut given = given(&folder.path().join("test.db"));
        change(&mut given);
        Server::on(folder, given).await
    }

    async fn on(folder: tempfile::TempDir, given: Given) -> Server {
        let machine = beside_others();
        Server::at(machine, folder, given).await
    }

    async fn at(machine: Place, folder: tempfile::TempDir, given: Given) -> Server {
        let app = App::start(given.clone().validate().unwrap()).await.unwrap();
        let client = Client::builder().timeout(Duration::from_secs(30)).finish();
        Server { app, client, key: KEY.into(), folder: Some(folder), given, machine }
    }

    fn database(&self) -> PathBuf {
        self.folder.as_ref().unwrap().path().join("test.db")
    }

    /// The same database, another process (as far as the database can tell).
    async fn restart(mut self) -> Server {
        let folder = self.folder.take().unwrap();
        let given = self.given.clone();
        self.app.stop(std::future::pending()).await;
        Server::at(self.machine, folder, given).await
    }

    fn url(&self, path: &str) -> String {
        let root = if path.starts_with("/api") || !path.starts_with('/') || is_root(path) { "" } else { ROOT };
        format!("http://{}{root}{path}", self.app.address)
    }

    /// Any request.
    async fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: impl Into<Vec<u8>>) -> Got {
        let method = awc::http::Method::from_bytes(method.as_bytes()).unwrap();
        let mut request = self.client.request(method, self.url(path));
        for (name, value) in headers {
            request = request.append_header((*name, *value));
        }
        let body = body.into();
        let mut answer = match body.is_empty() {
            true => request.send().await,
            false => request.send_body(body).await,
        }
        .unwrap_or_else(|error| panic!("{path}: {error}"));
        let bytes = answer.body().limit(64 << 20).await.unwrap();
        Got {
            status: answer.status().as_u16(),
            headers: answer.headers().clone(),
            text: String::from_utf8(bytes.to_vec()).unwrap(),
        }
    }

    async fn get(&self, path: &str) -> Got {
        self.send("GET", path, &[("X-API-Key", &self.key)], "").await
    }

    /// A request with a JSON body.
    async fn call(&self, method: &str, path: &str, body: Value) -> Got {
        self.call_text(method, path, &body.to_string()).await
    }

    async fn call_text(&self, method: &str, path: &str, body: &str) -> Got {
        let headers = [("X-API-Key", self.key.as_str()), ("Content-Type", "application/json")];
        self.send(method, path, &headers, body).await
    }

    async fn post(&self, path: &str, body: Value) -> Got {
        self.call("POST", path, body).await
    }

    /// A POST without a body.
    async fn act(&self, path: &str) -> Got {
        self.send("POST", path, &[("X-API-Key", &self.key)], "").await
    }

    /// A POST with an `Idempotency-Key`.
    async fn keyed(&self, path: &str, key: &str, body: &str) -> Got {
        let headers =
            [("X-API-Key", self.key.as_str()), ("Content-Type", "application/json"), ("Idempotency-Key", key)];
        self.send("POST", path, &headers, body).await
    }

    /// An endpoint for this receiver with these members besides; its answer.
    async fn endpoint(&self, url: &str, mut members: Value) -> Value {
        members["url"] = json!(url);
        self.post("/endpoints", members).await.ok(201)
    }

    /// The id of an endpoint with this policy whose receiver answers as it is told.
    async fn endpoint_id(&self, url: &str, policy: &str) -> String {
        text(&self.endpoint(url, json!({"policy": policy})).await["id"])
    }

    /// Posts an event of the type `a`; the id of its only delivery.
    async fn event(&self) -> String {
        let answer = self.post("/events", json!({"type": "a", "data": {"n": 1}})).await.ok(202);
        text(&answer["deliveries"][0]["id"])
    }

    async fn delivery(&self, id: &str) -> Value {
        self.get(&format!("/deliveries/{id}")).await.ok(200)
    }

    /// The delivery as soon as it is in this state.
    async fn until(&self, id: &str, state: &str) -> Value {
        until(|| async {
            let delivery = self.delivery(id).await;
            (delivery["state"] == state).then_some(delivery)
        })
        .await
    }

    /// A dead delivery of an endpoint whose receiver refuses for good.
    async fn dead(&self, receiver: &RawReceiver) -> (String, String) {
        let policy = json!({"schedule": {"ladder": []}, "responses": [], "auto_disable": null});
        let endpoint = self.endpoint(&receiver.url("/"), json!({"policy": policy})).await;
        let delivery = self.event().await;
        self.until(&delivery, "dead").await;
        (text(&endpoint["id"]), delivery)
    }

    async fn count(&self, path: &str) -> usize {
        self.get(path).await.ok(200)["data"].as_array().unwrap().len()
    }

    async fn stop(self) {
        self.app.stop(std::future::pending()).await;
    }
}

fn is_root(path: &str) -> bool {
    ["/healthz", "/readyz", "/x", "/"].contains(&path.split('?').next().unwrap())
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text")).to_owned()
}

/// What comes of asking again and again. A test that waits longer has failed.
async fn until<T, F: Future<Output = Option<T>>>(ask: impl Fn() -> F) -> T {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
    loop {
        if let Some(found) = ask().await {
            return found;
        }
        assert!(tokio::time::Instant::now() < deadline, "what was waited for did not come");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
const BUSY: &str = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 4\r\n\r\nbusy";

/// A receiver that takes everything.
fn taking() -> RawReceiver {
    RawReceiver::answering(OK)
}

/// A receiver that refuses everything.
fn refusing() -> RawReceiver {
    RawReceiver::answering(BUSY)
}

/// A receiver that answers nothing.
fn hanging() -> RawReceiver {
    RawReceiver::scripted(|conversation| {
        conversation.request();
        conversation.wait_for_close();
    })
}
