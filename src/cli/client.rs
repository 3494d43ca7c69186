//! The API from a shell: `send`, `endpoints`, `deliveries`, `dlq`, `policies`. Tables for people, `--json` for programs.

mod list;
mod print;

use clap::Subcommand;
use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;

use self::list::{DeliveryFilter, DlqFilter, EndpointFilter, List};
use super::answer::Answer;
use super::connection::Connection;
use super::given::{json_text, policy, segment, text_of};
use super::{Failure, print_line};
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
    /// List the endpoints, or do something to one
    Endpoints {
        #[command(subcommand)]
        action: Option<EndpointAction>,
        #[command(flatten)]
        filter: EndpointFilter,
        #[command(flatten)]
        connection: Connection,
    },
    /// List the deliveries, or do something to one
    Deliveries {
        #[command(subcommand)]
        action: Option<DeliveryAction>,
        #[command(flatten)]
        filter: DeliveryFilter,
        #[command(flatten)]
        connection: Connection,
    },
    /// List the dead-letter queue, or put something back
    Dlq {
        #[command(subcommand)]
        action: Option<DlqAction>,
        #[command(flatten)]
        filter: DlqFilter,
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
    /// Add one; prints it with its signing secret
    Create {
        url: String,
        /// A preset's name, a policy as JSON, or @FILE with one
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
        /// Only those of this endpoint
        #[arg(long, value_name = "ID")]
        endpoint: Option<String>,
        /// At most so many, up to 10,000 [default: 1000]
        #[arg(long, value_name = "N")]
        limit: Option<u32>,
        /// Only say how many there are
        #[arg(long)]
        dry_run: bool,
    },
}

/// An event as it is posted; its data is the text that was given (S2).
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

/// An endpoint as it is created; its policy is text too, so that the API judges what was given.
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
                let answer = connection.request("POST", "/events", Some(body)).await?;
                sent(&connection, &answer, &event.event_type)
            }
            Client::Endpoints { action: None, filter, connection } => List::from(filter).show(&connection).await,
            Client::Endpoints { action: Some(action), filter, connection } => {
                List::from(filter).refuse()?;
                endpoint(action, &connection).await
            }
            Client::Deliveries { action: None, filter, connection } => List::from(filter).show(&connection).await,
            Client::Deliveries { action: Some(action), filter, connection } => {
                List::from(filter).refuse()?;
                delivery(action, &connection).await
            }
            Client::Dlq { action: None, filter, connection } => List::from(filter).show(&connection).await,
            Client::Dlq { action: Some(action), filter, connection } => {
                List::from(filter).refuse()?;
                dead_letter(action, &connection).await
            }
            Client::Policies { connection } => {
                let answer = connection.request("GET", "/policies", None).await?;
                let columns = ["preset", "schedule", "timeout", "responses", "auto_disable", "circuit_breaker"];
                match connection.json {
                    true => print::text(&answer),
                    false => print::rows(&answer.rows("data")?, &columns),
                }
            }
        }
    }
}

const DELIVERY_COLUMNS: [&str; 7] =
    ["id", "event_type", "endpoint_id", "state", "attempt", "next_retry_at", "last_status"];

/// Tells of an event that was posted.
fn sent(connection: &Connection, answer: &Answer, event_type: &str) -> Result<(), Failure> {
    if connection.json {
        return print::text(answer);
    }
    let was_there = answer.value["duplicate"] == true;
    if let Some(id) = answer.value["id"].as_str() {
        let id = escape_for_terminal(id.as_bytes());
        print_line(&format!("{id}{}", if was_there { " (was there before)" } else { "" }))?;
    }
    let rows = answer.rows("deliveries")?;
    match (rows.is_empty(), was_there) {
        (false, _) => print::rows(&rows, &["id", "endpoint_id", "state"]),
        (true, false) => print_line(&format!(
            "Nobody gets it: no endpoint is subscribed to {event_type}, or those that are skip events while disabled. \
             The event is kept."
        )),
        (true, true) => print_line("Nobody got it: no endpoint took it when it was posted first."),
    }
}

async fn endpoint(action: EndpointAction, connection: &Connection) -> Result<(), Failure> {
    let one = |id: &str, rest: &str| Ok::<_, Failure>(format!("/endpoints/{}{rest}", segment(id)?));
    let answer = match action {
        EndpointAction::Create { url, policy: given, event_type } => {
            let policy = given.as_deref().map(policy).transpose()?;
            let body = serde_json::to_string(&NewEndpoint { url, policy, event_types: event_type })?;
            connection.request("POST", "/endpoints", Some(body)).await?
        }
        EndpointAction::Show { id } => connection.request("GET", &one(&id, "")?, None).await?,
        EndpointAction::Status { id } => connection.request("GET", &one(&id, "/status")?, None).await?,
        EndpointAction::Ping { id } => connection.request("POST", &one(&id, "/ping")?, None).await?,
        EndpointAction::Enable { id } => connection.request("POST", &one(&id, "/enable")?, None).await?,
        EndpointAction::Disable { id, reason } => {
            let body = reason.map_or_else(|| json!({}), |reason| json!({"reason": reason}));
            connection.request("POST", &one(&id, "/disable")?, Some(body.to_string())).await?
        }
        EndpointAction::Delete { id } => {
            let answer = connection.request("DELETE", &one(&id, "")?, None).await?;
            return if connection.json { print::text(&answer) } else { print_line(&format!("{id} is deleted")) };
        }
    };
    print::whole(connection, &answer)
}

async fn delivery(action: DeliveryAction, connection: &Connection) -> Result<(), Failure> {
    match action {
        DeliveryAction::Show { id } => {
            let answer = connection.request("GET", &format!("/deliveries/{}", segment(&id)?), None).await?;
            print::whole(connection, &answer)
        }
        DeliveryAction::Retry { id } => {
            let answer = connection.request("POST", &format!("/deliveries/{}/retry", segment(&id)?), None).await?;
            print::one(connection, &answer, &DELIVERY_COLUMNS)
        }
    }
}

async fn dead_letter(action: DlqAction, connection: &Connection) -> Result<(), Failure> {
    match action {
        DlqAction::Requeue { id } => {
            let answer = connection.request("POST", &format!("/dlq/{}/requeue", segment(&id)?), None).await?;
            print::one(connection, &answer, &DELIVERY_COLUMNS)
        }
        DlqAction::RequeueAll { endpoint, limit, dry_run } => {
            let body = json!({"endpoint_id": endpoint, "limit": limit, "dry_run": dry_run});
            let answer = connection.request("POST", "/dlq/requeue", Some(body.to_string())).await?;
            print::whole(connection, &answer)
        }
    }
}
