//! Encryption of what must be readable again but not by whoever reads the database: signing secrets and custom header
//! values. ChaCha20-Poly1305 with a random nonce in front; bound to the row it belongs to.

use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{ChaCha20Poly1305, Key, Nonce};

/// Holds the installation's key.
#[derive(Clone)]
pub struct Vault(ChaCha20Poly1305);

const NONCE_BYTES: usize = 12;

/// What a [check](Vault::check) belongs to.
const CHECK: &str = "meta";

/// The ciphertext was made with another key, for another row, or was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot be decrypted with this key")]
pub struct WrongKey;

impl Vault {
    pub fn new(key: [u8; 32]) -> Vault {
        Vault(ChaCha20Poly1305::new(&Key::from(key)))
    }

    /// Something to keep with the database that tells this key from others.
    pub fn check(&self, random: u128) -> Vec<u8> {
        self.seal(CHECK, "", random)
    }

    /// Whether a [check](Self::check) was made with this key.
    pub fn has_made(&self, check: &[u8]) -> bool {
        self.open(CHECK, check).is_ok()
    }

    /// Encrypts `text` for the row `owner`. `random` must never repeat for one key.
    pub fn seal(&self, owner: &str, text: &str, random: u128) -> Vec<u8> {
        let mut nonce = [0; NONCE_BYTES];
        nonce.copy_from_slice(&random.to_le_bytes()[..NONCE_BYTES]);
        let payload = Payload { msg: text.as_bytes(), aad: owner.as_bytes() };
        let sealed = self.0.encrypt(&Nonce::from(nonce), payload).expect("only texts over 256 GiB cannot be encrypted");
        [&nonce[..], &sealed].concat()
    }

    /// Decrypts what [`seal`](Self::seal) made for the same owner.
    pub fn open(&self, owner: &str, sealed: &[u8]) -> Result<String, WrongKey> {
        let (nonce, text) = sealed.split_first_chunk::<NONCE_BYTES>().ok_or(WrongKey)?;
        let payload = Payload { msg: text, aad: owner.as_bytes() };
        let text = self.0.decrypt(&Nonce::from(*nonce), payload).map_err(|_| WrongKey)?;
        String::from_utf8(text).map_err(|_| WrongKey)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_its_key_from_another() {
        let check = Vault::new([7; 32]).check(42);
        assert!(Vault::new([7; 32]).has_made(&check));
        assert!(!Vault::new([8; 32]).has_made(&check));
        assert!(!Vault::new([7; 32]).has_made(&[]));
    }

    #[test]
    fn opens_only_what_it_sealed_for_the_same_row() {
        let vault = Vault::new([7; 32]);
        let sealed = vault.seal("ep_1", "whsec_x", 42);
        assert!(!sealed.windows(7).any(|window| window == b"whsec_x"));
        assert_eq!(vault.open("ep_1", &sealed).as_deref(), Ok("whsec_x"));
        assert_eq!(vault.open("ep_2", &sealed), Err(WrongKey));
        assert_eq!(Vault::new([8; 32]).open("ep_1", &sealed), Err(WrongKey));
        assert_eq!(vault.open("ep_1", &sealed[..5]), Err(WrongKey));
        let mut changed = sealed.clone();
        changed[15] ^= 1;
        assert_eq!(vault.open("ep_1", &changed), Err(WrongKey));
    }
}
