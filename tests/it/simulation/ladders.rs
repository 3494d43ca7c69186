//! The presets' whole ladders at scale 1, to the millisecond (S9).

use std::time::Duration;

use posthaste::domain::delivery::{DeadReason, DueReason, Next, State};
use posthaste::domain::endpoint::Status;
use posthaste::domain::policy::{Policy, Preset};
use posthaste::domain::time::{Span, Timestamp};
use posthaste::store::Queue;

use super::ledger::{Result, What};
use super::receiver::{self, Turn};
use super::world::World;

#[test]
fn s01_an_accepted_event_is_delivered() {
    let mut world = World::new(1, 1.0);
    world.live(async |life| {
        life.endpoint(Preset::Orbit, 16, receiver::healthy()).await;
        life.post("evt_1", life.now()).await;
        life.pass(Span::SECOND).await;
    });
    assert_eq!(world.wires().len(), 1);
    world.end();
}

/// One event for a receiver that always fails. Checks every wait, and returns when each attempt began.
fn walk(preset: Preset, passes: Span) -> Vec<Timestamp> {
    let policy = Policy::preset(preset);
    let mut world = World::new(9, 1.0);
    world.live(async |life| {
        life.endpoint(preset, 16, receiver::always(Turn::status(503))).await;
        let event = life.post("evt_1", life.now()).await;
        life.pass(passes).await;
        let view = life.view(&event.deliveries[0].id).await;
        assert_eq!((view.state, view.dead_reason), (State::Dead, Some(DeadReason::Exhausted)));
    });
    let (wires, results) = (world.wires(), world.results());
    assert_eq!(wires.len(), results.len());
    for (n, (result, next)) in (1..).zip(results.iter().zip(wires.iter().skip(1))) {
        let Next::Retry { due_at, reason: DueReason::Schedule } = result.next else { panic!("{result:?}") };
        let (wait, rung) = (due_at.since(result.ended), policy.schedule.delay(n).expect("a rung"));
        let longest = rung.scaled(1.0 + policy.jitter) + Span::from_micros(1);
        assert!(wait >= rung && wait <= longest, "wait {n}: {wait:?} for {rung:?}");
        let late = next.began.since(due_at);
        assert!(next.began >= due_at && late < Span::MILLISECOND, "attempt {}: late by {late:?}", n + 1);
    }
    assert!(matches!(results.last(), Some(Result { next: Next::Dead(DeadReason::Exhausted), .. })));
    world.end();
    wires.iter().map(|wire| wire.began).collect()
}

fn seconds(begun: &[Timestamp]) -> Vec<u64> {
    begun.windows(2).map(|pair| pair[1].since(pair[0]).as_millis() as u64 / 1_000).collect()
}

#[test]
fn s09_orbit_makes_ten_attempts_over_four_hours() {
    let begun = walk(Preset::Orbit, Span::from_secs(12 * 3_600));
    assert_eq!(begun.len(), 10);
    let whole = begun[9].since(begun[0]).as_secs_f64();
    assert!((15_330.0..15_330.0 * 1.2 + 1.0).contains(&whole), "{whole}");
}

#[test]
fn s09_shellorbit_makes_five_attempts_over_fifteen_minutes() {
    let begun = walk(Preset::Shellorbit, Span::from_secs(3_600));
    assert_eq!(begun.len(), 5);
    let whole = begun[4].since(begun[0]).as_secs_f64();
    assert!((872.0..872.0 * 1.2 + 1.0).contains(&whole), "{whole}");
}

#[test]
fn s09_salaf_makes_nine_attempts_over_45_hours_without_jitter() {
    let begun = walk(Preset::Salaf, Span::from_secs(72 * 3_600));
    assert_eq!(seconds(&begun), [30, 120, 600, 1_800, 7_200, 21_600, 43_200, 86_400]);
    // Each attempt takes five milliseconds; the waits run from its end.
    assert_eq!(begun[8].since(begun[0]), Span::from_millis(160_950_000 + 8 * 5));
}

#[test]
fn s09_the_jitter_is_drawn_once_and_outlives_the_process() {
    let mut world = World::new(5, 1.0);
    let mut waits = Vec::new();
    for life in 0..6 {
        world.live(async |process| {
            if life == 0 {
                process.endpoint(Preset::Orbit, 16, receiver::always(Turn::status(500))).await;
                process.post("evt_1", process.now()).await;
            }
            process.pass(Span::from_secs(3)).await;
        });
        waits.push(world.results().last().map(|result| result.next));
    }
    assert_eq!(world.wires().len(), 1, "none of the restarts brought the retry forward");
    assert!(waits.windows(2).all(|pair| pair[0] == pair[1]));
    world.live(async |life| life.pass(Span::from_secs(40)).await);
    let Some(Next::Retry { due_at, .. }) = waits[0] else { panic!("{waits:?}") };
    let began = world.wires()[1].began;
    assert!(began >= due_at && began.since(due_at) < Span::MILLISECOND);
}

#[test]
fn s08_retry_after_lengthens_a_wait_and_never_shortens_it() {
    let mut world = World::new(6, 1.0);
    let turns = [("60", 429), ("1", 503), ("9999999", 503), ("60", 500)];
    let turns = turns.map(|(text, status)| Turn::retry_after(status, text));
    world.live(async |life| {
        life.endpoint(Preset::Shellorbit, 16, receiver::script(turns)).await;
        life.post("evt_1", life.now()).await;
        life.pass(Span::from_secs(2 * 86_400)).await;
    });
    let waits: Vec<(u64, DueReason)> = world
        .results()
        .iter()
        .filter_map(|result| match result.next {
            Next::Retry { due_at, reason } => Some((due_at.since(result.ended).as_millis() as u64 / 1_000, reason)),
            _ => None,
        })
        .collect();
    assert_eq!(waits[0], (60, DueReason::RetryAfter));
    assert!(matches!(waits[1], (32..=38, DueReason::Schedule)), "{waits:?}");
    assert_eq!(waits[2], (86_400, DueReason::RetryAfter));
    assert!(matches!(waits[3], (720..=864, DueReason::Schedule)), "{waits:?}");
}

#[test]
fn s22_a_new_schedule_applies_from_the_next_judged_attempt() {
    let mut world = World::new(7, 1.0);
    world.live(async |life| {
        let endpoint = life.endpoint(Preset::Salaf, 16, receiver::always(Turn::status(500))).await;
        let event = life.post("evt_1", life.now()).await;
        life.pass(Span::SECOND).await;
        life.edit(endpoint, |record| record.policy = Preset::Shellorbit.into()).await.expect("the store is well");
        life.pass(Span::from_secs(28)).await;
        assert_eq!(life.wires().len(), 1, "the wait that was written is not moved");
        life.pass(Span::from_secs(12 * 60 + 200)).await;
        assert_eq!(life.view(&event.deliveries[0].id).await.attempt, 4);
        life.edit(endpoint, |record| record.policy.overrides.schedule = Some(one_retry())).await.expect("well");
        life.pass(Span::from_secs(15 * 60)).await;
        let view = life.view(&event.deliveries[0].id).await;
        assert_eq!(
            (view.state, view.attempt),
            (State::Dead, 5),
            "beyond the new ladder's end: dead at its next failure"
        );
    });
    let waits: Vec<_> = world.results().into_iter().map(|result| result.next).collect();
    assert!(matches!(waits[4], Next::Dead(DeadReason::Exhausted)), "{waits:?}");
    let enough = world.ledger.pages().entries.iter().filter(|entry| matches!(entry.what, What::Edited { .. })).count();
    assert_eq!(enough, 2);
}

#[test]
fn s22_an_answer_means_what_the_policy_said_when_its_attempt_began() {
    let mut world = World::new(14, 1.0);
    world.live(async |life| {
        let slowly = |turn: Turn| receiver::always(turn.after(Duration::from_secs(5)));
        // 404: `orbit` disables, `salaf` retries. 429 with a date to wait for: `shellorbit` obeys, `orbit` does not.
        let disabled = life.endpoint(Preset::Orbit, 16, slowly(Turn::status(404))).await;
        let spared = life.endpoint(Preset::Salaf, 16, slowly(Turn::status(404))).await;
        let obeyed = life.endpoint(Preset::Shellorbit, 16, slowly(Turn::retry_after(429, "900"))).await;
        let ignored = life.endpoint(Preset::Orbit, 16, slowly(Turn::retry_after(429, "900"))).await;
        life.post("evt_1", life.now()).await;
        life.pass(Span::SECOND).await;
        for (no, policy) in
            [(disabled, Preset::Salaf), (spared, Preset::Orbit), (obeyed, Preset::Salaf), (ignored, Preset::Shellorbit)]
        {
            life.edit(no, move |record| record.policy = policy.into()).await.expect("the store is well");
        }
        life.pass(Span::from_secs(5)).await;
        let of = async |no| life.store.endpoint(no, Vec::new()).await.expect("well").expect("there").record.status;
        assert_eq!(of(disabled).await, Status::AutoDisabled, "its attempt began under `orbit`");
        assert_eq!(of(spared).await, Status::Enabled, "its attempt began under `salaf`");
        let next = |no| {
            let pages = life.ledger.pages();
            let results = pages.entries.iter().filter_map(|entry| match &entry.what {
                What::Recorded { endpoint, results, .. } if *endpoint == no => results.first().cloned(),
                _ => None,
            });
            let first = results.clone().next().expect("a result");
            match first.next {
                Next::Retry { due_at, .. } => due_at.since(first.ended).as_millis() / 1_000,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(next(obeyed), 900, "what the receiver asked for under `shellorbit`");
        assert!((8..=9).contains(&next(ignored)), "the new schedule, by `orbit`'s reading of the answer");
    });
}

fn one_retry() -> posthaste::domain::schedule::Schedule {
    posthaste::domain::schedule::Schedule::Ladder(vec![Span::SECOND])
}
