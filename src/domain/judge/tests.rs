use super::super::attempt::{Answer, ErrorKind, Report, Timing, Trigger};
use super::super::delivery::Line;
use super::super::ids::{DeliveryNo, EndpointNo, EventNo};
use super::super::policy::{AutoDisable, Preset, ResponseRule};
use super::super::schedule::{Schedule, StatusSet};
use super::super::time::Span;
use super::*;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_micros(seconds * 1_000_000)
}

fn endpoint(policy: Policy) -> Endpoint {
    Endpoint {
        no: EndpointNo(1),
        id: "ep_1".into(),
        url: "https://one.test/".into(),
        version: 1,
        status: Status::Enabled,
        policy: Arc::new(policy),
        max_in_flight: 16,
        cut: 0,
        counted_from: at(0),
        paused: false,
    }
}

/// What became of the endpoint since.
type Change<'a> = &'a dyn Fn(&mut Endpoint);

/// A policy with one retry after 30 s, these rules, and no verdict by streak.
fn policy(rules: &[(&str, Action)]) -> Policy {
    let rule = |&(status, action): &(&str, Action)| ResponseRule { status: StatusSet::parse(status).unwrap(), action };
    Policy {
        schedule: Schedule::Ladder(vec![Span::from_secs(30)]),
        jitter: 0.0,
        responses: rules.iter().map(rule).collect(),
        auto_disable: None,
        ..Policy::preset(Preset::Orbit)
    }
}

/// An attempt from second 100 to 101 that began under `policy`, after so many failed ones of its run.
fn ended(status: Option<u16>, failed: u32, policy: &Policy) -> Ended {
    let answer = |status| Answer {
        status,
        retry_after: Some("600".into()),
        excerpt: Default::default(),
        excerpt_truncated: false,
    };
    let finding = match status {
        Some(status) => Finding::Answered(answer(status)),
        None => Finding::Failed { kind: ErrorKind::Timeout, error: "" },
    };
    let report = Report { finding, timing: Timing::default(), remote_addr: None, took: Span::SECOND };
    let (trigger, url) = (Trigger::Schedule, "https://one.test/".into());
    Ended {
        delivery: Waiting {
            line: Line::Retry,
            attempt: failed,
            attempts_total: failed,
            ..Waiting::accepted(DeliveryNo(1), EventNo(1), at(0))
        },
        attempt: Attempt { trigger, started_at: at(100), ended_at: at(101), url, report },
        probe_of: None,
        policy: Arc::new(policy.clone()),
        draw: 0.0,
        wall_secs: 0,
        no_egress: false,
    }
}

#[test]
fn s07_the_outcome_says_what_came_of_the_attempt() {
    let rules = [("410", Action::Disable), ("400", Action::DeadLetter)];
    let by_streak = AutoDisable { failures: Some(1), failing_for: None };
    let judged = |status, failed, change: Change| {
        let mut endpoint = endpoint(policy(&rules));
        change(&mut endpoint);
        let verdict = judge(&ended(status, failed, &policy(&rules)), &mut endpoint, &mut Health::default());
        (verdict.outcome, verdict.next.state().as_str(), endpoint.status)
    };
    use Outcome::*;
    use Status::*;
    let as_it_is = |_: &mut Endpoint| ();
    let streak = |endpoint: &mut Endpoint| {
        endpoint.policy = Arc::new(Policy { auto_disable: Some(by_streak), ..policy(&rules) });
    };
    let disabled = |endpoint: &mut Endpoint| (endpoint.status, endpoint.cut) = (Disabled, 1);
    let enabled_since = |endpoint: &mut Endpoint| endpoint.counted_from = at(100) + Span::MILLISECOND;
    let table: [(Option<u16>, u32, Change, _); 14] = [
        (Some(204), 0, &as_it_is, (Delivered, "delivered", Enabled)),
        (Some(204), 1, &disabled, (Delivered, "delivered", Disabled)),
        (Some(500), 0, &as_it_is, (Retry, "failed", Enabled)),
        (None, 0, &as_it_is, (Retry, "failed", Enabled)),
        // The ladder's end.
        (Some(500), 1, &as_it_is, (DeadLetter, "dead", Enabled)),
        (None, 1, &as_it_is, (DeadLetter, "dead", Enabled)),
        (Some(400), 0, &as_it_is, (DeadLetter, "dead", Enabled)),
        // Disabled by a rule, by the streak, and by both at once; with rungs left and without.
        (Some(410), 0, &as_it_is, (Disable, "dead", AutoDisabled)),
        (Some(500), 0, &streak, (Disable, "dead", AutoDisabled)),
        (None, 1, &streak, (Disable, "dead", AutoDisabled)),
        (Some(410), 1, &streak, (Disable, "dead", AutoDisabled)),
        // Cut while on the wire: it has nothing to disable any more.
        (Some(410), 0, &disabled, (DeadLetter, "dead", Disabled)),
        (Some(500), 0, &disabled, (DeadLetter, "dead", Disabled)),
        // From before the last enable.
        (Some(410), 0, &enabled_since, (DeadLetter, "dead", Enabled)),
    ];
    for (row, (status, failed, change, expected)) in table.into_iter().enumerate() {
        assert_eq!(judged(status, failed, change), expected, "row {row}: {status:?} after {failed} failures");
    }
}

#[test]
fn s07_s13_s22_an_attempt_from_before_the_last_enable_or_new_url_counts_nowhere() {
    let strict = Policy {
        auto_disable: Some(AutoDisable { failures: Some(1), failing_for: None }),
        ..policy(&[("410", Action::Disable)])
    };
    for status in [Some(410), Some(500), None, Some(200)] {
        let mut endpoint = endpoint(strict.clone());
        endpoint.counted_from = at(100) + Span::MILLISECOND;
        let before = Health { failures: 3, failing_since: Some(at(50)), exhausted: 2, ..Health::default() };
        let mut health = before;
        let verdict = judge(&ended(status, 0, &strict), &mut endpoint, &mut health);
        assert_eq!((health, endpoint.status, endpoint.cut), (before, Status::Enabled, 0), "{status:?}");
        assert!(verdict.disable.is_none() && verdict.notices.is_empty(), "{status:?}");
    }
}

#[test]
fn s22_the_answer_is_read_by_the_policy_of_its_beginning_and_scheduled_by_the_present_one() {
    let judged = |status, begun_under: &Policy, present: &Policy| {
        let (mut endpoint, mut health) = (endpoint(present.clone()), Health::default());
        judge(&ended(Some(status), 0, begun_under), &mut endpoint, &mut health).next
    };
    let retry = |seconds: i64, reason| Next::Retry { due_at: at(101 + seconds), reason };
    let gone = Next::Dead(DeadReason::PermanentResponse);
    // Response rules.
    let (plain, strict) = (policy(&[]), policy(&[("410", Action::DeadLetter)]));
    assert_eq!(judged(410, &strict, &plain), gone);
    assert_eq!(judged(410, &plain, &strict), retry(30, DueReason::Schedule));
    // Retry-After.
    let obeys = Policy { retry_after: true, ..plain.clone() };
    assert_eq!(judged(429, &obeys, &plain), retry(600, DueReason::RetryAfter));
    assert_eq!(judged(429, &plain, &obeys), retry(30, DueReason::Schedule));
    // The schedule, and its jitter.
    let slower = Policy { schedule: Schedule::Ladder(vec![Span::MINUTE]), ..plain.clone() };
    assert_eq!(judged(500, &plain, &slower), retry(60, DueReason::Schedule));
    let none_left = Policy { schedule: Schedule::Ladder(Vec::new()), ..plain.clone() };
    assert_eq!(judged(500, &plain, &none_left), Next::Dead(DeadReason::Exhausted));
}
