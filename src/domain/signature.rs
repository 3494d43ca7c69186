//! Signatures in both forms that go out with every attempt, and their verification (for `posthaste verify`, `posthaste
//! receive` and inbound sources).
//!
//! | form | header | signed text | key |
//! |---|---|---|---|
//! | Standard Webhooks | `webhook-signature: v1,<base64> v1,<base64>` | `id.timestamp.body` | the secret's decoded bytes |
//! | timestamped | `<Prefix>-Signature: t=<timestamp>,v1=<hex>,v1=<hex>` | `timestamp.body` | the secret's whole text, `whsec_…` |
//!
//! Both are HMAC-SHA256 over the body's exact bytes, at the wall-clock second of sending (S23), once for each secret
//! that is valid, newest first.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use subtle::{Choice, ConstantTimeEq};

use super::secret::SigningSecret;
use super::time::Span;

/// How far a timestamp may lie from the verifier's clock, either way, unless it says otherwise (Standard Webhooks).
pub const DEFAULT_TOLERANCE: Span = Span::from_secs(300);

/// The most signatures of any version that a verifier looks at; a header with more is refused unread, so that nobody
/// can make it compare for ever (C39). A sender has at most [`super::secret::MAX_VALID`].
pub const MAX_SIGNATURES: usize = 20;

/// The value of `webhook-signature`. `timestamp` is in seconds since the Unix epoch, the same as in
/// `webhook-timestamp`.
pub fn sign_standard(id: &str, timestamp: i64, body: &[u8], secrets: &[&SigningSecret]) -> String {
    let timestamp = timestamp.to_string();
    let signatures: Vec<_> =
        (secrets.iter()).map(|secret| format!("v1,{}", standard_mac(secret, id, &timestamp, body))).collect();
    signatures.join(" ")
}

/// The value of `<Prefix>-Signature`.
pub fn sign_timestamped(timestamp: i64, body: &[u8], secrets: &[&SigningSecret]) -> String {
    let timestamp = timestamp.to_string();
    let mut value = format!("t={timestamp}");
    for secret in secrets {
        value.push_str(",v1=");
        value.push_str(&timestamped_mac(secret, &timestamp, body));
    }
    value
}

/// Why a signature is not accepted. Nothing in it helps to forge one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    /// A dot would let the end of the id pass for a timestamp (C40).
    #[error("the id is empty or holds something other than visible ASCII without dots")]
    Id,
    #[error("the timestamp is not a number of seconds since 1970")]
    Timestamp,
    #[error("the timestamp is {by} s old, more than the tolerance of {tolerance} s")]
    TooOld { by: u64, tolerance: u64 },
    #[error("the timestamp is {by} s in the future, more than the tolerance of {tolerance} s")]
    TooNew { by: u64, tolerance: u64 },
    #[error("the signature header is not of the form {0}")]
    Malformed(&'static str),
    #[error("the header holds no v1 signature")]
    NoSignature,
    #[error("the header holds more than {MAX_SIGNATURES} signatures")]
    TooManySignatures,
    #[error("no signature matches: another secret, another body, or another timestamp than was signed")]
    Mismatch,
}

/// Verifies a Standard Webhooks signature from the values of `webhook-id`, `webhook-timestamp` and `webhook-signature`
/// and the body's exact bytes. `now_secs` is the wall clock in seconds since the Unix epoch. One match of any `v1`
/// signature with any secret is enough; other versions are passed over.
pub fn verify_standard(
    id: &str,
    timestamp: &str,
    signature: &str,
    body: &[u8],
    secrets: &[&SigningSecret],
    now_secs: i64,
    tolerance: Span,
) -> Result<(), VerifyError> {
    if id.is_empty() || !id.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'.') {
        return Err(VerifyError::Id);
    }
    check_time(timestamp, now_secs, tolerance)?;
    let tokens = signature.split(' ').filter(|token| !token.is_empty());
    let offered = limited(tokens, MAX_SIGNATURES)?.into_iter().filter_map(|token| token.strip_prefix("v1,")).collect();
    let expected = secrets.iter().map(|secret| standard_mac(secret, id, timestamp, body));
    any_matches(offered, expected.collect())
}

/// Verifies a timestamped signature from the value of `<Prefix>-Signature` and the body's exact bytes; otherwise as
/// [`verify_standard`].
pub fn verify_timestamped(
    signature: &str,
    body: &[u8],
    secrets: &[&SigningSecret],
    now_secs: i64,
    tolerance: Span,
) -> Result<(), VerifyError> {
    const FORM: VerifyError = VerifyError::Malformed("t=<seconds>,v1=<hex>[,v1=<hex>]");
    let mut timestamp = None;
    let mut offered = Vec::new();
    for part in limited(signature.split(','), MAX_SIGNATURES + 1)? {
        match part.split_once('=').ok_or(FORM)? {
            ("t", value) if timestamp.is_none() => timestamp = Some(value),
            ("t", _) => return Err(FORM),
            ("v1", value) => offered.push(value),
            _ => {}
        }
    }
    let timestamp = timestamp.ok_or(FORM)?;
    check_time(timestamp, now_secs, tolerance)?;
    let expected = secrets.iter().map(|secret| timestamped_mac(secret, timestamp, body));
    any_matches(offered, expected.collect())
}

/// The parts of a header, unless there are more than `most`.
fn limited<'a>(parts: impl Iterator<Item = &'a str>, most: usize) -> Result<Vec<&'a str>, VerifyError> {
    let parts: Vec<_> = parts.take(most + 1).collect();
    match parts.len() > most {
        true => Err(VerifyError::TooManySignatures),
        false => Ok(parts),
    }
}

/// Digits only, and within the tolerance. The text itself is what was signed, so it is not normalised.
fn check_time(text: &str, now_secs: i64, tolerance: Span) -> Result<(), VerifyError> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(VerifyError::Timestamp);
    }
    let timestamp: i64 = text.parse().map_err(|_| VerifyError::Timestamp)?;
    let by = timestamp.abs_diff(now_secs);
    let tolerance = tolerance.as_micros() as u64 / 1_000_000;
    match by <= tolerance {
        true => Ok(()),
        false if timestamp < now_secs => Err(VerifyError::TooOld { by, tolerance }),
        false => Err(VerifyError::TooNew { by, tolerance }),
    }
}

/// Compares every signature offered with every one expected, whole and in constant time, and does not stop at a match.
fn any_matches(offered: Vec<&str>, expected: Vec<String>) -> Result<(), VerifyError> {
    if offered.is_empty() {
        return Err(VerifyError::NoSignature);
    }
    let mut found = Choice::from(0);
    for offered in &offered {
        for expected in &expected {
            // Of unequal length is unequal: a prefix, or nothing, matches nothing (C39).
            found |= offered.as_bytes().ct_eq(expected.as_bytes());
        }
    }
    match bool::from(found) {
        true => Ok(()),
        false => Err(VerifyError::Mismatch),
    }
}

fn standard_mac(secret: &SigningSecret, id: &str, timestamp: &str, body: &[u8]) -> String {
    let parts = [id.as_bytes(), b".", timestamp.as_bytes(), b".", body];
    STANDARD.encode(hmac_sha256(secret.key_bytes(), &parts))
}

fn timestamped_mac(secret: &SigningSecret, timestamp: &str, body: &[u8]) -> String {
    let mac = hmac_sha256(secret.as_str().as_bytes(), &[timestamp.as_bytes(), b".", body]);
    let mut hex = String::with_capacity(64);
    for byte in mac {
        write!(hex, "{byte:02x}").expect("a String takes everything");
    }
    hex
}

fn hmac_sha256(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes a key of any length");
    for part in parts {
        mac.update(part);
    }
    mac.finalize().into_bytes().into()
}

#[cfg(test)]
mod tests;
