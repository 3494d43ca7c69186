//! Where an endpoint's hints lie until its actor takes them: one tray per actor, shared with the supervisor.
//!
//! A hundred endpoints that get the same events are a hundred actors to wake for each of them, also those that could
//! start nothing: whose slots are all taken, or whose circuit is open. Such an actor says that it is *patient*; its hints
//! wait for whatever it is woken by next. It hears them before it decides anything, so no decision is a different one.
//! Of hints that it could only forget, because its window is full, nothing is kept but how far they went.

use std::sync::{Mutex, MutexGuard};

use crate::domain::delivery::{Place, Waiting};
use crate::domain::ids::DeliveryNo;
use crate::store::hint::Hint;

/// A tray holds so many deliveries; further hints are lost, and the actor reads its rows instead.
const MOST: usize = 2_048;
/// A patient actor is woken for so many all the same: to let go of what finds no place in its window.
const PATIENCE: usize = 256;

/// See the module's text.
#[derive(Default)]
pub struct Tray(Mutex<Inside>);

#[derive(Default)]
struct Inside {
    taken: Taken,
    /// In all hints that lie here.
    deliveries: usize,
    mood: Mood,
    /// The actor is told, and has not looked yet.
    told: bool,
}

/// What an actor says of itself when it has decided everything. Without a word it has not read its endpoint, and that will
/// wake it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mood {
    /// Whatever is hinted at could not start before something else wakes the actor.
    pub patient: bool,
    /// Events of what waits are let go of at once (S19).
    pub bare: bool,
    /// New deliveries behind this place would not be held.
    pub full_at: Option<Place>,
}

impl Default for Mood {
    fn default() -> Mood {
        Mood { patient: true, bare: false, full_at: None }
    }
}

/// What came of putting something into a tray.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Put {
    /// The actor will hear of it as one more. Otherwise it is lost, or what lies there says the same.
    pub counts: bool,
    /// The actor is to be told that there is something.
    pub tell: bool,
}

/// What an actor finds in its tray.
#[derive(Debug, Default)]
pub struct Taken {
    /// In the order in which they came.
    pub notes: Vec<Note>,
    /// At least one more is lost.
    pub lost: bool,
    /// A sweep says that the actor is needed, and which delivery is its newest.
    pub poked: Option<DeliveryNo>,
    /// So many were put down.
    pub count: u64,
}

#[derive(Debug)]
pub enum Note {
    Hint(Hint),
    /// Deliveries after `after`, up to `last`, that the actor has no room for.
    Passed {
        after: DeliveryNo,
        last: DeliveryNo,
    },
}

impl Tray {
    /// Puts a hint down; the supervisor's side.
    pub fn put(&self, hint: Hint) -> Put {
        let mut inside = self.inside();
        let kept = if inside.mood.has_no_room_for(&hint.deliveries) {
            inside.taken.pass(&hint);
            true
        } else {
            inside.keep(hint)
        };
        inside.taken.count += u64::from(kept);
        inside.taken.lost |= !kept;
        Put { counts: kept, tell: inside.tells() }
    }

    /// Says that a sweep has found the endpoint's row, with this newest delivery; the supervisor's side.
    pub fn poke(&self, newest: DeliveryNo) -> Put {
        let mut inside = self.inside();
        let counts = inside.taken.poked.replace(newest).is_none();
        inside.taken.count += u64::from(counts);
        Put { counts, tell: inside.tells() }
    }

    /// Takes everything; the actor's side, before it decides.
    pub fn take(&self) -> Taken {
        let mut inside = self.inside();
        inside.deliveries = 0;
        inside.told = false;
        std::mem::take(&mut inside.taken)
    }

    /// Notes what is to be done with what comes from now on. True if something has come since the actor took the last of
    /// it that it should hear of and was not told: it has to decide once more.
    pub fn leave(&self, mood: Mood) -> bool {
        let mut inside = self.inside();
        inside.mood = mood;
        !inside.taken.is_empty() && inside.tells()
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Inside {
    fn keep(&mut self, mut hint: Hint) -> bool {
        if self.deliveries + hint.deliveries.len() > MOST {
            return false;
        }
        if self.mood.bare {
            hint.deliveries.iter_mut().for_each(|delivery| delivery.content = None);
        }
        self.deliveries += hint.deliveries.len();
        self.taken.notes.push(Note::Hint(hint));
        true
    }

    /// Whether the actor is to be told now; it is then taken for told.
    fn tells(&mut self) -> bool {
        let tell = !self.told && (!self.mood.patient || self.deliveries >= PATIENCE);
        self.told |= tell;
        tell
    }
}

impl Mood {
    fn has_no_room_for(&self, deliveries: &[Waiting]) -> bool {
        self.full_at.is_some_and(|full_at| deliveries.iter().all(|delivery| delivery.place() > full_at))
    }
}

impl Taken {
    fn is_empty(&self) -> bool {
        self.count == 0 && !self.lost
    }

    fn pass(&mut self, hint: &Hint) {
        let Some(newest) = hint.deliveries.iter().map(|delivery| delivery.no).max() else { return };
        match self.notes.last_mut() {
            // They follow each other; if they do not, a hint between them was lost, and the actor has to see that.
            Some(Note::Passed { last, .. }) if hint.after <= *last => *last = newest.max(*last),
            _ => self.notes.push(Note::Passed { after: hint.after, last: newest }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::content::Content;
    use crate::domain::delivery::Waiting;
    use crate::domain::ids::{DeliveryNo, EndpointNo, EventNo};
    use crate::domain::time::Timestamp;

    fn hint(after: i64, count: usize) -> Hint {
        let at = Timestamp::from_micros(0);
        let content = Content::new("evt".into(), "a".into(), at, Vec::new().into());
        let no = after + 1;
        let accepted = Waiting::accepted(DeliveryNo(no), EventNo(no), at);
        let deliveries = vec![Waiting { content: Some(content.into()), ..accepted }; count];
        Hint { endpoint: EndpointNo(1), after: DeliveryNo(after), deliveries }
    }

    const EAGER: Mood = Mood { patient: false, bare: false, full_at: None };
    const PATIENT: Mood = Mood { patient: true, bare: false, full_at: None };

    #[test]
    fn an_actor_that_can_start_something_is_told_once_until_it_looks() {
        let tray = Tray::default();
        assert!(!tray.leave(EAGER));
        assert_eq!(tray.put(hint(0, 1)), Put { counts: true, tell: true });
        assert_eq!(tray.put(hint(1, 1)), Put { counts: true, tell: false });
        assert!(!tray.leave(EAGER), "a message is on its way");
        assert_eq!(tray.take().notes.len(), 2);
        assert_eq!(tray.put(hint(2, 1)), Put { counts: true, tell: true });
    }

    #[test]
    fn a_patient_one_is_told_only_when_much_has_gathered() {
        let tray = Tray::default();
        tray.leave(PATIENT);
        let told = (0..).position(|after| tray.put(hint(after, 1)).tell);
        assert_eq!(told, Some(PATIENCE - 1));
    }

    #[test]
    fn one_that_stops_being_patient_learns_what_came_meanwhile() {
        let tray = Tray::default();
        tray.leave(PATIENT);
        tray.take();
        assert!(!tray.put(hint(0, 1)).tell, "it is patient still");
        assert!(tray.leave(EAGER));
        assert_eq!(tray.take().notes.len(), 1);
        assert!(!tray.leave(EAGER));
    }

    #[test]
    fn a_full_tray_says_that_something_is_lost() {
        let tray = Tray::default();
        assert!(tray.put(hint(0, MOST)).counts);
        assert_eq!(tray.put(hint(1, 1)), Put { counts: false, tell: false });
        assert!(tray.take().lost);
        assert!(!tray.take().lost);
        assert!(tray.put(hint(2, 1)).counts);
    }

    #[test]
    fn s19_events_for_a_narrowed_endpoint_are_let_go_of_at_once() {
        let tray = Tray::default();
        let kept =
            |tray: &Tray| matches!(&tray.take().notes[0], Note::Hint(hint) if hint.deliveries[0].content.is_some());
        tray.put(hint(0, 1));
        assert!(kept(&tray));
        tray.leave(Mood { bare: true, ..PATIENT });
        tray.put(hint(1, 1));
        assert!(!kept(&tray));
    }

    #[test]
    fn of_hints_that_would_be_forgotten_only_their_reach_is_kept() {
        let tray = Tray::default();
        let mut far = hint(7, 1);
        far.deliveries[0].order_at = Timestamp::from_micros(5);
        let full_at = Some(hint(0, 1).deliveries[0].place());
        tray.leave(Mood { full_at, ..PATIENT });
        for after in 1..5 {
            assert_eq!(tray.put(hint(after, 1)), Put { counts: true, tell: false });
        }
        // One between is lost.
        tray.put(far);
        // This one goes before all that the actor holds.
        let mut early = hint(8, 1);
        early.deliveries[0].order_at = Timestamp::from_micros(-1);
        tray.put(early);
        let Taken { notes, count, .. } = tray.take();
        let [Note::Passed { after, last }, Note::Passed { after: gap, last: end }, Note::Hint(_)] = &notes[..] else {
            panic!("{notes:?}")
        };
        assert_eq!(([after.0, last.0], [gap.0, end.0], count), ([1, 5], [7, 8], 6));
    }

    #[test]
    fn a_poke_lies_in_the_tray_once() {
        let tray = Tray::default();
        tray.leave(PATIENT);
        assert_eq!(tray.poke(DeliveryNo(1)), Put { counts: true, tell: false });
        assert_eq!(tray.poke(DeliveryNo(2)), Put { counts: false, tell: false });
        assert!(tray.leave(EAGER));
        let Taken { poked, count, .. } = tray.take();
        assert_eq!((poked, count), (Some(DeliveryNo(2)), 1));
    }
}
