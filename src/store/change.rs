//! Changes that people make, and the long jobs behind them, as the API and the engine ask for them.

use crate::domain::delivery::{DeadReason, Waiting};
use crate::domain::dispatcher::Spared;
use crate::domain::ids::{DeliveryNo, EndpointNo, TenantNo};
use crate::domain::notice::Notice;
use crate::domain::time::Timestamp;

use super::rows::EndpointRow;
use super::view::DeliveryView;

/// Add an endpoint. `row.no`, `version`, `updated_at` are given by the store.
#[derive(Clone, Debug)]
pub struct CreateEndpoint(pub EndpointRow);

/// Replace an endpoint's configuration, if its version is still `row.version`. Answers the row as stored, or `None`
/// if it moved on (read it and edit again) or is deleted.
#[derive(Clone, Debug)]
pub struct EditEndpoint {
    pub row: EndpointRow,
    pub now: Timestamp,
    /// The URL changed: streaks are cleared and the circuit closed (S22).
    pub new_url: bool,
    /// The policy lost its circuit breaker: the circuit is closed (S17).
    pub close_circuit: bool,
}

/// Disable an endpoint by a person's wish and cut its queue (S15). Answers false if there is no such endpoint; an
/// endpoint that is disabled already stays as it is.
#[derive(Clone, Debug)]
pub struct Disable {
    pub endpoint: EndpointNo,
    pub tenant: TenantNo,
    pub reason: String,
    pub now: Timestamp,
    pub spared: Vec<Spared>,
}

/// Enable an endpoint: clears streaks, circuit and reason (S16). Answers false if there is no such endpoint.
#[derive(Clone, Debug)]
pub struct Enable {
    pub endpoint: EndpointNo,
    pub tenant: TenantNo,
    pub now: Timestamp,
}

/// Delete an endpoint (S27); its rows are removed by [`RemoveDeleted`].
#[derive(Clone, Debug)]
pub struct DeleteEndpoint {
    pub endpoint: EndpointNo,
    pub tenant: TenantNo,
    pub now: Timestamp,
}

/// Carry a change of an endpoint out and read the endpoint in the same transaction, so that the answer to remember for
/// the request is committed with what it tells. Answers what the change did, and the endpoint's row (`None`: deleted).
#[derive(Clone, Debug)]
pub struct AndShow<S> {
    pub endpoint: EndpointNo,
    pub change: S,
}

/// Through which door a delivery is put back (S12).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    /// `/deliveries/{id}/retry`: any state.
    Retry,
    /// `/dlq/{id}/requeue`: dead ones only.
    Requeue,
}

/// Put one delivery back (S12). The caller has made sure that no attempt of it is on the wire.
#[derive(Clone, Debug)]
pub struct PutBack {
    pub tenant: TenantNo,
    pub delivery: DeliveryNo,
    pub door: Door,
    pub now: Timestamp,
}

/// Why a delivery was not put back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotPutBack {
    /// No such delivery, or (through the door of the dead-letter queue) it is not dead.
    NotFound,
    EndpointDisabled,
    /// Dead, and past `replayable_until`.
    Expired,
}

/// As it stands now, and as its actor keeps it.
pub type PutBackReply = Result<(Box<DeliveryView>, Waiting), NotPutBack>;

/// Which dead letters a bulk requeue means.
#[derive(Clone, Debug, Default)]
pub struct DlqFilter {
    pub endpoint: Option<EndpointNo>,
    pub event_type: Option<String>,
    /// Died at or after.
    pub since: Option<Timestamp>,
    /// Died before.
    pub until: Option<Timestamp>,
    pub dead_reason: Option<DeadReason>,
}

/// Put back a slice of the dead letters, oldest first: looks at [`SLICE`] of them at most, and puts back `limit` at most.
#[derive(Clone, Debug)]
pub struct RequeueSlice {
    pub tenant: TenantNo,
    pub filter: DlqFilter,
    pub after: DeliveryNo,
    pub limit: i64,
    pub dry_run: bool,
    pub now: Timestamp,
    /// On the wire since before a cut: not to be touched.
    pub on_the_wire: Vec<DeliveryNo>,
}

/// What one slice did, or would have done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequeuedSlice {
    /// `requeued` + `endpoint_disabled`.
    pub matched: u64,
    pub requeued: u64,
    /// Left alone, and not counted against the limit: or those of one disabled endpoint would hide all others.
    pub endpoint_disabled: u64,
    /// Where the next slice begins; `None`: that was all.
    pub next: Option<DeliveryNo>,
    /// The endpoints whose queues grew.
    pub endpoints: Vec<EndpointNo>,
}

/// The most rows that one transaction of a long job touches.
pub const SLICE: i64 = 1_000;

/// The cuts whose rows are not all rewritten yet, oldest of each endpoint first.
#[derive(Clone, Copy, Debug)]
pub struct PendingCuts;

/// Rewrite a slice of the rows that a cut has taken. Answers whether there is more to do at once.
#[derive(Clone, Copy, Debug)]
pub struct RewriteCut {
    pub endpoint: EndpointNo,
    pub cut: u32,
}

/// Remove a slice of the rows of deleted endpoints. Answers whether there is more.
#[derive(Clone, Copy, Debug)]
pub struct RemoveDeleted;

/// These deliveries were cut while on the wire and no result will come: the cut takes them (S15).
#[derive(Clone, Debug)]
pub struct ReleaseSpared(pub Vec<DeliveryNo>);

/// Purge a slice of events that came in before `received_before` (S20), going on after `after`.
#[derive(Clone, Debug)]
pub struct PurgeEvents {
    pub received_before: Timestamp,
    pub now: Timestamp,
    pub after: i64,
}

/// What a purge did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Purged {
    pub events: u64,
    /// Where the next slice begins; `None`: that was all.
    pub next: Option<i64>,
}

/// Forget idempotency answers and notifications older than these. Answers whether there is more.
#[derive(Clone, Copy, Debug)]
pub struct PurgeOld {
    pub answers_before: Timestamp,
    pub notifications_before: Timestamp,
}

/// Let deliveries of one endpoint expire that an open circuit or a pause has held since before `before` (S20). Answers
/// how many.
#[derive(Clone, Debug)]
pub struct Expire {
    pub endpoint: EndpointNo,
    pub before: Timestamp,
    pub now: Timestamp,
    pub on_the_wire: Vec<DeliveryNo>,
}

/// File the deliveries of one endpoint (see [`Unfiled`](super::unfiled::Unfiled)).
#[derive(Clone, Copy, Debug)]
pub struct File(pub EndpointNo);

/// Write the rows of those deliveries between these two, both included, that have none, some at a time. Answers whether
/// there may be more (see [`Unwritten`](super::unwritten::Unwritten)).
#[derive(Clone, Copy, Debug)]
pub struct WriteRows {
    pub first: DeliveryNo,
    pub last: DeliveryNo,
}

/// Keep the clock's anchor (S25).
#[derive(Clone, Copy, Debug)]
pub struct KeepAnchor(pub crate::clock::Anchor);

/// Tell an installation's operators something.
#[derive(Clone, Debug)]
pub struct Tell {
    pub tenant: TenantNo,
    pub notice: Notice,
    pub now: Timestamp,
}

/// A person has read a notification. Answers it, or `None` if there is none.
#[derive(Clone, Debug)]
pub struct MarkRead {
    pub tenant: TenantNo,
    pub id: String,
    pub now: Timestamp,
}

/// Keep the hash of a new API key.
#[derive(Clone, Debug)]
pub struct KeepKey {
    pub id: String,
    pub tenant: Option<TenantNo>,
    pub role: &'static str,
    pub name: String,
    pub hash: Vec<u8>,
    pub now: Timestamp,
}

/// The endpoints whose circuit has been open since before an instant.
#[derive(Clone, Copy, Debug)]
pub struct OpenSince(pub Timestamp);
