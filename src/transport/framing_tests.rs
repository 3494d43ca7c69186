//! The table of responses, each fed in pieces of every size.

use proptest::prelude::*;

use super::*;

/// What a response came to: status, body as kept, truncated, reusable, done. `None` for the status: no final head yet.
type Outcome = (Option<u16>, Vec<u8>, bool, bool, bool);

/// Feeds `input` in pieces of `piece` bytes, then the end of the stream if `closed`.
fn read(input: &[u8], piece: usize, closed: bool) -> Result<Outcome, Fault> {
    let mut framing = ResponseFraming::new();
    for part in input.chunks(piece) {
        framing.feed(part)?;
    }
    if closed {
        framing.end();
    }
    let status = framing.head().map(|head| head.status);
    let done = framing.is_done();
    Ok((status, framing.kept().to_vec(), framing.is_truncated(), done && framing.is_reusable(), done))
}

/// The same outcome, however the input is cut.
#[track_caller]
fn check(input: &[u8], closed: bool, expected: Result<Outcome, Fault>) {
    for piece in (1..=input.len().min(40)).chain([input.len()]) {
        let outcome = read(input, piece, closed);
        assert_eq!(outcome, expected, "{} in pieces of {piece}", input[..input.len().min(200)].escape_ascii());
    }
}

/// A complete message after which the connection may be used again.
#[track_caller]
fn reusable(input: &str, status: u16, body: &str) {
    check(input.as_bytes(), false, Ok((Some(status), body.into(), false, true, true)));
}

/// A complete message after which it may not.
#[track_caller]
fn last(input: &str, status: u16, body: &str) {
    check(input.as_bytes(), false, Ok((Some(status), body.into(), false, false, true)));
}

#[track_caller]
fn fault(input: &str, fault: Fault) {
    check(input.as_bytes(), false, Err(fault));
}

#[test]
fn ordinary_responses_leave_the_connection_reusable() {
    reusable("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 200, "hello");
    reusable("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: keep-alive\r\n\r\n", 200, "");
    reusable("HTTP/1.1 200\r\ncontent-length:0\r\n\r\n", 200, "");
    reusable("HTTP/1.1  299  Fine \ncontent-length : 2\n\nok", 299, "ok");
    reusable("\r\nHTTP/1.1 500 caf\u{e9}\r\nContent-Length: 0\r\n\r\n", 500, "");
    reusable("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", 200, "ok");
    reusable("HTTP/1.1 204 No Content\r\n\r\n", 204, "");
    reusable("HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", 204, "");
    // Obsolete, but of plain meaning.
    reusable("HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\nContent-Length: 1\r\n\r\na", 200, "a");
    reusable("HTTP/1.1 200 OK\r\nX-A: 1\r\n 2\r\nContent-Length: 1\r\n\r\na", 200, "a");
}

#[test]
fn c01_a_body_without_length_goes_on_until_the_close() {
    for head in
        ["HTTP/1.1 500 Oops\r\nConnection: close\r\n\r\n", "HTTP/1.1 500 Oops\r\n\r\n", "HTTP/1.0 500 Oops\r\n\r\n"]
    {
        let input = format!("{head}quota exceeded");
        check(input.as_bytes(), true, Ok((Some(500), "quota exceeded".into(), false, false, true)));
        check(input.as_bytes(), false, Ok((Some(500), "quota exceeded".into(), false, false, false)));
    }
    // The last coding is not chunked (rule 4).
    let odd = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, gzip\r\nContent-Length: 1\r\n\r\nabc";
    check(odd, true, Ok((Some(200), "abc".into(), false, false, true)));
}

#[test]
fn c05_c06_bodiless_statuses_end_with_their_head() {
    last("HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n", 204, "");
    last("HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nhello", 204, "");
    last("HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n", 204, "");
    last("HTTP/1.1 204 No Content\r\nContent-Length: x\r\n\r\n", 204, "");
    last("HTTP/1.1 204 No Content\r\n\r\nhello", 204, "");
    last("HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", 304, "");
    reusable("HTTP/1.1 205 Reset Content\r\n\r\n", 205, "");
    for status in [206, 207, 226, 299] {
        reusable(&format!("HTTP/1.1 {status} -\r\nContent-Length: 0\r\n\r\n"), status, "");
    }
}

#[test]
fn c11_lengths_must_agree() {
    reusable("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok", 200, "ok");
    reusable("HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\n\r\nok", 200, "ok");
    for value in
        ["2\r\nContent-Length: 3", "2, 3", "+2", "-1", "18446744073709551616", "", "2,", "0x2", "2 2", "\u{b2}"]
    {
        fault(&format!("HTTP/1.1 200 OK\r\nContent-Length: {value}\r\n\r\nok"), Fault::BadLength);
    }
    last("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", 200, "ok");
}

#[test]
fn what_rules_out_another_request() {
    for connection in ["close", "Close", "keep-alive, CLOSE", "x,close ,y", "keep-alive\r\nConnection: close"] {
        let input = format!("HTTP/1.1 200 OK\r\nConnection: {connection}\r\nContent-Length: 1\r\n\r\na");
        last(&input, 200, "a");
    }
    last("HTTP/1.0 200 OK\r\nContent-Length: 1\r\nConnection: keep-alive\r\n\r\na", 200, "a");
    last("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nab", 200, "a");
    last("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nHTTP/1.1 500", 200, "");
    reusable("HTTP/1.1 200 OK\r\nConnection: closed\r\nContent-Length: 1\r\n\r\na", 200, "a");
}

#[test]
fn interim_responses_are_skipped() {
    let interims = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\nContent-Length: 9\r\n\r\n";
    reusable(&format!("{interims}HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na"), 200, "a");
    check(interims.as_bytes(), false, Ok((None, vec![], false, false, false)));
    let many = "HTTP/1.1 102 Processing\r\n\r\n".repeat(INTERIM_LIMIT);
    reusable(&format!("{many}HTTP/1.1 204 -\r\n\r\n"), 204, "");
    fault(&format!("{many}HTTP/1.1 102 -\r\n\r\n"), Fault::TooManyInterims);
    fault("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", Fault::SwitchingProtocols);
}

#[test]
fn c14_large_and_odd_heads() {
    let head = |lines: String| format!("HTTP/1.1 200 OK\r\n{lines}Content-Length: 1\r\n\r\na");
    reusable(&head("A: 1\r\n".repeat(HEADER_LINES - 1)), 200, "a");
    fault(&head("A: 1\r\n".repeat(HEADER_LINES)), Fault::TooManyLines);
    reusable(&head(format!("Server: {}\r\n", "x".repeat(60_000))), 200, "a");
    fault(&head(format!("Server: {}\r\n", "x".repeat(HEAD_LIMIT))), Fault::HeadTooLarge);
    fault(&format!("HTTP/1.1 200 {}", "x".repeat(HEAD_LIMIT)), Fault::HeadTooLarge);
    let odd =
        b"HTTP/1.1 200 OK\r\nX-A: caf\xe9\r\nLocation: \xff\xfe\r\nRetry-After: \xa0\r\nContent-Length: 0\r\n\r\n";
    check(odd, false, Ok((Some(200), vec![], false, true, true)));
}

#[test]
fn what_is_no_http_is_told_at_once() {
    for input in [
        "SSH-2.0-OpenSSH_9.6",
        "ICY 200 OK\r\n\r\n",
        "HTTP/2 200\r\n\r\n",
        "HTTP/1.1\r\n\r\n",
        "<html>",
        "\0\0\x12\x04\0\0\0\0\0",
    ] {
        fault(input, Fault::NotHttp);
    }
    for input in ["HTTP/1.1 20\r\n\r\n", "HTTP/1.1 abc\r\n\r\n", "HTTP/1.1 099 -\r\n\r\n"] {
        fault(input, Fault::BadHead);
    }
    check(b"HTTP/1.1 200 OK\r\nContent-Le", true, Ok((None, vec![], false, false, true)));
}

#[test]
fn s08_retry_after_counts_only_once() {
    let retry_after = |lines: &str| {
        let mut framing = ResponseFraming::new();
        framing.feed(format!("HTTP/1.1 503 -\r\n{lines}\r\n").as_bytes()).unwrap();
        framing.head().unwrap().retry_after.clone()
    };
    assert_eq!(retry_after("Retry-After: 120\r\n").as_deref(), Some("120"));
    assert_eq!(
        retry_after("retry-after:  Fri, 31 Dec 1999 23:59:59 GMT \r\n").as_deref(),
        Some("Fri, 31 Dec 1999 23:59:59 GMT")
    );
    assert_eq!(retry_after("Retry-After: 120\r\nRetry-After: 120\r\n"), None);
    assert_eq!(retry_after("Retry-After: caf\u{e9}\r\n"), None);
    assert_eq!(retry_after(&format!("Retry-After: {}\r\n", "1".repeat(65))), None);
    assert_eq!(retry_after(""), None);
}

#[test]
fn c12_c13_long_bodies_are_not_read_to_their_end() {
    let feed = |head: &str, body: usize| {
        let mut framing = ResponseFraming::new();
        framing.feed(head.as_bytes()).unwrap();
        framing.feed(&b"x".repeat(body)).unwrap();
        (framing.kept().len(), framing.is_truncated(), framing.is_done(), framing.is_reusable())
    };
    // Exactly the excerpt, and one more, of a body that is worth reading for the sake of the connection.
    assert_eq!(feed("HTTP/1.1 200 -\r\nContent-Length: 1024\r\n\r\n", 1024), (1024, false, true, true));
    assert_eq!(feed("HTTP/1.1 200 -\r\nContent-Length: 1025\r\n\r\n", 1025), (1024, true, true, true));
    assert_eq!(feed("HTTP/1.1 200 -\r\nContent-Length: 16384\r\n\r\n", 2000), (1024, true, false, true));
    assert_eq!(feed("HTTP/1.1 200 -\r\nContent-Length: 16384\r\n\r\n", 16384), (1024, true, true, true));
    // And of bodies that are not.
    assert_eq!(feed("HTTP/1.1 200 -\r\nContent-Length: 3000000\r\n\r\n", 1025), (1024, true, true, false));
    assert_eq!(feed("HTTP/1.1 200 -\r\n\r\n", 1025), (1024, true, true, false));
    assert_eq!(feed("HTTP/1.1 200 -\r\nTransfer-Encoding: chunked\r\n\r\nfffff\r\n", 16385), (1024, true, true, false));
    // A body that breaks off is kept as far as it came.
    check(b"HTTP/1.1 200 -\r\nContent-Length: 9\r\n\r\nabc", true, Ok((Some(200), "abc".into(), true, false, true)));
    let broken = b"HTTP/1.1 200 -\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcdef";
    check(broken, false, Ok((Some(200), "abc".into(), true, false, true)));
}

proptest! {
    /// Whatever comes, in whatever pieces: no panic, bounded memory, and the same outcome.
    #[test]
    fn cutting_changes_nothing(
        start in prop::sample::select(vec!["", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 100 -\r\n\r\nHTTP/1.1 200 OK\r\n", "HTTP/1.0 500\n"]),
        lines in prop::collection::vec(prop::sample::select(vec![
            "Content-Length: 3\r\n", "Content-Length: 0\r\n", "Transfer-Encoding: chunked\r\n", "Connection: close\r\n",
            "X: \t\r\n", "\r\n", "\n", "abc", "3\r\nabc\r\n", "0\r\n\r\n", ": \r\n", "HTTP/1.1 204 -\r\n",
        ]), 0..8),
        noise in prop::collection::vec(any::<u8>(), 0..20),
        cuts in prop::collection::vec(1_usize..30, 1..40),
    ) {
        let mut input = [start.as_bytes(), lines.concat().as_bytes()].concat();
        input.extend(noise);
        let whole = read(&input, input.len().max(1), true);
        let mut framing = ResponseFraming::new();
        let (mut rest, mut cuts, mut outcome) = (&input[..], cuts.iter().cycle(), Ok(()));
        while !rest.is_empty() && outcome.is_ok() {
            let (part, after) = rest.split_at(rest.len().min(*cuts.next().unwrap()));
            (rest, outcome) = (after, framing.feed(part));
            prop_assert!(framing.kept().len() <= EXCERPT_BYTES && framing.partial.len() <= HEAD_LIMIT);
        }
        match whole {
            Err(fault) => prop_assert_eq!(outcome, Err(fault)),
            Ok((status, kept, ..)) => {
                prop_assert_eq!(outcome, Ok(()));
                prop_assert_eq!(framing.head().map(|head| head.status), status);
                prop_assert_eq!(framing.kept(), kept);
            }
        }
    }
}
