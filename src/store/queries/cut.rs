//! Disabling as a cut (S15): one small transaction takes every waiting delivery at once, whatever their number; a job
//! rewrites the rows later in slices. `endpoints.cut` counts the cuts; a waiting row that carries a smaller number is
//! dead for every reader, unless it was on the wire and is *spared*.

use diesel::prelude::*;
use diesel::{QueryResult, delete, insert_into, update};

use super::filing::file;
use super::views::says_waiting;
use super::{Conn, RunQueryDsl, Tx};
use crate::domain::delivery::{DeadReason, State};
use crate::domain::dispatcher::Spared;
use crate::domain::endpoint::Status;
use crate::domain::ids::{DeliveryNo, EndpointNo};
use crate::domain::time::Timestamp;
use crate::store::change::{PendingCuts, ReleaseSpared, RewriteCut, SLICE};
use crate::store::rows::{CutRow, SparedRow};
use crate::store::schema::{cuts, deliveries, endpoint_health, endpoint_lines, endpoints, spared};
use crate::store::sentence::{FIXED_BYTES, Needs, Question, Sentence};

/// Who disables an endpoint, and what is on the wire.
pub struct Cut {
    pub status: Status,
    pub reason: Option<String>,
    pub at: Timestamp,
    pub spared: Vec<Spared>,
}

/// Disables an endpoint and cuts its queue.
pub async fn cut(tx: &mut Tx<'_>, endpoint: EndpointNo, how: Cut) -> QueryResult<()> {
    // What has no row yet gets one with the cut that it was accepted under, and is counted.
    file(tx, endpoint).await?;
    let stamp = tx.stamp.as_micros();
    let Some(entry) = tx.directory.get_mut(endpoint) else {
        return Ok(());
    };
    entry.status = how.status;
    entry.version += 1;
    entry.cut += 1;
    entry.wake_at = None;
    let (tenant, version, number) = (entry.tenant.0, entry.version, entry.cut as i32);
    let replayable_until = (how.at + entry.dead_letters).as_micros();
    let configuration = (
        endpoints::status.eq(how.status.as_str()),
        endpoints::disabled_reason.eq(how.reason),
        endpoints::disabled_at.eq(how.at.as_micros()),
        endpoints::version.eq(version),
        endpoints::cut.eq(number),
        endpoints::updated_at.eq(stamp),
    );
    update(endpoints::table.find(endpoint.0)).set(configuration).execute(tx.conn).await?;
    let row = CutRow { endpoint: endpoint.0, cut: number, tenant, cut_at: how.at.as_micros(), replayable_until };
    insert_into(cuts::table).values(row).execute(tx.conn).await?;
    for spared in &how.spared {
        spare(tx.conn, endpoint, tenant, *spared).await?;
    }
    let (pending, failed) = count_spared(tx.conn, endpoint).await?;
    let waited = endpoint_health::pending + endpoint_health::failed;
    let counts = (
        endpoint_health::dead.eq(endpoint_health::dead + waited - (pending + failed)),
        endpoint_health::pending.eq(pending),
        endpoint_health::failed.eq(failed),
        endpoint_health::wake_at.eq(None::<i64>),
    );
    update(endpoint_health::table.find(endpoint.0)).set(counts).execute(tx.conn).await?;
    Ok(())
}

/// Spares a delivery, if it is where it was when its attempt began: a result may have been committed between the question
/// what is on the wire and the cut, and then the delivery waits like any other, or does not wait at all. One that an
/// earlier cut has spared stays so.
async fn spare(conn: &mut Conn, endpoint: EndpointNo, tenant: i64, spared: Spared) -> QueryResult<()> {
    let waits: i64 = deliveries::table
        .filter(deliveries::no.eq(spared.no.0).and(deliveries::endpoint.eq(endpoint.0)))
        .filter(deliveries::run.eq(spared.run as i32))
        .filter(deliveries::attempts_total.eq(spared.attempts_total as i32))
        .filter(says_waiting())
        .count()
        .get_result(conn)
        .await?;
    if waits > 0 {
        let row = SparedRow { delivery: spared.no.0, endpoint: endpoint.0, tenant };
        insert_into(spared::table).values(row).on_conflict_do_nothing().execute(conn).await?;
    }
    Ok(())
}

/// How many deliveries of an endpoint are spared: pending, failed.
async fn count_spared(conn: &mut Conn, endpoint: EndpointNo) -> QueryResult<(i64, i64)> {
    let states: Vec<String> = spared::table
        .inner_join(deliveries::table.on(deliveries::no.eq(spared::delivery)))
        .filter(spared::endpoint.eq(endpoint.0))
        .filter(says_waiting())
        .select(deliveries::state)
        .load(conn)
        .await?;
    let count = |state: State| states.iter().filter(|text| *text == state.as_str()).count() as i64;
    Ok((count(State::Pending), count(State::Failed)))
}

impl Question<Conn> for PendingCuts {
    type Answer = Vec<(EndpointNo, u32)>;

    async fn ask(&self, conn: &mut Conn) -> QueryResult<Self::Answer> {
        let rows: Vec<(i64, i32)> =
            cuts::table.order((cuts::endpoint, cuts::cut)).select((cuts::endpoint, cuts::cut)).load(conn).await?;
        Ok(rows.into_iter().map(|(endpoint, cut)| (EndpointNo(endpoint), cut.unsigned_abs())).collect())
    }

    fn needs(&self) -> Needs {
        Needs::Nothing
    }
}

impl Sentence<Conn> for RewriteCut {
    type Reply = bool;

    async fn run(&self, tx: &mut Tx<'_>) -> QueryResult<bool> {
        let row = cuts::table.find((self.endpoint.0, self.cut as i32));
        let Some(cut) = row.select(CutRow::as_select()).first(tx.conn).await.optional()? else {
            return Ok(false);
        };
        file(tx, self.endpoint).await?;
        let taken = || {
            endpoint_lines::table
                .inner_join(deliveries::table)
                .filter(endpoint_lines::endpoint.eq(cut.endpoint))
                .filter(says_waiting())
                .filter(deliveries::cut.lt(cut.cut))
        };
        let spared = spared::table.filter(spared::endpoint.eq(cut.endpoint)).select(spared::delivery);
        let slice: Vec<(i16, i64, i64)> = taken()
            .filter(deliveries::no.ne_all(spared))
            .select((endpoint_lines::line, endpoint_lines::order_at, endpoint_lines::delivery))
            .limit(SLICE)
            .load(tx.conn)
            .await?;
        let death = (
            deliveries::state.eq(State::Dead.as_str()),
            deliveries::dead_reason.eq(DeadReason::EndpointDisabled.as_str()),
            deliveries::dead_at.eq(cut.cut_at),
            deliveries::replayable_until.eq(cut.replayable_until),
            deliveries::updated_at.eq(tx.stamp.as_micros()),
        );
        let numbers = slice.iter().map(|entry| entry.2);
        update(deliveries::table.filter(deliveries::no.eq_any(numbers))).set(death).execute(tx.conn).await?;
        for (line, order_at, no) in &slice {
            delete(endpoint_lines::table.find((cut.endpoint, line, order_at, no))).execute(tx.conn).await?;
        }
        if slice.len() as i64 == SLICE {
            return Ok(true);
        }
        // What is spared keeps its cut, because a result may yet fail to come.
        let left: i64 = taken().count().get_result(tx.conn).await?;
        if left == 0 {
            delete(cuts::table.find((cut.endpoint, cut.cut))).execute(tx.conn).await?;
        }
        Ok(false)
    }
}

impl Sentence<Conn> for ReleaseSpared {
    type Reply = ();

    async fn run(&self, tx: &mut Tx<'_>) -> QueryResult<()> {
        let numbers: Vec<i64> = self.0.iter().map(|no| no.0).collect();
        let rows = spared::table.filter(spared::delivery.eq_any(numbers)).select(SparedRow::as_select());
        for row in rows.load(tx.conn).await? {
            release(tx.conn, row).await?;
        }
        Ok(())
    }

    fn bytes(&self) -> usize {
        FIXED_BYTES + size_of_val(&self.0[..])
    }
}

/// The cut takes this delivery after all, if it is spared.
pub async fn release_one(conn: &mut Conn, delivery: DeliveryNo) -> QueryResult<()> {
    let row = spared::table.find(delivery.0).select(SparedRow::as_select()).first(conn).await.optional()?;
    match row {
        Some(row) => release(conn, row).await,
        None => Ok(()),
    }
}

/// The cut takes a spared delivery after all.
async fn release(conn: &mut Conn, row: SparedRow) -> QueryResult<()> {
    let delivery = deliveries::table.find(row.delivery).select((deliveries::state, deliveries::endpoint));
    let state: Option<(String, i64)> = delivery.first(conn).await.optional()?;
    let health = endpoint_health::table.find(row.endpoint);
    match state.as_ref().and_then(|(state, _)| State::parse(state)) {
        Some(State::Pending) => {
            let counts = (
                endpoint_health::pending.eq(endpoint_health::pending - 1),
                endpoint_health::dead.eq(endpoint_health::dead + 1),
            );
            update(health).set(counts).execute(conn).await?;
        }
        Some(State::Failed) => {
            let counts = (
                endpoint_health::failed.eq(endpoint_health::failed - 1),
                endpoint_health::dead.eq(endpoint_health::dead + 1),
            );
            update(health).set(counts).execute(conn).await?;
        }
        _ => {}
    }
    delete(spared::table.find(row.delivery)).execute(conn).await?;
    Ok(())
}

/// At start nothing is on the wire, so nothing is spared any more.
pub async fn recover(conn: &mut Conn) -> QueryResult<usize> {
    let rows: Vec<SparedRow> = spared::table.select(SparedRow::as_select()).load(conn).await?;
    let count = rows.len();
    for row in rows {
        release(conn, row).await?;
    }
    Ok(count)
}
