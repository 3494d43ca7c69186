//! One world from its empty database to its judgement.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use diesel::prelude::*;
use diesel::sql_types::{BigInt, Integer, Text};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::Value;

use super::blind;
use super::callers::{CALLERS, Callers, acknowledged};
use super::checks;
use super::evidence::Evidence;
use super::ledger::{Deed, Ledger, Line, PLANTED, lock, now};
use super::people::{Follower, People, shown};
use super::places::{DOOMED, Place, places};
use super::receivers::{Book, Mood, next_life};
use super::rounds::Deck;
use super::subject::{DESCRIPTORS, DRAIN, Disk, Subject};
use super::tell;
use crate::support::server::{KEY, text, wait_for};

/// At the end of the rounds: longer than what is asked for around a calm delivery.
const CALM: Duration = Duration::from_secs(8);
/// What waits once everything is mended must be done by then.
const MENDED_LIMIT: Duration = Duration::from_secs(90);
/// And a reader of changes has seen all of it then.
const FOLLOWED_LIMIT: Duration = Duration::from_secs(20);
/// No result waits longer for its commit while the store works; at a drain everybody waits for just that.
pub const COMMIT_LIMIT: Duration = Duration::from_secs(2);
const DRAIN_LIMIT: Duration = Duration::from_millis(500);
/// Memory of a process that has never more than some thousand deliveries to do, in a test build.
const MEMORY_KIB: u64 = 400 * 1024;

/// One end of the process, and what it had recorded of each delivery by then.
#[derive(Clone)]
pub struct Death {
    pub at: Instant,
    /// What was answered before this is recorded, if the store could be written to.
    pub safe: Instant,
    pub recorded: HashMap<i64, Recorded>,
}

#[derive(Clone, Copy, Debug)]
pub struct Recorded {
    pub attempt: u32,
    pub ended: bool,
}

#[derive(QueryableByName)]
struct Row {
    #[diesel(sql_type = BigInt)]
    no: i64,
    #[diesel(sql_type = Integer)]
    attempt: i32,
    #[diesel(sql_type = Text)]
    state: String,
}

pub struct World {
    pub subject: Subject,
    pub ledger: Arc<Ledger>,
    pub places: Arc<[Place]>,
    pub book: Arc<Book>,
    pub deaths: Vec<Death>,
    /// When the store could not be written to, and when the process was stopped.
    pub troubles: Vec<(Instant, Instant)>,
    pub stops: Vec<(Instant, Instant)>,
    pub random: StdRng,
}

impl World {
    fn new(seed: u64, seconds: u64) -> World {
        let mut random = StdRng::seed_from_u64(seed);
        let book = Arc::new(Book::default());
        let mut places = places(&book, &mut random);
        let mut subject = Subject::new(Disk::new(96 + seconds));
        let ledger = Arc::new(Ledger::default());
        assert!(subject.start(DESCRIPTORS), "the first start:\n{}", subject.log());
        ledger.set_address(subject.address());
        let mut line = Line::default();
        for place in &mut places[..DOOMED] {
            let answer = line.insist(&ledger, "POST", "/endpoints", place.body().to_string().as_bytes());
            place.id = text(&answer.json(201)["id"]);
        }
        let (places, deaths, troubles, stops) = (places.into(), Vec::new(), Vec::new(), Vec::new());
        World { subject, ledger, places, book, deaths, troubles, stops, random }
    }

    /// Starts a life; false if it ended at once.
    pub fn start(&mut self, descriptors: u64) -> bool {
        let started = self.subject.start(descriptors);
        self.ledger.set_address(self.subject.address());
        started
    }

    /// The process must start now: nothing stands against it.
    pub fn begin(&mut self) {
        assert!(self.start(DESCRIPTORS), "it does not start:\n{}", self.end_of_log());
    }

    pub fn kill(&mut self) {
        let at = Instant::now();
        self.subject.kill();
        self.died(at, COMMIT_LIMIT);
    }

    pub fn drain(&mut self) {
        let deadline = Instant::now() + DRAIN;
        self.subject.drain();
        self.died(Instant::now().min(deadline), DRAIN_LIMIT);
    }

    fn died(&mut self, at: Instant, limit: Duration) {
        self.ledger.set_address(None);
        next_life(&self.places.iter().map(|place| &place.receiver).collect::<Vec<_>>(), &self.book);
        let (mut conn, _folder) = self.subject.remains();
        let rows: Vec<Row> = diesel::sql_query("SELECT no, attempt, state FROM deliveries WHERE attempts_total > 0")
            .load(&mut conn)
            .expect("rows");
        let recorded = |row: Row| {
            let ended = row.state == "delivered" || row.state == "dead";
            (row.no, Recorded { attempt: row.attempt.unsigned_abs(), ended })
        };
        let safe = at.checked_sub(limit).unwrap_or(at);
        self.deaths.push(Death { at, safe, recorded: rows.into_iter().map(recorded).collect() });
    }

    /// Some receivers change their mood. The steady one stays as it is.
    pub fn moods(&mut self) -> Vec<Mood> {
        let mut moods = Vec::new();
        for place in &self.places[1..] {
            let chosen = Mood::ALL[self.random.random_range(0..Mood::ALL.len())];
            // Half of the time all is well, or nothing would ever be delivered.
            let mood = if self.random.random_bool(0.5) { Mood::Healthy } else { chosen };
            place.receiver.set(mood);
            moods.push(mood);
        }
        moods
    }

    fn end_of_log(&self) -> String {
        let log = self.subject.log();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(60)..].join("\n")
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if thread::panicking() {
            tell(&format!("the end of the server's log:\n{}", self.end_of_log()));
        }
    }
}

/// Rounds for so long; then everything is mended, and judged.
pub fn run(seed: u64, time: Duration) {
    let mut world = World::new(seed, time.as_secs());
    let own =
        if world.subject.disk.is_own() { "" } else { "; no file system may be mounted, so no full or read-only disk" };
    let clock = if world.subject.clock.is_some() { "" } else { "; without libfaketime no clock steps" };
    tell(&format!("seed {seed}, {} s of rounds{own}{clock}", time.as_secs()));
    let began = Instant::now();
    let (callers, followed, done) =
        (Arc::new(Callers::new()), Arc::new(Follower::default()), Arc::new(AtomicBool::new(false)));
    let mut threads: Vec<_> = (0..CALLERS)
        .map(|number| {
            let (callers, ledger) = (callers.clone(), world.ledger.clone());
            thread::spawn(move || callers.call(&ledger, seed ^ (number + 1) << 32))
        })
        .collect();
    let (ledger, places) = (world.ledger.clone(), world.places.clone());
    threads.push(thread::spawn(move || People::new(&ledger, &places, seed ^ 77 << 32).act()));
    let follower = {
        let (followed, ledger, done) = (followed.clone(), world.ledger.clone(), done.clone());
        thread::spawn(move || followed.follow(&ledger, &done))
    };
    let mut deck = Deck::new(&world.subject);
    for round in 1.. {
        // On a slow machine it takes longer, but nothing is left out.
        if began.elapsed() >= time && round > deck.kinds() {
            break;
        }
        let moods = world.moods();
        let kind = deck.draw(&mut world.random);
        let said = world.round(kind);
        world.subject.look();
        tell(&format!(
            "round {round}, {:.0} s: {said}; {} acknowledged, {} requests, {} lives, {} refused, {} unanswered, {} MiB at most; {moods:?}",
            began.elapsed().as_secs_f64(),
            acknowledged(&world.ledger),
            world.book.count(),
            world.deaths.len() + 1,
            world.ledger.refused.load(Ordering::SeqCst),
            world.ledger.unanswered.load(Ordering::SeqCst),
            world.subject.peak / 1024,
        ));
        let faults = lock(&world.ledger.faults).clone();
        assert!(faults.is_empty(), "in round {round}:\n{}", faults.join("\n"));
    }
    // However the rounds fell, the judge's own test needs deliveries that nothing came near (`blind.rs`).
    world.subject.live(CALM);
    world.places.iter().for_each(|place| place.receiver.set(Mood::Healthy));
    world.ledger.stop.store(true, Ordering::SeqCst);
    threads.into_iter().for_each(|thread| thread.join().expect("callers and people"));
    world.mended();
    world.followed(&followed);
    done.store(true, Ordering::SeqCst);
    follower.join().expect("the follower");
    world.judge(&followed, began);
}

impl World {
    /// Enables what is disabled, and waits until nothing waits any more.
    fn mended(&mut self) {
        let mut line = Line::default();
        let mended = Instant::now();
        for place in &self.places[..DOOMED] {
            let sent = now();
            let answer = line.insist(&self.ledger, "POST", &format!("/endpoints/{}/enable", place.id), b"{}");
            self.ledger.act(&place.id, Deed::Enable, sent, answer.status);
        }
        let ledger = self.ledger.clone();
        let endpoints = all(&mut line, &ledger, "/endpoints");
        let waits = |id: &str, line: &mut Line| {
            let status = line.insist(&ledger, "GET", &format!("/endpoints/{id}/status"), b"").json(200);
            status["queue"]["pending"] != 0 || status["queue"]["failed"] != 0
        };
        let subject = &mut self.subject;
        wait_for("everything ends", MENDED_LIMIT, || {
            subject.look();
            (!endpoints.iter().any(|one| waits(&text(&one["id"]), &mut line))).then_some(())
        });
        tell(&format!("nothing waits any more {:.1?} after everything was mended", mended.elapsed()));
    }

    /// Gives the reader time: what a disable has cut is dead for everybody at once, but appears among the changes only when
    /// its row is rewritten (S15), which is looked for every two seconds. Whoever is late is named by the judge.
    fn followed(&mut self, follower: &Follower) {
        let (mut line, until) = (Line::default(), Instant::now() + FOLLOWED_LIMIT);
        while Instant::now() < until {
            let rows = all(&mut line, &self.ledger, "/deliveries");
            let seen = lock(&follower.seen);
            if rows.iter().all(|row| seen.get(&text(&row["id"])).is_some_and(|(last, _)| *last == shown(row))) {
                return;
            }
        }
    }

    fn judge(mut self, followed: &Follower, began: Instant) {
        let mut line = Line::default();
        let deliveries = all(&mut line, &self.ledger, "/deliveries");
        // S24: what was deleted with its endpoint is in the walk, and not in the list.
        let seen = lock(&followed.seen).clone();
        for row in &deliveries {
            let last = seen.get(&text(&row["id"])).map(|(row, _)| row.clone()).unwrap_or_default();
            if last != shown(row) {
                self.ledger.fault(format!("S24: the walk saw {last} last of {row}"));
            }
        }
        let mut shown_attempts = HashMap::new();
        for row in deliveries.iter().step_by(deliveries.len() / 300 + 1) {
            let found = line.insist(&self.ledger, "GET", &format!("/deliveries/{}", text(&row["id"])), b"");
            shown_attempts.insert(text(&row["id"]), found.json(200)["attempts"].clone());
        }
        self.drain();
        let evidence = Evidence::collect(&self, deliveries, shown_attempts, began);
        let mut faults = lock(&self.ledger.faults).clone();
        faults.extend(checks::judge(&evidence).iter().map(|fault| fault.told(&evidence)));
        faults.extend(self.kept_its_mouth_shut());
        if self.subject.peak > MEMORY_KIB {
            faults.push(format!("{} MiB of memory", self.subject.peak / 1024));
        }
        if faults.is_empty() {
            faults = blind::overlooked(&evidence);
        }
        tell(&evidence.summary(followed.pages.load(Ordering::SeqCst)));
        let count = faults.len();
        faults.truncate(12);
        assert!(faults.is_empty(), "{count} faults, the first of them:\n{}", faults.join("\n\n"));
    }

    /// The log has neither a panic nor a secret.
    fn kept_its_mouth_shut(&self) -> Vec<String> {
        let secrets = self.places.iter().map(|place| place.secret.trim_start_matches("whsec_"));
        let words: Vec<&str> = ["panicked", PLANTED, KEY].into_iter().chain(secrets).collect();
        let log = self.subject.log();
        let bad = |line: &&str| words.iter().any(|word| line.contains(word));
        log.lines().filter(bad).map(|line| format!("in the log: {line}")).collect()
    }
}

/// Every row of a list.
pub fn all(line: &mut Line, ledger: &Ledger, path: &str) -> Vec<Value> {
    let (mut rows, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = line.insist(ledger, "GET", &format!("{path}?limit=250{cursor}"), b"").json(200);
        rows.extend(page["data"].as_array().expect("data").iter().cloned());
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return rows,
        }
    }
}
