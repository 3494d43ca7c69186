//! What the process does to itself: attempts that panic, memory that is full, actors that are not needed.

use std::time::Duration;

use posthaste::domain::policy::Preset;
use posthaste::domain::time::Span;

use super::receiver::{self, Turn};
use super::world::World;

/// The panic ends the attempt's task and nothing else.
#[test]
fn s06_an_attempt_that_panics_is_made_again() {
    let mut world = World::new(81, 1.0);
    world.live(async |life| {
        let receiver = Box::new(|call: receiver::Call<'_>| match call.nth {
            0 => panic!("planted in a transport"),
            _ => Turn::status(200),
        });
        let endpoint = life.endpoint(Preset::Orbit, 1, receiver).await;
        life.trouble.explains(Span::from_secs(3));
        life.post("evt_1", life.now()).await;
        life.post("evt_2", life.now()).await;
        life.pass(Span::from_secs(3)).await;
        let live = life.engine.live(endpoint).await.expect("its actor");
        assert_eq!((live.in_flight, live.next_start), (0, None));
    });
    let events: Vec<_> = world.wires().into_iter().map(|wire| wire.event).collect();
    assert_eq!(events, ["evt_1", "evt_2"]);
    world.end();
}

#[test]
fn s19_events_that_are_read_for_attempts_stay_within_their_budget() {
    let mut world = World::new(82, 1.0);
    let slow = || receiver::always(Turn::status(200).after(Duration::from_millis(700)));
    world.live(async |life| {
        for _ in 0..3 {
            life.endpoint(Preset::Orbit, 8, receiver::always(Turn::status(503))).await;
        }
        for n in 0..8 {
            life.post(&format!("evt_{n}"), life.now()).await;
        }
        life.pass(Span::SECOND).await;
    });
    world.receivers.replace(slow);
    // Room for three events: a body of a few bytes, and what each is charged for besides.
    world.settings.read_bodies = 1_100;
    world.live(async |life| {
        life.trouble.explains(Span::HOUR);
        life.pass(Span::from_secs(300)).await;
    });
    let wires = world.wires();
    let second: Vec<_> = wires.iter().filter(|wire| wire.life == 2).collect();
    assert_eq!(second.len(), 24, "all are delivered");
    let most = second.iter().map(|one| {
        let same = second
            .iter()
            .filter(|other| other.began <= one.began && other.ended.as_ref().is_none_or(|end| end.at > one.began));
        same.map(|wire| &wire.event).collect::<std::collections::HashSet<_>>().len()
    });
    // One for each endpoint beyond the budget.
    assert!(most.max() <= Some(3 + 3));
    world.end();
}

#[test]
fn s06_the_actor_of_a_disabled_endpoint_goes() {
    let mut world = World::new(83, 1.0);
    world.live(async |life| {
        let endpoint = life.endpoint(Preset::Orbit, 16, receiver::healthy()).await;
        life.post("evt_1", life.now()).await;
        life.pass(Span::SECOND).await;
        life.disable(endpoint).await.expect("the store is well");
        life.pass(Span::MINUTE).await;
        assert!(life.engine.live(endpoint).await.is_none(), "it has left");
        // And it is back when it is needed.
        life.enable(endpoint).await.expect("the store is well");
        life.post("evt_2", life.now()).await;
        life.pass(Span::SECOND).await;
    });
    assert_eq!(world.wires().len(), 2);
    world.end();
}
