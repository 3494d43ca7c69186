//! Telling the installation's operators what concerns all of it (S6).

use std::sync::Arc;
use std::time::Duration;

use crate::domain::notice::Notice;
use crate::store::Queue;
use crate::store::error::StoreError;

/// After a refusal of the store: so long, doubling, up to the second. Real time.
const AGAIN_AFTER: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// Stores a notification for the operators, however often the store has to be asked: it is told once, so nobody would ask
/// a second time. If the store's answer to a write that took effect is lost, it is stored twice.
pub async fn tell(queue: Arc<dyn Queue>, notice: Notice) {
    let (mut wait, longest) = AGAIN_AFTER;
    loop {
        match queue.tell_operators(notice.clone()).await {
            Ok(()) => return,
            // The process ends; the next one finds out for itself.
            Err(StoreError::Closed) => return,
            Err(error) => log::warn!("operators were not told ({}), which is tried again: {error}", notice.kind),
        }
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(longest);
    }
}
