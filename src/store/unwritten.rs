//! Which deliveries have no row yet.
//!
//! An event is accepted with the numbers of its endpoints beside it; its deliveries follow from that: they wait in the line
//! of first attempts, nothing has happened to them. A delivery gets its row when its first attempt is recorded, so that a
//! quick success is one insert and no update, and one event for a thousand endpoints that hang is one small row when it is
//! accepted. What nothing happens to is written by the writer when it has time, or when somebody wants to see it. After a
//! crash the events behind `meta.written_through` are all that is needed.
//!
//! Whatever changes what an endpoint's new deliveries look like (a cut) has its old ones written first.

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use crate::domain::ids::{DeliveryNo, EndpointNo, EventNo, TenantNo};
use crate::domain::time::Timestamp;

/// The writer leaves so many deliveries without a row as long as it has better things to do: what a start after a crash
/// has to write, and whoever wants to see everything has to wait for.
const MANY: usize = 4_096;
/// And none that is older than so many newer ones, or what was recorded behind it would wait for it.
const SPAN: i64 = 16_384;
/// With so many, writing does not wait for the writer to have time.
const CROWDED: usize = 2 * MANY;

/// An accepted event, as far as its deliveries' rows need it.
#[derive(Clone, Debug)]
pub struct Fresh {
    pub tenant: TenantNo,
    pub event: EventNo,
    /// Its deliveries are numbered from here on, one for each of `targets`.
    pub first: DeliveryNo,
    pub targets: Vec<EndpointNo>,
    pub received_at: Timestamp,
    /// Their place in the line of first attempts (S3).
    pub order_at: Timestamp,
}

/// What one row is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blank {
    pub no: DeliveryNo,
    pub tenant: TenantNo,
    pub endpoint: EndpointNo,
    pub event: EventNo,
    pub received_at: Timestamp,
    pub order_at: Timestamp,
}

impl Fresh {
    fn last(&self) -> i64 {
        self.first.0 + self.targets.len() as i64 - 1
    }

    /// The rows of all its deliveries.
    pub fn blanks(&self) -> impl Iterator<Item = Blank> {
        (0..self.targets.len()).map(|index| self.blank(index))
    }

    fn blank(&self, index: usize) -> Blank {
        Blank {
            no: DeliveryNo(self.first.0 + index as i64),
            tenant: self.tenant,
            endpoint: self.targets[index],
            event: self.event,
            received_at: self.received_at,
            order_at: self.order_at,
        }
    }
}

/// See the module's text.
#[derive(Debug, Default)]
pub struct Unwritten {
    /// In the order of their numbers, each with which of its deliveries have rows. The first has one without.
    events: VecDeque<(Fresh, Written)>,
    count: usize,
}

#[derive(Debug)]
struct Written {
    rows: Vec<bool>,
    left: usize,
    /// All before this one have rows; kept for the first event.
    through: usize,
}

impl Unwritten {
    /// Deliveries without a row.
    pub fn len(&self) -> usize {
        self.count
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Whether some are to be written when the writer has time; `last` is the newest delivery of all.
    pub fn is_due(&self, last: DeliveryNo) -> bool {
        self.count > MANY || last.0 - self.written_through(last).0 > SPAN
    }

    /// So many, or one so old, that writing cannot wait for that.
    pub fn is_crowded(&self, last: DeliveryNo) -> bool {
        self.count > CROWDED || last.0 - self.written_through(last).0 > 4 * SPAN
    }

    /// An event whose deliveries' numbers are above all others.
    pub fn add(&mut self, event: Fresh) {
        let left = event.targets.len();
        self.count += left;
        self.events.push_back((event, Written { rows: vec![false; left], left, through: 0 }));
        self.tidy();
    }

    /// Whether this delivery has no row. From now on it is taken to have one.
    pub fn take(&mut self, no: DeliveryNo) -> Option<Blank> {
        let at = self.events.partition_point(|(event, _)| event.last() < no.0);
        let (event, written) = self.events.get_mut(at)?;
        let index = usize::try_from(no.0 - event.first.0).ok()?;
        if std::mem::replace(written.rows.get_mut(index)?, true) {
            return None;
        }
        written.left -= 1;
        self.count -= 1;
        let blank = event.blank(index);
        self.tidy();
        Some(blank)
    }

    /// Takes those of this range that have no row, the oldest first, but not more than so many.
    pub fn take_range(&mut self, range: RangeInclusive<i64>, limit: usize) -> Vec<Blank> {
        let from = self.events.partition_point(|(event, _)| event.last() < *range.start());
        let mut blanks = Vec::new();
        for (event, written) in self.events.range_mut(from..) {
            if written.left == 0 {
                continue;
            }
            for index in 0..event.targets.len() {
                let no = event.first.0 + index as i64;
                if no > *range.end() || blanks.len() == limit {
                    break;
                }
                if no >= *range.start() && !std::mem::replace(&mut written.rows[index], true) {
                    written.left -= 1;
                    self.count -= 1;
                    blanks.push(event.blank(index));
                }
            }
            if event.last() >= *range.end() || blanks.len() == limit {
                break;
            }
        }
        self.tidy();
        blanks
    }

    /// All up to this delivery have rows; `last` is the newest of all.
    pub fn written_through(&self, last: DeliveryNo) -> DeliveryNo {
        let first = self.events.front();
        first.map_or(last, |(event, written)| DeliveryNo(event.first.0 + written.through as i64 - 1))
    }

    fn tidy(&mut self) {
        while self.events.front().is_some_and(|(_, written)| written.left == 0) {
            self.events.pop_front();
        }
        if let Some((_, written)) = self.events.front_mut() {
            let rows = &written.rows[written.through..];
            written.through += rows.iter().take_while(|has_row| **has_row).count();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(first: i64, targets: &[i64]) -> Fresh {
        let at = Timestamp::from_micros(first);
        let targets = targets.iter().map(|no| EndpointNo(*no)).collect();
        Fresh {
            tenant: TenantNo(1),
            event: EventNo(first),
            first: DeliveryNo(first),
            targets,
            received_at: at,
            order_at: at,
        }
    }

    fn numbers(blanks: &[Blank]) -> Vec<i64> {
        blanks.iter().map(|blank| blank.no.0).collect()
    }

    #[test]
    fn each_delivery_gets_its_row_once() {
        let mut unwritten = Unwritten::default();
        assert_eq!(unwritten.written_through(DeliveryNo(0)), DeliveryNo(0));
        unwritten.add(event(1, &[7, 8, 9]));
        unwritten.add(event(4, &[]));
        unwritten.add(event(4, &[8]));
        unwritten.add(event(5, &[7, 9]));
        let last = DeliveryNo(6);
        assert_eq!((unwritten.len(), unwritten.written_through(last)), (6, DeliveryNo(0)));
        assert_eq!(unwritten.take(DeliveryNo(2)).map(|blank| blank.endpoint), Some(EndpointNo(8)));
        assert_eq!(unwritten.take(DeliveryNo(2)), None);
        assert_eq!(unwritten.take(DeliveryNo(4)).map(|blank| blank.event), Some(EventNo(4)));
        assert_eq!((unwritten.take(DeliveryNo(0)), unwritten.take(DeliveryNo(7))), (None, None));
        assert_eq!(unwritten.written_through(last), DeliveryNo(0));
        assert_eq!(numbers(&unwritten.take_range(0..=5, 1)), [1]);
        assert_eq!(unwritten.written_through(last), DeliveryNo(2));
        assert_eq!(numbers(&unwritten.take_range(0..=5, 9)), [3, 5]);
        assert_eq!((unwritten.len(), unwritten.written_through(last)), (1, DeliveryNo(5)));
        assert_eq!(numbers(&unwritten.take_range(0..=i64::MAX, 9)), [6]);
        assert!(unwritten.is_empty() && unwritten.take_range(0..=i64::MAX, 9).is_empty());
        assert_eq!(unwritten.written_through(last), last);
    }

    #[test]
    fn one_that_is_old_is_due_however_few_there_are() {
        let mut unwritten = Unwritten::default();
        unwritten.add(event(1, &[1]));
        assert!(!unwritten.is_due(DeliveryNo(SPAN)) && !unwritten.is_crowded(DeliveryNo(4 * SPAN)));
        assert!(unwritten.is_due(DeliveryNo(SPAN + 1)) && unwritten.is_crowded(DeliveryNo(4 * SPAN + 1)));
        unwritten.take(DeliveryNo(1));
        assert!(!unwritten.is_due(DeliveryNo(9 * SPAN)) && !unwritten.is_crowded(DeliveryNo(9 * SPAN)));
    }

    #[test]
    fn what_is_written_behind_one_that_is_not_does_not_count_as_through() {
        let mut unwritten = Unwritten::default();
        unwritten.add(event(1, &[1]));
        unwritten.add(event(2, &[1, 2]));
        assert_eq!(numbers(&unwritten.take_range(2..=3, 9)), [2, 3]);
        assert_eq!((unwritten.len(), unwritten.written_through(DeliveryNo(3))), (1, DeliveryNo(0)));
        assert!(unwritten.take(DeliveryNo(1)).is_some());
        assert_eq!(unwritten.written_through(DeliveryNo(3)), DeliveryNo(3));
    }
}
