//! What the engine and the writer read: endpoints with their health, the beginnings of their lines, events for attempts,
//! who is needed when.

use std::collections::HashMap;
use std::sync::Arc;

use diesel::QueryResult;
use diesel::prelude::*;

use super::views::says_waiting;
use super::{Conn, RunQueryDsl};
use crate::domain::content::Content;
use crate::domain::delivery::Line;
use crate::domain::dispatcher::Loaded;
use crate::domain::endpoint::Status;
use crate::domain::ids::{DeliveryNo, EndpointNo, EventNo, TenantNo};
use crate::domain::policy_spec::PolicySpec;
use crate::domain::subscription::EventFilter;
use crate::domain::time::Timestamp;
use crate::store::directory::{Directory, Entry};
use crate::store::error::corrupt;
use crate::store::load::{LoadContents, LoadEndpoint, LoadWindow, Needed, NeededBy, Positions, Snapshot};
use crate::store::rows::{DeliveryRow, EndpointRow, HealthRow, at};
use crate::store::schema::{deliveries, endpoint_health, endpoints, events};
use crate::store::sentence::Question;

/// An endpoint's row as the directory keeps it.
pub fn entry(row: &EndpointRow, health_version: i64, last_delivery: i64) -> QueryResult<Entry> {
    let broken = |what: &str| corrupt(format_args!("endpoint {}: {what}", row.id));
    let policy: serde_json::Value = serde_json::from_str(&row.policy).map_err(|_| broken("policy"))?;
    let policy = PolicySpec::from_json(&policy, "policy").map_err(|_| broken("policy"))?.resolve();
    let filter: EventFilter = serde_json::from_str(&row.event_types).map_err(|_| broken("event_types"))?;
    Ok(Entry {
        tenant: TenantNo(row.tenant),
        id: Arc::from(row.id.as_str()),
        url: Arc::from(row.url.as_str()),
        filter,
        status: Status::parse(&row.status).ok_or_else(|| broken("status"))?,
        while_disabled: policy.while_disabled,
        dead_letters: policy.dead_letters,
        cut: row.cut.unsigned_abs(),
        version: row.version,
        health_version,
        last_delivery: DeliveryNo(last_delivery),
    })
}

/// Every endpoint that is not deleted.
pub async fn directory(conn: &mut Conn) -> QueryResult<Directory> {
    let rows = endpoints::table
        .inner_join(endpoint_health::table.on(endpoint_health::endpoint.eq(endpoints::no)))
        .filter(endpoints::deleted_at.is_null())
        .select((EndpointRow::as_select(), endpoint_health::version, endpoint_health::last_delivery))
        .load::<(EndpointRow, i64, i64)>(conn)
        .await?;
    let mut directory = Directory::default();
    for (row, health_version, last_delivery) in rows {
        directory.insert(EndpointNo(row.no), entry(&row, health_version, last_delivery)?);
    }
    Ok(directory)
}

impl Question<Conn> for LoadEndpoint {
    type Answer = Option<Snapshot>;

    async fn ask(&self, conn: &mut Conn) -> QueryResult<Self::Answer> {
        let row = endpoints::table
            .inner_join(endpoint_health::table.on(endpoint_health::endpoint.eq(endpoints::no)))
            .filter(endpoints::no.eq(self.endpoint.0).and(endpoints::deleted_at.is_null()))
            .select((EndpointRow::as_select(), HealthRow::as_select()))
            .first::<(EndpointRow, HealthRow)>(conn)
            .await
            .optional()?;
        let Some((endpoint, health)) = row else { return Ok(None) };
        let numbers: Vec<i64> = self.positions.iter().map(|no| no.0).collect();
        let positions: Positions = match numbers.is_empty() {
            true => HashMap::new(),
            false => deliveries::table
                .filter(deliveries::endpoint.eq(self.endpoint.0).and(deliveries::no.eq_any(numbers)))
                .select((deliveries::no, deliveries::run, deliveries::attempts_total))
                .load::<(i64, i32, i32)>(conn)
                .await?
                .into_iter()
                .map(|(no, run, total)| (DeliveryNo(no), (run.unsigned_abs(), total.unsigned_abs())))
                .collect(),
        };
        Ok(Some(Snapshot { endpoint, health, positions }))
    }
}

impl Question<Conn> for LoadWindow {
    type Answer = Loaded;

    async fn ask(&self, conn: &mut Conn) -> QueryResult<Loaded> {
        let read_through: Option<i64> = endpoint_health::table
            .find(self.endpoint.0)
            .select(endpoint_health::last_delivery)
            .first(conn)
            .await
            .optional()?;
        let limit = self.limit as i64;
        let line = async |conn: &mut Conn, lines: [i16; 2]| {
            let rows = deliveries::table
                .filter(deliveries::endpoint.eq(self.endpoint.0))
                .filter(says_waiting())
                .filter(deliveries::line.between(lines[0], lines[1]))
                .filter(deliveries::cut.eq(self.cut as i32))
                .order((deliveries::line, deliveries::order_at, deliveries::no))
                .limit(limit + 1)
                .select(DeliveryRow::as_select())
                .load::<DeliveryRow>(conn)
                .await?;
            let complete = rows.len() <= self.limit;
            let waiting = rows.iter().take(self.limit).map(DeliveryRow::waiting).collect();
            QueryResult::Ok((waiting, complete))
        };
        let (first, first_complete) = line(conn, [Line::First.code(); 2]).await?;
        let (second, second_complete) = line(conn, [Line::Single.code(), Line::Retry.code()]).await?;
        let read_through = DeliveryNo(read_through.unwrap_or(0));
        Ok(Loaded { first, first_complete, second, second_complete, read_through })
    }
}

impl Question<Conn> for LoadContents {
    type Answer = Vec<(EventNo, Content)>;

    async fn ask(&self, conn: &mut Conn) -> QueryResult<Self::Answer> {
        let numbers: Vec<i64> = self.0.iter().map(|no| no.0).collect();
        let rows = events::table
            .filter(events::no.eq_any(numbers))
            .select((events::no, events::id, events::kind, events::received_at, events::body))
            .load::<(i64, String, String, i64, Vec<u8>)>(conn)
            .await?;
        let content = |(no, id, kind, received_at, body): (i64, String, String, i64, Vec<u8>)| {
            (EventNo(no), Content::new(id.into(), kind.into(), at(received_at), body.into()))
        };
        Ok(rows.into_iter().map(content).collect())
    }
}

impl Question<Conn> for NeededBy {
    type Answer = Vec<Needed>;

    async fn ask(&self, conn: &mut Conn) -> QueryResult<Self::Answer> {
        let after = self.after.unwrap_or((Timestamp::MIN, EndpointNo(0)));
        let after_at = after.0.as_micros();
        let rows = endpoint_health::table
            .filter(endpoint_health::wake_at.le(self.by.as_micros()))
            .filter(endpoint_health::wake_at.ge(after_at))
            .filter(endpoint_health::wake_at.gt(after_at).or(endpoint_health::endpoint.gt(after.1.0)))
            .order((endpoint_health::wake_at, endpoint_health::endpoint))
            .limit(self.limit)
            .select((
                endpoint_health::endpoint,
                endpoint_health::wake_at.assume_not_null(),
                endpoint_health::last_delivery,
            ))
            .load::<(i64, i64, i64)>(conn)
            .await?;
        let needed = |(endpoint, wake_at, newest): (i64, i64, i64)| Needed {
            endpoint: EndpointNo(endpoint),
            wake_at: at(wake_at),
            newest: DeliveryNo(newest),
        };
        Ok(rows.into_iter().map(needed).collect())
    }
}
