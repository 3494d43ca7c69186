//! Signing secrets: their one spelling, and the set of those that an endpoint's attempts are signed with (S23).
//!
//! Nothing here prints a secret: `Debug` and `Display` show [`HIDDEN`], and there is no `Serialize`. Whoever wants the
//! text calls [`SigningSecret::as_str`] or [`SecretSet::to_stored`] by name (C89).

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;

use super::time::{Span, Timestamp};

/// How every secret's text begins (Standard Webhooks).
pub const PREFIX: &str = "whsec_";

/// The shortest and the longest key, in bytes before base64 (Standard Webhooks: 192 to 512 bits).
pub const KEY_BYTES: std::ops::RangeInclusive<usize> = 24..=64;

/// The most secrets that may be valid, and so sign, at the same time (S23).
pub const MAX_VALID: usize = 5;

/// The longest overlap of old and new when a secret is rotated (`api.md`). The caller checks it.
pub const MAX_OVERLAP: Span = Span::from_secs(7 * 86_400);

/// What is shown instead of a secret.
pub const HIDDEN: &str = "whsec_…";

/// One secret: `whsec_` and the standard base64, with padding, of 24 to 64 bytes.
#[derive(Clone)]
pub struct SigningSecret {
    text: Arc<str>,
    key: Arc<[u8]>,
}

/// Why a text is no secret. None of the sentences repeats any of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    #[error("A secret begins with 'whsec_'.")]
    Prefix,
    #[error(
        "After 'whsec_' a secret is standard base64 (A-Z, a-z, 0-9, '+', '/') with its '=' padding, \
         and nothing before or after it."
    )]
    Base64,
    #[error("A secret holds 24 to 64 bytes before base64.")]
    Length,
}

impl SigningSecret {
    /// Reads a secret. There is one spelling for each key (C37): the URL-safe alphabet, missing padding, white space or
    /// a version before the prefix are refused, because two sides that repair them differently no longer agree on the
    /// key.
    pub fn parse(text: &str) -> Result<SigningSecret, SecretError> {
        let encoded = text.strip_prefix(PREFIX).ok_or(SecretError::Prefix)?;
        // Nothing longer can be right, so nothing longer is decoded.
        if encoded.len() > KEY_BYTES.end().div_ceil(3) * 4 {
            return Err(SecretError::Length);
        }
        let key = STANDARD.decode(encoded).map_err(|_| SecretError::Base64)?;
        if !KEY_BYTES.contains(&key.len()) {
            return Err(SecretError::Length);
        }
        Ok(SigningSecret { text: text.into(), key: key.into() })
    }

    /// A new secret from 32 random bytes.
    pub fn generate(random: [u8; 32]) -> SigningSecret {
        let text = format!("{PREFIX}{}", STANDARD.encode(random));
        SigningSecret { text: text.into(), key: random.into() }
    }

    /// The decoded bytes: the key of Standard Webhooks signatures.
    pub fn key_bytes(&self) -> &[u8] {
        &self.key
    }

    /// The secret in clear, as the receiver has it: the key of `<Prefix>-Signature`.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

/// In constant time.
impl PartialEq for SigningSecret {
    fn eq(&self, other: &SigningSecret) -> bool {
        self.key.ct_eq(&other.key).into()
    }
}

impl Eq for SigningSecret {}

impl fmt::Debug for SigningSecret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(HIDDEN)
    }
}

impl fmt::Display for SigningSecret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(HIDDEN)
    }
}

/// An endpoint's secrets: the current one, and earlier ones that go on signing until their overlap ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretSet {
    current: SigningSecret,
    /// Newest first; each is valid before its instant and no longer at it.
    retiring: Vec<(SigningSecret, Timestamp)>,
}

/// A rotation that would leave more than [`MAX_VALID`] secrets valid at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("At most 5 secrets can be valid at the same time; wait until an overlap ends, or rotate without overlap.")]
pub struct TooMany;

impl SecretSet {
    /// A set of one.
    pub fn new(current: SigningSecret) -> SecretSet {
        SecretSet { current, retiring: Vec::new() }
    }

    /// The secret that does not retire.
    pub fn current(&self) -> &SigningSecret {
        &self.current
    }

    /// The secrets to sign with at this instant of engine time (S25), newest first; never empty.
    pub fn valid_at(&self, now: Timestamp) -> Vec<&SigningSecret> {
        let retiring = (self.retiring.iter()).filter_map(|(secret, until)| (now < *until).then_some(secret));
        std::iter::once(&self.current).chain(retiring).collect()
    }

    /// When the overlap of the last secret that is retiring ends; `None` if only the current one is valid.
    pub fn overlap_ends_at(&self, now: Timestamp) -> Option<Timestamp> {
        self.retiring.iter().map(|(_, until)| *until).filter(|until| now < *until).max()
    }

    /// Makes `new` the current secret; the one before goes on signing for `overlap`, with zero not at all. Those whose
    /// time is up are forgotten. A set holds no secret twice: one that returns while it is retiring is current again,
    /// and rotating to the current one changes nothing. A sixth valid secret is refused (S23).
    pub fn rotate(&self, new: SigningSecret, overlap: Span, now: Timestamp) -> Result<SecretSet, TooMany> {
        let mut retiring = self.retiring.clone();
        if new != self.current {
            retiring.insert(0, (self.current.clone(), now + overlap));
        }
        retiring.retain(|(secret, until)| now < *until && *secret != new);
        if retiring.len() + 1 > MAX_VALID {
            return Err(TooMany);
        }
        Ok(SecretSet { current: new, retiring })
    }

    /// JSON text **with the secrets in clear**, for the encrypted column and for nothing else.
    pub fn to_stored(&self) -> String {
        let stored = StoredSet {
            current: self.current.as_str().into(),
            retiring: (self.retiring.iter())
                .map(|(secret, until)| StoredRetiring { secret: secret.as_str().into(), until: until.as_micros() })
                .collect(),
        };
        serde_json::to_string(&stored).expect("texts and numbers are JSON")
    }

    /// Reads what [`SecretSet::to_stored`] wrote. The error names a rule and shows nothing of the text.
    pub fn from_stored(text: &str) -> Result<SecretSet, String> {
        let stored: StoredSet = serde_json::from_str(text)
            .map_err(|error| format!("The stored secrets are unreadable ({:?}).", error.classify()))?;
        let read = |text: &str| SigningSecret::parse(text).map_err(|error| error.to_string());
        Ok(SecretSet {
            current: read(&stored.current)?,
            retiring: (stored.retiring.iter())
                .map(|one| Ok((read(&one.secret)?, Timestamp::from_micros(one.until))))
                .collect::<Result<_, String>>()?,
        })
    }
}

#[derive(Serialize, Deserialize)]
struct StoredSet {
    current: String,
    #[serde(default)]
    retiring: Vec<StoredRetiring>,
}

#[derive(Serialize, Deserialize)]
struct StoredRetiring {
    secret: String,
    /// Microseconds of engine time.
    until: i64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn numbered(number: u8) -> SigningSecret {
        SigningSecret::generate([number; 32])
    }

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_micros(secs * 1_000_000)
    }

    fn of_length(bytes: usize) -> String {
        format!("{PREFIX}{}", STANDARD.encode(vec![7; bytes]))
    }

    /// C37.
    #[test]
    fn there_is_one_spelling() {
        let check =
            |text: &str, error: Option<SecretError>| assert_eq!(SigningSecret::parse(text).err(), error, "{text:?}");
        check("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", None);
        check(&of_length(24), None);
        check(&of_length(32), None);
        check(&of_length(64), None);
        check(&of_length(23), Some(SecretError::Length));
        check(&of_length(8), Some(SecretError::Length));
        check(&of_length(65), Some(SecretError::Length));
        check(&of_length(100_000), Some(SecretError::Length));
        check("whsec_", Some(SecretError::Length));
        check("", Some(SecretError::Prefix));
        check("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", Some(SecretError::Prefix));
        check("v1,whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", Some(SecretError::Prefix));
        check(" whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", Some(SecretError::Prefix));
        check("WHSEC_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", Some(SecretError::Prefix));
        check("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n", Some(SecretError::Base64));
        check(of_length(32).trim_end_matches('='), Some(SecretError::Base64));
        check(&(of_length(24) + "="), Some(SecretError::Base64));
        check("whsec_-_KQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", Some(SecretError::Base64));
        check("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSé", Some(SecretError::Base64));
        // The same key with other unused bits.
        check(&of_length(32).replace("c=", "d="), Some(SecretError::Base64));
    }

    /// C89.
    #[test]
    fn nothing_prints_a_secret() {
        let secret = numbered(9);
        let set = SecretSet::new(secret.clone()).rotate(numbered(8), Span::DAY, at(0)).unwrap();
        let shown = format!("{secret} {secret:?} {set:?}");
        assert!(!shown.contains(&secret.as_str()[10..30]) && shown.contains(HIDDEN), "{shown}");
        let unreadable = SecretSet::from_stored(&set.to_stored().replace("until", "unti")).unwrap_err();
        assert!(!unreadable.contains(&secret.as_str()[10..30]), "{unreadable}");
    }

    #[test]
    fn s23_old_and_new_sign_until_the_overlap_ends() {
        let set = SecretSet::new(numbered(1));
        let set = set.rotate(numbered(2), Span::from_secs(100), at(10)).unwrap();
        let set = set.rotate(numbered(3), Span::from_secs(50), at(20)).unwrap();
        let check = |now: i64, valid: &[u8]| {
            let valid: Vec<_> = valid.iter().map(|number| numbered(*number)).collect();
            assert_eq!(set.valid_at(at(now)), valid.iter().collect::<Vec<_>>(), "{now}");
        };
        check(20, &[3, 2, 1]);
        check(69, &[3, 2, 1]);
        check(70, &[3, 1]);
        check(110, &[3]);
        assert_eq!(set.overlap_ends_at(at(20)), Some(at(110)));
        assert_eq!(set.overlap_ends_at(at(110)), None);

        let set = set.rotate(numbered(4), Span::ZERO, at(20)).unwrap();
        assert_eq!(
            set.valid_at(at(20)),
            [&numbered(4), &numbered(2), &numbered(1)].map(|one| one.clone()).iter().collect::<Vec<_>>()
        );
    }

    #[test]
    fn s23_a_sixth_valid_secret_is_refused() {
        let mut set = SecretSet::new(numbered(1));
        for number in 2..=5 {
            set = set.rotate(numbered(number), Span::HOUR, at(number.into())).unwrap();
        }
        assert_eq!(set.rotate(numbered(6), Span::HOUR, at(10)), Err(TooMany));
        assert_eq!(set.rotate(numbered(6), Span::ZERO, at(10)).unwrap().valid_at(at(10)).len(), 5);
        // The first overlap has ended: there is room again.
        assert_eq!(set.rotate(numbered(6), Span::HOUR, at(3_602)).unwrap().valid_at(at(3_602)).len(), 5);
    }

    #[test]
    fn s23_no_secret_signs_twice() {
        let set = SecretSet::new(numbered(1)).rotate(numbered(2), Span::HOUR, at(0)).unwrap();
        assert_eq!(set.rotate(numbered(2), Span::HOUR, at(1)).unwrap(), set);
        let back = set.rotate(numbered(1), Span::HOUR, at(1)).unwrap();
        assert_eq!(back.valid_at(at(2)).len(), 2);
        assert_eq!(*back.current(), numbered(1));
    }

    proptest! {
        #[test]
        fn generated_secrets_read_back(random: [u8; 32]) {
            let secret = SigningSecret::generate(random);
            let again = SigningSecret::parse(secret.as_str()).unwrap();
            prop_assert_eq!(again.key_bytes(), random);
            prop_assert_eq!(again, secret);
        }

        #[test]
        fn sets_survive_the_store(untils in proptest::collection::vec(any::<i64>(), 0..6)) {
            let retiring = untils.iter().enumerate();
            let set = SecretSet {
                current: numbered(200),
                retiring: retiring.map(|(index, until)| (numbered(index as u8), Timestamp::from_micros(*until))).collect(),
            };
            prop_assert_eq!(SecretSet::from_stored(&set.to_stored()), Ok(set));
        }

        #[test]
        fn no_text_panics(text in "(whsec_)?[A-Za-z0-9+/=é \n]{0,100}") {
            let _ = SigningSecret::parse(&text);
            let _ = SecretSet::from_stored(&text);
        }
    }
}
