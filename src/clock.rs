//! The only reader of time and randomness.
//!
//! Engine time (S25) goes on from an anchor kept in the store and never runs backwards; within a process it follows the
//! monotonic clock, so a step of the wall clock neither fires an attempt early nor holds one back. `--time-scale` makes
//! it run faster. Tests that live on virtual time pause tokio's clock, which is what this one reads.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::time::Instant;

use crate::domain::time::{Span, Timestamp};

/// "At this wall time it was this engine time, which runs so many times faster."
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Anchor {
    pub wall: Timestamp,
    pub engine: Timestamp,
    pub scale: f64,
}

/// A handle on the process's clock and source of randomness; clones share both.
#[derive(Clone)]
pub struct Clock(Arc<Inner>);

struct Inner {
    engine: Timestamp,
    started: Instant,
    scale: f64,
    source: Source,
}

enum Source {
    System,
    /// Virtual wall time from this instant on, and random numbers from a seed.
    Virtual {
        wall: Timestamp,
        random: Box<Mutex<StdRng>>,
    },
}

impl Clock {
    /// The clock of a process that starts now on a store with this anchor (`None`: a new store) whose newest stamp is
    /// `last_stamp`. Downtime passes at the old scale; then `scale` applies.
    pub fn resume(anchor: Option<Anchor>, last_stamp: Timestamp, scale: f64) -> Clock {
        let wall = system_time();
        Clock(Arc::new(Inner {
            engine: engine_at(anchor, wall).max(last_stamp),
            started: Instant::now(),
            scale,
            source: Source::System,
        }))
    }

    /// A clock for tests and simulations: starts at `engine`, follows tokio's (paused) clock, `scale` times as fast, and
    /// draws from `seed`.
    pub fn simulated(engine: Timestamp, seed: u64, scale: f64) -> Clock {
        let random = Box::new(Mutex::new(StdRng::seed_from_u64(seed)));
        let source = Source::Virtual { wall: engine, random };
        Clock(Arc::new(Inner { engine, started: Instant::now(), scale, source }))
    }

    /// Engine time.
    pub fn now(&self) -> Timestamp {
        self.0.engine + Span::from_std(self.0.started.elapsed()).scaled(self.0.scale)
    }

    /// Real time since the process started: monotonic, whatever the wall clock does and however fast engine time runs.
    pub fn uptime(&self) -> Span {
        Span::from_std(self.0.started.elapsed())
    }

    /// Wall-clock time: for signatures, `Retry-After` dates and the anchor, never for schedules.
    pub fn wall(&self) -> Timestamp {
        match &self.0.source {
            Source::System => system_time(),
            Source::Virtual { wall, .. } => *wall + Span::from_std(self.0.started.elapsed()),
        }
    }

    /// What to keep in the store so that the next process goes on from here.
    pub fn anchor(&self) -> Anchor {
        Anchor { wall: self.wall(), engine: self.now(), scale: self.0.scale }
    }

    pub fn scale(&self) -> f64 {
        self.0.scale
    }

    /// How long in real time until engine time reaches `instant`.
    pub fn real_until(&self, instant: Timestamp) -> Duration {
        instant.since(self.now()).scaled(1.0 / self.0.scale).to_std()
    }

    /// The engine's length of a real span.
    pub fn engine_span(&self, real: Span) -> Span {
        real.scaled(self.0.scale)
    }

    /// Uniform in [0, 1).
    pub fn draw(&self) -> f64 {
        self.with_random(|random| random.random(), || rand::rng().random())
    }

    /// 128 random bits.
    pub fn random_bits(&self) -> u128 {
        self.with_random(|random| random.random(), || rand::rng().random())
    }

    /// 32 random bytes from a cryptographic source.
    pub fn random_key(&self) -> [u8; 32] {
        self.with_random(|random| random.random(), || rand::rng().random())
    }

    fn with_random<T>(&self, seeded: impl FnOnce(&mut StdRng) -> T, system: impl FnOnce() -> T) -> T {
        match &self.0.source {
            Source::System => system(),
            Source::Virtual { random, .. } => {
                seeded(&mut random.lock().unwrap_or_else(|poisoned| poisoned.into_inner()))
            }
        }
    }
}

/// Engine time at a wall time, going on from an anchor; without one it starts at the wall time. A wall clock that was
/// set back while the process was down adds nothing.
fn engine_at(anchor: Option<Anchor>, wall: Timestamp) -> Timestamp {
    anchor.map_or(wall, |anchor| anchor.engine + wall.since(anchor.wall).scaled(anchor.scale))
}

/// 32 random bytes before there is a clock.
pub fn system_random() -> [u8; 32] {
    rand::rng().random()
}

/// The wall clock.
#[allow(clippy::disallowed_methods)] // the one place
pub fn system_time() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    Timestamp::from_micros(Span::from_std(since).as_micros())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    #[test]
    fn s25_engine_time_goes_on_from_its_anchor_and_never_back() {
        let anchor = Anchor { wall: at(1_000), engine: at(5_000), scale: 10.0 };
        assert_eq!(engine_at(None, at(7)), at(7));
        assert_eq!(engine_at(Some(anchor), at(1_006)), at(5_060), "downtime passes at the anchor's scale");
        assert_eq!(engine_at(Some(anchor), at(400)), at(5_000), "the wall clock was set back");
        let ahead = system_time() + Span::DAY;
        let clock = Clock::resume(None, ahead, 1.0);
        assert!(clock.now() >= ahead, "never before what was stamped");
    }

    #[test]
    fn s25_a_scaled_clock_runs_faster() {
        let clock = Clock::resume(None, Timestamp::MIN, 1_000.0);
        let soon = clock.now() + Span::from_secs(100);
        let real = clock.real_until(soon);
        assert!(real <= Duration::from_millis(100) && real > Duration::from_millis(50), "{real:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn s25_uptime_is_real_and_begins_with_the_process() {
        let clock = Clock::simulated(at(5_000), 1, 1_000.0);
        assert_eq!(clock.uptime(), Span::ZERO);
        tokio::time::sleep(Duration::from_secs(7)).await;
        assert_eq!((clock.uptime(), clock.now()), (Span::from_secs(7), at(12_000)));
    }

    /// C79: what is random of an id suffices, also where the clock says the same or an earlier instant.
    #[test]
    fn c79_ten_thousand_ids_of_one_instant_and_of_an_earlier_one_differ() {
        let clock = Clock::resume(None, Timestamp::MIN, 1.0);
        let instants = [at(1_000_000), at(999_000), at(1_000_000)];
        let ids: std::collections::HashSet<String> = instants
            .into_iter()
            .flat_map(|at| (0..10_000).map(move |_| at))
            .map(|at| crate::domain::ids::unique_id("evt_", at, clock.random_bits()))
            .collect();
        assert_eq!(ids.len(), 30_000);
    }
}
