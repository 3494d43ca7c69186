//! `POST /events`, `POST /events/batch`, `GET /events`, `GET /events/{id}`.

pub(crate) mod posted;
mod shown;

use actix_web::HttpRequest;
use actix_web::http::StatusCode;
use actix_web::web::{Data, Path, Payload};

use super::answer;
use super::auth::{Reader, Sender};
use super::body::{self, Body};
use super::cursor::List;
use super::idempotency::{self, Outcome};
use super::problem::{Answer, Code, Problem};
use super::query::Query;
use super::{Api, limits};
use crate::domain::delivery::State;
use crate::store::accept::{Accept, Accepted, Refused, RefusedWhy};
use crate::store::list::{EventFilter, FindEvent, ListEvents};
use shown::{AcceptedBatchJson, AcceptedJson, EventJson, SummaryJson};

/// `POST /events`: 202 when the event and its deliveries are on disk (S1).
pub async fn post(api: Data<Api>, Sender(caller): Sender, request: HttpRequest, payload: Payload) -> Answer {
    Query::none(&request)?;
    let body = body::read(&api, &request, payload, limits::EVENT_BYTES).await?;
    let keyed = idempotency::key(&api, &request, caller, &body.bytes)?;
    let event = parsed(&api, body, posted::one).await?;
    let accept = Accept { tenant: caller.tenant, events: vec![event], max_deliveries: usize::MAX };
    let remember = |reply: &Result<Vec<Accepted>, Refused>| {
        reply.as_ref().ok()?.first().map(|event| answer::stored(StatusCode::ACCEPTED, &AcceptedJson::from(event)))
    };
    match idempotency::once(&api, keyed.as_ref(), accept, remember).await? {
        Outcome::Replayed(answer) => Ok(answer),
        Outcome::Done(Ok(accepted)) => answer::json(StatusCode::ACCEPTED, &accepted.first().map(AcceptedJson::from)),
        Outcome::Done(Err(refused)) => Err(refusal(refused, "")),
    }
}

/// `POST /events/batch`: all or none.
pub async fn post_batch(api: Data<Api>, Sender(caller): Sender, request: HttpRequest, payload: Payload) -> Answer {
    Query::none(&request)?;
    let body = body::read(&api, &request, payload, limits::BATCH_BYTES).await?;
    let keyed = idempotency::key(&api, &request, caller, &body.bytes)?;
    let events = parsed(&api, body, posted::batch).await?;
    let accept = Accept { tenant: caller.tenant, events, max_deliveries: limits::BATCH_DELIVERIES };
    let remember = |reply: &Result<Vec<Accepted>, Refused>| {
        reply.as_ref().ok().map(|events| answer::stored(StatusCode::ACCEPTED, &AcceptedBatchJson::from(&events[..])))
    };
    match idempotency::once(&api, keyed.as_ref(), accept, remember).await? {
        Outcome::Replayed(answer) => Ok(answer),
        Outcome::Done(Ok(accepted)) => answer::json(StatusCode::ACCEPTED, &AcceptedBatchJson::from(&accepted[..])),
        Outcome::Done(Err(refused)) => Err(refusal(refused, &format!("events[{}].", refused.index))),
    }
}

/// Parses a body; a large one not on the thread that serves other callers.
async fn parsed<T: Send + 'static>(
    api: &Api,
    body: Body,
    parse: fn(&[u8], &crate::clock::Clock) -> Result<T, Problem>,
) -> Result<T, Problem> {
    let clock = api.store.clock();
    if body.bytes.len() <= limits::PARSE_HERE {
        return parse(&body.bytes, clock);
    }
    let clock = clock.clone();
    let parsed = actix_web::web::block(move || parse(&body.bytes, &clock)).await;
    parsed.unwrap_or_else(|_| Err(Problem::draining()))
}

/// `path` is the member's, with its dot.
fn refusal(refused: Refused, path: &str) -> Problem {
    match refused.why {
        RefusedWhy::Conflict => {
            let message = "There is an event with this id and another type or other data.";
            Problem::new(Code::Conflict, message).blaming(format!("{path}id"), message)
        }
        RefusedWhy::UnknownEndpoint(at) => {
            Problem::field(format!("{path}endpoint_ids[{at}]"), "There is no such endpoint.")
        }
        RefusedWhy::NotSubscribed(at) => {
            let message = "This endpoint does not subscribe to events of this type.";
            Problem::field(format!("{path}endpoint_ids[{at}]"), message)
        }
        RefusedWhy::TooManyDeliveries => {
            let message = format!(
                "A batch has at most {} deliveries, one for each event and endpoint, and this one would have more. Split \
                 it: its first {} can go together.",
                limits::BATCH_DELIVERIES,
                refused.index.max(1)
            );
            Problem::new(Code::PayloadTooLarge, &*message).blaming("events", &*message)
        }
    }
}

/// `GET /events`.
pub async fn list(api: Data<Api>, Reader(caller): Reader, request: HttpRequest) -> Answer {
    let known = ["limit", "cursor", "updated_after", "type", "state", "created_after", "created_before"];
    let mut query = Query::of(&request, &known);
    let (created_after, created_before) = query.created();
    let filter = EventFilter {
        event_type: query.event_type("type").map(|event_type| event_type.as_str().to_owned()),
        state: query.word("state", State::ALL, State::as_str),
        created_after,
        created_before,
    };
    let page = query.page(caller.tenant, List::Events);
    query.finish()?;
    let listed = api.store.ask(ListEvents { page, filter }).await?;
    answer::page(List::Events, &listed, SummaryJson::from)
}

/// `GET /events/{id}`: with the very bytes of `data` that were posted, and its first deliveries.
pub async fn get(api: Data<Api>, Reader(caller): Reader, request: HttpRequest, id: Path<String>) -> Answer {
    Query::none(&request)?;
    let question = FindEvent { tenant: caller.tenant, id: id.into_inner(), deliveries: limits::EVENT_DELIVERIES };
    let found = api.store.event(question).await?.ok_or_else(|| Problem::not_found("event"))?;
    let event = EventJson::new(&found).ok_or_else(|| Problem::unavailable("The stored event cannot be read."))?;
    answer::ok(&event)
}
