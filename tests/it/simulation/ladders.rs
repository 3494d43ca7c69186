//! Whole ladders and single rules, to the millisecond.

use posthaste::domain::policy::Preset;
use posthaste::domain::time::Span;

use super::receiver;
use super::world::World;

#[test]
fn s01_an_accepted_event_is_delivered() {
    let mut world = World::new(1, 1.0);
    world.live(async |life| {
        life.endpoint(Preset::Orbit, 16, receiver::healthy()).await;
        life.post("evt_1", life.now()).await;
        life.pass(Span::SECOND).await;
    });
    let pages = world.ledger.pages();
    assert_eq!(pages.wire.len(), 1);
    assert!(pages.wire[0].ended.as_ref().is_some_and(|end| end.finding.is_success()));
}

#[test]
fn zz_measure() {
    for preset in [Preset::Orbit, Preset::Shellorbit, Preset::Salaf] {
        let begin = std::time::Instant::now();
        let mut world = World::new(1, 1.0);
        world.live(async |life| {
            life.endpoint(preset, 16, receiver::always(receiver::Turn::status(500))).await;
            life.post("evt_1", life.now()).await;
            life.pass(Span::from_secs(46 * 3600)).await;
        });
        println!("{preset:?}: {} attempts, {:?}", world.ledger.pages().wire.len(), begin.elapsed());
    }
    let begin = std::time::Instant::now();
    for seed in 0..100 {
        let mut world = World::new(seed, 100.0);
        world.live(async |_| {});
    }
    println!("100 empty lives: {:?}", begin.elapsed());
    let begin = std::time::Instant::now();
    let mut world = World::new(1, 100.0);
    world.live(async |life| {
        for _ in 0..4 {
            life.endpoint(Preset::Orbit, 16, receiver::healthy()).await;
        }
        for n in 0..500 {
            life.post(&format!("evt_{n}"), life.now()).await;
        }
        life.pass(Span::SECOND).await;
    });
    println!("2000 deliveries: {:?} {}", begin.elapsed(), world.ledger.pages().wire.len());
}
