//! What the names of the engine's own headers begin with.

use std::fmt;
use std::sync::Arc;

/// The longest prefix, in characters.
pub const MAX_PREFIX_CHARS: usize = 32;

/// The prefix of the engine's headers, such as `Posthaste` in `Posthaste-Event-Id`: `[A-Za-z][A-Za-z0-9-]{0,31}`, not
/// ending in `-`, and not `webhook`, which would give `webhook-signature` a second meaning.
#[derive(Clone, PartialEq, Eq)]
pub struct HeaderPrefix(Arc<str>);

impl HeaderPrefix {
    /// The error is a sentence.
    pub fn parse(text: &str) -> Result<HeaderPrefix, String> {
        let legal = text.starts_with(|first: char| first.is_ascii_alphabetic())
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
            && !text.ends_with('-');
        if !legal || text.len() > MAX_PREFIX_CHARS {
            return Err(format!(
                "A header prefix is 1 to {MAX_PREFIX_CHARS} letters, digits and hyphens, beginning with a letter \
                 and not ending with a hyphen."
            ));
        }
        if text.eq_ignore_ascii_case("webhook") {
            return Err("The header prefix 'webhook' belongs to the Standard Webhooks headers.".into());
        }
        Ok(HeaderPrefix(text.into()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name `<Prefix>-<rest>`, for example with `Signature`.
    pub fn header(&self, rest: &str) -> String {
        format!("{}-{rest}", self.0)
    }

    /// Whether a name in lower case begins with the prefix and a hyphen.
    pub(super) fn covers(&self, name: &str) -> bool {
        let start = name.get(..self.0.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(&self.0)) && name[self.0.len()..].starts_with('-')
    }
}

/// The installation's, unless it is told otherwise.
impl Default for HeaderPrefix {
    fn default() -> Self {
        HeaderPrefix("Posthaste".into())
    }
}

impl fmt::Display for HeaderPrefix {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(&self.0)
    }
}

impl fmt::Debug for HeaderPrefix {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, out)
    }
}

impl serde::Serialize for HeaderPrefix {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_digits_and_inner_hyphens() {
        let longest = "a".repeat(MAX_PREFIX_CHARS);
        for good in ["Posthaste", "X-Salaf", "ShellOrbit", "a", "A1", "a--b", "Webhooks", &longest] {
            assert_eq!(HeaderPrefix::parse(good).unwrap().header("Signature"), format!("{good}-Signature"));
        }
        let too_long = "a".repeat(MAX_PREFIX_CHARS + 1);
        for bad in ["", "-a", "a-", "1a", "a_b", "a b", "a\r\nb", "é", "a.b", "Webhook", "WEBHOOK", &too_long] {
            assert!(HeaderPrefix::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn covers_whole_parts_in_any_case() {
        let prefix = HeaderPrefix::parse("X-Salaf").unwrap();
        assert!(prefix.covers("x-salaf-event-id") && prefix.covers("x-salaf-"));
        for other in ["x-salaf", "x-salafi-a", "x-sala", "", "é-é-é-é-é"] {
            assert!(!prefix.covers(other), "{other}");
        }
    }
}
