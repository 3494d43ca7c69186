//! Answers on standard output: the API's own text for programs, indented JSON or a table for people.

use std::io::IsTerminal;

use serde_json::value::RawValue;

use super::super::answer::{Answer, Row};
use super::super::connection::Connection;
use super::super::{Failure, pretty, print_line, table};
use crate::domain::excerpt::{escape_for_terminal, escape_json_for_terminal};

/// Prints an answer whole.
pub fn whole(connection: &Connection, answer: &Answer) -> Result<(), Failure> {
    match connection.json {
        true => text(answer),
        false => print_line(&pretty::indented(&answer.text)),
    }
}

/// Prints the answer's own text; on a terminal the same JSON without characters that do something to it. A 204 has none, and
/// a program that reads JSON expects no empty line for it.
pub fn text(answer: &Answer) -> Result<(), Failure> {
    match answer.text.as_str() {
        "" => Ok(()),
        text if std::io::stdout().is_terminal() => print_line(&escape_json_for_terminal(text)),
        text => print_line(text),
    }
}

/// Prints an object as a table of one row.
pub fn one(connection: &Connection, answer: &Answer, columns: &[&str]) -> Result<(), Failure> {
    match connection.json {
        true => text(answer),
        false => rows(&[answer.row()?], columns),
    }
}

/// Prints these members of the rows as a table.
pub fn rows(rows: &[Row], columns: &[&str]) -> Result<(), Failure> {
    let mut out = table(columns);
    for row in rows {
        out.add_row(columns.iter().map(|column| cell(row.get(*column).map(|value| &**value))));
    }
    print_line(&out.trim_fmt())
}

fn cell(value: Option<&RawValue>) -> String {
    let written = value.map_or("null", RawValue::get);
    match (written, serde_json::from_str::<String>(written)) {
        ("null", _) => "-".into(),
        (_, Ok(text)) => escape_for_terminal(text.as_bytes()),
        (written, Err(_)) => escape_for_terminal(written.as_bytes()),
    }
}
