//! The dead-letter queue: `GET /dlq`, `POST /dlq/{delivery_id}/requeue`, and `POST /dlq/requeue` for many at once.

use actix_web::HttpRequest;
use actix_web::http::StatusCode;
use actix_web::web::{Data, Path, Payload};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::auth::{Caller, Manager, Reader};
use super::cursor::List;
use super::deliveries::{DeliveryJson, endpoint, put_back};
use super::idempotency::{self, Keyed, Known};
use super::json::{self, Document};
use super::problem::{Answer, Problem};
use super::query::Query;
use super::{Api, answer, body, detached, limits};
use crate::domain::delivery::{DeadReason, State};
use crate::domain::event_type::EventType;
use crate::domain::field_error::FieldErrors;
use crate::domain::ids::DeliveryNo;
use crate::domain::json_reader::{At, Members};
use crate::domain::time::Timestamp;
use crate::store::change::{DlqFilter, Door, RequeueSlice, RequeuedSlice};
use crate::store::guard::{StoredAnswer, UNDER_WAY};
use crate::store::list::{DeliveryFilter, FindEndpoint, ListDeliveries};

/// `GET /dlq`: the dead ones that can still be requeued.
pub async fn list(api: Data<Api>, Reader(caller): Reader, request: HttpRequest) -> Answer {
    let known = ["limit", "cursor", "updated_after", "endpoint_id", "event_type", "dead_reason"];
    let mut query = Query::of(&request, &known);
    let endpoint_id = query.id("endpoint_id");
    let filter = DeliveryFilter {
        state: Some(State::Dead),
        event_type: query.event_type("event_type").map(|event_type| event_type.as_str().to_owned()),
        dead_reason: query.word("dead_reason", DeadReason::ALL, DeadReason::as_str),
        replayable_at: Some(api.store.clock().now()),
        ..DeliveryFilter::default()
    };
    let page = query.page(caller.tenant, List::Dlq);
    query.finish()?;
    let filter = DeliveryFilter { endpoint: endpoint(&api, caller, endpoint_id).await?, ..filter };
    let listed = api.store.ask(ListDeliveries { page, filter }).await?;
    answer::page(List::Dlq, &listed, DeliveryJson::from)
}

/// `POST /dlq/{delivery_id}/requeue`.
pub async fn requeue(
    api: Data<Api>,
    Manager(caller): Manager,
    request: HttpRequest,
    id: Path<String>,
    payload: Payload,
) -> Answer {
    put_back(api, caller, request, id.into_inner(), payload, Door::Requeue).await
}

/// Which dead letters a bulk requeue means.
#[derive(Debug)]
struct Bulk {
    endpoint_id: Option<String>,
    filter: DlqFilter,
    limit: u32,
    dry_run: bool,
}

/// What it did, or would have done.
#[derive(Clone, Default, Serialize, Deserialize)]
struct BulkJson {
    /// `requeued` and `skipped` together.
    matched: u64,
    requeued: u64,
    skipped: SkippedJson,
}

#[derive(Clone, Default, Serialize, Deserialize)]
struct SkippedJson {
    endpoint_disabled: u64,
}

/// How far a bulk requeue has come: what it did, and after which delivery it goes on. Slices go upwards by the deliveries'
/// numbers, so what it has once passed is not looked at again, whatever has become of it since.
#[derive(Clone, Default, Serialize, Deserialize)]
struct Progress {
    done: BulkJson,
    after: i64,
}

impl Progress {
    /// With one more slice of a requeue of at most `limit`; and whether that was the last one.
    fn and(mut self, slice: &RequeuedSlice, limit: u32) -> (Progress, bool) {
        self.done.matched += slice.matched;
        self.done.requeued += slice.requeued;
        self.done.skipped.endpoint_disabled += slice.endpoint_disabled;
        let next = slice.next.filter(|_| self.done.requeued < u64::from(limit));
        self.after = next.map_or(self.after, |next| next.0);
        (self, next.is_none())
    }
}

/// `POST /dlq/requeue`: oldest first, in slices between other people's writes. The slices are transactions of their own.
/// With a key each of them keeps how far the request is, and the last one the answer: repeated after a crash, it goes on
/// with what it had not reached, and requeues nothing twice.
pub async fn requeue_many(api: Data<Api>, Manager(caller): Manager, request: HttpRequest, payload: Payload) -> Answer {
    Query::none(&request)?;
    let body = body::read(&api, &request, payload, limits::REQUEST_BYTES).await?;
    let keyed = idempotency::key(&api, &request, caller, &body.bytes)?;
    let bulk = read(&body.bytes)?;
    detached(async move {
        let progress = match idempotency::known(&api, keyed.as_ref()).await? {
            Known::Answered(answer) => return Ok(answer),
            Known::UnderWay(progress) => serde_json::from_slice(&progress)
                .map_err(|_| Problem::unavailable("How far the first request with this key had come is unreadable."))?,
            Known::Nothing => Progress::default(),
        };
        let done = requeue_now(&api, caller, keyed.as_ref(), bulk, progress).await?;
        answer::json(StatusCode::ACCEPTED, &done)
    })
    .await
}

async fn requeue_now(
    api: &Api,
    caller: Caller,
    keyed: Option<&Keyed>,
    bulk: Bulk,
    mut progress: Progress,
) -> Result<BulkJson, Problem> {
    let mut filter = bulk.filter;
    let mut on_the_wire = Vec::new();
    if let Some(id) = bulk.endpoint_id {
        let found = api.store.ask(FindEndpoint { tenant: caller.tenant, id }).await?;
        let found = found.ok_or_else(|| Problem::field("endpoint_id", "There is no such endpoint."))?;
        let no = crate::domain::ids::EndpointNo(found.endpoint.no);
        filter.endpoint = Some(no);
        on_the_wire = api.engine.live(no).await.map(|live| live.on_the_wire).unwrap_or_default();
    }
    let limit = bulk.limit;
    loop {
        let slice = RequeueSlice {
            tenant: caller.tenant,
            filter: filter.clone(),
            after: DeliveryNo(progress.after),
            limit: i64::from(limit) - progress.done.requeued as i64,
            dry_run: bulk.dry_run,
            now: api.store.clock().now(),
            on_the_wire: on_the_wire.clone(),
        };
        let before = progress.clone();
        let remember = move |slice: &RequeuedSlice| match before.clone().and(slice, limit) {
            (progress, true) => answer::stored(StatusCode::ACCEPTED, &progress.done),
            (progress, false) => StoredAnswer { status: UNDER_WAY, body: answer::body(&progress) },
        };
        let sliced = idempotency::part(api, keyed, slice, remember).await?;
        api.engine.refresh(&sliced.endpoints);
        let (now, last) = progress.and(&sliced, limit);
        if last {
            return Ok(now.done);
        }
        progress = now;
    }
}

fn read(body: &[u8]) -> Result<Bulk, Problem> {
    let mut errors = FieldErrors::default();
    let text = json::text(body, &mut errors);
    let document = text.and_then(|text| Document::read_action(text, &mut errors));
    let value = document.and_then(|document| document.value(&mut errors));
    let bulk = value.as_ref().and_then(|value| bulk(value, &mut errors));
    errors.finish(bulk).map_err(Problem::invalid)
}

fn bulk(value: &Value, errors: &mut FieldErrors) -> Option<Bulk> {
    const KNOWN: [&str; 7] = ["endpoint_id", "event_type", "since", "until", "dead_reason", "limit", "dry_run"];
    let members = At::new(value, "").object(&KNOWN, errors)?;
    let given = |name: &str| members.get(name).filter(|at| !at.value.is_null());
    let endpoint_id = given("endpoint_id").and_then(|at| at.text(errors)).map(str::to_owned);
    let event_type = given("event_type").and_then(|at| {
        let parsed = EventType::parse(at.text(errors)?);
        parsed.map_err(|message| errors.push(&at.path, message)).ok()
    });
    let (since, until) = (instant(&members, "since", errors), instant(&members, "until", errors));
    if let (Some(since), Some(until)) = (since, until)
        && until <= since
    {
        errors.push("until", "This must be later than since.");
    }
    let dead_reason = given("dead_reason").and_then(|at| at.word(DeadReason::ALL, DeadReason::as_str, errors));
    let limit = match given("limit") {
        Some(at) => at.whole_number(limits::BULK_REQUEUE, errors),
        None => Some(limits::DEFAULT_BULK_REQUEUE),
    };
    let dry_run = match given("dry_run") {
        Some(at) => at.boolean(errors),
        None => Some(false),
    };
    let event_type = event_type.map(|event_type| event_type.as_str().to_owned());
    let filter = DlqFilter { endpoint: None, event_type, since, until, dead_reason };
    Some(Bulk { endpoint_id, filter, limit: limit?, dry_run: dry_run? })
}

fn instant(members: &Members, name: &str, errors: &mut FieldErrors) -> Option<Timestamp> {
    let at = members.get(name).filter(|at| !at.value.is_null())?;
    let parsed = Timestamp::parse(at.text(errors)?);
    if parsed.is_none() {
        errors.push(&at.path, "A time as in RFC 3339 is needed, such as 2026-09-03T12:04:01Z.");
    }
    parsed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bulk_requeue_means_everything_unless_it_says() {
        for body in ["", "{}", r#"{"limit": null, "since": null}"#] {
            let bulk = read(body.as_bytes()).unwrap();
            assert_eq!((bulk.limit, bulk.dry_run), (limits::DEFAULT_BULK_REQUEUE, false));
            assert!(bulk.endpoint_id.is_none() && bulk.filter.since.is_none());
        }
        let body = r#"{"endpoint_id": "ep_1", "event_type": "a.b", "since": "2026-01-01T00:00:00Z",
            "until": "2026-01-02T00:00:00+01:00", "dead_reason": "exhausted", "limit": 10000, "dry_run": true}"#;
        let bulk = read(body.as_bytes()).unwrap();
        assert_eq!((bulk.limit, bulk.dry_run, bulk.endpoint_id.as_deref()), (10_000, true, Some("ep_1")));
        assert_eq!(bulk.filter.dead_reason, Some(DeadReason::Exhausted));
    }

    #[test]
    fn every_fault_is_named() {
        let check = |body: &str, wanted: &[&str]| {
            let problem = read(body.as_bytes()).unwrap_err();
            let fields: Vec<_> = problem.errors().iter().map(|error| error.field.as_str()).collect();
            assert_eq!(fields, wanted, "{body}");
        };
        check("[]", &[""]);
        check(r#"{"limit": 0}"#, &["limit"]);
        check(r#"{"limit": 10001, "dry_run": 1, "x": 1}"#, &["x", "limit", "dry_run"]);
        check(r#"{"since": "now", "until": 5, "dead_reason": "old"}"#, &["since", "until", "dead_reason"]);
        check(r#"{"since": "2026-01-02T00:00:00Z", "until": "2026-01-01T00:00:00Z"}"#, &["until"]);
        check(r#"{"event_type": "a.*", "endpoint_id": 1}"#, &["endpoint_id", "event_type"]);
        check(r#"{"limit": 1, "limit": 2}"#, &["limit"]);
    }
}
