//! Endpoints: create, list, read, edit, delete. What else can be done with one is beside it: [`actions`], [`secret`],
//! [`ping`], [`status`].

pub mod actions;
pub mod ping;
pub mod secret;
mod shown;
pub mod status;
pub(crate) mod written;

use actix_web::http::StatusCode;
use actix_web::web::{Data, Path, Payload};
use actix_web::{HttpRequest, HttpResponse};

use super::auth::{Caller, Manager, Reader};
use super::cursor::List;
use super::idempotency::{self, Outcome};
use super::problem::{Answer, Problem};
use super::query::Query;
use super::turns::Turn;
use super::{Api, answer, body, detached, limits};
use crate::domain::endpoint::Status;
use crate::domain::ids::{EndpointNo, TenantNo, unique_id};
use crate::domain::secret::SigningSecret;
use crate::store::change::{CreateEndpoint, DeleteEndpoint, EditEndpoint};
use crate::store::endpoint_record::EndpointRecord;
use crate::store::list::{EndpointFound, FindEndpoint, ListEndpoints, Listed};
use crate::store::rows::EndpointRow;
use shown::{EndpointJson, Secret};
use written::{Birth, Edit};

pub use written::Rules;

/// The endpoint with this id, if it is the caller's.
async fn find(api: &Api, tenant: TenantNo, id: &str) -> Result<EndpointFound, Problem> {
    let found = api.store.ask(FindEndpoint { tenant, id: id.to_owned() }).await?;
    found.ok_or_else(|| Problem::not_found("endpoint"))
}

async fn find_record(api: &Api, tenant: TenantNo, id: &str) -> Result<EndpointRecord, Problem> {
    Ok(api.store.decode(find(api, tenant, id).await?.endpoint)?)
}

/// The endpoint, and the right to change it: nobody else does until the turn ends.
async fn take_turn(api: &Api, tenant: TenantNo, id: &str) -> Result<(EndpointNo, Turn), Problem> {
    let no = EndpointNo(find(api, tenant, id).await?.endpoint.no);
    Ok((no, api.turns.take(no).await))
}

/// An answer with the endpoint of this row.
fn shown(api: &Api, status: StatusCode, row: EndpointRow) -> Answer {
    answer::json(status, &EndpointJson::new(&api.store.decode(row)?, &api.rules, Secret::NotPart))
}

/// `POST /endpoints`: 201, with the secret, this once.
pub async fn create(api: Data<Api>, Manager(caller): Manager, request: HttpRequest, payload: Payload) -> Answer {
    Query::none(&request)?;
    let body = body::read(&api, &request, payload, limits::REQUEST_BYTES).await?;
    let keyed = idempotency::key(&api, &request, caller, &body.bytes)?;
    if let Some(answer) = idempotency::before(&api, keyed.as_ref()).await? {
        return Ok(answer);
    }
    let clock = api.store.clock();
    let now = clock.now();
    let birth = Birth {
        tenant: caller.tenant,
        id: unique_id("ep_", now, clock.random_bits()),
        secret: SigningSecret::generate(clock.random_key()),
        now,
    };
    let record = written::create(&body.bytes, &api.rules, birth)?;
    let create = CreateEndpoint(api.store.encode(&record));
    let remember = {
        let api = api.clone();
        move |row: &EndpointRow| {
            let record = api.store.decode(row.clone()).ok()?;
            Some(answer::stored(StatusCode::CREATED, &EndpointJson::new(&record, &api.rules, Secret::Hidden)))
        }
    };
    match idempotency::once(&api, keyed.as_ref(), create, remember).await? {
        Outcome::Replayed(answer) => Ok(answer),
        Outcome::Done(row) => {
            let record = api.store.decode(row)?;
            answer::json(StatusCode::CREATED, &EndpointJson::new(&record, &api.rules, Secret::Shown))
        }
    }
}

/// `GET /endpoints`.
pub async fn list(api: Data<Api>, Reader(caller): Reader, request: HttpRequest) -> Answer {
    let mut query = Query::of(&request, &["limit", "cursor", "updated_after", "status", "event_type"]);
    let status = query.word("status", Status::ALL, Status::as_str);
    let wants = query.event_type("event_type");
    let page = query.page(caller.tenant, List::Endpoints);
    query.finish()?;
    let Listed { rows, more, end } = api.store.ask(ListEndpoints { page, status, wants }).await?;
    let records = rows.into_iter().map(|row| api.store.decode(row)).collect::<Result<Vec<_>, _>>()?;
    let listed = Listed { rows: records, more, end };
    answer::page(List::Endpoints, &listed, |record| EndpointJson::new(record, &api.rules, Secret::NotPart))
}

/// `GET /endpoints/{id}`.
pub async fn get(api: Data<Api>, Reader(caller): Reader, request: HttpRequest, id: Path<String>) -> Answer {
    Query::none(&request)?;
    shown(&api, StatusCode::OK, find(&api, caller.tenant, &id).await?.endpoint)
}

/// `PATCH /endpoints/{id}`: answers when no attempt starts under the old state any more (S26).
pub async fn edit(
    api: Data<Api>,
    Manager(caller): Manager,
    request: HttpRequest,
    id: Path<String>,
    payload: Payload,
) -> Answer {
    Query::none(&request)?;
    let body = body::read(&api, &request, payload, limits::REQUEST_BYTES).await?;
    detached(async move {
        let (_, _turn) = take_turn(&api, caller.tenant, &id).await?;
        for _ in 0..limits::EDIT_TRIES {
            let before = find_record(&api, caller.tenant, &id).await?;
            let edit = written::edit(&body.bytes, &before, &api.rules)?;
            if !edit.changes {
                return answer::ok(&EndpointJson::new(&before, &api.rules, Secret::NotPart));
            }
            if let Some(row) = api.store.write(sentence(&api, &edit)).await? {
                api.engine.changed(before.no).await;
                return shown(&api, StatusCode::OK, row);
            }
            // Between reading and writing a verdict has changed it (S14).
        }
        Err(changes_too_fast())
    })
    .await
}

fn sentence(api: &Api, edit: &Edit) -> EditEndpoint {
    EditEndpoint {
        row: api.store.encode(&edit.record),
        now: api.store.clock().now(),
        new_url: edit.new_url,
        close_circuit: edit.close_circuit,
    }
}

fn changes_too_fast() -> Problem {
    Problem::unavailable("The endpoint changes faster than it can be edited.")
}

/// `DELETE /endpoints/{id}`: 204 when no attempt starts any more (S27).
pub async fn delete(api: Data<Api>, Manager(caller): Manager, request: HttpRequest, id: Path<String>) -> Answer {
    Query::none(&request)?;
    detached(async move { delete_now(&api, caller, &id).await }).await
}

async fn delete_now(api: &Api, caller: Caller, id: &str) -> Answer {
    let (endpoint, _turn) = take_turn(api, caller.tenant, id).await?;
    let frozen = api.engine.freeze(endpoint).await.map_err(|_| Problem::draining())?;
    let now = api.store.clock().now();
    let deleted = api.store.write(DeleteEndpoint { endpoint, tenant: caller.tenant, now }).await;
    frozen.done().await;
    match deleted? {
        true => Ok(HttpResponse::NoContent().finish()),
        false => Err(Problem::not_found("endpoint")),
    }
}
