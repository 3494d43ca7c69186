//! Deliveries as people see them: rows joined with what a cut, the circuit or a deletion makes of them.

use diesel::dsl::sql;
use diesel::expression::SqlLiteral;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Bool};
use diesel::{QueryResult, dsl};

use super::{Conn, RunQueryDsl};
use crate::domain::ids::TenantNo;
use crate::store::rows::{CutRow, DeliveryRow};
use crate::store::schema::{cuts, deliveries, endpoint_health, endpoints, events, spared};
use crate::store::view::Context;
pub use crate::store::view::DeliveryView;

/// What is read for a view, in the order of [`select!`]: row, event's id and type, endpoint's id, status and cut, the
/// circuit's two instants, whether it was spared.
pub type Parts = (DeliveryRow, String, String, String, String, i32, Option<i64>, Option<i64>, Option<i64>);

/// The tables of a view, joined; deleted endpoints are not there.
macro_rules! joined {
    () => {
        deliveries::table
            .inner_join(events::table)
            .inner_join(endpoints::table)
            .inner_join(endpoint_health::table)
            .left_join(spared::table.on(spared::delivery.eq(deliveries::no)))
            .filter(endpoints::deleted_at.is_null())
    };
}
pub(super) use joined;

macro_rules! select {
    () => {
        (
            DeliveryRow::as_select(),
            events::id,
            events::kind,
            endpoints::id,
            endpoints::status,
            endpoints::cut,
            endpoint_health::opened_at,
            endpoint_health::retry_at,
            spared::delivery.nullable(),
        )
    };
}
pub(super) use select;

/// Makes views of what was read, asking for the cuts of those that a cut has taken.
pub async fn complete(conn: &mut Conn, parts: Vec<Parts>) -> QueryResult<Vec<DeliveryView>> {
    let mut cut_off: Vec<i64> = parts.iter().filter(|parts| is_cut(parts)).map(|parts| parts.0.endpoint).collect();
    cut_off.sort_unstable();
    cut_off.dedup();
    let cuts: Vec<CutRow> = match cut_off.is_empty() {
        true => Vec::new(),
        false => {
            cuts::table
                .filter(cuts::endpoint.eq_any(cut_off))
                .order((cuts::endpoint, cuts::cut))
                .select(CutRow::as_select())
                .load(conn)
                .await?
        }
    };
    parts.into_iter().map(|parts| view(parts, &cuts)).collect()
}

fn is_cut(parts: &Parts) -> bool {
    let waits = matches!(parts.0.state.as_str(), "pending" | "failed");
    waits && parts.0.cut < parts.5 && parts.8.is_none()
}

fn view(parts: Parts, cuts: &[CutRow]) -> QueryResult<DeliveryView> {
    let taken = is_cut(&parts);
    let (row, event_id, event_type, endpoint_id, endpoint_status, endpoint_cut, opened_at, retry_at, _) = parts;
    let by = cuts.iter().find(|cut| taken && cut.endpoint == row.endpoint && cut.cut > row.cut);
    let cut = by.map(|cut| (cut.cut_at, cut.replayable_until));
    let circuit = (opened_at, retry_at);
    let context = Context { event_id, event_type, endpoint_id, endpoint_status, endpoint_cut, circuit, cut };
    DeliveryView::new(row, context)
}

/// The deliveries of one event, in the order of their numbers.
pub async fn of_event(conn: &mut Conn, tenant: TenantNo, first: i64, count: i32) -> QueryResult<Vec<DeliveryView>> {
    let parts = joined!()
        .filter(tenant_unindexed().eq(tenant.0))
        .filter(deliveries::no.ge(first).and(deliveries::no.lt(first + i64::from(count))))
        .order(deliveries::no)
        .select(select!())
        .load::<Parts>(conn)
        .await?;
    complete(conn, parts).await
}

/// The first so many of them.
pub async fn first_of_event(
    conn: &mut Conn,
    tenant: TenantNo,
    first: i64,
    count: i32,
    limit: usize,
) -> QueryResult<Vec<DeliveryView>> {
    let parts = joined!()
        .filter(tenant_unindexed().eq(tenant.0))
        .filter(deliveries::no.ge(first).and(deliveries::no.lt(first + i64::from(count))))
        .order(deliveries::no)
        .limit(limit as i64)
        .select(select!())
        .load::<Parts>(conn)
        .await?;
    complete(conn, parts).await
}

/// One delivery.
pub async fn by_no(conn: &mut Conn, tenant: TenantNo, no: i64) -> QueryResult<Option<DeliveryView>> {
    let parts = joined!()
        .filter(deliveries::tenant.eq(tenant.0).and(deliveries::no.eq(no)))
        .select(select!())
        .load::<Parts>(conn)
        .await?;
    Ok(complete(conn, parts).await?.pop())
}

/// Whether rows of this tenant are still to be rewritten because a cut has taken them. If not, what is dead says so.
pub async fn any_cut(conn: &mut Conn, tenant: TenantNo) -> QueryResult<bool> {
    let count: i64 = cuts::table.filter(cuts::tenant.eq(tenant.0)).count().get_result(conn).await?;
    Ok(count > 0)
}

/// The column as no index has it, for where a range of numbers is narrower than what the tenant has.
pub fn tenant_unindexed() -> SqlLiteral<BigInt> {
    sql("deliveries.tenant + 0")
}

/// The condition that a row says it waits.
pub fn says_waiting() -> SqlLiteral<Bool> {
    sql("deliveries.state IN ('pending', 'failed')")
}

/// The condition that a row says it is dead; the literal of `deliveries_dead`.
pub fn says_dead() -> SqlLiteral<Bool> {
    sql("deliveries.state = 'dead'")
}

/// The condition that no cut has taken a waiting delivery of [`joined!`].
#[dsl::auto_type(no_type_alias)]
pub fn not_cut() -> _ {
    deliveries::cut.ge(endpoints::cut).or(spared::delivery.nullable().is_not_null())
}
