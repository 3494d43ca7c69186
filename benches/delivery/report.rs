//! Figures, of several runs each, as a table and as JSON.

use std::io;
use std::path::Path;

use comfy_table::{Cell, CellAlignment, Table, presets::UTF8_FULL_CONDENSED};
use serde::Serialize;

/// What one run came to.
pub struct Reading {
    pub name: String,
    pub unit: &'static str,
    pub value: f64,
    /// What is to be reached, if anything.
    pub target: Option<Target>,
}

#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    AtLeast(f64),
    AtMost(f64),
}

pub fn reading(name: impl Into<String>, unit: &'static str, value: f64) -> Reading {
    Reading { name: name.into(), unit, value, target: None }
}

impl Reading {
    pub fn at_least(self, value: f64) -> Reading {
        Reading { target: Some(Target::AtLeast(value)), ..self }
    }

    pub fn at_most(self, value: f64) -> Reading {
        Reading { target: Some(Target::AtMost(value)), ..self }
    }
}

/// A figure of all runs.
#[derive(Serialize)]
pub struct Figure {
    name: String,
    unit: &'static str,
    /// In the order of the runs.
    values: Vec<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<Target>,
}

impl Figure {
    pub fn new(reading: Reading) -> Figure {
        Figure { name: reading.name, unit: reading.unit, values: vec![reading.value], target: reading.target }
    }

    pub fn add(&mut self, reading: Reading) {
        debug_assert_eq!(self.name, reading.name);
        self.values.push(reading.value);
    }

    fn sorted(&self) -> Vec<f64> {
        let mut sorted = self.values.clone();
        sorted.sort_by(f64::total_cmp);
        sorted
    }

    fn median(&self) -> f64 {
        let sorted = self.sorted();
        let (low, high) = (sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
        (low + high) / 2.0
    }
}

#[derive(Serialize)]
pub struct Outcome {
    pub scenario: &'static str,
    pub about: &'static str,
    pub figures: Vec<Figure>,
}

/// With as many digits as mean something.
fn shown(value: f64) -> String {
    match value.abs() {
        0.0 => "0".into(),
        ..10.0 => format!("{value:.2}"),
        ..100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

pub fn print(machine: &str, outcomes: &[Outcome]) {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED).set_header(["scenario", "figure", "median", "range", "target", ""]);
    let right = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
    for outcome in outcomes {
        for (index, figure) in outcome.figures.iter().enumerate() {
            let (median, sorted) = (figure.median(), figure.sorted());
            let (target, reached) = match figure.target {
                Some(Target::AtLeast(least)) => {
                    (format!("≥ {}", shown(least)), if median >= least { "✓" } else { "✗" })
                }
                Some(Target::AtMost(most)) => (format!("≤ {}", shown(most)), if median <= most { "✓" } else { "✗" }),
                None => (String::new(), ""),
            };
            table.add_row([
                Cell::new(if index == 0 { outcome.scenario } else { "" }),
                Cell::new(format!("{}, {}", figure.name, figure.unit)),
                right(shown(median)),
                right(format!("{} – {}", shown(sorted[0]), shown(sorted[sorted.len() - 1]))),
                right(target),
                Cell::new(reached),
            ]);
        }
    }
    println!("{machine}\nMedian and range of {} runs.\n{table}", outcomes.first().map_or(0, runs));
}

fn runs(outcome: &Outcome) -> usize {
    outcome.figures.first().map_or(0, |figure| figure.values.len())
}

pub fn write_json(path: &Path, machine: &str, outcomes: &[Outcome]) -> io::Result<()> {
    let all = serde_json::json!({"machine": machine, "scenarios": outcomes});
    std::fs::write(path, serde_json::to_vec_pretty(&all)?)
}
