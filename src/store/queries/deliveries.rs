//! Lists of deliveries.

use diesel::QueryResult;
use diesel::dsl::sql;
use diesel::prelude::*;
use diesel::sql_types::Bool;

use super::filing::unpack;
use super::views::{self, Parts, joined, not_cut, says_dead, says_waiting, select};
use super::{Conn, RunQueryDsl};
use crate::domain::delivery::State;
use crate::domain::ids::EndpointNo;
use crate::store::list::*;
use crate::store::rows::{DeliveryRow, at};
use crate::store::schema::{
    deliveries, endpoint_deliveries, endpoint_health, endpoint_lines, endpoints, events, meta, spared,
};
use crate::store::sentence::{Needs, Question};
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
                            .filter(views::tenant_unindexed().eq(tenant.0))
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
                let mut rows: Vec<Parts> = Vec::new();
                let mut before = Some(before);
                while let Some(bound) = before.take_if(|_| rows.len() as i64 <= self.page.limit) {
                    let numbers = its_numbers(conn, endpoint, bound).await?;
                    let Some(lowest) = numbers.last() else { break };
                    before = Some(*lowest);
                    let query = filtered!(joined!(), self, any_cut, range)
                        .filter(deliveries::tenant.eq(tenant.0).and(deliveries::no.eq_any(numbers)))
                        .order(deliveries::no.desc());
                    rows.extend(query.load::<Parts>(conn).await?);
                }
                rows
            }
            Source::Events { before } => {
                // An event's deliveries have a range of numbers, and ranges rise with the events.
                let last = deliveries::table.filter(deliveries::no.lt(before)).order(deliveries::no.desc());
                let last = last.select(deliveries::event).first::<i64>(conn).await.optional()?;
                filtered!(joined!(), self, any_cut, range)
                    .filter(events::tenant.eq(tenant.0).and(events::no.le(last.unwrap_or(0))))
                    .filter(deliveries::no.ge(events::first_delivery))
                    .filter(sql::<Bool>("deliveries.no < events.first_delivery + events.deliveries"))
                    .filter(deliveries::no.lt(before))
                    .order((events::no.desc(), deliveries::no.desc()))
                    .load(conn)
                    .await?
            }
            Source::Dead { before } => {
                let mut query = filtered!(joined!(), self, any_cut, range).filter(deliveries::tenant.eq(tenant.0));
                if let Some(endpoint) = filter.endpoint {
                    query = query.filter(deliveries::endpoint.eq(endpoint.0));
                }
                query.filter(deliveries::no.lt(before)).order(deliveries::no.desc()).load(conn).await?
            }
            Source::Changes { after, no } => {
                let mut query = filtered!(joined!(), self, any_cut, range).filter(deliveries::tenant.eq(tenant.0));
                if let Some(endpoint) = filter.endpoint {
                    query = query.filter(deliveries::endpoint.eq(endpoint.0));
                }
                query
                    .filter(deliveries::updated_at.ge(after))
                    .filter(deliveries::updated_at.gt(after).or(deliveries::no.gt(no)))
                    .order((deliveries::updated_at, deliveries::no))
                    .load(conn)
                    .await?
            }
        };
        let listed = page(rows, &self.page, |parts| (parts.0.updated_at, parts.0.no));
        let rows = views::complete(conn, listed.rows).await?;
        Ok(Listed { rows, more: listed.more, end: listed.end })
    }

    fn needs(&self) -> Needs {
        match (self.source(), self.filter.state) {
            (Source::Endpoint { endpoint, .. }, _) => Needs::Endpoint(endpoint),
            (Source::Lines { .. }, _) if let Some(endpoint) = self.filter.endpoint => Needs::Endpoint(endpoint),
            // What something has happened to has its row.
            (_, Some(State::Failed | State::Delivered | State::Dead)) => Needs::Nothing,
            _ => Needs::Rows,
        }
    }
}

/// The next numbers below `before` of an endpoint's deliveries, the highest first; none: that was all.
async fn its_numbers(conn: &mut Conn, endpoint: EndpointNo, before: i64) -> QueryResult<Vec<i64>> {
    /// Blocks looked at. Many hold one number only, others 256.
    const BLOCKS: i64 = 64;
    /// Enough numbers for one look at the rows.
    const ENOUGH: usize = 512;
    let blocks = || endpoint_deliveries::table.filter(endpoint_deliveries::endpoint.eq(endpoint.0));
    let within = blocks().filter(endpoint_deliveries::last.ge(before)).order(endpoint_deliveries::last).limit(1);
    let below =
        blocks().filter(endpoint_deliveries::last.lt(before)).order(endpoint_deliveries::last.desc()).limit(BLOCKS);
    let mut found: Vec<Vec<u8>> = within.select(endpoint_deliveries::numbers).load(conn).await?;
    found.extend(below.select(endpoint_deliveries::numbers).load::<Vec<u8>>(conn).await?);
    let mut numbers = Vec::new();
    for block in found {
        if numbers.len() >= ENOUGH {
            break;
        }
        numbers.extend(unpack(&block)?.into_iter().filter(|number| *number < before));
    }
    numbers.sort_unstable_by_key(|number| std::cmp::Reverse(*number));
    Ok(numbers)
}

/// Where a list of deliveries is read.
enum Source {
    /// In the endpoints' lines.
    Lines { before: i64 },
    /// Among all that an endpoint ever got.
    Endpoint { endpoint: EndpointNo, before: i64 },
    /// Among the tenant's dead.
    Dead { before: i64 },
    /// Among all that the tenant has, event by event.
    Events { before: i64 },
    /// The same in the order of changes.
    Changes { after: i64, no: i64 },
}

impl ListDeliveries {
    fn source(&self) -> Source {
        let before = match self.page.from {
            From::Newest { before } => before.unwrap_or(i64::MAX),
            From::Changed { after, no } => return Source::Changes { after: after.as_micros(), no },
        };
        match (self.filter.state, self.filter.endpoint) {
            (Some(state), _) if state.waits() => Source::Lines { before },
            // The tenant's dead are fewer than all that the endpoint ever got.
            (Some(State::Dead), _) => Source::Dead { before },
            (_, Some(endpoint)) => Source::Endpoint { endpoint, before },
            (_, None) => Source::Events { before },
        }
    }
}
