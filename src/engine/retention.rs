//! Long work in the background: rewriting cut rows, removing the rows of deleted endpoints, purging what is past its
//! retention, keeping the clock's anchor. All of it in small slices between other writes, and all of it goes on after a
//! restart, because what is left to do stands in the rows.

use std::time::Duration;

use super::Engine;
use crate::domain::ids::EndpointNo;
use crate::domain::seldom::Seldom;
use crate::domain::time::Span;
use crate::store::Store;
use crate::store::change::{
    Expire, KeepAnchor, OpenSince, PendingCuts, PurgeEvents, PurgeOld, RemoveDeleted, RewriteCut,
};
use crate::store::error::StoreError;
use tokio::sync::watch;

/// Events and what belongs to them are kept so long (S20; seed 003: "30 days").
pub const EVENTS_KEPT: Span = Span::from_secs(30 * 86_400);
/// A delivery that could not be attempted for so long because of an open circuit expires (S20).
pub const HELD_AT_MOST: Span = Span::from_secs(30 * 86_400);
/// Idempotency answers (seed 000: "24 hours").
pub const ANSWERS_KEPT: Span = Span::DAY;
/// Notifications.
pub const NOTIFICATIONS_KEPT: Span = Span::from_secs(90 * 86_400);

/// Between two looks for cuts and deleted endpoints that nobody announced, in real time.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// Between two purges and anchors, in real time.
const PURGE_EVERY: Duration = Duration::from_secs(60);
/// Between two slices of one job, so that a long one leaves the writer to others.
const BREATH: Duration = Duration::from_millis(2);

/// Runs until `stop` changes.
pub async fn run(store: Store, engine: Engine, mut stop: watch::Receiver<bool>) {
    let mut look = tokio::time::interval(LOOK_EVERY);
    let mut purge = tokio::time::interval(PURGE_EVERY);
    let mut seldom = Seldom::default();
    for timer in [&mut look, &mut purge] {
        timer.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    }
    loop {
        let (what, done) = tokio::select! {
            _ = stop.changed() => return,
            _ = look.tick() => ("rewriting what was cut is put off", rewrite(&store).await),
            _ = purge.tick() => ("purging is put off", purge_all(&store, &engine).await),
        };
        if let Err(error) = done
            && let Some(more) = seldom.turn(what, store.clock().uptime())
        {
            log::warn!("{what}: {error}{more}");
        }
    }
}

/// Rewrites what cuts have taken and removes what belonged to deleted endpoints.
pub async fn rewrite(store: &Store) -> Result<(), StoreError> {
    for (endpoint, cut) in store.ask(PendingCuts).await? {
        while store.write(RewriteCut { endpoint, cut }).await? {
            tokio::time::sleep(BREATH).await;
        }
    }
    while store.write(RemoveDeleted).await? {
        tokio::time::sleep(BREATH).await;
    }
    Ok(())
}

/// Keeps the anchor and purges what is past its time.
pub async fn purge_all(store: &Store, engine: &Engine) -> Result<(), StoreError> {
    let clock = store.clock().clone();
    store.write(KeepAnchor(clock.anchor())).await?;
    let now = clock.now();
    let old = PurgeOld { answers_before: now - ANSWERS_KEPT, notifications_before: now - NOTIFICATIONS_KEPT };
    while store.write(old).await? {
        tokio::time::sleep(BREATH).await;
    }
    for endpoint in store.ask(OpenSince(now - HELD_AT_MOST)).await? {
        expire(store, engine, endpoint).await?;
    }
    let mut after = 0;
    let mut purged = 0;
    loop {
        let slice = store.write(PurgeEvents { received_before: now - EVENTS_KEPT, now, after }).await?;
        purged += slice.events;
        let Some(next) = slice.next else { break };
        after = next;
        tokio::time::sleep(BREATH).await;
    }
    if purged > 0 {
        log::info!("purged {purged} events received before {}", now - EVENTS_KEPT);
    }
    Ok(())
}

/// Lets the deliveries of one endpoint expire; its actor starts nothing meanwhile.
async fn expire(store: &Store, engine: &Engine, endpoint: EndpointNo) -> Result<(), StoreError> {
    let Ok(frozen) = engine.freeze(endpoint).await else { return Err(StoreError::Closed) };
    let on_the_wire: Vec<_> = frozen.spared.iter().map(|spared| spared.no).collect();
    let now = store.clock().now();
    let result = loop {
        let expire = Expire { endpoint, before: now - HELD_AT_MOST, now, on_the_wire: on_the_wire.clone() };
        match store.write(expire).await {
            Ok(0) => break Ok(()),
            Ok(count) => log::info!("{count} deliveries of endpoint {endpoint} expired: held for 30 days"),
            Err(error) => break Err(error),
        }
    };
    frozen.done().await;
    engine.refresh(&[endpoint]);
    result
}
