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
use super::receivers::CLOCK_STEP;
use super::subject::{DESCRIPTORS, Subject};
use super::world::World;
use crate::support::server::wait_for;

/// As few as the process starts with.
const FEW: u64 = 256;
/// More than there is room for then.
const CROWD: usize = 300;
/// For what should take moments: generous, because the machine may be busy.
const SOON: Duration = Duration::from_secs(30);

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
    /// The wall clock steps forward, and back.
    ClockSteps,
}

impl Kind {
    const ALL: [Kind; 12] = [
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
        Kind::ClockSteps,
    ];

    fn needs_own_disk(self) -> bool {
        matches!(self, Kind::FullDisk | Kind::KilledFull | Kind::ReadOnly)
    }
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
            Kind::ClockSteps => {
                let clock = self.subject.clock.as_ref().expect("a clock that can be set");
                clock.set(CLOCK_STEP);
                self.subject.live(time);
                let killed = self.random.random_bool(0.4);
                if killed {
                    // The next life begins with a clock that is right again.
                    self.kill();
                }
                self.subject.clock.as_ref().expect("that clock").set(0);
                if killed {
                    self.begin();
                }
                self.recovers("the wall clock stepped");
                return format!("{kind:?} for {time:.1?}, killed meanwhile: {killed}");
            }
        }
        format!("{kind:?} ({time:.1?})")
    }

    fn full(&mut self, killed: bool, time: Duration) -> String {
        // The log has room that it was given before; large events use it up.
        self.ledger.fat.store(true, Ordering::SeqCst);
        let (began, refused) = (Instant::now(), self.ledger.refused.load(Ordering::SeqCst));
        self.subject.disk.fill();
        self.refuses("the disk is full");
        self.subject.live(time);
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

    fn crowded(&mut self, time: Duration) -> String {
        self.drain();
        assert!(self.start(FEW), "{FEW} descriptors are enough to start");
        let address = self.subject.address().expect("it listens");
        // Those whom it has no room for would wait for longer than the round.
        let come = |_| TcpStream::connect_timeout(&address, Duration::from_millis(50)).ok();
        let crowd: Vec<_> = (0..CROWD).filter_map(come).collect();
        let before = self.book.count();
        self.subject.live(time);
        wait_for("attempts are made beside the crowd", SOON, || (self.book.count() > before).then_some(()));
        let came = crowd.len();
        drop(crowd);
        self.recovers("the crowd left");
        self.drain();
        self.begin();
        format!("{FEW} descriptors and {came} idle callers for {time:.1?}")
    }
}
