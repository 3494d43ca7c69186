use proptest::prelude::*;

use super::*;

fn ours() -> HeaderPrefix {
    HeaderPrefix::default()
}

fn headers(pairs: &[(&str, &str)]) -> CustomHeaders {
    CustomHeaders::new(pairs.iter().copied(), &ours()).unwrap()
}

/// C21, C88, C90.
#[test]
fn reserved_names_are_refused_in_any_case() {
    assert!(RESERVED.is_sorted());
    for name in RESERVED.into_iter().chain([
        "webhook-signature",
        "Webhook-ID",
        "webhook-anything",
        "Proxy-Authorization",
        "proxy-connection",
        "Posthaste-Event-Id",
        "POSTHASTE-Whatever",
    ]) {
        for name in [name.to_owned(), name.to_uppercase()] {
            let error = CustomHeaders::new([(&name, "1")], &ours()).unwrap_err();
            assert_eq!(error.name, name);
            assert!(error.message.contains("set by Posthaste"), "{error:?}");
        }
    }
    for name in ["X-Shop", "Authorization", "Cookie", "X-Api-KEY", "Posthastes-A", "Webhook", "Content-Language"] {
        assert_eq!(validate_name(name, &ours()), Ok(()), "{name}");
    }
    let salaf = HeaderPrefix::parse("X-Salaf").unwrap();
    assert!(validate_name("x-salaf-Event-Id", &salaf).is_err());
    assert_eq!(validate_name("Posthaste-A", &salaf), Ok(()));
}

/// C87.
#[test]
fn nothing_can_be_injected() {
    for name in ["", "a b", "a:", "a\r\nX: 1", "a\n", "a\0", " a", "a ", "é", "a\"", "a/b", &"a".repeat(129)] {
        assert!(validate_name(name, &ours()).is_err(), "{name:?}");
    }
    for value in
        ["a\r\nX: 1", "a\nb", "a\rb", "a\0", " a", "a ", "\ta", "a\t", " ", "é", "\u{7f}", "\x1b", &"a".repeat(4_097)]
    {
        assert!(validate_value(value).is_err(), "{value:?}");
        assert!(CustomHeaders::new([("X-A", value)], &ours()).is_err(), "{value:?}");
    }
    for value in ["a", "a b\tc", "Bearer ~!@#$%^&*()\"\\", "*****", &"a".repeat(4_096)] {
        assert_eq!(validate_value(value), Ok(()), "{value:?}");
    }
}

#[test]
fn there_is_a_limit_on_everything() {
    let check = |pairs: Vec<(String, String)>, wrong: Option<&str>| {
        let message = CustomHeaders::new(pairs, &ours()).err().map(|error| error.message);
        match wrong {
            Some(part) => assert!(message.as_ref().unwrap().contains(part), "{message:?}"),
            None => assert_eq!(message, None),
        }
    };
    let many = |count: usize, value: usize| (0..count).map(|n| (format!("X-{n:05}"), "v".repeat(value))).collect();
    check(many(50, 1), None);
    check(many(51, 1), Some("at most 50"));
    check(many(500, 1), Some("at most 50"));
    // 4 × 4,096 is the whole, with the names on top.
    check(many(3, 4_096), None);
    check(many(4, 4_096), Some("16384"));
    check(many(1, 4_097), Some("4096"));
    check(vec![("a".repeat(128), "v".into())], None);
    check(vec![("a".repeat(129), "v".into())], Some("128"));
    check(vec![("X-A".into(), "1".into()), ("x-a".into(), "1".into())], Some("twice"));
}

/// C86: missing is unchanged, null deletes, and neither the mask nor an empty text can take a value's place.
#[test]
fn a_patch_is_merged_by_name() {
    let before = headers(&[("X-A", "1"), ("X-B", "2"), ("X-C", "3")]);
    let check = |patch: &[(&str, Option<&str>)], after: &[(&str, &str)]| {
        let merged = before.merge(patch.iter().copied(), &ours()).unwrap();
        assert_eq!(merged.iter().collect::<Vec<_>>(), after);
    };
    check(&[], &[("X-A", "1"), ("X-B", "2"), ("X-C", "3")]);
    check(&[("x-b", None)], &[("X-A", "1"), ("X-C", "3")]);
    check(&[("X-D", None)], &[("X-A", "1"), ("X-B", "2"), ("X-C", "3")]);
    check(&[("x-b", Some("9")), ("X-0", Some("0"))], &[("X-A", "1"), ("x-b", "9"), ("X-C", "3"), ("X-0", "0")]);
    for bad in [("X-A", Some(MASK)), ("X-New", Some(MASK)), ("X-A", Some("")), ("Host", Some("a")), ("", None)] {
        assert!(before.merge([bad], &ours()).is_err(), "{bad:?}");
    }
    assert!(before.merge([("X-A", None), ("x-a", Some("1"))], &ours()).is_err());
}

#[test]
fn a_new_prefix_is_checked_against_the_old_headers() {
    let before = headers(&[("X-Salaf-A", "1"), ("X-B", "2")]);
    let salaf = HeaderPrefix::parse("X-Salaf").unwrap();
    let error = before.merge([("X-C", Some("1"))], &salaf).unwrap_err();
    assert_eq!(error.name, "X-Salaf-A");
    assert!(before.merge([("X-Salaf-A", None::<&str>)], &salaf).is_ok());
}

/// C89, C90.
#[test]
fn values_are_never_shown() {
    let headers = headers(&[("AUTHORIZATION", "Bearer hunter2"), ("X-Tenant-Token", "hunter2")]);
    assert_eq!(format!("{headers:?}"), r#"{"AUTHORIZATION": "****", "X-Tenant-Token": "****"}"#);
    assert!(headers.masked().all(|(_, value)| value == MASK));
    let error = CustomHeaders::new([("X-A", "hunter2\n")], &ours()).unwrap_err();
    assert!(!format!("{error:?} {error}").contains("hunter2"));
    assert!(!CustomHeaders::from_stored(r#"[["a","hunter2"],"hunter2"]"#).unwrap_err().contains("hunter2"));
}

#[test]
fn bad_rows_are_refused() {
    for bad in ["", "{}", r#"[["a"]]"#, r#"[["a b","1"]]"#, r#"[["a","1\r\nX: 1"]]"#, r#"[["a","1"],["A","1"]]"#] {
        assert!(CustomHeaders::from_stored(bad).is_err(), "{bad}");
    }
}

proptest! {
    #[test]
    fn headers_survive_the_store(
        pairs in proptest::collection::btree_map("x-[a-z]{1,9}", "[!-~]([ -~\t]{0,9}[!-~])?", 0..20)
    ) {
        prop_assume!(pairs.values().all(|value| value != MASK));
        let headers = CustomHeaders::new(pairs, &ours()).unwrap();
        prop_assert_eq!(CustomHeaders::from_stored(&headers.to_stored()), Ok(headers));
    }

    #[test]
    fn what_is_accepted_can_be_sent(name: String, value in "[ -~\t]{0,9}|.*") {
        if let Ok(headers) = CustomHeaders::new([(&name, &value)], &ours()) {
            let line = format!("{name}: {value}\r\n\r\n");
            let mut parsed = [httparse::EMPTY_HEADER; 2];
            let (_, parsed) = httparse::parse_headers(line.as_bytes(), &mut parsed).unwrap().unwrap();
            prop_assert_eq!(parsed, &[httparse::Header { name: &name, value: value.as_bytes() }]);
            prop_assert_eq!(headers.len(), 1);
        }
        let _ = HeaderPrefix::parse(&name);
    }
}
