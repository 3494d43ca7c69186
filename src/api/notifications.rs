//! `GET /notifications` and `POST /notifications/{id}/read`: the tenant's inbox.

use actix_web::HttpRequest;
use actix_web::http::StatusCode;
use actix_web::web::{Data, Path, Payload};
use serde::Serialize;

use super::auth::{Manager, Reader};
use super::cursor::List;
use super::deliveries::nothing_in;
use super::idempotency::{self, Outcome};
use super::problem::{Answer, Problem};
use super::query::Query;
use super::{Api, answer, body, limits};
use crate::domain::time::Timestamp;
use crate::store::change::MarkRead;
use crate::store::list::ListNotifications;
use crate::store::rows::{NotificationRow, at, maybe_at};

#[derive(Serialize)]
struct NotificationJson<'a> {
    id: &'a str,
    kind: &'a str,
    endpoint_id: Option<&'a str>,
    title: &'a str,
    message: &'a str,
    created_at: Timestamp,
    read_at: Option<Timestamp>,
}

impl<'a> From<&'a NotificationRow> for NotificationJson<'a> {
    fn from(row: &'a NotificationRow) -> Self {
        NotificationJson {
            id: &row.id,
            kind: &row.kind,
            endpoint_id: row.endpoint.as_deref(),
            title: &row.title,
            message: &row.message,
            created_at: at(row.created_at),
            read_at: maybe_at(row.read_at),
        }
    }
}

/// `GET /notifications`; with `unread=true` those that nobody has read.
pub async fn list(api: Data<Api>, Reader(caller): Reader, request: HttpRequest) -> Answer {
    let mut query = Query::of(&request, &["limit", "cursor", "unread"]);
    let unread = query.flag("unread").unwrap_or(false);
    let page = query.page(caller.tenant, List::Notifications);
    query.finish()?;
    let listed = api.store.ask(ListNotifications { page, unread }).await?;
    answer::page(List::Notifications, &listed, NotificationJson::from)
}

/// `POST /notifications/{id}/read`: 200 with the notification; the first reading counts.
pub async fn read(
    api: Data<Api>,
    Manager(caller): Manager,
    request: HttpRequest,
    id: Path<String>,
    payload: Payload,
) -> Answer {
    Query::none(&request)?;
    let body = body::read(&api, &request, payload, limits::REQUEST_BYTES).await?;
    let keyed = idempotency::key(&api, &request, caller, &body.bytes)?;
    nothing_in(&body.bytes)?;
    let read = MarkRead { tenant: caller.tenant, id: id.into_inner(), now: api.store.clock().now() };
    let remember = |row: &Option<NotificationRow>| {
        row.as_ref().map(|row| answer::stored(StatusCode::OK, &NotificationJson::from(row)))
    };
    match idempotency::once(&api, keyed.as_ref(), read, remember).await? {
        Outcome::Replayed(answer) => Ok(answer),
        Outcome::Done(Some(row)) => answer::ok(&NotificationJson::from(&row)),
        Outcome::Done(None) => Err(Problem::not_found("notification")),
    }
}
