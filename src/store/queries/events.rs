//! Events as people read them: with the states of their deliveries counted, and in the order of changes of either.

use std::collections::HashSet;

use diesel::QueryResult;
use diesel::dsl::sql;
use diesel::expression::SqlLiteral;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Bool, Text};

use super::deliveries::page;
use super::views;
use super::{Conn, RunQueryDsl};
use crate::domain::delivery::State;
use crate::domain::ids::DeliveryNo;
use crate::store::error::corrupt;
use crate::store::list::{EventFound, EventSummary, FindEvent, FindRange, From, ListEvents, Listed, StateCounts};
use crate::store::numbers::decode;
use crate::store::rows::at;
use crate::store::schema::{deliveries, endpoints, event_changes, events, meta, spared};
use crate::store::sentence::{Needs, Question};

/// An event's row without its body, and its change that no delivery's row tells: no, id, type, created, received, committed,
/// size, first delivery, count, changed.
type Head = (i64, String, String, i64, i64, i64, i64, i64, i32, Option<i64>);

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
            event_changes::changed_at.nullable(),
        )
    };
}

/// A source of events, narrowed to what a list asks for.
macro_rules! filtered {
    ($source:expr, $list:expr, $any_cut:expr) => {{
        let filter = &$list.filter;
        let mut query = $source.filter(events::tenant.eq($list.page.tenant.0)).into_boxed();
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
            query = query.filter(has(state));
            // The few in the history are found by indexes of their own. (Delivered are most.)
            let tenant = $list.page.tenant.0;
            query = match state {
                State::Pending | State::Failed => {
                    let filed = sql::<Bool>(WITH_WAITING).bind::<BigInt, _>(tenant);
                    query.filter(filed.sql(OR_UNFILED).bind::<BigInt, _>(tenant).sql(")"))
                }
                State::Dead if !$any_cut => query.filter(sql::<Bool>(WITH_DEAD).bind::<BigInt, _>(tenant).sql(")")),
                State::Dead | State::Delivered => query,
            };
        }
        query
    }};
}

impl Question<Conn> for ListEvents {
    type Answer = Listed<EventSummary>;

    async fn ask(&self, conn: &mut Conn) -> QueryResult<Self::Answer> {
        let any_cut = views::any_cut(conn, self.page.tenant).await?;
        let heads = match self.page.from {
            From::Newest { before } => self.newest(conn, before, any_cut).await?,
            From::Changed { after, no } => self.changed(conn, after.as_micros(), no, any_cut).await?,
        };
        let mut summaries = Vec::with_capacity(heads.len());
        for head in heads {
            summaries.push(summary(conn, head).await?);
        }
        Ok(page(summaries, &self.page, |event| (event.updated_at.as_micros(), event.no)))
    }

    fn needs(&self) -> Needs {
        Needs::Rows
    }
}

impl ListEvents {
    async fn newest(&self, conn: &mut Conn, before: Option<i64>, any_cut: bool) -> QueryResult<Vec<Head>> {
        let mut query =
            filtered!(events::table.left_join(event_changes::table), self, any_cut).order(events::no.desc());
        if let Some(before) = before {
            query = query.filter(events::no.lt(before));
        }
        query.limit(self.page.limit + 1).select(head!()).load(conn).await
    }

    /// Events in the order of their last change: that of the delivery of theirs that changed last, or a later one of their
    /// own (`event_changes`). Both are walked from the place on, in the order of their indexes, and merged. Of an event that
    /// is in both, one is the last; if they are of one transaction, the delivery's.
    async fn changed(&self, conn: &mut Conn, after: i64, no: i64, any_cut: bool) -> QueryResult<Vec<Head>> {
        // One delivery for each event: the last changed, of several at once the first. Numbers of deliveries rise with
        // those of their events, so that the index has them in the order of the page.
        let last = sql::<Bool>(
            "NOT EXISTS (SELECT 1 FROM deliveries x WHERE x.no >= events.first_delivery \
             AND x.no < events.first_delivery + events.deliveries AND (x.updated_at > deliveries.updated_at \
             OR (x.updated_at = deliveries.updated_at AND x.no < deliveries.no)))",
        );
        let with_deliveries = events::table.inner_join(deliveries::table).left_join(event_changes::table);
        let own = event_changes::changed_at.nullable();
        let by_delivery = filtered!(with_deliveries, self, any_cut)
            .filter(deliveries::tenant.eq(self.page.tenant.0).and(deliveries::updated_at.ge(after)))
            .filter(deliveries::updated_at.gt(after).or(deliveries::event.gt(no)))
            .filter(last)
            .filter(own.is_null().or(own.le(deliveries::updated_at.nullable())))
            .order((deliveries::updated_at, deliveries::no))
            .limit(self.page.limit + 1)
            .select((deliveries::updated_at, head!()))
            .load::<(i64, Head)>(conn)
            .await?;
        // What lies behind a full page is not looked at: a removal can leave a long row of events that changed again since.
        let end = by_delivery.get(self.page.limit as usize).map_or(i64::MAX, |(changed_at, _)| *changed_at);
        let last = sql::<Bool>(
            "NOT EXISTS (SELECT 1 FROM deliveries x WHERE x.no >= events.first_delivery \
             AND x.no < events.first_delivery + events.deliveries AND x.updated_at >= event_changes.changed_at)",
        );
        let by_own = filtered!(events::table.inner_join(event_changes::table), self, any_cut)
            .filter(event_changes::tenant.eq(self.page.tenant.0))
            .filter(event_changes::changed_at.ge(after).and(event_changes::changed_at.le(end)))
            .filter(event_changes::changed_at.gt(after).or(event_changes::event.gt(no)))
            .filter(last)
            .order((event_changes::changed_at, event_changes::event))
            .limit(self.page.limit + 1)
            .select((event_changes::changed_at, head!()))
            .load::<(i64, Head)>(conn)
            .await?;
        let mut heads: Vec<_> = by_delivery.into_iter().chain(by_own).collect();
        heads.sort_by_key(|(changed_at, head)| (*changed_at, head.0));
        heads.truncate(self.page.limit as usize + 1);
        Ok(heads.into_iter().map(|(_, head)| head).collect())
    }
}

/// At least one delivery of the event is in this state for a reader.
fn has(state: State) -> SqlLiteral<Bool> {
    const TAKEN: &str = "d.cut < p.cut AND s.delivery IS NULL";
    let state = match state {
        State::Delivered => "d.state = 'delivered'".to_owned(),
        State::Dead => format!("(d.state = 'dead' OR (d.state IN ('pending', 'failed') AND {TAKEN}))"),
        State::Pending | State::Failed => format!("d.state = '{state}' AND NOT ({TAKEN})"),
    };
    sql(&format!(
        "EXISTS (SELECT 1 FROM deliveries d JOIN endpoints p ON p.no = d.endpoint \
         LEFT JOIN spared s ON s.delivery = d.no WHERE d.no >= events.first_delivery \
         AND d.no < events.first_delivery + events.deliveries AND p.deleted_at IS NULL AND {state})"
    ))
}

/// The beginnings of conditions that an event is one of those whose deliveries' rows say that they are dead, or wait. The
/// tenant and a bracket are missing.
const WITH_DEAD: &str = "events.no IN (SELECT d.event FROM deliveries d WHERE d.state = 'dead' AND d.tenant = ";
const WITH_WAITING: &str = "events.no IN (SELECT d.event FROM endpoints p JOIN endpoint_lines l ON l.endpoint = p.no \
     JOIN deliveries d ON d.no = l.delivery WHERE p.tenant = ";
/// What goes on after the tenant: those that are not filed. The tenant and a bracket are missing again.
const OR_UNFILED: &str = " UNION ALL SELECT d.event FROM deliveries d WHERE d.no > (SELECT filed_through FROM meta) \
     AND d.state IN ('pending', 'failed') AND d.tenant + 0 = ";

/// Completes an event with what its deliveries are: their states counted as a reader sees them, deleted endpoints' left
/// out, and when the last of them changed.
async fn summary(conn: &mut Conn, head: Head) -> QueryResult<EventSummary> {
    let (no, id, event_type, created_at, received_at, committed_at, size, first, count, changed_at) = head;
    let state = sql::<Text>(
        "CASE WHEN endpoints.deleted_at IS NOT NULL THEN 'deleted' \
         WHEN deliveries.state IN ('pending', 'failed') AND deliveries.cut < endpoints.cut \
         AND spared.delivery IS NULL THEN 'dead' ELSE deliveries.state END",
    );
    let groups = deliveries::table
        .inner_join(endpoints::table)
        .left_join(spared::table.on(spared::delivery.eq(deliveries::no)))
        .filter(deliveries::no.ge(first).and(deliveries::no.lt(first + i64::from(count))))
        .group_by(state.clone())
        .select((state, diesel::dsl::count_star(), diesel::dsl::max(deliveries::updated_at)))
        .load::<(String, i64, Option<i64>)>(conn)
        .await?;
    let mut counts = StateCounts::default();
    for (state, count, _) in &groups {
        if let Some(state) = State::parse(state) {
            counts.add(state, count.unsigned_abs());
        }
    }
    let without_rows = count_without_rows(conn, no, first, count).await?;
    counts.add(State::Pending, without_rows);
    let newest = groups.iter().filter_map(|group| group.2).chain(changed_at).fold(committed_at, i64::max);
    Ok(EventSummary {
        without_rows,
        no,
        id,
        event_type,
        created_at: at(created_at),
        received_at: at(received_at),
        updated_at: at(newest),
        size,
        counts,
    })
}

/// How many of an event's deliveries have no row: it was accepted while the question was asked, and nothing has happened
/// to them.
async fn count_without_rows(conn: &mut Conn, event: i64, first: i64, count: i32) -> QueryResult<u64> {
    let through: i64 = meta::table.find(1).select(meta::written_through).first(conn).await?;
    let end = first + i64::from(count);
    if end - 1 <= through {
        return Ok(0);
    }
    let with = deliveries::table.filter(deliveries::no.ge(first).and(deliveries::no.lt(end))).select(deliveries::no);
    let with: HashSet<i64> = with.load::<i64>(conn).await?.into_iter().collect();
    let targets: Vec<u8> = events::table.find(event).select(events::targets).first(conn).await?;
    let targets = decode(&targets).ok_or_else(|| corrupt(format_args!("event {event}: targets")))?;
    let without = (first..end).zip(targets).filter(|(no, _)| *no > through && !with.contains(no));
    let without: Vec<i64> = without.map(|(_, endpoint)| endpoint).collect();
    // What a deleted endpoint had was written when it was deleted, and may be removed since.
    let living = endpoints::table.filter(endpoints::deleted_at.is_null()).select(endpoints::no);
    let living: HashSet<i64> = living.load::<i64>(conn).await?.into_iter().collect();
    Ok(without.iter().filter(|endpoint| living.contains(endpoint)).count() as u64)
}

impl Question<Conn> for FindEvent {
    type Answer = Option<EventFound>;

    async fn ask(&self, conn: &mut Conn) -> QueryResult<Self::Answer> {
        let found = events::table
            .left_join(event_changes::table)
            .filter(events::tenant.eq(self.tenant.0).and(events::id.eq(&self.id)))
            .select((head!(), events::body, events::data_start))
            .first::<(Head, Vec<u8>, i32)>(conn)
            .await
            .optional()?;
        let Some((head, body, data_start)) = found else {
            return Ok(None);
        };
        let (first, count) = (head.7, head.8);
        let summary = summary(conn, head).await?;
        let deliveries = views::first_of_event(conn, self.tenant, first, count, self.deliveries).await?;
        let data = body.get(data_start.unsigned_abs() as usize..body.len().saturating_sub(1)).unwrap_or_default();
        Ok(Some(EventFound { summary, data: data.to_vec(), deliveries }))
    }

    fn needs(&self) -> Needs {
        Needs::Event(self.tenant, self.id.clone())
    }
}

impl Question<Conn> for FindRange {
    type Answer = Option<(DeliveryNo, DeliveryNo)>;

    async fn ask(&self, conn: &mut Conn) -> QueryResult<Self::Answer> {
        let range = events::table
            .filter(events::tenant.eq(self.tenant.0).and(events::id.eq(&self.id)).and(events::deliveries.gt(0)))
            .select((events::first_delivery, events::deliveries))
            .first::<(i64, i32)>(conn)
            .await
            .optional()?;
        Ok(range.map(|(first, count)| (DeliveryNo(first), DeliveryNo(first + i64::from(count) - 1))))
    }

    fn needs(&self) -> Needs {
        Needs::Nothing
    }
}
