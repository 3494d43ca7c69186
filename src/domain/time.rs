//! Instants and spans of *engine time* (rule S25): plain numbers of microseconds, so that one value serves the code,
//! the database column and the simulation. Nothing here reads a clock; `crate::clock` does.

use std::fmt;
use std::ops::{Add, Sub};

/// An instant of engine time, in microseconds since the Unix epoch. Arithmetic saturates (S9): no schedule, however
/// absurd, can wrap into the past.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The earliest instant; older than anything that can be stored.
    pub const MIN: Timestamp = Timestamp(i64::MIN);
    /// An instant that never comes.
    pub const MAX: Timestamp = Timestamp(i64::MAX);

    /// From microseconds since the Unix epoch.
    pub const fn from_micros(micros: i64) -> Self {
        Timestamp(micros)
    }

    /// Microseconds since the Unix epoch.
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// Whole milliseconds since the Unix epoch.
    pub const fn as_millis(self) -> i64 {
        self.0.div_euclid(1_000)
    }

    /// Whole seconds since the Unix epoch (the unit of signature timestamps).
    pub const fn as_secs(self) -> i64 {
        self.0.div_euclid(1_000_000)
    }

    /// RFC 3339 in UTC with milliseconds: `2026-09-03T12:04:01.412Z` (the `<Prefix>-Received-At` header).
    pub fn to_millis_text(self) -> String {
        let mut text = self.to_string();
        text.replace_range(text.len() - 4..text.len() - 1, "");
        text
    }

    /// How long from `earlier` until `self`; zero if `earlier` is in fact later.
    pub fn since(self, earlier: Timestamp) -> Span {
        Span(self.0.saturating_sub(earlier.0).max(0))
    }

    /// Parses RFC 3339 with any offset, as the API accepts it. Finer digits than microseconds are cut off.
    pub fn parse(text: &str) -> Option<Timestamp> {
        // jiff reads more of ISO 8601 than that: no dashes, no seconds, offsets of hours, annotations in brackets.
        if !is_rfc_3339(text) {
            return None;
        }
        let at: jiff::Timestamp = text.parse().ok()?;
        Some(Timestamp(at.as_microsecond()))
    }
}

/// Whether a text has the shape of RFC 3339 §5.6, which allows lower case, and a space for the `T`.
fn is_rfc_3339(text: &str) -> bool {
    let fits = |bytes: &[u8], shape: &str| {
        let same = |(byte, want): (&u8, u8)| match want {
            b'0' => byte.is_ascii_digit(),
            b'T' => matches!(byte, b'T' | b't' | b' '),
            b'+' => matches!(byte, b'+' | b'-'),
            _ => *byte == want,
        };
        bytes.len() == shape.len() && bytes.iter().zip(shape.bytes()).all(same)
    };
    let Some((date_time, mut rest)) = text.as_bytes().split_at_checked("0000-00-00T00:00:00".len()) else {
        return false;
    };
    if let Some(fraction) = rest.strip_prefix(b".") {
        let digits = fraction.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits == 0 {
            return false;
        }
        rest = &fraction[digits..];
    }
    // jiff's offsets go up to 25:59.
    let is_offset =
        matches!(rest, b"Z" | b"z") || fits(rest, "+00:00") && rest[1..3] < b"24"[..] && rest[4..6] < b"60"[..];
    fits(date_time, "0000-00-00T00:00:00") && is_offset
}

/// RFC 3339 in UTC with six digits: `2026-09-03T12:04:01.412000Z`.
impl fmt::Display for Timestamp {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        use jiff::fmt::{StdFmtWrite, temporal::DateTimePrinter};
        const PRINTER: DateTimePrinter = DateTimePrinter::new().precision(Some(6));
        // Instants outside jiff's years (−9999 to 9999) can only come from saturated arithmetic; show the nearest.
        let micros = self.0.clamp(jiff::Timestamp::MIN.as_microsecond(), jiff::Timestamp::MAX.as_microsecond());
        let at = jiff::Timestamp::from_microsecond(micros).map_err(|_| fmt::Error)?;
        PRINTER.print_timestamp(&at, StdFmtWrite(out)).map_err(|_| fmt::Error)
    }
}

impl serde::Serialize for Timestamp {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

/// A length of engine time, in microseconds; never negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(i64);

impl Span {
    pub const ZERO: Span = Span(0);
    pub const MAX: Span = Span(i64::MAX);
    pub const MILLISECOND: Span = Span(1_000);
    pub const SECOND: Span = Span(1_000_000);
    pub const MINUTE: Span = Span(60_000_000);
    pub const HOUR: Span = Span(3_600_000_000);
    pub const DAY: Span = Span(86_400_000_000);

    /// From microseconds; a negative number counts as zero.
    pub const fn from_micros(micros: i64) -> Self {
        Span(if micros < 0 { 0 } else { micros })
    }

    /// From milliseconds, saturating.
    pub const fn from_millis(millis: u64) -> Self {
        if millis > (i64::MAX / 1_000) as u64 { Span::MAX } else { Span(millis as i64 * 1_000) }
    }

    /// From seconds, saturating.
    pub const fn from_secs(secs: u64) -> Self {
        if secs > (i64::MAX / 1_000_000) as u64 { Span::MAX } else { Span(secs as i64 * 1_000_000) }
    }

    pub const fn as_micros(self) -> i64 {
        self.0
    }

    pub const fn as_millis(self) -> i64 {
        self.0 / 1_000
    }

    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// `self` × `factor`, saturating; a factor that is negative or not a number gives zero. Rounds to whole microseconds
    /// upwards, so that a jittered delay is never shorter than its rung (S9).
    pub fn scaled(self, factor: f64) -> Span {
        Span::from_micros((self.0 as f64 * factor).ceil() as i64)
    }

    pub const fn to_std(self) -> std::time::Duration {
        std::time::Duration::from_micros(self.0 as u64)
    }

    /// From a standard duration, saturating.
    pub fn from_std(duration: std::time::Duration) -> Span {
        Span(i64::try_from(duration.as_micros()).unwrap_or(i64::MAX))
    }
}

impl Add<Span> for Timestamp {
    type Output = Timestamp;
    fn add(self, span: Span) -> Timestamp {
        Timestamp(self.0.saturating_add(span.0))
    }
}

impl Sub<Span> for Timestamp {
    type Output = Timestamp;
    fn sub(self, span: Span) -> Timestamp {
        Timestamp(self.0.saturating_sub(span.0))
    }
}

impl Add for Span {
    type Output = Span;
    fn add(self, other: Span) -> Span {
        Span(self.0.saturating_add(other.0))
    }
}

impl Sub for Span {
    type Output = Span;
    fn sub(self, other: Span) -> Span {
        Span::from_micros(self.0.saturating_sub(other.0))
    }
}

impl std::iter::Sum for Span {
    fn sum<I: Iterator<Item = Span>>(spans: I) -> Span {
        spans.fold(Span::ZERO, Add::add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_and_parses_rfc_3339() {
        let at = Timestamp::parse("2026-09-03T14:04:01.412+02:00").unwrap();
        assert_eq!(at.to_string(), "2026-09-03T12:04:01.412000Z");
        assert_eq!(at.to_millis_text(), "2026-09-03T12:04:01.412Z");
        assert_eq!(Timestamp::parse(&at.to_string()), Some(at));
        for good in ["2026-09-03t12:04:01z", "2026-09-03 12:04:01.123456789-00:30"] {
            assert!(Timestamp::parse(good).is_some(), "{good}");
        }
        for bad in [
            "",
            "soon",
            "2026-09-03",
            "2026-09-03T12:04:01",
            "2026-13-03T12:04:01Z",
            "2026-09-03T12:04:01Z[UTC]",
            "20260903T120401Z",
            "2026-09-03T12:04+02:00",
            "2026-09-03T12:04:01+02",
            "2026-09-03T12:04:01+0200",
            "2026-09-03T12:04:01.Z",
            "2026-09-03T12:04:01,5Z",
            "2026-09-03T12:04:01+24:00",
            "+002026-09-03T12:04:01Z",
            "2026-09-03T12:04:0\u{661}Z",
        ] {
            assert_eq!(Timestamp::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn arithmetic_saturates() {
        assert_eq!(Timestamp::MAX + Span::DAY, Timestamp::MAX);
        assert_eq!(Span::MAX.scaled(2.0), Span::MAX);
        assert_eq!(Span::DAY.scaled(f64::NAN), Span::ZERO);
        assert_eq!(Span::from_secs(u64::MAX), Span::MAX);
        assert_eq!(Timestamp::MIN.since(Timestamp::MAX), Span::ZERO);
    }
}
