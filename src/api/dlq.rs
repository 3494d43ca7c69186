//! The dead-letter queue: the dead deliveries that can still be requeued.

use actix_web::HttpRequest;
use actix_web::web::{Data, Path, Payload};
use serde_json::json;

use super::auth::Right;
use super::cursor::List;
use super::deliveries::{delivery, endpoint_filter, put_back};
use super::problem::{Answer, Problem};
use super::query::Query;
use super::{Api, body, detached, endpoints, idempotency, limits, page_body};
use crate::domain::delivery::{DeadReason, State};
use crate::domain::field_error::FieldErrors;
use crate::domain::ids::DeliveryNo;
use crate::domain::json_reader::{At, Members};
use crate::domain::time::Timestamp;
use crate::store::change::{DlqFilter, Door, RequeueSlice, SLICE};
use crate::store::list::{DeliveryFilter, ListDeliveries};

/// `GET /dlq`
pub async fn list(api: Data<Api>, request: HttpRequest) -> Answer {
    let caller = api.caller(&request, Right::Read).await?;
    let known = ["limit", "cursor", "updated_after", "endpoint_id", "event_type", "dead_reason"];
    let query = Query::parse(&request, &known)?;
    let reasons: Vec<&str> = DeadReason::ALL.iter().map(|reason| reason.as_str()).collect();
    let filter = DeliveryFilter {
        state: Some(State::Dead),
        endpoint: endpoint_filter(&api, caller.tenant, &query).await?,
        event_type: query.text("event_type").map(str::to_owned),
        dead_reason: query.parsed("dead_reason", &format!("one of {}", reasons.join(", ")), DeadReason::parse)?,
        replayable_at: Some(api.store.clock().now()),
        ..DeliveryFilter::default()
    };
    let page = query.page(caller.tenant, List::Dlq)?;
    let listed = api.store.ask(ListDeliveries { page, filter }).await?;
    page_body(List::Dlq, &listed, |view| serde_json::to_value(delivery(view)).unwrap_or_default())
}

/// `POST /dlq/{delivery_id}/requeue`
pub async fn requeue(api: Data<Api>, request: HttpRequest, id: Path<String>, payload: Payload) -> Answer {
    put_back(api, request, &id, payload, Door::Requeue).await
}

/// What a bulk requeue asks for.
struct Bulk {
    endpoint_id: Option<String>,
    filter: DlqFilter,
    limit: u32,
    dry_run: bool,
}

fn read(members: &Members<'_>, errors: &mut FieldErrors) -> Option<Bulk> {
    let given = |name: &str| members.get(name).filter(|at| !at.value.is_null());
    let mut text = |name: &str| given(name).and_then(|at| at.text(errors)).map(str::to_owned);
    let (endpoint_id, event_type, dead_reason) = (text("endpoint_id"), text("event_type"), text("dead_reason"));
    let (since, until) = (text("since"), text("until"));
    let mut instant = |name: &str, text: Option<String>| {
        let parsed = text.as_deref().map(Timestamp::parse);
        if parsed == Some(None) {
            errors.push(name, "must be a time such as 2026-09-03T12:04:01Z");
        }
        parsed.flatten()
    };
    let (since, until) = (instant("since", since), instant("until", until));
    let reason = dead_reason.as_deref().map(DeadReason::parse);
    if reason == Some(None) {
        let words: Vec<&str> = DeadReason::ALL.iter().map(|reason| reason.as_str()).collect();
        errors.push("dead_reason", format!("must be one of {}", words.join(", ")));
    }
    let limit = match given("limit") {
        Some(at) => at.whole_number(limits::BULK_REQUEUE, errors)?,
        None => limits::BULK_REQUEUE_DEFAULT,
    };
    let dry_run = match given("dry_run") {
        Some(at) => at.boolean(errors)?,
        None => false,
    };
    let filter = DlqFilter { endpoint: None, event_type, since, until, dead_reason: reason.flatten() };
    Some(Bulk { endpoint_id, filter, limit, dry_run })
}

/// `POST /dlq/requeue`: in slices between other writes, oldest first.
pub async fn requeue_many(api: Data<Api>, request: HttpRequest, payload: Payload) -> Answer {
    let caller = api.accepting(&request, Right::Manage).await?;
    let bytes = body::read(payload, limits::MAX_REQUEST_BYTES, "MAX_REQUEST_BYTES").await?;
    let keyed = idempotency::key(&api, &request, caller, &bytes)?;
    let body = body::optional_object(&bytes)?;
    let mut errors = FieldErrors::default();
    let known = ["endpoint_id", "event_type", "since", "until", "dead_reason", "limit", "dry_run"];
    let bulk = At::new(&body, "").object(&known, &mut errors).and_then(|members| read(&members, &mut errors));
    let mut bulk = errors.finish(bulk).map_err(Problem::fields)?;
    if let Some(replay) = idempotency::before(&api, keyed.as_ref()).await? {
        return Ok(replay);
    }
    if let Some(id) = &bulk.endpoint_id {
        bulk.filter.endpoint = Some(endpoints::find(&api, caller.tenant, id).await?.0.no);
    }
    detached(async move {
        let mut after = DeliveryNo(0);
        let (mut matched, mut requeued, mut disabled) = (0u64, 0u64, 0u64);
        loop {
            let left = i64::from(bulk.limit).saturating_sub_unsigned(matched);
            if left <= 0 {
                break;
            }
            let slice = RequeueSlice {
                tenant: caller.tenant,
                filter: bulk.filter.clone(),
                after,
                limit: left.min(SLICE),
                dry_run: bulk.dry_run,
                now: api.store.clock().now(),
                on_the_wire: Vec::new(),
            };
            let done = api.store.write(slice).await?;
            (matched, requeued, disabled) =
                (matched + done.matched, requeued + done.requeued, disabled + done.endpoint_disabled);
            api.engine.refresh(&done.endpoints);
            let Some(next) = done.next else { break };
            after = next;
        }
        let answer = json!({"matched": matched, "requeued": requeued, "skipped": {"endpoint_disabled": disabled}});
        let body = answer.to_string().into_bytes();
        idempotency::remember(&api, keyed.as_ref(), 202, body).await
    })
    .await
}
