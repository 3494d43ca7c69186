//! `posthaste verify`: is this request from who it says? Reads headers and body, checks both kinds of signature.

use std::io::Read;
use std::path::PathBuf;

use clap::Args;

use super::{Failure, print_line};
use crate::clock::system_time;
use crate::domain::duration_text::parse_duration;
use crate::domain::secret::SigningSecret;
use crate::domain::signature::{verify_standard, verify_timestamped};
use crate::domain::time::Span;

#[derive(Args)]
pub struct Verify {
    /// The endpoint's secret, whsec_… (repeatable)
    #[arg(long, required = true, env = "POSTHASTE_SECRET", hide_env_values = true)]
    secret: Vec<String>,
    /// A header of the request, "name: value" (repeatable)
    #[arg(long, value_name = "NAME: VALUE")]
    header: Vec<String>,
    /// A file with the request's headers, one per line
    #[arg(long, value_name = "FILE")]
    headers: Option<PathBuf>,
    /// How far the signature's timestamp may be from now
    #[arg(long, default_value = "5m")]
    tolerance: String,
    /// Check as if it were this time (seconds since 1970)
    #[arg(long, value_name = "SECONDS")]
    at: Option<i64>,
}

/// Both kinds of signature of one request.
pub struct Signatures<'a> {
    pub headers: &'a [(String, String)],
    pub body: &'a [u8],
    pub secrets: &'a [&'a SigningSecret],
    pub now: i64,
    pub tolerance: Span,
}

impl Signatures<'_> {
    fn header(&self, matches: impl Fn(&str) -> bool) -> Option<&str> {
        self.headers.iter().find(|(name, _)| matches(&name.to_ascii_lowercase())).map(|(_, value)| value.as_str())
    }

    /// Checks every signature that is there.
    ///
    /// # Errors
    /// A sentence: which signature is wrong and why, or that there is none.
    pub fn check(&self) -> Result<&'static str, String> {
        let standard = self.header(|name| name == "webhook-signature").map(|signature| {
            let id = self.header(|name| name == "webhook-id").unwrap_or_default();
            let timestamp = self.header(|name| name == "webhook-timestamp").unwrap_or_default();
            verify_standard(id, timestamp, signature, self.body, self.secrets, self.now, self.tolerance)
                .map_err(|why| format!("webhook-signature: {why}"))
        });
        let prefixed =
            self.header(|name| name.ends_with("-signature") && name != "webhook-signature").map(|signature| {
                verify_timestamped(signature, self.body, self.secrets, self.now, self.tolerance)
                    .map_err(|why| format!("t=,v1= signature: {why}"))
            });
        match (standard, prefixed) {
            (None, None) => Err("there is no signature among the headers".into()),
            (Some(standard), Some(prefixed)) => standard.and(prefixed).map(|()| "both signatures are valid"),
            (Some(one), None) | (None, Some(one)) => one.map(|()| "the signature is valid"),
        }
    }
}

impl Verify {
    pub fn run(self) -> Result<(), Failure> {
        let parsed: Result<Vec<SigningSecret>, _> = self.secret.iter().map(|text| SigningSecret::parse(text)).collect();
        let parsed = parsed.map_err(|why| format!("--secret: {why}"))?;
        let mut lines = self.header.clone();
        if let Some(path) = &self.headers {
            let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
            lines.extend(text.lines().map(str::to_owned));
        }
        let headers: Vec<(String, String)> = lines
            .iter()
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()))
            .collect();
        let mut body = Vec::new();
        std::io::stdin().lock().read_to_end(&mut body)?;
        let signatures = Signatures {
            headers: &headers,
            body: &body,
            secrets: &parsed.iter().collect::<Vec<_>>(),
            now: self.at.unwrap_or_else(|| system_time().as_secs()),
            tolerance: parse_duration(&self.tolerance).map_err(|why| format!("--tolerance: {why}"))?,
        };
        print_line(signatures.check()?)
    }
}
