//! The circuit breaker (S17) and the order of first attempts behind it (S3).

use posthaste::domain::delivery::State;
use posthaste::domain::ids::{DeliveryNo, EndpointNo, parse_delivery_id};
use posthaste::domain::policy::{CircuitBreaker, Preset};
use posthaste::domain::policy_spec::PolicySpec;
use posthaste::domain::schedule::Schedule;
use posthaste::domain::time::{Span, Timestamp};
use posthaste::store::change::Door;
use posthaste::store::list::FindEndpoint;
use posthaste::store::{DEFAULT_TENANT, Queue};

use super::ledger::Wire;
use super::life::Life;
use super::people::Retried;
use super::receiver::{self, Receiver, Turn};
use super::world::World;

const COOLDOWN: Span = Span::from_secs(600);

/// The second preset, but every event has these retries.
fn policy(retries: &[u64]) -> PolicySpec {
    let mut policy = PolicySpec::from(Preset::Shellorbit);
    policy.overrides.schedule = Some(Schedule::Ladder(retries.iter().map(|&secs| Span::from_secs(secs)).collect()));
    policy.overrides.jitter = Some(0.0);
    policy
}

async fn circuit(life: &Life, endpoint: EndpointNo) -> Option<(Timestamp, Timestamp)> {
    let owned = life.store.endpoint(endpoint, Vec::new()).await.expect("the store is well").expect("an endpoint");
    owned.health.circuit.opened_at().zip(owned.health.circuit.retry_at())
}

/// Ten events that die at once: the circuit is open then.
async fn open(life: &Life, receiver: Receiver, policy: PolicySpec, max_in_flight: u16) -> EndpointNo {
    let endpoint = life.endpoint(policy, max_in_flight, receiver).await;
    for n in 0..10 {
        assert_eq!(circuit(life, endpoint).await, None, "not before the tenth");
        life.post(&format!("bad_{n}"), life.now()).await;
        life.pass(Span::SECOND).await;
    }
    assert!(circuit(life, endpoint).await.is_some(), "at the tenth");
    endpoint
}

/// Events whose id begins with `bad` fail.
fn bad_ones() -> Receiver {
    Box::new(|call| if call.event.starts_with("bad") { Turn::status(500) } else { Turn::status(200) })
}

fn of<'a>(wires: &'a [Wire], event: &str) -> Vec<&'a Wire> {
    wires.iter().filter(|wire| wire.event == event).collect()
}

fn number(accepted: &posthaste::store::accept::Accepted) -> DeliveryNo {
    parse_delivery_id(&accepted.deliveries[0].id).expect("a delivery's id")
}

#[test]
fn s17_opens_at_ten_holds_probes_once_per_cool_down_and_drains_in_order() {
    let mut world = World::new(11, 1.0);
    let (opened_at, poison_at) = world.live(async |life| {
        let endpoint = open(life, bad_ones(), policy(&[]), 2).await;
        let (opened_at, retry_at) = circuit(life, endpoint).await.expect("open");
        assert_eq!(retry_at.since(opened_at), COOLDOWN);
        // A poison event, the oldest of all, and twenty good ones in a shuffled order.
        let poison_at = life.now();
        life.post("bad_poison", poison_at - Span::DAY).await;
        for n in [7, 3, 19, 0, 12, 4, 15, 9, 1, 18, 2, 11, 6, 17, 5, 10, 8, 14, 13, 16] {
            life.post(&format!("good_{n:02}"), poison_at - Span::from_secs(3_600 - n)).await;
        }
        life.pass(Span::from_secs(500)).await;
        assert_eq!(life.wires().len(), 10, "held");
        life.until(retry_at + Span::SECOND).await;
        assert_eq!(life.wires().len(), 11, "one probe");
        let (same, again) = circuit(life, endpoint).await.expect("open");
        assert_eq!((same, again), (opened_at, life.wires()[10].ended.as_ref().expect("an end").at + COOLDOWN));
        life.until(again + Span::MINUTE).await;
        assert_eq!(circuit(life, endpoint).await, None);
        (opened_at, poison_at)
    });
    let wires = world.wires();
    let probes = &wires[10..];
    assert_eq!(probes[0].event, "bad_poison");
    assert_eq!(probes[0].began, opened_at + COOLDOWN);
    assert!(poison_at < probes[0].began);
    let order: Vec<&str> = probes[1..].iter().map(|wire| wire.event.as_str()).collect();
    let wanted: Vec<String> = (0..20).map(|n| format!("good_{n:02}")).collect();
    assert_eq!(order, wanted, "the poison event shuts nobody out, and what was held drains in the order of the events");
    world.end();
}

#[test]
fn s17_a_retry_that_failed_as_the_probe_stands_behind_the_others() {
    let mut world = World::new(12, 1.0);
    world.live(async |life| {
        open(life, bad_ones(), policy(&[]), 16).await;
        let endpoint = EndpointNo(1);
        life.edit(endpoint, |record| record.policy = policy(&[1, 1, 1, 1])).await.expect("the store is well");
        life.post("bad_poison", life.now() - Span::DAY).await;
        life.pass(COOLDOWN).await;
        assert_eq!(of(&life.wires(), "bad_poison").len(), 1);
        life.post("good", life.now()).await;
        life.pass(COOLDOWN + Span::SECOND).await;
        assert_eq!(circuit(life, endpoint).await, None, "the good one was the second probe");
    });
    assert_eq!(of(&world.wires(), "good").len(), 1);
}

#[test]
fn s17_an_open_circuit_survives_a_crash_with_the_same_instants() {
    let mut world = World::new(13, 1.0);
    let before = world.live(async |life| {
        let endpoint = open(life, bad_ones(), policy(&[]), 16).await;
        life.post("good", life.now()).await;
        life.pass(Span::from_secs(100)).await;
        circuit(life, endpoint).await
    });
    world.rest(Span::from_secs(60));
    world.live(async |life| {
        assert_eq!(circuit(life, EndpointNo(1)).await, before);
        life.pass(COOLDOWN).await;
        assert_eq!(circuit(life, EndpointNo(1)).await, None);
    });
    let began = of(&world.wires(), "good")[0].began;
    assert_eq!(Some(began), before.map(|(_, retry_at)| retry_at));
    world.end();
}

#[test]
fn s17_a_crash_with_the_probe_on_the_wire_sends_another() {
    let mut world = World::new(14, 1.0);
    let receiver: Receiver = Box::new(|call| match call.event {
        "slow" if call.nth == 10 => Turn::hang(),
        event if event.starts_with("bad") => Turn::status(500),
        _ => Turn::status(200),
    });
    world.live(async |life| {
        open(life, receiver, policy(&[]), 16).await;
        life.post("slow", life.now()).await;
        life.post("next", life.now()).await;
        life.pass(COOLDOWN).await;
        assert_eq!(life.wires().len(), 11);
    });
    world.live(async |life| {
        life.pass(Span::SECOND).await;
        assert_eq!(circuit(life, EndpointNo(1)).await, None);
    });
    let events: Vec<String> = world.wires()[10..].iter().map(|wire| wire.event.clone()).collect();
    assert_eq!(events, ["slow", "slow", "next"]);
    world.end();
}

#[test]
fn s03_fifty_shuffled_events_behind_an_open_circuit_leave_in_the_order_of_their_times() {
    for window in [2, 512] {
        let mut world = World::new(15, 1.0);
        world.settings.window = window;
        world.live(async |life| {
            let endpoint = open(life, bad_ones(), policy(&[]), 1).await;
            let now = life.now();
            for n in 0..50u64 {
                let shuffled = (n * 37 + 11) % 50;
                life.post(&format!("good_{shuffled:02}"), now - Span::from_secs(1_000 - shuffled)).await;
            }
            life.pass(COOLDOWN + Span::MINUTE).await;
            assert_eq!(circuit(life, endpoint).await, None);
        });
        let order: Vec<String> = world.wires()[10..].iter().map(|wire| wire.event.clone()).collect();
        let wanted: Vec<String> = (0..50).map(|n| format!("good_{n:02}")).collect();
        assert_eq!(order, wanted, "window {window}");
        world.end();
    }
}

#[test]
fn s17_a_persons_single_retry_goes_out_at_once_as_the_probe() {
    let mut world = World::new(16, 1.0);
    world.live(async |life| {
        let endpoint = open(life, bad_ones(), policy(&[]), 16).await;
        let held = life.post("good", life.now()).await;
        life.pass(Span::MINUTE).await;
        assert_eq!(life.view(&held.deliveries[0].id).await.attempts_total, 0);
        assert_eq!(life.retry(number(&held), Door::Retry).await, Retried::Done);
        life.pass(Span::SECOND).await;
        let view = life.view(&held.deliveries[0].id).await;
        assert_eq!((view.state, view.run), (State::Delivered, 1), "a pending delivery is only made due now");
        assert_eq!(circuit(life, endpoint).await, None);
    });
    world.end();
}

#[test]
fn s17_bulk_requeues_are_held_like_everything_else() {
    let mut world = World::new(17, 1.0);
    world.live(async |life| {
        let endpoint = open(life, receiver::always(Turn::status(500)), policy(&[]), 16).await;
        let (_, retry_at) = circuit(life, endpoint).await.expect("open");
        assert_eq!(life.requeue_all(endpoint).await, Ok(10));
        life.until(retry_at - Span::SECOND).await;
        assert_eq!(life.wires().len(), 10);
        life.receivers.heal();
        life.pass(Span::MINUTE).await;
        assert_eq!(life.wires().len(), 20);
    });
    world.end();
}

#[test]
fn s17_removing_the_breaker_closes_the_circuit_and_keeps_the_streaks() {
    let mut world = World::new(18, 1.0);
    world.live(async |life| {
        let endpoint = open(life, bad_ones(), policy(&[]), 16).await;
        life.post("good", life.now()).await;
        life.edit(endpoint, |record| record.policy.overrides.circuit_breaker = Some(None)).await.expect("well");
        let row = life.store.endpoint(endpoint, Vec::new()).await.expect("well").expect("there").record;
        let found =
            life.store.ask(FindEndpoint { tenant: DEFAULT_TENANT, id: row.id.to_string() }).await.expect("well");
        let health = found.expect("there").health;
        assert_eq!((health.opened_at, health.exhausted, health.failures), (None, 10, 10));
        life.pass(Span::SECOND).await;
        assert_eq!(of(&life.wires(), "good").len(), 1);
        let breaker = CircuitBreaker { exhausted: 1, cooldown: Span::SECOND };
        life.edit(endpoint, |record| record.policy.overrides.circuit_breaker = Some(Some(breaker)))
            .await
            .expect("well");
        assert_eq!(circuit(life, endpoint).await, None, "a new breaker opens with the next death only");
    });
    world.end();
}

/// The actor leaves because the cool-down is long; a sweep would find what is due only after up to a second.
#[test]
fn s10_s17_enabling_lets_go_at_once_what_the_circuit_held_though_the_actor_has_left() {
    let mut world = World::new(19, 1.0);
    world.live(async |life| {
        let endpoint = open(life, bad_ones(), policy(&[]), 16).await;
        life.post("good", life.now()).await;
        life.pass(Span::from_secs(60)).await;
        assert!(life.engine.live(endpoint).await.is_none(), "its actor has left");
        life.pass(Span::from_millis(300)).await;
        life.enable(endpoint).await.expect("well");
        let enabled = life.now();
        life.pass(Span::SECOND).await;
        assert_eq!(of(&life.wires(), "good").first().map(|wire| wire.began.since(enabled)), Some(Span::ZERO));
    });
    world.end();
}
