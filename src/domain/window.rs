//! What an actor holds in memory of one line of its queue (S3): the first so many places, and how far that is the whole
//! truth. The database is the queue; this is a window on it.

use std::collections::BTreeMap;

use super::delivery::{Place, Waiting};
use super::ids::DeliveryNo;

/// The beginning of one line.
#[derive(Debug)]
pub struct Window {
    waiting: BTreeMap<Place, Waiting>,
    /// Everything that waits at or before this place is here (or being attempted); beyond it the store may hold more.
    /// `None`: the window holds everything.
    bound: Option<Bound>,
    capacity: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bound {
    /// Nothing has been read yet.
    Unread,
    At(Place),
}

impl Window {
    /// A window that has read nothing. At most `capacity` deliveries (at least 2) are held.
    pub fn new(capacity: usize) -> Window {
        Window { waiting: BTreeMap::new(), bound: Some(Bound::Unread), capacity: capacity.max(2) }
    }

    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The store may hold more of this line than is here.
    pub fn has_more(&self) -> bool {
        self.bound.is_some()
    }

    /// Everything up to this place is here, and what stands behind it is not taken in; `None` if the window holds all, or
    /// has read nothing.
    pub fn known_to(&self) -> Option<Place> {
        match self.bound {
            Some(Bound::At(place)) => Some(place),
            Some(Bound::Unread) | None => None,
        }
    }

    /// Time to read on: there is more, and less than a quarter of the window is left.
    pub fn is_low(&self) -> bool {
        self.has_more() && self.len() < self.capacity.div_ceil(4)
    }

    pub fn first(&self) -> Option<&Waiting> {
        self.waiting.values().next()
    }

    pub fn pop(&mut self) -> Option<Waiting> {
        self.waiting.pop_first().map(|(_, waiting)| waiting)
    }

    pub fn remove(&mut self, place: &Place) -> Option<Waiting> {
        self.waiting.remove(place)
    }

    pub fn find(&self, no: DeliveryNo) -> Option<Place> {
        self.waiting.keys().find(|place| place.no == no).copied()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Waiting> {
        self.waiting.values()
    }

    pub fn retain(&mut self, mut keep: impl FnMut(&Waiting) -> bool) {
        self.waiting.retain(|_, waiting| keep(waiting));
    }

    /// Lets go of the events of all that wait here; they are read again when they are needed.
    pub fn forget_contents(&mut self) {
        self.waiting.values_mut().for_each(|waiting| waiting.content = None);
    }

    /// Takes a delivery in if its place lies inside what the window knows completely; otherwise rows before it may be
    /// unread, and the next read brings it in its turn. Returns what is not held: the delivery itself, or the last one
    /// if the window is full.
    pub fn admit(&mut self, waiting: Waiting) -> Option<Waiting> {
        let place = waiting.place();
        match self.bound {
            Some(Bound::Unread) => return Some(waiting),
            Some(Bound::At(bound)) if place > bound => return Some(waiting),
            _ => {}
        }
        self.waiting.insert(place, waiting);
        if self.waiting.len() <= self.capacity {
            return None;
        }
        let last = self.waiting.pop_last();
        self.bound = self.waiting.keys().next_back().map(|&last| Bound::At(last));
        last.map(|(_, waiting)| waiting)
    }

    /// Replaces the window by what was read from the store: the line's first `rows`, how far the read went (`None`: to
    /// the line's end). What `keep` names of the present window is newer than the read and stays.
    pub fn replace(&mut self, rows: Vec<Waiting>, read_to: Option<Place>, keep: impl Fn(&Waiting) -> bool) {
        let old = std::mem::take(&mut self.waiting);
        self.bound = read_to.map(Bound::At);
        rows.into_iter().for_each(|row| drop(self.admit(row)));
        for (_, mut waiting) in old {
            if keep(&waiting) {
                self.admit(waiting);
            } else if let Some(row) = self.waiting.get_mut(&waiting.place()) {
                // The same delivery, read again: spare the store another read of its event.
                row.content = row.content.take().or(waiting.content.take());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::ids::EventNo;
    use super::super::time::Timestamp;
    use super::*;
    use proptest::prelude::*;

    pub(super) fn waiting(no: i64, order: i64) -> Waiting {
        Waiting::accepted(DeliveryNo(no), EventNo(no), Timestamp::from_micros(order))
    }

    /// A store of waiting rows, from which the window reads.
    fn read(store: &BTreeMap<i64, i64>, limit: usize) -> (Vec<Waiting>, Option<Place>) {
        let mut rows: Vec<Waiting> = store.iter().map(|(&no, &order)| waiting(no, order)).collect();
        rows.sort_by_key(Waiting::place);
        let complete = rows.len() <= limit;
        rows.truncate(limit);
        let read_to = rows.last().filter(|_| !complete).map(Waiting::place);
        (rows, read_to)
    }

    proptest! {
        /// Whatever arrives in whatever order, what the window yields is the line's order, and nothing is left behind.
        #[test]
        fn s03_a_window_yields_the_whole_line_in_order(
            orders in proptest::collection::vec(0i64..50, 1..60), capacity in 2usize..12, first_batch in 0usize..40,
        ) {
            let mut store: BTreeMap<i64, i64> = BTreeMap::new();
            let mut window = Window::new(capacity);
            let mut numbered = orders.iter().enumerate().map(|(no, &order)| (no as i64 + 1, order));
            for (no, order) in numbered.by_ref().take(first_batch) {
                store.insert(no, order);
                window.admit(waiting(no, order));
            }
            let mut yielded = Vec::new();
            loop {
                if window.is_low() {
                    let (rows, read_to) = read(&store, capacity);
                    window.replace(rows, read_to, |_| false);
                }
                if let Some((no, order)) = numbered.next() {
                    store.insert(no, order);
                    window.admit(waiting(no, order));
                }
                match window.pop() {
                    Some(next) => {
                        let ahead = store.iter().map(|(&no, &order)| (order, no)).min();
                        prop_assert_eq!(Some((next.order_at.as_micros(), next.no.0)), ahead);
                        store.remove(&next.no.0);
                        yielded.push(next.no);
                    }
                    None if store.is_empty() => break,
                    None => prop_assert!(window.has_more()),
                }
            }
            prop_assert_eq!(yielded.len(), orders.len());
        }
    }
}
