//! What strangers' bytes are read by, each as a target that takes any bytes and asserts what must hold of them. Built only for
//! tests and for `cargo fuzz`: `cargo test fuzz` runs every target over its corpus and a fixed number of mutations of it
//! (`POSTHASTE_FUZZ=1000000` for more); `fuzz/` searches with libFuzzer for as long as one likes (docs/testing.md).

use std::collections::HashMap;
use std::net::IpAddr;
use std::str::from_utf8;
use std::sync::OnceLock;

use serde_json::Value;
use serde_json::value::RawValue;

use crate::api::cursor::{self, List};
use crate::api::endpoints::written::{self, Birth, Rules};
use crate::api::events::posted;
use crate::clock::Clock;
use crate::domain::duration_text::{format_duration, parse_duration};
use crate::domain::event_type::EventType;
use crate::domain::excerpt;
use crate::domain::policy_json::policy_json;
use crate::domain::policy_spec::PolicySpec;
use crate::domain::secret::SigningSecret;
use crate::domain::signature::{verify_standard, verify_timestamped};
use crate::domain::simulate_request::SimulateRequest;
use crate::domain::subscription::Pattern;
use crate::domain::target::{AddressPolicy, Host, TargetUrl};
use crate::domain::time::{Span, Timestamp};
use crate::domain::{headers, retry_after};
use crate::store::DEFAULT_TENANT;
use crate::transport::framing::ResponseFraming;

/// Takes any bytes; panics if what must hold of them does not.
pub type Target = fn(&[u8]);

/// Name and target; the corpus of each is the folder of its name in `tests/corpus`.
pub const TARGETS: [(&str, Target); 10] = [
    ("event_body", event_body),
    ("endpoint_body", endpoint_body),
    ("policy", policy),
    ("duration", duration),
    ("cursor", cursor),
    ("signature_header", signature_header),
    ("response_head", response_head),
    ("excerpt", excerpt),
    ("url", url),
    ("small_text", small_text),
];

/// The target that `POSTHASTE_FUZZ_TARGET` names, for `fuzz/`.
pub fn chosen(bytes: &[u8]) {
    static CHOSEN: OnceLock<Target> = OnceLock::new();
    let chosen = CHOSEN.get_or_init(|| {
        let wanted = std::env::var("POSTHASTE_FUZZ_TARGET").unwrap_or_default();
        let names = || TARGETS.map(|(name, _)| name).join(", ");
        named(&wanted).unwrap_or_else(|| panic!("POSTHASTE_FUZZ_TARGET is one of {}", names()))
    });
    chosen(bytes);
}

fn named(wanted: &str) -> Option<Target> {
    TARGETS.into_iter().find(|(name, _)| *name == wanted).map(|(_, target)| target)
}

fn clock() -> Clock {
    Clock::simulated(Timestamp::from_micros(1_788_445_441_000_000), 7, 1.0)
}

/// What is accepted is composed into JSON that holds the data as it was (S2).
pub fn event_body(bytes: &[u8]) {
    let one = posted::one(bytes, &clock());
    let _ = posted::batch(bytes, &clock());
    let Ok(event) = one else { return };
    // Not as values: JSON may hold escapes of lone surrogates, which no text does.
    let whole: HashMap<String, Box<RawValue>> = serde_json::from_slice(&event.body).expect("the composed body is JSON");
    assert_eq!(whole["id"].get(), format!("\"{}\"", event.id.as_str()));
    let data = &event.body[event.data_start..event.body.len() - 1];
    assert_eq!(whole["data"].get().as_bytes(), data);
    assert!(bytes.windows(data.len()).any(|window| window == data), "the data is in what came, byte for byte");
}

/// What is accepted is read back the same, and an edit with the same body changes nothing.
pub fn endpoint_body(bytes: &[u8]) {
    let rules = Rules::default();
    let birth = Birth {
        tenant: DEFAULT_TENANT,
        id: "ep_1".into(),
        secret: SigningSecret::generate([7; 32]),
        now: Timestamp::from_micros(1),
    };
    let Ok(record) = written::create(bytes, &rules, birth) else { return };
    if let Ok(edit) = written::edit(bytes, &record, &rules) {
        assert!(!edit.changes, "the same members again");
    }
}

/// A policy that is accepted is the same when it is shown and read again.
pub fn policy(bytes: &[u8]) {
    let Ok(json) = serde_json::from_slice::<Value>(bytes) else { return };
    if let Ok(request) = SimulateRequest::from_json(&json) {
        let _ = request.answer();
    }
    let Ok(spec) = PolicySpec::from_json(&json, "policy") else { return };
    let shown = shown(&spec);
    let again = PolicySpec::from_json(&shown, "policy").expect("what is shown can be given");
    assert_eq!(self::shown(&again), shown);
}

fn shown(spec: &PolicySpec) -> Value {
    serde_json::to_value(policy_json(&spec.resolve())).expect("a policy can be shown")
}

/// A duration has one shortest form.
pub fn duration(bytes: &[u8]) {
    let Some(span) = from_utf8(bytes).ok().and_then(|text| parse_duration(text).ok()) else { return };
    assert_eq!(parse_duration(&format_duration(span)), Ok(span));
}

/// A cursor that is taken is one that is given.
pub fn cursor(bytes: &[u8]) {
    let Ok(text) = from_utf8(bytes) else { return };
    for list in [List::Events, List::Endpoints, List::Deliveries, List::Dlq, List::Notifications] {
        if let Some(place) = cursor::decode(list, text) {
            assert_eq!(cursor::encode(list, place), text);
        }
    }
}

/// Nobody guesses a signature.
pub fn signature_header(bytes: &[u8]) {
    let Ok(text) = from_utf8(bytes) else { return };
    let secret = SigningSecret::generate([7; 32]);
    let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
    assert!(verify_timestamped(text, bytes, &[&secret], 1_788_445_441, Span::HOUR).is_err());
    assert!(verify_standard(first, "1788445441", rest, bytes, &[&secret], 1_788_445_441, Span::HOUR).is_err());
}

/// However a response is cut, it means the same; what is kept is no longer than it may be.
pub fn response_head(bytes: &[u8]) {
    let read = |piece: usize| {
        let mut framing = ResponseFraming::new();
        let fed = bytes.chunks(piece.max(1)).try_for_each(|part| framing.feed(part));
        fed.map(|()| {
            let status = framing.head().map(|head| head.status);
            let done = framing.is_done();
            (status, framing.kept().to_vec(), framing.is_truncated(), done, done && framing.is_reusable())
        })
    };
    let whole = read(bytes.len());
    assert_eq!(read(1), whole);
    assert_eq!(read(7), whole);
    if let Ok((status, kept, ..)) = whole {
        assert!(kept.len() <= excerpt::EXCERPT_BYTES && status.is_none_or(|status| (200..1_000).contains(&status)));
    }
}

/// What is kept of an answer is short, and what is printed of it does nothing to a terminal.
pub fn excerpt(bytes: &[u8]) {
    let kept = excerpt::clean(bytes);
    assert!(kept.len() <= excerpt::EXCERPT_BYTES);
    let printed = excerpt::escape_for_terminal(&kept);
    assert!(!printed.chars().any(char::is_control), "{printed:?}");
}

/// A URL that is accepted is kept as written and has one host for every reader; whoever is called by it, it is nobody inside.
pub fn url(bytes: &[u8]) {
    let Ok(text) = from_utf8(bytes) else { return };
    let _ = AddressPolicy::parse_entry(text);
    let Ok(target) = TargetUrl::parse(text, false) else { return };
    assert_eq!(target.as_str(), text);
    let other = url::Url::parse(text).expect("others read it too");
    assert_eq!(target.port(), other.port_or_known_default().expect("a port"));
    assert!(target.request_target().starts_with('/') && !target.request_target().contains(['\r', '\n', ' ']));
    let judged = AddressPolicy::default().judge_literal(&target);
    let ip = match (target.host(), other.host().expect("a host")) {
        (Host::Name(name), url::Host::Domain(theirs)) => return assert_eq!(name, theirs),
        (Host::Ip(ip), url::Host::Ipv4(theirs)) => (*ip, IpAddr::from(theirs)),
        (Host::Ip(ip), url::Host::Ipv6(theirs)) => (*ip, IpAddr::from(theirs)),
        (host, theirs) => panic!("{host:?} and {theirs:?}"),
    };
    assert_eq!(ip.0, ip.1);
    assert!(!is_inside(ip.0) || !judged.is_allowed(), "{} may be called", ip.0);
}

/// Whether the standard library knows an address as one that is not on the internet; also one that lies in an IPv6 address.
fn is_inside(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => {
            ip.is_loopback()
                || ip.is_private()
                || ip.is_link_local()
                || ip.is_unspecified()
                || ip.is_broadcast()
                || ip.is_multicast()
                || ip.is_documentation()
        }
        IpAddr::V6(ip) => {
            let within = ip.to_ipv4().is_some_and(|inner| is_inside(inner.into()));
            within
                || ip.is_loopback()
                || ip.is_unspecified()
                || ip.is_multicast()
                || ip.is_unique_local()
                || ip.is_unicast_link_local()
        }
    }
}

/// Texts with a grammar of their own.
pub fn small_text(bytes: &[u8]) {
    let Ok(text) = from_utf8(bytes) else { return };
    if let Some(at) = Timestamp::parse(text) {
        assert_eq!(Timestamp::parse(&at.to_string()), Some(at));
    }
    if let Ok(event_type) = EventType::parse(text) {
        assert!(Pattern::parse(text).is_ok_and(|pattern| pattern.matches(event_type.as_str())));
    }
    let _ = retry_after::parse(text, 1_788_445_441);
    let _ = SigningSecret::parse(text);
    if headers::validate_value(text).is_ok() {
        assert!(!text.contains(['\r', '\n', '\0']));
    }
}

#[cfg(test)]
mod tests;
