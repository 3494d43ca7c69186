//! Retry schedules (S9) and sets of response statuses (S7): the two small languages a policy is written in.

use std::fmt;

use super::time::Span;

/// How long to wait after each failed attempt of a run.
#[derive(Clone, Debug, PartialEq)]
pub enum Schedule {
    /// These delays, one after the other; empty means a single attempt.
    Ladder(Vec<Span>),
    /// `initial` × `factor`ⁿ, never more than `max_delay`.
    Exponential { initial: Span, factor: f64, retries: u32, max_delay: Span },
    /// `attempts` − 1 delays, each [`TAPER_FACTOR`] times the one before, that sum to `over`.
    Taper { attempts: u32, over: Span },
}

/// How much longer each delay of a taper is than the one before.
pub const TAPER_FACTOR: f64 = 2.0;

impl Schedule {
    /// The delay after the `failed`-th failed attempt (counted from 1), without jitter; `None` at the ladder's end.
    pub fn delay(&self, failed: u32) -> Option<Span> {
        let index = failed.checked_sub(1)?;
        if index >= self.retries() {
            return None;
        }
        Some(match self {
            Schedule::Ladder(delays) => *delays.get(index as usize)?,
            Schedule::Exponential { initial, factor, max_delay, .. } => {
                initial.scaled(factor.powi(index.min(1_000) as i32)).min(*max_delay)
            }
            Schedule::Taper { .. } => self.taper_until(index + 1) - self.taper_until(index),
        })
    }

    /// How many retries follow the first attempt.
    pub fn retries(&self) -> u32 {
        match self {
            Schedule::Ladder(delays) => delays.len() as u32,
            Schedule::Exponential { retries, .. } => *retries,
            Schedule::Taper { attempts, .. } => attempts.saturating_sub(1),
        }
    }

    /// The sum of a taper's first `count` delays, on whole milliseconds: delays are differences of these sums, so that
    /// rounding cannot change what they sum to.
    fn taper_until(&self, count: u32) -> Span {
        let Schedule::Taper { attempts, over } = self else {
            return Span::ZERO;
        };
        let share =
            (TAPER_FACTOR.powi(count as i32) - 1.0) / (TAPER_FACTOR.powi(attempts.saturating_sub(1) as i32) - 1.0);
        Span::from_millis((over.as_millis() as f64 * share).round() as u64)
    }
}

/// A set of final statuses within 300–599, written as codes and ranges: `500-599,429`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatusSet(Vec<(u16, u16)>);

impl StatusSet {
    /// Parses codes and ranges separated by commas; the error is a sentence for the API's caller.
    pub fn parse(text: &str) -> Result<StatusSet, String> {
        let code = |word: &str| {
            let word = word.trim();
            match word.parse::<u16>() {
                Ok(code @ 300..=599) if word.len() == 3 => Ok(code),
                _ => Err(format!("`{word}` is not a status from 300 to 599")),
            }
        };
        let mut ranges = Vec::new();
        for part in text.split(',') {
            let (low, high) = match part.split_once('-') {
                Some((low, high)) => (code(low)?, code(high)?),
                None => (code(part)?, code(part)?),
            };
            if low > high {
                return Err(format!("`{}` ends before it begins", part.trim()));
            }
            ranges.push((low, high));
        }
        Ok(StatusSet(ranges))
    }

    pub fn contains(&self, status: u16) -> bool {
        self.0.iter().any(|&(low, high)| (low..=high).contains(&status))
    }
}

impl fmt::Display for StatusSet {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (low, high)) in self.0.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            write!(out, "{comma}{low}")?;
            if high > low {
                write!(out, "-{high}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s09_a_taper_sums_to_its_span_and_grows_evenly() {
        let taper = Schedule::Taper { attempts: 8, over: Span::from_secs(6 * 3600) };
        let delays: Vec<Span> = (1..).map_while(|n| taper.delay(n)).collect();
        assert_eq!(delays.len(), 7);
        assert_eq!(delays.iter().copied().sum::<Span>(), Span::from_secs(6 * 3600));
        for pair in delays.windows(2) {
            let factor = pair[1].as_secs_f64() / pair[0].as_secs_f64();
            assert!((factor - 2.0).abs() < 0.001, "{factor}");
        }
    }

    #[test]
    fn s09_an_exponential_schedule_is_capped_and_cannot_overflow() {
        let steep = Schedule::Exponential { initial: Span::HOUR, factor: 1e300, retries: 49, max_delay: Span::DAY };
        assert_eq!(steep.delay(1), Some(Span::HOUR));
        assert_eq!(steep.delay(49), Some(Span::DAY));
        assert_eq!(steep.delay(50), None);
        assert_eq!(steep.delay(0), None);
    }

    #[test]
    fn c47_an_empty_ladder_is_one_attempt_and_zero_is_at_once() {
        assert_eq!(Schedule::Ladder(vec![]).delay(1), None);
        assert_eq!(Schedule::Ladder(vec![Span::ZERO]).delay(1), Some(Span::ZERO));
        assert_eq!(Schedule::Taper { attempts: 1, over: Span::HOUR }.delay(1), None);
    }

    #[test]
    fn s07_status_sets_are_read_and_written_back() {
        let set = StatusSet::parse("500-599, 429").unwrap();
        assert_eq!(set.to_string(), "500-599,429");
        assert!(set.contains(500) && set.contains(599) && set.contains(429) && !set.contains(428));
        for bad in ["", "200", "600", "5xx", "500-", "-500", "599-500", "0500", "500,,501", "+500"] {
            assert!(StatusSet::parse(bad).is_err(), "{bad}");
        }
    }
}
