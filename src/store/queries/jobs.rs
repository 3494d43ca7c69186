//! Long work in slices: rows of deleted endpoints, events past their retention, deliveries held for 30 days, answers and
//! notifications nobody needs any more (S20, S27).

use diesel::prelude::*;
use diesel::sql_types::BigInt;
use diesel::{QueryResult, delete, insert_into, update};

use super::filing::{file, forget, moved, unpack};
use super::views::{self, says_waiting};
use super::{Conn, RunQueryDsl, Tx};
use crate::domain::delivery::{DeadReason, State};
use crate::domain::ids::{DeliveryNo, EndpointNo, TenantNo};
use crate::store::change::{Expire, OpenSince, PurgeEvents, PurgeOld, Purged, RemoveDeleted, SLICE};
use crate::store::schema::{
    attempts, cuts, deliveries, endpoint_deliveries, endpoint_health, endpoint_lines, endpoints, event_changes, events,
    idempotency, notifications, spared,
};
use crate::store::sentence::{FIXED_BYTES, Needs, Question, Sentence};

/// Blocks of `endpoint_deliveries` looked at in one slice of a removal; they hold 256 numbers at most, and many only one.
const BLOCKS: i64 = 64;

impl Sentence<Conn> for RemoveDeleted {
    type Reply = bool;

    async fn run(&self, tx: &mut Tx<'_>) -> QueryResult<bool> {
        let gone = endpoints::table.filter(endpoints::deleted_at.is_not_null()).select(endpoints::no);
        let Some(endpoint) = gone.first::<i64>(tx.conn).await.optional()? else {
            return Ok(false);
        };
        file(tx, EndpointNo(endpoint)).await?;
        let waiting: Vec<(i64, i16, i64, i64)> =
            endpoint_lines::table.filter(endpoint_lines::endpoint.eq(endpoint)).limit(SLICE).load(tx.conn).await?;
        for entry in &waiting {
            delete(endpoint_lines::table.find(*entry)).execute(tx.conn).await?;
        }
        if waiting.len() as i64 == SLICE {
            return Ok(true);
        }
        let blocks = endpoint_deliveries::table
            .filter(endpoint_deliveries::endpoint.eq(endpoint))
            .order(endpoint_deliveries::last)
            .select((endpoint_deliveries::last, endpoint_deliveries::numbers))
            .limit(BLOCKS)
            .load::<(i64, Vec<u8>)>(tx.conn)
            .await?;
        let mut slice = Vec::new();
        for (last, numbers) in &blocks {
            if slice.len() as i64 >= SLICE {
                break;
            }
            slice.extend(unpack(numbers)?);
            delete(endpoint_deliveries::table.find((endpoint, last))).execute(tx.conn).await?;
        }
        mark_events(tx, &slice).await?;
        delete(attempts::table.filter(attempts::delivery.eq_any(&slice))).execute(tx.conn).await?;
        delete(deliveries::table.filter(deliveries::no.eq_any(&slice))).execute(tx.conn).await?;
        if (slice.len() as i64) < SLICE && (blocks.len() as i64) < BLOCKS {
            delete(cuts::table.filter(cuts::endpoint.eq(endpoint))).execute(tx.conn).await?;
            delete(spared::table.filter(spared::endpoint.eq(endpoint))).execute(tx.conn).await?;
            delete(endpoints::table.find(endpoint)).execute(tx.conn).await?;
        }
        Ok(true)
    }
}

/// Notes that the events of these deliveries change in this transaction, in which the rows that would tell it are removed:
/// whoever walks by changes sees them again (S24). No two of the deliveries are of one event.
async fn mark_events(tx: &mut Tx<'_>, deliveries: &[i64]) -> QueryResult<()> {
    let stamp = tx.stamp.as_micros();
    let changed = deliveries::table.filter(deliveries::no.eq_any(deliveries)).select((
        deliveries::event,
        deliveries::tenant,
        stamp.into_sql::<BigInt>(),
    ));
    insert_into(event_changes::table)
        .values(changed)
        .into_columns((event_changes::event, event_changes::tenant, event_changes::changed_at))
        .on_conflict(event_changes::event)
        .do_update()
        .set(event_changes::changed_at.eq(stamp))
        .execute(tx.conn)
        .await?;
    Ok(())
}

/// Events looked at in one slice of a purge.
const PURGE_SLICE: i64 = 200;

impl Sentence<Conn> for PurgeEvents {
    type Reply = Purged;

    async fn run(&self, tx: &mut Tx<'_>) -> QueryResult<Purged> {
        let mut old = events::table
            .filter(events::no.gt(self.after))
            .order(events::no)
            .limit(PURGE_SLICE)
            .select((events::no, events::tenant, events::first_delivery, events::deliveries, events::received_at))
            .load::<(i64, i64, i64, i32, i64)>(tx.conn)
            .await?;
        let full = old.len() as i64 == PURGE_SLICE;
        // Numbers rise with the commits, and so, but for moments, do the times: behind the first slice in which none is
        // old there is nothing to be looked for.
        old.retain(|event| event.4 < self.received_before.as_micros());
        let mut purged = Purged { events: 0, next: old.last().map(|event| event.0).filter(|_| full) };
        let through = tx.unwritten.written_through(DeliveryNo(tx.counters.delivery)).0;
        for (no, tenant, first, count, _) in old {
            if first + i64::from(count) - 1 > through {
                // It waits for its first attempt, or one that came before it does.
                continue;
            }
            let its = views::of_event(tx.conn, TenantNo(tenant), first, count).await?;
            let needed = |view: &views::DeliveryView| {
                view.state.waits()
                    || (view.state == State::Dead && view.replayable_until.is_some_and(|until| until > self.now))
            };
            if its.iter().any(needed) {
                continue;
            }
            for view in &its {
                file(tx, view.endpoint).await?;
                // A row that a cut has taken and not rewritten stands in line.
                moved(tx, view.endpoint, view.no, view.place, None).await?;
                forget(tx, view.endpoint, view.no).await?;
            }
            for dead in its.iter().filter(|view| view.state == State::Dead) {
                tx.uncounted.now(dead.endpoint).dead -= 1;
            }
            let range = first..first + i64::from(count);
            let rows = attempts::delivery.ge(range.start).and(attempts::delivery.lt(range.end));
            delete(attempts::table.filter(rows)).execute(tx.conn).await?;
            let rows = deliveries::no.ge(range.start).and(deliveries::no.lt(range.end));
            delete(deliveries::table.filter(rows)).execute(tx.conn).await?;
            delete(event_changes::table.find(no)).execute(tx.conn).await?;
            delete(events::table.find(no)).execute(tx.conn).await?;
            purged.events += 1;
        }
        Ok(purged)
    }
}

impl Sentence<Conn> for PurgeOld {
    type Reply = bool;

    async fn run(&self, tx: &mut Tx<'_>) -> QueryResult<bool> {
        let old = idempotency::table
            .filter(idempotency::created_at.lt(self.answers_before.as_micros()))
            .order(idempotency::created_at)
            .limit(SLICE)
            .select((idempotency::tenant, idempotency::method, idempotency::path, idempotency::key))
            .load::<(i64, String, String, String)>(tx.conn)
            .await?;
        let full = old.len() as i64 == SLICE;
        for key in old {
            delete(idempotency::table.find(key)).execute(tx.conn).await?;
        }
        let old: Vec<i64> = notifications::table
            .filter(notifications::created_at.lt(self.notifications_before.as_micros()))
            .order(notifications::no)
            .limit(SLICE)
            .select(notifications::no)
            .load(tx.conn)
            .await?;
        delete(notifications::table.filter(notifications::no.eq_any(&old))).execute(tx.conn).await?;
        Ok(full || old.len() as i64 == SLICE)
    }
}

impl Sentence<Conn> for Expire {
    type Reply = usize;

    async fn run(&self, tx: &mut Tx<'_>) -> QueryResult<usize> {
        let Some(entry) = tx.directory.get(self.endpoint) else {
            return Ok(0);
        };
        let (cut, kept, tenant) = (entry.cut as i32, entry.dead_letters, entry.tenant);
        let flying: Vec<i64> = self.on_the_wire.iter().map(|no| no.0).collect();
        file(tx, self.endpoint).await?;
        let held = endpoint_lines::table
            .inner_join(deliveries::table)
            .filter(endpoint_lines::endpoint.eq(self.endpoint.0).and(deliveries::tenant.eq(tenant.0)))
            .filter(says_waiting())
            .filter(deliveries::cut.eq(cut).and(deliveries::due_at.lt(self.before.as_micros())))
            .filter(deliveries::no.ne_all(flying))
            .select((deliveries::state, endpoint_lines::all_columns))
            .limit(SLICE)
            .load::<(String, (i64, i16, i64, i64))>(tx.conn)
            .await?;
        for (_, entry) in &held {
            delete(endpoint_lines::table.find(*entry)).execute(tx.conn).await?;
        }
        let numbers = held.iter().map(|(_, entry)| entry.3);
        let death = (
            deliveries::state.eq(State::Dead.as_str()),
            deliveries::dead_reason.eq(DeadReason::Expired.as_str()),
            deliveries::dead_at.eq(self.now.as_micros()),
            deliveries::replayable_until.eq((self.now + kept).as_micros()),
            deliveries::updated_at.eq(tx.stamp.as_micros()),
        );
        update(deliveries::table.filter(deliveries::no.eq_any(numbers))).set(death).execute(tx.conn).await?;
        let pending = held.iter().filter(|(state, _)| state == State::Pending.as_str()).count() as i64;
        let touched = tx.uncounted.now(self.endpoint);
        touched.pending -= pending;
        touched.failed -= held.len() as i64 - pending;
        touched.dead += held.len() as i64;
        Ok(held.len())
    }

    fn bytes(&self) -> usize {
        FIXED_BYTES + size_of_val(&self.on_the_wire[..])
    }
}

/// The endpoints whose circuit has been open since before an instant.
impl Question<Conn> for OpenSince {
    type Answer = Vec<EndpointNo>;

    async fn ask(&self, conn: &mut Conn) -> QueryResult<Self::Answer> {
        let rows = endpoint_health::table
            .filter(endpoint_health::opened_at.lt(self.0.as_micros()))
            .select(endpoint_health::endpoint)
            .load::<i64>(conn)
            .await?;
        Ok(rows.into_iter().map(EndpointNo).collect())
    }

    fn needs(&self) -> Needs {
        Needs::Nothing
    }
}
