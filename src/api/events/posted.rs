//! Events as callers post them, read into what the store accepts: the body's members as they stand in it, each checked,
//! every fault named, and the receivers' body composed once of them (S2).

use serde_json::value::RawValue;

use crate::api::json::{self, Document, below};
use crate::api::limits;
use crate::api::problem::{Code, Problem};
use crate::clock::Clock;
use crate::domain::event::{EventId, MAX_DATA_DEPTH, compose_body, json_depth};
use crate::domain::event_type::EventType;
use crate::domain::field_error::FieldErrors;
use crate::domain::ids::unique_id;
use crate::domain::time::Timestamp;
use crate::store::accept::NewEvent;

const MEMBERS: [&str; 5] = ["type", "data", "id", "created_at", "endpoint_ids"];

/// The years that a time can be given in: four digits, as RFC 3339 has it, from the epoch on.
const CREATED_AT: std::ops::RangeInclusive<Timestamp> =
    Timestamp::from_micros(0)..=Timestamp::from_micros(253_402_300_799_999_999);

/// Reads the body of `POST /events`.
pub fn one(body: &[u8], clock: &Clock) -> Result<NewEvent, Problem> {
    let mut errors = FieldErrors::default();
    let event = json::text(body, &mut errors).and_then(|text| event(text, "", clock, &mut errors));
    errors.finish(event).map_err(Problem::invalid)
}

/// Reads the body of `POST /events/batch`.
pub fn batch(body: &[u8], clock: &Clock) -> Result<Vec<NewEvent>, Problem> {
    let mut errors = FieldErrors::default();
    let members = json::text(body, &mut errors).and_then(|text| members(text, &mut errors));
    let too_large = |member: &&RawValue| member.get().len() > limits::EVENT_BYTES;
    if let Some(index) = members.as_ref().and_then(|members| members.iter().position(too_large)) {
        let message = format!("An event has at most {} bytes.", limits::EVENT_BYTES);
        return Err(Problem::new(Code::PayloadTooLarge, &*message).blaming(format!("events[{index}]"), &*message));
    }
    let mut events = Vec::with_capacity(members.as_ref().map_or(0, Vec::len));
    for (index, member) in members.iter().flatten().enumerate() {
        events.extend(event(member.get(), &format!("events[{index}]"), clock, &mut errors));
    }
    errors.finish(members.map(|_| events)).map_err(Problem::invalid)
}

/// The members of a batch, unread.
fn members<'a>(text: &'a str, errors: &mut FieldErrors) -> Option<Vec<&'a RawValue>> {
    let document = Document::read(text, "", errors)?;
    document.only(&["events"], "", errors);
    let Some(events) = document.get("events") else {
        errors.push("events", "This member is required.");
        return None;
    };
    let members = json::list(events, *limits::BATCH_EVENTS.end(), "events", errors)?;
    if members.len() < *limits::BATCH_EVENTS.start() {
        errors.push("events", "At least one event is needed.");
    }
    Some(members)
}

/// Reads one event; `path` is where it stands.
fn event(text: &str, path: &str, clock: &Clock, errors: &mut FieldErrors) -> Option<NewEvent> {
    let document = Document::read(text, path, errors)?;
    document.only(&MEMBERS, path, errors);
    let received_at = clock.now();
    let event_type = required(&document, "type", path, errors).and_then(|raw| {
        let at = below(path, "type");
        let text = json::string(raw, &at, errors)?;
        EventType::parse_from_caller(&text).map_err(|message| errors.push(at, message)).ok()
    });
    let data = required(&document, "data", path, errors).and_then(|raw| data(raw, path, errors));
    let given = given(&document, "id");
    let id = match given {
        Some(raw) => {
            let at = below(path, "id");
            let text = json::string(raw, &at, errors);
            text.and_then(|text| EventId::parse(&text).map_err(|message| errors.push(at, message)).ok())
        }
        None => EventId::parse(&unique_id("evt_", received_at, clock.random_bits())).ok(),
    };
    let created_at =
        self::given(&document, "created_at").map_or(Some(received_at), |raw| created_at(raw, path, errors));
    let endpoint_ids = match self::given(&document, "endpoint_ids") {
        Some(raw) => endpoint_ids(raw, path, errors).map(Some),
        None => Some(None),
    };
    let (id, event_type, created_at) = (id?, event_type?, created_at?);
    let (body, data_start) = compose_body(&id, &event_type, created_at, data?);
    Some(NewEvent {
        generated: given.is_none(),
        id,
        event_type,
        created_at,
        received_at,
        body,
        data_start,
        endpoint_ids: endpoint_ids?,
    })
}

fn required<'a>(document: &Document<'a>, name: &str, path: &str, errors: &mut FieldErrors) -> Option<&'a RawValue> {
    let member = document.get(name);
    if member.is_none() {
        errors.push(below(path, name), "This member is required.");
    }
    member
}

/// A member that may be missing; null is the same.
fn given<'a>(document: &Document<'a>, name: &str) -> Option<&'a RawValue> {
    document.get(name).filter(|raw| !json::is_null(raw))
}

fn data<'a>(raw: &'a RawValue, path: &str, errors: &mut FieldErrors) -> Option<&'a str> {
    let text = raw.get();
    if json_depth(text.as_bytes()) > MAX_DATA_DEPTH {
        let message = format!("Lists and objects can be nested {MAX_DATA_DEPTH} deep, not deeper.");
        errors.push(below(path, "data"), message);
        return None;
    }
    Some(text)
}

fn created_at(raw: &RawValue, path: &str, errors: &mut FieldErrors) -> Option<Timestamp> {
    let at = below(path, "created_at");
    let text = json::string(raw, &at, errors)?;
    let parsed = Timestamp::parse(&text).filter(|parsed| CREATED_AT.contains(parsed));
    if parsed.is_none() {
        errors.push(at, "A time as in RFC 3339 is needed, such as 2026-09-03T12:04:01Z.");
    }
    parsed
}

/// Whether there are such endpoints is the store's to say, in one order with their changes (S26).
fn endpoint_ids(raw: &RawValue, path: &str, errors: &mut FieldErrors) -> Option<Vec<String>> {
    let at = below(path, "endpoint_ids");
    let elements = json::list(raw, *limits::EVENT_ENDPOINT_IDS.end(), &at, errors)?;
    if elements.len() < *limits::EVENT_ENDPOINT_IDS.start() {
        errors.push(at, "An empty list would send the event to nobody; leave it out to reach every subscriber.");
        return None;
    }
    let ids: Vec<String> = (elements.into_iter().enumerate())
        .map_while(|(index, raw)| Some(json::string(raw, &format!("{at}[{index}]"), errors)?.into_owned()))
        .collect();
    Some(ids)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::field_error::FieldError;

    fn clock() -> Clock {
        Clock::simulated(Timestamp::from_micros(1_788_437_041_412_000), 7, 1.0)
    }

    fn fields(problem: Problem) -> Vec<String> {
        problem.errors().iter().map(|FieldError { field, .. }| field.clone()).collect()
    }

    fn data_of(event: &NewEvent) -> &str {
        std::str::from_utf8(event.data()).unwrap()
    }

    #[tokio::test]
    async fn an_event_has_its_defaults() {
        let event = one(br#"{"type": "order.created", "data": null}"#, &clock()).unwrap();
        assert!(event.generated && event.id.as_str().starts_with("evt_") && event.id.as_str().len() == 30);
        assert_eq!((event.created_at, data_of(&event)), (event.received_at, "null"));
        assert_eq!(event.endpoint_ids, None);
        let all = br#"{"type": "a", "data": [], "id": "mine-1", "created_at": "2026-09-03T14:04:01+02:00", "endpoint_ids": ["x"]}"#;
        let event = one(all, &clock()).unwrap();
        assert!(!event.generated);
        assert_eq!(
            (event.id.as_str(), event.created_at.to_string().as_str()),
            ("mine-1", "2026-09-03T12:04:01.000000Z")
        );
        assert_eq!(event.endpoint_ids, Some(vec!["x".into()]));
        let nulls = br#"{"type": "a", "data": 1, "id": null, "created_at": null, "endpoint_ids": null}"#;
        assert!(one(nulls, &clock()).unwrap().generated);
    }

    /// C31–C36: whatever JSON allows is kept byte for byte, outer white space aside.
    #[tokio::test]
    async fn s02_data_keeps_its_bytes() {
        for data in [
            "{\"b\":1, \"a\":{\"z\":0,\"y\":[]},\"a\":2,\"s\":\"\\u00e9/\\/\"}",
            r#"{"id":8202522731445525542,"u":18446744073709551615,"h":123456789012345678901234567890,"f":1.0e0}"#,
            r#"{"s":"\ud800","\udc00x":1,"t":"\ud83d\ude00 😀"}"#,
            r#"{"s":"a\u0000b"}"#,
            "[ 1,\n\t2 ]",
            "\"\"",
            "1e9999",
            "-0.0",
        ] {
            let body = format!("{{\"type\":\"a\",\"data\": {data}\n }}");
            let event = one(body.as_bytes(), &clock()).unwrap_or_else(|problem| panic!("{data}: {problem}"));
            assert_eq!(data_of(&event), data);
        }
        for bad in ["{\"a\":\u{0}1}", "'x'", "NaN", "01", "[1,]", "{\"a\":1,}", "\"\t\"", "\u{feff}1", "\"\\x\""] {
            let body = format!("{{\"type\":\"a\",\"data\":{bad}}}");
            assert_eq!(fields(one(body.as_bytes(), &clock()).unwrap_err()), [""], "{bad}");
        }
    }

    #[tokio::test]
    async fn every_fault_is_named() {
        let check = |body: &str, wanted: &[&str]| {
            assert_eq!(fields(one(body.as_bytes(), &clock()).unwrap_err()), wanted, "{body}");
        };
        check("{}", &["type", "data"]);
        check("[]", &[""]);
        check("", &[""]);
        check(
            r#"{"type": 1, "data": 1, "id": 2, "created_at": 3, "endpoint_ids": 4}"#,
            &["type", "id", "created_at", "endpoint_ids"],
        );
        check(
            r#"{"type": "a..b", "data": 1, "id": "a.b", "created_at": "now", "endpoint_ids": [], "x": 1}"#,
            &["x", "type", "id", "created_at", "endpoint_ids"],
        );
        check(r#"{"type": "posthaste.ping", "data": 1, "id": "batch"}"#, &["type", "id"]);
        check(r#"{"type": "a", "data": 1, "data": 2}"#, &["data"]);
        check(r#"{"type": null, "data": 1}"#, &["type"]);
        check(r#"{"type": "\ud800", "data": 1, "endpoint_ids": ["x", 1]}"#, &["type", "endpoint_ids[1]"]);
        check(r#"{"type": "a", "data": 1, "created_at": "-009999-01-01T00:00:00Z"}"#, &["created_at"]);
        check(r#"{"type": "a", "data": 1, "created_at": "1969-12-31T23:59:59Z"}"#, &["created_at"]);
    }

    /// C34.
    #[tokio::test]
    async fn data_is_nested_no_deeper_than_said() {
        let nested = |depth: usize| format!(r#"{{"type":"a","data":{}}}"#, "[".repeat(depth) + &"]".repeat(depth));
        for good in [0, 127, 128] {
            let body = if good == 0 { r#"{"type":"a","data":"[[["}"#.into() } else { nested(good) };
            assert!(one(body.as_bytes(), &clock()).is_ok(), "{good}");
        }
        for bad in [129, 20_000] {
            assert_eq!(fields(one(nested(bad).as_bytes(), &clock()).unwrap_err()), ["data"], "{bad}");
        }
    }

    #[tokio::test]
    async fn a_bad_member_of_a_batch_is_named_by_its_index() {
        let check = |body: &str, wanted: &[&str]| {
            assert_eq!(fields(batch(body.as_bytes(), &clock()).unwrap_err()), wanted, "{body}");
        };
        let good = r#"{"type":"a","data":1}"#;
        assert_eq!(batch(format!(r#"{{"events":[{good},{good}]}}"#).as_bytes(), &clock()).unwrap().len(), 2);
        let many = |count: usize| format!(r#"{{"events":[{}]}}"#, vec![good; count].join(","));
        assert_eq!(batch(many(1_000).as_bytes(), &clock()).unwrap().len(), 1_000);
        check(&many(1_001), &["events"]);
        check(r#"{"events":[]}"#, &["events"]);
        check("{}", &["events"]);
        check(r#"{"events":{}}"#, &["events"]);
        check(
            &format!(r#"{{"events":[{good},3,{{"type":"a"}},{good}],"x":1}}"#),
            &["x", "events[1]", "events[2].data"],
        );
        let large = format!(r#"{{"type":"a","data":"{}"}}"#, "x".repeat(limits::EVENT_BYTES));
        let problem = batch(format!(r#"{{"events":[{good},{large}]}}"#).as_bytes(), &clock()).unwrap_err();
        assert_eq!((problem.code(), fields(problem)), (Code::PayloadTooLarge, vec!["events[1]".into()]));
    }
}
