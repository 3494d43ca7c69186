//! What Posthaste does in a second, how long an event takes, what that costs, and how both change with size: the release binary
//! as a process of its own, on a temporary store, with a receiver and a load beside it on the same machine.
//!
//! ```sh
//! cargo bench --bench delivery                        # everything, three runs each
//! cargo bench --bench delivery -- one light --runs 5  # these scenarios
//! cargo bench --bench delivery -- --list
//! ```
#![allow(clippy::disallowed_methods)] // it measures with the wall clock, and has no actors to block

mod book;
mod floor;
mod load;
mod machine;
mod plots;
mod receiver;
mod report;
mod scenarios;
mod subject;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};

use report::{Figure, Outcome};
use scenarios::{SCENARIOS, Scenario};

/// Measures the delivery of events by the release binary.
#[derive(Parser)]
struct Arguments {
    /// Which scenarios; all of them if none is named.
    scenarios: Vec<String>,
    /// How often each is run; what is shown is the median, and the least and the most.
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// How long each run measures, in seconds.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Writes everything to this file as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Draws how cost grows with size, as SVG in this folder.
    #[arg(long)]
    plots: Option<PathBuf>,
    /// Another binary than the one of this build.
    #[arg(long)]
    binary: Option<PathBuf>,
    /// A folder for the stores, on the disk that is to be measured.
    #[arg(long)]
    store: Option<PathBuf>,
    /// Names the scenarios.
    #[arg(long)]
    list: bool,
    /// Given by cargo.
    #[arg(long, hide = true)]
    bench: bool,
}

/// What every scenario is run with.
pub struct Setting {
    pub binary: PathBuf,
    pub store: PathBuf,
    pub window: Duration,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if arguments.list {
        SCENARIOS.iter().for_each(|one| println!("{:<12} {}", one.name, one.about));
        return ExitCode::SUCCESS;
    }
    let unknown = arguments.scenarios.iter().find(|wanted| !SCENARIOS.iter().any(|one| one.name == **wanted));
    if let Some(unknown) = unknown {
        eprintln!("there is no scenario {unknown}; see --list");
        return ExitCode::FAILURE;
    }
    let setting = Setting {
        binary: arguments.binary.unwrap_or_else(|| env!("CARGO_BIN_EXE_posthaste").into()),
        store: arguments.store.unwrap_or_else(std::env::temp_dir),
        window: Duration::from_secs(arguments.seconds.max(1)),
    };
    // Thousands of connections are held here too.
    let _ = rlimit::increase_nofile_limit(u64::MAX);
    let wanted =
        |one: &&Scenario| arguments.scenarios.is_empty() || arguments.scenarios.iter().any(|name| *name == one.name);
    let chosen: Vec<&Scenario> = SCENARIOS.iter().filter(wanted).collect();
    let bar = ProgressBar::new((chosen.len() * arguments.runs) as u64);
    bar.set_style(ProgressStyle::with_template("{bar:30} {pos}/{len} {msg}").expect("a template"));
    let mut outcomes = Vec::new();
    for scenario in chosen {
        let mut figures: Vec<Figure> = Vec::new();
        for run in 1..=arguments.runs {
            bar.set_message(format!("{}, run {run}", scenario.name));
            bar.tick();
            for (index, reading) in (scenario.run)(&setting).into_iter().enumerate() {
                match figures.get_mut(index) {
                    Some(figure) => figure.add(reading),
                    None => figures.push(Figure::new(reading)),
                }
            }
            bar.inc(1);
        }
        outcomes.push(Outcome { scenario: scenario.name, about: scenario.about, figures });
    }
    bar.finish_and_clear();
    let machine = machine::describe(&setting.store);
    report::print(&machine, &outcomes);
    let written = arguments.json.map_or(Ok(()), |path| report::write_json(&path, &machine, &outcomes));
    let written =
        written.and_then(|()| arguments.plots.map_or(Ok(()), |folder| plots::draw(&folder, &machine, &setting)));
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
