//! A bulk requeue takes several transactions; a process that dies between two of them must not make its caller's repeated
//! request do anything twice (S12, C73).

use std::thread;
use std::time::Instant;

use diesel::prelude::*;
use diesel::sql_types::{BigInt, Nullable};
use serde_json::{Value, json};

use super::SOON;
use crate::support::receiver::Receiver;
use crate::support::server::{Options, Server, alone, wait_for};

/// Ten slices.
const DEAD: u64 = 10_000;

#[derive(QueryableByName)]
struct Number {
    #[diesel(sql_type = Nullable<BigInt>)]
    number: Option<i64>,
}

fn number(conn: &mut SqliteConnection, query: &str) -> Option<i64> {
    let rows: Vec<Number> = diesel::sql_query(query).load(conn).expect("an answer");
    rows.first().and_then(|row| row.number)
}

/// The status that stands under the request's key.
fn remembered(conn: &mut SqliteConnection) -> Option<i64> {
    number(conn, "SELECT status AS number FROM idempotency WHERE path LIKE '%/dlq/requeue'")
}

fn all_are_dead(server: &Server, endpoint: &str) -> Option<()> {
    let queue = &server.status(endpoint)["queue"];
    (queue["dead"] == DEAD && queue["pending"] == 0).then_some(())
}

/// A bulk requeue of everything, by a process that is killed after the first of its slices: the server, its endpoint and the
/// request's body. `None`: the kill came too late.
fn killed_between_two_slices(receiver: &Receiver) -> Option<(Server, String, Value)> {
    let mut server = Server::start(Options::default().with(&["--restart-rate", "100000"]));
    let policy = json!({"schedule": {"ladder": []}, "responses": [], "auto_disable": null});
    let endpoint = server.endpoint(json!({"url": receiver.url("/"), "policy": policy, "max_in_flight": 64}));
    // What comes to a disabled endpoint is dead at once.
    server.post(&format!("/endpoints/{endpoint}/disable"), &json!({}), 200);
    for _ in 0..DEAD / 1_000 {
        let events: Vec<Value> = (0..1_000).map(|n| json!({"type": "a", "data": n})).collect();
        server.post("/events/batch", &json!({"events": events}), 202);
    }
    server.post(&format!("/endpoints/{endpoint}/enable"), &json!({}), 200);

    let body = json!({"endpoint_id": endpoint, "limit": 10_000});
    let caller = {
        let (mut client, body) = (server.client(), body.clone());
        thread::spawn(move || client.keyed("once", "/dlq/requeue", &body))
    };
    let mut conn = SqliteConnection::establish(&server.database().to_string_lossy()).expect("it opens");
    let deadline = Instant::now() + SOON;
    while remembered(&mut conn).is_none() {
        assert!(Instant::now() < deadline, "no slice is committed");
        thread::yield_now();
    }
    server.kill();
    drop(conn);
    let unanswered = caller.join().expect("the caller").is_err();
    let between = remembered(&mut server.remains().connect()) == Some(102);
    (unanswered && between).then_some((server, endpoint, body))
}

#[test]
fn s12_a_bulk_requeue_repeated_after_a_crash_requeues_nothing_twice() {
    let _machine = alone();
    let receiver = Receiver::always(503);
    let killed = (0..5).find_map(|_| killed_between_two_slices(&receiver));
    let (mut server, endpoint, body) = killed.expect("a kill in time, of five");
    let remains = server.remains();
    let mut conn = remains.connect();
    let requeued = number(&mut conn, "SELECT count(*) AS number FROM deliveries WHERE run = 2").unwrap_or_default();
    assert!((1..DEAD as i64).contains(&requeued), "{requeued}");

    server.restart();
    wait_for("what was requeued is attempted, and dead again", SOON, || all_are_dead(&server, &endpoint));
    let again = server.client().keyed("once", "/dlq/requeue", &body).expect("an answer");
    let expected = json!({"matched": DEAD, "requeued": DEAD, "skipped": {"endpoint_disabled": 0}});
    assert_eq!(again.json(202), expected, "what both did");
    assert!(!again.head.to_ascii_lowercase().contains("idempotency-replayed"), "{}", again.head);
    wait_for("the others are attempted, and dead", SOON, || all_are_dead(&server, &endpoint));
    let replayed = server.client().keyed("once", "/dlq/requeue", &body).expect("an answer");
    assert!(replayed.head.to_ascii_lowercase().contains("idempotency-replayed: true"), "{}", replayed.head);
    assert_eq!(replayed.json(202), expected);
    server.kill();
    let remains = server.remains();
    let once = "SELECT count(*) AS number FROM deliveries WHERE run = 2 AND attempts_total = 1";
    assert_eq!(number(&mut remains.connect(), once), Some(DEAD as i64), "each was requeued and attempted once");
}
