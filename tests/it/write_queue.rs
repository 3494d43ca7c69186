//! What may wait for the store's writer.

use std::pin::Pin;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::join_all;
use posthaste::clock::Clock;
use posthaste::domain::content::ByteBudget;
use posthaste::domain::time::Timestamp;
use posthaste::store::DEFAULT_TENANT;
use posthaste::store::accept::Accept;
use posthaste::store::change::KeepAnchor;
use posthaste::store::error::StoreError;
use posthaste::store::hint::NoHints;
use posthaste::store::sentence::Sentence;
use posthaste::store::sqlite::{Conn, Writer, WriterHandle, begin, open};

use crate::support::stored::new_event;

/// So many bytes of each kind.
const LIMIT: usize = 64 * 1024;

fn event(no: usize, now: Timestamp) -> Accept {
    let event = new_event(&format!("evt_{no}"), "a", now);
    Accept { tenant: DEFAULT_TENANT, events: vec![event] }
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
    let folder = tempfile::tempdir().expect("a folder");
    let mut opened = open(&folder.path().join("test.db").to_string_lossy()).expect("a database");
    let clock = Clock::resume(None, Timestamp::MIN, 1.0);
    begin(&mut opened.conn, clock.anchor(), true).expect("the anchor is kept");
    let budget = ByteBudget::new(1 << 20);
    let writer =
        Writer::new(opened.conn, clock.clone(), opened.counters, opened.last_stamp, budget, Arc::new(NoHints), LIMIT);
    let (writer, handle) = writer.expect("a writer");

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
