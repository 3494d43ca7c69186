//! The type of an event: dotted segments such as `order.created`.

use std::fmt;
use std::sync::Arc;

/// The longest event type and the longest pattern, in bytes (`api.md`, *Events*).
pub const MAX_EVENT_TYPE_BYTES: usize = 128;

/// Types under this first segment are the engine's own (`posthaste.ping`); no caller may submit one.
pub const RESERVED_SEGMENT: &str = "posthaste";

/// A valid event type: one or more segments of `[A-Za-z0-9_-]`, joined by dots, at most [`MAX_EVENT_TYPE_BYTES`] long.
/// Case matters. Needs no escaping in JSON or in a header field.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventType(Arc<str>);

impl EventType {
    /// Any valid type, the engine's own included. The error is a sentence.
    pub fn parse(text: &str) -> Result<EventType, String> {
        if text.is_empty() {
            return Err("An event type must not be empty.".into());
        }
        if text.len() > MAX_EVENT_TYPE_BYTES {
            return Err(format!("An event type is at most {MAX_EVENT_TYPE_BYTES} characters long."));
        }
        if !text.split('.').all(is_segment) {
            return Err(
                "An event type is made of segments of A-Z, a-z, 0-9, '_' and '-', joined by single dots.".into()
            );
        }
        Ok(EventType(text.into()))
    }

    /// A type that a caller may submit: not `posthaste` and nothing below it.
    pub fn parse_from_caller(text: &str) -> Result<EventType, String> {
        let event_type = EventType::parse(text)?;
        if text.split('.').next() == Some(RESERVED_SEGMENT) {
            return Err(format!("Event types that begin with '{RESERVED_SEGMENT}' are reserved."));
        }
        Ok(event_type)
    }

    /// The text, as submitted.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// One part between the dots.
fn is_segment(text: &str) -> bool {
    !text.is_empty() && (text.bytes()).all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

/// So that maps keyed by types can be asked with a text.
impl std::borrow::Borrow<str> for EventType {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for EventType {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(&self.0)
    }
}

impl fmt::Debug for EventType {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, out)
    }
}

impl serde::Serialize for EventType {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_joined_by_dots() {
        let longest = "a".repeat(MAX_EVENT_TYPE_BYTES);
        for good in ["order.created", "a", "A_b-9.c", "user.created.v2", "posthaste.ping", &longest] {
            assert_eq!(EventType::parse(good).unwrap().as_str(), good);
        }
        // C87: nothing that could break a header field or a JSON text gets in.
        let too_long = "a".repeat(MAX_EVENT_TYPE_BYTES + 1);
        for bad in
            ["", ".", "a.", ".a", "a..b", "a b", "a.*", "*", "a/b", "é", "a\r\nX: 1", "a\0", "a\"", "a\n", &too_long]
        {
            assert!(EventType::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn callers_may_not_use_the_engines_own() {
        for bad in ["posthaste", "posthaste.ping", "posthaste.x.y", ""] {
            assert!(EventType::parse_from_caller(bad).is_err(), "{bad:?}");
        }
        for good in ["posthaste2.x", "posthaste_.x", "my.posthaste", "Posthaste.x"] {
            assert!(EventType::parse_from_caller(good).is_ok(), "{good:?}");
        }
    }
}
