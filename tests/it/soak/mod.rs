//! The chaos soak: the real binary under load, while the process, its disk, its receivers and people are at their worst.
//! What it did is judged from ledgers that lie outside of it.
//!
//! `POSTHASTE_SOAK_SEED` determines what is done in which order, `POSTHASTE_SOAK_SECONDS` how long. A long soak is a row of
//! worlds, each on a new database with a seed of its own.

mod blind;
mod callers;
mod checks;
mod crowd;
mod evidence;
mod ledger;
mod people;
mod places;
mod receivers;
mod rounds;
mod subject;
mod wire;
mod world;

use std::io::Write as _;
use std::time::{Duration, Instant};

use crate::support::server::alone;

/// What `tests/run` gives it.
const SECONDS: u64 = 120;
const SEED: u64 = 20_261_130;
/// A shorter world is over before the judge has a calm moment to falsify, so it could not be trusted.
const SHORTEST: u64 = 60;
/// Of one world: its database and its ledgers grow.
const LONGEST: u64 = 300;
/// Of that, for the calm at the end, for what is left to do once everything is mended, and for the checks.
const ENDING: u64 = 23;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text}")))
}

/// Past the test harness, which keeps what a test prints until it has failed: two minutes without a word look like a
/// hanging test.
fn tell(line: &str) {
    let _ = writeln!(std::io::stderr(), "soak: {line}");
}

/// If anything fails: what to type to see it again.
struct Replay {
    seed: u64,
    seconds: u64,
}

impl Drop for Replay {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Replay { seed, seconds } = self;
            tell(&format!(
                "FAILED. Again: POSTHASTE_SOAK_SEED={seed} POSTHASTE_SOAK_SECONDS={seconds} cargo test --test it soak:: -- --nocapture"
            ));
        }
    }
}

#[test]
fn s01_s02_s15_s19_s24_a_soak_in_chaos_breaks_no_rule() {
    let _machine = alone();
    let (seed, total) = (setting("POSTHASTE_SOAK_SEED", SEED), setting("POSTHASTE_SOAK_SECONDS", SECONDS));
    assert!(total >= SHORTEST, "POSTHASTE_SOAK_SECONDS is {total}: a soak takes at least {SHORTEST}");
    let until = Instant::now() + Duration::from_secs(total);
    for number in 0.. {
        // To the nearest second: the first world gets all of it.
        let left = until.saturating_duration_since(Instant::now()).as_secs_f64().round() as u64;
        if left < SHORTEST {
            return;
        }
        let seconds = left.min(LONGEST);
        let replay = Replay { seed: seed.wrapping_add(number), seconds };
        world::run(replay.seed, Duration::from_secs(seconds.saturating_sub(ENDING)));
    }
}
