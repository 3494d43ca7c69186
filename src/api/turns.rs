//! One change of an endpoint at a time. The engine keeps an endpoint frozen until it is told of *a* change; if two were
//! made at once, the first one's end would thaw it in the middle of the second, and an attempt could start that a disable
//! then does not know of (S15, S26).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::OwnedMutexGuard;

use crate::domain::ids::EndpointNo;

type Line = Arc<tokio::sync::Mutex<()>>;

/// The endpoints that are being changed.
#[derive(Clone, Default)]
pub struct Turns(Arc<Mutex<HashMap<EndpointNo, Line>>>);

/// The right to change an endpoint, until it is dropped.
pub struct Turn {
    turns: Turns,
    endpoint: EndpointNo,
    line: Line,
    _guard: OwnedMutexGuard<()>,
}

impl Turns {
    /// Waits until nobody else changes this endpoint.
    pub async fn take(&self, endpoint: EndpointNo) -> Turn {
        let line = self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(endpoint).or_default().clone();
        let guard = line.clone().lock_owned().await;
        Turn { turns: self.clone(), endpoint, line, _guard: guard }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut lines = self.turns.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Held by the map, by `line` and by the guard: nobody waits, and nobody can come while the map is locked.
        if Arc::strong_count(&self.line) <= 3 {
            lines.remove(&self.endpoint);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_after_the_other_and_nothing_is_left_behind() {
        let turns = Turns::default();
        let first = turns.take(EndpointNo(1)).await;
        let other = turns.take(EndpointNo(2)).await;
        let waiting = tokio::spawn({
            let turns = turns.clone();
            async move { drop(turns.take(EndpointNo(1)).await) }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(first);
        waiting.await.unwrap();
        drop(other);
        assert!(turns.0.lock().unwrap().is_empty());
    }
}
