//! What it costs when no actor ever hears of what was accepted (S1): the rows wake it.

use std::collections::HashMap;

use posthaste::domain::policy::Preset;
use posthaste::domain::time::{Span, Timestamp};

use super::receiver;
use super::world::World;

/// An event every so often, to so many endpoints, for so many events.
const PAUSE: Span = Span::from_millis(37);
const ENDPOINTS: usize = 20;
const EVENTS: usize = 200;
/// 99 of a hundred first attempts begin within it.
const LATEST: Span = Span::from_secs(2);

#[test]
fn s01_with_every_hint_dropped_first_attempts_begin_within_two_seconds() {
    let mut world = World::new(601, 1.0);
    world.plan.lose_hint = 1.0;
    let mut accepted: HashMap<String, Timestamp> = HashMap::new();
    world.live(async |life| {
        for _ in 0..ENDPOINTS {
            life.endpoint(Preset::Orbit, 16, receiver::healthy()).await;
        }
        for number in 0..EVENTS {
            let event = format!("evt_{number}");
            life.post(&event, life.now()).await;
            accepted.insert(event, life.now());
            life.pass(PAUSE).await;
        }
        life.pass(Span::from_secs(5)).await;
    });
    let wires = world.wires();
    let mut waits: Vec<Span> = wires.iter().map(|wire| wire.began.since(accepted[&wire.event])).collect();
    waits.sort();
    assert_eq!(waits.len(), ENDPOINTS * EVENTS);
    let p99 = waits[waits.len() * 99 / 100];
    println!("p50 {:?}, p99 {p99:?}, most {:?}", waits[waits.len() / 2], waits[waits.len() - 1]);
    assert!(p99 < LATEST, "{p99:?}");
    // That they were lost: with them everything begins at once.
    assert!(waits[waits.len() / 2] > Span::from_millis(50), "{:?}", waits[waits.len() / 2]);
    world.end();
}
