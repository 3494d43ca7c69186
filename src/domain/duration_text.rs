//! Durations as text: `[Nd][Nh][Nm][Ns][Nms]`, as the API, the settings and the command line read and print them
//! (`api.md`, first section).

use super::time::Span;

/// The units in the order in which they must stand, with their lengths in microseconds. A part's unit is all the
/// letters that follow its digits, so `m` and `ms` are never confused.
const UNITS: [(&str, u64); 5] =
    [("d", 86_400_000_000), ("h", 3_600_000_000), ("m", 60_000_000), ("s", 1_000_000), ("ms", 1_000)];

/// Reads a duration: each part at most once, in the order `d h m s ms`, at least one part, nothing else (no sign, no
/// fraction, no space, no other case). Errors are whole sentences for the person who wrote the text.
pub fn parse_duration(text: &str) -> Result<Span, String> {
    const FORM: &str = "A duration is written as [Nd][Nh][Nm][Ns][Nms], for example 4h15m30s or 500ms";
    let mut rest = text;
    let mut allowed = &UNITS[..];
    let mut micros: u64 = 0;
    while !rest.is_empty() {
        let (digits, after) = split_while(rest, |byte| byte.is_ascii_digit());
        let (unit, after) = split_while(after, |byte| byte.is_ascii_alphabetic());
        if digits.is_empty() {
            return Err(format!("{FORM}."));
        }
        let Some(at) = allowed.iter().position(|(name, _)| *name == unit) else {
            return Err(match UNITS.iter().any(|(name, _)| *name == unit) {
                true => format!("{FORM}: each unit once, in this order."),
                false if unit.is_empty() => format!("{FORM}: a number needs its unit."),
                false => format!("{FORM}: no other unit is known."),
            });
        };
        // Checked, not saturating: a person who writes such a number has made a mistake and is better told.
        micros = (digits.parse::<u64>().ok())
            .and_then(|count| count.checked_mul(allowed[at].1))
            .and_then(|part| micros.checked_add(part))
            .filter(|sum| i64::try_from(*sum).is_ok())
            .ok_or("The duration is too long.")?;
        allowed = &allowed[at + 1..];
        rest = after;
    }
    if allowed.len() == UNITS.len() {
        return Err(format!("{FORM}."));
    }
    Ok(Span::from_micros(micros as i64))
}

/// Prints a duration with no part that is zero; days only from two days on (`24h`, `36h`, `2d2h`, `3d`), zero as `0s`.
/// What is shorter than a millisecond is cut off.
pub fn format_duration(span: Span) -> String {
    let mut micros = span.as_micros() as u64;
    let units = match span < Span::DAY + Span::DAY {
        true => &UNITS[1..],
        false => &UNITS[..],
    };
    let mut text = String::new();
    for (unit, length) in units {
        let count = micros / length;
        micros %= length;
        if count > 0 {
            text.push_str(&count.to_string());
            text.push_str(unit);
        }
    }
    if text.is_empty() {
        text.push_str("0s");
    }
    text
}

/// The longest start of `text` made of such bytes, and the rest. Cuts between characters, as only ASCII is tested for.
fn split_while(text: &str, wanted: impl Fn(u8) -> bool) -> (&str, &str) {
    let end = text.bytes().position(|byte| !wanted(byte)).unwrap_or(text.len());
    text.split_at(end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_each_part_once_and_in_order() {
        let check = |text: &str, micros: Option<i64>| {
            assert_eq!(
                parse_duration(text).ok(),
                micros.map(Span::from_micros),
                "{text:?} → {:?}",
                parse_duration(text)
            );
        };
        check("4h15m30s", Some(15_330_000_000));
        check("500ms", Some(500_000));
        check("1d1h1m1s1ms", Some(90_061_001_000));
        check("0s", Some(0));
        check("0d", Some(0));
        check("007s", Some(7_000_000));
        check("90m", Some(5_400_000_000));
        check("2m5ms", Some(120_005_000));
        for bad in [
            "",
            "5",
            "s",
            "-5s",
            "+5s",
            "1.5h",
            "5 s",
            " 5s",
            "5s ",
            "5S",
            "5m5h",
            "5s5s",
            "1ms1s",
            "5us",
            "5w",
            "5µs",
            "٥s",
            "h5",
            "5s5",
            "1h-5m",
            "18446744073709551616s",
            "106751992d",
            "106751991d23h",
        ] {
            check(bad, None);
        }
        // The longest that a number of microseconds holds.
        check("106751991d", Some(106_751_991 * 86_400_000_000));
    }

    #[test]
    fn prints_the_fewest_parts() {
        let check = |micros: i64, text: &str| assert_eq!(format_duration(Span::from_micros(micros)), text);
        const HOUR: i64 = 3_600_000_000;
        check(0, "0s");
        check(999, "0s");
        check(1_500, "1ms");
        check(30_000_000, "30s");
        check(1_500_000, "1s500ms");
        check(90_000_000, "1m30s");
        check(24 * HOUR, "24h");
        check(36 * HOUR, "36h");
        check(48 * HOUR - 1_000, "47h59m59s999ms");
        check(48 * HOUR, "2d");
        check(50 * HOUR, "2d2h");
        check(72 * HOUR, "3d");
        check(i64::MAX, "106751991d4h54s775ms");
    }

    proptest! {
        #[test]
        fn what_is_printed_reads_back(millis in 0..i64::MAX as u64 / 1_000) {
            let span = Span::from_millis(millis);
            prop_assert_eq!(parse_duration(&format_duration(span)), Ok(span));
        }

        #[test]
        fn no_text_panics(text in "([0-9]{0,25}(d|h|m|s|ms|µ|.)?){0,7}") {
            if let Ok(span) = parse_duration(&text) {
                let again = parse_duration(&format_duration(span)).unwrap();
                prop_assert_eq!(again, span);
            }
        }
    }
}
