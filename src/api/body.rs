//! Request bodies: what they may be called, how large they may be, how long they may take.

use actix_web::HttpRequest;
use actix_web::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, TRANSFER_ENCODING};
use actix_web::web::{Bytes, BytesMut, Payload};
use futures_util::StreamExt;

use super::problem::{Code, Problem};
use super::{Api, limits};
use crate::domain::content::Ticket;

/// A body that came whole.
#[derive(Debug, Default)]
pub struct Body {
    pub bytes: Bytes,
    /// Its part of what all bodies together may hold; given back with the body.
    _ticket: Option<Ticket>,
}

/// Reads a JSON body of at most `limit` bytes; the limit is told while it comes, not after (C77).
///
/// # Errors
/// 415 for what is not JSON or is encoded, 413 for what is too large, 503 if all bodies together are too much, 400 for
/// one that does not come to its end. Where the body was not read to its end, the connection is closed after the answer.
pub async fn read(api: &Api, request: &HttpRequest, mut payload: Payload, limit: usize) -> Result<Body, Problem> {
    let headers = request.headers();
    let declared = declared(headers);
    // What an empty body would be does not matter; some clients call it something else than JSON.
    if declared != Some(0) {
        must_be_json(headers)?;
    }
    let too_large = || Problem::new(Code::PayloadTooLarge, format!("A request here has at most {limit} bytes."));
    if declared.is_some_and(|length| length > limit) {
        drain(payload);
        return Err(too_large());
    }
    // A body that does not say may become as large as it is allowed to be.
    let expected = declared.unwrap_or(limit);
    let ticket = match expected > limits::SMALL_BODY {
        true => Some(api.bodies.take(expected).ok_or_else(|| Problem::unavailable("Too many requests at once."))?),
        false => None,
    };
    let bytes = match tokio::time::timeout(limits::BODY_TIME, gather(&mut payload, declared, limit)).await {
        Ok(Ok(bytes)) => bytes,
        Ok(Err(Broken::TooLarge)) => {
            drain(payload);
            return Err(too_large());
        }
        Ok(Err(Broken::Ended)) => return Err(Problem::field("", "The body did not come whole.")),
        Ok(Err(Broken::Stopped)) => return Err(Problem::field("", "The body stopped coming.")),
        Err(_) => return Err(Problem::field("", "The body took too long to come.")),
    };
    Ok(Body { bytes, _ticket: ticket })
}

/// Why a body is not there.
enum Broken {
    TooLarge,
    Ended,
    Stopped,
}

async fn gather(payload: &mut Payload, declared: Option<usize>, limit: usize) -> Result<Bytes, Broken> {
    let mut bytes = Bytes::new();
    let mut more: Option<BytesMut> = None;
    loop {
        let chunk = match tokio::time::timeout(limits::BODY_PAUSE, payload.next()).await {
            Ok(Some(Ok(chunk))) => chunk,
            Ok(None) => break,
            Ok(Some(Err(_))) => return Err(Broken::Ended),
            Err(_) => return Err(Broken::Stopped),
        };
        let length = more.as_ref().map_or(bytes.len(), BytesMut::len) + chunk.len();
        if length > limit {
            return Err(Broken::TooLarge);
        }
        match (&mut more, bytes.is_empty()) {
            (Some(more), _) => more.extend_from_slice(&chunk),
            // Most bodies come in one piece, which is not copied.
            (None, true) => bytes = chunk,
            (None, false) => {
                let mut both = BytesMut::with_capacity(declared.unwrap_or(2 * length));
                both.extend_from_slice(&bytes);
                both.extend_from_slice(&chunk);
                more = Some(both);
            }
        }
    }
    Ok(more.map_or(bytes, BytesMut::freeze))
}

/// How long the body says it is (RFC 9112 §6.3); `None` if it does not say.
fn declared(headers: &HeaderMap) -> Option<usize> {
    if headers.contains_key(TRANSFER_ENCODING) {
        return None;
    }
    match headers.get(CONTENT_LENGTH) {
        None => Some(0),
        // Longer than can be counted is as bad as any number that is too large.
        Some(length) => Some(length.to_str().unwrap_or_default().trim().parse().unwrap_or(usize::MAX)),
    }
}

/// `application/json` and `application/*+json`, with any parameters. A request that does not say what it is can only be
/// JSON here, and is taken for it. An encoding (RFC 9110 §8.4) is refused: what a few bytes unpack to has no limit.
fn must_be_json(headers: &HeaderMap) -> Result<(), Problem> {
    let unsupported = |detail: &str| Err(Problem::new(Code::UnsupportedMediaType, detail));
    let encoded = headers.get_all(CONTENT_ENCODING).any(|value| !value.as_bytes().eq_ignore_ascii_case(b"identity"));
    if encoded {
        return unsupported("Send the body without a Content-Encoding.");
    }
    let Some(value) = headers.get(CONTENT_TYPE) else { return Ok(()) };
    let essence = value.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match essence.strip_prefix("application/") {
        Some(subtype) if subtype == "json" || (subtype.ends_with("+json") && subtype.len() > "+json".len()) => Ok(()),
        _ => unsupported("Send JSON, with Content-Type: application/json."),
    }
}

/// Keeps the rest of a body coming while its caller reads the answer. As long as somebody holds it, actix-http closes the
/// connection after the answer and first reads what still comes, for [`limits::DRAIN_TIME`] (the server's
/// `client_disconnect_timeout`); a chunked one that was let go of would be read to its end, however far that is.
fn drain(mut payload: Payload) {
    actix_web::rt::spawn(tokio::time::timeout(limits::DRAIN_TIME, async move {
        let mut bytes = 0;
        while let Some(Ok(chunk)) = payload.next().await {
            bytes += chunk.len();
            if bytes > limits::DRAIN_BYTES {
                break;
            }
        }
    }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use actix_web::test::TestRequest;

    #[test]
    fn c77_json_by_any_of_its_names() {
        let check = |headers: &[(&str, &str)], good: bool| {
            let request = headers.iter().fold(TestRequest::default(), |request, &header| request.append_header(header));
            let checked = must_be_json(request.to_http_request().headers());
            assert_eq!(checked.is_ok(), good, "{headers:?}");
            assert!(checked.err().is_none_or(|problem| problem.code() == Code::UnsupportedMediaType));
        };
        let kind = |value| [("Content-Type", value)];
        check(&[], true);
        check(&kind("application/json"), true);
        check(&kind("Application/JSON; charset=utf-8"), true);
        check(&kind("application/cloudevents+json"), true);
        check(&kind("application/json;charset=latin1;x=y"), true);
        for bad in ["", "text/json", "text/plain", "application/x-www-form-urlencoded", "application/+json", "json"] {
            check(&kind(bad), false);
        }
        check(&kind("application/json-seq"), false);
        check(&[("Content-Type", "application/json"), ("Content-Encoding", "gzip")], false);
        check(&[("Content-Type", "application/json"), ("Content-Encoding", "identity")], true);
        check(&[("Content-Encoding", "br")], false);
    }

    #[test]
    fn a_body_says_how_long_it_is() {
        let check = |header: Option<(&str, &str)>, wanted: Option<usize>| {
            let request = TestRequest::default();
            let request = header.map_or(TestRequest::default(), |header| request.insert_header(header));
            assert_eq!(declared(request.to_http_request().headers()), wanted, "{header:?}");
        };
        check(None, Some(0));
        check(Some(("Content-Length", "0")), Some(0));
        check(Some(("Content-Length", "17")), Some(17));
        check(Some(("Content-Length", "99999999999999999999999")), Some(usize::MAX));
        check(Some(("Transfer-Encoding", "chunked")), None);
    }
}
