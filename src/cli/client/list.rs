//! The API's lists, page by page: `endpoints`, `deliveries`, `dlq`.

use clap::Args;

use super::super::connection::Connection;
use super::super::given::shell_word;
use super::super::{Failure, print_line, usage};
use super::{DELIVERY_COLUMNS, print};
use crate::domain::excerpt::escape_for_terminal;

#[derive(Args)]
pub struct Page {
    /// At most so many, 1 to 250 [default: 50]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=250))]
    limit: Option<u16>,
    /// Go on where another page ended, which says with what
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    cursor: Option<String>,
}

#[derive(Args)]
pub struct EndpointFilter {
    /// Only those with this status: enabled, disabled or auto_disabled
    #[arg(long)]
    status: Option<String>,
    /// Only those that this event type goes to
    #[arg(long)]
    event_type: Option<String>,
    /// Only those that changed after this time, oldest change first
    #[arg(long, value_name = "TIME")]
    updated_after: Option<String>,
    #[command(flatten)]
    page: Page,
}

#[derive(Args)]
pub struct DeliveryFilter {
    /// Only those in this state: pending, failed, delivered or dead
    #[arg(long)]
    state: Option<String>,
    /// Only those of this endpoint
    #[arg(long, value_name = "ID")]
    endpoint: Option<String>,
    /// Only those of this event
    #[arg(long, value_name = "ID")]
    event: Option<String>,
    /// Only those of events of this type
    #[arg(long)]
    event_type: Option<String>,
    /// Only those whose last attempt was answered with this status
    #[arg(long)]
    status: Option<String>,
    /// Only those whose last attempt got no answer for this reason, e.g. timeout
    #[arg(long)]
    error_kind: Option<String>,
    /// Only those created after this time, e.g. 2026-09-03T12:04:01Z
    #[arg(long, value_name = "TIME")]
    created_after: Option<String>,
    /// Only those created before this time
    #[arg(long, value_name = "TIME")]
    created_before: Option<String>,
    /// Only those that changed after this time, oldest change first
    #[arg(long, value_name = "TIME")]
    updated_after: Option<String>,
    #[command(flatten)]
    page: Page,
}

#[derive(Args)]
pub struct DlqFilter {
    /// Only those of this endpoint
    #[arg(long, value_name = "ID")]
    endpoint: Option<String>,
    /// Only those of events of this type
    #[arg(long)]
    event_type: Option<String>,
    /// Only those that died of this: exhausted, permanent_response, endpoint_disabled or expired
    #[arg(long)]
    dead_reason: Option<String>,
    /// Only those that changed after this time, oldest change first
    #[arg(long, value_name = "TIME")]
    updated_after: Option<String>,
    #[command(flatten)]
    page: Page,
}

/// A flag as it is typed, the API's parameter that it stands for, and what was given.
type Parameter = (&'static str, &'static str, Option<String>);

/// A page that was asked for.
pub struct List {
    /// The sub-command, which is the API's path too.
    name: &'static str,
    columns: &'static [&'static str],
    /// What is said if nothing is there at all.
    nothing: &'static str,
    filter: Vec<Parameter>,
    page: Page,
}

impl From<EndpointFilter> for List {
    fn from(given: EndpointFilter) -> List {
        List {
            name: "endpoints",
            columns: &["id", "url", "status", "disabled_reason"],
            nothing: "There are no endpoints.",
            filter: vec![
                ("--status", "status", given.status),
                ("--event-type", "event_type", given.event_type),
                ("--updated-after", "updated_after", given.updated_after),
            ],
            page: given.page,
        }
    }
}

impl From<DeliveryFilter> for List {
    fn from(given: DeliveryFilter) -> List {
        List {
            name: "deliveries",
            columns: &DELIVERY_COLUMNS,
            nothing: "There are no deliveries.",
            filter: vec![
                ("--state", "state", given.state),
                ("--endpoint", "endpoint_id", given.endpoint),
                ("--event", "event_id", given.event),
                ("--event-type", "event_type", given.event_type),
                ("--status", "status", given.status),
                ("--error-kind", "error_kind", given.error_kind),
                ("--created-after", "created_after", given.created_after),
                ("--created-before", "created_before", given.created_before),
                ("--updated-after", "updated_after", given.updated_after),
            ],
            page: given.page,
        }
    }
}

impl From<DlqFilter> for List {
    fn from(given: DlqFilter) -> List {
        List {
            name: "dlq",
            columns: &["id", "event_type", "endpoint_id", "dead_reason", "dead_at", "replayable_until", "last_status"],
            nothing: "The dead-letter queue is empty.",
            filter: vec![
                ("--endpoint", "endpoint_id", given.endpoint),
                ("--event-type", "event_type", given.event_type),
                ("--dead-reason", "dead_reason", given.dead_reason),
                ("--updated-after", "updated_after", given.updated_after),
            ],
            page: given.page,
        }
    }
}

impl List {
    /// Asks for the page and prints it.
    pub async fn show(self, connection: &Connection) -> Result<(), Failure> {
        let answer = connection.request("GET", &format!("/{}{}", self.name, self.query()), None).await?;
        if connection.json {
            return print::text(&answer);
        }
        let rows = answer.rows("data")?;
        match rows.is_empty() {
            true => print_line(self.why_empty())?,
            false => print::rows(&rows, self.columns)?,
        }
        match answer.value["next_cursor"].as_str() {
            Some(cursor) => print_line(&format!("More: {}", self.next(connection, cursor))),
            None => Ok(()),
        }
    }

    /// Refuses to be given beside a sub-command, which would ignore it: somebody who writes
    /// `dlq --endpoint ID requeue-all` means that endpoint's.
    ///
    /// # Errors
    /// Something is given for the list.
    pub fn refuse(&self) -> Result<(), Failure> {
        match self.parameters().into_iter().find(|(_, _, value)| value.is_some()) {
            None => Ok(()),
            Some((flag, ..)) => Err(usage(format!(
                "{flag} before a sub-command would be ignored; the options of a sub-command stand behind its name"
            ))),
        }
    }

    fn parameters(&self) -> Vec<Parameter> {
        let mut all = self.filter.clone();
        all.push(("--limit", "limit", self.page.limit.map(|limit| limit.to_string())));
        all.push(("--cursor", "cursor", self.page.cursor.clone()));
        all
    }

    fn query(&self) -> String {
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        for (_, name, value) in self.parameters() {
            query.extend_pairs(value.map(|value| (name, value)));
        }
        let query = query.finish();
        if query.is_empty() { query } else { format!("?{query}") }
    }

    fn why_empty(&self) -> &'static str {
        match (&self.page.cursor, self.filter.iter().all(|(_, _, value)| value.is_none())) {
            (Some(_), _) => "There is nothing more.",
            (None, true) => self.nothing,
            (None, false) => "There is nothing like that.",
        }
    }

    /// What to type for the next page. The API key is not repeated: it is nothing to leave on a screen.
    fn next(mut self, connection: &Connection, cursor: &str) -> String {
        self.page.cursor = Some(cursor.to_owned());
        let mut command = format!("posthaste {}", self.name);
        let elsewhere = ("--url", "", connection.elsewhere());
        for (flag, _, value) in std::iter::once(elsewhere).chain(self.parameters()) {
            if let Some(value) = value {
                command.push_str(&format!(" {flag} {}", shell_word(&value)));
            }
        }
        escape_for_terminal(command.as_bytes())
    }
}
