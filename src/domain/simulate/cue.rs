//! What a scripted receiver does, in words: `503`, `429;retry-after=60`, `timeout`.

use super::super::attempt::{Answer, ErrorKind, Finding, Report, Timing};
use super::super::time::Span;

/// What the scripted receiver does with one attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cue {
    /// A final status from 200 to 599, with the value of `Retry-After` as it is sent.
    Answer { status: u16, retry_after: Option<String> },
    /// No answer, for this reason.
    Fail(ErrorKind),
}

impl Cue {
    /// `503`, `429;retry-after=60`, `timeout`, or another `error_kind`.
    pub fn parse(text: &str) -> Result<Cue, String> {
        let (head, option) = match text.split_once(';') {
            Some((head, option)) => (head.trim(), Some(option.trim())),
            None => (text.trim(), None),
        };
        let retry_after = match option.map(|option| option.split_once('=')) {
            None => None,
            Some(Some(("retry-after", value))) => Some(value.to_string()),
            Some(_) => return Err(format!("`{text}`: the only option is `;retry-after=…`")),
        };
        // Three digits: `+503` and `0503` are numbers to Rust, but no status.
        if head.len() == 3
            && let Ok(status @ 200..=599) = head.parse::<u16>()
        {
            return Ok(Cue::Answer { status, retry_after });
        }
        let kind = ErrorKind::parse(head).filter(|_| option.is_none());
        let kinds: Vec<_> = ErrorKind::ALL.iter().map(|kind| kind.as_str()).collect();
        kind.map(Cue::Fail)
            .ok_or_else(|| format!("`{text}` is neither a status from 200 to 599 nor one of {}", kinds.join(", ")))
    }

    /// What the transport would report of it: a timeout takes as long as the policy allows, everything else no time.
    pub(super) fn report(&self, timeout: Span) -> Report {
        let (finding, took) = match self {
            Cue::Answer { status, retry_after } => {
                let answer = Answer {
                    status: *status,
                    retry_after: retry_after.clone(),
                    excerpt: Default::default(),
                    excerpt_truncated: false,
                };
                (Finding::Answered(answer), Span::ZERO)
            }
            Cue::Fail(kind) => {
                let took = if *kind == ErrorKind::Timeout { timeout } else { Span::ZERO };
                (Finding::Failed { kind: *kind, error: "" }, took)
            }
        };
        Report { finding, timing: Timing::default(), remote_addr: None, took }
    }
}

impl std::fmt::Display for Cue {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Cue::Answer { status, retry_after: None } => write!(out, "{status}"),
            Cue::Answer { status, retry_after: Some(value) } => write!(out, "{status};retry-after={value}"),
            Cue::Fail(kind) => write!(out, "{kind}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cues_are_read_and_written_back() {
        for text in ["503", "200", "timeout", "blocked_address", "429;retry-after=60"] {
            assert_eq!(Cue::parse(text).unwrap().to_string(), text);
        }
        for bad in ["", "99", "600", "soon", "503;x=1", "+503", "+50", "0503", "timeout;retry-after=1", "503;"] {
            assert!(Cue::parse(bad).is_err(), "{bad}");
        }
    }
}
