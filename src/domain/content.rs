//! The part of an event that an attempt needs, held in memory within one byte budget for the whole process.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;

use super::time::Timestamp;

/// An event as its receivers get it.
#[derive(Debug)]
pub struct Content {
    pub event_id: Arc<str>,
    pub event_type: Arc<str>,
    pub received_at: Timestamp,
    /// The whole request body, composed once at acceptance (S2).
    pub body: Bytes,
    /// Gives the bytes back to the budget when the last holder lets go.
    ticket: Option<Ticket>,
}

impl Content {
    /// Content outside any budget: a ping, a test.
    pub fn new(event_id: Arc<str>, event_type: Arc<str>, received_at: Timestamp, body: Bytes) -> Content {
        Content { event_id, event_type, received_at, body, ticket: None }
    }

    /// The same, charged to `budget`; `None` if it does not fit.
    pub fn within(mut self, budget: &ByteBudget) -> Option<Content> {
        self.ticket = Some(budget.take(self.size())?);
        Some(self)
    }

    /// What it is charged for.
    pub fn size(&self) -> usize {
        self.body.len() + CONTENT_OVERHEAD
    }
}

/// Roughly what a [`Content`] costs beside its body.
const CONTENT_OVERHEAD: usize = 256;

/// A count of bytes in use with an upper limit; clones share the count.
#[derive(Clone, Debug)]
pub struct ByteBudget {
    used: Arc<AtomicUsize>,
    limit: usize,
}

impl ByteBudget {
    pub fn new(limit: usize) -> ByteBudget {
        ByteBudget { used: Arc::default(), limit }
    }

    /// Takes `bytes` until the ticket is dropped; `None` if that would exceed the limit.
    pub fn take(&self, bytes: usize) -> Option<Ticket> {
        let fits = |used: usize| used.checked_add(bytes).filter(|&sum| sum <= self.limit);
        self.used.fetch_update(Ordering::AcqRel, Ordering::Acquire, fits).ok()?;
        Some(Ticket { used: self.used.clone(), bytes })
    }

    pub fn used(&self) -> usize {
        self.used.load(Ordering::Acquire)
    }

    pub fn limit(&self) -> usize {
        self.limit
    }
}

/// Bytes taken from a [`ByteBudget`]; dropping it gives them back.
#[derive(Debug)]
pub struct Ticket {
    used: Arc<AtomicUsize>,
    bytes: usize,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.used.fetch_sub(self.bytes, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tickets_give_their_bytes_back() {
        let budget = ByteBudget::new(100);
        let first = budget.take(20).unwrap();
        let second = budget.clone().take(5).unwrap();
        assert!(budget.take(76).is_none() && budget.take(usize::MAX).is_none());
        drop((first, second));
        assert_eq!(budget.used(), 0);
    }
}
