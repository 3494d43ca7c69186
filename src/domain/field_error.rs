//! What is wrong with the members of a JSON document that a caller wrote: all of it at once, each fault with its place.

use serde::Serialize;

/// The most faults that one answer lists; what is beyond it is left out. A document can hold a hundred thousand.
pub const MAX_FIELD_ERRORS: usize = 100;

/// How much of a caller's own text a message repeats, in characters.
const MAX_SHOWN: usize = 64;

/// One fault: an element of `errors` in a problem answer (`api.md`, *Errors*).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FieldError {
    /// The member's full path, such as `policy.schedule.ladder[2]`; empty for the document itself.
    pub field: String,
    /// A sentence.
    pub message: String,
}

impl std::fmt::Display for FieldError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.field.is_empty() {
            true => out.write_str(&self.message),
            false => write!(out, "{}: {}", self.field, self.message),
        }
    }
}

/// Collects faults while a document is read to its end.
#[derive(Debug, Default)]
pub struct FieldErrors(Vec<FieldError>);

impl FieldErrors {
    /// Notes a fault, unless there are [`MAX_FIELD_ERRORS`] already.
    pub fn push(&mut self, field: impl Into<String>, message: impl Into<String>) {
        if self.0.len() < MAX_FIELD_ERRORS {
            self.0.push(FieldError { field: field.into(), message: message.into() });
        }
    }

    /// What was read if nothing is wrong, else every fault. `None` with no fault noted would be a fault of the reader.
    pub fn finish<T>(self, read: Option<T>) -> Result<T, Vec<FieldError>> {
        match read {
            Some(read) if self.0.is_empty() => Ok(read),
            _ => Err(self.0),
        }
    }
}

/// The beginning of a caller's text, short enough to be repeated in a message.
pub fn shortened(text: &str) -> String {
    match text.char_indices().nth(MAX_SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_faults_is_cut_off() {
        let mut errors = FieldErrors::default();
        (0..1_000).for_each(|number| errors.push(format!("f[{number}]"), "No."));
        assert_eq!(errors.finish(Some(())).unwrap_err().len(), MAX_FIELD_ERRORS);
    }

    #[test]
    fn only_short_texts_are_repeated_whole() {
        assert_eq!(shortened("ä"), "ä");
        assert_eq!(shortened(&"ä".repeat(64)), "ä".repeat(64));
        assert_eq!(shortened(&"ä".repeat(65)), format!("{}…", "ä".repeat(64)));
    }

    #[test]
    fn a_fault_is_shown_with_its_place() {
        let error = |field: &str| FieldError { field: field.into(), message: "No.".into() };
        assert_eq!(error("a.b[1]").to_string(), "a.b[1]: No.");
        assert_eq!(error("").to_string(), "No.");
    }
}
