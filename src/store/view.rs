//! A delivery as people see it: its row, corrected by what its endpoint's last cut makes of it (S15), with what is needed
//! to derive holds (S10).

use diesel::QueryResult;

use super::rows::{DeliveryRow, at, circuit, maybe_at};
use super::unfiled::Place;
use crate::domain::delivery::{DeadReason, DueReason, Line, State};
use crate::domain::endpoint::Status;
use crate::domain::health::Circuit;
use crate::domain::ids::{DeliveryNo, EndpointNo, EventNo, delivery_id};
use crate::domain::time::Timestamp;

#[derive(Clone, Debug)]
pub struct DeliveryView {
    pub no: DeliveryNo,
    pub endpoint: EndpointNo,
    pub event: EventNo,
    pub event_id: String,
    pub event_type: String,
    pub endpoint_id: String,
    pub endpoint_status: Status,
    pub endpoint_cut: u32,
    pub circuit: Circuit,
    pub state: State,
    pub run: u32,
    pub attempt: u32,
    pub attempts_total: u32,
    pub line: Line,
    /// Where its row stands in the endpoint's line, if the row says that it waits.
    pub(super) place: Option<Place>,
    pub due_at: Timestamp,
    pub due_reason: DueReason,
    pub dead_reason: Option<DeadReason>,
    pub dead_at: Option<Timestamp>,
    pub replayable_until: Option<Timestamp>,
    pub last_status: Option<u16>,
    pub last_error_kind: Option<String>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub delivered_at: Option<Timestamp>,
}

/// What a view is made of beside the delivery's row.
pub(super) struct Context {
    pub event_id: String,
    pub event_type: String,
    pub endpoint_id: String,
    pub endpoint_status: String,
    pub endpoint_cut: i32,
    /// `opened_at`, `retry_at`.
    pub circuit: (Option<i64>, Option<i64>),
    /// The cut that took the delivery while it waited: when, and until when it can be requeued.
    pub cut: Option<(i64, i64)>,
}

impl DeliveryView {
    pub(super) fn new(row: DeliveryRow, context: Context) -> QueryResult<DeliveryView> {
        let (state, dead_reason) = match context.cut {
            Some(_) => (State::Dead, Some(DeadReason::EndpointDisabled)),
            None => (row.state()?, row.dead_reason()?),
        };
        let place = Place { line: Line::from_code(row.line), order_at: at(row.order_at) };
        let place = Some(place).filter(|_| row.state().is_ok_and(State::waits));
        let status = Status::parse(&context.endpoint_status);
        Ok(DeliveryView {
            no: DeliveryNo(row.no),
            endpoint: EndpointNo(row.endpoint),
            event: EventNo(row.event),
            event_id: context.event_id,
            event_type: context.event_type,
            endpoint_id: context.endpoint_id,
            endpoint_status: status.ok_or_else(|| super::error::corrupt("endpoint status"))?,
            endpoint_cut: context.endpoint_cut.unsigned_abs(),
            circuit: circuit(context.circuit.0, context.circuit.1),
            state,
            run: row.run.unsigned_abs(),
            attempt: row.attempt.unsigned_abs(),
            attempts_total: row.attempts_total.unsigned_abs(),
            line: Line::from_code(row.line),
            place,
            due_at: at(row.due_at),
            due_reason: row.due_reason()?,
            dead_reason,
            dead_at: context.cut.map(|cut| at(cut.0)).or(maybe_at(row.dead_at)),
            replayable_until: context.cut.map(|cut| at(cut.1)).or(maybe_at(row.replayable_until)),
            last_status: row.last_status.and_then(|status| u16::try_from(status).ok()),
            last_error_kind: row.last_error_kind,
            created_at: at(row.created_at),
            updated_at: at(row.updated_at),
            delivered_at: maybe_at(row.delivered_at),
        })
    }

    pub fn id(&self) -> String {
        delivery_id(self.no, self.created_at)
    }
}
