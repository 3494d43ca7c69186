//! The signatures of one request, wherever its headers come from: `verify` and `receive`.

use crate::domain::secret::SigningSecret;
use crate::domain::signature::{verify_standard, verify_timestamped};
use crate::domain::time::Span;

const STANDARD: &str = "webhook-signature";

/// A request, and what its signatures are checked with.
pub struct Signatures<'a> {
    /// Names in any case, values as they came.
    pub headers: &'a [(String, String)],
    pub body: &'a [u8],
    pub secrets: &'a [&'a SigningSecret],
    /// Wall clock in seconds since the Unix epoch.
    pub now: i64,
    pub tolerance: Span,
}

impl Signatures<'_> {
    /// Checks every signature of ours that is there; each must be right.
    ///
    /// # Errors
    /// Which signature is wrong and why, or that there is none.
    pub fn check(&self) -> Result<&'static str, String> {
        let standard = self.one(STANDARD)?;
        let timestamped = self.timestamped_names();
        let mut count = 0;
        if let Some(signature) = standard {
            count += 1;
            let id = self.beside("webhook-id")?;
            let timestamp = self.beside("webhook-timestamp")?;
            verify_standard(id, timestamp, signature, self.body, self.secrets, self.now, self.tolerance)
                .map_err(|why| format!("{STANDARD}: {why}"))?;
        }
        for name in &timestamped {
            count += 1;
            let signature = self.one(name)?.unwrap_or_default();
            verify_timestamped(signature, self.body, self.secrets, self.now, self.tolerance)
                .map_err(|why| format!("{name}: {why}"))?;
        }
        match count {
            0 => Err(format!("no signature is among the headers: neither {STANDARD} nor <prefix>-signature")),
            1 => Ok("the signature is valid"),
            _ => Ok("both signatures are valid"),
        }
    }

    /// The value of a header that may come once at most: of two, each side could take another for the one that counts.
    fn one(&self, name: &str) -> Result<Option<&str>, String> {
        let mut values = self.headers.iter().filter(|(other, _)| other.eq_ignore_ascii_case(name));
        let first = values.next().map(|(_, value)| value.as_str());
        match values.next() {
            None => Ok(first),
            Some(_) => Err(format!("the header {name} came more than once")),
        }
    }

    /// A header without which [`STANDARD`] says nothing.
    fn beside(&self, name: &str) -> Result<&str, String> {
        self.one(name)?.ok_or_else(|| format!("{STANDARD}: the header {name} is missing"))
    }

    /// The names of the `<prefix>-signature` headers that are ours, in lower case. A request that was taken in for
    /// somebody else (`/in/{token}`) has that provider's own signature too, which is none of our business: ours is the
    /// one that an event id with the same prefix goes with. Where only signatures are given, their form must tell.
    fn timestamped_names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.headers.iter().map(|(name, _)| name.to_ascii_lowercase()).collect();
        names.sort_unstable();
        names.dedup();
        let is_there = |name: &String| names.binary_search(name).is_ok();
        let candidates: Vec<&String> =
            names.iter().filter(|name| name.ends_with("-signature") && *name != STANDARD).collect();
        let ours = |name: &str| name.strip_suffix("-signature").is_some_and(|it| is_there(&format!("{it}-event-id")));
        let formed = |name: &str| self.one(name).is_ok_and(|value| value.is_some_and(|value| value.starts_with("t=")));
        let chosen = |test: &dyn Fn(&str) -> bool| -> Vec<String> {
            candidates.iter().filter(|name| test(name)).map(|name| name.to_string()).collect()
        };
        for chosen in [chosen(&ours), chosen(&formed)] {
            if !chosen.is_empty() {
                return chosen;
            }
        }
        // Better to say what is wrong with it than that there is none.
        if is_there(&STANDARD.to_owned()) { Vec::new() } else { chosen(&|_| true) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::signature::{sign_standard, sign_timestamped};

    const NOW: i64 = 1_788_445_441;
    const BODY: &[u8] = br#"{"id":"evt_1"}"#;

    fn check(headers: &[(&str, &str)], body: &[u8]) -> Result<&'static str, String> {
        let headers: Vec<_> = headers.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        let secret = SigningSecret::generate([7; 32]);
        let tolerance = Span::from_secs(300);
        Signatures { headers: &headers, body, secrets: &[&secret], now: NOW, tolerance }.check()
    }

    #[test]
    fn s23_both_forms_are_checked_and_nobody_elses() {
        let secret = SigningSecret::generate([7; 32]);
        let time = NOW.to_string();
        let standard = sign_standard("evt_1", NOW, BODY, &[&secret]);
        let timestamped = sign_timestamped(NOW, BODY, &[&secret]);
        let three = [("Webhook-Id", "evt_1"), ("webhook-timestamp", &*time), ("WEBHOOK-SIGNATURE", &*standard)];
        let own = ("X-Salaf-Signature", &*timestamped);
        let stripe = ("Stripe-Signature", "t=1,v1=00");
        let id = ("x-salaf-event-id", "evt_1");
        let right = |headers: &[(&str, &str)], text: &str| assert_eq!(check(headers, BODY), Ok(text), "{headers:?}");
        let wrong = |headers: &[(&str, &str)], text: &str| {
            let why = check(headers, BODY).unwrap_err();
            assert!(why.contains(text), "{why}");
        };
        right(&three, "the signature is valid");
        right(&[own], "the signature is valid");
        right(&[&three[..], &[own]].concat(), "both signatures are valid");
        right(&[&three[..], &[own, id, stripe]].concat(), "both signatures are valid");
        right(&[&three[..], &[("X-Hub-Signature", "sha1=00")]].concat(), "the signature is valid");
        wrong(&[own, stripe], "stripe-signature: ");
        wrong(&[("x-hub-signature", "sha1=00")], "x-hub-signature: the signature header is not of the form");
        wrong(&[], "no signature is among the headers");
        wrong(&[id], "no signature is among the headers");
        wrong(&three[1..], "the header webhook-id is missing");
        wrong(&[three[0], three[2]], "the header webhook-timestamp is missing");
        wrong(&[&three[..], &[("webhook-id", "evt_2")]].concat(), "the header webhook-id came more than once");
        wrong(&[own, own, id], "came more than once");
        wrong(&[three[0], three[1], ("webhook-signature", "v1,AAAA")], "webhook-signature: no signature matches");
        let both = [&three[..], &[own]].concat();
        assert!(check(&both, b"{}").is_err());
        wrong(&[&three[..], &[("x-signature", "t=1,v1=00")]].concat(), "x-signature: the timestamp is");
    }
}
