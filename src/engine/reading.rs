//! Events that were read for attempts: in memory once for all endpoints that send them at the same time, and within a
//! budget for the whole process. That nobody has room for an event is a fault of ours (S6).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::domain::content::{ByteBudget, Content};
use crate::domain::ids::EventNo;
use crate::store::Queue;
use crate::store::error::StoreError;

/// Endpoints with attempts older than a second may fill the budget to so many percent: the rest is for those that answer
/// (S19).
const SLOW_PERCENT: usize = 80;

/// What is read for attempts; shared by all actors.
pub struct Reading {
    budget: ByteBudget,
    alive: Mutex<Alive>,
}

/// Events that somebody holds, or held.
#[derive(Default)]
struct Alive {
    events: HashMap<EventNo, Weak<Content>>,
    /// When there are so many, those that nobody holds any more are forgotten.
    clear_at: usize,
}

/// How an endpoint stands that wants an event.
#[derive(Clone, Copy, Debug)]
pub struct Claim {
    /// It has nothing on the wire: one event it gets in any case, or large ones would never go out.
    pub first: bool,
    /// Some of its attempts are older than a second.
    pub slow: bool,
}

impl Reading {
    /// Room for so many bytes, not counting one event for each endpoint.
    pub fn new(bytes: usize) -> Reading {
        Reading { budget: ByteBudget::new(bytes), alive: Mutex::default() }
    }

    /// Reads events; those that somebody holds are not read again. Those that are gone are missing.
    ///
    /// # Errors
    /// If the store does not answer.
    pub async fn read(
        &self,
        queue: &dyn Queue,
        asked: &[EventNo],
    ) -> Result<HashMap<EventNo, Arc<Content>>, StoreError> {
        let mut found: HashMap<_, _> = {
            let alive = self.alive();
            asked.iter().filter_map(|no| Some((*no, alive.events.get(no)?.upgrade()?))).collect()
        };
        let missing: Vec<_> = asked.iter().copied().filter(|no| !found.contains_key(no)).collect();
        if !missing.is_empty() {
            found.extend(queue.contents(missing).await?.into_iter().map(|(no, content)| (no, Arc::new(content))));
        }
        Ok(found)
    }

    /// Lets an endpoint keep an event for an attempt, if there is room for it.
    pub fn keep(&self, no: EventNo, content: Arc<Content>, claim: Claim) -> Option<Arc<Content>> {
        // Somebody's already, and charged for; or read by two at the same time, of whom one was first.
        if let Some(kept) = self.alive().events.get(&no).and_then(Weak::upgrade) {
            return Some(kept);
        }
        let size = content.size();
        let limit = if claim.slow { self.budget.limit() / 100 * SLOW_PERCENT } else { self.budget.limit() };
        let fits = self.budget.used() + size <= limit;
        let content = match Arc::try_unwrap(content) {
            Ok(content) if claim.first && !fits => Some(content),
            Ok(content) if fits => content.within(&self.budget),
            Ok(_) => None,
            // It was held a moment ago, so it is charged for.
            Err(shared) => return Some(shared),
        };
        let content = Arc::new(content?);
        self.alive().insert(no, &content);
        Some(content)
    }

    fn alive(&self) -> MutexGuard<'_, Alive> {
        self.alive.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Alive {
    fn insert(&mut self, no: EventNo, content: &Arc<Content>) {
        if self.events.len() >= self.clear_at {
            self.events.retain(|_, content| content.strong_count() > 0);
            self.clear_at = (2 * self.events.len()).max(1_024);
        }
        self.events.insert(no, Arc::downgrade(content));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::time::Timestamp;

    fn content(bytes: usize) -> Arc<Content> {
        Arc::new(Content::new("evt".into(), "a".into(), Timestamp::MIN, vec![0; bytes].into()))
    }

    const QUICK: Claim = Claim { first: false, slow: false };

    #[test]
    fn s19_events_that_are_read_stay_within_their_budget() {
        let reading = Reading::new(10_000);
        let keep = |no, claim| reading.keep(EventNo(no), content(2_000), claim);
        let mut kept: Vec<_> = (1..=3).map(|no| keep(no, QUICK).expect("room")).collect();
        assert!(keep(4, Claim { slow: true, ..QUICK }).is_none(), "the rest is for those that answer");
        kept.extend(keep(4, QUICK));
        assert_eq!(kept.len(), 4);
        assert!(keep(5, QUICK).is_none());
        let first = keep(5, Claim { first: true, slow: true }).expect("nobody waits for ever");
        kept.pop();
        assert!(keep(6, QUICK).is_some());
        drop(first);
    }

    #[test]
    fn an_event_for_many_endpoints_is_there_once() {
        let reading = Reading::new(10_000);
        let keep = || reading.keep(EventNo(1), content(6_000), QUICK).expect("room");
        let kept: Vec<_> = (0..9).map(|_| keep()).collect();
        assert!(kept.iter().all(|one| Arc::ptr_eq(one, &kept[0])));
        drop(kept);
        assert_eq!(reading.budget.used(), 0);
        (0..5_000).for_each(|no| drop(reading.keep(EventNo(no), content(1), QUICK)));
        assert!(reading.alive().events.len() <= 1_024, "what nobody holds is forgotten");
    }
}
