//! Events: post one, post many, read them.

use actix_web::web::{Data, Path, Payload};
use actix_web::{HttpRequest, HttpResponse};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::auth::Right;
use super::cursor::List;
use super::idempotency::{json, once};
use super::problem::{Answer, Code, Problem};
use super::query::Query;
use super::{Api, body, deliveries, idempotency, limits, page_body};
use crate::domain::delivery::State;
use crate::domain::event::{EventId, MAX_DATA_DEPTH, compose_body, json_depth};
use crate::domain::event_type::EventType;
use crate::domain::field_error::FieldError;
use crate::domain::ids::unique_id;
use crate::domain::time::Timestamp;
use crate::store::accept::{Accept, Accepted, NewEvent, Refused, RefusedWhy};
use crate::store::guard::StoredAnswer;
use crate::store::list::{EventFilter, EventSummary, FindEvent, ListEvents};

/// One event as a caller writes it. `data` is borrowed as it stands: its bytes are the receivers' (S2).
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Posted<'a> {
    #[serde(borrow)]
    r#type: std::borrow::Cow<'a, str>,
    #[serde(borrow)]
    data: &'a RawValue,
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    created_at: Option<String>,
    #[serde(default)]
    endpoint_ids: Option<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PostedBatch<'a> {
    #[serde(borrow)]
    events: Vec<&'a RawValue>,
}

/// The answer to one event.
#[derive(Serialize)]
struct AcceptedJson<'a> {
    id: &'a str,
    r#type: &'a str,
    created_at: Timestamp,
    received_at: Timestamp,
    duplicate: bool,
    deliveries: Vec<AcceptedDeliveryJson<'a>>,
}

#[derive(Serialize)]
struct AcceptedDeliveryJson<'a> {
    id: &'a str,
    endpoint_id: &'a str,
    state: State,
}

impl<'a> From<&'a Accepted> for AcceptedJson<'a> {
    fn from(event: &'a Accepted) -> AcceptedJson<'a> {
        let delivery = |delivery: &'a crate::store::accept::AcceptedDelivery| AcceptedDeliveryJson {
            id: &delivery.id,
            endpoint_id: &delivery.endpoint_id,
            state: delivery.state,
        };
        AcceptedJson {
            id: event.id.as_str(),
            r#type: event.event_type.as_str(),
            created_at: event.created_at,
            received_at: event.received_at,
            duplicate: event.duplicate,
            deliveries: event.deliveries.iter().map(delivery).collect(),
        }
    }
}

/// `POST /events`
pub async fn post(api: Data<Api>, request: HttpRequest, payload: Payload) -> Answer {
    let caller = api.accepting(&request, Right::Send).await?;
    body::must_be_json(&request)?;
    // The envelope of the request is not part of the event's size.
    let bytes = body::read(payload, limits::MAX_EVENT_BYTES + limits::ENVELOPE_BYTES, "MAX_EVENT_BYTES").await?;
    let keyed = idempotency::key(&api, &request, caller, &bytes)?;
    let event = read_event(&api, &bytes, "")?;
    let accept = Accept { tenant: caller.tenant, events: vec![event] };
    let compose = |reply: &Result<Vec<Accepted>, Refused>| {
        let body = one(reply.as_ref().ok()?.first()?);
        Some(StoredAnswer { status: 202, body })
    };
    match once(&api, keyed.as_ref(), accept, compose).await? {
        Err(replay) => Ok(replay),
        Ok(Ok(accepted)) => Ok(json(202, accepted.first().map(one).unwrap_or_default())),
        Ok(Err(refused)) => Err(refusal(refused, "")),
    }
}

fn one(accepted: &Accepted) -> Vec<u8> {
    serde_json::to_vec(&AcceptedJson::from(accepted)).unwrap_or_default()
}

fn many(accepted: &[Accepted]) -> Vec<u8> {
    #[derive(Serialize)]
    struct Many<'a> {
        events: Vec<AcceptedJson<'a>>,
    }
    serde_json::to_vec(&Many { events: accepted.iter().map(AcceptedJson::from).collect() }).unwrap_or_default()
}

/// `POST /events/batch`: all or none.
pub async fn post_batch(api: Data<Api>, request: HttpRequest, payload: Payload) -> Answer {
    let caller = api.accepting(&request, Right::Send).await?;
    body::must_be_json(&request)?;
    let bytes = body::read(payload, limits::MAX_BATCH_BYTES, "MAX_BATCH_BYTES").await?;
    let keyed = idempotency::key(&api, &request, caller, &bytes)?;
    let posted: PostedBatch = serde_json::from_slice(&bytes).map_err(|error| explain(&bytes, &error, ""))?;
    if !limits::BATCH_EVENTS.contains(&posted.events.len()) {
        let (least, most) = (limits::BATCH_EVENTS.start(), limits::BATCH_EVENTS.end());
        return Err(Problem::field("events", format!("must hold {least} to {most} events (BATCH_EVENTS)")));
    }
    let events: Result<Vec<NewEvent>, Problem> = posted
        .events
        .iter()
        .enumerate()
        .map(|(index, raw)| read_event(&api, raw.get().as_bytes(), &format!("events[{index}].")))
        .collect();
    let accept = Accept { tenant: caller.tenant, events: events? };
    let compose =
        |reply: &Result<Vec<Accepted>, Refused>| Some(StoredAnswer { status: 202, body: many(reply.as_ref().ok()?) });
    match once(&api, keyed.as_ref(), accept, compose).await? {
        Err(replay) => Ok(replay),
        Ok(Ok(accepted)) => Ok(json(202, many(&accepted))),
        Ok(Err(refused)) => Err(refusal(refused, &format!("events[{}].", refused.index))),
    }
}

fn refusal(refused: Refused, path: &str) -> Problem {
    let problem = match refused.why {
        RefusedWhy::Conflict => {
            let detail = format!("{path}id: an event with this id and other content exists.");
            return Problem::new(Code::Conflict, detail);
        }
        RefusedWhy::UnknownEndpoint(at) => (at, "names no endpoint"),
        RefusedWhy::NotSubscribed(at) => (at, "names an endpoint that does not subscribe to this type"),
    };
    Problem::field(format!("{path}endpoint_ids[{}]", problem.0), problem.1)
}

/// Reads and checks one event; `path` goes before field names in errors.
fn read_event(api: &Api, text: &[u8], path: &str) -> Result<NewEvent, Problem> {
    let posted: Posted = serde_json::from_slice(text).map_err(|error| explain(text, &error, path))?;
    let mut errors = Vec::new();
    let mut wrong = |name: &str, message: String| errors.push(FieldError { field: format!("{path}{name}"), message });
    let received_at = api.store.clock().now();
    let event_type = EventType::parse_from_caller(&posted.r#type).map_err(|why| wrong("type", why)).ok();
    let generated = posted.id.is_none();
    let id = posted.id.unwrap_or_else(|| unique_id("evt_", received_at, api.store.clock().random_bits()));
    let id = EventId::parse(&id).map_err(|why| wrong("id", why)).ok();
    let created_at = match &posted.created_at {
        None => Some(received_at),
        Some(text) => {
            let parsed = Timestamp::parse(text);
            if parsed.is_none() {
                wrong("created_at", "must be a time such as 2026-09-03T12:04:01Z".into());
            }
            parsed
        }
    };
    let data = posted.data.get();
    if data.len() > limits::MAX_EVENT_BYTES {
        let detail = format!("{path}data: at most {} bytes are accepted (MAX_EVENT_BYTES).", limits::MAX_EVENT_BYTES);
        return Err(Problem::new(Code::PayloadTooLarge, detail));
    }
    if json_depth(data.as_bytes()) > MAX_DATA_DEPTH {
        wrong("data", format!("may be nested at most {MAX_DATA_DEPTH} deep (MAX_DATA_DEPTH)"));
    }
    if let Some(ids) = &posted.endpoint_ids
        && !limits::ENDPOINT_IDS.contains(&ids.len())
    {
        wrong("endpoint_ids", format!("must name 1 to {} endpoints (ENDPOINT_IDS)", limits::ENDPOINT_IDS.end()));
    }
    match (event_type, id, created_at) {
        (Some(event_type), Some(id), Some(created_at)) if errors.is_empty() => {
            let (body, data_start) = compose_body(&id, &event_type, created_at, data);
            let endpoint_ids = posted.endpoint_ids;
            Ok(NewEvent { id, generated, event_type, created_at, received_at, body, data_start, endpoint_ids })
        }
        _ => Err(Problem::fields(errors)),
    }
}

/// The 400 for an event that serde could not read: read once more, to name the field.
fn explain(text: &[u8], error: &serde_json::Error, path: &str) -> Problem {
    let mut parser = serde_json::Deserializer::from_slice(text);
    let field = match path.is_empty() && serde_json::from_slice::<PostedBatch>(text).is_ok() {
        true => String::new(),
        false => match serde_path_to_error::deserialize::<_, Posted>(&mut parser) {
            Err(error) if error.path().iter().next().is_some() => error.path().to_string(),
            _ => String::new(),
        },
    };
    let message = error.to_string();
    // serde names a member that is missing, unknown or double only in its sentence.
    let named = message.split('`').nth(1).filter(|_| message.contains("field `")).unwrap_or(&field);
    Problem::field(format!("{path}{named}"), message.clone())
}

#[derive(Serialize)]
pub struct SummaryJson<'a> {
    id: &'a str,
    r#type: &'a str,
    created_at: Timestamp,
    received_at: Timestamp,
    updated_at: Timestamp,
    size: i64,
    deliveries: CountsJson,
}

#[derive(Serialize)]
struct CountsJson {
    pending: u64,
    failed: u64,
    delivered: u64,
    dead: u64,
}

fn counts(event: &EventSummary) -> CountsJson {
    let counts = event.counts;
    CountsJson { pending: counts.pending, failed: counts.failed, delivered: counts.delivered, dead: counts.dead }
}

fn summary(event: &EventSummary) -> SummaryJson<'_> {
    SummaryJson {
        id: &event.id,
        r#type: &event.event_type,
        created_at: event.created_at,
        received_at: event.received_at,
        updated_at: event.updated_at,
        size: event.size,
        deliveries: counts(event),
    }
}

/// `GET /events`
pub async fn list(api: Data<Api>, request: HttpRequest) -> Answer {
    let caller = api.caller(&request, Right::Read).await?;
    let known = ["limit", "cursor", "updated_after", "type", "state", "created_after", "created_before"];
    let query = Query::parse(&request, &known)?;
    let filter = EventFilter {
        event_type: query.text("type").map(str::to_owned),
        state: query.parsed("state", "pending, failed, delivered or dead", State::parse)?,
        created_after: query.instant("created_after")?,
        created_before: query.instant("created_before")?,
    };
    let listed = api.store.ask(ListEvents { page: query.page(caller.tenant, List::Events)?, filter }).await?;
    page_body(List::Events, &listed, |event| serde_json::to_value(summary(event)).unwrap_or_default())
}

/// `GET /events/{id}`: with the same bytes of `data` that were posted.
pub async fn get(api: Data<Api>, request: HttpRequest, id: Path<String>) -> Answer {
    let caller = api.caller(&request, Right::Read).await?;
    Query::parse(&request, &[])?;
    let question = FindEvent { tenant: caller.tenant, id: id.into_inner(), deliveries: limits::EVENT_DELIVERIES };
    let found = api.store.ask(question).await?.ok_or_else(|| Problem::not_found("event"))?;
    #[derive(Serialize)]
    struct Whole<'a> {
        id: &'a str,
        r#type: &'a str,
        created_at: Timestamp,
        received_at: Timestamp,
        updated_at: Timestamp,
        size: i64,
        counts: CountsJson,
        deliveries: Vec<deliveries::DeliveryJson<'a>>,
        data: &'a RawValue,
    }
    let text = std::str::from_utf8(&found.data).ok().and_then(|text| serde_json::from_str::<&RawValue>(text).ok());
    let data = text.ok_or_else(|| Problem::unavailable("The stored event cannot be read."))?;
    let event = &found.summary;
    let whole = Whole {
        id: &event.id,
        r#type: &event.event_type,
        created_at: event.created_at,
        received_at: event.received_at,
        updated_at: event.updated_at,
        size: event.size,
        counts: counts(event),
        deliveries: found.deliveries.iter().map(deliveries::delivery).collect(),
        data,
    };
    Ok(HttpResponse::Ok().json(whole))
}
