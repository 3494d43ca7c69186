//! `posthaste simulate`: the timeline of a policy against a script, as the published tables print it.

use clap::Args;
use serde_json::{Value, json};

use super::{Failure, print_line, script, table};
use crate::domain::delivery::State;
use crate::domain::duration_text::format_duration;
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
            let first = errors.first().map(|error| format!("{}: {}", error.field, error.message));
            first.unwrap_or_else(|| "the simulation is not valid".into())
        })?;
        if self.json {
            return print_line(&serde_json::to_string_pretty(&request.answer())?);
        }
        let (nominal, longest) = request.run();
        let ranges = Ranges::new(longest.as_ref());
        let wait = |step, which: fn(&crate::domain::simulate::Step) -> Option<Span>, plain: Option<Span>| match (
            ranges.of(step, which),
            plain,
        ) {
            (Some((min, max)), _) if min != max => format!("{} to {}", format_duration(min), format_duration(max)),
            (_, Some(span)) => format_duration(span),
            (_, None) => "—".into(),
        };
        let mut rows = table(&["event", "attempt", "wait before attempt", "elapsed", "answer", "outcome"]);
        for step in &nominal.steps {
            let first = step.attempt == 1;
            rows.add_row([
                step.event.to_string(),
                step.attempt.to_string(),
                if first { "— (initial)".into() } else { wait(step, |step| Some(step.wait), Some(step.wait)) },
                format_duration(step.elapsed),
                step.cue.to_string(),
                step.outcome.to_string(),
            ]);
        }
        print_line(&rows.trim_fmt())?;
        print_line(&format!("\n{}", self.ending(&nominal.ending)))
    }

    fn request(&self) -> Result<Value, Failure> {
        let policy = match self.policy.strip_prefix('@') {
            Some(path) => std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?,
            None => self.policy.clone(),
        };
        let policy =
            if policy.trim_start().starts_with('{') { serde_json::from_str(&policy)? } else { json!(policy.trim()) };
        let script: Vec<String> = script::cues(&self.script)?.iter().map(ToString::to_string).collect();
        let events = json!({"count": self.events, "every": self.every});
        Ok(json!({"policy": policy, "script": script, "jitter": self.jitter, "events": events}))
    }

    fn ending(&self, ending: &crate::domain::simulate::Ending) -> String {
        let after = format_duration(ending.elapsed);
        let state = match (ending.state, ending.dead_reason) {
            (Some(State::Dead), Some(reason)) => format!("dead ({reason})"),
            (Some(state), _) => state.to_string(),
            (None, _) => "skipped: the endpoint was disabled when it came".into(),
        };
        let disabled = ending.disabled_at.map(|at| format!(" since {}", format_duration(at))).unwrap_or_default();
        let who = if self.events == 1 { "The delivery" } else { "The last event's delivery" };
        format!(
            "{who} is {state} after {after}. Endpoint {}{disabled}, circuit {}, {} failed attempts and {} exhausted \
             deliveries in a row.",
            ending.status, ending.circuit, ending.failures, ending.exhausted
        )
    }
}
