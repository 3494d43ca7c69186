//! Lists and single finds: deliveries, attempts, endpoints, notifications, keys.

use diesel::QueryResult;
use diesel::dsl::sql;
use diesel::expression::SqlLiteral;
use diesel::prelude::*;
use diesel::sql_types::Bool;

use super::views::{self, Parts, joined, not_cut, says_dead, says_waiting, select};
use super::{Conn, RunQueryDsl};
use crate::domain::delivery::{DueReason, Line, State};
use crate::domain::ids::{EndpointNo, TenantNo};
use crate::store::error::corrupt;
use crate::store::list::*;
use crate::store::rows::{AttemptRow, DeliveryRow, EndpointRow, HealthRow, NotificationRow, at};
use crate::store::schema::{
    api_keys, attempts, deliveries, endpoint_deliveries, endpoint_health, endpoint_lines, endpoints, events, meta,
    notifications, spared, tenants,
};
use crate::store::sentence::Question;
use crate::store::view::DeliveryView;

/// Cuts the one row too many off a page and says where the list goes on.
pub fn page<T>(mut rows: Vec<T>, page: &Page, place: impl Fn(&T) -> (i64, i64)) -> Listed<T> {
    let more = rows.len() as i64 > page.limit;
    rows.truncate(page.limit as usize);
    let end = match (page.from, rows.last().map(place)) {
        (from, None) => from,
        (From::Newest { .. }, Some((_, no))) => From::Newest { before: Some(no) },
        (From::Changed { .. }, Some((updated_at, no))) => From::Changed { after: at(updated_at), no },
    };
    Listed { rows, more, end }
}

/// What a list of deliveries asks for beside its order and its place, on one of the sources below.
macro_rules! filtered {
    ($source:expr, $list:expr, $any_cut:expr, $range:expr) => {{
        let filter = &$list.filter;
        let mut query = $source.limit($list.page.limit + 1).select(select!()).into_boxed();
        if let Some((first, count)) = $range {
            query = query.filter(deliveries::no.ge(first).and(deliveries::no.lt(first + i64::from(count))));
        }
        query = match filter.state {
            None => query,
            Some(State::Dead) if $any_cut => {
                query.filter(says_dead().or(says_waiting().and(diesel::dsl::not(not_cut()))))
            }
            Some(State::Dead) => query.filter(says_dead()),
            Some(state) if state.waits() => query.filter(deliveries::state.eq(state.as_str()).and(not_cut())),
            Some(state) => query.filter(deliveries::state.eq(state.as_str())),
        };
        if let Some(kind) = &filter.event_type {
            query = query.filter(events::kind.eq(kind));
        }
        if let Some(status) = filter.status {
            query = query.filter(deliveries::last_status.eq(i32::from(status)));
        }
        if let Some(kind) = filter.error_kind {
            query = query.filter(deliveries::last_error_kind.eq(kind));
        }
        if let Some(after) = filter.created_after {
            query = query.filter(deliveries::created_at.gt(after.as_micros()));
        }
        if let Some(before) = filter.created_before {
            query = query.filter(deliveries::created_at.lt(before.as_micros()));
        }
        if let Some(now) = filter.replayable_at {
            // A row that a cut has taken has no date of its own yet; it is as young as the cut.
            let kept = deliveries::replayable_until.gt(now.as_micros()).or(deliveries::replayable_until.is_null());
            query = query.filter(kept);
        }
        if let Some(reason) = filter.dead_reason {
            let cut = reason == crate::domain::delivery::DeadReason::EndpointDisabled;
            query = match cut {
                true => query.filter(deliveries::dead_reason.eq(reason.as_str()).or(says_waiting())),
                false => query.filter(deliveries::dead_reason.eq(reason.as_str())),
            };
        }
        query
    }};
}

impl Question<Conn> for ListDeliveries {
    type Answer = Listed<DeliveryView>;

    async fn ask(&self, conn: &mut Conn) -> QueryResult<Self::Answer> {
        let (filter, tenant) = (&self.filter, self.page.tenant);
        let any_cut = filter.state == Some(State::Dead) && views::any_cut(conn, tenant).await?;
        let range = match &filter.event_id {
            None => None,
            Some(id) => {
                let event = events::table.filter(events::tenant.eq(tenant.0).and(events::id.eq(id)));
                let range = event.select((events::first_delivery, events::deliveries));
                Some(range.first::<(i64, i32)>(conn).await.optional()?.unwrap_or_default())
            }
        };
        let rows: Vec<Parts> = match self.source() {
            Source::Lines { before } => {
                // Few wait, compared with the history. What is not filed has the highest numbers, so it comes first; an
                // endpoint that is asked for has been filed.
                let filed: i64 = meta::table.find(1).select(meta::filed_through).first(conn).await?;
                let mut rows: Vec<Parts> = match filter.endpoint {
                    Some(_) => Vec::new(),
                    None => {
                        filtered!(joined!(), self, any_cut, range)
                            .filter(deliveries::tenant.eq(tenant.0))
                            .filter(deliveries::no.gt(filed).and(deliveries::no.lt(before)))
                            .order(deliveries::no.desc())
                            .load(conn)
                            .await?
                    }
                };
                let lines = joined!().inner_join(endpoint_lines::table.on(endpoint_lines::delivery.eq(deliveries::no)));
                let mut query = filtered!(lines, self, any_cut, range)
                    .filter(endpoints::tenant.eq(tenant.0).and(endpoint_lines::endpoint.eq(endpoints::no)))
                    .filter(endpoint_lines::delivery.lt(before))
                    .order(endpoint_lines::delivery.desc());
                query = match filter.endpoint {
                    Some(endpoint) => query.filter(endpoint_lines::endpoint.eq(endpoint.0)),
                    None => query.filter(endpoint_lines::delivery.le(filed)),
                };
                rows.extend(query.load::<Parts>(conn).await?);
                rows
            }
            Source::Endpoint { endpoint, before } => {
                let its = endpoint_deliveries::table.on(endpoint_deliveries::delivery.eq(deliveries::no));
                filtered!(joined!().inner_join(its), self, any_cut, range)
                    .filter(deliveries::tenant.eq(tenant.0).and(endpoint_deliveries::endpoint.eq(endpoint.0)))
                    .filter(endpoint_deliveries::delivery.lt(before))
                    .order(endpoint_deliveries::delivery.desc())
                    .load(conn)
                    .await?
            }
            Source::Tenant => {
                let mut query = filtered!(joined!(), self, any_cut, range).filter(deliveries::tenant.eq(tenant.0));
                if let Some(endpoint) = filter.endpoint {
                    query = query.filter(deliveries::endpoint.eq(endpoint.0));
                }
                query = match self.page.from {
                    From::Newest { before } => {
                        query.order(deliveries::no.desc()).filter(deliveries::no.lt(before.unwrap_or(i64::MAX)))
                    }
                    From::Changed { after, no } => {
                        let after = after.as_micros();
                        query
                            .order((deliveries::updated_at, deliveries::no))
                            .filter(deliveries::updated_at.ge(after))
                            .filter(deliveries::updated_at.gt(after).or(deliveries::no.gt(no)))
                    }
                };
                query.load(conn).await?
            }
        };
        let listed = page(rows, &self.page, |parts| (parts.0.updated_at, parts.0.no));
        let rows = views::complete(conn, listed.rows).await?;
        Ok(Listed { rows, more: listed.more, end: listed.end })
    }

    fn files(&self) -> Option<EndpointNo> {
        match self.source() {
            Source::Lines { .. } => self.filter.endpoint,
            Source::Endpoint { endpoint, .. } => Some(endpoint),
            Source::Tenant => None,
        }
    }
}

/// Where a list of deliveries is read.
enum Source {
    /// In the endpoints' lines.
    Lines { before: i64 },
    /// Among all that an endpoint ever got.
    Endpoint { endpoint: EndpointNo, before: i64 },
    /// Among all that the tenant has, in the order of numbers or of changes, or among its dead.
    Tenant,
}

impl ListDeliveries {
    fn source(&self) -> Source {
        let From::Newest { before } = self.page.from else { return Source::Tenant };
        let before = before.unwrap_or(i64::MAX);
        match (self.filter.state, self.filter.endpoint) {
            (Some(state), _) if state.waits() => Source::Lines { before },
            // The tenant's dead are fewer than all that the endpoint ever got.
            (Some(State::Dead), _) | (_, None) => Source::Tenant,
            (_, Some(endpoint)) => Source::Endpoint { endpoint, before },
        }
    }
}

impl Question<Conn> for FindDelivery {
    type Answer = Option<DeliveryView>;

    async fn ask(&self, conn: &mut Conn) -> QueryResult<Self::Answer> {
        views::by_no(conn, self.tenant, self.delivery.0).await
    }
}

impl Question<Conn> for ListAttempts {
    type Answer = Attempts;

    async fn ask(&self, conn: &mut Conn) -> QueryResult<Attempts> {
        let before = self.before.unwrap_or(i64::from(i32::MAX)) as i32;
        attempts::table
            .filter(attempts::delivery.eq(self.delivery.0).and(attempts::tenant.eq(self.tenant.0)))
            .filter(attempts::number.lt(before))
            .order(attempts::number.desc())
            .limit(self.limit)
            .select(AttemptRow::as_select())
            .load(conn)
            .await
    }
}

impl Question<Conn> for ListEndpoints {
    type Answer = Listed<EndpointRow>;

    async fn ask(&self, conn: &mut Conn) -> QueryResult<Self::Answer> {
        let mut query = endpoints::table
            .filter(endpoints::tenant.eq(self.page.tenant.0).and(endpoints::deleted_at.is_null()))
            .limit(self.page.limit + 1)
            .select(EndpointRow::as_select())
            .into_boxed();
        query = match self.page.from {
            From::Newest { before } => {
                query.order(endpoints::no.desc()).filter(endpoints::no.lt(before.unwrap_or(i64::MAX)))
            }
            From::Changed { after, no } => {
                let after = after.as_micros();
                query
                    .order((endpoints::updated_at, endpoints::no))
                    .filter(endpoints::updated_at.ge(after))
                    .filter(endpoints::updated_at.gt(after).or(endpoints::no.gt(no)))
            }
        };
        if let Some(status) = self.status {
            query = query.filter(endpoints::status.eq(status.as_str()));
        }
        if let Some(event_type) = &self.wants {
            query = query.filter(wants(event_type.as_str()));
        }
        let rows = query.load(conn).await?;
        Ok(page(rows, &self.page, |row: &EndpointRow| (row.updated_at, row.no)))
    }
}

/// The condition that an endpoint's filter holds one of the patterns that match a type. The column is a JSON list of
/// texts without anything to escape, so an element in its quotes is found as plain text: by what replacing it changes,
/// which is exact about case and known to every database.
fn wants(event_type: &str) -> SqlLiteral<Bool> {
    let pattern = |text: &str| format!("\"{text}\"");
    let under = event_type.match_indices('.').map(|(dot, _)| pattern(&format!("{}.*", &event_type[..dot])));
    let patterns = [pattern("*"), pattern(event_type)].into_iter().chain(under);
    // Event types hold no quotes, so they can stand in the statement.
    let holds = |pattern: String| format!("replace(endpoints.event_types, '{pattern}', '') <> endpoints.event_types");
    sql(&format!("({})", patterns.map(holds).collect::<Vec<_>>().join(" OR ")))
}

impl Question<Conn> for NextDue {
    type Answer = Option<DueNext>;

    async fn ask(&self, conn: &mut Conn) -> QueryResult<Self::Answer> {
        let flying: Vec<i64> = self.on_the_wire.iter().map(|no| no.0).collect();
        let mut next: Option<DueNext> = None;
        // One look at the head of each line; within a line the order is that of the due times, or (first attempts, which
        // are due from their acceptance on) makes no difference to anybody who waits.
        for line in [Line::First, Line::Single, Line::Retry] {
            let head: Option<(i64, String)> = endpoint_lines::table
                .inner_join(deliveries::table)
                .filter(endpoint_lines::endpoint.eq(self.endpoint.0).and(endpoint_lines::line.eq(line.code())))
                .filter(says_waiting().and(deliveries::cut.eq(self.cut as i32)))
                .filter(deliveries::no.ne_all(&flying))
                .order((endpoint_lines::order_at, endpoint_lines::delivery))
                .select((deliveries::due_at, deliveries::due_reason))
                .first(conn)
                .await
                .optional()?;
            let Some((due_at, reason)) = head else { continue };
            let reason = DueReason::parse(&reason).ok_or_else(|| corrupt("due_reason"))?;
            if next.is_none_or(|other| at(due_at) < other.due_at) {
                next = Some(DueNext { due_at: at(due_at), reason, line });
            }
        }
        Ok(next)
    }

    fn files(&self) -> Option<EndpointNo> {
        Some(self.endpoint)
    }
}

impl Question<Conn> for FindEndpoint {
    type Answer = Option<EndpointFound>;

    async fn ask(&self, conn: &mut Conn) -> QueryResult<Self::Answer> {
        let row = endpoints::table
            .inner_join(endpoint_health::table.on(endpoint_health::endpoint.eq(endpoints::no)))
            .filter(endpoints::tenant.eq(self.tenant.0).and(endpoints::id.eq(&self.id)))
            .filter(endpoints::deleted_at.is_null())
            .select((EndpointRow::as_select(), HealthRow::as_select()))
            .first::<(EndpointRow, HealthRow)>(conn)
            .await
            .optional()?;
        let Some((endpoint, health)) = row else { return Ok(None) };
        let last_attempt = match (health.last_attempt_delivery, health.last_attempt_number) {
            (Some(delivery), Some(number)) => attempts::table
                .inner_join(deliveries::table.on(deliveries::no.eq(attempts::delivery)))
                .filter(attempts::delivery.eq(delivery).and(attempts::number.eq(number as i32)))
                .select((deliveries::created_at, AttemptRow::as_select()))
                .first::<(i64, AttemptRow)>(conn)
                .await
                .optional()?,
            _ => None,
        };
        let last_attempt = last_attempt.map(|(created_at, row)| (at(created_at), row));
        Ok(Some(EndpointFound { endpoint, health, last_attempt }))
    }
}

impl Question<Conn> for ListNotifications {
    type Answer = Notifications;

    async fn ask(&self, conn: &mut Conn) -> QueryResult<Notifications> {
        let mut query = notifications::table
            .filter(notifications::tenant.eq(self.page.tenant.0))
            .order(notifications::no.desc())
            .limit(self.page.limit + 1)
            .select(NotificationRow::as_select())
            .into_boxed();
        if let From::Newest { before: Some(before) } = self.page.from {
            query = query.filter(notifications::no.lt(before));
        }
        if self.unread {
            query = query.filter(notifications::read_at.is_null());
        }
        let rows = query.load(conn).await?;
        Ok(page(rows, &self.page, |row: &NotificationRow| (row.created_at, row.no)))
    }
}

impl Question<Conn> for FindTenant {
    type Answer = Option<TenantNo>;

    async fn ask(&self, conn: &mut Conn) -> QueryResult<Self::Answer> {
        let row = tenants::table.filter(tenants::id.eq(&self.0)).select(tenants::no).first::<i64>(conn).await;
        Ok(row.optional()?.map(TenantNo))
    }
}

impl Question<Conn> for LoadKeys {
    type Answer = Vec<KeyFound>;

    async fn ask(&self, conn: &mut Conn) -> QueryResult<Self::Answer> {
        let rows = api_keys::table
            .select((api_keys::hash, api_keys::tenant, api_keys::role))
            .load::<(Vec<u8>, Option<i64>, String)>(conn)
            .await?;
        let found = |(hash, tenant, role): (Vec<u8>, Option<i64>, String)| KeyFound {
            hash,
            tenant: tenant.map(TenantNo),
            role,
        };
        Ok(rows.into_iter().map(found).collect())
    }
}

impl Question<Conn> for OldestDue {
    type Answer = Option<crate::domain::time::Timestamp>;

    async fn ask(&self, conn: &mut Conn) -> QueryResult<Self::Answer> {
        let oldest = endpoint_health::table
            .filter(endpoint_health::wake_at.is_not_null())
            .order(endpoint_health::wake_at)
            .select(endpoint_health::wake_at.assume_not_null())
            .first::<i64>(conn)
            .await;
        Ok(oldest.optional()?.map(at))
    }
}
