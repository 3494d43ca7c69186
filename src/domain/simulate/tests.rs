use super::super::policy::Preset;
use super::*;

fn plan(preset: Preset, script: &[&str], events: u32, every: Span) -> Plan {
    let script = script.iter().map(|cue| Cue::parse(cue).unwrap()).collect();
    Plan { policy: Policy::preset(preset), script, events, every, draw: 0.0 }
}

fn elapsed_millis(timeline: &Timeline) -> Vec<i64> {
    timeline.steps.iter().map(|step| step.elapsed.as_millis()).collect()
}

#[test]
fn s09_orbit_walks_its_ladder_to_the_millisecond() {
    let timeline = simulate(&plan(Preset::Orbit, &["503"], 1, Span::ZERO));
    let seconds = [0, 30, 90, 210, 450, 930, 1890, 3810, 7650, 15330];
    assert_eq!(elapsed_millis(&timeline), seconds.map(|second: i64| second * 1000));
    assert_eq!(timeline.ending.state, Some(State::Dead));
    assert_eq!(timeline.ending.dead_reason, Some(DeadReason::Exhausted));
    assert_eq!((timeline.ending.failures, timeline.ending.exhausted), (10, 1));
    let longest = simulate(&Plan { draw: 1.0, ..plan(Preset::Orbit, &["503"], 1, Span::ZERO) });
    assert_eq!(longest.ending.elapsed.as_millis(), 18_396_000, "5.1 hours");
}

#[test]
fn s09_shellorbit_and_salaf_walk_their_ladders_to_the_millisecond() {
    let timeline = simulate(&plan(Preset::Shellorbit, &["500"], 1, Span::ZERO));
    assert_eq!(elapsed_millis(&timeline), [0, 8_000, 40_000, 160_000, 880_000]);
    let timeline = simulate(&plan(Preset::Salaf, &["404"], 1, Span::ZERO));
    let seconds = [0, 30, 150, 750, 2550, 9750, 31350, 74550, 160950];
    assert_eq!(elapsed_millis(&timeline), seconds.map(|second: i64| second * 1000));
}

#[test]
fn s09_delays_run_from_the_end_of_a_timeout() {
    let timeline = simulate(&plan(Preset::Shellorbit, &["timeout", "200"], 1, Span::ZERO));
    assert_eq!(elapsed_millis(&timeline), [0, 15_000 + 8_000]);
    assert_eq!(timeline.ending.state, Some(State::Delivered));
}

#[test]
fn s14_orbit_disables_at_fifty_and_the_rest_is_dead_lettered() {
    let timeline = simulate(&plan(Preset::Orbit, &["500"], 60, Span::SECOND));
    assert_eq!(timeline.steps.len(), 50);
    assert_eq!(timeline.ending.status, Status::AutoDisabled);
    assert_eq!(timeline.ending.state, Some(State::Dead));
    assert_eq!(timeline.ending.dead_reason, Some(DeadReason::EndpointDisabled));
}

#[test]
fn s07_a_proven_dead_answer_disables_at_once() {
    let timeline = simulate(&plan(Preset::Orbit, &["410"], 1, Span::ZERO));
    assert_eq!(timeline.steps.len(), 1);
    assert_eq!(timeline.ending.status, Status::AutoDisabled);
    assert_eq!(timeline.ending.dead_reason, Some(DeadReason::PermanentResponse));
    let timeline = simulate(&plan(Preset::Shellorbit, &["410"], 1, Span::ZERO));
    assert_eq!(timeline.ending.status, Status::Enabled);
    assert_eq!(timeline.ending.dead_reason, Some(DeadReason::PermanentResponse));
}

#[test]
fn s14_salaf_disables_after_three_days_of_failure_and_skips_what_comes_then() {
    let timeline = simulate(&plan(Preset::Salaf, &["500"], 100, Span::HOUR));
    assert_eq!(timeline.ending.status, Status::AutoDisabled);
    let disabled_at = timeline.ending.disabled_at.unwrap();
    assert_eq!(disabled_at, Span::from_secs(3 * 86_400));
    assert_eq!(timeline.ending.state, None);
    let two_days = simulate(&plan(Preset::Salaf, &["500"], 1, Span::ZERO));
    assert_eq!(two_days.ending.status, Status::Enabled, "one event's ladder is shorter than three days");
}

#[test]
fn s17_shellorbit_opens_after_ten_probes_and_closes_at_the_first_success() {
    // Ten events exhaust their five attempts; the eleventh is held, probes, and succeeds.
    let script: Vec<&str> = std::iter::repeat_n("500", 50).chain(["503", "200"]).collect();
    let mut plan = plan(Preset::Shellorbit, &script, 12, Span::SECOND);
    plan.every = Span::from_secs(100);
    let timeline = simulate(&plan);
    assert_eq!(timeline.ending.circuit, CircuitState::Closed);
    assert_eq!(timeline.ending.state, Some(State::Delivered));
}

#[test]
fn s08_retry_after_moves_the_next_attempt() {
    let timeline = simulate(&plan(Preset::Shellorbit, &["429;retry-after=60", "200"], 1, Span::ZERO));
    assert_eq!(elapsed_millis(&timeline), [0, 60_000]);
}

/// The ending speaks of the last event, even if an earlier one's attempt ends after it.
#[test]
fn s15_a_late_result_of_an_earlier_event_does_not_hide_what_became_of_the_last() {
    // Event 1 is answered 503; event 2 at 29 s times out until 59 s; event 1's retry at 30 s disables; event 3 comes at
    // 58 s.
    let plan = plan(Preset::Orbit, &["503", "timeout", "410"], 3, Span::from_secs(29));
    let timeline = simulate(&plan);
    assert_eq!(timeline.steps.len(), 3);
    assert!(timeline.steps[2].disables && !timeline.steps[1].disables);
    assert_eq!(timeline.ending.disabled_at, Some(Span::from_secs(30)));
    assert_eq!(timeline.ending.state, Some(State::Dead));
    let skips =
        simulate(&Plan { policy: Policy { while_disabled: WhileDisabled::Skip, ..plan.policy.clone() }, ..plan });
    assert_eq!(skips.ending.state, None, "none was created for event 3");
}

#[test]
fn the_largest_plans_come_to_an_end() {
    let mut plan = plan(Preset::Salaf, &["503"], MAX_EVENTS, Span::ZERO);
    plan.policy.auto_disable = None;
    plan.policy.schedule = super::super::schedule::Schedule::Ladder(vec![Span::ZERO; 49]);
    let all_dead = |plan: &Plan| {
        let timeline = simulate(plan);
        assert_eq!(timeline.steps.len(), MAX_STEPS);
        assert_eq!(timeline.ending.exhausted, MAX_EVENTS);
    };
    all_dead(&plan);
    plan.script = vec![Cue::parse("timeout").unwrap()];
    plan.policy.circuit_breaker = Policy::preset(Preset::Shellorbit).circuit_breaker;
    all_dead(&plan);
}
