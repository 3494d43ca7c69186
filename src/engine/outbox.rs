//! Attempts that are about to begin, in the order in which they were decided (S3). The events of some have to be read
//! first; those behind them wait for that, so that nobody overtakes.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::gate::Pass;
use crate::domain::content::Content;
use crate::domain::dispatcher::Start;
use crate::domain::ids::{DeliveryNo, EventNo};

/// Attempts not yet begun.
#[derive(Default)]
pub struct Outbox {
    line: VecDeque<Unbegun>,
    /// Events of those in line that nobody has asked for.
    to_read: Vec<EventNo>,
}

struct Unbegun {
    start: Start,
    content: Option<Arc<Content>>,
    /// It counts in the installation's cap already, or all that is read would begin at once beyond it.
    pass: Pass,
}

impl Outbox {
    pub fn push(&mut self, start: Start, pass: Pass) {
        let content = start.delivery.content.clone();
        if content.is_none() {
            self.to_read.push(start.delivery.event);
        }
        self.line.push_back(Unbegun { start, content, pass });
    }

    /// The next attempt, if it can begin.
    pub fn pop(&mut self) -> Option<(Start, Arc<Content>, Pass)> {
        let next = self.line.pop_front_if(|next| next.content.is_some())?;
        next.content.map(|content| (next.start, content, next.pass))
    }

    /// Everything is decided anew: who was to begin.
    pub fn take_back(&mut self) -> Vec<DeliveryNo> {
        self.to_read.clear();
        self.line.drain(..).map(|unbegun| unbegun.start.delivery.no).collect()
    }

    /// The events to ask for now.
    pub fn take_to_read(&mut self) -> Vec<EventNo> {
        std::mem::take(&mut self.to_read)
    }

    /// The events that were asked for, as far as they could be read. If one is missing, its attempt and all behind it
    /// are given back: the first of them could not begin, the others only waited for it.
    pub fn read(&mut self, asked: &[EventNo], mut contents: HashMap<EventNo, Arc<Content>>) -> Vec<DeliveryNo> {
        for unbegun in self.line.iter_mut().filter(|unbegun| unbegun.content.is_none()) {
            unbegun.content = contents.remove(&unbegun.start.delivery.event);
        }
        let missing = |one: &Unbegun| one.content.is_none() && asked.contains(&one.start.delivery.event);
        let Some(first) = self.line.iter().position(missing) else { return Vec::new() };
        self.line.drain(first..).map(|unbegun| unbegun.start.delivery.no).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::gate::Gate;
    use super::*;
    use crate::domain::attempt::Trigger;
    use crate::domain::delivery::Waiting;
    use crate::domain::policy::{Policy, Preset};
    use crate::domain::time::Timestamp;

    fn content() -> Arc<Content> {
        Arc::new(Content::new("evt".into(), "type".into(), Timestamp::MIN, bytes::Bytes::new()))
    }

    fn outbox(with_content: &[bool]) -> Outbox {
        let mut outbox = Outbox::default();
        for (no, &here) in (1..).zip(with_content) {
            let accepted = Waiting::accepted(DeliveryNo(no), EventNo(no), Timestamp::MIN);
            let delivery = Waiting { content: here.then(content), ..accepted };
            let pass = Gate::new(1).enter().unwrap();
            let policy = Arc::new(Policy::preset(Preset::Orbit));
            outbox.push(Start { delivery, trigger: Trigger::Schedule, probe_of: None, policy }, pass);
        }
        outbox
    }

    fn pop_all(outbox: &mut Outbox) -> Vec<i64> {
        std::iter::from_fn(|| outbox.pop()).map(|(start, ..)| start.delivery.no.0).collect()
    }

    #[test]
    fn s03_nobody_overtakes_an_attempt_whose_event_is_being_read() {
        let mut outbox = outbox(&[true, false, true, false, true]);
        assert_eq!(pop_all(&mut outbox), [1]);
        let asked = outbox.take_to_read();
        assert_eq!(asked, [EventNo(2), EventNo(4)]);
        assert!(outbox.take_to_read().is_empty());
        let contents = |of: &[i64]| of.iter().map(|&no| (EventNo(no), content())).collect();
        assert!(outbox.read(&asked[..1], contents(&[2])).is_empty());
        assert_eq!(pop_all(&mut outbox), [2, 3]);
        assert_eq!(outbox.read(&asked[1..], contents(&[])), [DeliveryNo(4), DeliveryNo(5)]);
        assert!(pop_all(&mut outbox).is_empty());
    }

    #[test]
    fn s26_what_has_not_begun_can_be_taken_back() {
        let mut outbox = outbox(&[false, true]);
        assert_eq!(outbox.take_back(), [DeliveryNo(1), DeliveryNo(2)]);
        assert!(outbox.take_to_read().is_empty() && outbox.pop().is_none());
    }
}
