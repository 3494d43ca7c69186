//! A thousand worlds from a thousand seeds, each checked against the rules. `POSTHASTE_SEED=n` runs exactly one again;
//! `POSTHASTE_SEEDS=a..b` runs others than CI does.

use std::cell::RefCell;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, Once};

use super::plan::Scenario;
use crate::support::machine::alone;

/// Seeds that CI runs.
const SEEDS: std::ops::Range<u64> = 0..1_000;

/// Others that have found something: 4316: S12, a retry of what a cut took when its attempt was about to begin.
const FOUND: [u64; 1] = [4316];

thread_local! {
    /// What panicked on this thread while a seed ran, inside actors and tasks too.
    static PANICS: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

/// Runs a world; the error is the first thing that panicked in it.
pub fn run(scenario: Scenario) -> Result<(), String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(keep_panics);
    PANICS.with_borrow_mut(|panics| *panics = Some(Vec::new()));
    let _ = std::panic::catch_unwind(AssertUnwindSafe(|| scenario.run()));
    let panics = PANICS.with_borrow_mut(Option::take).unwrap_or_default();
    panics.into_iter().next().map_or(Ok(()), Err)
}

/// Worlds share nothing, so each core may have its own.
pub fn on_all_cores(work: impl Fn() + Sync) {
    let _machine = alone();
    let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
    std::thread::scope(|scope| (0..cores).for_each(|_| drop(scope.spawn(&work))));
}

/// Keeps what panics on a thread that runs seeds; elsewhere a panic is shown as ever.
fn keep_panics() {
    let shown = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let kept = PANICS.with_borrow_mut(|panics| match panics {
            Some(panics) => {
                panics.push(info.to_string());
                true
            }
            None => false,
        });
        if !kept {
            shown(info);
        }
    }));
}

fn seeds() -> std::ops::Range<u64> {
    let number = |text: &str| text.trim().parse::<u64>().expect("a seed is a number");
    if let Ok(seed) = std::env::var("POSTHASTE_SEED") {
        return number(&seed)..number(&seed) + 1;
    }
    match std::env::var("POSTHASTE_SEEDS") {
        Ok(range) => {
            let (from, to) = range.split_once("..").expect("POSTHASTE_SEEDS=from..to");
            number(from)..number(to)
        }
        Err(_) => SEEDS,
    }
}

#[test]
fn a_thousand_seeds_keep_the_rules() {
    let range = seeds();
    let (next, stop) = (AtomicU64::new(range.start), AtomicBool::new(false));
    let failures: Mutex<Vec<String>> = Mutex::default();
    on_all_cores(|| {
        while !stop.load(Ordering::Relaxed) {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= range.end {
                return;
            }
            if let Err(failure) = run(Scenario::new(seed)) {
                let replay = format!("Replay it: POSTHASTE_SEED={seed} cargo test --test it seeds");
                let mut failures = failures.lock().unwrap();
                failures.push(format!("seed {seed}: {failure}\n{replay}"));
                stop.store(failures.len() >= 3, Ordering::Relaxed);
            }
        }
    });
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

#[test]
fn seeds_that_have_found_something_find_nothing_now() {
    let failures: Vec<_> = FOUND.iter().filter_map(|seed| run(Scenario::new(*seed)).err()).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}
