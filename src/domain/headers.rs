//! The headers an endpoint's owner may add to its requests, and the prefix of ours.
//!
//! Values may be credentials: they are shown nowhere ([`MASK`], C90), `Debug` prints names only, and the values in
//! clear leave through [`CustomHeaders::iter`] (for the wire) and [`CustomHeaders::to_stored`] (for the store) alone
//! (C89).

use std::fmt;

use super::excerpt::is_token_byte;

mod prefix;
pub use prefix::HeaderPrefix;

/// What every answer shows for every value, whatever it is. Saved back, it is refused (C86).
pub const MASK: &str = "****";

/// The most custom headers of an endpoint.
pub const MAX_HEADERS: usize = 50;

/// The longest name, in bytes.
pub const MAX_NAME_BYTES: usize = 128;

/// The longest value, in bytes.
pub const MAX_VALUE_BYTES: usize = 4_096;

/// The most that all names and values may have together, in bytes.
pub const MAX_TOTAL_BYTES: usize = 16 * 1_024;

/// Names that are the engine's or the connection's (C21, C88); lower case, sorted. Besides these, everything that
/// begins with one of [`RESERVED_STARTS`] or with the endpoint's own prefix. `content-encoding` is here because the
/// body's bytes are not the owner's to describe.
const RESERVED: [&str; 13] = [
    "accept-encoding",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "expect",
    "host",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
];

const RESERVED_STARTS: [&str; 2] = ["webhook-", "proxy-"];

/// Which header is wrong, and why; never shows a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderError {
    /// The name as given; empty where the fault is that of all headers together. Cut to [`MAX_NAME_BYTES`] characters.
    pub name: String,
    /// A sentence.
    pub message: String,
}

impl fmt::Display for HeaderError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.message)
    }
}

impl std::error::Error for HeaderError {}

/// A name that an owner may use: a token (RFC 9110 §5.6.2) that is not reserved. The error is a sentence.
pub fn validate_name(name: &str, prefix: &HeaderPrefix) -> Result<(), String> {
    check_name(name)?;
    match is_reserved(name, prefix) {
        true => {
            Err("This header is set by Posthaste or belongs to the connection; it cannot be a custom header.".into())
        }
        false => Ok(()),
    }
}

/// Whether a name, in any case, is not the owner's to set.
pub fn is_reserved(name: &str, prefix: &HeaderPrefix) -> bool {
    let name = name.to_ascii_lowercase();
    RESERVED.binary_search(&name.as_str()).is_ok()
        || RESERVED_STARTS.iter().any(|start| name.starts_with(start))
        || prefix.covers(&name)
}

/// A value that can be sent as it is (RFC 9110 §5.5, without obs-text): visible ASCII, with spaces and tabs inside
/// only. Empty is refused, as a form that shows masks sends it by mistake (C86); so is the mask. The error is a
/// sentence.
pub fn validate_value(value: &str) -> Result<(), String> {
    match value {
        MASK => Err(format!("'{MASK}' is what is shown instead of a value; leave the header out to keep its value.")),
        "" => Err("A header value must not be empty; give null to delete the header.".into()),
        value => check_value(value),
    }
}

fn check_name(name: &str) -> Result<(), String> {
    if name.is_empty() {
        return Err("A header name must not be empty.".into());
    }
    if name.len() > MAX_NAME_BYTES {
        return Err(format!("A header name is at most {MAX_NAME_BYTES} characters long."));
    }
    match name.bytes().all(is_token_byte) {
        true => Ok(()),
        false => Err("A header name is made of letters, digits and !#$%&'*+-.^_`|~ only.".into()),
    }
}

fn check_value(value: &str) -> Result<(), String> {
    if value.len() > MAX_VALUE_BYTES {
        return Err(format!("A header value is at most {MAX_VALUE_BYTES} bytes long."));
    }
    if !value.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\t')) {
        return Err("A header value is made of visible ASCII characters, spaces and tabs only.".into());
    }
    match value.trim_matches([' ', '\t']) == value {
        true => Ok(()),
        false => Err("A header value must not begin or end with a space or tab.".into()),
    }
}

/// An endpoint's custom headers, in the owner's order and spelling; no name twice in whatever case.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct CustomHeaders(Vec<(String, String)>);

impl CustomHeaders {
    /// The headers of a new endpoint.
    pub fn new<N, V>(headers: impl IntoIterator<Item = (N, V)>, prefix: &HeaderPrefix) -> Result<Self, HeaderError>
    where
        N: AsRef<str>,
        V: Into<String>,
    {
        CustomHeaders::default().merge(headers.into_iter().map(|(name, value)| (name, Some(value))), prefix)
    }

    /// Changes headers by name: `Some` sets one (in its old place if it was there, and in the new spelling), `None`
    /// deletes it, those not named stay. Then checks all that there are against `prefix`, which may have been changed
    /// by the same request, and the limits. With an error nothing is changed.
    pub fn merge<N, V>(
        &self,
        patch: impl IntoIterator<Item = (N, Option<V>)>,
        prefix: &HeaderPrefix,
    ) -> Result<CustomHeaders, HeaderError>
    where
        N: AsRef<str>,
        V: Into<String>,
    {
        let mut merged = self.clone();
        let mut seen = std::collections::HashSet::new();
        for (name, value) in patch {
            let name = name.as_ref();
            let value = value.map(Into::into);
            let blame = |message| HeaderError { name: name.chars().take(MAX_NAME_BYTES).collect(), message };
            // A header that became reserved can still be deleted.
            check_name(name).map_err(blame)?;
            if !seen.insert(name.to_ascii_lowercase()) {
                return Err(blame("The header is named twice (case does not matter).".into()));
            }
            let place = merged.0.iter().position(|(other, _)| other.eq_ignore_ascii_case(name));
            match (value, place) {
                (Some(value), place) => {
                    validate_value(&value).map_err(blame)?;
                    match place {
                        Some(at) => merged.0[at] = (name.into(), value),
                        None => merged.0.push((name.into(), value)),
                    }
                }
                (None, Some(at)) => drop(merged.0.remove(at)),
                (None, None) => {}
            }
            // While they come in, so that a patch of millions is not gathered first.
            if seen.len() > 2 * MAX_HEADERS {
                return Err(too_many());
            }
        }
        merged.check(prefix)?;
        Ok(merged)
    }

    /// Checks the names against a prefix, and the limits.
    pub fn check(&self, prefix: &HeaderPrefix) -> Result<(), HeaderError> {
        if self.0.len() > MAX_HEADERS {
            return Err(too_many());
        }
        let total: usize = self.0.iter().map(|(name, value)| name.len() + value.len()).sum();
        if total > MAX_TOTAL_BYTES {
            return Err(HeaderError {
                name: String::new(),
                message: format!("All custom headers together are at most {MAX_TOTAL_BYTES} bytes long."),
            });
        }
        for (name, _) in &self.0 {
            validate_name(name, prefix).map_err(|message| HeaderError { name: name.clone(), message })?;
        }
        Ok(())
    }

    /// Names and values **in clear**, in order: for the wire.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Names, each with the mask: for answers and pages.
    pub fn masked(&self) -> impl Iterator<Item = (&str, &'static str)> {
        self.0.iter().map(|(name, _)| (name.as_str(), MASK))
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// JSON text **with the values in clear**, a list of `[name, value]`: for the store.
    pub fn to_stored(&self) -> String {
        serde_json::to_string(&self.0).expect("texts are JSON")
    }

    /// Reads what [`CustomHeaders::to_stored`] wrote. A row that came from elsewhere may hold anything: what could not
    /// be sent is refused here, so that it fails this endpoint only (C87). The error shows nothing of the text.
    pub fn from_stored(text: &str) -> Result<CustomHeaders, String> {
        let pairs: Vec<(String, String)> = serde_json::from_str(text)
            .map_err(|error| format!("The stored headers are unreadable ({:?}).", error.classify()))?;
        let mut seen = std::collections::HashSet::new();
        for (name, value) in &pairs {
            check_name(name).and_then(|()| check_value(value))?;
            if !seen.insert(name.to_ascii_lowercase()) {
                return Err("The stored headers hold a name twice.".into());
            }
        }
        Ok(CustomHeaders(pairs))
    }
}

fn too_many() -> HeaderError {
    HeaderError { name: String::new(), message: format!("An endpoint has at most {MAX_HEADERS} custom headers.") }
}

/// Names only.
impl fmt::Debug for CustomHeaders {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_map().entries(self.masked()).finish()
    }
}

#[cfg(test)]
mod tests;
