//! How policies are written as JSON: resolved, as every answer shows them, and as preset + overrides, as they are
//! stored. Both with their members in the order of `api.md`.

use serde::{Serialize, Serializer};
use serde_json::Value;

use super::duration_text::format_duration;
use super::policy::{Action, AutoDisable, CircuitBreaker, Policy, Preset, ResponseRule, WhileDisabled};
use super::policy_spec::{Overrides, PolicySpec};
use super::schedule::Schedule;
use super::time::Span;

/// The resolved policy, every member there, to be part of an answer. Serialize it directly to keep the members in
/// order: a [`Value`] sorts them by name.
pub fn policy_json(policy: &Policy) -> PolicyJson {
    let Policy {
        preset,
        schedule,
        jitter,
        timeout,
        retry_after,
        responses,
        auto_disable,
        circuit_breaker,
        alert,
        while_disabled,
        dead_letters,
    } = policy.clone();
    let overrides = Overrides {
        schedule: Some(schedule),
        jitter: Some(jitter),
        timeout: Some(timeout),
        retry_after: Some(retry_after),
        responses: Some(responses),
        auto_disable: Some(auto_disable),
        circuit_breaker: Some(circuit_breaker),
        alert: Some(alert),
        while_disabled: Some(while_disabled),
        dead_letters: Some(dead_letters),
    };
    PolicyJson::from(&PolicySpec { preset, overrides })
}

impl PolicySpec {
    /// Preset and overrides, as they are stored; [`PolicySpec::from_json`] reads it back to the same.
    pub fn to_json(&self) -> Value {
        serde_json::to_value(PolicyJson::from(self)).expect("texts, numbers and lists are JSON")
    }
}

/// A policy in JSON: of a [`PolicySpec`] what is overridden, of a [`Policy`] everything.
#[derive(Clone, Debug, Serialize)]
pub struct PolicyJson {
    preset: Preset,
    #[serde(skip_serializing_if = "Option::is_none")]
    schedule: Option<ScheduleJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    jitter: Option<NumberJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout: Option<DurationJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    responses: Option<Vec<RuleJson>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    auto_disable: Option<Option<AutoDisableJson>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    circuit_breaker: Option<Option<CircuitBreakerJson>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    alert: Option<Option<AlertJson>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    while_disabled: Option<WhileDisabled>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retention: Option<RetentionJson>,
}

impl From<&PolicySpec> for PolicyJson {
    fn from(spec: &PolicySpec) -> PolicyJson {
        let own = &spec.overrides;
        PolicyJson {
            preset: spec.preset,
            schedule: own.schedule.as_ref().map(ScheduleJson::from),
            jitter: own.jitter.map(NumberJson),
            timeout: own.timeout.map(DurationJson),
            retry_after: own.retry_after,
            responses: (own.responses.as_ref()).map(|rules| rules.iter().map(RuleJson::from).collect()),
            auto_disable: own.auto_disable.map(|inner| inner.map(AutoDisableJson::from)),
            circuit_breaker: own.circuit_breaker.map(|inner| inner.map(CircuitBreakerJson::from)),
            alert: own.alert.map(|inner| inner.map(|exhausted| AlertJson { exhausted })),
            while_disabled: own.while_disabled,
            retention: own.dead_letters.map(|span| RetentionJson { dead_letters: DurationJson(span) }),
        }
    }
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum ScheduleJson {
    Ladder(Vec<DurationJson>),
    Exponential { initial: DurationJson, factor: NumberJson, retries: u32, max_delay: DurationJson },
    Taper { attempts: u32, over: DurationJson },
}

impl From<&Schedule> for ScheduleJson {
    fn from(schedule: &Schedule) -> ScheduleJson {
        match schedule {
            Schedule::Ladder(delays) => ScheduleJson::Ladder(delays.iter().copied().map(DurationJson).collect()),
            Schedule::Exponential { initial, factor, retries, max_delay } => ScheduleJson::Exponential {
                initial: DurationJson(*initial),
                factor: NumberJson(*factor),
                retries: *retries,
                max_delay: DurationJson(*max_delay),
            },
            Schedule::Taper { attempts, over } => {
                ScheduleJson::Taper { attempts: *attempts, over: DurationJson(*over) }
            }
        }
    }
}

#[derive(Clone, Debug, Serialize)]
struct RuleJson {
    status: String,
    action: Action,
}

impl From<&ResponseRule> for RuleJson {
    fn from(rule: &ResponseRule) -> RuleJson {
        RuleJson { status: rule.status.to_string(), action: rule.action }
    }
}

/// Only what is set: as it was written, and as it is to be read back.
#[derive(Clone, Debug, Serialize)]
struct AutoDisableJson {
    #[serde(skip_serializing_if = "Option::is_none")]
    failures: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failing_for: Option<DurationJson>,
}

impl From<AutoDisable> for AutoDisableJson {
    fn from(rule: AutoDisable) -> AutoDisableJson {
        AutoDisableJson { failures: rule.failures, failing_for: rule.failing_for.map(DurationJson) }
    }
}

#[derive(Clone, Debug, Serialize)]
struct CircuitBreakerJson {
    exhausted: u32,
    cooldown: DurationJson,
}

impl From<CircuitBreaker> for CircuitBreakerJson {
    fn from(breaker: CircuitBreaker) -> CircuitBreakerJson {
        CircuitBreakerJson { exhausted: breaker.exhausted, cooldown: DurationJson(breaker.cooldown) }
    }
}

#[derive(Clone, Debug, Serialize)]
struct AlertJson {
    exhausted: u32,
}

#[derive(Clone, Debug, Serialize)]
struct RetentionJson {
    dead_letters: DurationJson,
}

/// A duration as the text that [`super::duration_text::parse_duration`] reads; parts of a millisecond are cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DurationJson(pub Span);

impl Serialize for DurationJson {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&format_duration(self.0))
    }
}

/// A number without `.0` if it is whole: a factor of two is written `2`.
#[derive(Clone, Copy, Debug)]
struct NumberJson(f64);

impl Serialize for NumberJson {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self.0.fract() == 0.0 && (0.0..1e15).contains(&self.0) {
            true => to.serialize_u64(self.0 as u64),
            false => to.serialize_f64(self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::schedule::StatusSet;
    use super::*;

    #[test]
    fn a_resolved_policy_reads_as_in_the_contract() {
        let text = serde_json::to_string(&policy_json(&Policy::preset(Preset::Orbit))).unwrap();
        let contract = concat!(
            r#"{"preset":"orbit","schedule":{"exponential":{"initial":"30s","factor":2,"retries":9,"max_delay":"24h"}},"#,
            r#""jitter":0.2,"timeout":"30s","retry_after":false,"#,
            r#""responses":[{"status":"401,403,404,410","action":"disable"}],"auto_disable":{"failures":50},"#,
            r#""circuit_breaker":null,"alert":null,"while_disabled":"dead_letter","retention":{"dead_letters":"7d"}}"#,
        );
        assert_eq!(text, contract);
        let text = serde_json::to_string(&policy_json(&Policy::preset(Preset::Shellorbit))).unwrap();
        let parts = [
            r#""schedule":{"ladder":["8s","32s","2m","12m"]}"#,
            r#""auto_disable":null,"circuit_breaker":{"exhausted":10,"cooldown":"10m"},"alert":{"exhausted":5}"#,
        ];
        parts.iter().for_each(|part| assert!(text.contains(part), "{text}"));
        let text = serde_json::to_string(&policy_json(&Policy::preset(Preset::Salaf))).unwrap();
        let parts = [r#""jitter":0,"#, r#""responses":[]"#, r#""auto_disable":{"failing_for":"3d"}"#];
        parts.iter().for_each(|part| assert!(text.contains(part), "{text}"));
    }

    /// A resolved policy means itself: a client may send back what it was shown.
    #[test]
    fn what_is_answered_can_be_submitted() {
        for preset in Preset::ALL {
            let policy = Policy::preset(*preset);
            let shown = serde_json::to_value(policy_json(&policy)).unwrap();
            assert_eq!(PolicySpec::from_json(&shown, "").unwrap().resolve(), policy);
        }
    }

    #[test]
    fn only_overrides_are_stored() {
        assert_eq!(PolicySpec::from(Preset::Salaf).to_json().to_string(), r#"{"preset":"salaf"}"#);
        let mut spec = PolicySpec::default();
        spec.overrides.alert = Some(None);
        spec.overrides.responses =
            Some(vec![ResponseRule { status: StatusSet::parse("500 - 599, 429").unwrap(), action: Action::Retry }]);
        let stored = r#"{"alert":null,"preset":"orbit","responses":[{"action":"retry","status":"500-599,429"}]}"#;
        assert_eq!(spec.to_json(), serde_json::from_str::<Value>(stored).unwrap());
    }
}
