//! What may wait for the store's writer.

use std::pin::Pin;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::join_all;
use posthaste::domain::dispatcher::Spared;
use posthaste::domain::ids::{DeliveryNo, EndpointNo};
use posthaste::domain::notice::Notice;
use posthaste::domain::time::Timestamp;
use posthaste::store::DEFAULT_TENANT;
use posthaste::store::accept::{Accept, NewEvent};
use posthaste::store::change::*;
use posthaste::store::error::StoreError;
use posthaste::store::guard::{Guard, Guarded, Part, Remember, RequestKey, StoredAnswer};
use posthaste::store::rows::EndpointRow;
use posthaste::store::sentence::Sentence;
use posthaste::store::sqlite::{Conn, WriterHandle};

use crate::support::stored::{Idle, endpoint_row, idle_writer, new_event};

/// So many bytes of each kind.
const LIMIT: usize = 64 * 1024;

fn event(no: usize, now: Timestamp) -> Accept {
    let event = new_event(&format!("evt_{no}"), "a", now);
    Accept { tenant: DEFAULT_TENANT, events: vec![event], max_deliveries: usize::MAX }
}

type Queued = Pin<Box<dyn Future<Output = Result<(), StoreError>>>>;

/// Queues until there is no room; what is queued, and is to be waited for.
fn fill<S: Sentence<Conn>>(writer: &WriterHandle, sentence: impl Fn(usize) -> S) -> Vec<Queued> {
    let mut queued = Vec::new();
    loop {
        let (writer, sentence) = (writer.clone(), sentence(queued.len()));
        let mut write: Queued = Box::pin(async move { writer.write(sentence).await.map(drop) });
        match write.as_mut().now_or_never() {
            None => queued.push(write),
            Some(answer) => {
                assert_eq!(answer, Err(StoreError::Overloaded));
                return queued;
            }
        }
        assert!(queued.len() <= LIMIT, "nothing bounds the queue");
    }
}

#[actix_web::test]
async fn the_queue_of_the_writer_is_bounded_for_events_and_for_all_else_apart() {
    let Idle { writer, handle, clock, folder: _folder, .. } = idle_writer(LIMIT);

    // While the writer does not come to anything.
    let anchor = clock.anchor();
    let changes = fill(&handle, |_| KeepAnchor(anchor));
    assert!(changes.len() > 16, "{}", changes.len());
    let events = fill(&handle, |no| event(no, clock.now()));
    assert!(events.len() > 16, "a full queue of changes leaves room for events: {}", events.len());
    assert_eq!(handle.write(KeepAnchor(anchor)).await, Err(StoreError::Overloaded));

    let writing = std::thread::spawn(move || writer.run());
    for answer in join_all(changes.into_iter().chain(events)).await {
        assert_eq!(answer, Ok(()), "what was queued is written");
    }
    assert_eq!(handle.write(KeepAnchor(anchor)).await, Ok(()), "and there is room again");
    handle.close();
    writing.join().expect("it ends");
}

#[actix_web::test]
async fn large_endpoints_fill_the_queue_of_the_writer_sooner() {
    let Idle { writer: _writer, handle, folder: _folder, .. } = idle_writer(LIMIT);
    let row = EndpointRow { metadata: "x".repeat(LIMIT / 5), ..endpoint_row("ep_1", "[]") };
    assert_eq!(fill(&handle, |_| CreateEndpoint(row.clone())).len(), 4);
}

/// More bytes than a sentence is taken for that holds nothing of its caller's.
const MORE: usize = 20_000;

/// Makes a sentence twice, with nothing of a kind and with [`MORE`] bytes of it, and compares what they are taken for.
#[track_caller]
fn counts<S: Sentence<Conn>>(sentence: impl Fn(usize) -> S) {
    let (without, with) = (sentence(0).bytes(), sentence(MORE).bytes());
    assert!(with >= without + MORE, "{without}, and {with} with {MORE} more");
}

#[test]
fn a_sentence_is_taken_for_as_large_as_what_it_holds() {
    let (now, endpoint, tenant) = (Timestamp::MIN, EndpointNo(1), DEFAULT_TENANT);
    let text = |bytes: usize| "x".repeat(bytes);
    let numbers = |bytes: usize| vec![DeliveryNo(1); bytes / size_of::<DeliveryNo>()];
    let row = || endpoint_row("ep_1", "[]");

    counts(|bytes| CreateEndpoint(EndpointRow { policy: text(bytes), ..row() }));
    counts(|bytes| CreateEndpoint(EndpointRow { headers: vec![0; bytes], ..row() }));
    let edit = |row| EditEndpoint { row, now, new_url: false, close_circuit: false };
    counts(|bytes| edit(EndpointRow { event_types: text(bytes), ..row() }));
    counts(|bytes| edit(EndpointRow { disabled_reason: Some(text(bytes)), ..row() }));
    let disable = |reason, spared| Disable { endpoint, tenant, reason, now, spared };
    counts(|bytes| AndShow { endpoint, change: disable(text(bytes), Vec::new()) });
    let one = Spared { no: DeliveryNo(1), run: 1, attempts_total: 1 };
    counts(|bytes| disable(String::new(), vec![one; bytes.div_ceil(size_of::<Spared>())]));
    counts(|bytes| ReleaseSpared(numbers(bytes)));
    counts(|bytes| Expire { endpoint, before: now, now, on_the_wire: numbers(bytes) });
    let slice = |filter, on_the_wire| {
        let (after, limit, dry_run) = (DeliveryNo(0), 1, false);
        RequeueSlice { tenant, filter, after, limit, dry_run, now, on_the_wire }
    };
    counts(|bytes| slice(DlqFilter::default(), numbers(bytes)));
    counts(|bytes| slice(DlqFilter { event_type: Some(text(bytes)), ..DlqFilter::default() }, Vec::new()));
    counts(|bytes| Tell { tenant, notice: Notice::enabled(&text(bytes)), now });
    counts(|bytes| MarkRead { tenant, id: text(bytes), now });

    let request = |path| RequestKey { tenant, method: "POST".into(), path, key: "k".into() };
    let remember = |path, body| {
        let answer = StoredAnswer { status: 200, body };
        Remember { request: request(path), hash: Vec::new(), now, answer }
    };
    counts(|bytes| remember(String::new(), vec![0; bytes]));
    counts(|bytes| remember(text(bytes), Vec::new()));
    let guard = |path| {
        let compose = Arc::new(|_: &()| None);
        Some(Guard { request: request(path), hash: Vec::new(), now, kept_since: now, compose })
    };
    counts(|bytes| Guarded { guard: guard(text(bytes)), sentence: ReleaseSpared(Vec::new()) });
    counts(|bytes| Part { guard: guard(text(bytes)), sentence: ReleaseSpared(Vec::new()) });

    let accept = |event| Accept { tenant, events: vec![event], max_deliveries: usize::MAX };
    counts(|bytes| accept(NewEvent { body: text(bytes).into(), ..new_event("e", "a", now) }));
    let ids = |bytes: usize| vec!["ep_1".to_owned(); bytes / size_of::<String>()];
    counts(|bytes| accept(NewEvent { endpoint_ids: Some(ids(bytes)), ..new_event("e", "a", now) }));
}
