//! The JSON of request bodies. A body is taken apart once, into its top-level members as they stand in the text; nothing
//! is copied, so an event's `data` stays the caller's bytes (S2). Repeated members are seen here, because whatever builds
//! a map of them would swallow one.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use super::limits;
use crate::domain::field_error::{FieldErrors, shortened};

/// A body as text.
pub fn text<'a>(body: &'a [u8], errors: &mut FieldErrors) -> Option<&'a str> {
    let wrong = |error: std::str::Utf8Error| {
        let message = format!("The body is not UTF-8: byte {} is the first that is wrong.", error.valid_up_to());
        errors.push("", message);
    };
    std::str::from_utf8(body).map_err(wrong).ok()
}

/// An object's members, in their order, as text.
#[derive(Debug)]
pub struct Document<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> Document<'a> {
    /// Reads the object that is the whole of `text`; `path` is where it stands in the body. Repeated members are noted as
    /// faults, and so is what is no object at all.
    pub fn read(text: &'a str, path: &str, errors: &mut FieldErrors) -> Option<Document<'a>> {
        let members: Vec<(Text<'a>, &RawValue)> = match serde_json::from_str(text).map(|Members(members)| members) {
            Ok(members) => members,
            Err(error) => {
                errors.push(path, sentence(&error, text, "an object"));
                return None;
            }
        };
        let document = Document(members.into_iter().map(|(Text(name), value)| (name, value)).collect());
        for (index, (name, _)) in document.0.iter().enumerate() {
            // Named where it comes the second time, and not again.
            if document.0[..index].iter().filter(|(earlier, _)| earlier == name).count() == 1 {
                errors.push(below(path, &shortened(name)), "This member is given more than once.");
            }
        }
        Some(document)
    }

    /// The body of an action, where nothing at all means `{}`.
    pub fn read_action(text: &'a str, errors: &mut FieldErrors) -> Option<Document<'a>> {
        match text.is_empty() {
            true => Some(Document(Vec::new())),
            false => Document::read(text, "", errors),
        }
    }

    pub fn get(&self, name: &str) -> Option<&'a RawValue> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| *value)
    }

    pub fn members(&self) -> impl Iterator<Item = (&str, &'a RawValue)> {
        self.0.iter().map(|(name, value)| (&**name, *value))
    }

    /// Notes every member that is not one of these.
    pub fn only(&self, known: &[&str], path: &str, errors: &mut FieldErrors) {
        for (name, _) in self.members().filter(|(name, _)| !known.contains(name)) {
            let message = match known {
                [] => "Nothing can be given here.".into(),
                _ => format!("This member is not known; known are {}.", known.join(", ")),
            };
            errors.push(below(path, &shortened(name)), message);
        }
    }

    /// The whole as a value, for readers that take it from there. (A value sorts members by name.)
    pub fn value(&self, errors: &mut FieldErrors) -> Option<Value> {
        let mut map = serde_json::Map::new();
        let mut whole = true;
        for (name, raw) in self.members() {
            match value(raw, name, errors) {
                Some(value) => drop(map.insert(name.to_owned(), value)),
                None => whole = false,
            }
        }
        whole.then_some(Value::Object(map))
    }
}

/// A member as a value. What was skipped unread until now can still be wrong: half a character's escape, a number beyond
/// all bounds, brackets deeper than anybody nests.
pub fn value(raw: &RawValue, path: &str, errors: &mut FieldErrors) -> Option<Value> {
    parsed(raw, path, "a value", errors)
}

/// A member that must be text.
pub fn string<'a>(raw: &'a RawValue, path: &str, errors: &mut FieldErrors) -> Option<Cow<'a, str>> {
    parsed(raw, path, "text", errors).map(|Text(text)| text)
}

pub fn is_null(raw: &RawValue) -> bool {
    raw.get() == "null"
}

/// A member that must be a list, of which no more than `most` elements are wanted.
pub fn list<'a>(raw: &'a RawValue, most: usize, path: &str, errors: &mut FieldErrors) -> Option<Vec<&'a RawValue>> {
    let Elements { first, count } = parsed(raw, path, "a list", errors)?;
    if count > most.min(KEPT) {
        errors.push(path, format!("There are {count} elements; at most {most} are allowed."));
        return None;
    }
    Some(first)
}

/// The path of a member of the object at `path`.
pub fn below(path: &str, name: &str) -> String {
    match path.is_empty() {
        true => name.into(),
        false => format!("{path}.{name}"),
    }
}

fn parsed<'a, T: Deserialize<'a>>(raw: &'a RawValue, path: &str, wanted: &str, errors: &mut FieldErrors) -> Option<T> {
    serde_json::from_str(raw.get()).map_err(|error| errors.push(path, sentence(&error, raw.get(), wanted))).ok()
}

/// What is wrong with a text that `error` came of. serde's own words for the syntax; for a wrong type ours, because its
/// words would repeat the caller's text.
fn sentence(error: &serde_json::Error, text: &str, wanted: &str) -> String {
    if !error.is_data() {
        return format!("This is not valid JSON: {error}.");
    }
    let found = match text.trim_start().bytes().next() {
        Some(b'{') => "an object",
        Some(b'[') => "a list",
        Some(b'"') => "text",
        Some(b't' | b'f') => "true or false",
        Some(b'n') => "null",
        _ => "a number",
    };
    format!("This must be {wanted}, not {found}.")
}

/// Text, borrowed where nothing in it is escaped.
struct Text<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Text<'de> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct TextVisitor;

        impl<'de> Visitor<'de> for TextVisitor {
            type Value = Text<'de>;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("text")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
        }

        from.deserialize_str(TextVisitor)
    }
}

/// An object's members; beyond [`limits::MEMBERS`] they are only looked through.
struct Members<'a>(Vec<(Text<'a>, &'a RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct MembersVisitor;

        impl<'de> Visitor<'de> for MembersVisitor {
            type Value = Members<'de>;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while members.len() <= limits::MEMBERS {
                    match access.next_entry()? {
                        Some(member) => members.push(member),
                        None => return Ok(Members(members)),
                    }
                }
                while access.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Members(members))
            }
        }

        from.deserialize_map(MembersVisitor)
    }
}

/// The first elements of a list, and how many there are.
struct Elements<'a> {
    first: Vec<&'a RawValue>,
    count: usize,
}

/// A longer list is counted and not kept: its elements can be as small as one byte.
const KEPT: usize = 1_000;

impl<'de> Deserialize<'de> for Elements<'de> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct ElementsVisitor;

        impl<'de> Visitor<'de> for ElementsVisitor {
            type Value = Elements<'de>;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a list")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Self::Value, A::Error> {
                let mut first = Vec::new();
                while first.len() < KEPT {
                    match access.next_element()? {
                        Some(element) => first.push(element),
                        None => return Ok(Elements { count: first.len(), first }),
                    }
                }
                let mut count = first.len();
                while access.next_element::<IgnoredAny>()?.is_some() {
                    count += 1;
                }
                Ok(Elements { first, count })
            }
        }

        from.deserialize_seq(ElementsVisitor)
    }
}

#[cfg(test)]
mod tests;
