use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

/// The faults found, as `path: message`, under the path `policy`.
fn faults(json: &Value) -> Vec<String> {
    match PolicySpec::from_json(json, "policy") {
        Ok(_) => Vec::new(),
        Err(errors) => {
            assert!(!errors.is_empty(), "{json}");
            errors.iter().map(ToString::to_string).collect()
        }
    }
}

fn resolved(json: Value) -> Policy {
    PolicySpec::from_json(&json, "policy").unwrap().resolve()
}

#[test]
fn a_name_is_a_preset_and_an_object_overrides_one() {
    for preset in Preset::ALL {
        assert_eq!(resolved(json!(preset.as_str())), Policy::preset(*preset));
        assert_eq!(resolved(json!({"preset": preset})), Policy::preset(*preset));
    }
    assert_eq!(resolved(json!({})), Policy::preset(Preset::Orbit));
    let policy = resolved(json!({"preset": "salaf", "timeout": "5s", "auto_disable": null, "jitter": 1}));
    let expected =
        Policy { timeout: Span::from_secs(5), auto_disable: None, jitter: 1.0, ..Policy::preset(Preset::Salaf) };
    assert_eq!(policy, expected);
}

#[test]
fn every_bound_holds_on_both_sides() {
    let rules = |count| Value::Array(vec![json!({"status": "500", "action": "retry"}); count]);
    let rungs = |count| json!({"ladder": vec!["1s"; count]});
    let exponential = |initial: Value, factor: Value, retries: Value, max_delay: Value| json!({"exponential": {"initial": initial, "factor": factor, "retries": retries, "max_delay": max_delay}});
    let usual = |factor: Value, retries: Value| exponential(json!("30s"), factor, retries, json!("24h"));
    let taper = |attempts: Value, over: &str| json!({"taper": {"attempts": attempts, "over": over}});
    let check = |member: &str, right: &[Value], wrong: &[Value]| {
        let with = |value: &Value| json!({ member: value });
        right.iter().for_each(|value| assert_eq!(faults(&with(value)), [""; 0], "{value}"));
        wrong.iter().for_each(|value| assert_eq!(faults(&with(value)).len(), 1, "{value}: {:?}", faults(&with(value))));
    };
    check(
        "jitter",
        &[json!(0), json!(1), json!(0.5), json!(-0.0)],
        &[json!(-0.1), json!(1.001), json!("0.2"), json!(null), json!(1e308)],
    );
    check(
        "timeout",
        &[json!("100ms"), json!("60s"), json!("1m")],
        &[json!("99ms"), json!("60s1ms"), json!("0s"), json!(30), json!(null), json!("-1s"), json!("")],
    );
    check("retry_after", &[json!(true)], &[json!("true"), json!(1), json!(null)]);
    check("while_disabled", &[json!("skip")], &[json!("SKIP"), json!(null), json!(1)]);
    check(
        "schedule",
        &[rungs(0), rungs(49), json!({"ladder": ["0s", "24h"]})],
        &[
            rungs(50),
            json!({"ladder": ["24h1ms"]}),
            json!({"ladder": [30]}),
            json!({"ladder": "30s"}),
            json!({}),
            json!(null),
            json!([]),
            json!({"ladder": [], "taper": {"attempts": 1, "over": "0s"}}),
        ],
    );
    check(
        "schedule",
        &[
            usual(json!(1), json!(0)),
            usual(json!(100), json!(49)),
            exponential(json!("0s"), json!(1.5), json!(1), json!("0s")),
            json!({"exponential": {"initial": "1s", "factor": 2, "retries": 3}}),
        ],
        &[
            usual(json!(0.99), json!(9)),
            usual(json!(100.1), json!(9)),
            usual(json!(2), json!(50)),
            usual(json!(2), json!(-1)),
            usual(json!(2), json!(1.5)),
            exponential(json!("24h1s"), json!(2), json!(9), json!("24h")),
            exponential(json!("1s"), json!(2), json!(9), json!("25h")),
            json!({"exponential": {"initial": "1s", "factor": 2}}),
        ],
    );
    check(
        "schedule",
        &[taper(json!(8), "6h"), taper(json!(1), "0s"), taper(json!(50), "47h"), taper(json!(2), "24h")],
        &[taper(json!(0), "6h"), taper(json!(51), "6h"), taper(json!(2), "24h1s"), taper(json!(50), "49h")],
    );
    check(
        "responses",
        &[rules(0), rules(100)],
        &[
            rules(101),
            json!(null),
            json!([{"status": "299", "action": "retry"}]),
            json!([{"status": "600", "action": "retry"}]),
            json!([{"status": 503, "action": "retry"}]),
            json!([{"status": "503", "action": "drop"}]),
            json!([{"status": "503"}]),
            json!([{"status": "503,".repeat(400), "action": "retry"}]),
        ],
    );
    let month = 30 * 24;
    check(
        "auto_disable",
        &[
            json!(null),
            json!({"failures": 1}),
            json!({"failures": 1_000_000, "failing_for": "1h"}),
            json!({"failing_for": format!("{month}h")}),
        ],
        &[
            json!({}),
            json!({"failures": 0}),
            json!({"failures": 1_000_001}),
            json!({"failures": null}),
            json!({"failing_for": "59m"}),
            json!({"failing_for": format!("{month}h1s")}),
        ],
    );
    check(
        "circuit_breaker",
        &[json!(null), json!({"exhausted": 1, "cooldown": "1s"}), json!({"exhausted": 10, "cooldown": "24h"})],
        &[
            json!({"exhausted": 10}),
            json!({"cooldown": "10m"}),
            json!({"exhausted": 10, "cooldown": "999ms"}),
            json!({"exhausted": 10, "cooldown": "24h1ms"}),
            json!({"exhausted": 0, "cooldown": "10m"}),
            json!(false),
        ],
    );
    check("alert", &[json!(null), json!({"exhausted": 5})], &[json!(5), json!({}), json!({"exhausted": 0})]);
    check(
        "retention",
        &[json!({"dead_letters": "1d"}), json!({"dead_letters": "365d"})],
        &[json!(null), json!({}), json!({"dead_letters": "23h"}), json!({"dead_letters": "366d"}), json!("7d")],
    );
}

/// C47.
#[test]
fn c47_no_delays_is_one_attempt_and_zero_is_at_once() {
    let delay = |ladder: Value| resolved(json!({"schedule": {"ladder": ladder}})).schedule.delay(1);
    assert_eq!(delay(json!([])), None);
    assert_eq!(delay(json!(["0s"])), Some(Span::ZERO));
}

#[test]
fn all_faults_are_found_with_their_paths() {
    let found = faults(&json!({
        "preset": "orbit",
        "schedule": {"ladder": ["8s", 32, "48h"], "ladders": []},
        "responses": [{"status": "5xx", "action": "explode", "when": 1}],
        "auto_disable": {"failures": 0, "failing_for": "1m"},
        "circuit_breaker": {},
        "colour": "red",
    }));
    let expected = [
        "policy.colour: This member is not known; known are preset, schedule, jitter, timeout, retry_after, responses, \
         auto_disable, circuit_breaker, alert, while_disabled, retention.",
        "policy.schedule.ladders: This member is not known; known are ladder, exponential, taper.",
        "policy.schedule.ladder[1]: A duration is text with its unit, for example \"30s\"; a number is not.",
        "policy.schedule.ladder[2]: A duration from 0s to 24h is needed.",
        "policy.responses[0].when: This member is not known; known are status, action.",
        "policy.responses[0].status: `5xx` is not a status from 300 to 599; what is needed is codes and ranges within \
         300-599, such as \"500-599,429\".",
        "policy.responses[0].action: 'explode' is not one of retry, dead_letter, disable.",
        "policy.auto_disable.failures: A whole number from 1 to 1000000 is needed.",
        "policy.auto_disable.failing_for: A duration from 1h to 30d is needed.",
        "policy.circuit_breaker.exhausted: This member is required.",
        "policy.circuit_breaker.cooldown: This member is required.",
    ];
    assert_eq!(found, expected);
}

#[test]
fn what_is_no_policy_at_all_is_said_so() {
    let form = "policy: This must be a preset's name or an object, not";
    assert_eq!(faults(&json!(null)), [format!("{form} null.")]);
    assert_eq!(faults(&json!([])), [format!("{form} a list.")]);
    assert_eq!(faults(&json!(7)), [format!("{form} a number.")]);
    assert_eq!(faults(&json!("Orbit")), ["policy: 'Orbit' is not one of orbit, shellorbit, salaf."]);
    assert_eq!(
        faults(&json!({"preset": "x".repeat(100), "jitter": 2})),
        [
            format!("policy.preset: '{}…' is not one of orbit, shellorbit, salaf.", "x".repeat(64)),
            "policy.jitter: A number from 0 to 1 is needed.".into()
        ]
    );
}

fn span(range: RangeInclusive<Span>) -> impl Strategy<Value = Span> {
    (range.start().as_millis() as u64..=range.end().as_millis() as u64).prop_map(Span::from_millis)
}

/// Numbers are kept to six places.
fn places(range: RangeInclusive<f64>) -> impl Strategy<Value = f64> {
    let millionths = |number: f64| (number * 1e6) as u32;
    (millionths(*range.start())..=millionths(*range.end())).prop_map(|count| f64::from(count) / 1e6)
}

fn any_schedule() -> impl Strategy<Value = Schedule> {
    prop_oneof![
        vec(span(DELAY), 0..=MAX_RETRIES as usize).prop_map(Schedule::Ladder),
        (span(DELAY), places(FACTOR), 0..=MAX_RETRIES, span(DELAY)).prop_map(
            |(initial, factor, retries, max_delay)| { Schedule::Exponential { initial, factor, retries, max_delay } }
        ),
        (1..=MAX_ATTEMPTS, span(Span::ZERO..=Span::DAY))
            .prop_map(|(attempts, over)| Schedule::Taper { attempts, over }),
    ]
}

fn any_rule() -> impl Strategy<Value = ResponseRule> {
    let ranges = vec((300u16..600, 0u16..100), 1..5);
    (ranges, 0..Action::ALL.len()).prop_map(|(ranges, action)| {
        let text: Vec<_> = (ranges.iter()).map(|(low, more)| format!("{low}-{}", (low + more).min(599))).collect();
        ResponseRule { status: StatusSet::parse(&text.join(", ")).unwrap(), action: Action::ALL[action] }
    })
}

fn any_auto_disable() -> impl Strategy<Value = AutoDisable> {
    (of(STREAK), of(span(FAILING_FOR)), STREAK).prop_map(|(failures, failing_for, otherwise)| AutoDisable {
        failures: failures.or(failing_for.is_none().then_some(otherwise)),
        failing_for,
    })
}

fn any_spec() -> impl Strategy<Value = PolicySpec> {
    let breaker = (STREAK, span(COOLDOWN)).prop_map(|(exhausted, cooldown)| CircuitBreaker { exhausted, cooldown });
    let first =
        (of(any_schedule()), of(places(JITTER)), of(span(TIMEOUT)), of(any::<bool>()), of(vec(any_rule(), 0..5)));
    let second = (of(of(any_auto_disable())), of(of(breaker)), of(of(STREAK)), of(0..2usize), of(span(DEAD_LETTERS)));
    (0..Preset::ALL.len(), first, second).prop_map(|(preset, first, second)| PolicySpec {
        preset: Preset::ALL[preset],
        overrides: Overrides {
            schedule: first.0,
            jitter: first.1,
            timeout: first.2,
            retry_after: first.3,
            responses: first.4,
            auto_disable: second.0,
            circuit_breaker: second.1,
            alert: second.2,
            while_disabled: second.3.map(|index| WhileDisabled::ALL[index]),
            dead_letters: second.4,
        },
    })
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "(orbit|retry|skip|500-599|[0-9]{0,3}[dhms]{0,2}|.{0,5})".prop_map(Value::from),
    ];
    // Names that the reader looks for, so that it goes deep.
    let name = "(preset|schedule|ladder|exponential|taper|initial|factor|retries|max_delay|attempts|over|jitter|timeout|\
                retry_after|responses|status|action|auto_disable|failures|failing_for|circuit_breaker|exhausted|cooldown|\
                alert|while_disabled|retention|dead_letters|x)";
    leaf.prop_recursive(4, 64, 6, move |inner| {
        prop_oneof![
            vec(inner.clone(), 0..6).prop_map(Value::from),
            proptest::collection::btree_map(name, inner, 0..6).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn what_is_stored_reads_back(spec in any_spec()) {
        let stored = spec.to_json();
        let text = stored.to_string();
        prop_assert_eq!(PolicySpec::from_json(&stored, ""), Ok(spec.clone()));
        let reread: Value = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(PolicySpec::from_json(&reread, ""), Ok(spec));
    }

    #[test]
    fn no_json_panics_and_no_fault_is_silent(json in any_json()) {
        match PolicySpec::from_json(&json, "") {
            Ok(spec) => prop_assert_eq!(PolicySpec::from_json(&spec.to_json(), "").unwrap(), spec),
            Err(errors) => prop_assert!(!errors.is_empty()),
        }
    }

    /// S9, whatever the policy: at most 50 attempts, no delay over a day.
    #[test]
    fn s09_what_is_accepted_keeps_the_limits(json in any_json()) {
        if let Ok(spec) = PolicySpec::from_json(&json, "") {
            let schedule = spec.resolve().schedule;
            prop_assert!(schedule.retries() <= MAX_RETRIES);
            prop_assert!((1..=50).filter_map(|failed| schedule.delay(failed)).all(|delay| delay <= MAX_DELAY));
        }
    }
}
