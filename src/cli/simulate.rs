//! `posthaste simulate`: the timeline of a policy against a script, as the published tables print it.

use clap::Args;
use serde_json::{Value, json};

use super::{Failure, given, print_line, script, table, usage};
use crate::domain::attempt::Outcome;
use crate::domain::delivery::State;
use crate::domain::duration_text::format_duration;
use crate::domain::field_error::FieldError;
use crate::domain::simulate::{Ending, Step};
use crate::domain::simulate_request::{Ranges, SimulateRequest};
use crate::domain::time::Span;

#[derive(Args)]
pub struct Simulate {
    /// A preset's name, a policy as JSON, or @FILE with one
    #[arg(long, default_value = "orbit")]
    policy: String,
    /// What the receiver does, attempt by attempt; the last entry repeats. E.g. 503*2,200 or timeout or "429;retry-after=60"
    #[arg(long, default_value = "503")]
    script: Vec<String>,
    /// How many events are posted
    #[arg(long, default_value_t = 1)]
    events: u32,
    /// How often one is posted
    #[arg(long, default_value = "1m")]
    every: String,
    /// Show each wait as the range that jitter makes of it
    #[arg(long)]
    jitter: bool,
    /// Print the answer of POST /policies/simulate instead of a table
    #[arg(long)]
    json: bool,
}

impl Simulate {
    pub fn run(self) -> Result<(), Failure> {
        let request = SimulateRequest::from_json(&self.request()?).map_err(|errors| {
            let faults: Vec<_> = errors.iter().map(as_typed).collect();
            usage(faults.join("\n           "))
        })?;
        if self.json {
            return print_line(&serde_json::to_string(&request.answer())?);
        }
        let (nominal, longest) = request.run();
        let ranges = Ranges::new(longest.as_ref());
        let mut rows = table(&["event", "attempt", "wait before attempt", "elapsed", "answer", "outcome"]);
        for step in &nominal.steps {
            rows.add_row([
                step.event.to_string(),
                step.attempt.to_string(),
                wait_before(step, &ranges),
                format_duration(step.elapsed),
                step.cue.to_string(),
                outcome(step, &ranges),
            ]);
        }
        print_line(&rows.trim_fmt())?;
        print_line(&format!("\n{}", self.ending(&nominal.ending, longest.map(|longest| longest.ending.elapsed))))
    }

    fn request(&self) -> Result<Value, Failure> {
        let policy: Value = serde_json::from_str(given::policy(&self.policy)?.get())?;
        let script = script::cues(&self.script).map_err(|why| usage(format!("--script: {why}")))?;
        let script: Vec<String> = script.iter().map(ToString::to_string).collect();
        let events = json!({"count": self.events, "every": self.every});
        Ok(json!({"policy": policy, "script": script, "jitter": self.jitter, "events": events}))
    }

    /// How it stands when nothing more happens; `latest`: when that is if every wait is as long as jitter makes it.
    fn ending(&self, ending: &Ending, latest: Option<Span>) -> String {
        let after = range(ending.elapsed, latest.map(|latest| (ending.elapsed, latest)));
        let who = if self.events == 1 { "The delivery" } else { "The last event's delivery" };
        let fate = match (ending.state, ending.dead_reason) {
            (Some(State::Dead), Some(reason)) => format!("{who} is dead ({reason})"),
            (Some(state), _) => format!("{who} is {state}"),
            (None, _) => "The last event came to a disabled endpoint and was skipped".into(),
        };
        let disabled = ending.disabled_at.map(|at| format!(" since {}", format_duration(at))).unwrap_or_default();
        format!(
            "{fate} after {after}. Endpoint {}{disabled}, circuit {}, {} and {} in a row.",
            ending.status,
            ending.circuit,
            counted(ending.failures, "failed attempt", "failed attempts"),
            counted(ending.exhausted, "exhausted delivery", "exhausted deliveries"),
        )
    }
}

/// A fault of the API's request by the flag that it was made from.
fn as_typed(fault: &FieldError) -> String {
    let FieldError { field, message } = fault;
    match field.as_str() {
        "events.count" => format!("--events: {message}"),
        "events.every" => format!("--every: {message}"),
        "policy" => format!("--policy: {message}"),
        field => match field.strip_prefix("policy.") {
            Some(member) => format!("--policy: {member}: {message}"),
            // Only entries of the script are left.
            None => format!("--script: {message}"),
        },
    }
}

fn counted(count: u32, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

fn wait_before(step: &Step, ranges: &Ranges) -> String {
    match (step.attempt, step.wait) {
        (1, Span::ZERO) => "— (initial)".into(),
        // By a full house or an open circuit.
        (1, wait) => format!("{} (held)", format_duration(wait)),
        (_, wait) => range(wait, ranges.of(step, |step| Some(step.wait))),
    }
}

/// What comes next for the delivery and, if this attempt was its endpoint's last, for that.
fn outcome(step: &Step, ranges: &Ranges) -> String {
    let what = match (step.outcome, step.next_wait) {
        (Outcome::Delivered, _) => "delivered".into(),
        (_, Some(wait)) => format!("retry in {}", range(wait, ranges.of(step, |step| step.next_wait))),
        (_, None) => "dead-letter queue".to_owned(),
    };
    if step.disables { format!("{what}, endpoint disabled") } else { what }
}

fn range(nominal: Span, range: Option<(Span, Span)>) -> String {
    match range {
        Some((min, max)) if min != max => format!("{} to {}", format_duration(min), format_duration(max)),
        _ => format_duration(nominal),
    }
}
