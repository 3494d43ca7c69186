//! A policy as its owner writes it (`api.md`, *Policy object*): a preset's name, or a preset and what is to be different.
//! It is stored so and resolved when it is used, so that the owner's own words come back. How it is written as JSON is
//! in [`super::policy_json`].

use std::ops::RangeInclusive;

use serde_json::Value;

use super::field_error::{FieldError, FieldErrors};
use super::json_reader::At;
use super::policy::{
    Action, AutoDisable, CircuitBreaker, MAX_ATTEMPTS, MAX_DELAY, Policy, Preset, ResponseRule, WhileDisabled,
};
use super::schedule::{Schedule, StatusSet};
use super::time::Span;

/// The bounds of `api.md`. A delay of zero means at once (C47).
pub const DELAY: RangeInclusive<Span> = Span::ZERO..=MAX_DELAY;
pub const MAX_RETRIES: u32 = MAX_ATTEMPTS - 1;
pub const FACTOR: RangeInclusive<f64> = 1.0..=100.0;
pub const JITTER: RangeInclusive<f64> = 0.0..=1.0;
pub const TIMEOUT: RangeInclusive<Span> = Span::from_millis(100)..=Span::MINUTE;
pub const COOLDOWN: RangeInclusive<Span> = Span::SECOND..=Span::DAY;
pub const FAILING_FOR: RangeInclusive<Span> = Span::HOUR..=Span::from_secs(30 * 86_400);
pub const DEAD_LETTERS: RangeInclusive<Span> = Span::DAY..=Span::from_secs(365 * 86_400);
/// Lengths of streaks: `failures` and `exhausted`.
pub const STREAK: RangeInclusive<u32> = 1..=1_000_000;
pub const MAX_RESPONSE_RULES: usize = 100;
/// Room for every code from 300 to 599 and its comma.
pub const MAX_STATUS_BYTES: usize = 1_200;
/// The longest span that a taper may have, before each of its delays is looked at.
const OVER: RangeInclusive<Span> = Span::ZERO..=Span::from_secs(MAX_RETRIES as u64 * 86_400);

/// A preset and what its owner wants otherwise.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicySpec {
    pub preset: Preset,
    pub overrides: Overrides,
}

/// What is different from the preset: `None` is as the preset has it. Each member replaces the preset's whole.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Overrides {
    pub schedule: Option<Schedule>,
    pub jitter: Option<f64>,
    pub timeout: Option<Span>,
    pub retry_after: Option<bool>,
    pub responses: Option<Vec<ResponseRule>>,
    /// `Some(None)`, in JSON `null`: there is none, whatever the preset has. So with the next two.
    pub auto_disable: Option<Option<AutoDisable>>,
    pub circuit_breaker: Option<Option<CircuitBreaker>>,
    pub alert: Option<Option<u32>>,
    pub while_disabled: Option<WhileDisabled>,
    /// `retention.dead_letters`.
    pub dead_letters: Option<Span>,
}

impl From<Preset> for PolicySpec {
    fn from(preset: Preset) -> PolicySpec {
        PolicySpec { preset, overrides: Overrides::default() }
    }
}

/// The default policy: `orbit`.
impl Default for PolicySpec {
    fn default() -> PolicySpec {
        Preset::Orbit.into()
    }
}

impl PolicySpec {
    /// Reads a preset's name or `{preset?, …overrides}`; `path` is where it stands in the caller's document. Every fault
    /// is found, not only the first.
    pub fn from_json(json: &Value, path: &str) -> Result<PolicySpec, Vec<FieldError>> {
        let mut errors = FieldErrors::default();
        let spec = PolicySpec::read(&At::new(json, path), &mut errors);
        errors.finish(spec)
    }

    /// The same as a part of a larger document. `None` only after a fault was noted; what is given may be wrong too.
    pub(crate) fn read(at: &At, errors: &mut FieldErrors) -> Option<PolicySpec> {
        const PRESET: &str = "preset";
        const KNOWN: [&str; 11] = [
            PRESET,
            "schedule",
            "jitter",
            "timeout",
            "retry_after",
            "responses",
            "auto_disable",
            "circuit_breaker",
            "alert",
            "while_disabled",
            "retention",
        ];
        if at.value.is_string() {
            return preset(at, errors).map(PolicySpec::from);
        }
        if !at.value.is_object() {
            return at.wrong("a preset's name or an object", errors);
        }
        let members = at.object(&KNOWN, errors)?;
        let preset = match members.get(PRESET) {
            Some(name) => preset(&name, errors),
            None => Some(PolicySpec::default().preset),
        };
        let overrides = Overrides {
            schedule: members.get("schedule").and_then(|at| schedule(&at, errors)),
            jitter: members.get("jitter").and_then(|at| at.number(JITTER, errors)),
            timeout: members.get("timeout").and_then(|at| at.duration(TIMEOUT, errors)),
            retry_after: members.get("retry_after").and_then(|at| at.boolean(errors)),
            responses: members.get("responses").and_then(|at| responses(&at, errors)),
            auto_disable: (members.get("auto_disable")).and_then(|at| or_none(&at, errors, auto_disable)),
            circuit_breaker: (members.get("circuit_breaker")).and_then(|at| or_none(&at, errors, circuit_breaker)),
            alert: members.get("alert").and_then(|at| or_none(&at, errors, alert)),
            while_disabled: (members.get("while_disabled"))
                .and_then(|at| at.word(WhileDisabled::ALL, WhileDisabled::as_str, errors)),
            dead_letters: members.get("retention").and_then(|at| retention(&at, errors)),
        };
        Some(PolicySpec { preset: preset?, overrides })
    }

    /// The policy that this means: the preset with the overrides in their places.
    pub fn resolve(&self) -> Policy {
        let preset = Policy::preset(self.preset);
        let own = self.overrides.clone();
        Policy {
            preset: self.preset,
            schedule: own.schedule.unwrap_or(preset.schedule),
            jitter: own.jitter.unwrap_or(preset.jitter),
            timeout: own.timeout.unwrap_or(preset.timeout),
            retry_after: own.retry_after.unwrap_or(preset.retry_after),
            responses: own.responses.unwrap_or(preset.responses),
            auto_disable: own.auto_disable.unwrap_or(preset.auto_disable),
            circuit_breaker: own.circuit_breaker.unwrap_or(preset.circuit_breaker),
            alert: own.alert.unwrap_or(preset.alert),
            while_disabled: own.while_disabled.unwrap_or(preset.while_disabled),
            dead_letters: own.dead_letters.unwrap_or(preset.dead_letters),
        }
    }
}

fn preset(at: &At, errors: &mut FieldErrors) -> Option<Preset> {
    at.word(Preset::ALL, Preset::as_str, errors)
}

/// `null` for none, or a value.
fn or_none<T>(at: &At, errors: &mut FieldErrors, read: fn(&At, &mut FieldErrors) -> Option<T>) -> Option<Option<T>> {
    match at.value {
        Value::Null => Some(None),
        _ => read(at, errors).map(Some),
    }
}

fn schedule(at: &At, errors: &mut FieldErrors) -> Option<Schedule> {
    let kinds = at.object(&["ladder", "exponential", "taper"], errors)?;
    let ladder = kinds.get("ladder").map(|at| ladder(&at, errors));
    let exponential = kinds.get("exponential").map(|at| exponential(&at, errors));
    let taper = kinds.get("taper").map(|at| taper(&at, errors));
    let mut given = [ladder, exponential, taper].into_iter().flatten();
    match (given.next(), given.next()) {
        (Some(only), None) => only,
        _ => {
            errors.push(&at.path, "Exactly one of ladder, exponential and taper is needed.");
            None
        }
    }
}

/// C47: `[]` is a single attempt.
fn ladder(at: &At, errors: &mut FieldErrors) -> Option<Schedule> {
    let rungs = at.list(MAX_RETRIES as usize, errors)?;
    let delays = rungs.iter().filter_map(|rung| rung.duration(DELAY, errors));
    Some(Schedule::Ladder(delays.collect()))
}

fn exponential(at: &At, errors: &mut FieldErrors) -> Option<Schedule> {
    let members = at.object(&["initial", "factor", "retries", "max_delay"], errors)?;
    let initial = members.required("initial", errors);
    let initial = initial.and_then(|at| at.duration(DELAY, errors));
    let factor = members.required("factor", errors);
    let factor = factor.and_then(|at| at.number(FACTOR, errors));
    let retries = members.required("retries", errors);
    let retries = retries.and_then(|at| at.whole_number(0..=MAX_RETRIES, errors));
    // No delay is longer than a day anyway (S9), so this may be left out.
    let max_delay = match members.get("max_delay") {
        Some(at) => at.duration(DELAY, errors),
        None => Some(MAX_DELAY),
    };
    Some(Schedule::Exponential { initial: initial?, factor: factor?, retries: retries?, max_delay: max_delay? })
}

fn taper(at: &At, errors: &mut FieldErrors) -> Option<Schedule> {
    let members = at.object(&["attempts", "over"], errors)?;
    let attempts = members.required("attempts", errors);
    let attempts = attempts.and_then(|at| at.whole_number(1..=MAX_ATTEMPTS, errors));
    let over = members.required("over", errors);
    let over = over.and_then(|at| at.duration(OVER, errors));
    let (attempts, over) = (attempts?, over?);
    let taper = Schedule::Taper { attempts, over };
    let longest = (1..).map_while(|failed| taper.delay(failed)).max();
    if longest.is_some_and(|longest| longest > MAX_DELAY) {
        let message = "The last delays of this taper would be longer than 24h; no delay may be.";
        errors.push(members.path_of("over"), message);
    }
    Some(taper)
}

fn responses(at: &At, errors: &mut FieldErrors) -> Option<Vec<ResponseRule>> {
    let rules = at.list(MAX_RESPONSE_RULES, errors)?;
    Some(rules.iter().filter_map(|rule| response_rule(rule, errors)).collect())
}

fn response_rule(at: &At, errors: &mut FieldErrors) -> Option<ResponseRule> {
    let members = at.object(&["status", "action"], errors)?;
    let status = members.required("status", errors);
    let status = status.and_then(|at| status_set(&at, errors));
    let action = members.required("action", errors);
    let action = action.and_then(|at| at.word(Action::ALL, Action::as_str, errors));
    Some(ResponseRule { status: status?, action: action? })
}

fn status_set(at: &At, errors: &mut FieldErrors) -> Option<StatusSet> {
    const FORM: &str = "codes and ranges within 300-599, such as \"500-599,429\"";
    if at.value.is_number() {
        return at.wrong(&format!("text with {FORM}"), errors);
    }
    let text = at.text(errors)?;
    if text.len() > MAX_STATUS_BYTES {
        let message = format!("This is longer than {MAX_STATUS_BYTES} bytes.");
        errors.push(&at.path, message);
        return None;
    }
    match StatusSet::parse(text) {
        Ok(set) => Some(set),
        Err(fault) => {
            errors.push(&at.path, format!("{fault}; what is needed is {FORM}."));
            None
        }
    }
}

fn auto_disable(at: &At, errors: &mut FieldErrors) -> Option<AutoDisable> {
    let members = at.object(&["failures", "failing_for"], errors)?;
    let failures = members.get("failures");
    let failing_for = members.get("failing_for");
    if failures.is_none() && failing_for.is_none() {
        let message = "At least one of failures and failing_for is needed; null turns auto-disable off.";
        errors.push(&at.path, message);
        return None;
    }
    Some(AutoDisable {
        failures: failures.and_then(|at| at.whole_number(STREAK, errors)),
        failing_for: failing_for.and_then(|at| at.duration(FAILING_FOR, errors)),
    })
}

fn circuit_breaker(at: &At, errors: &mut FieldErrors) -> Option<CircuitBreaker> {
    let members = at.object(&["exhausted", "cooldown"], errors)?;
    let exhausted = members.required("exhausted", errors);
    let exhausted = exhausted.and_then(|at| at.whole_number(STREAK, errors));
    let cooldown = members.required("cooldown", errors);
    let cooldown = cooldown.and_then(|at| at.duration(COOLDOWN, errors));
    Some(CircuitBreaker { exhausted: exhausted?, cooldown: cooldown? })
}

fn alert(at: &At, errors: &mut FieldErrors) -> Option<u32> {
    let members = at.object(&["exhausted"], errors)?;
    let exhausted = members.required("exhausted", errors)?;
    exhausted.whole_number(STREAK, errors)
}

fn retention(at: &At, errors: &mut FieldErrors) -> Option<Span> {
    let members = at.object(&["dead_letters"], errors)?;
    let dead_letters = members.required("dead_letters", errors)?;
    dead_letters.duration(DEAD_LETTERS, errors)
}

#[cfg(test)]
mod tests;
