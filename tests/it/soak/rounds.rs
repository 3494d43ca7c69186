//! What is done to the process and its disk, a round at a time.

use std::net::TcpStream;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use diesel::connection::SimpleConnection;
use diesel::{Connection, SqliteConnection};
use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;

use super::callers::acknowledged;
use super::ledger::Line;
use super::places::STEADY;
use super::receivers::{Book, CLOCK_STEP, Mood};
use super::subject::{DESCRIPTORS, Subject};
use super::world::World;
use crate::support::server::wait_for;

/// As few as the process starts with.
const FEW: u64 = 256;
/// More than there is room for then.
const CROWD: usize = 300;
/// If nothing is left to retry, an attempt needs an event, whose caller stands behind the crowd: it is let in a quarter of the
/// descriptors at a time, and each of it may say nothing for ten seconds.
const CROWD_LEAVES: Duration = Duration::from_secs(120);
/// As the log says it.
const NO_DESCRIPTORS: &str = "no file descriptors left";
/// For what should take moments: generous, because the machine may be busy.
const SOON: Duration = Duration::from_secs(30);
/// While nothing can be written for some seconds: of each kind of complaint a line, and what hostile receivers bring about.
const FEW_LINES: usize = 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Quiet,
    Kill,
    /// The second one comes while it starts.
    TwoKills,
    Drain,
    /// SIGSTOP, and later SIGCONT.
    Stop,
    FullDisk,
    /// And killed, and started while the disk is still full.
    KilledFull,
    /// Every write to a file fails.
    WriteErrors,
    /// Somebody else holds the database's write lock.
    Locked,
    /// The disk is read-only when it starts.
    ReadOnly,
    /// A life at the limit of its file descriptors.
    FewDescriptors,
    /// It can open no descriptor any more.
    NoDescriptors,
    /// The wall clock steps forward, and back.
    ClockSteps,
}

impl Kind {
    const ALL: [Kind; 13] = [
        Kind::Quiet,
        Kind::Kill,
        Kind::TwoKills,
        Kind::Drain,
        Kind::Stop,
        Kind::FullDisk,
        Kind::KilledFull,
        Kind::WriteErrors,
        Kind::Locked,
        Kind::ReadOnly,
        Kind::FewDescriptors,
        Kind::NoDescriptors,
        Kind::ClockSteps,
    ];

    fn needs_own_disk(self) -> bool {
        matches!(self, Kind::FullDisk | Kind::KilledFull | Kind::ReadOnly)
    }
}

/// What the process warned of so far.
fn complaints(subject: &Subject) -> Vec<String> {
    let warns = |line: &&str| line.contains(" ERROR ") || line.contains(" WARN ");
    subject.log().lines().filter(warns).map(str::to_owned).collect()
}

/// Each kind that is possible once, in an order by chance, before any comes again.
pub struct Deck {
    possible: Vec<Kind>,
    left: Vec<Kind>,
}

impl Deck {
    pub fn new(subject: &Subject) -> Deck {
        let possible = |kind: &Kind| {
            (subject.disk.is_own() || !kind.needs_own_disk()) && (subject.clock.is_some() || *kind != Kind::ClockSteps)
        };
        Deck { possible: Kind::ALL.into_iter().filter(possible).collect(), left: Vec::new() }
    }

    /// How many rounds it takes until every kind was there.
    pub fn kinds(&self) -> usize {
        self.possible.len()
    }

    pub fn draw(&mut self, random: &mut StdRng) -> Kind {
        if self.left.is_empty() {
            self.left = self.possible.clone();
            self.left.shuffle(random);
        }
        self.left.pop().unwrap_or(Kind::Quiet)
    }
}

impl World {
    fn some(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_millis(self.random.random_range(from..to))
    }

    /// Without a new start: it says that it is ready, and takes events.
    fn recovers(&mut self, why: &str) {
        let mut line = Line::default();
        let (ledger, subject) = (&self.ledger, &mut self.subject);
        wait_for(&format!("it is ready after {why}"), SOON, || {
            subject.look();
            line.ask(ledger, |client| client.send("GET", "/readyz", b"")).filter(|answer| answer.status == 200)
        });
        let before = acknowledged(ledger);
        wait_for(&format!("it takes events after {why}"), SOON, || (acknowledged(ledger) > before).then_some(()));
    }

    /// Callers are told that nothing is confirmed.
    fn refuses(&mut self, why: &str) {
        let before = self.ledger.refused.load(Ordering::SeqCst);
        let (ledger, subject) = (&self.ledger, &mut self.subject);
        wait_for(&format!("it refuses events: {why}"), SOON, || {
            subject.look();
            (ledger.refused.load(Ordering::SeqCst) > before + 10).then_some(())
        });
    }

    /// Does it; says what was done.
    pub fn round(&mut self, kind: Kind) -> String {
        let before = self.some(300, 2_500);
        self.subject.live(before);
        let time = self.some(2_000, 5_000);
        match kind {
            Kind::Quiet => self.subject.live(time),
            Kind::Kill => {
                self.kill();
                self.begin();
            }
            Kind::TwoKills => {
                self.kill();
                let early = self.some(1, 80);
                self.subject.launch(DESCRIPTORS);
                thread::sleep(early);
                self.kill();
                self.begin();
            }
            Kind::Drain => {
                self.drain();
                self.begin();
            }
            Kind::Stop => {
                let began = Instant::now();
                self.subject.signal("-STOP");
                thread::sleep(time);
                self.subject.signal("-CONT");
                self.stops.push((began, Instant::now()));
                self.recovers("it was stopped");
            }
            Kind::FullDisk | Kind::KilledFull => return self.full(kind == Kind::KilledFull, time),
            Kind::WriteErrors => {
                let killed = self.random.random_bool(0.4);
                let began = Instant::now();
                self.subject.writes(false);
                self.refuses("no write succeeds");
                self.subject.live(time);
                if killed {
                    self.troubles.push((began, Instant::now()));
                    self.kill();
                    self.begin();
                } else {
                    self.subject.writes(true);
                    self.troubles.push((began, Instant::now()));
                }
                self.recovers("writes succeed again");
                return format!("{kind:?} for {time:.1?}, killed meanwhile: {killed}");
            }
            Kind::Locked => {
                let mut conn =
                    SqliteConnection::establish(&self.subject.database().to_string_lossy()).expect("the database");
                conn.batch_execute("PRAGMA busy_timeout = 10000; BEGIN IMMEDIATE").expect("the lock");
                let began = Instant::now();
                self.subject.live(time);
                conn.batch_execute("ROLLBACK").expect("the end of it");
                self.troubles.push((began, Instant::now()));
                self.recovers("the lock was given back");
            }
            Kind::ReadOnly => {
                self.kill();
                self.subject.disk.remount("ro");
                let started = self.start(DESCRIPTORS);
                if started {
                    self.subject.live(Duration::from_secs(1));
                    self.kill();
                }
                self.subject.disk.remount("rw");
                self.begin();
                return format!("{kind:?}, it started all the same: {started}");
            }
            Kind::FewDescriptors => return self.crowded(time),
            Kind::NoDescriptors => {
                // Whoever closes needs another connection for the next attempt.
                self.places[STEADY + 1].receiver.set(Mood::Closing);
                let failed = |subject: &Subject| subject.log().matches(NO_DESCRIPTORS).count();
                let before = failed(&self.subject);
                self.subject.opens(false);
                wait_for("an attempt fails for want of a descriptor", SOON, || {
                    (failed(&self.subject) > before).then_some(())
                });
                self.subject.live(time);
                self.subject.opens(true);
                self.recovers("there are descriptors again");
            }
            Kind::ClockSteps => return self.clock_steps(time),
        }
        format!("{kind:?} ({time:.1?})")
    }

    fn full(&mut self, killed: bool, time: Duration) -> String {
        // The log has room that it was given before; large events use it up.
        self.ledger.fat.store(true, Ordering::SeqCst);
        let (began, refused) = (Instant::now(), self.ledger.refused.load(Ordering::SeqCst));
        let before = complaints(&self.subject).len();
        self.subject.disk.fill();
        self.refuses("the disk is full");
        self.subject.live(time);
        // C70: hundreds of writes fail meanwhile.
        let lines = complaints(&self.subject).split_off(before);
        assert!(lines.len() <= FEW_LINES, "{} lines are no help to anybody:\n{}", lines.len(), lines.join("\n"));
        let mut started = None;
        if killed {
            self.troubles.push((began, Instant::now()));
            self.kill();
            started = Some(self.start(DESCRIPTORS));
            self.subject.live(Duration::from_secs(1));
        }
        self.subject.disk.free();
        self.troubles.push((began, Instant::now()));
        self.ledger.fat.store(false, Ordering::SeqCst);
        if started == Some(false) {
            self.begin();
        }
        self.recovers("there is room again");
        let refused = self.ledger.refused.load(Ordering::SeqCst) - refused;
        let killed = started.map_or(String::new(), |started| format!(", killed, started full: {started}"));
        format!("a full disk for {:.1?}, {refused} refused{killed}", began.elapsed())
    }

    fn clock_steps(&mut self, time: Duration) -> String {
        let set = |world: &World, offset| world.subject.clock.as_ref().expect("a clock that can be set").write(offset);
        let (ahead, right) =
            (|book: &Book| book.ahead.load(Ordering::SeqCst), |book: &Book| book.right.load(Ordering::SeqCst));
        self.book.stepped.store(true, Ordering::SeqCst);
        let before = ahead(&self.book);
        set(self, CLOCK_STEP);
        wait_for("it signs with the new time", SOON, || (ahead(&self.book) > before).then_some(()));
        self.subject.live(time);
        let killed = self.random.random_bool(0.4);
        if killed {
            // The next life begins with a clock that is right again.
            self.kill();
        }
        set(self, 0);
        if killed {
            self.begin();
        }
        let before = right(&self.book);
        wait_for("it signs with the old time", SOON, || (right(&self.book) > before).then_some(()));
        // What was signed before is on the wire for as long as a timeout.
        self.subject.live(Duration::from_secs(3));
        self.book.stepped.store(false, Ordering::SeqCst);
        self.recovers("the wall clock stepped");
        format!("{:?} for {time:.1?}, killed meanwhile: {killed}", Kind::ClockSteps)
    }

    fn crowded(&mut self, time: Duration) -> String {
        self.drain();
        assert!(self.start(FEW), "{FEW} descriptors are enough to start");
        let address = self.subject.address().expect("it listens");
        // Those whom it has no room for would wait for longer than the round.
        let come = |_| TcpStream::connect_timeout(&address, Duration::from_millis(50)).ok();
        let crowd: Vec<_> = (0..CROWD).filter_map(come).collect();
        let before = self.book.count();
        self.subject.live(time);
        wait_for("attempts are made beside the crowd", CROWD_LEAVES, || (self.book.count() > before).then_some(()));
        let came = crowd.len();
        drop(crowd);
        self.recovers("the crowd left");
        self.drain();
        self.begin();
        format!("{FEW} descriptors and {came} idle callers for {time:.1?}")
    }
}
