//! What the process does to itself: attempts that panic, memory that is full, actors that are not needed.

use std::time::Duration;

use posthaste::domain::policy::{Action, Preset, ResponseRule};
use posthaste::domain::policy_spec::PolicySpec;
use posthaste::domain::schedule::StatusSet;
use posthaste::domain::time::Span;

use super::receiver::{self, Turn};
use super::world::{BEGINNING, World};

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

/// C57: a loop that does not get on is seen, and gets on by itself.
#[test]
fn c57_an_engine_that_cannot_sweep_says_so_until_it_can() {
    let mut world = World::new(84, 1.0);
    world.plan.outages = vec![(BEGINNING + Span::from_secs(5), BEGINNING + Span::from_secs(35))];
    world.live(async |life| {
        life.endpoint(Preset::Orbit, 16, receiver::healthy()).await;
        life.pass(Span::from_secs(4)).await;
        assert!(life.engine.is_ticking());
        life.pass(Span::from_secs(20)).await;
        assert!(!life.engine.is_ticking(), "no sweep for more than ten seconds");
        life.trouble.explains(Span::MINUTE);
        life.pass(Span::from_secs(20)).await;
        assert!(life.engine.is_ticking());
        life.post("evt_1", life.now()).await;
        life.pass(Span::SECOND).await;
    });
    assert_eq!(world.wires().len(), 1);
    world.end();
}

/// C61: what is delivered, or has its retry before it, is none of a bulk requeue's; what is requeued keeps to the endpoint's
/// slots, and is requeued once.
#[test]
fn c61_a_bulk_requeue_beside_retries_takes_what_is_dead_and_takes_it_once() {
    let mut world = World::new(85, 1.0);
    world.live(async |life| {
        let turns = Box::new(|call: receiver::Call<'_>| match (&call.event[..4], call.nth) {
            ("well", _) | (_, 60..) => Turn::status(200).after(Duration::from_millis(200)),
            ("gone", _) => Turn::status(404),
            _ => Turn::status(503),
        });
        let mut policy = PolicySpec::from(Preset::Orbit);
        policy.overrides.auto_disable = Some(None);
        policy.overrides.jitter = Some(0.0);
        let status = StatusSet::parse("404").expect("a set");
        policy.overrides.responses = Some(vec![ResponseRule { status, action: Action::DeadLetter }]);
        let endpoint = life.endpoint(policy, 4, turns).await;
        for kind in ["well", "gone", "late"] {
            for n in 0..20 {
                life.post(&format!("{kind}_{n}"), life.now()).await;
            }
        }
        life.pass(Span::from_secs(10)).await;
        assert_eq!(life.wires().len(), 60);
        assert_eq!(life.requeue_all(endpoint).await, Ok(20));
        assert_eq!(life.requeue_all(endpoint).await, Ok(0), "they wait, and are dead no more");
        life.pass(Span::from_secs(60)).await;
        assert_eq!(life.requeue_all(endpoint).await, Ok(0));
    });
    let wires = world.wires();
    let of = |kind: &str| wires.iter().filter(|wire| wire.event.starts_with(kind)).count();
    assert_eq!((of("well"), of("gone"), of("late")), (20, 40, 40));
    world.end();
}
