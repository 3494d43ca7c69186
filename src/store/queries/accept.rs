//! Accepting events: de-duplication (S21), fan-out (S26) and the deliveries, in one transaction.

use std::collections::HashMap;
use std::sync::Arc;

use diesel::prelude::*;
use diesel::{QueryResult, insert_into};

use super::views::{self, DeliveryView};
use super::writing::write_event;
use super::{Conn, RunQueryDsl, Tx, insert_all};
use crate::domain::content::Content;
use crate::domain::delivery::{DeadReason, State, Waiting};
use crate::domain::ids::{DeliveryNo, EndpointNo, EventNo, TenantNo, delivery_id};
use crate::domain::policy::WhileDisabled;
use crate::domain::time::{Span, Timestamp};
use crate::store::accept::{Accept, Accepted, AcceptedDelivery, NewEvent, Refused, RefusedWhy};
use crate::store::directory::Entry;
use crate::store::hint::Hint;
use crate::store::numbers::encode;
use crate::store::rows::{DeliveryRow, EventRow, at};
use crate::store::schema::{deliveries, event_changes, events};
use crate::store::sentence::{FIXED_BYTES, Sentence};
use crate::store::unfiled::{Card, Place};
use crate::store::unwritten::Fresh;

/// What is to be done with one member once all of them were checked.
enum Plan {
    /// For these endpoints.
    Store(Vec<EndpointNo>),
    /// It is already there, with these deliveries.
    Duplicate { event: Box<EventRow> },
    /// The same as an earlier member of this batch.
    Repeats(usize),
}

impl Plan {
    /// How many deliveries the answer will tell of; `before` are the plans of the members before it.
    fn deliveries(&self, before: &[Plan]) -> usize {
        match self {
            Plan::Store(targets) => targets.len(),
            Plan::Duplicate { event } => event.deliveries.unsigned_abs() as usize,
            Plan::Repeats(earlier) => before.get(*earlier).map_or(0, |plan| plan.deliveries(&[])),
        }
    }
}

/// What an event takes in memory beside its body and the endpoints it is for.
const EVENT_BYTES: usize = 1_024;

impl Sentence<Conn> for Accept {
    type Reply = Result<Vec<Accepted>, Refused>;

    async fn run(&self, tx: &mut Tx<'_>) -> QueryResult<Self::Reply> {
        let mut plans = Vec::with_capacity(self.events.len());
        let mut in_batch: HashMap<&str, usize> = HashMap::new();
        let mut deliveries = 0;
        for (index, event) in self.events.iter().enumerate() {
            let plan = match in_batch.get(event.id.as_str()) {
                Some(&earlier) if same(event, &self.events[earlier]) => Ok(Plan::Repeats(earlier)),
                Some(_) => Err(RefusedWhy::Conflict),
                None => check(tx, self.tenant, event).await?,
            };
            let plan = match plan {
                Ok(plan) => plan,
                Err(why) => return Ok(Err(Refused { index, why })),
            };
            deliveries += plan.deliveries(&plans);
            if deliveries > self.max_deliveries && self.events.len() > 1 {
                return Ok(Err(Refused { index, why: RefusedWhy::TooManyDeliveries }));
            }
            plans.push(plan);
            in_batch.entry(event.id.as_str()).or_insert(index);
        }
        tx.deliveries += deliveries;
        let mut answers: Vec<Accepted> = Vec::with_capacity(plans.len());
        for (event, plan) in self.events.iter().zip(plans) {
            let answer = match plan {
                Plan::Store(targets) => store(tx, self.tenant, event, targets).await?,
                Plan::Duplicate { event } => duplicate(tx, self.tenant, &event).await?,
                Plan::Repeats(earlier) => Accepted { duplicate: true, ..answers[earlier].clone() },
            };
            answers.push(answer);
        }
        Ok(Ok(answers))
    }

    fn bytes(&self) -> usize {
        let event = |event: &NewEvent| {
            let ids = event.endpoint_ids.iter().flatten().map(|id| size_of::<String>() + id.len());
            EVENT_BYTES + event.body.len() + ids.sum::<usize>()
        };
        FIXED_BYTES + self.events.iter().map(event).sum::<usize>()
    }

    fn weight(&self) -> usize {
        self.events.len()
    }

    fn is_acceptance(&self) -> bool {
        true
    }
}

/// S21: the same id, type and data bytes. (`created_at` may differ: left out, it is the time of acceptance.)
fn same(a: &NewEvent, b: &NewEvent) -> bool {
    a.event_type == b.event_type && a.data() == b.data()
}

async fn check(tx: &mut Tx<'_>, tenant: TenantNo, event: &NewEvent) -> QueryResult<Result<Plan, RefusedWhy>> {
    if let Some(stored) = find(tx, tenant, event).await? {
        let data = stored.data_start.unsigned_abs() as usize..stored.body.len().saturating_sub(1);
        let same = stored.kind == event.event_type.as_str() && stored.body.get(data) == Some(event.data());
        return Ok(if same { Ok(Plan::Duplicate { event: Box::new(stored) }) } else { Err(RefusedWhy::Conflict) });
    }
    let subscribers = tx.directory.subscribers(tenant, event.event_type.as_str());
    let Some(wanted) = &event.endpoint_ids else {
        return Ok(Ok(plan(tx, subscribers)));
    };
    let mut targets = Vec::with_capacity(wanted.len());
    for (position, id) in wanted.iter().enumerate() {
        match tx.directory.find(tenant, id) {
            None => return Ok(Err(RefusedWhy::UnknownEndpoint(position))),
            Some(no) if subscribers.binary_search(&no).is_err() => return Ok(Err(RefusedWhy::NotSubscribed(position))),
            Some(no) => targets.push(no),
        }
    }
    targets.sort_unstable();
    targets.dedup();
    Ok(Ok(plan(tx, targets)))
}

/// An event for these endpoints, without those that are disabled and want nothing meanwhile (S15).
fn plan(tx: &Tx<'_>, mut targets: Vec<EndpointNo>) -> Plan {
    let skips = |entry: &Entry| !entry.is_enabled() && entry.while_disabled == WhileDisabled::Skip;
    targets.retain(|endpoint| tx.directory.get(*endpoint).is_some_and(|entry| !skips(entry)));
    Plan::Store(targets)
}

/// The stored event with this id. Generated ids are new by construction (80 random bits).
async fn find(tx: &mut Tx<'_>, tenant: TenantNo, event: &NewEvent) -> QueryResult<Option<EventRow>> {
    if event.generated {
        return Ok(None);
    }
    events::table
        .filter(events::tenant.eq(tenant.0).and(events::id.eq(event.id.as_str())))
        .select(EventRow::as_select())
        .first(tx.conn)
        .await
        .optional()
}

async fn store(tx: &mut Tx<'_>, tenant: TenantNo, event: &NewEvent, targets: Vec<EndpointNo>) -> QueryResult<Accepted> {
    let no = tx.counters.next_event();
    let first = DeliveryNo(tx.counters.delivery + 1);
    let content = content(tx, event);
    let mut answers = Vec::with_capacity(targets.len());
    let mut kept = Vec::with_capacity(targets.len());
    let mut dead_rows = Vec::new();
    for endpoint in targets {
        let Some(entry) = tx.directory.get(endpoint) else {
            continue;
        };
        let dead = (!entry.is_enabled()).then_some(entry.dead_letters);
        let (endpoint_id, cut) = (entry.id.clone(), entry.cut);
        let waiting = Waiting {
            order_at: event.created_at.min(event.received_at),
            cut,
            content: content.clone(),
            ..Waiting::accepted(tx.counters.next_delivery(), no, event.received_at)
        };
        if let Some(kept) = dead {
            dead_rows.push(dead_row(tenant, endpoint, &waiting, kept, tx.stamp));
        }
        kept.push(endpoint);
        answers.push(AcceptedDelivery {
            id: delivery_id(waiting.no, waiting.created_at),
            endpoint_id,
            state: if dead.is_some() { State::Dead } else { State::Pending },
        });
        announce(tx, endpoint, waiting, dead.is_some());
    }
    insert_event(tx, tenant, event, no, first, &kept).await?;
    insert_all!(tx.conn, deliveries::table, &dead_rows);
    tx.unwritten.add(Fresh {
        tenant,
        event: no,
        first,
        targets: kept,
        received_at: event.received_at,
        order_at: event.created_at.min(event.received_at),
    });
    for row in &dead_rows {
        tx.unwritten.take(DeliveryNo(row.no));
    }
    Ok(Accepted {
        id: event.id.clone(),
        event_type: event.event_type.clone(),
        created_at: event.created_at,
        received_at: event.received_at,
        duplicate: false,
        deliveries: answers,
    })
}

/// The event for the actors' memory, if the budget allows.
fn content(tx: &Tx<'_>, event: &NewEvent) -> Option<Arc<Content>> {
    let (id, kind) = (Arc::from(event.id.as_str()), Arc::from(event.event_type.as_str()));
    Content::new(id, kind, event.received_at, event.body.clone()).within(tx.budget).map(Arc::new)
}

/// The row of a delivery whose endpoint was disabled when its event came in.
fn dead_row(
    tenant: TenantNo,
    endpoint: EndpointNo,
    waiting: &Waiting,
    dead_letters: Span,
    stamp: Timestamp,
) -> DeliveryRow {
    let received_at = waiting.created_at;
    DeliveryRow {
        state: State::Dead.as_str().into(),
        dead_reason: Some(DeadReason::EndpointDisabled.as_str().into()),
        dead_at: Some(received_at.as_micros()),
        replayable_until: Some((received_at + dead_letters).as_micros()),
        ..DeliveryRow::accepted(tenant, endpoint, waiting, stamp)
    }
}

/// Counts the new delivery, and adds it to what the engine is told.
fn announce(tx: &mut Tx<'_>, endpoint: EndpointNo, waiting: Waiting, dead: bool) {
    let Some(entry) = tx.directory.get_mut(endpoint) else {
        return;
    };
    let after = std::mem::replace(&mut entry.last_delivery, waiting.no);
    let place = Place { line: waiting.line, order_at: waiting.order_at };
    tx.unfiled.add(endpoint, Card { no: waiting.no, place: Some(place).filter(|_| !dead) });
    // Should its hint be lost, the row has to bring the actor; mostly it says already that it is needed.
    let wakes = dead || entry.wake_at.is_some_and(|at| at <= waiting.due_at);
    let touched = if wakes { tx.uncounted.later(endpoint) } else { tx.uncounted.now(endpoint) };
    touched.last_delivery = Some(waiting.no);
    if dead {
        touched.dead += 1;
        return;
    }
    touched.pending += 1;
    if !wakes {
        touched.wake_at = Some(waiting.due_at);
        entry.wake_at = touched.wake_at;
    }
    let hint = tx.hints.entry(endpoint).or_insert_with(|| Hint { endpoint, after, deliveries: Vec::new() });
    hint.deliveries.push(waiting);
}

async fn insert_event(
    tx: &mut Tx<'_>,
    tenant: TenantNo,
    event: &NewEvent,
    no: EventNo,
    first: DeliveryNo,
    endpoints: &[EndpointNo],
) -> QueryResult<()> {
    // Borrowed, so that the body is not copied on its way into the statement.
    let values = (
        events::no.eq(no.0),
        events::tenant.eq(tenant.0),
        events::id.eq(event.id.as_str()),
        events::kind.eq(event.event_type.as_str()),
        events::created_at.eq(event.created_at.as_micros()),
        events::received_at.eq(event.received_at.as_micros()),
        events::committed_at.eq(tx.stamp.as_micros()),
        events::first_delivery.eq(first.0),
        events::deliveries.eq(endpoints.len() as i32),
        events::targets.eq(encode(endpoints.iter().map(|endpoint| endpoint.0))),
        events::data_start.eq(event.data_start as i32),
        events::body.eq(event.body.as_ref()),
    );
    insert_into(events::table).values(values).execute(tx.conn).await?;
    if endpoints.is_empty() {
        // No delivery's row will tell of it.
        let change = (
            event_changes::event.eq(no.0),
            event_changes::tenant.eq(tenant.0),
            event_changes::changed_at.eq(tx.stamp.as_micros()),
        );
        insert_into(event_changes::table).values(change).execute(tx.conn).await?;
    }
    Ok(())
}

async fn duplicate(tx: &mut Tx<'_>, tenant: TenantNo, event: &EventRow) -> QueryResult<Accepted> {
    write_event(tx, event.first_delivery, event.deliveries).await?;
    let views = views::of_event(tx.conn, tenant, event.first_delivery, event.deliveries).await?;
    let delivery = |view: DeliveryView| AcceptedDelivery {
        id: view.id(),
        endpoint_id: view.endpoint_id.into(),
        state: view.state,
    };
    let id = crate::domain::event::EventId::parse(&event.id).map_err(crate::store::error::corrupt)?;
    let event_type = crate::domain::event_type::EventType::parse(&event.kind).map_err(crate::store::error::corrupt)?;
    Ok(Accepted {
        id,
        event_type,
        created_at: at(event.created_at),
        received_at: at(event.received_at),
        duplicate: true,
        deliveries: views.into_iter().map(delivery).collect(),
    })
}
