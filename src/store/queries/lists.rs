//! Single finds, and lists of everything but deliveries and events: attempts, endpoints, notifications, keys.

use diesel::QueryResult;
use diesel::dsl::sql;
use diesel::expression::SqlLiteral;
use diesel::prelude::*;
use diesel::sql_types::Bool;

use super::deliveries::page;
use super::views::{self, says_waiting};
use super::{Conn, RunQueryDsl};
use crate::domain::delivery::{DueReason, Line};
use crate::domain::ids::TenantNo;
use crate::store::error::corrupt;
use crate::store::list::*;
use crate::store::rows::{AttemptRow, EndpointRow, HealthRow, NotificationRow, at};
use crate::store::schema::{
    api_keys, attempts, deliveries, endpoint_health, endpoint_lines, endpoints, notifications, tenants,
};
use crate::store::sentence::{Needs, Question};
use crate::store::view::DeliveryView;

impl Question<Conn> for FindDelivery {
    type Answer = Option<DeliveryView>;

    async fn ask(&self, conn: &mut Conn) -> QueryResult<Self::Answer> {
        views::by_no(conn, self.tenant, self.delivery.0).await
    }

    fn needs(&self) -> Needs {
        Needs::Delivery(self.delivery)
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

    fn needs(&self) -> Needs {
        Needs::Nothing
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

    fn needs(&self) -> Needs {
        Needs::Nothing
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

    fn needs(&self) -> Needs {
        Needs::Endpoint(self.endpoint)
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

    fn needs(&self) -> Needs {
        Needs::Nothing
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

    fn needs(&self) -> Needs {
        Needs::Nothing
    }
}

impl Question<Conn> for FindTenant {
    type Answer = Option<TenantNo>;

    async fn ask(&self, conn: &mut Conn) -> QueryResult<Self::Answer> {
        let row = tenants::table.filter(tenants::id.eq(&self.0)).select(tenants::no).first::<i64>(conn).await;
        Ok(row.optional()?.map(TenantNo))
    }

    fn needs(&self) -> Needs {
        Needs::Nothing
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

    fn needs(&self) -> Needs {
        Needs::Nothing
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

    fn needs(&self) -> Needs {
        Needs::Nothing
    }
}
