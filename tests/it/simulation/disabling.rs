//! Auto-disable (S14), the cut (S15), enabling (S16), deleting (S27).

use std::time::Duration;

use posthaste::domain::delivery::{DeadReason, State};
use posthaste::domain::endpoint::Status;
use posthaste::domain::ids::EndpointNo;
use posthaste::domain::policy::Preset;
use posthaste::domain::time::{Span, Timestamp};
use posthaste::engine::retention;
use posthaste::store::accept::Accepted;
use posthaste::store::{Owned, Queue};

use super::ledger::What;
use super::life::Life;
use super::receiver::{self, Turn};
use super::trouble::Plan;
use super::world::{BEGINNING, World};

async fn owned(life: &Life, endpoint: EndpointNo) -> Owned {
    life.store.endpoint(endpoint, Vec::new()).await.expect("the store is well").expect("an endpoint")
}

/// When verdicts disabled an endpoint: the end of the attempt that did it.
fn disabled(world: &World) -> Vec<Timestamp> {
    let pages = world.ledger.pages();
    let by_verdict = pages.entries.iter().filter_map(|entry| match &entry.what {
        What::Recorded { results, disabled: true, .. } => results.last(),
        _ => None,
    });
    by_verdict.map(|result| result.ended).collect()
}

#[test]
fn s14_three_days_of_failure_disable_with_an_attempt_and_never_by_a_timer() {
    let mut world = World::new(21, 100.0);
    world.live(async |life| {
        let endpoint = life.endpoint(Preset::Salaf, 16, receiver::always(Turn::status(500))).await;
        life.post("evt_1", life.now()).await;
        // Its ladder ends after 45 hours; nothing is attempted then until the next event.
        life.pass(Span::from_secs(75 * 3_600)).await;
        assert_eq!(owned(life, endpoint).await.record.status, Status::Enabled, "three days are over, and no attempt");
        life.post("evt_2", life.now()).await;
        life.pass(Span::SECOND).await;
        let after = owned(life, endpoint).await;
        assert_eq!(after.record.status, Status::AutoDisabled);
        let reason = after.record.disabled_reason.expect("a reason");
        assert!(reason.contains("3 days"), "{reason}");
    });
    assert_eq!(disabled(&world).len(), 1);
    world.end();
}

#[test]
fn s14_one_success_within_the_three_days_starts_the_clock_anew() {
    let mut world = World::new(22, 100.0);
    world.live(async |life| {
        let lucky: receiver::Receiver = Box::new(|call| match call.event {
            "lucky" => Turn::status(200),
            _ => Turn::status(500),
        });
        let endpoint = life.endpoint(Preset::Salaf, 16, lucky).await;
        for (event, hours) in [("evt_1", 40), ("lucky", 10), ("evt_2", 50), ("evt_3", 15)] {
            life.post(event, life.now()).await;
            life.pass(Span::from_secs(hours * 3_600)).await;
        }
        assert_eq!(owned(life, endpoint).await.record.status, Status::Enabled, "115 hours, but not in a row");
        // The last attempt of evt_1 was the first to fail after the lucky one, at hour 45: three days later is hour 117.
        life.pass(Span::from_secs(3 * 3_600)).await;
        life.post("evt_4", life.now()).await;
        life.pass(Span::SECOND).await;
        assert_eq!(owned(life, endpoint).await.record.status, Status::AutoDisabled);
    });
    world.end();
}

/// Sixty events for a receiver that fails, twenty on the wire at a time; the process dies once `crash_at` failures are
/// recorded.
fn fifty_failures(crash_at: usize) -> World {
    let mut world = World::new(23, 1.0);
    let endpoint = EndpointNo(1);
    world.live(async |life| {
        life.endpoint(Preset::Orbit, 20, receiver::always(Turn::status(500).after(Duration::from_millis(100)))).await;
        for n in 0..60 {
            life.post(&format!("evt_{n}"), life.now()).await;
        }
        while life.ledger.results().len() < crash_at && life.now() < BEGINNING + Span::MINUTE {
            life.pass(Span::MILLISECOND).await;
        }
    });
    world.live(async |life| {
        life.pass(Span::MINUTE).await;
        let after = owned(life, endpoint).await;
        assert_eq!(after.record.status, Status::AutoDisabled);
        let reason = after.record.disabled_reason.expect("a reason");
        assert!(reason.starts_with("50 failed attempts in a row"), "{reason}");
        retention::rewrite(&life.store).await.expect("the store is well");
        life.inspect();
    });
    world
}

#[test]
fn s14_fifty_failures_with_twenty_on_the_wire_disable_once() {
    let world = fifty_failures(60);
    assert_eq!(disabled(&world).len(), 1);
    let results = world.results().len();
    assert!((50..70).contains(&results), "what was on the wire at the fiftieth finishes: {results}");
    world.end();
}

#[test]
fn s14_a_crash_at_the_thirtieth_failure_loses_none_of_them() {
    let world = fifty_failures(30);
    assert_eq!(disabled(&world).len(), 1);
    world.end();
}

#[test]
fn s07_a_proven_dead_answer_disables_at_once_and_takes_what_waits_with_it() {
    let mut world = World::new(24, 1.0);
    world.live(async |life| {
        let turns = [Turn::status(500), Turn::status(410)];
        let endpoint = life.endpoint(Preset::Orbit, 1, receiver::script(turns)).await;
        let waits = life.post("evt_1", life.now()).await;
        let gone = life.post("evt_2", life.now()).await;
        let never = life.post("evt_3", life.now()).await;
        life.pass(Span::HOUR).await;
        let mut reasons = Vec::new();
        for event in [&waits, &gone, &never] {
            reasons.push(life.view(&event.deliveries[0].id).await.dead_reason.expect("dead"));
        }
        let wanted = [DeadReason::EndpointDisabled, DeadReason::PermanentResponse, DeadReason::EndpointDisabled];
        assert_eq!(reasons, wanted);
        assert_eq!(owned(life, endpoint).await.record.status, Status::AutoDisabled);
    });
    assert_eq!(world.wires().len(), 2);
    world.end();
}

/// Disables while these four are on the wire and two wait: answers 200, 500, 410 and hangs. Answers the six.
async fn cut_with_four_on_the_wire(life: &Life) -> (EndpointNo, Vec<Accepted>) {
    let slow = |status| Turn::status(status).after(Duration::from_secs(5));
    let turns = [slow(200), slow(500), slow(410), Turn::hang()];
    let endpoint = life.endpoint(Preset::Shellorbit, 4, receiver::script(turns)).await;
    let mut events = Vec::new();
    for n in 0..6 {
        events.push(life.post(&format!("evt_{n}"), life.now()).await);
    }
    life.pass(Span::SECOND).await;
    assert_eq!(life.wires().len(), 4);
    assert_eq!(life.disable(endpoint).await, Ok(true));
    (endpoint, events)
}

async fn states(life: &Life, events: &[Accepted]) -> Vec<(State, Option<DeadReason>)> {
    let mut states = Vec::new();
    for event in events {
        let view = life.view(&event.deliveries[0].id).await;
        states.push((view.state, view.dead_reason));
    }
    states
}

const CUT: (State, Option<DeadReason>) = (State::Dead, Some(DeadReason::EndpointDisabled));
const WAITS: (State, Option<DeadReason>) = (State::Pending, None);

#[test]
fn s15_what_is_on_the_wire_at_the_cut_finishes_and_the_rest_is_dead_at_once() {
    for rewrite_first in [false, true] {
        let mut world = World::new(25, 1.0);
        world.live(async |life| {
            let (endpoint, events) = cut_with_four_on_the_wire(life).await;
            assert_eq!(states(life, &events).await, [WAITS, WAITS, WAITS, WAITS, CUT, CUT]);
            if rewrite_first {
                retention::rewrite(&life.store).await.expect("the store is well");
            }
            life.inspect();
            life.pass(Span::MINUTE).await;
            let delivered = (State::Delivered, None);
            let permanent = (State::Dead, Some(DeadReason::PermanentResponse));
            assert_eq!(states(life, &events).await, [delivered, CUT, permanent, CUT, CUT, CUT]);
            assert_eq!(owned(life, endpoint).await.record.status, Status::Disabled, "a success enables nothing");
            // S16: enabling resurrects nothing, whether the rows are rewritten or not.
            assert_eq!(life.enable(endpoint).await, Ok(true));
            life.inspect();
            retention::rewrite(&life.store).await.expect("the store is well");
            life.pass(Span::HOUR).await;
            assert_eq!(life.wires().len(), 4);
        });
        world.end();
    }
}

#[test]
fn s15_a_crash_gives_up_what_was_on_the_wire_to_the_cut() {
    let mut world = World::new(26, 1.0);
    let events = world.live(async |life| cut_with_four_on_the_wire(life).await.1);
    world.live(async |life| {
        assert_eq!(states(life, &events).await, [CUT; 6]);
        life.inspect();
        life.enable(EndpointNo(1)).await.expect("the store is well");
        life.pass(Span::HOUR).await;
        assert_eq!(life.wires().len(), 4);
    });
    world.end();
}

#[test]
fn s15_an_attempt_from_before_one_cut_may_be_on_the_wire_at_the_next() {
    let mut world = World::new(27, 1.0);
    world.live(async |life| {
        let (endpoint, events) = cut_with_four_on_the_wire(life).await;
        assert_eq!(life.enable(endpoint).await, Ok(true));
        assert_eq!(life.disable(endpoint).await, Ok(true), "the spared ones are spared already");
        life.inspect();
        life.pass(Span::MINUTE).await;
        assert_eq!(states(life, &events).await[0].0, State::Delivered);
    });
    world.end();
}

/// The store takes its time, so results are under way at the freeze and committed before the cut.
#[test]
fn s15_a_result_committed_between_the_freeze_and_the_cut_is_not_spared() {
    for seed in 0..30 {
        let mut world = World::new(seed, 1.0);
        world.plan = Plan { linger: 40, ..Plan::default() };
        world.live(async |life| {
            let turn = Turn::status(500).after(Duration::from_millis(30));
            let endpoint = life.endpoint(Preset::Shellorbit, 16, receiver::always(turn)).await;
            for n in 0..8 {
                life.post(&format!("evt_{n}"), life.now()).await;
                life.pass(Span::from_millis(10)).await;
            }
            assert_eq!(life.disable(endpoint).await, Ok(true));
            life.pass(Span::MINUTE).await;
            life.inspect();
        });
        world.plan = Plan::default();
        world.live(async |life| life.pass(Span::MINUTE).await);
        world.end();
    }
}

#[test]
fn s15_new_events_for_a_disabled_endpoint_are_dead_letters_or_skipped() {
    let mut world = World::new(28, 1.0);
    world.live(async |life| {
        let keeps = life.endpoint(Preset::Orbit, 16, receiver::healthy()).await;
        let skips = life.endpoint(Preset::Salaf, 16, receiver::healthy()).await;
        life.disable(keeps).await.expect("the store is well");
        life.disable(skips).await.expect("the store is well");
        let event = life.post("evt_1", life.now()).await;
        assert_eq!(event.deliveries.len(), 1);
        assert_eq!(states(life, &[event]).await, [CUT]);
        life.enable(keeps).await.expect("the store is well");
        assert_eq!(life.requeue_all(keeps).await, Ok(1));
        life.pass(Span::SECOND).await;
        assert_eq!(life.wires().len(), 1);
    });
    world.end();
}

#[test]
fn s13_an_attempt_that_began_before_the_enable_counts_in_no_streak() {
    let mut world = World::new(29, 1.0);
    world.live(async |life| {
        let turn = Turn::status(500).after(Duration::from_secs(5));
        let endpoint = life.endpoint(Preset::Salaf, 16, receiver::always(turn)).await;
        life.post("evt_1", life.now()).await;
        life.pass(Span::SECOND).await;
        life.enable(endpoint).await.expect("the store is well");
        life.pass(Span::from_secs(10)).await;
        assert_eq!(owned(life, endpoint).await.health.failures, 0);
        life.pass(Span::MINUTE).await;
        assert_eq!(owned(life, endpoint).await.health.failures, 1);
    });
}

#[test]
fn s27_nothing_is_sent_to_a_deleted_endpoint_and_its_actor_has_no_successor() {
    let mut world = World::new(30, 1.0);
    let opened = world.live(async |life| {
        let turns = [Turn::status(500), Turn::status(200).after(Duration::from_secs(5))];
        let endpoint = life.endpoint(Preset::Shellorbit, 1, receiver::script(turns)).await;
        life.post("evt_1", life.now()).await;
        life.post("evt_2", life.now()).await;
        life.pass(Span::SECOND).await;
        assert_eq!(life.delete(endpoint).await, Ok(true));
        retention::rewrite(&life.store).await.expect("the store is well");
        life.pass(Span::HOUR).await;
        assert_eq!(life.wires().len(), 2);
        let opened = life.transports_opened();
        life.engine.refresh(&[endpoint]);
        life.pass(Span::HOUR).await;
        life.transports_opened() - opened
    });
    assert_eq!(opened, 1, "built once, to find that there is nothing to do");
    assert_eq!(world.wires().len(), 2);
}
