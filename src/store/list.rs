//! Lists, as the API asks for them: filters, two orders, keyset cursors.

use crate::domain::delivery::{DeadReason, DueReason, Line, State};
use crate::domain::endpoint::Status;
use crate::domain::event_type::EventType;
use crate::domain::ids::{DeliveryNo, EndpointNo, TenantNo};
use crate::domain::time::Timestamp;

use super::rows::{AttemptRow, EndpointRow, HealthRow, NotificationRow};
use super::view::DeliveryView;

/// Where a list begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    /// Newest first, beginning below this number (`None`: with the newest).
    Newest { before: Option<i64> },
    /// Oldest change first, beginning after this change (S24).
    Changed { after: Timestamp, no: i64 },
}

/// Part of a list.
#[derive(Clone, Copy, Debug)]
pub struct Page {
    pub tenant: TenantNo,
    pub from: From,
    pub limit: i64,
}

/// One page, and where the list goes on.
#[derive(Clone, Debug)]
pub struct Listed<T> {
    pub rows: Vec<T>,
    /// There is more right behind this page.
    pub more: bool,
    /// Behind the last row of the page; in the order of changes, where to begin later.
    pub end: From,
}

/// `GET /deliveries` and, with `dlq`, `GET /dlq`.
#[derive(Clone, Debug)]
pub struct ListDeliveries {
    pub page: Page,
    pub filter: DeliveryFilter,
}

#[derive(Clone, Debug, Default)]
pub struct DeliveryFilter {
    pub state: Option<State>,
    pub endpoint: Option<EndpointNo>,
    pub event_id: Option<String>,
    pub event_type: Option<String>,
    pub status: Option<u16>,
    pub error_kind: Option<&'static str>,
    pub dead_reason: Option<DeadReason>,
    pub created_after: Option<Timestamp>,
    pub created_before: Option<Timestamp>,
    /// Only dead letters that can be requeued at this instant.
    pub replayable_at: Option<Timestamp>,
}

/// One delivery, if it is this tenant's.
#[derive(Clone, Copy, Debug)]
pub struct FindDelivery {
    pub tenant: TenantNo,
    pub delivery: DeliveryNo,
}

/// The attempts of one delivery, newest first.
#[derive(Clone, Copy, Debug)]
pub struct ListAttempts {
    pub tenant: TenantNo,
    pub delivery: DeliveryNo,
    /// Below this number.
    pub before: Option<i64>,
    pub limit: i64,
}

pub type Attempts = Vec<AttemptRow>;

/// `GET /endpoints`.
#[derive(Clone, Debug)]
pub struct ListEndpoints {
    pub page: Page,
    pub status: Option<Status>,
    /// Only those whose filter wants this event type.
    pub wants: Option<EventType>,
}

/// An endpoint of this tenant by its id.
#[derive(Clone, Debug)]
pub struct FindEndpoint {
    pub tenant: TenantNo,
    pub id: String,
}

/// An endpoint with its health and its last attempt.
#[derive(Clone, Debug)]
pub struct EndpointFound {
    pub endpoint: EndpointRow,
    pub health: HealthRow,
    /// The last attempt's delivery was created at.
    pub last_attempt: Option<(Timestamp, AttemptRow)>,
}

/// The own due time (S10) of the delivery that an endpoint would attempt first, not counting those on the wire; `None` if
/// nothing waits.
#[derive(Clone, Debug)]
pub struct NextDue {
    pub endpoint: EndpointNo,
    /// The endpoint's present cut.
    pub cut: u32,
    pub on_the_wire: Vec<DeliveryNo>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DueNext {
    pub due_at: Timestamp,
    pub reason: DueReason,
    pub line: Line,
}

/// `GET /events`.
#[derive(Clone, Debug)]
pub struct ListEvents {
    pub page: Page,
    pub filter: EventFilter,
}

#[derive(Clone, Debug, Default)]
pub struct EventFilter {
    pub event_type: Option<String>,
    /// At least one delivery in this state.
    pub state: Option<State>,
    pub created_after: Option<Timestamp>,
    pub created_before: Option<Timestamp>,
}

/// An event without its body.
#[derive(Clone, Debug)]
pub struct EventSummary {
    pub no: i64,
    pub id: String,
    pub event_type: String,
    pub created_at: Timestamp,
    pub received_at: Timestamp,
    /// The latest change of the event or any of its deliveries.
    pub updated_at: Timestamp,
    /// Bytes of the body.
    pub size: i64,
    pub counts: StateCounts,
    /// So many of those that are pending have no row yet: they came in while the question was asked.
    pub without_rows: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StateCounts {
    pub pending: u64,
    pub failed: u64,
    pub delivered: u64,
    pub dead: u64,
}

impl StateCounts {
    pub fn add(&mut self, state: State, count: u64) {
        *match state {
            State::Pending => &mut self.pending,
            State::Failed => &mut self.failed,
            State::Delivered => &mut self.delivered,
            State::Dead => &mut self.dead,
        } += count;
    }
}

/// An event of this tenant by its id.
#[derive(Clone, Debug)]
pub struct FindEvent {
    pub tenant: TenantNo,
    pub id: String,
    /// So many of its deliveries.
    pub deliveries: usize,
}

/// The first and the last delivery of the event with this id, if it has any.
#[derive(Clone, Debug)]
pub struct FindRange {
    pub tenant: TenantNo,
    pub id: String,
}

#[derive(Clone, Debug)]
pub struct EventFound {
    pub summary: EventSummary,
    /// The caller's `data`, byte for byte.
    pub data: Vec<u8>,
    pub deliveries: Vec<DeliveryView>,
}

/// `GET /notifications`.
#[derive(Clone, Copy, Debug)]
pub struct ListNotifications {
    pub page: Page,
    pub unread: bool,
}

pub type Notifications = Listed<NotificationRow>;

/// The tenant with this id.
#[derive(Clone, Debug)]
pub struct FindTenant(pub String);

/// Every API key's hash, tenant and role.
#[derive(Clone, Copy, Debug)]
pub struct LoadKeys;

#[derive(Clone, Debug)]
pub struct KeyFound {
    pub hash: Vec<u8>,
    pub tenant: Option<TenantNo>,
    pub role: String,
}

/// The oldest instant at which an actor was needed and is still waited for.
#[derive(Clone, Copy, Debug)]
pub struct OldestDue;
