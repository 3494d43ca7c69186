//! The API from a shell: `send`, `endpoints`, `deliveries`, `dlq`, `policies`. Tables for people, `--json` for programs.

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use super::{Failure, print_line, table};
use crate::domain::excerpt::escape_for_terminal;

/// Where the API is, and who asks.
#[derive(Args, Clone)]
pub struct Connection {
    /// The API's address
    #[arg(long = "url", env = "POSTHASTE_URL", default_value = "http://127.0.0.1:8080", global = true)]
    api: String,
    /// The API key
    #[arg(long, env = "POSTHASTE_API_KEY", hide_env_values = true, global = true)]
    api_key: Option<String>,
    /// Print the API's answer as it is
    #[arg(long, global = true)]
    json: bool,
}

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

/// An answer of the API.
pub struct Got {
    pub status: u16,
    pub body: Value,
}

impl Connection {
    pub fn new(url: String, api_key: String) -> Connection {
        Connection { api: url, api_key: Some(api_key), json: false }
    }

    /// One request to `/api/v1/webhooks` + `path`.
    pub async fn request(&self, method: &str, path: &str, body: Option<Value>) -> Result<Got, Failure> {
        let url = format!("{}/api/v1/webhooks{path}", self.api.trim_end_matches('/'));
        let method = awc::http::Method::from_bytes(method.as_bytes())?;
        let client = awc::Client::builder().timeout(std::time::Duration::from_secs(90)).finish();
        let mut request = client.request(method, &url);
        if let Some(key) = &self.api_key {
            request = request.insert_header(("X-API-Key", key.as_str()));
        }
        let sent = match body {
            Some(body) => request.send_json(&body).await,
            None => request.send().await,
        };
        let mut answer = sent.map_err(|error| format!("no answer from {}: {error}", self.api))?;
        let bytes = answer.body().limit(32 * 1024 * 1024).await?;
        let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        Ok(Got { status: answer.status().as_u16(), body })
    }

    /// The same, where anything but success is a failure told in the API's words.
    pub async fn ask(&self, method: &str, path: &str, body: Option<Value>) -> Result<Value, Failure> {
        let got = self.request(method, path, body).await?;
        match got.status {
            200..=299 => Ok(got.body),
            status => {
                let word = |name: &str| escape_for_terminal(got.body[name].as_str().unwrap_or_default().as_bytes());
                Err(format!("{status} {}: {}", word("code"), word("detail")).into())
            }
        }
    }
}

impl Client {
    pub fn run(self) -> Result<(), Failure> {
        actix_web::rt::System::new().block_on(self.go())
    }

    async fn go(self) -> Result<(), Failure> {
        match self {
            Client::Send { event_type, data, id, endpoint, connection } => {
                let mut event = Map::new();
                event.insert("type".into(), json!(event_type));
                event.insert("data".into(), serde_json::from_str(&text_of(&data)?)?);
                if let Some(id) = id {
                    event.insert("id".into(), json!(id));
                }
                if !endpoint.is_empty() {
                    event.insert("endpoint_ids".into(), json!(endpoint));
                }
                let answer = connection.ask("POST", "/events", Some(Value::Object(event))).await?;
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
            let mut body = json!({"url": url});
            if let Some(policy) = policy {
                let object = policy.trim_start().starts_with('{');
                body["policy"] = if object { serde_json::from_str(&policy)? } else { json!(policy) };
            }
            if !event_type.is_empty() {
                body["event_types"] = json!(event_type);
            }
            connection.ask("POST", "/endpoints", Some(body)).await?
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
