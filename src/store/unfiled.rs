//! Which deliveries are not *filed* yet: their rows are written, their entries in the indexes by endpoint are not.
//!
//! An event for a hundred endpoints has its deliveries' rows side by side, but their entries by endpoint would lie on two
//! hundred pages, all of them written to the journal at every commit. So the writer keeps new entries here and files many
//! of one endpoint at a time, which lie side by side again. What a delivery comes to in the meantime is put on its card,
//! so a quick success is never in an endpoint's line at all. Whoever reads by endpoint has its deliveries filed first, or
//! reads the rows after `meta.filed_through` as well; after a crash these rows are all that is needed. The endpoint's counts
//! of what is not filed are written with it.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, VecDeque};

use crate::domain::delivery::Line;
use crate::domain::ids::{DeliveryNo, EndpointNo};
use crate::domain::time::Timestamp;

/// So many cards of one endpoint are filed together, if nothing asks for them earlier.
pub const FULL: usize = 256;
/// Nothing stays unfiled for longer than so many newer deliveries, if the writer has time: that is what a start after a crash
/// has to read.
const SPAN: i64 = 65_536;
/// With so many cards, filing does not wait for such a time.
const CROWDED: usize = 65_536;

/// A waiting delivery's place among those of its endpoint (S3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub line: Line,
    pub order_at: Timestamp,
}

/// One delivery to be filed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Card {
    pub no: DeliveryNo,
    /// `None`: it does not wait.
    pub place: Option<Place>,
}

/// See the module's text.
#[derive(Debug, Default)]
pub struct Unfiled {
    /// In the order of their numbers; never empty.
    cards: HashMap<EndpointNo, Vec<Card>>,
    /// The first card of each endpoint.
    oldest: BTreeMap<DeliveryNo, EndpointNo>,
    /// Endpoints that had [`FULL`] cards at some time since they were filed, the first of them first.
    full: VecDeque<EndpointNo>,
    count: usize,
}

impl Unfiled {
    pub fn len(&self) -> usize {
        self.count
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// A new delivery, with a number above all others.
    pub fn add(&mut self, endpoint: EndpointNo, card: Card) {
        self.count += 1;
        match self.cards.entry(endpoint) {
            Entry::Vacant(vacant) => {
                self.oldest.insert(card.no, endpoint);
                vacant.insert(vec![card]);
            }
            Entry::Occupied(mut cards) => {
                cards.get_mut().push(card);
                if cards.get().len() == FULL {
                    self.full.push_back(endpoint);
                }
            }
        }
    }

    /// Puts a delivery's new place on its card. False if it is filed already: then the index has to be changed.
    pub fn moved(&mut self, endpoint: EndpointNo, card: Card) -> bool {
        let Some(cards) = self.cards.get_mut(&endpoint) else { return false };
        let Ok(index) = cards.binary_search_by_key(&card.no, |card| card.no) else { return false };
        cards[index] = card;
        true
    }

    /// All cards of an endpoint, to be filed now.
    pub fn take(&mut self, endpoint: EndpointNo) -> Vec<Card> {
        self.take_through(endpoint, DeliveryNo(i64::MAX))
    }

    /// Its cards up to this one.
    pub fn take_through(&mut self, endpoint: EndpointNo, through: DeliveryNo) -> Vec<Card> {
        let Entry::Occupied(mut cards) = self.cards.entry(endpoint) else { return Vec::new() };
        let later = cards.get().partition_point(|card| card.no <= through);
        if later == 0 {
            return Vec::new();
        }
        self.count -= later;
        self.oldest.remove(&cards.get()[0].no);
        if later == cards.get().len() {
            return cards.remove();
        }
        let stay = cards.get_mut().split_off(later);
        self.oldest.insert(stay[0].no, endpoint);
        if stay.len() >= FULL {
            self.full.push_back(endpoint);
        }
        std::mem::replace(cards.get_mut(), stay)
    }

    /// An endpoint that is to be filed when the writer has time; `last` is the newest delivery of all, and up to `through`
    /// all have rows.
    pub fn due(&mut self, last: DeliveryNo, through: DeliveryNo) -> Option<EndpointNo> {
        let old = self.oldest.first_key_value().filter(|(no, _)| last.0 - no.0 >= SPAN && **no <= through);
        if let Some((_, endpoint)) = old {
            return Some(*endpoint);
        }
        if self.count > CROWDED / 2 {
            // So many endpoints that none gets full before there are too many.
            return self.oldest.first_key_value().filter(|(no, _)| **no <= through).map(|(_, endpoint)| *endpoint);
        }
        while let Some(endpoint) = self.full.front() {
            match self.cards.get(endpoint).and_then(|cards| cards.get(FULL - 1)) {
                // It was filed meanwhile.
                None => drop(self.full.pop_front()),
                Some(card) => return Some(*endpoint).filter(|_| card.no <= through),
            }
        }
        None
    }

    /// So many that filing cannot wait for the writer to have time.
    pub fn is_crowded(&self) -> bool {
        self.count > CROWDED
    }

    /// The endpoint with the oldest card of all.
    pub fn next(&self) -> Option<EndpointNo> {
        self.oldest.first_key_value().map(|(_, endpoint)| *endpoint)
    }

    /// Everything up to this delivery is filed; `last` is the newest of all.
    pub fn filed_through(&self, last: DeliveryNo) -> DeliveryNo {
        self.oldest.first_key_value().map_or(last, |(no, _)| DeliveryNo(no.0 - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: EndpointNo = EndpointNo(1);
    const B: EndpointNo = EndpointNo(2);

    fn card(no: i64) -> Card {
        let place = Place { line: Line::First, order_at: Timestamp::from_micros(no) };
        Card { no: DeliveryNo(no), place: Some(place) }
    }

    #[test]
    fn an_endpoint_is_filed_when_it_has_many_cards_or_an_old_one() {
        let mut unfiled = Unfiled::default();
        let all = DeliveryNo(i64::MAX);
        unfiled.add(B, card(1));
        for no in 2..=FULL as i64 {
            unfiled.add(A, card(no));
            assert_eq!(unfiled.due(DeliveryNo(no), all), None);
        }
        let last = DeliveryNo(FULL as i64 + 1);
        unfiled.add(A, card(last.0));
        assert_eq!(unfiled.filed_through(last), DeliveryNo(0));
        assert_eq!(unfiled.due(last, all), Some(A));
        assert_eq!(unfiled.take(A).len(), FULL);
        assert_eq!((unfiled.due(last, all), unfiled.len()), (None, 1));
        assert_eq!(unfiled.due(DeliveryNo(SPAN), all), None);
        assert_eq!(unfiled.due(DeliveryNo(SPAN + 1), all), Some(B));
        assert_eq!(unfiled.due(DeliveryNo(SPAN + 1), DeliveryNo(0)), None, "it has no row");
        assert_eq!(unfiled.take(B), [card(1)]);
        assert_eq!(unfiled.filed_through(last), last);
        assert!(unfiled.is_empty() && unfiled.next().is_none() && unfiled.take(B).is_empty());
    }

    #[test]
    fn what_has_no_row_keeps_its_card() {
        let mut unfiled = Unfiled::default();
        let many = 3 * FULL as i64;
        (1..=many).for_each(|no| unfiled.add(A, card(no)));
        let last = DeliveryNo(many);
        let short = DeliveryNo(FULL as i64 - 1);
        assert_eq!(unfiled.due(last, short), None);
        let through = DeliveryNo(FULL as i64 + 1);
        assert_eq!(unfiled.due(last, through), Some(A));
        assert!(unfiled.take_through(A, DeliveryNo(0)).is_empty());
        assert_eq!(unfiled.take_through(A, through).len(), FULL + 1);
        assert_eq!((unfiled.len(), unfiled.filed_through(last)), (2 * FULL - 1, through));
        assert_eq!((unfiled.due(last, through), unfiled.due(last, last)), (None, Some(A)));
        assert_eq!(unfiled.take(A).first(), Some(&card(through.0 + 1)));
        assert_eq!((unfiled.due(last, last), unfiled.filed_through(last)), (None, last));
    }

    #[test]
    fn what_a_delivery_comes_to_is_put_on_its_card() {
        let mut unfiled = Unfiled::default();
        unfiled.add(A, card(3));
        unfiled.add(B, card(4));
        unfiled.add(A, card(5));
        let settled = Card { no: DeliveryNo(5), place: None };
        assert!(unfiled.moved(A, settled));
        assert!(!unfiled.moved(B, settled) && !unfiled.moved(A, card(2)));
        assert_eq!(unfiled.next(), Some(A));
        assert_eq!(unfiled.take(A), [card(3), settled]);
        assert!(!unfiled.moved(A, settled));
        assert_eq!(unfiled.filed_through(DeliveryNo(5)), DeliveryNo(3));
    }
}
