//! People: they disable and enable, retry and requeue, edit and delete. And a reader who follows all changes.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use posthaste::domain::ids::parse_delivery_id;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

use super::ledger::{Deed, Ledger, Line, PLANTED, lock, now};
use super::places::{DOOMED, Place, STEADY};
use crate::support::server::{Answer, micros, text};

pub struct People<'a> {
    pub ledger: &'a Ledger,
    pub places: &'a [Place],
    line: Line,
    random: StdRng,
    count: u64,
    /// Of the endpoint that comes and goes.
    doomed: Option<String>,
}

impl<'a> People<'a> {
    pub fn new(ledger: &'a Ledger, places: &'a [Place], seed: u64) -> People<'a> {
        let random = StdRng::seed_from_u64(seed);
        People { ledger, places, line: Line::default(), random, count: 0, doomed: None }
    }

    pub fn act(mut self) {
        while !self.ledger.stopped() {
            self.count += 1;
            // The steady one is never disabled, so what it is for must be delivered.
            let chosen = self.random.random_range(STEADY + 1..DOOMED);
            match self.random.random_range(0..12) {
                0 => self.disable(chosen),
                1 => self.set(chosen, Deed::Enable),
                2 | 3 => self.edit(chosen),
                4 => self.come_or_go(),
                5 => self.bulk(chosen),
                6 | 7 => self.requeue(chosen),
                _ => self.retry(),
            }
            thread::sleep(Duration::from_millis(self.random.random_range(20..400)));
        }
    }

    fn set(&mut self, chosen: usize, deed: Deed) {
        let endpoint = &self.places[chosen].id;
        let word = if deed == Deed::Enable { "enable" } else { "disable" };
        let sent = now();
        let path = format!("/endpoints/{endpoint}/{word}");
        let answer = self.line.insist(self.ledger, "POST", &path, b"{}");
        self.expect(&answer, &[200], word);
        self.ledger.act(endpoint, deed, sent, answer.status);
    }

    fn disable(&mut self, chosen: usize) {
        self.set(chosen, Deed::Disable);
        thread::sleep(Duration::from_millis(self.random.random_range(0..4_000)));
        self.set(chosen, Deed::Enable);
    }

    fn edit(&mut self, chosen: usize) {
        let place = &self.places[chosen];
        let path = format!("/hook/{}?token={PLANTED}-query", self.count);
        let body = json!({"url": place.receiver.url(&path)}).to_string();
        let sent = now();
        let answer = self.line.insist(self.ledger, "PATCH", &format!("/endpoints/{}", place.id), body.as_bytes());
        self.expect(&answer, &[200], "an edit");
        self.ledger.act(&place.id, Deed::Url(path), sent, answer.status);
    }

    /// Whoever repeats a creation needs a key; a deletion that is repeated finds nothing.
    fn come_or_go(&mut self) {
        let (sent, doomed) = (now(), &self.places[DOOMED]);
        match self.doomed.take() {
            Some(id) => {
                let answer = self.line.insist(self.ledger, "DELETE", &format!("/endpoints/{id}"), b"");
                self.expect(&answer, &[204, 404], "a deletion");
                self.ledger.act(&id, Deed::Delete, sent, 204);
            }
            None => {
                let (key, body) = (format!("endpoint-{}", self.count), doomed.body());
                let created = loop {
                    match self.line.ask(self.ledger, |client| client.keyed(&key, "/endpoints", &body)) {
                        Some(answer) if answer.status != 409 => break answer,
                        _ => {}
                    }
                };
                self.doomed = Some(text(&created.json(201)["id"]));
            }
        }
    }

    fn bulk(&mut self, chosen: usize) {
        let endpoint = &self.places[chosen].id;
        let (sent, body) = (now(), json!({"endpoint_id": endpoint, "limit": 200}));
        let key = format!("bulk-{}", self.count);
        let answer = self.line.ask(self.ledger, |client| client.keyed(&key, "/dlq/requeue", &body));
        let status = answer.as_ref().map_or(0, |answer| answer.status);
        self.ledger.act(endpoint, Deed::Bulk, sent, status);
        if let Some(answer) = answer {
            self.expect(&answer, &[202], "a bulk requeue");
        }
    }

    fn requeue(&mut self, chosen: usize) {
        let path = format!("/dlq?limit=20&endpoint_id={}", self.places[chosen].id);
        let Some(answer) = self.line.ask(self.ledger, |client| client.send("GET", &path, b"")) else { return };
        let found = answer.json(200);
        let Some(dead) = found["data"].as_array().and_then(|rows| rows.last()).map(|row| text(&row["id"])) else {
            return;
        };
        self.again(&dead, &format!("/dlq/{dead}/requeue"));
    }

    fn retry(&mut self) {
        let wanted = ["delivered", "failed", "dead", "pending"][self.random.random_range(0..4)];
        let path = format!("/deliveries?limit=50&state={wanted}");
        let Some(answer) = self.line.ask(self.ledger, |client| client.send("GET", &path, b"")) else { return };
        let found = answer.json(200);
        let rows = found["data"].as_array().expect("data");
        if !rows.is_empty() {
            let id = text(&rows[self.random.random_range(0..rows.len())]["id"]);
            self.again(&id, &format!("/deliveries/{id}/retry"));
        }
    }

    fn again(&mut self, delivery: &str, path: &str) {
        let (sent, no) = (now(), parse_delivery_id(delivery).expect("an id").0);
        let answer = self.line.ask(self.ledger, |client| client.send("POST", path, b"{}"));
        let status = answer.as_ref().map_or(0, |answer| answer.status);
        self.ledger.act("", Deed::Again(no), sent, status);
        if let Some(answer) = answer {
            self.expect(&answer, &[202, 404, 409], path);
        }
    }

    fn expect(&self, answer: &Answer, statuses: &[u16], what: &str) {
        if !statuses.contains(&answer.status) {
            let said = String::from_utf8_lossy(&answer.body);
            self.ledger.fault(format!("{what} was answered {}: {said}", answer.status));
        }
    }
}

/// Follows `/deliveries` in the order of changes (S24) and keeps the last that it saw of each: state, run, attempts, time
/// of the change.
#[derive(Default)]
pub struct Follower {
    pub seen: std::sync::Mutex<HashMap<String, (Value, i64)>>,
    pub pages: AtomicU64,
}

/// What a reader compares.
pub fn shown(row: &Value) -> Value {
    Value::from_iter(
        ["state", "run", "attempt", "attempts_total", "dead_reason", "updated_at"]
            .map(|name| (name, row[name].clone())),
    )
}

impl Follower {
    /// Until `done` says so and there is nothing more.
    pub fn follow(&self, ledger: &Ledger, done: &std::sync::atomic::AtomicBool) {
        let (mut line, mut place, mut last) = (Line::default(), "updated_after=1970-01-01T00:00:00Z".to_owned(), 0);
        loop {
            // Read before the page: what was changed before is in it.
            let ending = done.load(Ordering::SeqCst);
            let path = format!("/deliveries?limit=250&{place}");
            let Some(answer) = line.ask(ledger, |client| client.send("GET", &path, b"")) else { continue };
            let page = answer.json(200);
            self.pages.fetch_add(1, Ordering::SeqCst);
            for row in page["data"].as_array().expect("data") {
                let changed = micros(&row["updated_at"]);
                if changed < last {
                    ledger.fault(format!("S24: a walk by updated_after went back from {last} to {row}"));
                }
                last = changed;
                lock(&self.seen).insert(text(&row["id"]), (shown(row), changed));
            }
            place = format!("cursor={}", text(&page["resume"]));
            if page["next_cursor"].is_null() {
                if ending {
                    return;
                }
                thread::sleep(Duration::from_millis(200));
            }
        }
    }
}
