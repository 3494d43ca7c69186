//! What the simulation found: things that come in while others are under way.

use std::collections::HashMap;
use std::sync::Arc;

use super::*;
use crate::domain::attempt::{Answer, Report, Timing, Trigger};
use crate::domain::endpoint::Status;
use crate::domain::ids::{EndpointNo, EventNo};
use crate::domain::policy::{Policy, Preset};

pub(super) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_micros(seconds * 1_000_000)
}

fn endpoint(version: i64) -> Endpoint {
    Endpoint {
        no: EndpointNo(1),
        id: "ep_1".into(),
        url: "https://one.test/".into(),
        version,
        status: Status::Enabled,
        policy: Arc::new(Policy::preset(Preset::Shellorbit)),
        max_in_flight: 16,
        cut: 0,
        counted_from: at(0),
        paused: false,
    }
}

const LIMITS: Limits = Limits { window: 4, unrecorded: 256, real_second: Span::SECOND, paced_before: Timestamp::MIN };

pub(super) fn waiting(no: i64, line: Line, due: i64) -> Waiting {
    let (accepted, before) = (Waiting::accepted(DeliveryNo(no), EventNo(no), at(0)), u32::from(line == Line::Retry));
    Waiting { line, order_at: at(due), due_at: at(due), attempt: before, attempts_total: before, ..accepted }
}

/// A dispatcher that has read these rows, all there are.
pub(super) fn awake(first: Vec<Waiting>, second: Vec<Waiting>) -> Dispatcher {
    let mut dispatcher = Dispatcher::new(endpoint(1), Health::default(), 1, LIMITS);
    dispatcher.pump(at(0), Room { starts: 0, rate: None });
    let read_through = first.iter().chain(&second).map(|waiting| waiting.no).max().unwrap_or(DeliveryNo(0));
    dispatcher.loaded(Loaded { first, first_complete: true, second, second_complete: true, read_through });
    dispatcher
}

pub(super) fn attempt(status: Option<u16>, ended: i64) -> Attempt {
    let finding = match status {
        Some(status) => Finding::Answered(Answer {
            status,
            retry_after: None,
            excerpt: Default::default(),
            excerpt_truncated: false,
        }),
        None => Finding::Local { reason: "test" },
    };
    let report = Report { finding, timing: Timing::default(), remote_addr: None, took: Span::ZERO };
    let (started_at, ended_at) = (at(ended), at(ended));
    Attempt { trigger: Trigger::Schedule, started_at, ended_at, url: "https://one.test/".into(), report }
}

pub(super) fn starts(effects: &[Effect]) -> Vec<i64> {
    let started = effects.iter().filter_map(|effect| match effect {
        Effect::Start(start) => Some(start.delivery.no.0),
        _ => None,
    });
    started.collect()
}

fn batch(effects: &[Effect]) -> Option<&Batch> {
    effects.iter().find_map(|effect| match effect {
        Effect::Record(batch) => Some(batch),
        _ => None,
    })
}

/// Where the store says that deliveries stand: run 1, so many attempts.
fn reloaded(version: i64, positions: &[(i64, u32)]) -> Option<Reloaded> {
    let positions: HashMap<_, _> = positions.iter().map(|&(no, total)| (DeliveryNo(no), (1, total))).collect();
    Some(Reloaded { endpoint: endpoint(version), health: Health::default(), health_version: 1, positions })
}

#[test]
fn s01_a_result_that_comes_in_while_the_endpoint_is_read_is_not_taken_for_recorded() {
    let mut dispatcher = awake(vec![waiting(1, Line::First, 0)], vec![]);
    assert_eq!(starts(&dispatcher.pump(at(1), Room::PLENTY)), [1]);
    dispatcher.changed();
    let effects = dispatcher.pump(at(1), Room::PLENTY);
    let [Effect::Reload { positions }] = &effects[..] else { panic!("{effects:?}") };
    assert_eq!(positions[..], [DeliveryNo(1)]);
    dispatcher.ended(DeliveryNo(1), attempt(Some(200), 2), 0.0, 0, false);
    dispatcher.pump(at(2), Room::PLENTY);
    dispatcher.reloaded(reloaded(2, &[(1, 0)]));
    let effects = dispatcher.pump(at(2), Room::PLENTY);
    assert_eq!(batch(&effects).map(|batch| batch.results.len()), Some(1));
}

#[test]
fn s15_a_freeze_outlasts_a_read_and_a_refused_batch_that_were_under_way() {
    let both = || awake(vec![waiting(1, Line::First, 0), waiting(2, Line::First, 0)], vec![]);
    let one = Room { starts: 1, rate: None };

    let mut dispatcher = both();
    dispatcher.changed();
    dispatcher.pump(at(1), Room::PLENTY);
    dispatcher.freeze();
    dispatcher.reloaded(reloaded(2, &[]));
    assert_eq!(starts(&dispatcher.pump(at(1), Room::PLENTY)), [] as [i64; 0], "a read came in");
    dispatcher.thaw();
    dispatcher.pump(at(1), Room::PLENTY);
    dispatcher.reloaded(reloaded(2, &[]));
    assert_eq!(starts(&dispatcher.pump(at(1), Room::PLENTY)), [1, 2]);

    let mut dispatcher = both();
    dispatcher.pump(at(1), one);
    dispatcher.ended(DeliveryNo(1), attempt(Some(500), 1), 0.0, 0, false);
    dispatcher.pump(at(1), Room { starts: 0, rate: None });
    dispatcher.freeze();
    dispatcher.refused(at(1));
    dispatcher.pump(at(9), Room::PLENTY);
    dispatcher.reloaded(reloaded(1, &[(1, 0)]));
    assert_eq!(starts(&dispatcher.pump(at(9), Room::PLENTY)), [] as [i64; 0], "the store refused");

    let mut dispatcher = both();
    dispatcher.freeze();
    dispatcher.freeze();
    dispatcher.thaw();
    assert!(dispatcher.pump(at(1), Room::PLENTY).is_empty(), "another change is under way");
}

/// Two attempts are to start; the second one's event has yet to be read when the first one's result is there.
fn one_starts_late(status: u16, health: Health) -> Dispatcher {
    let mut dispatcher = awake(vec![waiting(1, Line::First, 0), waiting(2, Line::First, 0)], vec![]);
    dispatcher.health = health;
    assert_eq!(starts(&dispatcher.pump(at(1), Room::PLENTY)), [1, 2]);
    assert!(dispatcher.may_begin(DeliveryNo(2)));
    dispatcher.ended(DeliveryNo(1), attempt(Some(status), 1), 0.0, 0, false);
    dispatcher
}

#[test]
fn s15_s17_an_attempt_whose_event_had_to_be_read_does_not_begin_after_all_if_the_circuit_opened() {
    let nine = Health { failures: 9, exhausted: 9, ..Health::default() };
    let mut dispatcher = one_starts_late(410, nine);
    assert!(dispatcher.health().circuit.opened_at().is_some());
    assert!(!dispatcher.may_begin(DeliveryNo(2)));
    dispatcher.withdraw(DeliveryNo(2));
    assert_eq!(dispatcher.in_flight(), 0);
    let mut probe = dispatcher.pump(at(700), Room::PLENTY);
    probe.retain(|effect| matches!(effect, Effect::Start(_)));
    assert_eq!(starts(&probe), [2], "it kept its place");
    assert!(dispatcher.may_begin(DeliveryNo(2)), "the probe may");
    assert!(one_starts_late(500, Health::default()).may_begin(DeliveryNo(2)));
}

/// The `wake_at` of the batch that one attempt's success leads to.
fn wake_after(mut dispatcher: Dispatcher) -> Option<Timestamp> {
    dispatcher.ended(DeliveryNo(1), attempt(Some(200), 2), 0.0, 0, false);
    let effects = dispatcher.pump(at(2), Room { starts: 0, rate: None });
    batch(&effects).expect("a batch").wake_at
}

#[test]
fn s01_the_row_wakes_the_actor_for_whatever_is_not_in_its_windows() {
    let rows = || (vec![waiting(1, Line::First, 0)], vec![waiting(2, Line::Retry, 900)]);
    let started = |(first, second)| {
        let mut dispatcher = awake(first, second);
        assert_eq!(starts(&dispatcher.pump(at(1), Room::PLENTY)), [1]);
        dispatcher
    };
    assert_eq!(wake_after(started(rows())), Some(at(900)));
    assert_eq!(wake_after(started((rows().0, vec![]))), None);

    let mut dispatcher = started(rows());
    dispatcher.lock(DeliveryNo(2)).unwrap();
    assert_eq!(wake_after(dispatcher), Some(at(2)), "a person holds a delivery, and may let it go unchanged");

    let mut dispatcher = started(rows());
    dispatcher.refresh();
    assert_eq!(wake_after(dispatcher), Some(at(2)), "rows were changed behind its back");

    let mut dispatcher = Dispatcher::new(endpoint(1), Health::default(), 1, LIMITS);
    dispatcher.pump(at(0), Room::PLENTY);
    let first = vec![waiting(1, Line::First, 0)];
    let (second, read_through) = (Vec::new(), DeliveryNo(9));
    dispatcher.loaded(Loaded { first, first_complete: false, second, second_complete: true, read_through });
    assert_eq!(starts(&dispatcher.pump(at(1), Room::PLENTY)), [1]);
    assert_eq!(wake_after(dispatcher), Some(at(2)), "there are more rows than it has read");
}

#[test]
fn s01_a_bulk_requeue_has_the_owner_look_at_its_rows_before_it_writes() {
    let mut dispatcher = awake(vec![], vec![]);
    dispatcher.outdated();
    dispatcher.pump(at(1), Room::PLENTY);
    dispatcher.reloaded(Some(Reloaded { health_version: 2, ..reloaded(1, &[]).unwrap() }));
    let effects = dispatcher.pump(at(1), Room::PLENTY);
    assert!(matches!(effects[..], [Effect::Load { .. }]), "{effects:?}");
}

#[test]
fn s10_an_old_event_that_is_posted_now_is_not_overdue() {
    let limits = Limits { paced_before: at(50), ..LIMITS };
    let mut dispatcher = Dispatcher::new(endpoint(1), Health::default(), 1, limits);
    dispatcher.pump(at(50), Room::PLENTY);
    let old = Waiting { order_at: at(1), ..waiting(1, Line::First, 60) };
    let overdue = waiting(2, Line::First, 40);
    let (second, read_through) = (Vec::new(), DeliveryNo(2));
    let first = vec![old, overdue];
    dispatcher.loaded(Loaded { first, first_complete: true, second, second_complete: true, read_through });
    assert_eq!(starts(&dispatcher.pump(at(60), Room::PLENTY)), [1], "only what was due before the start is paced");
    dispatcher.paced(1);
    assert_eq!(starts(&dispatcher.pump(at(60), Room::PLENTY)), [2]);
}

#[test]
fn s01_an_endpoints_very_first_delivery_is_not_lost_while_its_rows_are_read() {
    let mut dispatcher = Dispatcher::new(endpoint(1), Health::default(), 1, LIMITS);
    dispatcher.pump(at(0), Room::PLENTY);
    dispatcher.hint(DeliveryNo(0), vec![waiting(1, Line::First, 0)]);
    dispatcher.loaded(Loaded { first_complete: true, second_complete: true, ..Loaded::default() });
    assert_eq!(starts(&dispatcher.pump(at(0), Room::PLENTY)), [1]);
}

#[test]
fn s15_what_could_not_be_given_up_to_the_cut_is_offered_again() {
    let mut dispatcher = awake(vec![waiting(1, Line::First, 0)], vec![]);
    dispatcher.pump(at(1), Room::PLENTY);
    dispatcher.endpoint.cut = 1;
    dispatcher.endpoint.status = Status::Disabled;
    dispatcher.ended(DeliveryNo(1), attempt(None, 1), 0.0, 0, false);
    let released = |effects: &[Effect]| matches!(effects, [Effect::Release(of)] if of[..] == [DeliveryNo(1)]);
    assert!(released(&dispatcher.pump(at(1), Room::PLENTY)));
    assert!(!dispatcher.is_idle());
    dispatcher.released(vec![DeliveryNo(1)], at(1));
    let again = dispatcher.wake_at(at(1)).expect("an instant");
    assert!(released(&dispatcher.pump(again, Room::PLENTY)));
    dispatcher.released(vec![], again);
    assert!(dispatcher.is_idle());
}

#[test]
fn an_actor_that_is_woken_for_nothing_says_so() {
    let rest = |second: Vec<Waiting>| {
        let mut dispatcher = awake(vec![], second);
        assert!(dispatcher.pump(at(1), Room::PLENTY).is_empty());
        dispatcher.poke(DeliveryNo(1));
        dispatcher.seen_through = DeliveryNo(1);
        dispatcher.stale = false;
        match &dispatcher.pump(at(1), Room::PLENTY)[..] {
            [] => None,
            [Effect::Rest(rest)] => Some(rest.wake_at),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(rest(vec![]), Some(None));
    assert_eq!(rest(vec![waiting(1, Line::Retry, 900)]), Some(Some(at(900))));
    assert_eq!(rest(vec![waiting(1, Line::Retry, 30)]), None, "it is needed soon");
}

/// A dispatcher whose windows of four are full and know of more, reading on after all of the first line was started.
fn reading_on() -> Dispatcher {
    let mut dispatcher = Dispatcher::new(endpoint(1), Health::default(), 1, LIMITS);
    dispatcher.pump(at(0), Room::PLENTY);
    let first = (1..=4).map(|no| waiting(no, Line::First, 0)).collect();
    let second = (5..=8).map(|no| waiting(no, Line::Retry, 100)).collect();
    let read_through = DeliveryNo(9);
    dispatcher.loaded(Loaded { first, first_complete: false, second, second_complete: false, read_through });
    let effects = dispatcher.pump(at(1), Room { starts: 4, rate: None });
    assert_eq!(starts(&effects), [1, 2, 3, 4]);
    assert!(matches!(effects.last(), Some(Effect::Load { .. })), "{effects:?}");
    dispatcher
}

#[test]
fn s01_what_comes_in_beyond_the_windows_while_they_are_read_is_not_lost() {
    let rest = || Loaded {
        first_complete: true,
        second: (5..=8).map(|no| waiting(no, Line::Retry, 100)).collect(),
        second_complete: true,
        read_through: DeliveryNo(9),
        ..Loaded::default()
    };
    // A hint: the rows were read before it.
    let mut dispatcher = reading_on();
    dispatcher.hint(DeliveryNo(9), vec![waiting(10, Line::First, 1)]);
    dispatcher.loaded(rest());
    assert_eq!(starts(&dispatcher.pump(at(1), Room::PLENTY)), [10]);

    // A retry: its row says so, but was left out because it might have been older.
    let mut dispatcher = reading_on();
    dispatcher.ended(DeliveryNo(1), attempt(Some(500), 200), 0.0, 0, false);
    dispatcher.pump(at(1), Room { starts: 0, rate: None });
    dispatcher.recorded(false);
    let mut rows = rest();
    rows.second.push(waiting(1, Line::Retry, 208));
    rows.second.remove(0);
    dispatcher.loaded(rows);
    let due = dispatcher.second.iter().map(|waiting| waiting.no.0).collect::<Vec<_>>();
    assert_eq!(due, [6, 7, 8, 1]);
}

/// C70: the database can be read and not written to. What was refused is offered again and again, ever more slowly, and
/// nothing else is sent meanwhile.
#[test]
fn s01_nothing_starts_while_refused_results_are_not_committed() {
    let mut dispatcher = awake(vec![waiting(1, Line::First, 0), waiting(2, Line::First, 0)], vec![]);
    dispatcher.endpoint.max_in_flight = 1;
    assert_eq!(starts(&dispatcher.pump(at(1), Room::PLENTY)), [1]);
    dispatcher.ended(DeliveryNo(1), attempt(Some(500), 1), 0.0, 0, false);
    assert!(batch(&dispatcher.pump(at(1), Room { starts: 0, rate: None })).is_some());
    let mut now = at(1);
    let mut waits = Vec::new();
    for _ in 0..8 {
        dispatcher.refused(now);
        let again = dispatcher.wake_at(now).unwrap();
        waits.push(again.since(now).as_millis());
        now = again;
        let effects = dispatcher.pump(now, Room::PLENTY);
        assert!(matches!(effects[..], [Effect::Reload { .. }]), "{effects:?}");
        dispatcher.reloaded(reloaded(1, &[(1, 0)]));
        let effects = dispatcher.pump(now, Room::PLENTY);
        assert_eq!(starts(&effects), [] as [i64; 0]);
        assert_eq!(batch(&effects).map(|batch| batch.results.len()), Some(1));
    }
    assert_eq!(waits, [100, 200, 400, 800, 1600, 3200, 5000, 5000]);
    dispatcher.recorded(false);
    assert_eq!(starts(&dispatcher.pump(now, Room::PLENTY)), [2, 1], "the retry has become due meanwhile");
}

/// The commit went through although the store said otherwise.
#[test]
fn s01_a_refusal_that_was_none_is_over_when_the_rows_say_so() {
    let mut dispatcher = awake(vec![waiting(1, Line::First, 0)], vec![]);
    dispatcher.pump(at(1), Room::PLENTY);
    dispatcher.ended(DeliveryNo(1), attempt(Some(500), 1), 0.0, 0, false);
    assert!(batch(&dispatcher.pump(at(1), Room::PLENTY)).is_some());
    dispatcher.refused(at(1));
    dispatcher.pump(at(2), Room::PLENTY);
    dispatcher.reloaded(reloaded(1, &[(1, 1)]));
    let effects = dispatcher.pump(at(2), Room::PLENTY);
    assert!(batch(&effects).is_none() && matches!(effects[..], [Effect::Load { .. }]), "{effects:?}");
    assert!(!dispatcher.owed);
}

#[test]
fn s01_reading_the_endpoint_again_does_not_end_a_refusal() {
    let mut dispatcher = awake(vec![waiting(1, Line::First, 0), waiting(2, Line::First, 0)], vec![]);
    assert_eq!(starts(&dispatcher.pump(at(1), Room { starts: 1, rate: None })), [1]);
    dispatcher.ended(DeliveryNo(1), attempt(Some(200), 1), 0.0, 0, false);
    let mut now = at(1);
    for wait in [100, 200, 400] {
        assert!(batch(&dispatcher.pump(now, Room { starts: 0, rate: None })).is_some());
        dispatcher.refused(now);
        let again = dispatcher.wake_at(now).expect("an instant");
        assert_eq!(again.since(now), Span::from_millis(wait));
        now = again;
        assert!(matches!(dispatcher.pump(now, Room::PLENTY)[..], [Effect::Reload { .. }]));
        dispatcher.reloaded(reloaded(1, &[(1, 0)]));
        assert_eq!(starts(&dispatcher.pump(now, Room { starts: 0, rate: None })), [] as [i64; 0]);
        dispatcher.outdated();
        dispatcher.pump(now, Room::PLENTY);
        dispatcher.reloaded(reloaded(1, &[(1, 0)]));
    }
    let effects = dispatcher.pump(now, Room::PLENTY);
    assert!(starts(&effects).is_empty() && batch(&effects).is_some(), "{effects:?}");
    dispatcher.recorded(false);
    assert_eq!(starts(&dispatcher.pump(now, Room::PLENTY)), [2]);
}

#[test]
fn s12_a_hint_that_comes_after_a_persons_retry_puts_nothing_in_line_twice() {
    let mut dispatcher = awake(vec![], vec![]);
    let hint = || vec![waiting(1, Line::First, 0)];
    dispatcher.lock(DeliveryNo(1)).unwrap();
    let mut during = awake(vec![], vec![]);
    during.lock(DeliveryNo(1)).unwrap();
    during.hint(DeliveryNo(0), hint());
    assert!(starts(&during.pump(at(1), Room::PLENTY)).is_empty(), "a person holds it");
    dispatcher.unlock(DeliveryNo(1), Some(Waiting { attempt: 0, attempts_total: 0, ..waiting(1, Line::Single, 1) }));
    assert_eq!(starts(&dispatcher.pump(at(1), Room::PLENTY)), [1]);
    dispatcher.hint(DeliveryNo(0), hint());
    dispatcher.ended(DeliveryNo(1), attempt(Some(200), 1), 0.0, 0, false);
    assert!(starts(&dispatcher.pump(at(1), Room::PLENTY)).is_empty(), "it was sent already");
}

/// A person's request was refused, or failed, before the rows were read for the first time.
#[test]
fn s03_nothing_overtakes_a_delivery_that_a_person_has_let_go() {
    let mut dispatcher = Dispatcher::new(endpoint(1), Health::default(), 1, LIMITS);
    dispatcher.lock(DeliveryNo(1)).unwrap();
    dispatcher.pump(at(1), Room::PLENTY);
    dispatcher.unlock(DeliveryNo(1), None);
    let rows = || Loaded {
        first: vec![waiting(1, Line::First, 0), waiting(2, Line::First, 0)],
        first_complete: true,
        second_complete: true,
        read_through: DeliveryNo(2),
        ..Loaded::default()
    };
    dispatcher.loaded(rows());
    let effects = dispatcher.pump(at(1), Room::PLENTY);
    assert!(matches!(effects[..], [Effect::Load { .. }]), "{effects:?}");
    dispatcher.load_failed(at(1));
    let again = dispatcher.wake_at(at(1)).expect("an instant");
    let effects = dispatcher.pump(again, Room::PLENTY);
    assert!(matches!(effects[..], [Effect::Load { .. }]), "{effects:?}");
    assert!(dispatcher.pump(again, Room::PLENTY).is_empty(), "its row is being read");
    dispatcher.loaded(rows());
    assert_eq!(starts(&dispatcher.pump(again, Room::PLENTY)), [1, 2]);
}
