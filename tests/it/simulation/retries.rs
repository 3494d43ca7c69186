//! Retries and requeues by people (S12).

use std::time::Duration;

use posthaste::domain::delivery::{DeadReason, Next, State};
use posthaste::domain::ids::{DeliveryNo, EndpointNo, parse_delivery_id};
use posthaste::domain::policy::Preset;
use posthaste::domain::policy_spec::PolicySpec;
use posthaste::domain::time::Span;
use posthaste::store::accept::Accepted;
use posthaste::store::change::{Door, NotPutBack};

use super::people::Retried;
use super::receiver::{self, Turn};
use super::trouble::Plan;
use super::world::World;

fn number(accepted: &Accepted) -> DeliveryNo {
    parse_delivery_id(&accepted.deliveries[0].id).expect("a delivery's id")
}

#[test]
fn s12_a_retry_from_rung_three_starts_the_next_run_at_rung_one() {
    let mut world = World::new(41, 1.0);
    world.live(async |life| {
        life.endpoint(Preset::Salaf, 16, receiver::always(Turn::status(500))).await;
        let event = life.post("evt_1", life.now()).await;
        life.pass(Span::from_secs(200)).await;
        let before = life.view(&event.deliveries[0].id).await;
        assert_eq!((before.state, before.run, before.attempt), (State::Failed, 1, 3));
        assert_eq!(life.retry(number(&event), Door::Retry).await, Retried::Done);
        life.pass(Span::from_millis(10)).await;
        let after = life.view(&event.deliveries[0].id).await;
        assert_eq!((after.state, after.run, after.attempt, after.attempts_total), (State::Failed, 2, 1, 4));
        life.pass(Span::from_secs(40)).await;
    });
    let (wires, results) = (world.wires(), world.results());
    assert_eq!((wires[3].attempt, results[3].run), (1, 2));
    let Next::Retry { due_at, .. } = results[3].next else { panic!("{:?}", results[3]) };
    assert_eq!(due_at.since(results[3].ended), Span::from_secs(30));
    assert_eq!(wires[4].began, due_at);
}

#[test]
fn s12_a_retry_while_an_attempt_is_on_the_wire_is_refused_and_sends_nothing() {
    let mut world = World::new(42, 1.0);
    world.live(async |life| {
        let slow = Turn::status(200).after(Duration::from_secs(5));
        life.endpoint(Preset::Salaf, 16, receiver::always(slow)).await;
        let event = life.post("evt_1", life.now()).await;
        life.pass(Span::SECOND).await;
        assert_eq!(life.retry(number(&event), Door::Retry).await, Retried::OnTheWire);
        life.pass(Span::MINUTE).await;
    });
    assert_eq!(world.wires().len(), 1);
    world.end();
}

#[test]
fn s12_a_delivered_one_can_be_retried_and_keeps_its_first_success() {
    let mut world = World::new(43, 1.0);
    world.live(async |life| {
        let turns = [Turn::status(200), Turn::status(410)];
        life.endpoint(Preset::Shellorbit, 16, receiver::script(turns)).await;
        let event = life.post("evt_1", life.now()).await;
        life.pass(Span::SECOND).await;
        let first = life.view(&event.deliveries[0].id).await.delivered_at;
        assert!(first.is_some());
        assert_eq!(life.retry(number(&event), Door::Requeue).await, Retried::Refused(NotPutBack::NotFound));
        assert_eq!(life.retry(number(&event), Door::Retry).await, Retried::Done);
        life.pass(Span::SECOND).await;
        let view = life.view(&event.deliveries[0].id).await;
        assert_eq!((view.state, view.dead_reason), (State::Dead, Some(DeadReason::PermanentResponse)));
        assert_eq!((view.run, view.delivered_at), (2, first));
    });
    world.end();
}

#[test]
fn s12_refusals_change_nothing() {
    let mut world = World::new(44, 10_000.0);
    world.live(async |life| {
        let endpoint = life.endpoint(Preset::Orbit, 16, receiver::always(Turn::status(410))).await;
        let event = life.post("evt_1", life.now()).await;
        life.pass(Span::HOUR).await;
        let disabled = Retried::Refused(NotPutBack::EndpointDisabled);
        assert_eq!(life.retry(number(&event), Door::Requeue).await, disabled);
        life.enable(endpoint).await.expect("the store is well");
        life.pass(Span::from_secs(8 * 86_400)).await;
        assert_eq!(life.retry(number(&event), Door::Requeue).await, Retried::Refused(NotPutBack::Expired));
        life.pass(Span::HOUR).await;
        life.inspect();
    });
    assert_eq!(world.wires().len(), 1);
    world.end();
}

/// The answer to the post may be back before the hint has reached the actor: a retry then meets a delivery that its
/// actor has never heard of.
#[test]
fn s12_a_retry_that_is_quicker_than_the_hint_sends_once() {
    let mut world = World::new(45, 1.0);
    world.plan = Plan { late_hint: 1.0, ..Plan::default() };
    world.live(async |life| {
        life.endpoint(Preset::Salaf, 16, receiver::healthy()).await;
        for n in 0..20 {
            let event = life.post(&format!("evt_{n}"), life.now()).await;
            assert_eq!(life.retry(number(&event), Door::Retry).await, Retried::Done);
            life.pass(Span::from_millis(70)).await;
        }
        life.pass(Span::MINUTE).await;
    });
    assert_eq!(world.wires().len(), 20);
    world.end();
}

/// The store refuses the person: the delivery goes on as before, also if the process dies right then.
#[test]
fn s12_a_retry_that_fails_leaves_the_delivery_where_it_was() {
    let mut world = World::new(46, 1.0);
    world.live(async |life| {
        let turns: receiver::Receiver = Box::new(|call| match (call.event, call.attempt) {
            ("evt_1", 1) => Turn::status(500),
            _ => Turn::status(200).after(Duration::from_secs(2)),
        });
        life.endpoint(Preset::Salaf, 16, turns).await;
        life.post("evt_1", life.now()).await;
        life.pass(Span::from_secs(5)).await;
    });
    world.plan.refuse = 1.0;
    world.live(async |life| {
        life.pass(Span::from_secs(5)).await;
        assert_eq!(life.retry(DeliveryNo(1), Door::Retry).await, Retried::Failed);
        life.pass(Span::from_secs(1)).await;
    });
    world.plan.refuse = 0.0;
    world.live(async |life| {
        assert_eq!(life.wires().len(), 1);
        life.pass(Span::MINUTE).await;
    });
    assert_eq!(world.wires()[1].began, world.results()[0].ended + Span::from_secs(30));
    world.end();
}

/// Many are put back behind the actor's back while it writes a result: they are found again, whatever it thought.
#[test]
fn s12_a_bulk_requeue_is_not_forgotten_by_a_result_that_is_being_written() {
    for seed in 0..20 {
        let mut world = World::new(seed, 1.0);
        world.live(async |life| {
            let mut policy = PolicySpec::from(Preset::Shellorbit);
            policy.overrides.circuit_breaker = Some(None);
            let endpoint = life.endpoint(policy, 16, receiver::always(Turn::status(410))).await;
            for n in 0..5 {
                life.post(&format!("evt_{n}"), life.now()).await;
            }
            life.pass(Span::SECOND).await;
            assert_eq!(life.requeue_all(endpoint).await, Ok(5));
            life.pass(Span::SECOND).await;
        });
        world.plan.linger = 20;
        world.live(async |life| {
            life.receivers.heal();
            life.post("evt_5", life.now()).await;
            life.pass(Span::from_millis(seed * 3)).await;
            assert!(life.requeue_all(EndpointNo(1)).await.is_ok());
            life.inspect();
        });
        world.plan = Plan::default();
        world.live(async |life| life.pass(Span::MINUTE).await);
        world.end();
    }
}
