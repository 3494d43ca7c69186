//! `kill -9`, again and again, under load; the ledger lies outside the process (S1).

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use diesel::prelude::*;
use diesel::sql_types::{Integer, Text};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

use crate::support::receiver::{Arrival, Receiver, Reply};
use crate::support::seed::seed;
use crate::support::server::{Client, Options, Server, alone, text, wait_for};

const KILLS: usize = 21;
/// This one falls during start-up.
const EARLY_KILL: usize = 7;
const MAX_IN_FLIGHT: usize = 16;
/// Judged results of one endpoint that may wait for their commit (the engine's `UNRECORDED`): a request is over when
/// its result is committed, so these too are made again (S1).
const UNRECORDED: usize = 256;
/// No result waits longer for its commit.
const COMMIT_LIMIT: Duration = Duration::from_secs(2);
/// Events per request of a caller.
const BATCH: u64 = 5;
const CALLERS: u64 = 4;
/// Events offered per second while the process is up.
const OFFERED: f64 = 700.0;

/// What every caller shares.
struct Load {
    address: Mutex<Option<std::net::SocketAddr>>,
    stop: AtomicBool,
    next: AtomicU64,
    /// When the callers may post how many events: real time while the process is up.
    up_since: Mutex<(Duration, Option<Instant>)>,
    acknowledged: Mutex<HashSet<String>>,
    duplicates: AtomicU64,
}

impl Load {
    fn up(&self) -> Duration {
        let (before, since) = *self.up_since.lock().expect("up");
        before + since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    fn set_up(&self, address: Option<std::net::SocketAddr>) {
        let up = self.up();
        *self.up_since.lock().expect("up") = (up, address.map(|_| Instant::now()));
        *self.address.lock().expect("address") = address;
    }

    /// Posts batches until it is told to stop; one that was not acknowledged is posted again, the same ids.
    fn call(&self) {
        let mut client: Option<(std::net::SocketAddr, Client)> = None;
        let mut unconfirmed: Option<Vec<Value>> = None;
        while !self.stop.load(Ordering::SeqCst) || unconfirmed.is_some() {
            let address = *self.address.lock().expect("address");
            let early =
                unconfirmed.is_none() && self.next.load(Ordering::SeqCst) as f64 > self.up().as_secs_f64() * OFFERED;
            let Some(address) = address.filter(|_| !early) else {
                thread::sleep(Duration::from_millis(1));
                continue;
            };
            if client.as_ref().is_none_or(|(of, _)| *of != address) {
                client = Some((address, Client::new(address)));
            }
            let events = unconfirmed.take().unwrap_or_else(|| {
                let first = self.next.fetch_add(BATCH, Ordering::SeqCst);
                (first..first + BATCH).map(event).collect()
            });
            let body = json!({"events": events}).to_string();
            let answer = client.as_mut().expect("one").1.send("POST", "/events/batch", body.as_bytes());
            match answer {
                Ok(answer) if answer.status == 202 => {
                    let accepted = answer.json(202);
                    let accepted = accepted["events"].as_array().expect("events");
                    let again = accepted.iter().filter(|one| one["duplicate"] == true).count();
                    self.duplicates.fetch_add(again as u64, Ordering::SeqCst);
                    let ids = accepted.iter().map(|one| text(&one["id"]));
                    self.acknowledged.lock().expect("acknowledged").extend(ids);
                }
                Ok(answer) => {
                    assert_eq!(answer.status, 503, "{}", String::from_utf8_lossy(&answer.body));
                    unconfirmed = Some(events);
                }
                Err(_) => {
                    unconfirmed = Some(events);
                    thread::sleep(Duration::from_millis(2));
                }
            }
        }
    }
}

/// Every 20th event also goes to the slow endpoint.
fn event(number: u64) -> Value {
    let kind = if number.is_multiple_of(20) { "order.slow" } else { "order.quick" };
    json!({"id": format!("e{number}"), "type": kind, "data": {"number": number}})
}

fn number(event: &str) -> u64 {
    event[1..].parse().expect("a number")
}

/// What each endpoint's receiver says to an attempt. Of the failing one's events a third succeed at once, a third at
/// the second attempt, a third never.
fn reply(arrival: &Arrival) -> Reply {
    match arrival.path.as_str() {
        "/slow" => {
            thread::sleep(Duration::from_millis(20 + number(&arrival.event) % 7 * 20));
            Reply::Answer(200)
        }
        "/failing" if u64::from(arrival.attempt) <= number(&arrival.event) % 3 * 2 => Reply::Answer(503),
        _ => Reply::Answer(200),
    }
}

#[derive(QueryableByName)]
struct Row {
    #[diesel(sql_type = Text)]
    event: String,
    #[diesel(sql_type = Text)]
    url: String,
    #[diesel(sql_type = Text)]
    state: String,
    #[diesel(sql_type = Integer)]
    attempts_total: i32,
}

/// One end of the process.
struct Death {
    at: Instant,
    /// By event and path: how many attempts were recorded, and whether the delivery had ended.
    recorded: HashMap<(String, String), (u32, bool)>,
}

/// Which attempts of which (event, path) the dead process had recorded, and whether that was the end of it.
fn recorded(server: &Server) -> HashMap<(String, String), (u32, bool)> {
    let rows: Vec<Row> = diesel::sql_query(
        "SELECT e.id AS event, p.url AS url, d.state AS state, d.attempts_total AS attempts_total \
         FROM deliveries d JOIN events e ON e.no = d.event JOIN endpoints p ON p.no = d.endpoint \
         WHERE d.attempts_total > 0",
    )
    .load(&mut server.remains().connect())
    .expect("rows");
    let path = |url: &str| url[url.rfind('/').expect("a path")..].to_owned();
    let ended = |state: &str| state == "delivered" || state == "dead";
    rows.into_iter()
        .map(|row| ((row.event, path(&row.url)), (row.attempts_total.unsigned_abs(), ended(&row.state))))
        .collect()
}

#[test]
fn s01_twenty_one_kills_lose_nothing_and_repeat_only_what_was_on_the_wire() {
    let _machine = alone();
    let mut random = StdRng::seed_from_u64(seed());
    let receiver = Receiver::start(reply);
    let mut server = Server::start(Options::default());
    let policy = json!({
        "schedule": {"ladder": ["300ms", "600ms"]}, "jitter": 0, "timeout": "5s", "responses": [], "auto_disable": null,
    });
    for (path, types) in [("/healthy", "order.*"), ("/failing", "order.*"), ("/slow", "order.slow")] {
        server.endpoint(json!({
            "url": receiver.url(path), "event_types": [types], "policy": policy, "max_in_flight": MAX_IN_FLIGHT,
        }));
    }
    let load = Arc::new(Load {
        address: Mutex::default(),
        stop: AtomicBool::new(false),
        next: AtomicU64::new(0),
        up_since: Mutex::default(),
        acknowledged: Mutex::default(),
        duplicates: AtomicU64::new(0),
    });
    load.set_up(Some(server.address()));
    let callers: Vec<_> = (0..CALLERS)
        .map(|_| {
            let load = load.clone();
            thread::spawn(move || load.call())
        })
        .collect();
    let mut deaths: Vec<Death> = Vec::new();
    let mut died = |server: &Server, at: Instant| {
        load.set_up(None);
        receiver.next_life();
        deaths.push(Death { at, recorded: recorded(server) });
    };
    for kill in 0..KILLS {
        let life = Duration::from_millis(random.random_range(200..2_000));
        let early = Duration::from_millis(random.random_range(1..60));
        if kill == EARLY_KILL {
            server.kill();
            died(&server, Instant::now());
            server.launch();
            thread::sleep(early);
        } else {
            thread::sleep(life);
        }
        server.kill();
        died(&server, Instant::now());
        server.restart();
        load.set_up(Some(server.address()));
    }
    load.stop.store(true, Ordering::SeqCst);
    callers.into_iter().for_each(|caller| caller.join().expect("a caller"));
    let acknowledged = load.acknowledged.lock().expect("acknowledged").clone();
    let rate = acknowledged.len() as f64 / load.up().as_secs_f64();
    let (up, offered) = (load.up(), load.next.load(Ordering::SeqCst));
    wait_for("everything ends", Duration::from_secs(90), || {
        let endpoints = server.all("/endpoints");
        let queues = endpoints.iter().map(|one| server.status(&text(&one["id"]))["queue"].clone());
        queues.into_iter().all(|queue| queue["pending"] == 0 && queue["failed"] == 0).then_some(())
    });
    let ledger = receiver.ledger();
    println!(
        "{} kills, {offered} events offered, {} acknowledged in {up:.1?} of life ({rate:.0}/s), {} of them again, {} requests",
        deaths.len(),
        acknowledged.len(),
        load.duplicates.load(Ordering::SeqCst),
        ledger.len(),
    );
    assert!(rate >= 500.0, "{rate}");
    nothing_is_lost(&server, &acknowledged, &ledger);
    repeated_only_what_was_on_the_wire(&ledger, &deaths);
}

/// Each acknowledged event has exactly one delivery for each endpoint, which ended as its receiver says.
fn nothing_is_lost(server: &Server, acknowledged: &HashSet<String>, ledger: &[Arrival]) {
    let mut answered: HashMap<(&str, &str), Vec<(u32, u16)>> = HashMap::new();
    for arrival in ledger {
        let key = (arrival.event.as_str(), arrival.path.as_str());
        answered.entry(key).or_default().extend(arrival.answer.map(|status| (arrival.attempt, status)));
    }
    let paths: HashMap<String, String> = server
        .all("/endpoints")
        .iter()
        .map(|one| (text(&one["id"]), text(&one["url"])))
        .map(|(id, url)| (id, url[url.rfind('/').expect("a path")..].to_owned()))
        .collect();
    let mut seen = HashSet::new();
    for delivery in server.all("/deliveries") {
        let (event, path) = (text(&delivery["event_id"]), paths[&text(&delivery["endpoint_id"])].clone());
        let answers = answered.get(&(event.as_str(), path.as_str())).cloned().unwrap_or_default();
        let attempts = delivery["attempts_total"].as_u64().expect("a number") as u32;
        let succeeds = path != "/failing" || number(&event) % 3 < 2;
        let last = if succeeds { (attempts, 200) } else { (3, 503) };
        let state = if succeeds { "delivered" } else { "dead" };
        assert_eq!(delivery["state"], state, "{delivery}");
        assert!(answers.contains(&last), "{delivery} was never answered so: {answers:?}");
        assert!((1..=attempts).all(|rung| answers.iter().any(|one| one.0 == rung)), "{delivery}: {answers:?}");
        assert!(seen.insert((event, path)), "two deliveries: {delivery}");
    }
    for event in acknowledged {
        let slow = number(event).is_multiple_of(20).then_some("/slow");
        for path in ["/healthy", "/failing"].into_iter().chain(slow) {
            assert!(seen.contains(&(event.clone(), path.to_owned())), "{event} for {path} is lost");
        }
    }
}

/// No attempt that was recorded before a death is made after it, nothing that had ended is sent at all, and what is made
/// twice was between request and commit at a death.
fn repeated_only_what_was_on_the_wire(ledger: &[Arrival], deaths: &[Death]) {
    let mut made: HashMap<(&str, &str, u32), Vec<&Arrival>> = HashMap::new();
    for arrival in ledger {
        made.entry((&arrival.event, &arrival.path, arrival.attempt)).or_default().push(arrival);
        let Some(death) = arrival.life.checked_sub(1) else { continue };
        let key = (arrival.event.clone(), arrival.path.clone());
        if let Some(&(recorded, ended)) = deaths[death as usize].recorded.get(&key) {
            let what = format!("{} attempt {} in life {}", arrival.event, arrival.attempt, arrival.life);
            assert!(!ended, "{what} for {}: had ended before", arrival.path);
            assert!(arrival.attempt > recorded, "{what} for {}: {recorded} were recorded before", arrival.path);
        }
    }
    let mut repeated: HashMap<(&str, u64), usize> = HashMap::new();
    for ((event, path, attempt), made) in &made {
        for pair in made.windows(2) {
            let life = pair[0].life;
            assert!(life < pair[1].life, "attempt {attempt} of {event} for {path} was made twice in life {life}");
            let age = deaths[life as usize].at.saturating_duration_since(pair[0].at);
            assert!(age < COMMIT_LIMIT, "attempt {attempt} of {event} for {path} came {age:?} before death {life}");
            *repeated.entry((path, life)).or_default() += 1;
        }
    }
    let most = repeated.iter().max_by_key(|one| one.1);
    println!("{} attempts were made twice; the most at one death: {most:?}", repeated.values().sum::<usize>());
    for ((path, life), count) in repeated {
        assert!(count <= MAX_IN_FLIGHT + UNRECORDED, "{count} of {path} were repeated after death {life}");
    }
}
