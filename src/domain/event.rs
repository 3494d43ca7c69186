//! An event's id, and the bytes that every receiver of it gets. They are composed once, when the event is accepted, and
//! only stored and sent from then on (S2).

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use super::event_type::EventType;
use super::time::Timestamp;

/// The longest event id, in bytes.
pub const MAX_EVENT_ID_BYTES: usize = 64;

/// How deep the arrays and objects of `data` may be nested; the outermost counts as 1 (C34).
pub const MAX_DATA_DEPTH: usize = 128;

/// A valid event id: 1 to 64 of `[A-Za-z0-9_-]`, but not `batch`, which is a route. No dot: in a signed text a dot ends
/// the id (C40). Needs no escaping in JSON, in a URL or in a header field.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventId(Arc<str>);

impl EventId {
    /// The error is a sentence.
    pub fn parse(text: &str) -> Result<EventId, String> {
        let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        if text.is_empty() || text.len() > MAX_EVENT_ID_BYTES || !text.bytes().all(legal) {
            return Err(format!("An event id is 1 to {MAX_EVENT_ID_BYTES} characters of A-Z, a-z, 0-9, '_' and '-'."));
        }
        if text == "batch" {
            return Err("'batch' cannot be an event id.".into());
        }
        Ok(EventId(text.into()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::borrow::Borrow<str> for EventId {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(&self.0)
    }
}

impl fmt::Debug for EventId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, out)
    }
}

impl serde::Serialize for EventId {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&self.0)
    }
}

/// The whole body, `{"id":…,"type":…,"created_at":…,"data":…}`, and where in it `data` begins. `data` is the JSON text
/// that the caller submitted as the member's value; it goes in byte for byte, and ends one byte before the body does.
pub fn compose_body(id: &EventId, event_type: &EventType, created_at: Timestamp, data: &str) -> (Bytes, usize) {
    // Ids, types and times hold nothing that JSON escapes.
    let head = format!(r#"{{"id":"{id}","type":"{event_type}","created_at":"{created_at}","data":"#);
    let start = head.len();
    let mut body = head.into_bytes();
    body.reserve_exact(data.len() + 1);
    body.extend_from_slice(data.as_bytes());
    body.push(b'}');
    (body.into(), start)
}

/// How deep arrays and objects are nested in a JSON text: 0 for a plain value, 1 for `[]`. The text must be valid JSON;
/// of any other the number means nothing. Brackets inside strings do not count. Does not recurse, so 20,000 brackets
/// cost no stack (C34).
pub fn json_depth(text: &[u8]) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    let mut bytes = text.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'[' | b'{' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            b'"' => loop {
                match bytes.next() {
                    // What follows a backslash never ends the string.
                    Some(b'\\') => drop(bytes.next()),
                    Some(b'"') | None => break,
                    Some(_) => {}
                }
            },
            _ => {}
        }
    }
    deepest
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// C40, C87.
    #[test]
    fn ids_hold_nothing_that_a_signature_or_a_header_could_trip_over() {
        for good in ["evt_mine-1", "a", "batch2", "-", &"x".repeat(64)] {
            assert_eq!(EventId::parse(good).unwrap().as_str(), good);
        }
        let long = "x".repeat(300);
        for bad in ["", "batch", "a.1700000000.{\"x\":1}", "a.b", "a b", "a\r", "é", "a/b", "a%41", &long, &long[..65]]
        {
            assert!(EventId::parse(bad).is_err(), "{bad:?}");
        }
    }

    fn compose(data: &str) -> (Bytes, usize) {
        let id = EventId::parse("evt_1").unwrap();
        let event_type = EventType::parse("order.created").unwrap();
        compose_body(&id, &event_type, Timestamp::from_micros(1_788_445_441_412_000), data)
    }

    /// C31, C32, C33, C35: odd spacing, duplicate keys, escapes, big numbers, lone surrogates, characters beyond the
    /// BMP.
    #[test]
    fn s02_data_goes_in_byte_for_byte() {
        for data in [
            "{\"b\":1, \"a\":{\"z\":0,\"y\":[]},\"a\":2,\"s\":\"\\u00e9/\\/\"}\n",
            r#"{"id":8202522731445525542,"u":18446744073709551615,"h":123456789012345678901234567890,"f":1.0e0}"#,
            r#"{"s":"\ud800"}"#,
            "\"😀 é e\u{301} \u{2028}\"",
            "null",
        ] {
            let (body, start) = compose(data);
            assert_eq!(&body[start..body.len() - 1], data.as_bytes());
        }
        let (body, _) = compose("[1]");
        assert_eq!(
            body,
            r#"{"id":"evt_1","type":"order.created","created_at":"2026-09-03T14:24:01.412000Z","data":[1]}"#
        );
    }

    /// C34.
    #[test]
    fn depth_is_counted_outside_strings() {
        let check = |text: &str, depth: usize| assert_eq!(json_depth(text.as_bytes()), depth, "{text}");
        check("1", 0);
        check("\"[[[\"", 0);
        check("[]", 1);
        check("[[],[[]],{}]", 3);
        check(r#"{"a\"[[[":["\\",{"b":"]}\\\"{"}]}"#, 3);
        for depth in [127, MAX_DATA_DEPTH, 129, 20_000] {
            check(&("[".repeat(depth) + &"]".repeat(depth)), depth);
        }
    }

    fn json() -> impl Strategy<Value = (String, usize)> {
        let leaf = prop_oneof![
            Just(("1".to_owned(), 0)),
            "[a-c\\[\\]{}\"\\\\]{0,6}".prop_map(|text| (serde_json::to_string(&text).unwrap(), 0)),
        ];
        leaf.prop_recursive(5, 30, 3, |inner| {
            let list = proptest::collection::vec(inner, 0..3);
            (list, any::<bool>()).prop_map(|(list, object)| {
                let depth = 1 + list.iter().map(|(_, depth)| *depth).max().unwrap_or(0);
                let items = list.into_iter().map(|(text, _)| if object { format!(r#""[":{text}"#) } else { text });
                let inside = items.collect::<Vec<_>>().join(",");
                (if object { format!("{{{inside}}}") } else { format!("[{inside}]") }, depth)
            })
        })
    }

    proptest! {
        #[test]
        fn depth_of_any_json((text, depth) in json()) {
            prop_assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok());
            prop_assert_eq!(json_depth(text.as_bytes()), depth);
        }

        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            json_depth(&bytes);
        }

        #[test]
        fn s02_the_body_is_json((text, _) in json()) {
            let (body, _) = compose(&text);
            prop_assert!(serde_json::from_slice::<serde_json::Value>(&body).is_ok());
        }
    }
}
