//! The way of hints, with a fault.

use std::sync::Arc;
use std::time::Duration;

use posthaste::domain::delivery::Line;
use posthaste::domain::time::Timestamp;
use posthaste::store::hint::{Hint, HintSink};

use super::Plant;
use crate::simulation::trouble::TroubledHints;

/// Long enough for a sweep to find the delivery, and for its attempt to be made and recorded.
const LATE: Duration = Duration::from_secs(3);

pub struct PlantedHints {
    pub plant: Plant,
    pub inner: Arc<TroubledHints>,
}

impl HintSink for PlantedHints {
    fn committed(&self, mut hints: Vec<Hint>) {
        match self.plant {
            Plant::LostHint => return,
            Plant::StaleHint => {
                let inner = self.inner.clone();
                // The rows bring the delivery at the next sweep; until then it may well be late.
                inner.trouble.sweep_must_find();
                tokio::task::spawn_local(async move {
                    tokio::time::sleep(LATE).await;
                    inner.committed(hints);
                });
                return;
            }
            Plant::OutOfOrder => {
                let waiting = hints.iter_mut().flat_map(|hint| &mut hint.deliveries);
                waiting.filter(|row| row.line == Line::First).for_each(|row| row.order_at = Timestamp::MIN);
            }
            _ => {}
        }
        self.inner.committed(hints);
    }
}
