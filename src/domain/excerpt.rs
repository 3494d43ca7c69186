//! What is kept of a response's body: its first kilobyte, without the lines that look like header fields and could hold
//! a credential (`semantics.md`, *Response excerpt*). It is log material and decides nothing.

use bytes::Bytes;

/// How much of a body is taken, in bytes, before it is cleaned.
pub const EXCERPT_BYTES: usize = 1024;

/// Cleans the beginning of a body. Only the first [`EXCERPT_BYTES`] count; whoever hands over that many or more is
/// taken to have cut the body there, and a UTF-8 character cut in half at that end is dropped.
///
/// A line ends with CR, LF or CRLF. It goes, with its ending, if it is a field line whose name says so (see the code),
/// and so does every following line that begins with space or tab. All other lines stay byte for byte. The bytes need
/// not be text; what stays is escaped only when it is shown ([`escape_for_terminal`]).
pub fn clean(first_bytes: &[u8]) -> Bytes {
    let taken = match first_bytes.get(..EXCERPT_BYTES) {
        Some(cut) => without_half_character(cut),
        None => first_bytes,
    };
    let mut kept = Vec::with_capacity(taken.len());
    let mut dropping = false;
    for line in lines(taken) {
        let continues = dropping && matches!(line.first(), Some(b' ' | b'\t'));
        dropping = continues || is_telling_field_line(line);
        if !dropping {
            kept.extend_from_slice(line);
        }
    }
    kept.into()
}

/// The lines of a text, each with its ending.
fn lines(mut text: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let end = match text.iter().position(|byte| matches!(byte, b'\r' | b'\n')) {
            Some(at) if text[at..].starts_with(b"\r\n") => at + 2,
            Some(at) => at + 1,
            None => text.len(),
        };
        let (line, rest) = text.split_at(end);
        text = rest;
        (!line.is_empty()).then_some(line)
    })
}

/// Whether a line is a field line (RFC 9112 §5: a token, directly a colon, anything) with a name that is registered, is
/// of the make of header names, or speaks of credentials. Plain words stay: `error: out of stock`.
///
/// Of the value nothing is asked: RFC 9110 §5.5 lets recipients put up with control characters in it, and a secret is
/// one with or without a stray NUL.
fn is_telling_field_line(line: &[u8]) -> bool {
    const PARTS: [&str; 8] = ["auth", "token", "secret", "passw", "key", "cookie", "session", "credential"];
    let Some(colon) = line.iter().position(|byte| !is_token_byte(*byte)) else {
        return false;
    };
    if colon == 0 || line[colon] != b':' {
        return false;
    }
    let name = String::from_utf8_lossy(&line[..colon]).to_ascii_lowercase();
    name.contains(['-', '_'])
        || PARTS.iter().any(|part| name.contains(part))
        || REGISTERED.binary_search(&name.as_str()).is_ok()
}

/// A byte of a token (RFC 9110 §5.6.2), which is what field names are made of.
pub(super) fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// The names of the IANA HTTP Field Name Registry, whatever their status there: permanent, provisional, deprecated or
/// obsoleted, as a receiver that still sends one means the same by it. Names with `-` are left out: they go by that rule;
/// so is `*`, which is reserved and no name. Lower case, sorted.
#[rustfmt::skip]
const REGISTERED: [&str; 76] = [
    "accept", "age", "allow", "alpn", "alternates", "authorization", "baggage", "close", "connection", "cookie",
    "cookie2", "dasl", "date", "dav", "deprecation", "depth", "destination", "digest", "dpop", "etag", "expect",
    "expires", "ext", "forwarded", "from", "getprofile", "hobareg", "host", "if", "im", "incremental", "isolation",
    "label", "link", "location", "man", "meter", "negotiate", "nel", "opt", "origin", "oscore", "overwrite", "p3p",
    "pep", "position", "pragma", "prefer", "priority", "profileobject", "protocol", "public", "range", "referer",
    "refresh", "safe", "server", "setprofile", "signature", "slug", "soapaction", "sunset", "tcn", "te", "timeout",
    "topic", "traceparent", "tracestate", "trailer", "ttl", "upgrade", "urgency", "uri", "vary", "via", "warning",
];

/// The text without the beginning of a UTF-8 character at its end. Bytes that could not begin one are left alone.
fn without_half_character(text: &[u8]) -> &[u8] {
    // The last chunk's invalid part is the text's end, and is at most three bytes if a character might go on there.
    match text.utf8_chunks().last() {
        Some(last) if std::str::from_utf8(last.invalid()).is_err_and(|error| error.error_len().is_none()) => {
            &text[..text.len() - last.invalid().len()]
        }
        _ => text,
    }
}

/// A receiver's bytes as one line that a terminal or a log shows as they are (C91): line ends, tabs and other control
/// characters (so ANSI sequences too), line and paragraph separators, invisible and direction-changing characters and
/// bytes that are not UTF-8 appear as `\n`, `\t`, `\u{202e}`, `\xff`. Backslashes are not doubled, to keep JSON
/// legible; so the escaping cannot be undone.
pub fn escape_for_terminal(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut shown = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                character if is_unfit_to_show(character) => shown.extend(character.escape_default()),
                character => shown.push(character),
            }
        }
        for byte in chunk.invalid() {
            write!(shown, "\\x{byte:02x}").expect("a String takes everything");
        }
    }
    shown
}

/// JSON that a terminal shows as it is, and that means the same: what [`escape_for_terminal`] would escape is written as JSON's
/// `\u`. JSON itself allows no other control characters than line ends and tabs between its values; those stay.
pub fn escape_json_for_terminal(json: &str) -> String {
    use std::fmt::Write as _;
    let mut shown = String::with_capacity(json.len());
    for character in json.chars() {
        if matches!(character, '\n' | '\r' | '\t') || !is_unfit_to_show(character) {
            shown.push(character);
        } else {
            for unit in character.encode_utf16(&mut [0; 2]) {
                write!(shown, "\\u{unit:04x}").expect("a String takes everything");
            }
        }
    }
    shown
}

/// Characters that move the cursor, change the direction or the meaning of their surroundings, or cannot be seen.
fn is_unfit_to_show(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{ad}' // soft hyphen
            | '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' // direction
            | '\u{180e}' | '\u{200b}' | '\u{2060}'..='\u{2064}' | '\u{206a}'..='\u{206f}' | '\u{feff}' // of no width
            | '\u{2028}' | '\u{2029}' // separators
            | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}' // annotations and tags
        )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn json_on_a_terminal_means_the_same_and_moves_nothing() {
        let text = "a\u{9b}2J\u{202e}b\u{7f}\u{e0041}\u{2028}é \u{1b}[2J";
        let json = serde_json::to_string_pretty(&serde_json::json!({ "excerpt": text })).unwrap();
        let shown = escape_json_for_terminal(&json);
        assert!(!shown.chars().any(|one| one != '\n' && is_unfit_to_show(one)), "{shown}");
        assert!(shown.contains(r"a\u009b2J\u202eb\u007f\udb40\udc41\u2028é \u001b[2J"), "{shown}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap()["excerpt"], text);
    }

    fn check(body: impl AsRef<[u8]>, kept: impl AsRef<[u8]>) {
        assert_eq!(clean(body.as_ref()), kept.as_ref(), "{:?}", escape_for_terminal(body.as_ref()));
    }

    #[test]
    fn lines_that_look_like_header_fields_go() {
        check("", "");
        check("quota exceeded", "quota exceeded");
        check("Set-Cookie: a=b\nok", "ok");
        check("ok\nAuthorization: Bearer abc", "ok\n");
        check("AUTHORIZATION:abc\nX_Api_Id:1\nhost: a\nETag:\n", "");
        check("mytoken: a\nClientSecret: b\nPASSWORD: c\nApiKey: d\nSessionId: e\nCredentials: f\nOAuth: g\n", "");
        // Plain words stay, and so does what is no field line.
        check("error: out of stock\nstatus: 12\n", "error: out of stock\nstatus: 12\n");
        check("Set-Cookie : a\n Set-Cookie: a\n: a\n", "Set-Cookie : a\n Set-Cookie: a\n: a\n");
        check("{\"api-key\": 1}\n<a-b: c>\nsee my-page", "{\"api-key\": 1}\n<a-b: c>\nsee my-page");
        check("the token: abc", "the token: abc");
        // Registered once, and obsoleted, deprecated or provisional now.
        check("Warning: 199 - low disk\nPragma: a\nDigest: b\nContent-MD5: c\nWant-Digest: d\nExpect-CT: e\nok", "ok");
        check("P3P: CP=\"a\"\nURI: <http://a>\nPublic: GET\nSafe: yes\nMan: a\nOpt: b\nExt: c\nPEP: d\nok", "ok");
        check("Cookie2: a\nProtocol: b\nGetProfile: c\nSetProfile: d\nProfileObject: e\nIsolation: f\nok", "ok");
        let plain = "warnings: 3\nmessage: sold out\nreason: none\ncode: 12\ntitle: a\nversion: 2\n";
        check(plain, plain);
        // Whatever the value holds.
        check(b"x-a: \xff\0\x1b[2J\nok", "ok");
    }

    #[test]
    fn every_kind_of_line_end_ends_a_line_and_stays_as_it_was() {
        check("one\r\nX-A: 1\r\ntwo\rX-A: 1\rthree\nX-A: 1\nfour\n\r", "one\r\ntwo\rthree\nfour\n\r");
        check("one\r\n\r\nX-A: 1\r\n\r\n", "one\r\n\r\n\r\n");
    }

    #[test]
    fn folded_lines_go_with_their_field() {
        check("X-A: 1\r\n 2\r\n\t3\r\n4\r\n 5", "4\r\n 5");
        check("X-A: 1\n \nok", "ok");
        check("X-A: 1\n\n 2", "\n 2");
        check("error: 1\n 2", "error: 1\n 2");
        check("X-A: 1\n 2\nX-B: 1\n 2\n", "");
    }

    #[test]
    fn a_character_is_dropped_only_where_the_body_was_cut() {
        let filled = |length: usize, end: &[u8]| [&b"x".repeat(length - end.len()), end].concat();
        for half in ["é", "→", "😀"].map(str::as_bytes).iter().flat_map(|all| (1..all.len()).map(|end| &all[..end]))
        {
            check(filled(1024, half), b"x".repeat(1024 - half.len()));
            check([filled(1024, half), b"rest".into()].concat(), b"x".repeat(1024 - half.len()));
            check(filled(1023, half), filled(1023, half));
        }
        check(filled(1024, "😀".as_bytes()), filled(1024, "😀".as_bytes()));
        // No beginning of a character: not ours to judge.
        for end in [&b"\xff"[..], b"\x80\x80", b"\xf0\x41", b"\xe2\x28\xa1", b"\xc0"] {
            check(filled(1024, end), filled(1024, end));
        }
        check(filled(5_000, b""), filled(1024, b""));
    }

    #[test]
    fn the_registered_names_can_be_searched() {
        assert!(REGISTERED.is_sorted());
        for name in REGISTERED {
            check(format!("{}: 1", name.to_uppercase()), "");
        }
    }

    /// C91.
    #[test]
    fn nothing_reaches_the_terminal_but_visible_characters() {
        let check = |bytes: &[u8], shown: &str| assert_eq!(escape_for_terminal(bytes), shown);
        check(b"<script>alert(1)</script>", "<script>alert(1)</script>");
        check(b"{\"a\":\"\\\"\"}", "{\"a\":\"\\\"\"}");
        check(b"a\r\n\tb\0", "a\\r\\n\\tb\\u{0}");
        check(b"\x1b[31mred\x07\x7f", "\\u{1b}[31mred\\u{7}\\u{7f}");
        check(
            "\u{9b}31m\u{202e}evil\u{2066}\u{feff}\u{2028}".as_bytes(),
            "\\u{9b}31m\\u{202e}evil\\u{2066}\\u{feff}\\u{2028}",
        );
        check(b"caf\xe9 \xf0\x9f", "caf\\xe9 \\xf0\\x9f");
        check("é 😀 →".as_bytes(), "é 😀 →");
    }

    proptest! {
        #[test]
        fn cleaning_takes_lines_away_and_changes_none(
            body in "((x-a|error|key|)(:| )?[a-z ]{0,9}(\r|\n|\r\n|é))*"
        ) {
            let kept = clean(body.as_bytes());
            prop_assert!(kept.len() <= EXCERPT_BYTES);
            prop_assert!(!lines(&kept).any(is_telling_field_line));
            // Empty lines aside: an LF alone may have come to stand after a CR.
            let mut all = lines(body.as_bytes());
            for line in lines(&kept).map(|line| line.trim_ascii_end()).filter(|line| !line.is_empty()) {
                prop_assert!(all.any(|one| one.starts_with(line)));
            }
        }

        #[test]
        fn any_bytes_will_do(body in proptest::collection::vec(any::<u8>(), 0..1_100)) {
            clean(&body);
            prop_assert!(!escape_for_terminal(&body).chars().any(is_unfit_to_show));
        }
    }
}
