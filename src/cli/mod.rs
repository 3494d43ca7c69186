//! The command line: one sub-command per file. Exit code 0 when it worked, 1 when it did not, 2 for wrong arguments.

mod answer;
mod client;
mod connection;
mod demo;
mod given;
mod pretty;
mod receive;
mod script;
mod signed;
mod simulate;
mod verify;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Args, Parser, Subcommand};

use crate::app;
use crate::config::Given;

/// Webhook delivery engine: post an event once, every subscribed endpoint gets it
#[derive(Parser)]
#[command(name = "posthaste", version, max_term_width = 120)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the engine and its HTTP API
    Serve(Serve),
    /// Show what Posthaste does: nothing to prepare, under a minute
    Demo(demo::Demo),
    /// What a policy does with a receiver that answers by a script, on virtual time
    Simulate(simulate::Simulate),
    /// A test receiver that answers by a script and prints what comes
    Receive(receive::Receive),
    /// Check a signature: headers as arguments, the body on standard input
    Verify(verify::Verify),
    #[command(flatten)]
    Client(client::Client),
}

#[derive(Args)]
struct Serve {
    /// A TOML file with the same settings (the flags' names with `_`), the two keys excepted
    #[arg(long, env = "POSTHASTE_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    given: Given,
}

/// Why a sub-command failed: one sentence for the terminal.
type Failure = Box<dyn std::error::Error>;

/// Arguments that clap takes and that make no sense all the same: exit code 2, as clap's own.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Usage(String);

fn usage(sentence: impl Into<String>) -> Failure {
    Box::new(Usage(sentence.into()))
}

/// Reads the arguments and does what they say.
pub fn run() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return not_understood(&error),
    };
    let level = match arguments.command {
        // What callers send that is no HTTP is answered 400 and is no news of ours.
        Command::Serve(_) => "info,actix_server=warn,actix_http=off",
        // The demo tells its story itself.
        Command::Demo(_) => "error",
        _ => "warn",
    };
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or(level)).format_timestamp_millis().init();
    let done = match arguments.command {
        Command::Serve(serve) => self::serve(serve),
        Command::Demo(demo) => demo.run(),
        Command::Simulate(simulate) => simulate.run(),
        Command::Receive(receive) => receive.run(),
        Command::Verify(verify) => verify.run(),
        Command::Client(client) => client.run(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever read our output has gone; that is their business.
        Err(failure) if is_broken_pipe(&*failure) => ExitCode::SUCCESS,
        Err(failure) => {
            // With standard error closed there is nobody left to tell, which is no reason to panic.
            let _ = writeln!(std::io::stderr(), "posthaste: {failure}");
            if failure.is::<Usage>() { ExitCode::from(2) } else { ExitCode::FAILURE }
        }
    }
}

/// Says what is wrong with the arguments; or prints the help that was asked for.
fn not_understood(error: &clap::Error) -> ExitCode {
    // Clap calls a variable of the environment an argument too, and does not say which.
    if let (ErrorKind::InvalidUtf8, Some(name)) = (error.kind(), unreadable_variable()) {
        let _ = writeln!(std::io::stderr(), "posthaste: {name} in the environment is not UTF-8");
        return ExitCode::from(2);
    }
    error.exit()
}

/// The first of our variables that holds something else than UTF-8, if every argument is UTF-8.
fn unreadable_variable() -> Option<String> {
    if std::env::args_os().any(|argument| argument.to_str().is_none()) {
        return None;
    }
    let ours = std::env::vars_os().filter(|(_, value)| value.to_str().is_none());
    ours.filter_map(|(name, _)| name.into_string().ok()).find(|name| name.starts_with("POSTHASTE_"))
}

fn is_broken_pipe(failure: &(dyn std::error::Error + 'static)) -> bool {
    failure.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}

fn serve(serve: Serve) -> Result<(), Failure> {
    let file = serve.config.as_deref().map(Given::from_file).transpose()?.unwrap_or_default();
    let config = serve.given.or(file).validate()?;
    Ok(actix_web::rt::System::new().block_on(app::serve(config))?)
}

/// Prints a line to standard output; a reader that has gone is an error here, not a panic.
fn print_line(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    Ok(writeln!(out, "{text}").and_then(|()| out.flush())?)
}

/// A table in the plain style of this program's output.
fn table(header: &[&str]) -> comfy_table::Table {
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::NOTHING).set_header(header.iter().map(|name| name.to_uppercase()));
    table
}
