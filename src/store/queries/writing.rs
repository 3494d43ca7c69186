//! The rows of deliveries to which nothing has happened yet (see [`Unwritten`](crate::store::unwritten::Unwritten)).

use std::collections::{HashMap, HashSet};

use diesel::QueryResult;
use diesel::prelude::*;

use super::bulk::{Bulk, insert_bulk};
use super::{Conn, RunQueryDsl, Tx};
use crate::domain::ids::{DeliveryNo, EndpointNo, EventNo, TenantNo};
use crate::domain::time::Timestamp;
use crate::store::change::WriteRows;
use crate::store::error::corrupt;
use crate::store::numbers::decode;
use crate::store::rows::at;
use crate::store::schema::{deliveries, endpoints, events, meta};
use crate::store::sentence::Sentence;
use crate::store::unwritten::{Blank, Fresh};

/// Rows written in one transaction that does nothing else.
pub const SLICE: usize = 128;

/// Writes these rows.
pub async fn write_rows(tx: &mut Tx<'_>, blanks: &[Blank]) -> QueryResult<()> {
    let (directory, stamp) = (&tx.directory, tx.stamp.as_micros());
    let cut = |endpoint| directory.get(endpoint).map_or(0, |entry| entry.cut as i32);
    let rows: Vec<NewRow> = blanks.iter().map(|blank| NewRow::of(blank, cut(blank.endpoint), stamp)).collect();
    insert_bulk(tx.conn, &rows).await
}

/// Writes those of an event's deliveries that have no row.
pub async fn write_event(tx: &mut Tx<'_>, first: i64, count: i32) -> QueryResult<()> {
    let blanks = tx.unwritten.take_range(first..=first + i64::from(count) - 1, usize::MAX);
    write_rows(tx, &blanks).await
}

/// Writes the oldest of all that have none. Answers how many.
pub async fn write_oldest(tx: &mut Tx<'_>, limit: usize) -> QueryResult<usize> {
    let blanks = tx.unwritten.take_range(0..=i64::MAX, limit);
    write_rows(tx, &blanks).await?;
    Ok(blanks.len())
}

/// A new row's number, tenant, endpoint, event, cut, last change, place in line, due time, acceptance.
#[derive(Clone, Copy)]
struct NewRow([i64; 9]);

impl NewRow {
    fn of(blank: &Blank, cut: i32, stamp: i64) -> NewRow {
        let (order_at, received_at) = (blank.order_at.as_micros(), blank.received_at.as_micros());
        let (no, tenant, endpoint, event) = (blank.no.0, blank.tenant.0, blank.endpoint.0, blank.event.0);
        NewRow([no, tenant, endpoint, event, cut.into(), stamp, order_at, received_at, received_at])
    }
}

impl Bulk for NewRow {
    const INTO: &'static str = " deliveries (state, run, attempt, attempts_total, line, due_reason, no, tenant, endpoint, \
         event, cut, updated_at, order_at, due_at, created_at) VALUES ";
    const SAME: &'static str = "'pending', 1, 0, 0, 0, 'initial', ";

    fn numbers(&self) -> &[i64] {
        &self.0
    }
}

impl Sentence<Conn> for WriteRows {
    type Reply = bool;

    async fn run(&self, tx: &mut Tx<'_>) -> QueryResult<bool> {
        let blanks = tx.unwritten.take_range(self.first.0..=self.last.0, 4 * SLICE);
        write_rows(tx, &blanks).await?;
        Ok(blanks.len() == 4 * SLICE)
    }
}

/// Writes every row that is missing, from the events alone.
pub async fn rewrite(conn: &mut Conn, now: Timestamp) -> QueryResult<()> {
    let numbers = (meta::written_through, meta::last_delivery, meta::last_stamp);
    let numbers = meta::table.find(1).select(numbers).first::<(i64, i64, i64)>(conn).await.optional()?;
    let Some((written_through, last, last_stamp)) = numbers else { return Ok(()) };
    if written_through >= last {
        return Ok(());
    }
    // Later than any before it (S24), also than those of what a loss of power has undone: nobody waited for that.
    let stamp = now.as_micros().max(last_stamp + 1);
    let written = deliveries::table.filter(deliveries::no.gt(written_through)).select(deliveries::no);
    let written: HashSet<i64> = written.load::<i64>(conn).await?.into_iter().collect();
    // What a deleted endpoint had was written when it was deleted, and may be removed since.
    let living = endpoints::table.filter(endpoints::deleted_at.is_null()).select((endpoints::no, endpoints::cut));
    let cuts: HashMap<i64, i32> = living.load::<(i64, i32)>(conn).await?.into_iter().collect();
    let mut rows = Vec::new();
    for event in unwritten_events(conn, written_through).await? {
        let missing = event.blanks().filter(|blank| blank.no.0 > written_through && !written.contains(&blank.no.0));
        rows.extend(missing.filter_map(|blank| Some(NewRow::of(&blank, *cuts.get(&blank.endpoint.0)?, stamp))));
    }
    rows.sort_unstable_by_key(|row| row.0[0]);
    insert_bulk(conn, &rows).await?;
    let numbers = (meta::written_through.eq(last), meta::last_stamp.eq(stamp));
    diesel::update(meta::table.find(1)).set(numbers).execute(conn).await?;
    Ok(())
}

/// The events with a delivery behind this one, the newest first.
async fn unwritten_events(conn: &mut Conn, written_through: i64) -> QueryResult<Vec<Fresh>> {
    let mut found = Vec::new();
    let mut before = i64::MAX;
    loop {
        let page = events::table
            .filter(events::no.lt(before))
            .order(events::no.desc())
            .limit(256)
            .select((
                (events::no, events::tenant, events::first_delivery, events::deliveries),
                (events::created_at, events::received_at, events::targets),
            ))
            .load::<((i64, i64, i64, i32), (i64, i64, Vec<u8>))>(conn)
            .await?;
        let Some(last) = page.last() else { return Ok(found) };
        before = last.0.0;
        for ((no, tenant, first, count), (created_at, received_at, bytes)) in page {
            // Numbers of deliveries rise with those of events, also where there are none.
            if first + i64::from(count) - 1 <= written_through {
                return Ok(found);
            }
            let targets = decode(&bytes).filter(|targets| targets.len() as i64 == i64::from(count));
            let targets = targets.ok_or_else(|| corrupt(format_args!("event {no}: targets")))?;
            let targets = targets.into_iter().map(EndpointNo).collect();
            found.push(Fresh {
                tenant: TenantNo(tenant),
                event: EventNo(no),
                first: DeliveryNo(first),
                targets,
                received_at: at(received_at),
                order_at: at(created_at.min(received_at)),
            });
        }
    }
}
