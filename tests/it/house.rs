//! The house keeps its rules: who may import whom, how long a file may be.

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
const MAY_IMPORT: [(&str, &[&str]); 7] = [
    ("domain", &["domain"]),
    ("store", &["domain", "store", "clock"]),
    ("transport", &["domain", "transport"]),
    ("engine", &["domain", "store", "transport", "clock", "engine"]),
    ("api", &["domain", "store", "engine", "config", "clock", "api"]),
    ("cli", &["domain", "app", "config", "clock", "cli"]),
    ("clock.rs", &["domain"]),
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
