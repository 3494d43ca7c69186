//! Questions to the store, of which only so many can be answered at once.

use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use diesel::QueryResult;
use posthaste::store::error::StoreError;
use posthaste::store::sentence::{Needs, Question};
use posthaste::store::sqlite::{Conn, Readers};
use tokio::sync::oneshot;

use crate::support::stored::{Idle, idle_writer};

/// Says that it is being answered, and is so until its sender lets go.
struct Lasting(Mutex<Option<(oneshot::Sender<()>, mpsc::Receiver<()>)>>);

impl Question<Conn> for Lasting {
    type Answer = ();

    async fn ask(&self, _: &mut Conn) -> QueryResult<()> {
        let (begun, until) = self.0.lock().expect("nobody panicked").take().expect("it is asked once");
        begun.send(()).expect("somebody listens");
        // An error: the sender is gone.
        let _ = until.recv();
        Ok(())
    }

    fn needs(&self) -> Needs {
        Needs::Nothing
    }
}

impl Lasting {
    fn new() -> (Lasting, oneshot::Receiver<()>, mpsc::Sender<()>) {
        let ((begun, has_begun), (let_go, until)) = (oneshot::channel(), mpsc::channel());
        (Lasting(Mutex::new(Some((begun, until)))), has_begun, let_go)
    }
}

#[tokio::test(start_paused = true)]
async fn c71_a_question_is_refused_after_five_seconds_without_a_connection() {
    let Idle { path, folder: _folder, .. } = idle_writer(1 << 20);
    let readers = Arc::new(Readers::pool(&path, 1, tokio::runtime::Handle::current()).expect("a pool"));
    let ask = |question| {
        let readers = readers.clone();
        tokio::spawn(async move { readers.ask(question).await })
    };
    let (first, has_begun, let_go) = Lasting::new();
    let first = ask(first);
    has_begun.await.expect("it is answered");

    let (second, _, _second_lets_go) = Lasting::new();
    let second = ask(second);
    // Time stands still while the first is answered, but for these.
    let others_run = async || {
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
    };
    let pass = async |time| {
        others_run().await;
        tokio::time::advance(Duration::from_millis(time)).await;
        others_run().await;
    };
    pass(4_900).await;
    assert!(!second.is_finished(), "it waits");
    pass(200).await;
    let refused = second.await.expect("no panic");
    assert!(matches!(&refused, Err(StoreError::Unavailable(why)) if why.contains("busy")), "{refused:?}");

    drop(let_go);
    assert_eq!(first.await.expect("no panic"), Ok(()));
    let (third, _has_begun, let_go) = Lasting::new();
    drop(let_go);
    assert_eq!(ask(third).await.expect("no panic"), Ok(()), "the connection is free again");
}
