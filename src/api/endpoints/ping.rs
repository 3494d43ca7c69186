//! `POST /endpoints/{id}/ping`: one signed `posthaste.ping` now, through the same transport and the same judgement of
//! addresses as every attempt (C25). It is stored nowhere and means nothing for streaks, rules or status (S13, C80). The answer
//! is 200 with the attempt whatever came of it, a fault of ours (S6) included: the caller asked how it went.

use std::sync::Arc;

use actix_web::HttpRequest;
use actix_web::http::StatusCode;
use actix_web::web::{Data, Path, Payload};
use serde_json::json;

use super::find_record;
use crate::api::attempts::AttemptJson;
use crate::api::auth::{Caller, Manager};
use crate::api::deliveries::nothing_in;
use crate::api::idempotency::{self, Keyed};
use crate::api::problem::{Answer, Code, Problem};
use crate::api::query::Query;
use crate::api::{Api, answer, body, detached, limits};
use crate::domain::content::Content;
use crate::domain::event::{EventId, compose_body};
use crate::domain::event_type::EventType;
use crate::domain::ids::unique_id;
use crate::engine::Ping;

/// The type of its event.
const PING: &str = "posthaste.ping";

pub async fn ping(
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
    detached(async move {
        match idempotency::before(&api, keyed.as_ref()).await? {
            Some(answer) => Ok(answer),
            None => ping_now(&api, caller, &id, keyed.as_ref()).await,
        }
    })
    .await
}

async fn ping_now(api: &Api, caller: Caller, id: &str, keyed: Option<&Keyed>) -> Answer {
    let record = find_record(api, caller.tenant, id).await?;
    let busy = || Problem::new(Code::RateLimited, format!("{} test pings are under way.", limits::PINGS));
    let _place = api.pings.try_acquire().map_err(|_| busy())?;
    let clock = api.store.clock();
    let now = clock.now();
    let event_id = EventId::parse(&unique_id("evt_", now, clock.random_bits()));
    let (Ok(event_id), Ok(event_type)) = (event_id, EventType::parse(PING)) else {
        return Err(Problem::unavailable("No ping could be made."));
    };
    let data = json!({"endpoint_id": &*record.id}).to_string();
    let (content, _) = compose_body(&event_id, &event_type, now, &data);
    let ping = Ping {
        record: Arc::new(record),
        content: Content::new(event_id.as_str().into(), event_type.as_str().into(), now, content),
        // Of another length than a delivery's, so it is none.
        delivery_id: unique_id("dlv_", now, clock.random_bits()),
    };
    let attempt = api.engine.ping(ping).await;
    let shown = AttemptJson::ping(unique_id("att_", now, clock.random_bits()), &attempt);
    idempotency::answer_and_remember(api, keyed, StatusCode::OK, answer::body(&shown)).await
}
