//! Cases of `docs/cases.md` that need virtual time: errors, herds, blocked clocks, lost hints, slow neighbours, streaks.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use diesel::prelude::*;
use futures_util::future::join_all;
use posthaste::domain::attempt::ErrorKind;
use posthaste::domain::delivery::{DeadReason, DueReason, Next, State};
use posthaste::domain::endpoint::Status;
use posthaste::domain::ids::{DeliveryNo, EndpointNo, parse_delivery_id};
use posthaste::domain::policy::{AutoDisable, Preset};
use posthaste::domain::policy_spec::PolicySpec;
use posthaste::domain::schedule::Schedule;
use posthaste::domain::time::{Span, Timestamp};
use posthaste::engine::retention;
use posthaste::store::accept::Accepted;
use posthaste::store::change::{Door, NotPutBack};
use posthaste::store::{Owned, Queue};

use super::ledger::Wire;
use super::life::Life;
use super::people::Retried;
use super::receiver::{self, Receiver, Turn};
use super::world::World;

/// `orbit` with these retries, no jitter, and nothing that disables but what is added.
fn policy(retries: &[u64]) -> PolicySpec {
    let mut policy = PolicySpec::from(Preset::Orbit);
    let own = &mut policy.overrides;
    own.schedule = Some(Schedule::Ladder(retries.iter().map(|&secs| Span::from_secs(secs)).collect()));
    own.jitter = Some(0.0);
    own.responses = Some(Vec::new());
    own.auto_disable = Some(None);
    policy
}

/// The same, disabled by the twentieth failure in a row.
fn disabled_at_twenty() -> PolicySpec {
    let mut policy = policy(&[]);
    policy.overrides.auto_disable = Some(Some(AutoDisable { failures: Some(20), failing_for: None }));
    policy
}

/// The first attempt at each event fails, the next one succeeds after so long.
fn second_time(after: Duration) -> Receiver {
    Box::new(move |call| match call.attempt {
        1 => Turn::status(503),
        _ => Turn::status(200).after(after),
    })
}

fn number(accepted: &Accepted) -> DeliveryNo {
    parse_delivery_id(&accepted.deliveries[0].id).expect("a delivery's id")
}

async fn owned(life: &Life, endpoint: EndpointNo) -> Owned {
    life.store.endpoint(endpoint, Vec::new()).await.expect("the store is well").expect("an endpoint")
}

/// Posts events `<name>_0`, … at once.
async fn post_many(life: &Life, name: &str, count: usize) -> Vec<Accepted> {
    join_all((0..count).map(|n| {
        let life = life.clone();
        async move { life.post(&format!("{name}_{n}"), life.now()).await }
    }))
    .await
}

/// The most that were on the wire at once.
fn most_abreast(wires: &[Wire]) -> usize {
    let mut changes: Vec<(u64, i32)> = wires.iter().map(|wire| (wire.seq, 1)).collect();
    changes.extend(wires.iter().filter_map(|wire| wire.ended.as_ref()).map(|end| (end.seq, -1)));
    changes.sort_unstable();
    let mut open = 0;
    let counts = changes.into_iter().map(|(_, change)| {
        open += change;
        open
    });
    counts.max().unwrap_or_default() as usize
}

#[test]
fn c41_every_kind_of_error_is_retried_until_the_event_is_delivered() {
    use ErrorKind::{BlockedAddress, Connect, Dns, Protocol, Reset, Timeout, Tls};
    for (seed, kind) in (401..).zip([Dns, Connect, Tls, Timeout, Protocol, Reset, BlockedAddress]) {
        let mut world = World::new(seed, 1.0);
        let failed = || if kind == Timeout { Turn::hang() } else { Turn::failed(kind) };
        world.live(async |life| {
            let turns = [failed(), failed(), Turn::status(200)];
            life.endpoint(Preset::Orbit, 16, receiver::script(turns)).await;
            let event = life.post("evt_1", life.now()).await;
            life.pass(Span::from_secs(300)).await;
            let view = life.view(&event.deliveries[0].id).await;
            assert_eq!((view.state, view.attempts_total), (State::Delivered, 3), "{kind}");
        });
        let results = world.results();
        let retried = |next| matches!(next, Next::Retry { reason: DueReason::Schedule, .. });
        assert!(results[..2].iter().all(|result| result.status.is_none() && retried(result.next)), "{kind}");
        world.end();
    }
}

#[test]
fn c43_a_thousand_that_fail_together_come_back_apart_and_a_restart_keeps_it() {
    let mut world = World::new(411, 1.0);
    world.live(async |life| {
        let mut policy = PolicySpec::from(Preset::Orbit);
        policy.overrides.auto_disable = Some(None);
        life.endpoint(policy, 16, second_time(Duration::from_millis(20))).await;
        post_many(life, "evt", 1_000).await;
        life.pass(Span::from_secs(10)).await;
    });
    let results = world.results();
    assert_eq!(results.len(), 1_000);
    let due: HashMap<DeliveryNo, Timestamp> = results
        .iter()
        .map(|result| match result.next {
            Next::Retry { due_at, .. } => (result.delivery, due_at),
            other => panic!("{other:?}"),
        })
        .collect();
    // 30 s and up to a fifth more: six seconds, of which each gets its part.
    let first = *due.values().min().expect("one");
    let mut seconds: HashMap<i64, usize> = HashMap::new();
    for at in due.values() {
        *seconds.entry(at.since(first).as_millis() / 1_000).or_default() += 1;
    }
    assert!(seconds.len() >= 6 && seconds.values().all(|&count| count < 250), "{seconds:?}");
    world.live(async |life| life.pass(Span::MINUTE).await);
    let wires = world.wires();
    assert_eq!(wires.len(), 2_000);
    assert!(wires[1_000..].iter().all(|wire| wire.attempt == 2 && wire.began >= due[&wire.delivery]));
    assert!(most_abreast(&wires) <= 16);
    world.end();
}

/// Nothing runs for half a minute (a debugger, a virtual machine that is moved), so all timers are over at once.
#[test]
fn c44_what_a_blocked_process_missed_is_done_once_and_within_the_limits() {
    let mut world = World::new(421, 1.0);
    let woken = world.live(async |life| {
        life.endpoint(policy(&[15]), 4, second_time(Duration::from_millis(100))).await;
        post_many(life, "evt", 40).await;
        life.pass(Span::from_secs(5)).await;
        assert_eq!(life.wires().len(), 40);
        life.trouble.explains(Span::from_secs(40));
        tokio::time::advance(Duration::from_secs(30)).await;
        let woken = life.now();
        life.pass(Span::from_secs(10)).await;
        woken
    });
    let wires = world.wires();
    assert_eq!(wires.len(), 80, "one retry of each");
    assert!(wires[40..].iter().all(|wire| wire.began >= woken), "all were due meanwhile");
    assert!(most_abreast(&wires) <= 4);
    world.end();
}

#[test]
fn c48_one_410_among_fifty_on_the_wire_disables_and_the_queue_can_be_had_back() {
    let mut world = World::new(431, 1.0);
    world.live(async |life| {
        let mostly_well: Receiver = Box::new(|call| match (call.event, call.nth) {
            ("evt_7", 0..50) => Turn::status(410).after(Duration::from_secs(1)),
            _ => Turn::status(200).after(Duration::from_secs(2)),
        });
        let endpoint = life.endpoint(Preset::Orbit, 50, mostly_well).await;
        let mut events = Vec::new();
        for n in 0..60 {
            events.push(life.post(&format!("evt_{n}"), life.now()).await);
        }
        life.pass(Span::from_millis(1_500)).await;
        let after = owned(life, endpoint).await.record;
        assert_eq!(after.status, Status::AutoDisabled);
        let reason = after.disabled_reason.expect("a reason");
        assert!(reason.starts_with("answered 410 to "), "{reason}");
        life.pass(Span::MINUTE).await;
        for (n, event) in events.iter().enumerate() {
            let view = life.view(&event.deliveries[0].id).await;
            let wanted = match n {
                7 => (State::Dead, Some(DeadReason::PermanentResponse)),
                0..50 => (State::Delivered, None),
                _ => (State::Dead, Some(DeadReason::EndpointDisabled)),
            };
            assert_eq!((view.state, view.dead_reason), wanted, "evt_{n}");
        }
        assert_eq!(life.enable(endpoint).await, Ok(true));
        assert_eq!(life.requeue_all(endpoint).await, Ok(11));
        life.pass(Span::MINUTE).await;
        assert_eq!(owned(life, endpoint).await.record.status, Status::Enabled);
    });
    assert_eq!(world.wires().len(), 61);
    world.end();
}

#[test]
fn c51_c93_two_thousand_at_once_are_delivered_though_every_hint_is_lost() {
    let mut world = World::new(441, 1.0);
    world.plan.lose_hint = 1.0;
    world.live(async |life| {
        life.endpoint(policy(&[]), 64, receiver::always(Turn::status(200))).await;
        post_many(life, "evt", 2_000).await;
        life.pass(Span::from_secs(10)).await;
    });
    let wires = world.wires();
    let events: HashSet<_> = wires.iter().map(|wire| &wire.event).collect();
    assert_eq!((wires.len(), events.len()), (2_000, 2_000));
    world.end();
}

/// Eight attempts at a time in the whole installation, of which the hanging endpoint may have six.
#[test]
fn c59_a_healthy_endpoint_keeps_its_speed_beside_one_that_hangs() {
    let mut world = World::new(451, 1.0);
    world.settings.max_attempts = 8;
    world.live(async |life| {
        life.endpoint(policy(&[]), 6, receiver::always(Turn::hang())).await;
        post_many(life, "queued", 200).await;
        let well = life.endpoint(policy(&[]), 16, receiver::always(Turn::status(200))).await;
        life.pass(Span::from_secs(2)).await;
        let began = life.now();
        let events = post_many(life, "evt", 50).await;
        // Two at a time, five milliseconds each.
        while life.wires().iter().filter(|wire| wire.endpoint == well && wire.ended.is_some()).count() < 50 {
            assert!(life.now().since(began) < Span::from_millis(250), "50 events wait for somebody else's timeout");
            life.pass(Span::MILLISECOND).await;
        }
        assert_eq!(events.len(), 50);
    });
}

/// S13: a person's retry is an attempt like any other, for the streak and for the rule.
#[test]
fn c62_a_persons_retry_counts_like_any_attempt() {
    for (seed, answer) in [(461, 500), (462, 200)] {
        let mut world = World::new(seed, 1.0);
        world.live(async |life| {
            let then: Receiver = Box::new(move |call| Turn::status(if call.nth < 19 { 500 } else { answer }));
            let endpoint = life.endpoint(disabled_at_twenty(), 1, then).await;
            let events = post_many(life, "evt", 19).await;
            life.pass(Span::SECOND).await;
            assert_eq!(owned(life, endpoint).await.health.failures, 19);
            assert_eq!(life.retry(number(&events[3]), Door::Retry).await, Retried::Done);
            life.pass(Span::SECOND).await;
            let after = owned(life, endpoint).await;
            if answer == 200 {
                assert_eq!((after.record.status, after.health.failures), (Status::Enabled, 0));
                return;
            }
            assert_eq!((after.record.status, after.health.failures), (Status::AutoDisabled, 20));
            // There it is refused and moves nothing.
            let refused = life.retry(number(&events[5]), Door::Requeue).await;
            assert_eq!(refused, Retried::Refused(NotPutBack::EndpointDisabled));
            life.pass(Span::HOUR).await;
            assert_eq!(owned(life, endpoint).await.health.failures, 20);
        });
        assert_eq!(world.wires().len(), 20);
        world.end();
    }
}

#[derive(QueryableByName)]
struct Counts {
    #[diesel(sql_type = diesel::sql_types::BigInt)]
    attempts: i64,
    #[diesel(sql_type = diesel::sql_types::BigInt)]
    notices: i64,
}

#[test]
fn c68_one_loss_is_recorded_and_told_once_through_four_restarts() {
    let mut world = World::new(471, 1.0);
    let event = world.live(async |life| {
        let mut policy = policy(&[1]);
        policy.overrides.alert = Some(Some(1));
        life.endpoint(policy, 16, receiver::always(Turn::status(500))).await;
        life.post("evt_1", life.now()).await
    });
    for _ in 0..4 {
        world.live(async |life| {
            life.pass(Span::HOUR).await;
            retention::rewrite(&life.store).await.expect("the store is well");
            retention::purge_all(&life.store, &life.engine).await.expect("the store is well");
            let view = life.view(&event.deliveries[0].id).await;
            assert_eq!((view.state, view.attempts_total), (State::Dead, 2));
            assert_eq!(owned(life, EndpointNo(1)).await.health.exhausted, 1);
        });
    }
    let dead = world.results().into_iter().filter(|result| matches!(result.next, Next::Dead(DeadReason::Exhausted)));
    assert_eq!(dead.count(), 1);
    let mut conn = diesel::SqliteConnection::establish(&world.path()).expect("the database");
    let counts = "SELECT (SELECT count(*) FROM attempts) AS attempts, (SELECT count(*) FROM notifications) AS notices";
    let counts: Counts = diesel::sql_query(counts).get_result(&mut conn).expect("counts");
    assert_eq!((counts.attempts, counts.notices), (2, 1));
    world.end();
}

#[test]
fn c82_after_an_enable_or_another_url_one_failure_is_one() {
    let mut world = World::new(481, 1.0);
    world.live(async |life| {
        let endpoint = life.endpoint(disabled_at_twenty(), 1, receiver::always(Turn::status(500))).await;
        post_many(life, "evt", 20).await;
        life.pass(Span::SECOND).await;
        assert_eq!(owned(life, endpoint).await.record.status, Status::AutoDisabled);
        life.enable(endpoint).await.expect("the store is well");
        post_many(life, "hiccup", 1).await;
        life.pass(Span::SECOND).await;
        let after = owned(life, endpoint).await;
        assert_eq!((after.record.status, after.health.failures), (Status::Enabled, 1));

        post_many(life, "more", 18).await;
        life.pass(Span::SECOND).await;
        assert_eq!(owned(life, endpoint).await.health.failures, 19);
        life.edit(endpoint, |record| record.url = "https://moved.test/hook".into()).await.expect("the store is well");
        post_many(life, "moved", 1).await;
        life.pass(Span::SECOND).await;
        let after = owned(life, endpoint).await;
        assert_eq!((after.record.status, after.health.failures), (Status::Enabled, 1));
    });
    world.end();
}

#[test]
fn c83_an_endpoint_that_is_deleted_with_fifty_retries_leaves_nothing_to_its_successor() {
    let mut world = World::new(491, 1.0);
    world.live(async |life| {
        let turns: Receiver = Box::new(|call| match call.event {
            "flying" => Turn::status(200).after(Duration::from_secs(5)),
            _ => Turn::status(500),
        });
        let endpoint = life.endpoint(policy(&[2]), 16, turns).await;
        let events = post_many(life, "evt", 50).await;
        life.post("flying", life.now()).await;
        life.pass(Span::SECOND).await;
        let url = owned(life, endpoint).await.record.url;
        assert_eq!(life.delete(endpoint).await, Ok(true));
        assert_eq!(life.retry(number(&events[0]), Door::Retry).await, Retried::Refused(NotPutBack::NotFound));
        let heir = life.endpoint(policy(&[2]), 16, receiver::healthy()).await;
        life.edit(heir, |record| record.url = url.clone()).await.expect("the store is well");
        // The answer of what is on the wire comes late, and the rows go meanwhile.
        life.pass(Span::from_secs(3)).await;
        retention::rewrite(&life.store).await.expect("the store is well");
        life.pass(Span::MINUTE).await;
        life.post("after", life.now()).await;
        life.pass(Span::MINUTE).await;
        let wires = life.wires();
        assert_eq!(wires.len(), 50 + 1 + 1, "no retry, and nothing of the old queue");
        let last = wires.last().expect("some");
        assert_eq!((last.event.as_str(), last.endpoint), ("after", heir));
    });
}

/// Each attempt has its own timeout, which begins when its turn comes.
#[test]
fn c94_however_many_are_due_at_once_none_times_out() {
    for (seed, count) in [(501, 10), (502, 200), (503, 2_000)] {
        let mut world = World::new(seed, 1.0);
        world.live(async |life| {
            let mut policy = policy(&[600]);
            policy.overrides.timeout = Some(Span::SECOND);
            life.endpoint(policy, 16, second_time(Duration::from_millis(80))).await;
            post_many(life, "evt", count).await;
            life.pass(Span::from_secs(900)).await;
        });
        let results = world.results();
        let retried: Vec<_> = results.iter().filter(|result| result.attempt == 2).collect();
        assert_eq!((results.len(), retried.len()), (2 * count, count));
        assert!(retried.iter().all(|result| result.status == Some(200)), "{count} at once");
        world.end();
    }
}
