//! What an endpoint's attempts came to, from their ends until the actor takes it.
//!
//! Receivers that hang are given up together: a hundred endpoints with 16 attempts each are 1,600 ends within a few
//! milliseconds. Worked up at once, by every thread there is, they would hold up whoever has a receiver that answers (S19).
//! So for slow failures only a few actors at a time are woken: they have the *floor*. Whatever else of the same endpoint ends
//! until its turn comes is heard with it, judged in one go and recorded in one transaction. An actor that is woken by anything
//! else hears what lies here before it decides, so it never decides without what is known.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::domain::attempt::Attempt;
use crate::domain::ids::DeliveryNo;

/// Nobody waits longer for the floor than this: then there are so many that waiting helps nobody.
const PATIENCE: Duration = Duration::from_millis(250);

/// One attempt's end.
pub struct AttemptEnded {
    pub delivery: DeliveryNo,
    pub attempt: Attempt,
    /// The wall clock.
    pub wall_secs: i64,
    /// It was older than a second.
    pub slow: bool,
}

/// Where the ends of one endpoint's attempts lie. Clones are the same one.
#[derive(Clone, Default)]
pub struct Ends(Rc<RefCell<Inside>>);

#[derive(Default)]
struct Inside {
    ended: Vec<AttemptEnded>,
    /// A message to the actor is on its way.
    told: bool,
    /// Somebody waits for the floor to send one.
    waiter: bool,
    /// So many attempts are older than a second, those that lie here included.
    slow: usize,
}

/// What whoever has put an end down does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The actor hears of it with others.
    Nothing,
    /// Tell the actor.
    Tell,
    /// Wait for the floor, then tell the actor if [`Ends::has_floor`] says so.
    WaitForFloor,
}

impl Ends {
    /// Puts an end down. `patient`: it may wait for the floor.
    pub fn put(&self, ended: AttemptEnded, patient: bool) -> Next {
        let mut inside = self.0.borrow_mut();
        inside.ended.push(ended);
        if inside.told || patient && inside.waiter {
            return Next::Nothing;
        }
        if patient {
            inside.waiter = true;
            return Next::WaitForFloor;
        }
        inside.told = true;
        Next::Tell
    }

    /// Whoever waited has the floor. False if there is nothing left that the actor does not know of.
    pub fn has_floor(&self) -> bool {
        let mut inside = self.0.borrow_mut();
        inside.waiter = false;
        let tell = !inside.told && !inside.ended.is_empty();
        inside.told |= tell;
        tell
    }

    /// Takes all of them, in the order in which they came; the actor's side, before it decides anything.
    pub fn take(&self) -> Vec<AttemptEnded> {
        let mut inside = self.0.borrow_mut();
        let ended = std::mem::take(&mut inside.ended);
        inside.slow -= ended.iter().filter(|ended| ended.slow).count();
        ended
    }

    /// The message has come.
    pub fn message_came(&self) {
        self.0.borrow_mut().told = false;
    }

    /// An attempt is older than a second now; its end will say so.
    pub fn one_became_slow(&self) {
        self.0.borrow_mut().slow += 1;
    }

    /// Whether any attempt of which the actor has not heard the end is older than a second.
    pub fn has_slow(&self) -> bool {
        self.0.borrow().slow > 0
    }
}

/// So many actors at a time are woken for slow failures.
pub struct Floor(Semaphore);

impl Floor {
    /// For this many; 0: for all who ask.
    pub fn new(actors: usize) -> Floor {
        Floor(Semaphore::new(if actors == 0 { Semaphore::MAX_PERMITS } else { actors }))
    }

    /// Waits for the floor, in the order in which it was asked for; it is held until the permit is dropped. `None` if that
    /// took too long.
    pub async fn take(&self) -> Option<SemaphorePermit<'_>> {
        // It is never closed.
        tokio::time::timeout(PATIENCE, self.0.acquire()).await.ok()?.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::attempt::{Finding, Report, Timing, Trigger};
    use crate::domain::time::{Span, Timestamp};

    fn ended(no: i64) -> AttemptEnded {
        let finding = Finding::Local { reason: "" };
        let report = Report { finding, timing: Timing::default(), remote_addr: None, took: Span::ZERO };
        let (at, url) = (Timestamp::MIN, "http://a/".into());
        let attempt = Attempt { trigger: Trigger::Schedule, started_at: at, ended_at: at, url, report };
        AttemptEnded { delivery: DeliveryNo(no), attempt, wall_secs: 0, slow: false }
    }

    fn numbers(ends: &Ends) -> Vec<i64> {
        ends.take().iter().map(|ended| ended.delivery.0).collect()
    }

    #[test]
    fn s19_slow_failures_are_heard_together_when_the_first_has_the_floor() {
        let ends = Ends::default();
        assert_eq!(ends.put(ended(1), true), Next::WaitForFloor);
        assert_eq!(ends.put(ended(2), true), Next::Nothing);
        assert!(ends.has_floor());
        assert_eq!(ends.put(ended(3), true), Next::Nothing, "the message is on its way");
        assert_eq!(numbers(&ends), [1, 2, 3]);
        ends.message_came();
        assert_eq!(ends.put(ended(4), true), Next::WaitForFloor, "the next begins anew");
    }

    #[test]
    fn what_is_not_patient_waits_for_nobody_and_takes_the_others_along() {
        let ends = Ends::default();
        assert_eq!(ends.put(ended(1), true), Next::WaitForFloor);
        assert_eq!(ends.put(ended(2), false), Next::Tell);
        assert_eq!(ends.put(ended(3), false), Next::Nothing);
        assert_eq!(numbers(&ends), [1, 2, 3]);
        ends.message_came();
        assert!(!ends.has_floor(), "all is heard");
    }

    #[test]
    fn one_of_an_endpoint_waits_for_the_floor() {
        let ends = Ends::default();
        assert_eq!(ends.put(ended(1), true), Next::WaitForFloor);
        // The actor was woken by something else.
        assert_eq!(numbers(&ends), [1]);
        assert_eq!(ends.put(ended(2), true), Next::Nothing, "who waits will tell of this one");
        assert!(ends.has_floor());
    }

    #[test]
    fn an_attempt_is_slow_until_its_end_is_heard() {
        let ends = Ends::default();
        ends.one_became_slow();
        ends.put(AttemptEnded { slow: true, ..ended(1) }, true);
        ends.put(ended(2), true);
        assert!(ends.has_slow());
        ends.take();
        assert!(!ends.has_slow());
    }

    #[actix_web::test]
    async fn the_floor_is_for_a_few_and_nobody_waits_for_ever() {
        let (floor, all) = (Floor::new(1), Floor::new(0));
        let held = floor.take().await;
        assert!(held.is_some() && floor.take().await.is_none());
        drop(held);
        assert!(floor.take().await.is_some());
        let _many = (all.take().await, all.take().await);
    }
}
