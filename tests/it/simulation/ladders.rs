//! Whole ladders and single rules, to the millisecond.

use posthaste::domain::policy::Preset;
use posthaste::domain::time::Span;

use super::receiver;
use super::world::World;

#[test]
fn s01_an_accepted_event_is_delivered() {
    let mut world = World::new(1, 1.0);
    world.live(async |life| {
        life.endpoint(Preset::Orbit.into(), 16, receiver::healthy()).await;
        life.post("evt_1", life.now()).await;
        life.pass(Span::SECOND).await;
    });
    let pages = world.ledger.pages();
    assert_eq!(pages.wire.len(), 1);
    assert!(pages.wire[0].ended.as_ref().is_some_and(|end| end.finding.is_success()));
}
