//! The house keeps its rules: who may import whom, how long a file may be, that every promise has a test of its name.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            found.push(path);
        }
    }
    found
}

fn src() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// Room, and what its files may say after `crate::`, and which libraries are theirs alone.
const MAY_IMPORT: [(&str, &[&str]); 9] = [
    ("domain", &["domain"]),
    ("store", &["domain", "store", "clock"]),
    ("transport", &["domain", "tls", "transport"]),
    ("engine", &["domain", "store", "transport", "clock", "engine"]),
    ("api", &["domain", "store", "engine", "config", "clock", "api"]),
    ("cli", &["domain", "app", "config", "clock", "signals", "tls", "cli"]),
    ("clock.rs", &["domain"]),
    ("signals.rs", &[]),
    ("tls.rs", &[]),
];

#[test]
fn imports_go_in_one_direction() {
    for (room, allowed) in MAY_IMPORT {
        let path = src().join(room);
        let files = if path.is_dir() { sources(&path) } else { vec![path] };
        assert!(!files.is_empty(), "{room} is gone");
        for file in files {
            let text = fs::read_to_string(&file).unwrap();
            let code = |line: &&str| !line.trim_start().starts_with("//");
            for (number, line) in text.lines().enumerate().filter(|(_, line)| code(line)) {
                for rest in line.split("crate::").skip(1) {
                    let word: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
                    // `use crate::{…}` would hide where it leads.
                    assert!(
                        allowed.contains(&word.as_str()),
                        "{}:{} imports crate::{word}, which {room} may not",
                        file.display(),
                        number + 1
                    );
                }
            }
        }
    }
}

#[test]
fn libraries_stay_in_their_rooms() {
    let only: [(&str, &[&str]); 4] =
        [("diesel", &["store"]), ("actix::", &["engine"]), ("SystemTime", &["clock.rs"]), ("rand::", &["clock.rs"])];
    for (word, rooms) in only {
        for file in sources(&src()) {
            let relative = file.strip_prefix(src()).unwrap().to_string_lossy().into_owned();
            if rooms.iter().any(|room| relative.starts_with(room)) {
                continue;
            }
            let text = fs::read_to_string(&file).unwrap();
            let found =
                text.lines().filter(|line| !line.trim_start().starts_with("//")).find(|line| line.contains(word));
            assert!(found.is_none(), "{relative} uses {word}: {found:?}");
        }
    }
}

#[test]
fn files_hold_one_idea() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    for file in sources(&src()).into_iter().chain(sources(&tests)) {
        let lines = fs::read_to_string(&file).unwrap().lines().count();
        assert!(lines <= 450, "{} has {lines} lines", file.display());
    }
}

/// The promises of `docs/semantics.md`: S1 … S27.
const RULES: std::ops::RangeInclusive<u32> = 1..=27;

fn semantics() -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/semantics.md")).unwrap()
}

/// The names of all tests, wherever they are: each function behind an attribute that ends with `test`.
fn tests() -> BTreeSet<String> {
    let integration = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let mut names = BTreeSet::new();
    for file in sources(&src()).into_iter().chain(sources(&integration)) {
        let text = fs::read_to_string(file).unwrap();
        let mut is_test = false;
        for line in text.lines().map(str::trim_start) {
            if let Some((_, rest)) = line.split_once("fn ").filter(|_| is_test && !line.starts_with("//")) {
                names.insert(rest.split(['(', '<']).next().unwrap_or_default().to_owned());
                is_test = false;
            }
            is_test |= line.starts_with("#[") && line.split(['(', ']']).next().is_some_and(|it| it.ends_with("test"));
        }
    }
    assert!(names.len() > 200, "{} tests were found", names.len());
    names
}

/// The numbers that a test's name begins with: `s13_s17_…` holds two rules.
fn rules_of(name: &str) -> Vec<u32> {
    let number = |part: &str| {
        let digits = part.strip_prefix('s').filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))?;
        digits.parse().ok()
    };
    name.split('_').map_while(number).collect()
}

#[test]
fn every_rule_is_written_down_and_has_a_test_of_its_name() {
    let (text, tests) = (semantics(), tests());
    let written: Vec<u32> =
        text.lines().filter_map(|line| line.strip_prefix("### S")?.split_once(". ")?.0.parse().ok()).collect();
    assert_eq!(written, RULES.collect::<Vec<_>>(), "the rules of docs/semantics.md, in their order");
    let missing: Vec<String> = RULES
        .map(|rule| format!("s{rule:02}_"))
        .filter(|name| !tests.iter().any(|test| test.starts_with(name)))
        .collect();
    assert!(missing.is_empty(), "no test begins with {missing:?}");
    for test in &tests {
        for rule in rules_of(test) {
            assert!(RULES.contains(&rule), "{test} holds a rule that there is not");
            assert!(test.contains(&format!("s{rule:02}_")), "{test}: write the number with two digits");
        }
    }
}

#[test]
fn the_tests_that_the_documents_name_exist() {
    let tests = tests();
    for document in ["docs/semantics.md", "docs/cases.md", "SECURITY.md"] {
        let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(document)).unwrap();
        // The name of a test is a sentence; that of anything else has fewer words.
        let is_name = |word: &&str| {
            let says_much =
                word.matches('_').count() >= 4 && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
            (!rules_of(word).is_empty() && word.contains('_') || says_much) && !word.ends_with('…')
        };
        let named = text.split('`').filter(is_name);
        for name in named {
            assert!(tests.contains(name), "{document} names {name}, which is no test");
        }
    }
    // The table of cases names nothing but tests.
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/cases.md")).unwrap();
    let is_name = |word: &&str| {
        let letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        word.contains('_') && word.bytes().all(letter)
    };
    for name in text.split('`').filter(is_name) {
        assert!(tests.contains(name), "docs/cases.md names {name}, which is no test");
    }
}

/// A test that is named for a case stands in the table, so that the table can be believed.
#[test]
fn the_tests_of_cases_stand_in_their_table() {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/cases.md")).unwrap();
    let of_case = |name: &&String| {
        let number = name.strip_prefix('c').and_then(|rest| rest.split('_').next()).unwrap_or_default();
        number.len() == 2 && number.bytes().all(|byte| byte.is_ascii_digit())
    };
    let tests = tests();
    let absent: Vec<_> = tests.iter().filter(of_case).filter(|name| !text.contains(&format!("`{name}`"))).collect();
    assert!(absent.is_empty(), "docs/cases.md does not name {absent:?}");
}

/// What `deny.toml` allows, without the network (for the rest: `cargo deny check`).
#[test]
fn dependencies_come_from_crates_io_under_licences_we_allow() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let deny: toml::Value = toml::from_str(&fs::read_to_string(root.join("deny.toml")).unwrap()).unwrap();
    let list = |table: &str, name: &str| {
        let list = deny[table][name].as_array().unwrap().iter();
        list.map(|entry| entry.as_str().unwrap().to_owned()).collect::<BTreeSet<_>>()
    };
    let allowed: Vec<spdx::Licensee> =
        list("licenses", "allow").iter().map(|name| spdx::Licensee::parse(name).unwrap()).collect();
    // Only what this machine's build needs is there without the network.
    let rustc = std::process::Command::new("rustc").arg("-vV").output().unwrap();
    let rustc = String::from_utf8(rustc.stdout).unwrap();
    let host = rustc.lines().find_map(|line| line.strip_prefix("host: ")).unwrap();
    let output = std::process::Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked", "--offline", "--filter-platform", host])
        .current_dir(root)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let lock: toml::Value = toml::from_str(&fs::read_to_string(root.join("Cargo.lock")).unwrap()).unwrap();
    for package in lock["package"].as_array().unwrap() {
        if let Some(source) = package.get("source").and_then(toml::Value::as_str) {
            let registry = source.strip_prefix("registry+").unwrap_or(source);
            assert!(list("sources", "allow-registry").contains(registry), "{:?} comes from {source}", package["name"]);
        }
    }
    for package in metadata["packages"].as_array().unwrap() {
        let (name, licence) = (&package["name"], package["license"].as_str().unwrap_or_default());
        let expression = spdx::Expression::parse_mode(licence, spdx::ParseMode::LAX)
            .unwrap_or_else(|error| panic!("{name}: {licence:?} is no licence: {error}"));
        let fits = expression.evaluate(|wanted| allowed.iter().any(|licensee| licensee.satisfies(wanted)));
        assert!(fits, "{name} is under {licence}, which deny.toml does not allow");
    }
}
