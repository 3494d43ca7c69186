//! Request bodies: read within a limit, JSON, members known and unique.

use std::fmt;
use std::time::Duration;

use actix_web::http::header::CONTENT_TYPE;
use actix_web::web::{Bytes, BytesMut, Payload};
use actix_web::{HttpRequest, error::PayloadError};
use futures_util::StreamExt;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, Visitor};
use serde_json::{Map, Value};

use super::problem::{Code, Problem};

/// A body that is too large is read on for so long, or so many bytes, so that its sender can read the answer.
const DRAIN_TIME: Duration = Duration::from_secs(2);
const DRAIN_BYTES: usize = 4 * 1024 * 1024;

/// Reads a body of at most `limit` bytes; `name` is the limit's, for the error.
pub async fn read(mut payload: Payload, limit: usize, name: &str) -> Result<Bytes, Problem> {
    let mut body = BytesMut::new();
    while let Some(chunk) = payload.next().await {
        let chunk = chunk.map_err(broken)?;
        if body.len() + chunk.len() > limit {
            drain(payload).await;
            let detail = format!("At most {limit} bytes are accepted here ({name}).");
            return Err(Problem::new(Code::PayloadTooLarge, detail));
        }
        if body.is_empty() && chunk.len() >= 512 {
            // Most bodies come in one piece.
            body = BytesMut::from(chunk);
        } else {
            body.extend_from_slice(&chunk);
        }
    }
    Ok(body.freeze())
}

fn broken(error: PayloadError) -> Problem {
    Problem::field("", format!("The body did not arrive whole: {error}."))
}

async fn drain(mut payload: Payload) {
    let mut bytes = 0;
    let rest = async {
        while let Some(Ok(chunk)) = payload.next().await {
            bytes += chunk.len();
            if bytes > DRAIN_BYTES {
                return;
            }
        }
    };
    // Whether it ended or we lost patience, the answer is the same.
    let _ = tokio::time::timeout(DRAIN_TIME, rest).await;
}

/// Refuses a body that does not say that it is JSON: `application/json` or `application/…+json`, with any parameters.
pub fn must_be_json(request: &HttpRequest) -> Result<(), Problem> {
    let value = request.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let json = kind == "application/json" || (kind.starts_with("application/") && kind.ends_with("+json"));
    match json {
        true => Ok(()),
        false => Err(Problem::new(Code::UnsupportedMediaType, "Send Content-Type: application/json.")),
    }
}

/// Parses a body into an object whose members are unique; what they may be is the reader's business.
pub fn object(body: &[u8]) -> Result<Value, Problem> {
    let mut parser = serde_json::Deserializer::from_slice(body);
    let object = Unique.deserialize(&mut parser).and_then(|object| parser.end().map(|()| object));
    object.map(Value::Object).map_err(|error| not_json(&error))
}

/// Like [`object`], where an empty body means `{}`.
pub fn optional_object(body: &[u8]) -> Result<Value, Problem> {
    if body.iter().all(u8::is_ascii_whitespace) { Ok(Value::Object(Map::new())) } else { object(body) }
}

/// The 400 for a body that serde could not read.
pub fn not_json(error: &serde_json::Error) -> Problem {
    Problem::field("", format!("The body is not valid: {error}."))
}

/// An object that refuses a second member of the same name, naming it.
struct Unique;

impl<'de> DeserializeSeed<'de> for Unique {
    type Value = Map<String, Value>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Unique {
    type Value = Map<String, Value>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Self::Value, A::Error> {
        let mut map = Map::new();
        while let Some((name, value)) = access.next_entry::<String, Value>()? {
            if map.contains_key(&name) {
                return Err(serde::de::Error::custom(format_args!("duplicate member `{name}`")));
            }
            map.insert(name, value);
        }
        Ok(map)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_unique_and_the_body_is_one_object() {
        assert_eq!(object(br#"{"a": 1, "b": {"c": 1, "c": 2}}"#).unwrap()["a"], 1);
        for (bad, names) in [
            (r#"{"a": 1, "a": 2}"#, "duplicate member `a`"),
            ("[]", "JSON object"),
            ("{} {}", "trailing"),
            ("", "EOF"),
            ("nul,", "expected"),
        ] {
            let problem = object(bad.as_bytes()).unwrap_err().to_string();
            assert!(problem.contains(names), "{bad}: {problem}");
        }
        assert!(optional_object(b" \n").is_ok() && optional_object(b"x").is_err());
    }
}
