//! The value of a `Retry-After` field (S8, RFC 9110 §10.2.3).

use super::time::Span;

/// How long the receiver asks us to wait, from `wall_now_secs`, the wall clock in seconds since the Unix epoch (the
/// receiver's dates are wall time, not engine time).
///
/// Reads both forms: whole seconds, saturating however many digits there are, and an HTTP-date in any of its three
/// formats. `None` for a date that is past or just now, and for anything else (C42). The caller sees to the limits of
/// S8, and to a field that came more than once.
pub fn parse(value: &str, wall_now_secs: i64) -> Option<Span> {
    let value = value.trim_matches([' ', '\t']);
    if value.is_empty() {
        return None;
    }
    if value.bytes().all(|byte| byte.is_ascii_digit()) {
        // Only too many digits can fail here.
        return Some(value.parse().map_or(Span::MAX, Span::from_secs));
    }
    let date = httpdate::parse_http_date(value).ok()?;
    let date = date.duration_since(std::time::UNIX_EPOCH).ok()?.as_secs();
    let wait = i128::from(date) - i128::from(wall_now_secs);
    (wait > 0).then(|| Span::from_secs(u64::try_from(wait).unwrap_or(u64::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Wed, 21 Oct 2015 07:28:00 GMT.
    const NOW: i64 = 1_445_412_480;

    /// C42.
    #[test]
    fn s08_reads_both_forms_and_ignores_the_rest() {
        let check =
            |value: &str, secs: Option<u64>| assert_eq!(parse(value, NOW), secs.map(Span::from_secs), "{value:?}");
        check("0", Some(0));
        check("120", Some(120));
        check(" 120\t", Some(120));
        check("007", Some(7));
        check("9999999999", Some(9_999_999_999));
        check("999999999999999999999999999999", Some(u64::MAX));
        check("Wed, 21 Oct 2015 07:28:30 GMT", Some(30));
        check("Wednesday, 21-Oct-15 07:28:30 GMT", Some(30));
        check("Wed Oct 21 07:28:30 2015", Some(30));
        check("Sun Nov  1 07:28:00 2015", Some(11 * 86_400));
        check("Fri, 31 Dec 9999 23:59:59 GMT", Some(253_402_300_799 - NOW as u64));
        check("Wed, 21 Oct 2015 07:28:00 GMT", None);
        check("Wed, 21 Oct 2015 07:27:59 GMT", None);
        check("Sun, 06 Nov 1994 08:49:37 GMT", None);
        for garbage in [
            "",
            " ",
            "soon",
            "-5",
            "+5",
            "1.5",
            "120x",
            "120 s",
            "1 2",
            "1,2",
            "120, 120",
            "0x10",
            "１２０",
            "é",
            "\u{a0}5",
            "Wed, 21 Oct 2015",
            "Wed, 32 Oct 2015 07:28:30 GMT",
            "Wed, 21 Oct 2015 07:28:30 +0200",
            "2015-10-21T07:28:30Z",
        ] {
            check(garbage, None);
        }
    }

    #[test]
    fn s08_a_clock_that_is_far_off_does_not_overflow() {
        let date = "Fri, 31 Dec 9999 23:59:59 GMT";
        assert_eq!(parse(date, i64::MIN), Some(Span::MAX));
        assert_eq!(parse(date, i64::MAX), None);
    }

    proptest! {
        #[test]
        fn no_value_panics(
            value in "((Sun|Monday),? )?[0-9 ]{0,3}[ -]?(Nov)?[ -]?[0-9]{0,4} [0-9]{2}(:[0-9]{2}){2} ?(GMT|[0-9]{4})?|.*",
            now: i64,
        ) {
            parse(&value, now);
        }

        #[test]
        fn s08_dates_of_the_preferred_format(at in 0..253_402_300_800_i64, now in 0..253_402_300_800_i64) {
            let date = std::time::UNIX_EPOCH + std::time::Duration::from_secs(at as u64);
            let wait = u64::try_from(at - now).ok().filter(|wait| *wait > 0).map(Span::from_secs);
            prop_assert_eq!(parse(&httpdate::fmt_http_date(date), now), wait);
        }
    }
}
