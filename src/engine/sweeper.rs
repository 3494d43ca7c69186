//! The sweeper: asks the store which endpoints need their actors soon. Whatever a lost hint, a dead actor or a crash left
//! behind is found here, because a row says when its endpoint is needed.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use actix::Addr;

use super::Env;
use super::messages::{Swept, tell_actor};
use super::supervisor::Supervisor;
use crate::domain::time::Span;
use crate::store::load::NeededBy;

/// Between two sweeps, in real time: the longest that a lost hint costs.
pub const EVERY: Span = Span::SECOND;
/// So far a sweep looks ahead (real time), so that an actor is there before its instant.
const AHEAD: Span = Span::from_secs(20);
/// Endpoints per question.
const PAGE: i64 = 1_000;

/// One sweep, page by page; the supervisor hears each page and the end.
pub async fn sweep(env: Arc<Env>, supervisor: Addr<Supervisor>) {
    let now = env.clock.now();
    let by = now + env.clock.engine_span(AHEAD);
    let mut after = None;
    loop {
        let page = match env.queue.needed_by(NeededBy { by, after, limit: PAGE }).await {
            Ok(page) => page,
            Err(error) => {
                env.complaints.warn(&env.clock, "the sweep failed", "all endpoints", error);
                break;
            }
        };
        let full = page.len() as i64 == PAGE;
        after = page.last().map(|needed| (needed.wake_at, needed.endpoint));
        tell_actor(&supervisor, Swept { needed: page, last: false });
        if !full {
            env.swept_at.store(now.as_micros(), Ordering::Relaxed);
            break;
        }
    }
    tell_actor(&supervisor, Swept { needed: Vec::new(), last: true });
}
