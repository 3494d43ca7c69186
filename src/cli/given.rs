//! What people give as arguments and what becomes of it on its way to the API. JSON stays the text that it is: a value read
//! from it would lose the order of members, repeated ones, and digits that no `f64` holds (S2).

use std::fmt::Write;

use serde_json::value::{RawValue, to_raw_value};

use super::{Failure, usage};

/// `text`, or what the file after `@` holds, or standard input for `-`.
pub fn text_of(text: &str) -> Result<String, Failure> {
    match (text, text.strip_prefix('@')) {
        ("-", _) => Ok(std::io::read_to_string(std::io::stdin().lock())?),
        (_, Some(path)) => std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}").into()),
        (text, None) => Ok(text.to_owned()),
    }
}

/// JSON that was given for `what`, checked and otherwise left alone.
pub fn json_text(what: &str, text: &str) -> Result<Box<RawValue>, Failure> {
    serde_json::from_str(text).map_err(|error| usage(format!("{what}: this is not JSON: {error}")))
}

/// A policy: a preset's name, JSON, or `@FILE` with one of both. Which names there are is not judged here.
pub fn policy(text: &str) -> Result<Box<RawValue>, Failure> {
    let read = match text.strip_prefix('@') {
        Some(path) => std::fs::read_to_string(path).map_err(|error| usage(format!("--policy: {path}: {error}")))?,
        None => text.to_owned(),
    };
    match read.trim() {
        json if json.starts_with('{') => json_text("--policy", json),
        name => Ok(to_raw_value(name)?),
    }
}

/// An id as one segment of a path: whatever is typed, that id is asked for and nothing else.
pub fn segment(id: &str) -> Result<String, Failure> {
    if id.is_empty() {
        return Err(usage("an id is needed; this one is empty"));
    }
    let mut segment = String::new();
    for byte in id.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => segment.push(char::from(byte)),
            byte => write!(segment, "%{byte:02X}")?,
        }
    }
    Ok(segment)
}

/// `text` as one word of a shell.
pub fn shell_word(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.,:/@%+=".contains(&byte);
    match !text.is_empty() && text.bytes().all(plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_stays_one_segment() {
        for (id, path) in
            [("dlv_01-A", "dlv_01-A"), ("x y/../#?é%", "x%20y%2F%2E%2E%2F%23%3F%C3%A9%25"), ("..", "%2E%2E")]
        {
            assert_eq!(segment(id).unwrap(), path);
        }
        assert!(segment("").is_err());
    }

    #[test]
    fn a_shell_takes_a_word_for_one() {
        for (text, word) in [("ep_1", "ep_1"), ("", "''"), ("a b", "'a b'"), ("it's;$x", r"'it'\''s;$x'")] {
            assert_eq!(shell_word(text), word);
        }
    }
}
