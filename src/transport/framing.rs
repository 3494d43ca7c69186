//! Where one HTTP/1.1 response begins and ends, as pure code over bytes (RFC 9112 §6.3), from the point of view of
//! somebody who sends webhooks: *the final status line decides; everything after it is log material* (S4). So a fault in
//! a head is an error, while a fault in a body only ends it and keeps the connection from being used again.

use httparse::{Header, ParserConfig, Response};

use super::chunked::{Chunked, Step};
use crate::domain::excerpt::EXCERPT_BYTES;

/// The longest response head, interim responses each by themselves, in bytes.
pub const HEAD_LIMIT: usize = 64 * 1024;
/// Header lines in a head.
pub const HEADER_LINES: usize = 100;
/// Interim responses before the final one.
pub const INTERIM_LIMIT: usize = 20;
/// A longer `Retry-After` is garbage; a date has 29 bytes.
const RETRY_AFTER_LIMIT: usize = 64;
/// A longer body is not read to its end for the sake of the connection: a new one is cheaper.
pub const DRAIN_LIMIT: u64 = 16 * 1024;

/// What is wrong with a response's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    NotHttp,
    BadHead,
    HeadTooLarge,
    TooManyLines,
    TooManyInterims,
    SwitchingProtocols,
    BadLength,
}

impl Fault {
    /// The fixed wording that the attempt records.
    pub const fn wording(self) -> &'static str {
        match self {
            Fault::NotHttp => "what came is not an HTTP/1.x response",
            Fault::BadHead => "the response's status line or headers are malformed",
            Fault::HeadTooLarge => "the response's head is larger than 64 KiB",
            Fault::TooManyLines => "the response has more than 100 header lines",
            Fault::TooManyInterims => "too many interim responses",
            Fault::SwitchingProtocols => "the receiver switched protocols (101)",
            Fault::BadLength => "the response's Content-Length is invalid or contradicts itself",
        }
    }
}

/// The part of a final response's head that matters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    pub status: u16,
    /// The value of `Retry-After` if there was exactly one and it is short and printable (S8).
    pub retry_after: Option<String>,
}

/// One response as it comes in.
#[derive(Debug)]
pub struct ResponseFraming {
    stage: Stage,
    /// The beginning of a head that came in pieces.
    partial: Vec<u8>,
    /// Bytes of white space in front of heads.
    padding: usize,
    interims: usize,
    head: Option<Head>,
    /// The first bytes of the body.
    kept: Vec<u8>,
    /// How long the body has been so far.
    body_len: u64,
    truncated: bool,
    reusable: bool,
}

/// What the next byte belongs to.
#[derive(Debug)]
enum Stage {
    Head,
    Body(Body),
    Done,
}

/// How a body's end is found.
#[derive(Debug)]
enum Body {
    /// So many bytes are still to come.
    Length(u64),
    Chunked(Chunked),
    UntilClose,
}

impl ResponseFraming {
    pub fn new() -> Self {
        ResponseFraming {
            stage: Stage::Head,
            partial: Vec::new(),
            padding: 0,
            interims: 0,
            head: None,
            kept: Vec::new(),
            body_len: 0,
            truncated: false,
            reusable: false,
        }
    }

    /// Takes what the receiver sent next, in whatever pieces.
    ///
    /// # Errors
    /// The head is at fault; nothing more may be fed.
    pub fn feed(&mut self, mut bytes: &[u8]) -> Result<(), Fault> {
        while !bytes.is_empty() {
            match self.stage {
                Stage::Head => bytes = self.take_head(bytes)?,
                Stage::Body(_) => bytes = self.take_body(bytes),
                Stage::Done => {
                    // Bytes that nobody asked for: they must not become the next request's answer (C05).
                    self.reusable = false;
                    break;
                }
            }
        }
        Ok(())
    }

    /// The receiver closed its side. That is the proper end of a body without length; any other is cut off by it.
    pub fn end(&mut self) {
        if matches!(self.stage, Stage::Body(Body::UntilClose)) {
            self.stage = Stage::Done;
        }
        self.cut();
    }

    /// Nothing more will be read, and the connection is not to be used again.
    pub fn cut(&mut self) {
        self.truncated |= matches!(self.stage, Stage::Body(_));
        self.reusable = false;
        self.stage = Stage::Done;
    }

    /// The final response's head, as soon as it is complete.
    pub fn head(&self) -> Option<&Head> {
        self.head.as_ref()
    }

    /// Head and body are in, or as much of the body as is read.
    pub fn is_done(&self) -> bool {
        matches!(self.stage, Stage::Done)
    }

    /// Another request may follow on this connection; only to be asked when done.
    pub fn is_reusable(&self) -> bool {
        self.reusable
    }

    /// The first bytes of the body, at most [`EXCERPT_BYTES`].
    pub fn kept(&self) -> &[u8] {
        &self.kept
    }

    /// The body went on beyond what was kept, or was cut off.
    pub fn is_truncated(&self) -> bool {
        self.truncated
    }

    /// Takes the head, or the next piece of it, off the front of `bytes`.
    fn take_head<'a>(&mut self, mut bytes: &'a [u8]) -> Result<&'a [u8], Fault> {
        if self.partial.is_empty() {
            // Some servers send a stray line end after a body; it belongs to nothing. A receiver that sends nothing else,
            // for ever and as fast as it is read, would leave its own timeout no turn.
            let padded = bytes.len();
            bytes = bytes.trim_ascii_start();
            self.padding += padded - bytes.len();
            if self.padding > HEAD_LIMIT {
                return Err(Fault::HeadTooLarge);
            }
        }
        let before = self.partial.len();
        // The usual head comes in one piece and is parsed where it lies.
        let mut gathered = std::mem::take(&mut self.partial);
        let end = if before == 0 {
            head_end(bytes, 0)
        } else {
            gathered.extend_from_slice(&bytes[..bytes.len().min(HEAD_LIMIT + 1 - before)]);
            // The end may lie across the joint. Only new bytes are searched: a head that drips in costs no more.
            head_end(&gathered, before.saturating_sub(2))
        };
        let so_far = if before == 0 { bytes } else { &gathered };
        match end {
            Some(end) if end <= HEAD_LIMIT => {
                self.read_head(&so_far[..end])?;
                Ok(&bytes[end - before..])
            }
            None if so_far.len() <= HEAD_LIMIT => {
                const START: &[u8] = b"HTTP/1.";
                let known = so_far.len().min(START.len());
                if so_far[..known] != START[..known] {
                    return Err(Fault::NotHttp);
                }
                self.partial = if before == 0 { bytes.to_vec() } else { gathered };
                Ok(&[])
            }
            _ => Err(Fault::HeadTooLarge),
        }
    }

    /// Reads a complete head: an interim one is dropped (RFC 9110 §15.2), the final one decides what follows.
    fn read_head(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        let mut lines = [httparse::EMPTY_HEADER; HEADER_LINES];
        let mut response = Response::new(&mut lines);
        let parsed = lenient().parse_response(&mut response, bytes).map_err(|error| match error {
            httparse::Error::TooManyHeaders => Fault::TooManyLines,
            httparse::Error::Version => Fault::NotHttp,
            _ => Fault::BadHead,
        })?;
        let (Some(status @ 100..), Some(minor), true) = (response.code, response.version, parsed.is_complete()) else {
            return Err(Fault::BadHead);
        };
        match status {
            101 => Err(Fault::SwitchingProtocols),
            100..=199 if self.interims == INTERIM_LIMIT => Err(Fault::TooManyInterims),
            100..=199 => {
                self.interims += 1;
                Ok(())
            }
            _ => {
                let headers = &*response.headers;
                (self.stage, self.reusable) = decide(status, minor, headers)?;
                self.head = Some(Head { status, retry_after: retry_after(headers) });
                Ok(())
            }
        }
    }

    /// Takes what belongs to the body off the front of `bytes`.
    fn take_body<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let Stage::Body(body) = &mut self.stage else {
            return bytes;
        };
        let (skip, run) = match body {
            Body::UntilClose => (0, bytes.len()),
            Body::Length(left) => {
                let run = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                *left -= run as u64;
                if *left == 0 {
                    self.stage = Stage::Done;
                }
                (0, run)
            }
            Body::Chunked(chunked) => match chunked.feed(bytes) {
                (skip, Step::Data(run)) => (skip, run),
                (skip, Step::More) => (skip, 0),
                (skip, Step::End) => {
                    self.stage = Stage::Done;
                    (skip, 0)
                }
                (_, Step::Broken) => {
                    self.cut();
                    return &[];
                }
            },
        };
        self.keep(&bytes[skip..skip + run]);
        &bytes[skip + run..]
    }

    /// Keeps the beginning of the body and gives up a body that is not worth reading to its end.
    fn keep(&mut self, data: &[u8]) {
        let room = EXCERPT_BYTES - self.kept.len();
        self.kept.extend_from_slice(&data[..data.len().min(room)]);
        self.body_len += data.len() as u64;
        if data.len() > room {
            self.truncated = true;
            if !self.reusable || self.body_len > DRAIN_LIMIT {
                self.cut();
            }
        }
    }
}

/// How heads are parsed: whatever leaves the meaning plain is let pass, as the status line is what counts. Bytes beyond
/// ASCII in values are fine anyway (C14).
fn lenient() -> ParserConfig {
    let mut config = ParserConfig::default();
    config
        .allow_spaces_after_header_name_in_responses(true)
        .allow_obsolete_multiline_headers_in_responses(true)
        .allow_multiple_spaces_in_response_status_delimiters(true)
        .ignore_invalid_headers_in_responses(true);
    config
}

/// One past the empty line that ends a head, searched for from `from` on; lines may end in CRLF or LF.
fn head_end(bytes: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    while let Some(found) = bytes.get(at..)?.iter().position(|&byte| byte == b'\n') {
        at += found + 1;
        match bytes.get(at..)? {
            [b'\n', ..] => return Some(at + 1),
            [b'\r', b'\n', ..] => return Some(at + 2),
            _ => {}
        }
    }
    None
}

/// What follows the head of a final response to a POST, and whether the connection may be used again after it
/// (RFC 9112 §6.3, §9.3).
fn decide(status: u16, minor: u8, headers: &[Header<'_>]) -> Result<(Stage, bool), Fault> {
    // "identity" is obsolete and means none.
    let means_none = |coding: &[u8]| coding.is_empty() || coding.eq_ignore_ascii_case(b"identity");
    let coding = list(headers, "transfer-encoding").filter(|coding| !means_none(coding)).last();
    let persistent = minor >= 1 && !list(headers, "connection").any(|option| option.eq_ignore_ascii_case(b"close"));
    let length = content_length(headers);

    if matches!(status, 204 | 205 | 304) {
        // Never a body, whatever the headers say (rule 1; RFC 9110 §15.3.6 for 205): if they announce one, whoever sent
        // it may send that too.
        return Ok((Stage::Done, persistent && coding.is_none() && matches!(length, Ok(None | Some(0)))));
    }
    let length = length?;
    Ok(match (coding, length) {
        // Chunked wins over a length; a message with both, or from HTTP/1.0, is not to be trusted further (§6.1).
        (Some(coding), length) if coding.eq_ignore_ascii_case(b"chunked") => {
            (Stage::Body(Body::Chunked(Chunked::new())), persistent && length.is_none())
        }
        (Some(_), _) | (None, None) => (Stage::Body(Body::UntilClose), false),
        (None, Some(0)) => (Stage::Done, persistent),
        (None, Some(length)) => (Stage::Body(Body::Length(length)), persistent && length <= DRAIN_LIMIT),
    })
}

/// The one length that all `Content-Length` values agree on (§6.3 rule 5): "2" twice and "2, 2" are 2 (C11).
fn content_length(headers: &[Header<'_>]) -> Result<Option<u64>, Fault> {
    let mut agreed = None;
    for value in list(headers, "content-length") {
        let digits = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
        let length = std::str::from_utf8(value).ok().filter(|_| digits).and_then(|text| text.parse().ok());
        let length: u64 = length.ok_or(Fault::BadLength)?;
        if *agreed.get_or_insert(length) != length {
            return Err(Fault::BadLength);
        }
    }
    Ok(agreed)
}

/// The members of a list-valued field, over all its lines (RFC 9110 §5.6.1).
fn list<'a>(headers: &'a [Header<'_>], name: &'static str) -> impl Iterator<Item = &'a [u8]> {
    let lines = headers.iter().filter(move |header| header.name.eq_ignore_ascii_case(name));
    lines.flat_map(|header| header.value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii))
}

/// The value of `Retry-After` if there is exactly one and it could be a number or a date.
fn retry_after(headers: &[Header<'_>]) -> Option<String> {
    let mut lines = headers.iter().filter(|header| header.name.eq_ignore_ascii_case("retry-after"));
    let (first, None) = (lines.next()?, lines.next()) else {
        return None;
    };
    if first.value.len() > RETRY_AFTER_LIMIT {
        return None;
    }
    let printable = first.value.iter().all(|byte| (b' '..=b'~').contains(byte));
    let text = std::str::from_utf8(first.value).ok().filter(|_| printable)?;
    Some(text.to_owned())
}

#[cfg(test)]
#[path = "framing_tests.rs"]
mod tests;
