use super::*;
use crate::domain::headers::MASK;

const SECRET_TEXT: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

fn birth() -> Birth {
    let secret = SigningSecret::generate([7; 32]);
    Birth { tenant: TenantNo(1), id: "ep_1".into(), secret, now: Timestamp::from_micros(5) }
}

fn new(body: &str) -> Result<EndpointRecord, Vec<String>> {
    with_rules(body, &Rules::default())
}

fn with_rules(body: &str, rules: &Rules) -> Result<EndpointRecord, Vec<String>> {
    create(body.as_bytes(), rules, birth()).map_err(|problem| fields(&problem))
}

fn fields(problem: &Problem) -> Vec<String> {
    problem.errors().iter().map(|error| error.field.clone()).collect()
}

fn patched(before: &EndpointRecord, body: &str) -> Result<Edit, Vec<String>> {
    edit(body.as_bytes(), before, &Rules::default()).map_err(|problem| fields(&problem))
}

fn headers(record: &EndpointRecord) -> Vec<(&str, &str)> {
    record.headers.iter().collect()
}

#[test]
fn only_the_url_is_required() {
    let record = new(r#"{"url": "https://example.com/hooks"}"#).unwrap();
    assert_eq!(
        (&*record.url, record.max_in_flight, record.description.as_str()),
        ("https://example.com/hooks", 16, "")
    );
    assert_eq!((record.event_types, record.policy), (EventFilter::all(), PolicySpec::default()));
    assert_eq!((record.header_prefix, record.secrets.current().clone()), (None, birth().secret));
    assert!(record.headers.is_empty() && record.metadata.is_empty() && record.status == Status::Enabled);
    let nulls = r#"{"url": "https://example.com", "description": null, "event_types": null, "policy": null,
        "headers": null, "header_prefix": null, "max_in_flight": null, "secret": null, "metadata": null}"#;
    assert_eq!(new(nulls).unwrap().secrets.current().clone(), birth().secret);
}

#[test]
fn everything_can_be_given() {
    let body = format!(
        r#"{{"url": "https://example.com/hooks", "description": "shop", "event_types": ["order.*", "invoice.paid"],
        "policy": {{"preset": "salaf", "timeout": "5s"}}, "headers": {{"X-Shop": "42", "A-First": "1"}},
        "header_prefix": "X-Salaf", "max_in_flight": 256, "secret": "{SECRET_TEXT}", "metadata": {{"a": [1, null]}}}}"#
    );
    let record = new(&body).unwrap();
    assert_eq!(headers(&record), [("X-Shop", "42"), ("A-First", "1")], "the owner's order");
    assert_eq!(record.secrets.current().as_str(), SECRET_TEXT);
    assert_eq!(record.policy.to_json().to_string(), r#"{"preset":"salaf","timeout":"5s"}"#);
    assert_eq!(record.header_prefix.unwrap().as_str(), "X-Salaf");
    let named = new(r#"{"url": "https://example.com", "policy": "shellorbit"}"#).unwrap();
    assert_eq!(named.policy.to_json().to_string(), r#"{"preset":"shellorbit"}"#);
}

/// C21, C27, C28, C37, C87, C88: one fault of each kind, named, and all of them at once.
#[test]
fn every_fault_is_named() {
    let check = |members: &str, wanted: &[&str]| {
        let body = format!(r#"{{"url": "https://example.com"{members}}}"#);
        assert_eq!(new(&body).unwrap_err(), wanted, "{body}");
    };
    check(r#", "x": 1, "status": "enabled""#, &["status", "x"]);
    check(r#", "description": 5"#, &["description"]);
    check(r#", "description": "a\u0000b""#, &["description"]);
    check(r#", "event_types": []"#, &["event_types"]);
    check(r#", "event_types": "a""#, &["event_types"]);
    check(r#", "event_types": ["a", 1, "b", null]"#, &["event_types[1]", "event_types[3]"]);
    check(r#", "event_types": ["a", "b*"]"#, &["event_types[1]"]);
    check(r#", "policy": "gentle""#, &["policy"]);
    check(r#", "policy": {"timeout": 5, "jitter": 2}"#, &["policy.jitter", "policy.timeout"]);
    check(r#", "policy": {"schedule": {"ladder": ["1s", "25h"]}}"#, &["policy.schedule.ladder[1]"]);
    check(r#", "max_in_flight": 0"#, &["max_in_flight"]);
    check(r#", "max_in_flight": 257"#, &["max_in_flight"]);
    check(r#", "max_in_flight": "16""#, &["max_in_flight"]);
    check(r#", "header_prefix": "webhook", "headers": 5"#, &["header_prefix"]);
    check(r#", "header_prefix": "X-Salaf", "headers": {"x-salaf-signature": "1"}"#, &["headers.x-salaf-signature"]);
    check(r#", "headers": {"Expect": "100-continue"}"#, &["headers.Expect"]);
    check(r#", "headers": {"webhook-ID": "1"}"#, &["headers.webhook-ID"]);
    check(r#", "headers": {"A": 5, "B": ["x"]}"#, &["headers.A", "headers.B"]);
    check(r#", "headers": {"A": "1\r\nX: 1"}"#, &["headers.A"]);
    check(r#", "headers": {"": "1"}"#, &["headers"]);
    check(r#", "headers": {"A": "1", "a": "2"}"#, &["headers.a"]);
    check(r#", "headers": {"A": "1", "A": "2"}"#, &["headers.A"]);
    check(&format!(r#", "headers": {{"A": "{MASK}"}}"#), &["headers.A"]);
    check(r#", "headers": []"#, &["headers"]);
    check(r#", "secret": "whsec_short""#, &["secret"]);
    check(r#", "secret": 5"#, &["secret"]);
    check(r#", "metadata": []"#, &["metadata"]);
    check(&format!(r#", "metadata": {{"a": "{}"}}"#, "x".repeat(limits::METADATA_BYTES)), &["metadata"]);
    check(r#", "url": "https://example.org""#, &["url"]);
    assert_eq!(new("{}").unwrap_err(), ["url"]);
    assert_eq!(
        new(r#"{"url": null, "description": 5, "event_types": 5}"#).unwrap_err(),
        ["url", "description", "event_types"]
    );
}

/// C27–C30.
#[test]
fn an_address_that_may_never_be_called_is_refused_at_once() {
    let check = |url: &str, rules: &Rules, good: bool| {
        let body = serde_json::json!({"url": url}).to_string();
        assert_eq!(
            with_rules(&body, rules).map(|record| record.url.to_string()),
            match good {
                true => Ok(url.into()),
                false => Err(vec!["url".into()]),
            }
        );
    };
    let rules = Rules::default();
    for bad in [
        "http://127.0.0.1/",
        "http://2130706433/",
        "http://0x7f000001/",
        "http://[::ffff:7f00:1]/",
        "http://169.254.169.254/latest",
        "http://user:pw@example.com/",
        "ftp://example.com/",
        "http://example.com:0/",
        "http://[::1/",
        "",
    ] {
        check(bad, &rules, false);
    }
    check("http://localhost./", &rules, true);
    let lan = Rules { targets: AddressPolicy::new(["10.1.0.0/16".parse().unwrap()]), ..Rules::default() };
    check("http://10.1.2.3/", &lan, true);
    check("http://10.2.2.3/", &lan, false);
    let secure = Rules { https_only: true, ..Rules::default() };
    check("http://example.com/", &secure, false);
    check("https://example.com/", &secure, true);
    let told = create(br#"{"url": "http://0x7f000001/"}"#, &rules, birth()).unwrap_err();
    assert!(!told.to_string().contains("127.0.0.1"), "{told}");
}

#[test]
fn a_patch_changes_what_it_names() {
    let before =
        new(r#"{"url": "https://example.com/a", "description": "shop", "max_in_flight": 3, "policy": "shellorbit",
        "event_types": ["a"], "headers": {"A": "1", "B": "2"}, "metadata": {"k": 1}, "header_prefix": "P"}"#)
        .unwrap();
    let same = patched(&before, "{}").unwrap();
    assert!(!same.changes && !same.new_url && !same.close_circuit);
    let again = patched(&before, r#"{"description": "shop", "url": "https://example.com/a", "headers": {}}"#).unwrap();
    assert!(!again.changes, "C85: the same values are no change");
    let defaults = patched(
        &before,
        r#"{"description": null, "max_in_flight": null, "policy": null, "event_types": null, "headers": null,
        "metadata": null, "header_prefix": null}"#,
    )
    .unwrap();
    assert!(defaults.changes && defaults.close_circuit && !defaults.new_url);
    assert_eq!(defaults.record.description, "");
    assert!(defaults.record.headers.is_empty() && defaults.record.metadata.is_empty());
    assert_eq!((defaults.record.max_in_flight, defaults.record.header_prefix), (16, None));
    let other = patched(&before, r#"{"policy": {"preset": "shellorbit", "timeout": "1s"}}"#).unwrap();
    assert!(other.changes && !other.close_circuit);
    let removed = patched(&before, r#"{"policy": {"preset": "shellorbit", "circuit_breaker": null}}"#).unwrap();
    assert!(removed.close_circuit);
    assert_eq!(patched(&before, r#"{"url": null}"#).unwrap_err(), ["url"]);
    assert_eq!(patched(&before, &format!(r#"{{"secret": "{SECRET_TEXT}"}}"#)).unwrap_err(), ["secret"]);
    assert_eq!(patched(&before, r#"{"id": "ep_2", "status": "disabled"}"#).unwrap_err(), ["id", "status"]);
}

/// C86.
#[test]
fn headers_are_merged_by_name_and_masks_never_saved() {
    let before = new(r#"{"url": "https://example.com/a", "headers": {"A": "1", "B": "2"}}"#).unwrap();
    let check = |patch: &str, wanted: &[(&str, &str)]| {
        let edit = patched(&before, &format!(r#"{{"headers": {patch}}}"#)).unwrap();
        assert_eq!(headers(&edit.record), wanted, "{patch}");
    };
    check(r#"{"C": "3"}"#, &[("A", "1"), ("B", "2"), ("C", "3")]);
    check(r#"{"a": "9"}"#, &[("a", "9"), ("B", "2")]);
    check(r#"{"A": null, "X": null}"#, &[("B", "2")]);
    check("null", &[]);
    assert_eq!(patched(&before, &format!(r#"{{"headers": {{"A": "{MASK}"}}}}"#)).unwrap_err(), ["headers.A"]);
    assert_eq!(patched(&before, r#"{"headers": {"A": ""}}"#).unwrap_err(), ["headers.A"]);
    let reserved = new(r#"{"url": "https://example.com/a", "headers": {"P-A": "1"}}"#).unwrap();
    assert_eq!(patched(&reserved, r#"{"header_prefix": "P"}"#).unwrap_err(), ["headers.P-A"]);
    assert!(patched(&reserved, r#"{"header_prefix": "P", "headers": {"P-A": null}}"#).is_ok());
}

#[test]
fn another_origin_clears_the_headers_but_those_that_come_with_it() {
    let before = new(r#"{"url": "https://example.com/a", "headers": {"A": "1"}}"#).unwrap();
    let path = patched(&before, r#"{"url": "https://example.com/b"}"#).unwrap();
    assert!(path.new_url && headers(&path.record) == [("A", "1")]);
    for url in ["https://example.org/a", "http://example.com/a", "https://example.com:8443/a"] {
        let moved = patched(&before, &format!(r#"{{"url": "{url}", "headers": {{"B": "2"}}}}"#)).unwrap();
        assert!(moved.new_url && headers(&moved.record) == [("B", "2")], "{url}");
    }
    let port = patched(&before, r#"{"url": "https://example.com:443/a"}"#).unwrap();
    assert_eq!(headers(&port.record), [("A", "1")], "the same origin in another spelling");
}
