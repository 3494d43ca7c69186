//! Each planted fault is found, and for its own reason.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::Plant;
use crate::simulation::plan::Scenario;
use crate::simulation::seeds;

/// A planted fault must be found by one of so many seeds.
const SEEDS: u64 = 1_000;

/// The fault, the first seed that finds it, and words of the sentence with which it does.
const FAULTS: [(Plant, u64, &str); 21] = [
    (Plant::LostHint, 1, "nothing explains the delay"),
    (Plant::StaleHint, 1, "it is delivered already"),
    (Plant::OneAttemptTooMany, 0, "S11, "),
    (Plant::ShortDelay, 1, "S9, "),
    (Plant::RedrawnJitter, 1, "S10, due at"),
    (Plant::StreakKept, 2, "S13, its streaks"),
    (Plant::DisabledTwice, 8, "S14, "),
    (Plant::HeldSent, 7, "S17, the circuit is open until"),
    (Plant::TwoProbes, 40, "S17, a probe is on the wire already"),
    (Plant::CutResurrected, 8, "it is dead already"),
    (Plant::WrittenTwice, 0, "S1, a result was recorded of no attempt that ended"),
    (Plant::ResultLost, 2, "S1, its last result is not recorded yet"),
    (Plant::AnsweredEarly, 1, "S1: every event × endpoint is one delivery"),
    (Plant::OutOfOrder, 3, "S3, "),
    (Plant::VersionIgnored, 37, "S9, "),
    (Plant::OldUrl, 8, "S22, an old URL"),
    (Plant::OneSlotTooMany, 0, "S19, "),
    (Plant::NeverWoken, 1, "wakes at None"),
    (Plant::NobodySpared, 8, "the counts: pending, failed, dead"),
    (Plant::OtherBytes, 0, "S2, "),
    (Plant::RetryAfterIgnored, 6, "S8, "),
];

/// What the world of a seed says to a fault; `None` if it does not notice.
fn sentence(plant: Plant, seed: u64) -> Option<String> {
    seeds::run(Scenario::new(seed).with(plant)).err()
}

/// Looks for the fault with the seed that is known to find it, then with all.
fn find(plant: Plant, known: u64, words: &str) -> Option<(u64, String)> {
    let found = |seed| Some((seed, sentence(plant, seed).filter(|sentence| sentence.contains(words))?));
    // Every seed in turn: to bring the table up to date.
    let search = std::env::var_os("POSTHASTE_SEARCH").is_some();
    let known = (!search).then_some(known);
    known.and_then(found).or_else(|| (0..SEEDS).find_map(found))
}

#[test]
fn planted_faults_are_found() {
    let (next, missed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let search = || {
        while let Some(&(plant, known, words)) = FAULTS.get(next.fetch_add(1, Ordering::Relaxed)) {
            match find(plant, known, words) {
                // Whatever moves the worlds of the seeds moves these too; the table can then be brought up to date.
                Some((seed, sentence)) => println!("{plant:?}, known by seed {known}, found by {seed}: {sentence}"),
                None => missed.lock().unwrap().push(plant),
            }
        }
    };
    seeds::on_all_cores(search);
    let missed = missed.into_inner().unwrap();
    assert!(missed.is_empty(), "{SEEDS} seeds did not find {missed:?}");
}

#[test]
fn the_table_of_planted_faults_is_that_of_the_documentation() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/testing.md");
    let text = std::fs::read_to_string(path).expect("docs/testing.md");
    let (_, section) = text.split_once("## Planted faults").expect("a section");
    let section = section.split("\n## ").next().expect("what comes first");
    let rows: Vec<&str> = section.lines().filter(|line| line.starts_with("| `")).collect();
    for (plant, seed, words) in FAULTS {
        let row = rows.iter().find(|row| row.starts_with(&format!("| `{plant:?}` |")));
        let row = row.unwrap_or_else(|| panic!("{plant:?} has no row"));
        let tells = row.contains(&format!("| {seed} |")) && row.contains(words.trim_end());
        assert!(tells, "{plant:?} is found by seed {seed} with “{words}”, says the code; not so {row}");
    }
    assert_eq!(rows.len(), FAULTS.len(), "a row for a fault that is not planted");
}
