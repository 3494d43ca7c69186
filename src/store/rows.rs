//! Rows as diesel reads and writes them, and what the rest of the program makes of them.

use diesel::prelude::*;

use super::error::corrupt;
use super::schema::*;
use crate::domain::delivery::{DeadReason, DueReason, Line, State, Waiting};
use crate::domain::health::{Circuit, Health};
use crate::domain::ids::{DeliveryNo, EndpointNo, EventNo, TenantNo};
use crate::domain::time::Timestamp;

/// A column's instant.
pub fn at(micros: i64) -> Timestamp {
    Timestamp::from_micros(micros)
}

/// A column's optional instant.
pub fn maybe_at(micros: Option<i64>) -> Option<Timestamp> {
    micros.map(Timestamp::from_micros)
}

/// An optional instant's column.
pub fn micros(at: Option<Timestamp>) -> Option<i64> {
    at.map(Timestamp::as_micros)
}

#[derive(Clone, Debug, Queryable, Selectable, Insertable, Identifiable)]
#[diesel(table_name = endpoints, primary_key(no))]
pub struct EndpointRow {
    pub no: i64,
    pub tenant: i64,
    pub id: String,
    pub version: i64,
    pub url: String,
    pub description: String,
    pub event_types: String,
    pub policy: String,
    pub max_in_flight: i32,
    pub header_prefix: Option<String>,
    pub headers: Vec<u8>,
    pub secrets: Vec<u8>,
    pub metadata: String,
    pub status: String,
    pub disabled_reason: Option<String>,
    pub disabled_at: Option<i64>,
    pub cut: i32,
    pub counted_from: i64,
    pub deleted_at: Option<i64>,
    pub created_at: i64,
    pub updated_at: i64,
}

impl EndpointRow {
    /// What it takes in memory, in bytes. Its owner's lists make it up to some hundred kilobytes.
    pub fn bytes(&self) -> usize {
        let texts =
            [&self.id, &self.url, &self.description, &self.event_types, &self.policy, &self.metadata, &self.status];
        let maybe = [&self.header_prefix, &self.disabled_reason].into_iter().flatten();
        let texts: usize = texts.into_iter().chain(maybe).map(String::len).sum();
        size_of::<EndpointRow>() + texts + self.headers.len() + self.secrets.len()
    }
}

#[derive(Clone, Debug, Default, Queryable, Selectable, Insertable)]
#[diesel(table_name = endpoint_health, treat_none_as_default_value = false)]
pub struct HealthRow {
    pub endpoint: i64,
    pub tenant: i64,
    pub version: i64,
    pub failures: i64,
    pub failing_since: Option<i64>,
    pub exhausted: i64,
    pub alerted: bool,
    pub opened_at: Option<i64>,
    pub retry_at: Option<i64>,
    pub pending: i64,
    pub failed: i64,
    pub dead: i64,
    pub last_delivery: i64,
    pub last_success_at: Option<i64>,
    pub last_failure_at: Option<i64>,
    pub last_attempt_delivery: Option<i64>,
    pub last_attempt_number: Option<i64>,
    pub wake_at: Option<i64>,
}

impl HealthRow {
    pub fn circuit(&self) -> Circuit {
        circuit(self.opened_at, self.retry_at)
    }

    pub fn health(&self) -> Health {
        Health {
            failures: u32::try_from(self.failures).unwrap_or(u32::MAX),
            failing_since: maybe_at(self.failing_since),
            exhausted: u32::try_from(self.exhausted).unwrap_or(u32::MAX),
            alerted: self.alerted,
            circuit: self.circuit(),
        }
    }
}

/// The circuit of two columns that are both null or both not.
pub fn circuit(opened_at: Option<i64>, retry_at: Option<i64>) -> Circuit {
    match (opened_at, retry_at) {
        (Some(opened_at), Some(retry_at)) => Circuit::Open { opened_at: at(opened_at), retry_at: at(retry_at) },
        _ => Circuit::Closed,
    }
}

#[derive(Clone, Debug, Queryable, Selectable, Insertable)]
#[diesel(table_name = deliveries, treat_none_as_default_value = false)]
pub struct DeliveryRow {
    pub no: i64,
    pub tenant: i64,
    pub endpoint: i64,
    pub event: i64,
    pub state: String,
    pub run: i32,
    pub attempt: i32,
    pub attempts_total: i32,
    pub cut: i32,
    pub line: i16,
    pub order_at: i64,
    pub due_at: i64,
    pub due_reason: String,
    pub probed_at: Option<i64>,
    pub dead_reason: Option<String>,
    pub dead_at: Option<i64>,
    pub replayable_until: Option<i64>,
    pub last_status: Option<i32>,
    pub last_error_kind: Option<String>,
    pub created_at: i64,
    pub updated_at: i64,
    pub delivered_at: Option<i64>,
}

impl DeliveryRow {
    /// The row of a delivery to which nothing has happened since it was accepted.
    pub fn accepted(tenant: TenantNo, endpoint: EndpointNo, waiting: &Waiting, stamp: Timestamp) -> DeliveryRow {
        DeliveryRow {
            no: waiting.no.0,
            tenant: tenant.0,
            endpoint: endpoint.0,
            event: waiting.event.0,
            state: State::Pending.as_str().into(),
            run: 1,
            attempt: 0,
            attempts_total: 0,
            cut: waiting.cut as i32,
            line: waiting.line.code(),
            order_at: waiting.order_at.as_micros(),
            due_at: waiting.due_at.as_micros(),
            due_reason: DueReason::Initial.as_str().into(),
            probed_at: None,
            dead_reason: None,
            dead_at: None,
            replayable_until: None,
            last_status: None,
            last_error_kind: None,
            created_at: waiting.created_at.as_micros(),
            updated_at: stamp.as_micros(),
            delivered_at: None,
        }
    }

    pub fn state(&self) -> QueryResult<State> {
        State::parse(&self.state).ok_or_else(|| corrupt(format_args!("delivery {} has no known state", self.no)))
    }

    pub fn due_reason(&self) -> QueryResult<DueReason> {
        DueReason::parse(&self.due_reason).ok_or_else(|| corrupt(format_args!("delivery {}: due_reason", self.no)))
    }

    pub fn dead_reason(&self) -> QueryResult<Option<DeadReason>> {
        let unknown = || corrupt(format_args!("delivery {}: dead_reason", self.no));
        self.dead_reason.as_deref().map(|word| DeadReason::parse(word).ok_or_else(unknown)).transpose()
    }

    /// As an actor keeps it while it waits.
    pub fn waiting(&self) -> Waiting {
        Waiting {
            no: DeliveryNo(self.no),
            event: EventNo(self.event),
            created_at: at(self.created_at),
            line: Line::from_code(self.line),
            order_at: at(self.order_at),
            due_at: at(self.due_at),
            run: self.run.unsigned_abs(),
            attempt: self.attempt.unsigned_abs(),
            attempts_total: self.attempts_total.unsigned_abs(),
            cut: self.cut.unsigned_abs(),
            probed_at: maybe_at(self.probed_at),
            content: None,
        }
    }
}

#[derive(Clone, Debug, Queryable, Selectable)]
#[diesel(table_name = events)]
pub struct EventRow {
    pub no: i64,
    pub tenant: i64,
    pub id: String,
    pub kind: String,
    pub created_at: i64,
    pub received_at: i64,
    pub committed_at: i64,
    pub first_delivery: i64,
    pub deliveries: i32,
    pub data_start: i32,
    pub body: Vec<u8>,
}

#[derive(Clone, Debug, Queryable, Selectable, Insertable)]
#[diesel(table_name = attempts, treat_none_as_default_value = false)]
pub struct AttemptRow {
    pub delivery: i64,
    pub number: i32,
    pub tenant: i64,
    pub run: i32,
    pub attempt: i32,
    pub cause: String,
    pub started_at: i64,
    pub duration: i64,
    pub dns: Option<i64>,
    pub connect: Option<i64>,
    pub tls: Option<i64>,
    pub first_byte: Option<i64>,
    pub remote_addr: Option<String>,
    pub url: String,
    pub status: Option<i32>,
    pub error_kind: Option<String>,
    pub error: Option<String>,
    pub excerpt: Vec<u8>,
    pub excerpt_truncated: bool,
    pub outcome: String,
}

#[derive(Clone, Debug, Queryable, Selectable, Insertable)]
#[diesel(table_name = notifications, treat_none_as_default_value = false)]
pub struct NotificationRow {
    pub no: i64,
    pub tenant: i64,
    pub id: String,
    pub kind: String,
    pub endpoint: Option<String>,
    pub title: String,
    pub message: String,
    pub created_at: i64,
    pub read_at: Option<i64>,
}

#[derive(Clone, Debug, Queryable, Selectable, Insertable)]
#[diesel(table_name = cuts, treat_none_as_default_value = false)]
pub struct CutRow {
    pub endpoint: i64,
    pub cut: i32,
    pub tenant: i64,
    pub cut_at: i64,
    pub replayable_until: i64,
}

#[derive(Clone, Debug, Queryable, Selectable, Insertable)]
#[diesel(table_name = spared, treat_none_as_default_value = false)]
pub struct SparedRow {
    pub delivery: i64,
    pub endpoint: i64,
    pub tenant: i64,
}

#[derive(Clone, Debug, Queryable, Selectable, Insertable)]
#[diesel(table_name = idempotency, treat_none_as_default_value = false)]
pub struct IdempotencyRow {
    pub tenant: i64,
    pub method: String,
    pub path: String,
    pub key: String,
    pub request_hash: Vec<u8>,
    pub status: i32,
    pub body: Vec<u8>,
    pub created_at: i64,
}
