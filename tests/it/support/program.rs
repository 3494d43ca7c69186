//! The binary as a program: its arguments, what it prints, how it exits.

use std::io::Write;
use std::process::{Command, Output, Stdio};

/// `posthaste` with these arguments and nothing from the environment that it would take for one.
pub fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_posthaste"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    for name in ["POSTHASTE_SECRET", "POSTHASTE_URL", "POSTHASTE_API_KEY"] {
        command.env_remove(name);
    }
    command
}

/// Runs it to its end: exit code, standard output, standard error.
pub fn run(arguments: &[&str], stdin: &str) -> (i32, String, String) {
    finish(program(arguments), stdin)
}

/// The same with a command that was changed.
pub fn finish(mut command: Command, stdin: &str) -> (i32, String, String) {
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    // A program that refuses its arguments reads nothing.
    let _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
    let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let (out, err) = (text(stdout), text(stderr));
    assert!(!out.contains('\u{1b}') && !err.contains('\u{1b}'), "colours in a pipe: {out}{err}");
    (status.code().unwrap(), out, err)
}
