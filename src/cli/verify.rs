//! `posthaste verify`: is this request from who it says? Reads headers and body, checks both kinds of signature. Exit
//! code 0 if they are valid, 1 if not, 2 if there was nothing to check with.

use std::io::Read;
use std::path::PathBuf;

use clap::Args;

use super::signed::Signatures;
use super::{Failure, print_line, usage};
use crate::clock::system_time;
use crate::domain::duration_text::parse_duration;
use crate::domain::secret::SigningSecret;
use crate::domain::time::Span;

/// The longest body that is read, in bytes: more than any that is sent (1 MiB and the envelope).
const MAX_BODY: u64 = 16 * 1024 * 1024;

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
    #[arg(long, default_value = "5m", value_parser = parse_duration)]
    tolerance: Span,
    /// Check as if it were this time (seconds since 1970)
    #[arg(long, value_name = "SECONDS")]
    at: Option<i64>,
}

impl Verify {
    pub fn run(self) -> Result<(), Failure> {
        let secrets = secrets(&self.secret)?;
        let secrets: Vec<&SigningSecret> = secrets.iter().collect();
        let headers = self.all_headers()?;
        let body = body(std::io::stdin().lock())?;
        let now = self.at.unwrap_or_else(|| system_time().as_secs());
        let check = |body: &[u8]| {
            Signatures { headers: &headers, body, secrets: &secrets, now, tolerance: self.tolerance }.check()
        };
        let why = match check(&body) {
            Ok(verdict) => return print_line(verdict),
            Err(why) => why,
        };
        // Editors and `echo` put a line end where the request had none.
        let trimmed = body.strip_suffix(b"\n").map(|body| body.strip_suffix(b"\r").unwrap_or(body));
        match trimmed.is_some_and(|trimmed| check(trimmed).is_ok()) {
            true => Err(format!("{why} (without the line end that standard input ends with it would be valid)").into()),
            false => Err(why.into()),
        }
    }

    fn all_headers(&self) -> Result<Vec<(String, String)>, Failure> {
        let mut lines = self.header.clone();
        if let Some(path) = &self.headers {
            let text = std::fs::read_to_string(path);
            let text = text.map_err(|error| usage(format!("--headers: {}: {error}", path.display())))?;
            lines.extend(text.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned));
        }
        lines.iter().map(|line| header(line)).collect()
    }
}

/// A header line. One that is none would otherwise be missed without a word.
fn header(line: &str) -> Result<(String, String), Failure> {
    match line.split_once(':') {
        Some((name, value)) if !name.trim().is_empty() => Ok((name.trim().to_owned(), value.trim().to_owned())),
        _ => Err(usage(format!("a header is written as `name: value`, not `{line}`"))),
    }
}

fn body(from: impl Read) -> Result<Vec<u8>, Failure> {
    let mut body = Vec::new();
    let read = from.take(MAX_BODY + 1).read_to_end(&mut body);
    read.map_err(|error| usage(format!("the body could not be read from standard input: {error}")))?;
    match body.len() as u64 > MAX_BODY {
        true => Err(usage(format!("the body on standard input is longer than {MAX_BODY} bytes"))),
        false => Ok(body),
    }
}

/// The secrets given; what is wrong with one is said without repeating it, which clap would.
pub fn secrets(texts: &[String]) -> Result<Vec<SigningSecret>, Failure> {
    let parsed: Result<_, _> = texts.iter().map(|text| SigningSecret::parse(text)).collect();
    parsed.map_err(|why| usage(format!("--secret: {why}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_lines_have_a_name() {
        assert_eq!(header(" Webhook-Id : evt_1 ").unwrap(), ("Webhook-Id".into(), "evt_1".into()));
        assert_eq!(header("a:").unwrap(), ("a".into(), String::new()));
        for bad in ["", "POST /hooks HTTP/1.1", ": value"] {
            assert!(header(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_body_has_a_limit() {
        assert_eq!(body(std::io::repeat(0).take(MAX_BODY)).unwrap().len() as u64, MAX_BODY);
        assert!(body(std::io::repeat(0)).is_err());
    }
}
