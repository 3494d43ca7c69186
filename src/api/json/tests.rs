use proptest::prelude::*;

use super::*;
use crate::domain::field_error::FieldError;

/// The faults of a body that may hold `a` and `b`.
fn faults(text: &str) -> Vec<FieldError> {
    let mut errors = FieldErrors::default();
    if let Some(document) = Document::read(text, "", &mut errors) {
        document.only(&["a", "b"], "", &mut errors);
        document.value(&mut errors);
    }
    errors.finish::<()>(None).unwrap_err()
}

#[test]
fn members_are_known_and_come_once() {
    let check = |text: &str, fields: &[&str]| {
        let found: Vec<_> = faults(text).into_iter().map(|error| error.field).collect();
        assert_eq!(found, fields, "{text}");
    };
    check(r#"{"a": 1, "b": {"x": 1, "x": 2}}"#, &[]);
    check(r#"{"a": 1, "a": 1, "a": 2}"#, &["a"]);
    check(r#"{"a": 1, "\u0061": 2}"#, &["a"]);
    check(r#"{"c": 1, "d": 2, "a": 3}"#, &["c", "d"]);
    check(r#"{"a": "\ud800", "b": 1e999}"#, &["a", "b"]);
    check(&format!(r#"{{"a": {}}}"#, "[".repeat(200) + &"]".repeat(200)), &["a"]);
    for bad in ["", "[]", "1", "null", "{}{}", "{", "{\"a\"}", "\u{feff}{}", "{\"a\": tru}", "{\"a\": \"\u{1}\"}"] {
        check(bad, &[""]);
    }
}

#[test]
fn a_fault_is_told_without_the_callers_words() {
    let message = |text: &str| faults(text)[0].message.clone();
    assert_eq!(message("\"secret\""), "This must be an object, not text.");
    assert!(message("{\"a\": }").contains("line 1 column 7"));
    let mut errors = FieldErrors::default();
    let raw: &RawValue = serde_json::from_str("{\"secret\": 1}").unwrap();
    assert!(string(raw, "url", &mut errors).is_none());
    let error = &errors.finish::<()>(None).unwrap_err()[0];
    assert_eq!((error.field.as_str(), error.message.as_str()), ("url", "This must be text, not an object."));
}

#[test]
fn a_flood_of_members_or_elements_is_not_kept() {
    let members: Vec<String> = (0..10_000).map(|number| format!("\"m{number}\":1")).collect();
    let text = format!("{{{}}}", members.join(","));
    let mut errors = FieldErrors::default();
    assert_eq!(Document::read(&text, "", &mut errors).unwrap().0.len(), limits::MEMBERS + 1);
    let elements = format!("[{}1]", "1,".repeat(9_999));
    let raw: &RawValue = serde_json::from_str(&elements).unwrap();
    assert!(list(raw, 1_000, "events", &mut errors).is_none());
    assert!(errors.finish::<()>(None).unwrap_err()[0].message.contains("10000"));
}

#[test]
fn c33_bytes_that_are_no_text_are_located() {
    let mut errors = FieldErrors::default();
    assert_eq!(text("{\"a\":\"😀\"}".as_bytes(), &mut errors), Some("{\"a\":\"😀\"}"));
    assert_eq!(text(b"{\"a\":\"\xff\"}", &mut errors), None);
    assert!(errors.finish::<()>(None).unwrap_err()[0].message.contains("byte 6"));
}

#[test]
fn c34_members_as_text_have_any_depth() {
    let deep = format!(r#"{{"a": {}}}"#, "[".repeat(20_000) + &"]".repeat(20_000));
    let mut errors = FieldErrors::default();
    let document = Document::read(&deep, "", &mut errors).unwrap();
    assert_eq!(document.get("a").unwrap().get().len(), 40_000);
}

proptest! {
    #[test]
    fn no_text_panics(text in ".{0,60}|[\\[\\]{}\",:0-9a\\\\ ]{0,60}") {
        faults(&text);
    }
}
