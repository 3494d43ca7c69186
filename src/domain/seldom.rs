//! What happens to thousands at once is told as one thing: a line now and then, with how many it stands for (C70).

use super::time::Span;

/// A line so often, as long as it goes on.
pub const TELL_EVERY: Span = Span::from_secs(10);

/// When something was told last, and how often it happened since.
#[derive(Debug, Default)]
pub struct Seldom {
    last: Option<Span>,
    untold: u64,
}

impl Seldom {
    /// It happened so many times more. `now` is real time since any beginning.
    ///
    /// Returns what is to be added to the line, if it is time for one: how many have been left out since the last.
    pub fn turn(&mut self, now: Span, times: u64) -> Option<String> {
        if self.last.is_some_and(|last| now - last < TELL_EVERY) {
            self.untold += times;
            return None;
        }
        self.last = Some(now);
        Some(match std::mem::take(&mut self.untold) {
            0 => String::new(),
            untold => format!(" ({untold} more since the last of these lines)"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c70_a_thousand_of_a_kind_are_a_line_every_ten_seconds() {
        let mut seldom = Seldom::default();
        assert_eq!(seldom.turn(Span::from_secs(5), 1), Some(String::new()));
        for step in 0..1_000 {
            assert_eq!(seldom.turn(Span::from_millis(5_000 + step * 9), 2), None);
        }
        let more = " (2000 more since the last of these lines)";
        assert_eq!(seldom.turn(Span::from_secs(15), 1).as_deref(), Some(more));
        assert_eq!(seldom.turn(Span::from_secs(40), 1), Some(String::new()), "nothing was left out");
    }
}
