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
use crate::store::load::{LoadContents, LoadEndpoint, LoadLines, LoadWindow, Needed, NeededBy, Positions, Snapshot};
use crate::store::rows::{DeliveryRow, EndpointRow, HealthRow, at, maybe_at};
use crate::store::schema::{deliveries, endpoint_health, endpoint_lines, endpoints, events, meta};
use crate::store::sentence::{Needs, Question};

/// Of an endpoint's health: version, newest delivery, when its actor is needed.
type State = (i64, i64, Option<i64>);

/// An endpoint's row as the directory keeps it.
pub fn entry(row: &EndpointRow, (health_version, last_delivery, wake_at): State) -> QueryResult<Entry> {
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
        wake_at: maybe_at(wake_at),
    })
}

/// Every endpoint that is not deleted.
pub async fn directory(conn: &mut Conn) -> QueryResult<Directory> {
    let rows = endpoints::table
        .inner_join(endpoint_health::table.on(endpoint_health::endpoint.eq(endpoints::no)))
        .filter(endpoints::deleted_at.is_null())
        .select((
            EndpointRow::as_select(),
            (endpoint_health::version, endpoint_health::last_delivery, endpoint_health::wake_at),
        ))
        .load::<(EndpointRow, State)>(conn)
        .await?;
    let mut directory = Directory::default();
    for (row, state) in rows {
        directory.insert(EndpointNo(row.no), entry(&row, state)?);
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

    fn needs(&self) -> Needs {
        if self.positions.is_empty() { Needs::Nothing } else { Needs::Endpoint(self.endpoint) }
    }
}

impl Question<Conn> for LoadLines {
    type Answer = Loaded;

    async fn ask(&self, conn: &mut Conn) -> QueryResult<Self::Answer> {
        let LoadWindow { endpoint, cut, limit } = self.window;
        let through = match self.filed_through {
            Some(filed_through) => filed_through.0,
            None => {
                let through = (meta::written_through, meta::filed_through);
                let (written, filed) = meta::table.find(1).select(through).first::<(i64, i64)>(conn).await?;
                written.min(filed)
            }
        };
        let line = async |conn: &mut Conn, lines: [Line; 2]| {
            let rows = endpoint_lines::table
                .inner_join(deliveries::table)
                .filter(endpoint_lines::endpoint.eq(endpoint.0))
                .filter(endpoint_lines::line.between(lines[0].code(), lines[1].code()))
                .filter(endpoint_lines::delivery.le(through))
                .filter(says_waiting())
                .filter(deliveries::cut.eq(cut as i32))
                .order((endpoint_lines::line, endpoint_lines::order_at, endpoint_lines::delivery))
                .limit(limit as i64 + 1)
                .select(DeliveryRow::as_select())
                .load::<DeliveryRow>(conn)
                .await?;
            let complete = rows.len() <= limit;
            let waiting = rows.iter().take(limit).map(DeliveryRow::waiting).collect();
            QueryResult::Ok((waiting, complete))
        };
        let (first, first_complete) = line(conn, [Line::First; 2]).await?;
        let (second, second_complete) = line(conn, [Line::Single, Line::Retry]).await?;
        Ok(Loaded { first, first_complete, second, second_complete, read_through: DeliveryNo(through) })
    }

    fn needs(&self) -> Needs {
        Needs::Nothing
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

    fn needs(&self) -> Needs {
        Needs::Nothing
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

    fn needs(&self) -> Needs {
        Needs::Nothing
    }
}
