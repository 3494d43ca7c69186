//! `POST /policies/simulate` and `posthaste simulate`: the request as a caller writes it, and the answer (`api.md`,
//! *Endpoints*).

use std::collections::HashMap;
use std::ops::RangeInclusive;

use serde::Serialize;
use serde_json::Value;

use super::attempt::Outcome;
use super::delivery::{DeadReason, State};
use super::endpoint::Status;
use super::field_error::{FieldError, FieldErrors, shortened};
use super::health::CircuitState;
use super::json_reader::{At, Members};
use super::policy_json::DurationJson;
use super::policy_spec::PolicySpec;
use super::simulate::{Cue, Ending, MAX_EVENTS, MAX_SCRIPT, Plan, Step, Timeline, simulate};
use super::time::Span;

/// How often events may come.
pub const EVERY: RangeInclusive<Span> = Span::ZERO..=Span::from_secs(30 * 86_400);
/// The longest script entry, in bytes: room for a status and a `Retry-After` date.
pub const MAX_CUE_BYTES: usize = 100;

/// A simulation that was asked for.
#[derive(Clone, Debug)]
pub struct SimulateRequest {
    /// With nominal delays (`draw` 0).
    pub plan: Plan,
    /// Show the range of each wait.
    pub jitter: bool,
}

impl SimulateRequest {
    /// Reads `{policy, script, jitter, events: {count, every}}`; only `script` is required, the policy is `orbit` unless
    /// given, and there is one event. Every fault is found, not only the first.
    pub fn from_json(json: &Value) -> Result<SimulateRequest, Vec<FieldError>> {
        let mut errors = FieldErrors::default();
        let request = read(json, &mut errors);
        errors.finish(request)
    }

    /// Runs the simulation: the timeline with nominal delays and, if a range was asked for, the one with the longest.
    pub fn run(&self) -> (Timeline, Option<Timeline>) {
        let longest = Plan { draw: 1.0, ..self.plan.clone() };
        (simulate(&self.plan), self.jitter.then(|| simulate(&longest)))
    }

    /// Runs the simulation and writes the answer.
    pub fn answer(&self) -> SimulateAnswer {
        let (nominal, longest) = self.run();
        SimulateAnswer::new(&nominal, longest.as_ref())
    }
}

fn read(json: &Value, errors: &mut FieldErrors) -> Option<SimulateRequest> {
    let members = At::new(json, "").object(&["policy", "script", "jitter", "events"], errors)?;
    let policy = match members.get("policy") {
        Some(at) => PolicySpec::read(&at, errors),
        None => Some(PolicySpec::default()),
    };
    let script = script(&members, errors);
    let jitter = match members.get("jitter") {
        Some(at) => at.boolean(errors),
        None => Some(false),
    };
    let events = events(&members, errors);
    let (events, every) = events?;
    Some(SimulateRequest {
        plan: Plan { policy: policy?.resolve(), script: script?, events, every, draw: 0.0 },
        jitter: jitter?,
    })
}

fn script(members: &Members, errors: &mut FieldErrors) -> Option<Vec<Cue>> {
    let script = members.required("script", errors)?;
    let entries = script.list(MAX_SCRIPT, errors)?;
    if entries.is_empty() {
        errors.push(&script.path, "At least one entry is needed, such as \"503\"; the last one repeats.");
    }
    Some(entries.iter().filter_map(|entry| cue(entry, errors)).collect())
}

fn cue(at: &At, errors: &mut FieldErrors) -> Option<Cue> {
    let text = at.text(errors)?;
    if text.len() > MAX_CUE_BYTES {
        let message = format!("'{}' is longer than {MAX_CUE_BYTES} bytes.", shortened(text));
        errors.push(&at.path, message);
        return None;
    }
    let fault = match Cue::parse(text) {
        Ok(cue) => return Some(cue),
        Err(fault) => fault,
    };
    errors.push(&at.path, format!("{fault}."));
    None
}

/// How many, and one every so often.
fn events(members: &Members, errors: &mut FieldErrors) -> Option<(u32, Span)> {
    let Some(events) = members.get("events") else {
        return Some((1, Span::MINUTE));
    };
    let members = events.object(&["count", "every"], errors)?;
    let count = match members.get("count") {
        Some(at) => at.whole_number(1..=MAX_EVENTS, errors),
        None => Some(1),
    };
    let every = match members.get("every") {
        Some(at) => at.duration(EVERY, errors),
        None => Some(Span::MINUTE),
    };
    Some((count?, every?))
}

/// The answer, with its members in the order of `api.md`.
#[derive(Clone, Debug, Serialize)]
pub struct SimulateAnswer {
    attempts: Vec<AttemptJson>,
    r#final: FinalJson,
}

impl SimulateAnswer {
    /// `longest`: the same plan with every delay at the end of its jitter range, if ranges are wanted. Everything but the
    /// waits is told of the nominal timeline.
    pub fn new(nominal: &Timeline, longest: Option<&Timeline>) -> SimulateAnswer {
        let ranges = Ranges::new(longest);
        SimulateAnswer {
            attempts: (nominal.steps.iter()).map(|step| AttemptJson::new(step, &ranges)).collect(),
            r#final: FinalJson::from(&nominal.ending),
        }
    }
}

/// The other ends of the waits, to be found by event and attempt: with jitter the attempts of different events may
/// change places.
pub struct Ranges<'t>(Option<HashMap<(u32, u32), &'t Step>>);

impl<'t> Ranges<'t> {
    pub fn new(longest: Option<&'t Timeline>) -> Ranges<'t> {
        let by_attempt = |timeline: &'t Timeline| {
            let steps = timeline.steps.iter();
            steps.map(|step| ((step.event, step.attempt), step)).collect()
        };
        Ranges(longest.map(by_attempt))
    }

    /// The range of one of the step's waits, if ranges are wanted. An attempt that only the nominal timeline has, or a
    /// wait that a script sent another way, has a range of its own single value.
    pub fn of(&self, step: &Step, wait: fn(&Step) -> Option<Span>) -> Option<(Span, Span)> {
        let longest = self.0.as_ref()?;
        let nominal = wait(step)?;
        let other = longest.get(&(step.event, step.attempt)).and_then(|step| wait(step));
        let other = other.unwrap_or(nominal);
        Some((nominal.min(other), nominal.max(other)))
    }
}

#[derive(Clone, Debug, Serialize)]
struct AttemptJson {
    event: u32,
    attempt: u32,
    wait: WaitJson,
    elapsed: DurationJson,
    script: String,
    /// `null` where the script gives no answer.
    status: Option<u16>,
    outcome: Outcome,
    next_wait: Option<WaitJson>,
}

impl AttemptJson {
    fn new(step: &Step, ranges: &Ranges) -> AttemptJson {
        let wait = |value: Span, of: fn(&Step) -> Option<Span>| match ranges.of(step, of) {
            Some((min, max)) => WaitJson::Range { min: DurationJson(min), max: DurationJson(max) },
            None => WaitJson::Exact(DurationJson(value)),
        };
        AttemptJson {
            event: step.event,
            attempt: step.attempt,
            wait: wait(step.wait, |step| Some(step.wait)),
            elapsed: DurationJson(step.elapsed),
            script: step.cue.to_string(),
            status: match &step.cue {
                Cue::Answer { status, .. } => Some(*status),
                Cue::Fail(_) => None,
            },
            outcome: step.outcome,
            next_wait: step.next_wait.map(|value| wait(value, |step| step.next_wait)),
        }
    }
}

/// Only ever written, so that `untagged` costs nothing.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
enum WaitJson {
    Exact(DurationJson),
    Range { min: DurationJson, max: DurationJson },
}

/// The last event's delivery and the endpoint, when nothing more happens. All times are from the first event's creation:
/// a simulation has no date.
#[derive(Clone, Debug, Serialize)]
struct FinalJson {
    /// `null`: no delivery was created for the last event, because the endpoint was disabled.
    state: Option<State>,
    dead_reason: Option<DeadReason>,
    elapsed: DurationJson,
    endpoint_status: Status,
    disabled_at: Option<DurationJson>,
    circuit: CircuitState,
    /// Failed attempts in a row.
    failure_streak: u32,
    /// Deliveries in a row that died of their attempts.
    exhausted_streak: u32,
}

impl From<&Ending> for FinalJson {
    fn from(ending: &Ending) -> FinalJson {
        FinalJson {
            state: ending.state,
            dead_reason: ending.dead_reason,
            elapsed: DurationJson(ending.elapsed),
            endpoint_status: ending.status,
            disabled_at: ending.disabled_at.map(DurationJson),
            circuit: ending.circuit,
            failure_streak: ending.failures,
            exhausted_streak: ending.exhausted,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn answer(request: Value) -> Value {
        let request = SimulateRequest::from_json(&request).unwrap();
        serde_json::to_value(request.answer()).unwrap()
    }

    #[test]
    fn the_answer_reads_as_in_the_contract() {
        let request = json!({"policy": "shellorbit", "script": ["timeout", "429;retry-after=60", "200"]});
        let answer = SimulateRequest::from_json(&request).unwrap().answer();
        let contract = concat!(
            r#"{"attempts":["#,
            r#"{"event":1,"attempt":1,"wait":"0s","elapsed":"0s","script":"timeout","status":null,"outcome":"retry","next_wait":"8s"},"#,
            r#"{"event":1,"attempt":2,"wait":"8s","elapsed":"23s","script":"429;retry-after=60","status":429,"outcome":"retry","next_wait":"1m"},"#,
            r#"{"event":1,"attempt":3,"wait":"1m","elapsed":"1m23s","script":"200","status":200,"outcome":"delivered","next_wait":null}],"#,
            r#""final":{"state":"delivered","dead_reason":null,"elapsed":"1m23s","endpoint_status":"enabled","disabled_at":null,"#,
            r#""circuit":"closed","failure_streak":0,"exhausted_streak":0}}"#,
        );
        assert_eq!(serde_json::to_string(&answer).unwrap(), contract);
    }

    #[test]
    fn s09_with_jitter_each_wait_is_a_range() {
        let answer = answer(json!({"script": ["503"], "jitter": true}));
        let attempts = answer["attempts"].as_array().unwrap();
        assert_eq!(attempts[0]["wait"], json!({"min": "0s", "max": "0s"}));
        assert_eq!(attempts[0]["next_wait"], json!({"min": "30s", "max": "36s"}));
        assert_eq!(attempts[9]["wait"], json!({"min": "2h8m", "max": "2h33m36s"}));
        assert_eq!(attempts[9]["next_wait"], Value::Null);
        assert_eq!(attempts[9]["elapsed"], "4h15m30s");
        assert_eq!(answer["final"]["elapsed"], "4h15m30s");
    }

    #[test]
    fn s15_an_event_that_is_skipped_has_no_state() {
        let request = json!({
            "policy": {"preset": "orbit", "while_disabled": "skip"}, "script": ["410"], "events": {"count": 2, "every": "1h"}
        });
        let end = answer(request)["final"].take();
        assert_eq!(end["state"], Value::Null);
        assert_eq!(end["endpoint_status"], "auto_disabled");
        assert_eq!((&end["disabled_at"], &end["elapsed"]), (&json!("0s"), &json!("1h")));
    }

    #[test]
    fn all_faults_are_found_with_their_paths() {
        let check = |request: Value, fields: &[&str]| {
            let errors = SimulateRequest::from_json(&request).unwrap_err();
            let found: Vec<_> = errors.iter().map(|error| error.field.as_str()).collect();
            assert_eq!(found, fields, "{errors:?}");
        };
        check(json!([]), &[""]);
        check(json!({}), &["script"]);
        check(json!({"script": []}), &["script"]);
        check(json!({"script": "503"}), &["script"]);
        check(json!({"script": vec!["503"; MAX_SCRIPT + 1]}), &["script"]);
        check(
            json!({"script": ["503", 503, "5xx", "503*2", format!("503;retry-after={}", "9".repeat(100))]}),
            &["script[1]", "script[2]", "script[3]", "script[4]"],
        );
        check(
            json!({
                "policy": {"timeout": 5}, "script": ["soon"], "jitter": "no", "seed": 1,
                "events": {"count": 1001, "every": "31d", "until": "1d"},
            }),
            &["seed", "policy.timeout", "script[0]", "jitter", "events.until", "events.count", "events.every"],
        );
        check(json!({"script": ["503"], "events": 5, "policy": null}), &["policy", "events"]);
        check(
            json!({"script": ["503"], "events": {"count": 0}, "policy": {"preset": "x"}}),
            &["policy.preset", "events.count"],
        );
    }
}
