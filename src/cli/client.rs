//! The API from a shell: `send`, `endpoints`, `deliveries`, `dlq`, `policies`. Tables for people, `--json` for programs.

use clap::Subcommand;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use super::connection::Connection;
use super::{Failure, print_line, table, usage};
use crate::domain::excerpt::escape_for_terminal;

#[derive(Subcommand)]
pub enum Client {
    /// Post an event
    Send {
        /// Its type, e.g. order.created
        event_type: String,
        /// Its data as JSON, or @FILE, or - for standard input
        #[arg(default_value = "{}")]
        data: String,
        /// Its id; the same id with the same content is posted once
        #[arg(long)]
        id: Option<String>,
        /// Only to this endpoint (repeatable)
        #[arg(long)]
        endpoint: Vec<String>,
        #[command(flatten)]
        connection: Connection,
    },
    /// Endpoints
    Endpoints {
        #[command(subcommand)]
        action: Option<EndpointAction>,
        #[command(flatten)]
        connection: Connection,
    },
    /// Deliveries
    Deliveries {
        #[command(subcommand)]
        action: Option<DeliveryAction>,
        /// Only those in this state
        #[arg(long)]
        state: Option<String>,
        /// Only those of this endpoint
        #[arg(long)]
        endpoint: Option<String>,
        #[command(flatten)]
        connection: Connection,
    },
    /// The dead-letter queue
    Dlq {
        #[command(subcommand)]
        action: Option<DlqAction>,
        #[command(flatten)]
        connection: Connection,
    },
    /// The policy presets
    Policies {
        #[command(flatten)]
        connection: Connection,
    },
}

#[derive(Subcommand)]
pub enum EndpointAction {
    /// Add one; prints its secret, this once
    Create {
        url: String,
        /// A preset's name, or a policy as JSON
        #[arg(long)]
        policy: Option<String>,
        /// An event type or pattern (repeatable)
        #[arg(long)]
        event_type: Vec<String>,
    },
    /// Show one
    Show { id: String },
    /// Its live status
    Status { id: String },
    /// Send it a test ping
    Ping { id: String },
    /// Start deliveries to it again
    Enable { id: String },
    /// Stop deliveries to it
    Disable {
        id: String,
        #[arg(long)]
        reason: Option<String>,
    },
    /// Delete it with its deliveries
    Delete { id: String },
}

#[derive(Subcommand)]
pub enum DeliveryAction {
    /// Show one with its attempts
    Show { id: String },
    /// Attempt it now, from the first rung
    Retry { id: String },
}

#[derive(Subcommand)]
pub enum DlqAction {
    /// Put one back
    Requeue { id: String },
    /// Put many back, oldest first
    RequeueAll {
        #[arg(long)]
        endpoint: Option<String>,
        #[arg(long)]
        limit: Option<u32>,
        /// Only say how many there are
        #[arg(long)]
        dry_run: bool,
    },
}

/// An event as it is posted. The JSON that people give stays the text that it is: a value read from it would lose the
/// order of members, repeated ones, and digits that no `f64` holds (S2).
#[derive(Serialize)]
struct Event {
    #[serde(rename = "type")]
    event_type: String,
    data: Box<RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    endpoint_ids: Vec<String>,
}

/// An endpoint as it is created; its policy is text for the same reason, so that the API judges what was given.
#[derive(Serialize)]
struct NewEndpoint {
    url: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    event_types: Vec<String>,
}

impl Client {
    pub fn run(self) -> Result<(), Failure> {
        actix_web::rt::System::new().block_on(self.go())
    }

    async fn go(self) -> Result<(), Failure> {
        match self {
            Client::Send { event_type, data, id, endpoint, connection } => {
                let data = json_text("data", &text_of(&data)?)?;
                let event = Event { event_type, data, id, endpoint_ids: endpoint };
                let body = serde_json::to_string(&event)?;
                let answer = connection.request("POST", "/events", Some(body)).await?.success()?;
                show(&connection, &answer, &["id", "endpoint_id", "state"], "deliveries")
            }
            Client::Endpoints { action, connection } => endpoints(action, &connection).await,
            Client::Deliveries { action: None, state, endpoint, connection } => {
                let filter = query(&[("state", state), ("endpoint_id", endpoint)]);
                let answer = connection.ask("GET", &format!("/deliveries{filter}"), None).await?;
                show(&connection, &answer, &DELIVERY_COLUMNS, "data")
            }
            Client::Deliveries { action: Some(DeliveryAction::Show { id }), connection, .. } => {
                let answer = connection.ask("GET", &format!("/deliveries/{id}"), None).await?;
                print_line(&serde_json::to_string_pretty(&answer)?)
            }
            Client::Deliveries { action: Some(DeliveryAction::Retry { id }), connection, .. } => {
                let answer = connection.ask("POST", &format!("/deliveries/{id}/retry"), None).await?;
                show(&connection, &json!({"data": [answer]}), &DELIVERY_COLUMNS, "data")
            }
            Client::Dlq { action, connection } => dlq(action, &connection).await,
            Client::Policies { connection } => {
                let answer = connection.ask("GET", "/policies", None).await?;
                let columns = ["preset", "schedule", "timeout", "responses", "auto_disable", "circuit_breaker"];
                show(&connection, &answer, &columns, "data")
            }
        }
    }
}

const DELIVERY_COLUMNS: [&str; 7] =
    ["id", "event_type", "endpoint_id", "state", "attempt", "next_retry_at", "last_status"];
const ENDPOINT_COLUMNS: [&str; 4] = ["id", "url", "status", "disabled_reason"];

async fn endpoints(action: Option<EndpointAction>, connection: &Connection) -> Result<(), Failure> {
    let one = |id: &str, rest: &str| format!("/endpoints/{id}{rest}");
    let answer = match action {
        None => {
            let answer = connection.ask("GET", "/endpoints", None).await?;
            return show(connection, &answer, &ENDPOINT_COLUMNS, "data");
        }
        Some(EndpointAction::Create { url, policy, event_type }) => {
            let policy = policy.map(|policy| match policy.trim_start().starts_with('{') {
                true => json_text("--policy", &policy),
                false => Ok(to_raw_value(&policy)?),
            });
            let body =
                serde_json::to_string(&NewEndpoint { url, policy: policy.transpose()?, event_types: event_type })?;
            connection.request("POST", "/endpoints", Some(body)).await?.success()?
        }
        Some(EndpointAction::Show { id }) => connection.ask("GET", &one(&id, ""), None).await?,
        Some(EndpointAction::Status { id }) => connection.ask("GET", &one(&id, "/status"), None).await?,
        Some(EndpointAction::Ping { id }) => connection.ask("POST", &one(&id, "/ping"), None).await?,
        Some(EndpointAction::Enable { id }) => connection.ask("POST", &one(&id, "/enable"), None).await?,
        Some(EndpointAction::Disable { id, reason }) => {
            let body = reason.map_or_else(|| json!({}), |reason| json!({"reason": reason}));
            connection.ask("POST", &one(&id, "/disable"), Some(body)).await?
        }
        Some(EndpointAction::Delete { id }) => {
            connection.ask("DELETE", &one(&id, ""), None).await?;
            return print_line(&format!("{id} is deleted"));
        }
    };
    print_line(&serde_json::to_string_pretty(&answer)?)
}

async fn dlq(action: Option<DlqAction>, connection: &Connection) -> Result<(), Failure> {
    let columns = ["id", "event_type", "endpoint_id", "dead_reason", "dead_at", "replayable_until", "last_status"];
    match action {
        None => {
            let answer = connection.ask("GET", "/dlq", None).await?;
            show(connection, &answer, &columns, "data")
        }
        Some(DlqAction::Requeue { id }) => {
            let answer = connection.ask("POST", &format!("/dlq/{id}/requeue"), None).await?;
            show(connection, &json!({"data": [answer]}), &DELIVERY_COLUMNS, "data")
        }
        Some(DlqAction::RequeueAll { endpoint, limit, dry_run }) => {
            let body = json!({"endpoint_id": endpoint, "limit": limit, "dry_run": dry_run});
            let answer = connection.ask("POST", "/dlq/requeue", Some(body)).await?;
            print_line(&answer.to_string())
        }
    }
}

/// `text`, or what the file after `@` holds, or standard input for `-`.
fn text_of(text: &str) -> Result<String, Failure> {
    match (text, text.strip_prefix('@')) {
        ("-", _) => Ok(std::io::read_to_string(std::io::stdin().lock())?),
        (_, Some(path)) => std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}").into()),
        (text, None) => Ok(text.to_owned()),
    }
}

/// JSON that was given for `what`, checked and otherwise left alone.
fn json_text(what: &str, text: &str) -> Result<Box<RawValue>, Failure> {
    serde_json::from_str(text).map_err(|error| usage(format!("{what}: this is not JSON: {error}")))
}

fn query(parameters: &[(&str, Option<String>)]) -> String {
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    for (name, value) in parameters {
        if let Some(value) = value {
            query.append_pair(name, value);
        }
    }
    let query = query.finish();
    if query.is_empty() { query } else { format!("?{query}") }
}

/// Prints the objects in `answer[list]` as a table of these members, or the answer itself.
fn show(connection: &Connection, answer: &Value, columns: &[&str], list: &str) -> Result<(), Failure> {
    if connection.json {
        return print_line(&answer.to_string());
    }
    if let Some(id) = answer.get("id").and_then(Value::as_str) {
        print_line(&format!("{id}{}", if answer["duplicate"] == true { " (was there before)" } else { "" }))?;
    }
    let rows = answer[list].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut out = table(columns);
    for row in rows {
        out.add_row(columns.iter().map(|column| cell(&row[*column])));
    }
    print_line(&out.trim_fmt())?;
    match answer.get("next_cursor") {
        Some(Value::String(_)) => print_line("… and more: use --json and the API's cursor"),
        _ => Ok(()),
    }
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => "-".into(),
        Value::String(text) => escape_for_terminal(text.as_bytes()),
        other => other.to_string(),
    }
}
