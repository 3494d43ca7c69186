//! Reading a caller's JSON member by member, noting every fault with its path instead of stopping at the first. (serde's
//! derived readers stop there, and `untagged` and `flatten` lose the path.)

use std::ops::RangeInclusive;

use serde_json::{Map, Value};

use super::duration_text::{format_duration, parse_duration};
use super::field_error::{FieldErrors, shortened};
use super::time::Span;

/// Six places, as a factor.
const DECIMALS: f64 = 1e6;

/// A value and where it stands. Its readers note a fault and give `None` if the value is not what they read.
#[derive(Clone, Debug)]
pub(crate) struct At<'v> {
    pub value: &'v Value,
    pub path: String,
}

impl<'v> At<'v> {
    pub fn new(value: &'v Value, path: &str) -> At<'v> {
        At { value, path: path.into() }
    }

    /// An object with members of these names only; unknown ones are named.
    pub fn object(&self, known: &[&str], errors: &mut FieldErrors) -> Option<Members<'v>> {
        let Some(map) = self.value.as_object() else {
            return self.wrong("an object", errors);
        };
        let members = Members { map, path: self.path.clone() };
        for name in map.keys().filter(|name| !known.contains(&name.as_str())) {
            let message = format!("This member is not known; known are {}.", known.join(", "));
            errors.push(members.path_of(&shortened(name)), message);
        }
        Some(members)
    }

    /// A list. Of one with more than `most` elements only the first `most` are looked at any further.
    pub fn list(&self, most: usize, errors: &mut FieldErrors) -> Option<Vec<At<'v>>> {
        let Some(elements) = self.value.as_array() else {
            return self.wrong("a list", errors);
        };
        if elements.len() > most {
            let message = format!("There are {} elements; at most {most} are allowed.", elements.len());
            errors.push(&self.path, message);
        }
        let at = |(index, value)| At { value, path: format!("{}[{index}]", self.path) };
        Some(elements.iter().take(most).enumerate().map(at).collect())
    }

    pub fn text(&self, errors: &mut FieldErrors) -> Option<&'v str> {
        self.value.as_str().or_else(|| self.wrong("text", errors))
    }

    pub fn boolean(&self, errors: &mut FieldErrors) -> Option<bool> {
        self.value.as_bool().or_else(|| self.wrong("true or false", errors))
    }

    /// A word of a closed list.
    pub fn word<T: Copy>(&self, all: &[T], as_str: fn(T) -> &'static str, errors: &mut FieldErrors) -> Option<T> {
        let text = self.text(errors)?;
        let found = all.iter().copied().find(|word| as_str(*word) == text);
        if found.is_none() {
            let known: Vec<_> = all.iter().map(|word| as_str(*word)).collect();
            let message = format!("'{}' is not one of {}.", shortened(text), known.join(", "));
            errors.push(&self.path, message);
        }
        found
    }

    /// A whole number within the range.
    pub fn whole_number(&self, range: RangeInclusive<u32>, errors: &mut FieldErrors) -> Option<u32> {
        if !self.value.is_number() {
            return self.wrong("a whole number", errors);
        }
        let number = self.value.as_u64().and_then(|number| u32::try_from(number).ok());
        let found = number.filter(|number| range.contains(number));
        if found.is_none() {
            let message = format!("A whole number from {} to {} is needed.", range.start(), range.end());
            errors.push(&self.path, message);
        }
        found
    }

    /// A number within the range, and so finite; there is no negative zero. It is kept to six places: serde_json
    /// reads some longer numbers one bit off, so that one which is stored and read again and again would creep.
    pub fn number(&self, range: RangeInclusive<f64>, errors: &mut FieldErrors) -> Option<f64> {
        if !self.value.is_number() {
            return self.wrong("a number", errors);
        }
        let found = self.value.as_f64().filter(|number| range.contains(number));
        if found.is_none() {
            let message = format!("A number from {} to {} is needed.", range.start(), range.end());
            errors.push(&self.path, message);
        }
        found.map(|number| (number * DECIMALS).round() / DECIMALS + 0.0)
    }

    /// A duration, as text, within the range.
    pub fn duration(&self, range: RangeInclusive<Span>, errors: &mut FieldErrors) -> Option<Span> {
        if self.value.is_number() {
            let message = "A duration is text with its unit, for example \"30s\"; a number is not.";
            errors.push(&self.path, message);
            return None;
        }
        let span = match parse_duration(self.text(errors)?) {
            Ok(span) => span,
            Err(message) => {
                errors.push(&self.path, message);
                return None;
            }
        };
        if range.contains(&span) {
            return Some(span);
        }
        let (least, most) = (format_duration(*range.start()), format_duration(*range.end()));
        errors.push(&self.path, format!("A duration from {least} to {most} is needed."));
        None
    }

    /// Notes that something else was expected here.
    pub fn wrong<T>(&self, expected: &str, errors: &mut FieldErrors) -> Option<T> {
        let found = match self.value {
            Value::Null => "null",
            Value::Bool(_) => "true or false",
            Value::Number(_) => "a number",
            Value::String(_) => "text",
            Value::Array(_) => "a list",
            Value::Object(_) => "an object",
        };
        errors.push(&self.path, format!("This must be {expected}, not {found}."));
        None
    }
}

/// An object's members.
#[derive(Debug)]
pub(crate) struct Members<'v> {
    map: &'v Map<String, Value>,
    path: String,
}

impl<'v> Members<'v> {
    /// The path of the member of this name, there or not.
    pub fn path_of(&self, name: &str) -> String {
        match self.path.is_empty() {
            true => name.into(),
            false => format!("{}.{name}", self.path),
        }
    }

    pub fn get(&self, name: &str) -> Option<At<'v>> {
        self.map.get(name).map(|value| At { value, path: self.path_of(name) })
    }

    /// A member that must be there.
    pub fn required(&self, name: &str, errors: &mut FieldErrors) -> Option<At<'v>> {
        let member = self.get(name);
        if member.is_none() {
            errors.push(self.path_of(name), "This member is required.");
        }
        member
    }
}
