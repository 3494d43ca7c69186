//! Faults that are not the receiver's (S6), what one endpoint may take (S19), and how two lines share (S3).

use std::time::Duration;

use posthaste::domain::attempt::ErrorKind;
use posthaste::domain::delivery::State;
use posthaste::domain::ids::EndpointNo;
use posthaste::domain::notice::NoticeKind;
use posthaste::domain::policy::Preset;
use posthaste::domain::policy_spec::PolicySpec;
use posthaste::domain::schedule::Schedule;
use posthaste::domain::time::{Span, Timestamp};
use posthaste::store::Queue;

use super::ledger::{Hold, What, Wire};
use super::life::Life;
use super::receiver::{self, Receiver, Turn};
use super::world::{BEGINNING, World};

fn waits(wires: &[Wire]) -> Vec<u64> {
    wires.windows(2).map(|pair| pair[1].began.since(pair[0].began).as_millis() as u64).collect()
}

#[test]
fn s06_a_fault_of_ours_is_tried_again_after_a_second_doubling_to_a_minute() {
    let mut world = World::new(51, 1.0);
    world.live(async |life| {
        let until = BEGINNING + Span::from_secs(200);
        let receiver = receiver::outage(vec![(BEGINNING, until)], Turn::local(), receiver::healthy());
        life.endpoint(Preset::Orbit, 16, receiver).await;
        let event = life.post("evt_1", life.now()).await;
        life.pass(Span::from_secs(190)).await;
        let view = life.view(&event.deliveries[0].id).await;
        assert_eq!((view.state, view.attempt, view.attempts_total), (State::Pending, 0, 0));
        life.pass(Span::MINUTE).await;
    });
    assert_eq!(waits(&world.wires()), [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000, 60_000]);
    assert_eq!(world.results().len(), 1, "nothing is recorded of the others");
    world.end();
}

#[test]
fn s06_many_attempts_that_meet_the_same_fault_wait_once() {
    let mut world = World::new(52, 1.0);
    world.live(async |life| {
        let until = BEGINNING + Span::from_millis(500);
        let receiver = receiver::outage(vec![(BEGINNING, until)], Turn::local(), receiver::healthy());
        life.endpoint(Preset::Orbit, 16, receiver).await;
        for n in 0..16 {
            life.post(&format!("evt_{n}"), life.now()).await;
        }
        life.pass(Span::from_secs(2)).await;
    });
    assert_eq!(world.results().len(), 16, "all were tried again within two seconds");
    world.end();
}

#[test]
fn s06_when_nothing_leaves_the_installation_rungs_are_used_and_streaks_stay() {
    let mut world = World::new(53, 1.0);
    world.live(async |life| {
        for _ in 0..5 {
            life.endpoint(Preset::Orbit, 16, receiver::always(Turn::failed(ErrorKind::Connect))).await;
        }
        for n in 0..10 {
            life.post(&format!("evt_{n}"), life.now()).await;
            life.pass(Span::SECOND).await;
        }
        let mut failures = 0;
        for no in 1..=5 {
            let owned = life.store.endpoint(EndpointNo(no), Vec::new()).await.expect("well").expect("there");
            failures += owned.health.failures;
        }
        assert_eq!(failures, 19, "the twentieth is taken for ours");
    });
    assert_eq!(told_of_no_egress(&world).len(), 1);
    assert_eq!(world.results().len(), 50);
}

/// When operators were told that nothing leaves the installation.
fn told_of_no_egress(world: &World) -> Vec<Timestamp> {
    let pages = world.ledger.pages();
    let told = pages.entries.iter().filter(|entry| matches!(entry.what, What::Told { kind: NoticeKind::NoEgress }));
    told.map(|entry| entry.at).collect()
}

#[test]
fn s06_operators_are_told_that_nothing_leaves_the_installation_even_if_the_store_refuses_at_first() {
    let mut world = World::new(59, 1.0);
    // The store is away when the twentieth attempt fails, and the receivers are back before it is.
    let back = BEGINNING + Span::from_millis(10_500);
    world.plan.outages = vec![(BEGINNING + Span::from_secs(3), back)];
    world.live(async |life| {
        for _ in 0..5 {
            let dark = receiver::outage(
                vec![(BEGINNING, BEGINNING + Span::from_secs(10))],
                Turn::failed(ErrorKind::Timeout).after(Duration::from_secs(5)),
                receiver::healthy(),
            );
            life.endpoint(Preset::Orbit, 16, dark).await;
        }
        for n in 0..4 {
            life.post(&format!("evt_{n}"), life.now()).await;
        }
        life.pass(Span::from_secs(3_600)).await;
    });
    let told = told_of_no_egress(&world);
    assert!(matches!(told[..], [at] if at >= back), "{told:?}");
    world.end();
}

#[test]
fn s01_a_result_that_the_store_refuses_is_offered_until_it_commits_and_nothing_starts_meanwhile() {
    let mut world = World::new(54, 1.0);
    let (from, to) = (BEGINNING + Span::from_secs(2), BEGINNING + Span::from_secs(40));
    world.plan.outages = vec![(from, to)];
    world.live(async |life| {
        let slow = Turn::status(200).after(Duration::from_secs(3));
        life.endpoint(Preset::Orbit, 1, receiver::always(slow)).await;
        for n in 0..3 {
            life.post(&format!("evt_{n}"), life.now()).await;
        }
        life.pass(Span::MINUTE).await;
    });
    let wires = world.wires();
    assert_eq!(wires.len(), 3);
    assert!(wires[1].began < from + Span::from_secs(2), "nobody knew yet that the store would refuse");
    assert!(wires[2].began >= to && wires[2].began < to + Span::from_secs(6), "{}", wires[2].began);
    world.end();
}

/// How many were on the wire right after each of these began.
fn abreast(wires: &[Wire]) -> Vec<usize> {
    let end = |wire: &Wire| wire.ended.as_ref().map_or(u64::MAX, |end| end.seq);
    let count = |one: &Wire| wires.iter().filter(|wire| wire.seq <= one.seq && end(wire) > one.seq).count();
    wires.iter().map(count).collect()
}

#[test]
fn s19_ten_slow_failures_narrow_an_endpoint_to_two_and_successes_widen_it() {
    let mut world = World::new(55, 1.0);
    world.live(async |life| {
        let well_at = BEGINNING + Span::MINUTE;
        let well = receiver::always(Turn::status(200).after(Duration::from_secs(2)));
        life.endpoint(Preset::Salaf, 16, receiver::outage(vec![(BEGINNING, well_at)], Turn::hang(), well)).await;
        for n in 0..80 {
            life.post(&format!("evt_{n:02}"), life.now()).await;
            life.pass(Span::from_millis(100)).await;
        }
        life.pass(Span::from_secs(150)).await;
    });
    let (wires, abreast) = (world.wires(), abreast(&world.wires()));
    let ends = || wires.iter().filter_map(|wire| wire.ended.as_ref());
    let tenth = ends().nth(9).expect("ten ended").seq;
    let success = ends().find(|end| end.finding.is_success()).expect("a success").seq;
    let of = |from: u64, to: u64| {
        let between = wires.iter().zip(&abreast).filter(move |(wire, _)| (from..to).contains(&wire.seq));
        between.map(|(_, abreast)| *abreast).max().expect("some")
    };
    assert_eq!(of(0, tenth), 16);
    assert_eq!(of(tenth + 16, success), 2, "narrowed");
    assert_eq!(of(success, u64::MAX), 16, "and widened again");
}

/// One endpoint with as many retries as first attempts due at the same time.
async fn two_lines(life: &Life, max_in_flight: u16) {
    let mut policy = PolicySpec::from(Preset::Salaf);
    policy.overrides.schedule = Some(Schedule::Ladder(vec![Span::from_secs(30)]));
    let receiver: Receiver = Box::new(|call| match (call.event.starts_with("old"), call.attempt) {
        (true, 1) => Turn::status(500).after(Duration::from_millis(1)),
        _ => Turn::status(200).after(Duration::from_secs(1)),
    });
    let endpoint = life.endpoint(policy, max_in_flight, receiver).await;
    for n in 0..12 {
        life.post(&format!("old_{n:02}"), life.now()).await;
    }
    life.pass(Span::from_secs(20)).await;
    // Everything comes due while nothing may start.
    let frozen = life.engine.freeze(endpoint).await.expect("it is not draining");
    life.hold(Hold::Endpoint(endpoint), true);
    life.pass(Span::from_secs(20)).await;
    for n in 0..12 {
        life.post(&format!("new_{n:02}"), life.now()).await;
    }
    frozen.done().await;
    life.hold(Hold::Endpoint(endpoint), false);
    life.pass(Span::MINUTE).await;
}

#[test]
fn s03_two_lines_alternate_where_there_is_one_slot() {
    let mut world = World::new(56, 1.0);
    world.live(async |life| two_lines(life, 1).await);
    let begun = &world.wires()[12..];
    // The last one before was a first attempt.
    let wanted = (0..12).flat_map(|n| [format!("old_{n:02}"), format!("new_{n:02}")]);
    let order: Vec<&str> = begun.iter().map(|wire| wire.event.as_str()).collect();
    assert_eq!(order, wanted.collect::<Vec<_>>());
    world.end();
}

#[test]
fn s03_first_attempts_get_at_least_half_of_the_free_slots_and_retries_one() {
    let mut world = World::new(57, 1.0);
    world.live(async |life| two_lines(life, 5).await);
    let wires = world.wires();
    let new = wires[12..17].iter().filter(|wire| wire.event.starts_with("new")).count();
    assert_eq!(new, 3, "of five");
    world.end();
}

#[test]
fn s06_an_endpoint_at_rest_lets_its_actor_go_and_costs_no_more_writes() {
    let mut world = World::new(58, 1.0);
    world.plan.lose_hint = 1.0;
    world.live(async |life| {
        life.endpoint(Preset::Orbit, 16, receiver::healthy()).await;
        for n in 0..5 {
            life.post(&format!("evt_{n}"), life.now()).await;
            life.pass(Span::from_millis(300)).await;
        }
        life.pass(Span::MINUTE).await;
        let opened = life.transports_opened();
        life.pass(Span::HOUR).await;
        assert_eq!(life.transports_opened(), opened, "nobody is built for nothing");
        assert!(life.engine.live(EndpointNo(1)).await.is_none(), "it has left");
    });
    world.end();
}

#[test]
fn s19_room_that_one_endpoint_has_no_use_for_goes_to_the_next() {
    let mut world = World::new(59, 1.0);
    world.settings.max_attempts = 1;
    world.live(async |life| {
        let slow = || receiver::always(Turn::status(200).after(Duration::from_millis(900)));
        let mut endpoints = Vec::new();
        for _ in 0..4 {
            endpoints.push(life.endpoint(Preset::Orbit, 16, slow()).await);
        }
        life.post("evt_1", life.now()).await;
        life.pass(Span::from_millis(100)).await;
        // The first is on the wire, the others wait; the second has nothing to send any more when its turn comes.
        life.disable(endpoints[1]).await.expect("the store is well");
        life.pass(Span::from_secs(5)).await;
    });
    let wires = world.wires();
    let order: Vec<i64> = wires.iter().map(|wire| wire.endpoint.0).collect();
    assert_eq!(order, [1, 3, 4]);
    assert_eq!(wires[1].began, wires[0].ended.as_ref().expect("an end").at);
    world.end();
}
