//! Every target over its corpus, and over mutations of it.

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use super::*;

/// Mutations of each corpus, unless `POSTHASTE_FUZZ` says how many.
const BUDGET: usize = 20_000;

/// A change of some bytes.
#[derive(Clone, Debug)]
enum Change {
    Set(u8),
    Insert(Vec<u8>),
    Remove(usize),
    Repeat(usize, usize),
    /// Goes on as another member of the corpus does.
    Splice(prop::sample::Index),
}

fn changes() -> impl Strategy<Value = Vec<(prop::sample::Index, Change)>> {
    let telling = prop::sample::select(vec![
        b"\"".to_vec(),
        b"\\".to_vec(),
        b"{".to_vec(),
        b"[".to_vec(),
        b"\0".to_vec(),
        b"\r\n".to_vec(),
        b":".to_vec(),
        b",".to_vec(),
        b"99999999999999999999".to_vec(),
        b"-1".to_vec(),
        b"1e400".to_vec(),
        b"\xff".to_vec(),
        "\u{202e}".into(),
        "é".into(),
        b"null".to_vec(),
        b"%00".to_vec(),
        b"\\ud800".to_vec(),
    ]);
    let change = prop_oneof![
        3 => any::<u8>().prop_map(Change::Set),
        3 => telling.prop_map(Change::Insert),
        1 => proptest::collection::vec(any::<u8>(), 1..20).prop_map(Change::Insert),
        2 => (1usize..30).prop_map(Change::Remove),
        1 => (1usize..40, 2usize..60).prop_map(|(length, times)| Change::Repeat(length, times)),
        1 => any::<prop::sample::Index>().prop_map(Change::Splice),
    ];
    proptest::collection::vec((any::<prop::sample::Index>(), change), 0..6)
}

fn changed(corpus: &[Vec<u8>], first: &[u8], changes: &[(prop::sample::Index, Change)]) -> Vec<u8> {
    let mut bytes = first.to_vec();
    for (index, change) in changes {
        let at = index.index(bytes.len() + 1);
        match change {
            Change::Set(byte) => bytes.iter_mut().skip(at).take(1).for_each(|old| *old = *byte),
            Change::Insert(new) => drop(bytes.splice(at..at, new.iter().copied())),
            Change::Remove(length) => drop(bytes.drain(at..(at + length).min(bytes.len()))),
            Change::Repeat(length, times) => {
                let part = bytes[at..(at + length).min(bytes.len())].repeat(*times);
                bytes.splice(at..at, part);
            }
            Change::Splice(other) => {
                let other = &corpus[other.index(corpus.len())];
                bytes.truncate(at);
                bytes.extend(&other[at.min(other.len())..]);
            }
        }
    }
    bytes
}

#[test]
fn every_target_holds_over_its_corpus_and_mutations_of_it() {
    let budget = std::env::var("POSTHASTE_FUZZ").ok().and_then(|text| text.parse().ok()).unwrap_or(BUDGET);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    for (name, target) in TARGETS {
        let files = fs::read_dir(folder.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        let corpus: Vec<Vec<u8>> = files.map(|file| fs::read(file.unwrap().path()).unwrap()).collect();
        assert!(corpus.len() >= 2, "{name} has hardly a corpus");
        // The same mutations every time, others for each number of them.
        let mut seed = [0; 32];
        seed[..8].copy_from_slice(&(budget as u64).to_le_bytes());
        let mut runner = TestRunner::new_with_rng(Config::default(), TestRng::from_seed(RngAlgorithm::ChaCha, &seed));
        let changes = changes();
        corpus.iter().for_each(|bytes| target(bytes));
        for number in 0..budget {
            let changes = changes.new_tree(&mut runner).unwrap().current();
            let bytes = changed(&corpus, &corpus[number % corpus.len()], &changes);
            let held = std::panic::catch_unwind(|| target(&bytes));
            // To be kept in the corpus.
            assert!(held.is_ok(), "{name}: {}", bytes.escape_ascii());
        }
    }
}

#[test]
fn a_target_is_found_by_its_name() {
    assert!(named("url").is_some() && named("").is_none());
}
