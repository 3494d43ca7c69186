//! What the test receiver prints. Senders' bytes are shown, never obeyed: no control character gets through (C91).

use std::fmt::Write;
use std::net::SocketAddr;

use serde::Serialize;

use super::super::script::Act;
use super::Received;
use crate::domain::excerpt::escape_for_terminal;
use crate::domain::time::Timestamp;

/// The first line.
pub fn listening(address: SocketAddr, as_json: bool) -> String {
    match as_json {
        true => serde_json::json!({ "listening": format!("http://{address}") }).to_string(),
        false => format!("receiving on http://{address}"),
    }
}

/// One request, in one line; with its body in a second one, if that is wanted.
pub fn request(received: &Received, as_json: bool, show_body: bool) -> String {
    match as_json {
        true => json_line(received, show_body),
        false => line(received, show_body),
    }
}

fn line(received: &Received, show_body: bool) -> String {
    let shown = |text: &str| escape_for_terminal(text.as_bytes());
    let verdict = match &received.signature {
        None => "not checked".to_owned(),
        Some(Ok(text)) => (*text).to_owned(),
        Some(Err(why)) => format!("REFUSED, {}", shown(why)),
    };
    let mut text = format!(
        "{} {} {} {} {} attempt {}, {} bytes, signature: {verdict}; {}",
        received.at.to_millis_text(),
        shown(&received.method),
        shown(&received.path),
        shown(received.header("-Event-Type")),
        shown(event_id(received).unwrap_or("-")),
        shown(received.header("-Attempt")),
        received.body.len(),
        answer(received),
    );
    if show_body {
        let _ = write!(text, "\n    {}", escape_for_terminal(&received.body));
    }
    text
}

fn answer(received: &Received) -> String {
    match &received.act {
        Act::Cue(cue) => format!("answered {}", escape_for_terminal(cue.to_string().as_bytes())),
        Act::Hang => "not answered".into(),
        Act::Reset => "connection closed".into(),
    }
}

fn event_id(received: &Received) -> Option<&str> {
    received.find("webhook-id").or_else(|| received.find("-Event-Id"))
}

#[derive(Serialize)]
struct Line<'a> {
    at: Timestamp,
    method: &'a str,
    path: &'a str,
    event_id: Option<&'a str>,
    event_type: Option<&'a str>,
    delivery_id: Option<&'a str>,
    attempt: Option<u32>,
    bytes: usize,
    headers: serde_json::Map<String, serde_json::Value>,
    /// With bytes that are no UTF-8 replaced; only if it is wanted.
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<std::borrow::Cow<'a, str>>,
    /// `null`: there was no secret to check with.
    signature_valid: Option<bool>,
    signature: Option<&'a str>,
    /// The script's word for it.
    act: String,
    /// The status; `null` if there was no answer.
    answered: Option<u16>,
}

fn json_line(received: &Received, show_body: bool) -> String {
    let signature = received.signature.as_ref();
    let line = Line {
        at: received.at,
        method: &received.method,
        path: &received.path,
        event_id: event_id(received),
        event_type: received.find("-Event-Type"),
        delivery_id: received.find("-Delivery-Id"),
        attempt: received.find("-Attempt").and_then(|attempt| attempt.parse().ok()),
        bytes: received.body.len(),
        headers: received.headers.iter().map(|(name, value)| (name.clone(), value.as_str().into())).collect(),
        body: show_body.then(|| String::from_utf8_lossy(&received.body)),
        signature_valid: signature.map(Result::is_ok),
        signature: signature.map(|verdict| match verdict {
            Ok(text) => text,
            Err(why) => why.as_str(),
        }),
        act: match &received.act {
            Act::Cue(cue) => cue.to_string(),
            Act::Hang => "hang".into(),
            Act::Reset => "reset".into(),
        },
        answered: received.answered,
    };
    ascii(&serde_json::to_string(&line).expect("texts and numbers are JSON"))
}

/// The same JSON in ASCII alone: what could turn a terminal's line around is as harmless as a line end then.
fn ascii(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for character in json.chars() {
        match character {
            ' '..='~' => text.push(character),
            other => {
                for unit in other.encode_utf16(&mut [0; 2]) {
                    write!(text, "\\u{unit:04x}").expect("a String takes everything");
                }
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::script;
    use super::*;

    fn received(path: &str, headers: &[(&str, &str)], body: &'static [u8], act: &str) -> Received {
        let act = script::acts(&[act.to_owned()]).unwrap().remove(0);
        Received {
            at: Timestamp::from_micros(1_788_445_441_412_000),
            method: "POST".into(),
            path: path.into(),
            headers: headers.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect(),
            body: body.into(),
            signature: None,
            answered: match &act {
                Act::Cue(crate::domain::simulate::Cue::Answer { status, .. }) => Some(*status),
                _ => None,
            },
            act,
        }
    }

    const HEADERS: [(&str, &str); 4] = [
        ("webhook-id", "evt_1"),
        ("X-Salaf-Event-Type", "order.created"),
        ("X-Salaf-Attempt", "2"),
        ("X-Salaf-Delivery-Id", "dlv_1"),
    ];

    #[test]
    fn a_request_is_a_line() {
        let mut one = received("/hooks?a=1", &HEADERS, b"{}", "429;retry-after=60");
        let start = "2026-09-03T14:24:01.412Z POST /hooks?a=1 order.created evt_1 attempt 2, 2 bytes, signature: ";
        assert_eq!(request(&one, false, false), format!("{start}not checked; answered 429;retry-after=60"));
        one.signature = Some(Ok("the signature is valid"));
        assert_eq!(
            request(&one, false, true),
            format!("{start}the signature is valid; answered 429;retry-after=60\n    {{}}")
        );
        one.signature = Some(Err("no".into()));
        one.act = Act::Hang;
        assert_eq!(request(&one, false, false), format!("{start}REFUSED, no; not answered"));
        let bare = request(&received("/", &[], b"", "reset"), false, false);
        assert!(bare.ends_with(" POST / - - attempt -, 0 bytes, signature: not checked; connection closed"), "{bare}");
    }

    #[test]
    fn a_request_is_a_json_object_in_one_line() {
        let mut one = received("/hooks", &HEADERS, b"{\"a\":1}", "503");
        one.signature = Some(Err("no".into()));
        let line: serde_json::Value = serde_json::from_str(&request(&one, true, true)).unwrap();
        let expected = serde_json::json!({
            "at": "2026-09-03T14:24:01.412000Z", "method": "POST", "path": "/hooks", "event_id": "evt_1",
            "event_type": "order.created", "delivery_id": "dlv_1", "attempt": 2, "bytes": 7, "body": "{\"a\":1}",
            "signature_valid": false, "signature": "no", "act": "503", "answered": 503,
            "headers": {"webhook-id": "evt_1", "X-Salaf-Event-Type": "order.created", "X-Salaf-Attempt": "2",
                "X-Salaf-Delivery-Id": "dlv_1"},
        });
        assert_eq!(line, expected);
    }

    /// C91, for requests.
    #[test]
    fn c91_what_is_sent_moves_no_cursor() {
        let hostile = "\u{1b}[2J\u{202e}\u{9b}\r\n\u{1f600}";
        let headers = [("x-event-id", hostile), ("x-event-type", hostile), ("x-attempt", hostile)];
        let one = received(hostile, &headers, "\u{1b}[2J\u{202e}\u{9b}\r\n\u{1f600}\u{7f}".as_bytes(), "200");
        let line = request(&one, false, true);
        assert_eq!(line.lines().count(), 2, "{line}");
        assert!(!line.contains(['\u{1b}', '\u{202e}', '\u{9b}', '\r', '\u{7f}']), "{line:?}");
        let line = request(&one, true, true);
        assert!(line.bytes().all(|byte| matches!(byte, b' '..=b'~')), "{line:?}");
        let line: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(line["path"], hostile);
    }
}
