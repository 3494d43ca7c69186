//! What happens to thousands at once is told as one thing: a line now and then, with how many there were between (C70).

use std::collections::HashMap;

use super::time::Span;

/// A line so often, as long as it goes on.
pub const TELL_EVERY: Span = Span::from_secs(10);

/// When each kind of thing was told last, and how often it happened since. Kinds are fixed texts, so there are few.
#[derive(Debug, Default)]
pub struct Seldom(HashMap<&'static str, Told>);

#[derive(Debug)]
struct Told {
    last: Span,
    untold: u64,
}

impl Seldom {
    /// One of a kind happened. `now` is real time since any beginning.
    ///
    /// Returns what is to be added to its line, if it is time for one: how many have been left out since the last.
    pub fn turn(&mut self, kind: &'static str, now: Span) -> Option<String> {
        let Some(told) = self.0.get_mut(kind) else {
            self.0.insert(kind, Told { last: now, untold: 0 });
            return Some(String::new());
        };
        if now - told.last < TELL_EVERY {
            told.untold += 1;
            return None;
        }
        told.last = now;
        Some(match std::mem::take(&mut told.untold) {
            0 => String::new(),
            untold => format!(" ({untold} more like it since the last such line)"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c70_a_thousand_of_a_kind_are_a_line_every_ten_seconds() {
        let mut seldom = Seldom::default();
        assert_eq!(seldom.turn("full", Span::from_secs(5)), Some(String::new()));
        for step in 0..1_000 {
            assert_eq!(seldom.turn("full", Span::from_millis(5_000 + step * 9)), None);
        }
        assert_eq!(seldom.turn("other", Span::from_secs(6)), Some(String::new()), "it hides nothing else");
        let more = " (1000 more like it since the last such line)";
        assert_eq!(seldom.turn("full", Span::from_secs(15)).as_deref(), Some(more));
        assert_eq!(seldom.turn("full", Span::from_secs(40)), Some(String::new()), "nothing was left out");
    }
}
