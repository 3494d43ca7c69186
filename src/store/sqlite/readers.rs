//! Reading: a small pool of connections, each question in one snapshot, off the actors' threads.

use std::sync::Mutex;

use diesel::connection::SimpleConnection;
use diesel_async::pooled_connection::deadpool::Pool;
use diesel_async::pooled_connection::{AsyncDieselConnectionManager, ManagerConfig, RecyclingMethod};
use diesel_async::sync_connection_wrapper::SyncConnectionWrapper;
use futures_util::FutureExt;
use tokio::runtime::Handle;

use super::open::connect;
use super::{Conn, dsl};
use crate::store::error::StoreError;
use crate::store::sentence::Question;

/// How long a question waits for a connection (C71).
const CHECKOUT: std::time::Duration = std::time::Duration::from_secs(5);

type Wrapped = SyncConnectionWrapper<Conn>;

/// Where questions are answered.
pub enum Readers {
    /// On the store's own runtime, so that dropping the question half way is harmless (a detached task finishes it).
    Pool { pool: Pool<Wrapped>, runtime: Handle },
    /// On the asking thread: for tests that keep everything on one thread.
    Inline(Mutex<Conn>),
}

impl Readers {
    /// Questions answered on the asking thread, from a connection of their own to `path`.
    pub fn inline(path: &str) -> Result<Readers, StoreError> {
        let conn = connect(path).map_err(|error| StoreError::Unavailable(error.to_string()))?;
        Ok(Readers::Inline(Mutex::new(conn)))
    }

    /// A pool of `size` connections to `path`, on `runtime`.
    pub fn pool(path: &str, size: usize, runtime: Handle) -> Result<Readers, StoreError> {
        let mut config = ManagerConfig::default();
        config.recycling_method = RecyclingMethod::Fast;
        config.custom_setup = Box::new(|path| {
            let path = path.to_owned();
            async move {
                let conn = tokio::task::spawn_blocking(move || connect(&path)).await;
                let bad = |text: String| diesel::ConnectionError::BadConnection(text);
                let mut conn = conn.map_err(|error| bad(error.to_string()))?.map_err(|error| bad(error.to_string()))?;
                conn.batch_execute("PRAGMA query_only = ON").map_err(|error| bad(error.to_string()))?;
                Ok(Wrapped::new(conn))
            }
            .boxed()
        });
        let manager = AsyncDieselConnectionManager::<Wrapped>::new_with_config(path, config);
        let pool = Pool::builder(manager).max_size(size).build();
        let pool = pool.map_err(|error| StoreError::Unavailable(error.to_string()))?;
        Ok(Readers::Pool { pool, runtime })
    }

    pub async fn ask<Q: Question<Conn>>(&self, question: Q) -> Result<Q::Answer, StoreError> {
        match self {
            Readers::Inline(conn) => {
                let mut conn = conn.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                Ok(snapshot(&mut conn, &question)?)
            }
            Readers::Pool { pool, runtime } => {
                let pool = pool.clone();
                let task = runtime.spawn(async move {
                    let conn = tokio::time::timeout(CHECKOUT, pool.get()).await;
                    let busy = || StoreError::Unavailable("every reading connection is busy".into());
                    let mut conn =
                        conn.map_err(|_| busy())?.map_err(|error| StoreError::Unavailable(error.to_string()))?;
                    conn.spawn_blocking(move |conn| snapshot(conn, &question)).await.map_err(StoreError::from)
                });
                task.await.unwrap_or(Err(StoreError::Closed))
            }
        }
    }
}

/// Answers in one read transaction, so that a question of several statements sees one state.
fn snapshot<Q: Question<Conn>>(conn: &mut Conn, question: &Q) -> diesel::QueryResult<Q::Answer> {
    use diesel::Connection;
    conn.transaction(|conn| dsl::run(question.ask(conn)))
}
