//! Keys, roles and tenants.

use diesel::connection::SimpleConnection;
use sha2::{Digest, Sha256};

use super::*;

/// A server whose store holds a second tenant, `ten_b`, and a key of each role for both: `ph_a_admin…`, `ph_b_read…`, …
async fn with_keys() -> Server {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("test.db");
    let mut given = given(&database);
    given.encryption_key = Some("07".repeat(32));
    let mut conn = posthaste::store::sqlite::open(&database.to_string_lossy()).unwrap().conn;
    conn.batch_execute("INSERT INTO tenants VALUES (2, 'ten_b', 'b', 0)").unwrap();
    for (letter, tenant) in [("a", 1), ("b", 2)] {
        for role in ["admin", "send", "read"] {
            let key = format!("ph_{letter}_{role}_0123456789");
            let hash: String = Sha256::digest(&key).iter().map(|byte| format!("{byte:02x}")).collect();
            let values = format!("('key_{letter}_{role}', {tenant}, '{role}', 'test', x'{hash}', 0)");
            conn.batch_execute(&format!("INSERT INTO api_keys VALUES {values}")).unwrap();
        }
    }
    drop(conn);
    Server::on(folder, given).await
}

fn key(letter: &str, role: &str) -> String {
    format!("ph_{letter}_{role}_0123456789")
}

#[actix_web::test]
async fn a_key_is_needed_everywhere_and_comes_in_two_headers() {
    let server = with_keys().await;
    for path in ["/events", "/endpoints/x", "/dlq", "/policies"] {
        for headers in [
            &[][..],
            &[("X-API-Key", "ph_wrong_0123456789")],
            &[("X-API-Key", "")],
            &[("Authorization", "Basic ph_operator_0123456789")],
            &[("X-API-Key", KEY), ("X-API-Key", KEY)],
            &[("Cookie", "X-API-Key=ph_operator_0123456789")],
        ] {
            let got = server.send("GET", path, headers, "").await;
            got.problem(401, "unauthorized", &[]);
            assert!(got.header("www-authenticate").is_some());
        }
    }
    let bearer = format!("Bearer {KEY}");
    for headers in [[("X-API-Key", KEY)], [("Authorization", bearer.as_str())]] {
        server.send("GET", "/events", &headers, "").await.ok(200);
    }
    server.stop().await;
}

/// Method, path, and who may: admin, send, read. What may is answered by the handler (404 for what is not there).
const RIGHTS: [(&str, &str, [bool; 3]); 18] = [
    ("GET", "/events", [true, false, true]),
    ("GET", "/events/x", [true, false, true]),
    ("POST", "/events", [true, true, false]),
    ("POST", "/events/batch", [true, true, false]),
    ("GET", "/endpoints", [true, false, true]),
    ("POST", "/endpoints", [true, false, false]),
    ("PATCH", "/endpoints/x", [true, false, false]),
    ("DELETE", "/endpoints/x", [true, false, false]),
    ("GET", "/endpoints/x/status", [true, false, true]),
    ("GET", "/endpoints/x/secret", [true, false, false]),
    ("POST", "/endpoints/x/enable", [true, false, false]),
    ("POST", "/endpoints/x/secret/rotate", [true, false, false]),
    ("POST", "/policies/simulate", [true, false, false]),
    ("GET", "/policies", [true, false, true]),
    ("POST", "/deliveries/x/retry", [true, false, false]),
    ("POST", "/dlq/requeue", [true, false, false]),
    ("GET", "/notifications", [true, false, true]),
    ("POST", "/notifications/x/read", [true, false, false]),
];

#[actix_web::test]
async fn roles_may_what_the_contract_says() {
    let server = with_keys().await;
    for (method, path, rights) in RIGHTS {
        for (role, may) in ["admin", "send", "read"].into_iter().zip(rights) {
            let got = server.send(method, path, &[("X-API-Key", &key("a", role))], "").await;
            match may {
                true => assert!(![401, 403].contains(&got.status), "{role} {method} {path}: {got:?}"),
                false => got.problem(403, "forbidden", &[]),
            }
        }
    }
    server.stop().await;
}

/// Another tenant's ids answer 404, never 403, on every route.
#[actix_web::test]
async fn tenants_do_not_see_each_other() {
    let mut server = with_keys().await;
    let receiver = refusing();
    server.key = key("a", "admin");
    let (endpoint, delivery) = server.dead(&receiver).await;
    let event = text(&server.delivery(&delivery).await["event_id"]);
    let notification = "ntf_x";
    server.key = key("b", "admin");
    for (method, path) in [
        ("GET", format!("/events/{event}")),
        ("GET", format!("/endpoints/{endpoint}")),
        ("PATCH", format!("/endpoints/{endpoint}")),
        ("DELETE", format!("/endpoints/{endpoint}")),
        ("GET", format!("/endpoints/{endpoint}/status")),
        ("GET", format!("/endpoints/{endpoint}/secret")),
        ("POST", format!("/endpoints/{endpoint}/enable")),
        ("POST", format!("/endpoints/{endpoint}/disable")),
        ("POST", format!("/endpoints/{endpoint}/ping")),
        ("POST", format!("/endpoints/{endpoint}/secret/rotate")),
        ("GET", format!("/deliveries/{delivery}")),
        ("GET", format!("/deliveries/{delivery}/attempts")),
        ("POST", format!("/deliveries/{delivery}/retry")),
        ("POST", format!("/dlq/{delivery}/requeue")),
        ("POST", format!("/notifications/{notification}/read")),
    ] {
        server.call(method, &path, json!({})).await.problem(404, "not_found", &[]);
    }
    for list in ["/events", "/endpoints", "/deliveries", "/dlq", "/notifications"] {
        assert_eq!(server.count(list).await, 0, "{list}");
    }
    assert_eq!(server.count(&format!("/deliveries?endpoint_id={endpoint}")).await, 0);
    let narrowed = json!({"type": "a", "data": 1, "endpoint_ids": [endpoint]});
    server.post("/events", narrowed).await.problem(400, "validation", &["endpoint_ids[0]"]);
    let bulk = json!({"endpoint_id": endpoint});
    server.post("/dlq/requeue", bulk).await.problem(400, "validation", &["endpoint_id"]);
    assert_eq!(server.post("/dlq/requeue", json!({})).await.ok(202)["matched"], 0);
    // The same event id is free here.
    let same = json!({"id": event, "type": "other", "data": 1});
    assert_eq!(server.post("/events", same).await.ok(202)["deliveries"], json!([]));
    server.key = key("a", "admin");
    assert_eq!(server.delivery(&delivery).await["state"], "dead");
    server.stop().await;
}

#[actix_web::test]
async fn operators_choose_their_tenant() {
    let server = with_keys().await;
    let count = async |headers: &[(&str, &str)]| {
        server.send("GET", "/endpoints", headers, "").await.ok(200)["data"].as_array().unwrap().len()
    };
    let as_b = [("X-API-Key", KEY), ("X-Tenant-Id", "ten_b")];
    let body = json!({"url": "https://example.com"}).to_string();
    server.send("POST", "/endpoints", &as_b, body).await.ok(201);
    assert_eq!(count(&as_b).await, 1);
    assert_eq!(count(&as_b).await, 1, "from memory");
    assert_eq!(count(&[("X-API-Key", KEY)]).await, 0, "the default tenant");
    assert_eq!(count(&[("X-API-Key", KEY), ("X-Tenant-Id", "default")]).await, 0);
    assert_eq!(count(&[("X-API-Key", &key("b", "read"))]).await, 1);
    assert_eq!(count(&[("X-API-Key", &key("b", "read")), ("X-Tenant-Id", "ten_b")]).await, 1);
    for (who, tenant) in [(KEY, "ten_x"), (KEY, ""), (&key("b", "read"), "default"), (&key("b", "read"), "ten_x")] {
        let got = server.send("GET", "/endpoints", &[("X-API-Key", who), ("X-Tenant-Id", tenant)], "").await;
        got.problem(404, "not_found", &[]);
    }
    server.stop().await;
}

#[actix_web::test]
async fn the_first_start_makes_a_key_and_keeps_its_hash() {
    let folder = tempfile::tempdir().unwrap();
    let mut without = given(&folder.path().join("test.db"));
    without.operator_key = None;
    let mut server = Server::on(folder, without).await;
    server.key = server.app.generated_key.clone().unwrap();
    let text = std::fs::read(server.database()).unwrap();
    assert!(!text.windows(20).any(|window| window == &server.key.as_bytes()[..20]));
    server.get("/events").await.ok(200);
    let key = server.key.clone();
    let mut server = server.restart().await;
    assert_eq!(server.app.generated_key, None);
    server.get("/events").await.problem(401, "unauthorized", &[]);
    server.key = key;
    server.get("/events").await.ok(200);
    server.stop().await;
}

/// C73: a key is used by one tenant as if there were no other.
#[actix_web::test]
async fn c73_an_idempotency_key_belongs_to_its_tenant() {
    let mut server = with_keys().await;
    let body = r#"{"type": "a", "data": 1}"#;
    server.key = key("a", "send");
    let first = server.keyed("/events", "k", body).await.ok(202);
    server.key = key("b", "send");
    let other = server.keyed("/events", "k", r#"{"type": "b", "data": 2}"#).await;
    assert_eq!((other.status, other.header("idempotency-replayed")), (202, None));
    assert_ne!(other.json()["id"], first["id"]);
    server.key = key("a", "send");
    assert_eq!(server.keyed("/events", "k", body).await.ok(202), first);
    server.stop().await;
}
