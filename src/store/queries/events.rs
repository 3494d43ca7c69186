//! Events as people read them: with the states of their deliveries counted, and in the order of changes of either.

use diesel::QueryResult;
use diesel::prelude::*;

use super::lists::page;
use super::views::{self, not_cut, says_dead, says_waiting};
use super::{Conn, RunQueryDsl};
use crate::domain::delivery::State;
use crate::domain::ids::TenantNo;
use crate::store::list::{EventFound, EventSummary, FindEvent, From, ListEvents, Listed, StateCounts};
use crate::store::rows::at;
use crate::store::schema::{deliveries, endpoints, events, spared};
use crate::store::sentence::Question;

/// An event's row without its body: no, id, type, created, received, committed, data_start, first delivery, count.
type Head = (i64, String, String, i64, i64, i64, i64, i64, i32);

macro_rules! head {
    () => {
        (
            events::no,
            events::id,
            events::kind,
            events::created_at,
            events::received_at,
            events::committed_at,
            diesel::dsl::sql::<diesel::sql_types::BigInt>("length(events.body)"),
            events::first_delivery,
            events::deliveries,
        )
    };
}

/// The later of the event's commit and the last change of any of its deliveries: when it last changed for a reader.
const CHANGED: &str = "max(events.committed_at, coalesce((SELECT max(d.updated_at) FROM deliveries d \
     WHERE d.no >= events.first_delivery AND d.no < events.first_delivery + events.deliveries), 0))";

impl Question<Conn> for ListEvents {
    type Answer = Listed<EventSummary>;

    async fn ask(&self, conn: &mut Conn) -> QueryResult<Self::Answer> {
        let heads = match self.page.from {
            From::Newest { before } => self.newest(conn, before).await?,
            From::Changed { after, no } => self.changed(conn, after.as_micros(), no).await?,
        };
        let mut summaries = Vec::with_capacity(heads.len());
        for head in heads {
            summaries.push(summary(conn, self.page.tenant, head).await?);
        }
        Ok(page(summaries, &self.page, |event| (event.updated_at.as_micros(), event.no)))
    }
}

impl ListEvents {
    async fn newest(&self, conn: &mut Conn, before: Option<i64>) -> QueryResult<Vec<Head>> {
        let mut query = self.filtered().order(events::no.desc());
        if let Some(before) = before {
            query = query.filter(events::no.lt(before));
        }
        query.limit(self.page.limit + 1).select(head!()).load(conn).await
    }

    /// Events in the order of their last change: those whose newest changed delivery, or own commit if they have none,
    /// comes after the cursor. A delivery that changed leads to its event; the event stands where its last change does.
    async fn changed(&self, conn: &mut Conn, after: i64, no: i64) -> QueryResult<Vec<Head>> {
        let changed = || diesel::dsl::sql::<diesel::sql_types::BigInt>(CHANGED);
        let place = changed().gt(after).or(changed().eq(after).and(events::no.gt(no)));
        let recent = diesel::dsl::sql::<diesel::sql_types::Bool>(
            "events.no IN (SELECT d.event FROM deliveries d WHERE d.tenant = events.tenant AND d.updated_at >= ",
        )
        .bind::<diesel::sql_types::BigInt, _>(after)
        .sql(" UNION ALL SELECT e.no FROM events e WHERE e.tenant = ")
        .bind::<diesel::sql_types::BigInt, _>(self.page.tenant.0)
        .sql(" AND e.deliveries = 0 AND e.committed_at >= ")
        .bind::<diesel::sql_types::BigInt, _>(after)
        .sql(")");
        self.filtered()
            .filter(recent)
            .filter(place)
            .order((changed(), events::no))
            .limit(self.page.limit + 1)
            .select(head!())
            .load(conn)
            .await
    }

    fn filtered(&self) -> events::BoxedQuery<'_, <Conn as diesel::Connection>::Backend> {
        let filter = &self.filter;
        let mut query = events::table.filter(events::tenant.eq(self.page.tenant.0)).into_boxed();
        if let Some(kind) = &filter.event_type {
            query = query.filter(events::kind.eq(kind));
        }
        if let Some(after) = filter.created_after {
            query = query.filter(events::created_at.gt(after.as_micros()));
        }
        if let Some(before) = filter.created_before {
            query = query.filter(events::created_at.lt(before.as_micros()));
        }
        if let Some(state) = filter.state {
            let its = deliveries::no
                .ge(events::first_delivery)
                .and(deliveries::event.eq(events::no))
                .and(endpoints::deleted_at.is_null());
            let rows = deliveries::table
                .inner_join(endpoints::table)
                .left_join(spared::table.on(spared::delivery.eq(deliveries::no)))
                .filter(its)
                .select(deliveries::event);
            query = match state {
                State::Dead => {
                    let dead = says_dead().or(says_waiting().and(diesel::dsl::not(not_cut())));
                    query.filter(events::no.eq_any(rows.filter(dead)))
                }
                State::Delivered => query.filter(events::no.eq_any(rows.filter(deliveries::state.eq(state.as_str())))),
                State::Pending | State::Failed => {
                    let waits = deliveries::state.eq(state.as_str()).and(not_cut());
                    query.filter(events::no.eq_any(rows.filter(waits)))
                }
            };
        }
        query
    }
}

/// Counts the states of an event's deliveries.
async fn summary(conn: &mut Conn, tenant: TenantNo, head: Head) -> QueryResult<EventSummary> {
    let (no, id, event_type, created_at, received_at, committed_at, size, first, count) = head;
    let last = first + i64::from(count);
    let rows = deliveries::table
        .filter(deliveries::no.ge(first).and(deliveries::no.lt(last)).and(deliveries::tenant.eq(tenant.0)))
        .select(deliveries::updated_at);
    let newest = rows.load::<i64>(conn).await?.into_iter().max().unwrap_or(committed_at);
    let mut counts = StateCounts::default();
    for view in views::of_event(conn, tenant, first, count).await? {
        counts.add(view.state);
    }
    Ok(EventSummary {
        no,
        id,
        event_type,
        created_at: at(created_at),
        received_at: at(received_at),
        updated_at: at(newest.max(committed_at)),
        size,
        counts,
    })
}

impl Question<Conn> for FindEvent {
    type Answer = Option<EventFound>;

    async fn ask(&self, conn: &mut Conn) -> QueryResult<Self::Answer> {
        let found = events::table
            .filter(events::tenant.eq(self.tenant.0).and(events::id.eq(&self.id)))
            .select((head!(), events::body, events::data_start))
            .first::<(Head, Vec<u8>, i32)>(conn)
            .await
            .optional()?;
        let Some((head, body, data_start)) = found else {
            return Ok(None);
        };
        let (first, count) = (head.7, head.8);
        let summary = summary(conn, self.tenant, head).await?;
        let mut deliveries = views::of_event(conn, self.tenant, first, count).await?;
        deliveries.truncate(self.deliveries);
        let data = body.get(data_start.unsigned_abs() as usize..body.len().saturating_sub(1)).unwrap_or_default();
        Ok(Some(EventFound { summary, data: data.to_vec(), deliveries }))
    }
}
