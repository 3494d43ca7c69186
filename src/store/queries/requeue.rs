//! Putting deliveries back: one by a person (S12), many by a filter.

use diesel::prelude::*;
use diesel::{QueryResult, update};

use super::cut::release_one;
use super::filing::moved;
use super::misc::flush_one;
use super::views::{self, Parts, joined, not_cut, says_dead, says_waiting, select};
use super::writing::write_event;
use super::{Conn, RunQueryDsl, Tx};
use crate::domain::delivery::{DueReason, Line, State};
use crate::domain::endpoint::Status;
use crate::domain::ids::EndpointNo;
use crate::domain::time::Timestamp;
use crate::store::change::{Door, NotPutBack, PutBack, PutBackReply, RequeueSlice, RequeuedSlice, SLICE};
use crate::store::rows::DeliveryRow;
use crate::store::schema::{deliveries, endpoint_health, endpoints, events, spared};
use crate::store::sentence::{FIXED_BYTES, Sentence};
use crate::store::unfiled::Place;
use crate::store::view::DeliveryView;

impl Sentence<Conn> for PutBack {
    type Reply = PutBackReply;

    async fn run(&self, tx: &mut Tx<'_>) -> QueryResult<PutBackReply> {
        write_event(tx, self.delivery.0, 1).await?;
        match views::by_no(tx.conn, self.tenant, self.delivery.0).await? {
            None => return Ok(Err(NotPutBack::NotFound)),
            Some(view) if view.endpoint_status != Status::Enabled => {
                let why = refusal(&view, self.door, self.now).unwrap_or(NotPutBack::EndpointDisabled);
                return Ok(Err(why));
            }
            // No attempt of it is on the wire. If it is spared, then its attempt did not begin, and giving it up to the cut
            // has not come through yet: the cut took it all the same.
            Some(_) => release_one(tx.conn, self.delivery).await?,
        }
        let Some(view) = views::by_no(tx.conn, self.tenant, self.delivery.0).await? else {
            return Ok(Err(NotPutBack::NotFound));
        };
        if let Some(why) = refusal(&view, self.door, self.now) {
            return Ok(Err(why));
        }
        put_back(tx, &view, Line::Single, self.now).await?;
        bump_health(tx, view.endpoint).await?;
        let changed = views::by_no(tx.conn, self.tenant, self.delivery.0).await?.unwrap_or(view);
        let row: DeliveryRow =
            deliveries::table.find(self.delivery.0).select(DeliveryRow::as_select()).first(tx.conn).await?;
        Ok(Ok((Box::new(changed), row.waiting())))
    }
}

fn refusal(view: &DeliveryView, door: Door, now: Timestamp) -> Option<NotPutBack> {
    if door == Door::Requeue && view.state != State::Dead {
        return Some(NotPutBack::NotFound);
    }
    if view.endpoint_status != Status::Enabled {
        return Some(NotPutBack::EndpointDisabled);
    }
    let past = view.replayable_until.is_none_or(|until| until <= now);
    (view.state == State::Dead && past).then_some(NotPutBack::Expired)
}

/// Makes a delivery due now: a pending one in its run, any other in a new run at the first rung.
async fn put_back(tx: &mut Tx<'_>, view: &DeliveryView, line: Line, now: Timestamp) -> QueryResult<()> {
    let row = deliveries::table.find(view.no.0);
    let due = (
        deliveries::line.eq(line.code()),
        deliveries::cut.eq(view.endpoint_cut as i32),
        deliveries::order_at.eq(now.as_micros()),
        deliveries::due_at.eq(now.as_micros()),
        deliveries::due_reason.eq(DueReason::Manual.as_str()),
        deliveries::updated_at.eq(tx.stamp.as_micros()),
    );
    if view.state == State::Pending {
        update(row).set(due).execute(tx.conn).await?;
    } else {
        let run = (
            deliveries::state.eq(State::Pending.as_str()),
            deliveries::run.eq(view.run as i32 + 1),
            deliveries::attempt.eq(0),
            deliveries::probed_at.eq(None::<i64>),
            deliveries::dead_reason.eq(None::<String>),
            deliveries::dead_at.eq(None::<i64>),
            deliveries::replayable_until.eq(None::<i64>),
        );
        update(row).set((due, run)).execute(tx.conn).await?;
    }
    moved(tx, view.endpoint, view.no, view.place, Some(Place { line, order_at: now })).await?;
    let touched = tx.uncounted.now(view.endpoint);
    match view.state {
        State::Failed => touched.failed -= 1,
        State::Dead => touched.dead -= 1,
        State::Pending | State::Delivered => {}
    }
    touched.pending += i64::from(view.state != State::Pending);
    touched.wake_at = Some(touched.wake_at.map_or(now, |at| at.min(now)));
    Ok(())
}

/// The endpoint's owner has to look at its rows again before it writes: when it is needed next, for one thing, is not what
/// it thinks.
async fn bump_health(tx: &mut Tx<'_>, endpoint: EndpointNo) -> QueryResult<()> {
    let Some(entry) = tx.directory.get_mut(endpoint) else { return Ok(()) };
    entry.health_version += 1;
    let version = endpoint_health::version.eq(entry.health_version);
    update(endpoint_health::table.find(endpoint.0)).set(version).execute(tx.conn).await?;
    Ok(())
}

impl Sentence<Conn> for RequeueSlice {
    type Reply = RequeuedSlice;

    async fn run(&self, tx: &mut Tx<'_>) -> QueryResult<RequeuedSlice> {
        let mut query = joined!()
            .filter(deliveries::tenant.eq(self.tenant.0))
            .filter(deliveries::no.gt(self.after.0))
            .order(deliveries::no)
            .limit(SLICE)
            .select(select!())
            .into_boxed();
        if let Some(endpoint) = self.filter.endpoint {
            query = query.filter(deliveries::endpoint.eq(endpoint.0));
        }
        if let Some(event_type) = &self.filter.event_type {
            query = query.filter(events::kind.eq(event_type));
        }
        query = match views::any_cut(tx.conn, self.tenant).await? {
            false => query.filter(says_dead()),
            true => query.filter(says_dead().or(says_waiting().and(diesel::dsl::not(not_cut())))),
        };
        let rows = query.load::<Parts>(tx.conn).await?;
        let full = rows.len() as i64 == SLICE;
        let views = views::complete(tx.conn, rows).await?;
        let next = views.last().map(|view| view.no).filter(|_| full);
        let mut done = RequeuedSlice { next, ..RequeuedSlice::default() };
        for view in views.iter().filter(|view| self.means(view)) {
            if done.requeued as i64 >= self.limit {
                done.next = None;
                break;
            }
            done.matched += 1;
            if view.endpoint_status != Status::Enabled {
                done.endpoint_disabled += 1;
                continue;
            }
            done.requeued += 1;
            if !self.dry_run {
                put_back(tx, view, Line::Retry, self.now).await?;
                done.endpoints.push(view.endpoint);
            }
        }
        done.endpoints.sort_unstable();
        done.endpoints.dedup();
        for endpoint in done.endpoints.clone() {
            flush_one(tx, endpoint).await?;
            bump_health(tx, endpoint).await?;
        }
        Ok(done)
    }

    fn bytes(&self) -> usize {
        FIXED_BYTES + self.filter.event_type.as_ref().map_or(0, String::len) + size_of_val(&self.on_the_wire[..])
    }
}

impl RequeueSlice {
    fn means(&self, view: &DeliveryView) -> bool {
        let filter = &self.filter;
        let dead_at = view.dead_at.unwrap_or(Timestamp::MIN);
        view.state == State::Dead
            && view.replayable_until.is_some_and(|until| until > self.now)
            && filter.dead_reason.is_none_or(|reason| view.dead_reason == Some(reason))
            && filter.since.is_none_or(|since| dead_at >= since)
            && filter.until.is_none_or(|until| dead_at < until)
            && !self.on_the_wire.contains(&view.no)
    }
}
