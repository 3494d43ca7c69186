//! Callers: single events, batches, ids that come again, idempotency keys. What is not confirmed is sent again until it is.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

use super::ledger::{Ledger, Line, PLANTED, lock};
use super::receivers::hash;
use crate::support::server::Answer;

/// Events per second of each caller.
const RATE: u64 = 25;
pub const CALLERS: u64 = 3;
/// Bytes of a large event.
const FAT: usize = 60_000;

/// An event as it is written.
#[derive(Clone)]
struct Event {
    id: String,
    kind: &'static str,
    data: String,
}

impl Event {
    /// `data` with spaces, escapes and numbers that no second writer would write so.
    fn new(number: u64, fat: bool, random: &mut StdRng) -> Event {
        let kind = ["soak.a", "soak.b", "soak.a", "soak.b", "soak.c"][random.random_range(0..5)];
        let pad = "x".repeat(if fat { FAT } else { random.random_range(0..400) });
        let data =
            format!("{{\"n\" :{number},\"z\":1.10,\"e\":1E2, \"s\":\"\\u00e9\\/{PLANTED}-data\",\"pad\":\"{pad}\"}}");
        Event { id: format!("e{number}"), kind, data }
    }

    fn text(&self) -> String {
        format!("{{\"id\":\"{}\",\"type\":\"{}\",\"data\":{}}}", self.id, self.kind, self.data)
    }
}

enum Request {
    One(Event),
    Batch(Vec<Event>),
    /// An event without an id of its own, under a key.
    Keyed(String, Value),
    /// An id that is taken, with other data.
    Other(Event),
}

pub struct Callers {
    next: AtomicU64,
}

impl Callers {
    pub fn new() -> Callers {
        Callers { next: AtomicU64::new(0) }
    }

    /// Calls until it is told to stop and nothing is unconfirmed.
    pub fn call(&self, ledger: &Ledger, seed: u64) {
        let mut random = StdRng::seed_from_u64(seed);
        let (mut line, mut old) = (Line::default(), Vec::new());
        let mut request = None;
        while !ledger.stopped() || request.is_some() {
            let asked = request.take().unwrap_or_else(|| self.draw(ledger, &mut random, &old));
            let Some(answer) = line.ask(ledger, |client| match &asked {
                Request::One(event) | Request::Other(event) => client.send("POST", "/events", event.text().as_bytes()),
                Request::Batch(events) => {
                    let members: Vec<String> = events.iter().map(Event::text).collect();
                    let body = format!("{{\"events\":[{}]}}", members.join(","));
                    client.send("POST", "/events/batch", body.as_bytes())
                }
                Request::Keyed(key, body) => client.keyed(key, "/events", body),
            }) else {
                request = Some(asked);
                continue;
            };
            let events = match &asked {
                Request::Batch(events) => events.len() as u64,
                _ => 1,
            };
            request = note(ledger, asked, &answer, &mut old);
            thread::sleep(Duration::from_micros(events * 1_000_000 / RATE));
        }
    }

    fn draw(&self, ledger: &Ledger, random: &mut StdRng, old: &[Event]) -> Request {
        let fat = ledger.fat.load(Ordering::SeqCst);
        let number = self.next.fetch_add(1, Ordering::SeqCst);
        let again = (!old.is_empty()).then(|| old[random.random_range(0..old.len())].clone());
        match (random.random_range(0..20), again) {
            (0..3, Some(event)) => Request::One(event),
            (3, Some(event)) => Request::Other(Event { data: "0".into(), ..event }),
            (4..7, _) => Request::Keyed(
                format!("key-{number}"),
                json!({"type": "soak.a", "data": {"keyed": number, "s": format!("{PLANTED}-data")}}),
            ),
            (7..12, _) => {
                let size = random.random_range(1..if fat { 20 } else { 12 });
                let first = self.next.fetch_add(size, Ordering::SeqCst);
                Request::Batch((first..first + size).map(|number| Event::new(number, fat, random)).collect())
            }
            _ => Request::One(Event::new(number, fat, random)),
        }
    }
}

/// Writes the answer down. What is not confirmed yet comes back.
fn note(ledger: &Ledger, asked: Request, answer: &Answer, old: &mut Vec<Event>) -> Option<Request> {
    let said = || String::from_utf8_lossy(&answer.body).into_owned();
    let (status, body): (u16, Value) = (answer.status, serde_json::from_slice(&answer.body).unwrap_or_default());
    let mut keep = |event: &Event| {
        // Enough to repeat from, and small ones only: they are repeated often.
        if event.data.len() < 1_000 {
            if old.len() > 500 {
                old.swap_remove(0);
            }
            old.push(event.clone());
        }
    };
    match &asked {
        Request::Other(_) if status == 409 => {}
        Request::Keyed(..) if status == 409 && body["code"] == "idempotency_in_progress" => return Some(asked),
        Request::One(event) if status == 202 => {
            ledger.accept(event.kind, hash(event.data.as_bytes()), &body);
            keep(event);
        }
        Request::Batch(events) if status == 202 => {
            for (event, answer) in events.iter().zip(body["events"].as_array().expect("events")) {
                ledger.accept(event.kind, hash(event.data.as_bytes()), answer);
                keep(event);
            }
        }
        Request::Keyed(_, event) if status == 202 => {
            ledger.accept("soak.a", hash(event["data"].to_string().as_bytes()), &body);
        }
        _ => ledger.fault(format!("a caller was answered {status}: {}", said())),
    }
    None
}

/// How many events were acknowledged so far.
pub fn acknowledged(ledger: &Ledger) -> usize {
    lock(&ledger.accepted).len()
}
