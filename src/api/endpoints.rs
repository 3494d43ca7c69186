//! Endpoints: create, read, edit, delete, and what is done with one.

use std::sync::Arc;

use actix_web::web::{Data, Path, Payload};
use actix_web::{HttpRequest, HttpResponse};
use serde_json::{Value, json};

use super::auth::{Caller, Right};
use super::cursor::List;
use super::deliveries::attempt_json;
use super::idempotency::{self, once};
use super::problem::{Answer, Code, Problem};
use super::query::Query;
use super::{Api, body, detached, endpoint_json, limits, page_body};
use crate::domain::content::Content;
use crate::domain::endpoint::Status;
use crate::domain::event::{EventId, compose_body};
use crate::domain::event_type::EventType;
use crate::domain::ids::{EndpointNo, TenantNo, unique_id};
use crate::domain::secret::SigningSecret;
use crate::engine::Ping;
use crate::store::change::{CreateEndpoint, DeleteEndpoint, Disable, EditEndpoint, Enable};
use crate::store::endpoint_record::EndpointRecord;
use crate::store::guard::StoredAnswer;
use crate::store::list::{EndpointFound, FindEndpoint, ListEndpoints};
use crate::store::rows::EndpointRow;
use crate::store::sentence::Sentence;
use crate::store::sqlite;

/// The endpoint with this id, or 404.
pub async fn find(api: &Api, tenant: TenantNo, id: &str) -> Result<(EndpointRecord, EndpointFound), Problem> {
    let found = api.store.ask(FindEndpoint { tenant, id: id.to_owned() }).await?;
    let found = found.ok_or_else(|| Problem::not_found("endpoint"))?;
    Ok((api.store.decode(found.endpoint.clone())?, found))
}

fn stored(status: u16, body: &Value) -> StoredAnswer {
    StoredAnswer { status, body: body.to_string().into_bytes() }
}

/// `POST /endpoints`
pub async fn create(api: Data<Api>, request: HttpRequest, payload: Payload) -> Answer {
    let caller = api.accepting(&request, Right::Manage).await?;
    body::must_be_json(&request)?;
    let bytes = body::read(payload, limits::MAX_REQUEST_BYTES, "MAX_REQUEST_BYTES").await?;
    let keyed = idempotency::key(&api, &request, caller, &bytes)?;
    let clock = api.store.clock();
    let now = clock.now();
    let birth = endpoint_json::Birth {
        tenant: caller.tenant,
        id: unique_id("ep_", now, clock.random_bits()),
        secret: SigningSecret::generate(clock.random_key()),
        now,
    };
    let record = endpoint_json::create(&body::object(&bytes)?, &api.rules, birth)?;
    let secret = record.secrets.current().as_str().to_owned();
    let compose = remembered(&api, 201, |record| {
        let mut answer = endpoint_json::answer(record, None);
        answer["secret"] = Value::Null;
        answer
    });
    let create = CreateEndpoint(api.store.encode(&record));
    match once(&api, keyed.as_ref(), create, move |row| compose(Some(row))).await? {
        Err(replay) => Ok(replay),
        Ok(row) => {
            let record = api.store.decode(row)?;
            Ok(HttpResponse::Created().json(endpoint_json::answer(&record, Some(&secret))))
        }
    }
}

/// Makes the remembered answer of an action from the row it left; nothing is remembered if there is no row.
fn remembered(
    api: &Api,
    status: u16,
    shown: impl Fn(&EndpointRecord) -> Value + Send + Sync + 'static,
) -> impl Fn(Option<&EndpointRow>) -> Option<StoredAnswer> + Send + Sync + 'static {
    let store = api.store.clone();
    move |row| {
        let record = store.decode(row?.clone()).ok()?;
        Some(stored(status, &shown(&record)))
    }
}

/// `GET /endpoints`
pub async fn list(api: Data<Api>, request: HttpRequest) -> Answer {
    let caller = api.caller(&request, Right::Read).await?;
    let query = Query::parse(&request, &["limit", "cursor", "updated_after", "status", "event_type"])?;
    let status = query.parsed("status", "enabled, disabled or auto_disabled", Status::parse)?;
    let event_type = query.text("event_type");
    let page = query.page(caller.tenant, List::Endpoints)?;
    let mut listed = api.store.ask(ListEndpoints { page, status }).await?;
    let rows = std::mem::take(&mut listed.rows);
    let records: Result<Vec<EndpointRecord>, _> = rows.into_iter().map(|row| api.store.decode(row)).collect();
    let records = records?.into_iter().filter(|record| event_type.is_none_or(|kind| record.event_types.matches(kind)));
    let listed = crate::store::list::Listed { rows: records.collect(), more: listed.more, end: listed.end };
    page_body(List::Endpoints, &listed, |record| endpoint_json::answer(record, None))
}

/// `GET /endpoints/{id}`
pub async fn get(api: Data<Api>, request: HttpRequest, id: Path<String>) -> Answer {
    let caller = api.caller(&request, Right::Read).await?;
    Query::parse(&request, &[])?;
    let (record, _) = find(&api, caller.tenant, &id).await?;
    Ok(HttpResponse::Ok().json(endpoint_json::answer(&record, None)))
}

/// How often an edit is tried again when the endpoint was changed between reading and writing.
const EDIT_TRIES: usize = 20;

/// `PATCH /endpoints/{id}`
pub async fn edit(api: Data<Api>, request: HttpRequest, id: Path<String>, payload: Payload) -> Answer {
    let caller = api.accepting(&request, Right::Manage).await?;
    body::must_be_json(&request)?;
    let bytes = body::read(payload, limits::MAX_REQUEST_BYTES, "MAX_REQUEST_BYTES").await?;
    let patch = body::object(&bytes)?;
    let how = move |api: &Api, before: &EndpointRecord| endpoint_json::edit(&patch, before, &api.rules);
    let shown = |record: &EndpointRecord| endpoint_json::answer(record, None);
    match change(&api, caller, &id, None, how, shown).await? {
        Err(replay) => Ok(replay),
        Ok(record) => Ok(HttpResponse::Ok().json(shown(&record))),
    }
}

/// Reads, changes and writes an endpoint until nobody came between; then nothing starts under the old state (S26).
/// `shown` is what a request with a key is answered when it is repeated.
async fn change(
    api: &Data<Api>,
    caller: Caller,
    id: &str,
    keyed: Option<idempotency::Keyed>,
    how: impl Fn(&Api, &EndpointRecord) -> Result<endpoint_json::Edit, Problem> + 'static,
    shown: impl Fn(&EndpointRecord) -> Value + Clone + Send + Sync + 'static,
) -> Result<Result<EndpointRecord, HttpResponse>, Problem> {
    let (api, id) = (api.clone(), id.to_owned());
    detached(async move {
        for _ in 0..EDIT_TRIES {
            let (before, _) = find(&api, caller.tenant, &id).await?;
            let edit = how(&api, &before)?;
            let write = EditEndpoint {
                row: api.store.encode(&edit.record),
                now: api.store.clock().now(),
                new_url: edit.new_url,
                close_circuit: edit.close_circuit,
            };
            let compose = remembered(&api, 200, shown.clone());
            match once(&api, keyed.as_ref(), write, move |row: &Option<EndpointRow>| compose(row.as_ref())).await? {
                Err(replay) => return Ok(Err(replay)),
                Ok(Some(row)) => {
                    api.engine.changed(before.no).await;
                    return Ok(Ok(api.store.decode(row)?));
                }
                Ok(None) => {}
            }
        }
        Err(Problem::unavailable("The endpoint is being changed by others; try again."))
    })
    .await
}

/// `DELETE /endpoints/{id}`
pub async fn delete(api: Data<Api>, request: HttpRequest, id: Path<String>) -> Answer {
    let caller = api.accepting(&request, Right::Manage).await?;
    let (record, _) = find(&api, caller.tenant, &id).await?;
    let deleted = detached(async move {
        let frozen = api.engine.freeze(record.no).await.map_err(|_| draining())?;
        let now = api.store.clock().now();
        let delete = DeleteEndpoint { endpoint: record.no, tenant: caller.tenant, now };
        let deleted = api.store.write(delete).await;
        frozen.done().await;
        Ok(deleted?)
    })
    .await?;
    match deleted {
        true => Ok(HttpResponse::NoContent().finish()),
        false => Err(Problem::not_found("endpoint")),
    }
}

fn draining() -> Problem {
    Problem::unavailable("This process is shutting down.")
}

/// The body of an action, which may be empty, with its idempotency key.
async fn action(
    api: &Api,
    request: &HttpRequest,
    payload: Payload,
) -> Result<(Caller, Value, Option<idempotency::Keyed>), Problem> {
    let caller = api.accepting(request, Right::Manage).await?;
    let bytes = body::read(payload, limits::MAX_REQUEST_BYTES, "MAX_REQUEST_BYTES").await?;
    let keyed = idempotency::key(api, request, caller, &bytes)?;
    Ok((caller, body::optional_object(&bytes)?, keyed))
}

/// Refuses members where there are none.
pub fn nothing_in(body: &Value) -> Result<(), Problem> {
    match body.as_object().and_then(|object| object.keys().next()) {
        Some(name) => Err(Problem::field(name, "is not known here: this action takes no members")),
        None => Ok(()),
    }
}

/// `POST /endpoints/{id}/enable`
pub async fn enable(api: Data<Api>, request: HttpRequest, id: Path<String>, payload: Payload) -> Answer {
    let (caller, body, keyed) = action(&api, &request, payload).await?;
    nothing_in(&body)?;
    let (record, _) = find(&api, caller.tenant, &id).await?;
    detached(async move {
        let enable = Enable { endpoint: record.no, tenant: caller.tenant, now: api.store.clock().now() };
        let done = act(&api, keyed.as_ref(), enable).await;
        api.engine.changed(record.no).await;
        done
    })
    .await
}

/// `POST /endpoints/{id}/disable`
pub async fn disable(api: Data<Api>, request: HttpRequest, id: Path<String>, payload: Payload) -> Answer {
    let (caller, body, keyed) = action(&api, &request, payload).await?;
    let reason = endpoint_json::reason(&body)?;
    let (record, _) = find(&api, caller.tenant, &id).await?;
    detached(async move {
        let frozen = api.engine.freeze(record.no).await.map_err(|_| draining())?;
        let (now, spared) = (api.store.clock().now(), frozen.spared.clone());
        let disable = Disable { endpoint: record.no, tenant: caller.tenant, reason, now, spared };
        let done = act(&api, keyed.as_ref(), disable).await;
        frozen.done().await;
        done
    })
    .await
}

/// Carries an action out, once per key, and answers with the endpoint as it stands then.
async fn act<S>(api: &Api, keyed: Option<&idempotency::Keyed>, sentence: S) -> Answer
where
    S: Sentence<sqlite::Conn, Reply = Option<EndpointRow>>,
{
    let compose = remembered(api, 200, |record| endpoint_json::answer(record, None));
    match once(api, keyed, sentence, move |row: &Option<EndpointRow>| compose(row.as_ref())).await? {
        Err(replay) => Ok(replay),
        Ok(None) => Err(Problem::not_found("endpoint")),
        Ok(Some(row)) => Ok(HttpResponse::Ok().json(endpoint_json::answer(&api.store.decode(row)?, None))),
    }
}

/// `POST /endpoints/{id}/ping`: one signed event now, outside any queue; also for a disabled endpoint.
pub async fn ping(api: Data<Api>, request: HttpRequest, id: Path<String>, payload: Payload) -> Answer {
    let (caller, body, keyed) = action(&api, &request, payload).await?;
    nothing_in(&body)?;
    if let Some(replay) = idempotency::before(&api, keyed.as_ref()).await? {
        return Ok(replay);
    }
    let (record, _) = find(&api, caller.tenant, &id).await?;
    let clock = api.store.clock();
    let now = clock.now();
    let text = unique_id("evt_", now, clock.random_bits());
    let (event_id, kind) = (EventId::parse(&text), EventType::parse("posthaste.ping"));
    let (Ok(event_id), Ok(kind)) = (event_id, kind) else { return Err(Problem::unavailable("No ping could be made.")) };
    let (content, _) = compose_body(&event_id, &kind, now, &json!({"endpoint_id": &*record.id}).to_string());
    let content = Content::new(event_id.as_str().into(), kind.as_str().into(), now, content);
    let delivery_id = unique_id("dlv_", now, clock.random_bits());
    let ping = Ping { record: Arc::new(record), content, delivery_id };
    let attempt = api.engine.ping(ping).await;
    let id = unique_id("att_", now, clock.random_bits());
    let body = attempt_json::of_ping(&id, &attempt).to_string().into_bytes();
    idempotency::remember(&api, keyed.as_ref(), 200, body).await
}

/// `GET /endpoints/{id}/secret`: the newest one.
pub async fn secret(api: Data<Api>, request: HttpRequest, id: Path<String>) -> Answer {
    let caller = api.caller(&request, Right::Manage).await?;
    Query::parse(&request, &[])?;
    let (record, _) = find(&api, caller.tenant, &id).await?;
    let overlap = record.secrets.overlap_ends_at(api.store.clock().now());
    let body = json!({"secret": record.secrets.current().as_str(), "overlap_ends_at": overlap});
    Ok(HttpResponse::Ok().insert_header(("cache-control", "no-store")).json(body))
}

/// `POST /endpoints/{id}/secret/rotate`
pub async fn rotate(api: Data<Api>, request: HttpRequest, id: Path<String>, payload: Payload) -> Answer {
    let (caller, body, keyed) = action(&api, &request, payload).await?;
    let (given, overlap) = endpoint_json::rotation(&body)?;
    let now = api.store.clock().now();
    let new = given.unwrap_or_else(|| SigningSecret::generate(api.store.clock().random_key()));
    let how = move |_: &Api, before: &EndpointRecord| {
        let secrets = before.secrets.rotate(new.clone(), overlap, now).map_err(|_| {
            let most = crate::domain::secret::MAX_VALID;
            Problem::new(Code::Conflict, format!("At most {most} secrets may be valid at once (MAX_VALID)."))
        })?;
        let record = EndpointRecord { secrets, ..before.clone() };
        Ok(endpoint_json::Edit { record, new_url: false, close_circuit: false })
    };
    let shown = move |record: &EndpointRecord, secret: Option<&str>| json!({"secret": secret, "overlap_ends_at": record.secrets.overlap_ends_at(now)});
    match change(&api, caller, &id, keyed, how, move |record| shown(record, None)).await? {
        Err(replay) => Ok(replay),
        Ok(record) => {
            let body = shown(&record, Some(record.secrets.current().as_str()));
            Ok(HttpResponse::Ok().insert_header(("cache-control", "no-store")).json(body))
        }
    }
}

/// `GET /endpoints/{id}/status`: live, from the actor and the rows.
pub async fn status(api: Data<Api>, request: HttpRequest, id: Path<String>) -> Answer {
    let caller = api.caller(&request, Right::Read).await?;
    Query::parse(&request, &[])?;
    let (record, found) = find(&api, caller.tenant, &id).await?;
    let live = api.engine.live(EndpointNo(found.endpoint.no)).await.unwrap_or_default();
    let next = api.next_retry(&record, &found).await?;
    Ok(HttpResponse::Ok().json(super::status::answer(&record, &found, &live, next, api.store.clock().now())))
}
