//! When each event was submitted and when it arrived: written by the load and the receiver, which are threads of one process and
//! so have one clock.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

/// Events of a run.
const MOST: usize = 4_000_000;

pub struct Book {
    began: Instant,
    /// By an event's number: when the time that is measured begins, in nanoseconds.
    since: Box<[AtomicU64]>,
    next: AtomicU64,
    /// The number of the first event that counts.
    from: AtomicU64,
    arrived: AtomicU64,
    times: Mutex<Histogram<u64>>,
}

impl Default for Book {
    fn default() -> Book {
        Book {
            began: Instant::now(),
            since: (0..MOST).map(|_| AtomicU64::new(0)).collect(),
            next: AtomicU64::new(0),
            from: AtomicU64::new(0),
            arrived: AtomicU64::new(0),
            times: Mutex::new(histogram()),
        }
    }
}

/// Of nanoseconds, to three digits.
pub fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 3_600_000_000_000, 3).expect("bounds")
}

impl Book {
    pub fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// The number of another event, submitted at this moment.
    pub fn submit(&self) -> u64 {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.starts(number, self.now());
        number
    }

    /// From when on the time of an event is measured.
    pub fn starts(&self, number: u64, at: u64) {
        if let Some(since) = self.since.get(number as usize) {
            since.store(at, Ordering::Relaxed);
        }
    }

    /// An event arrived: a delivery.
    pub fn arrive(&self, number: u64) {
        self.arrived.fetch_add(1, Ordering::Relaxed);
        let Some(since) = self.since.get(number as usize) else { return };
        if number >= self.from.load(Ordering::Relaxed) {
            let time = self.now().saturating_sub(since.load(Ordering::Relaxed));
            self.times.lock().expect("times").saturating_record(time);
        }
    }

    /// How many have been submitted.
    pub fn submitted(&self) -> u64 {
        self.next.load(Ordering::Relaxed)
    }

    pub fn arrived(&self) -> u64 {
        self.arrived.load(Ordering::Relaxed)
    }

    /// From now on times are measured, of events that are submitted from now on.
    pub fn measure(&self) {
        self.from.store(self.submitted(), Ordering::Relaxed);
        self.times.lock().expect("times").reset();
    }

    /// From now on times are measured, of whatever arrives.
    pub fn measure_all(&self) {
        self.from.store(0, Ordering::Relaxed);
        self.times.lock().expect("times").reset();
    }

    pub fn times(&self) -> Histogram<u64> {
        self.times.lock().expect("times").clone()
    }
}

/// A quantile in milliseconds.
pub fn millis(times: &Histogram<u64>, quantile: f64) -> f64 {
    Duration::from_nanos(times.value_at_quantile(quantile)).as_secs_f64() * 1e3
}
