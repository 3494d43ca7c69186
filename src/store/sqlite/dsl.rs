//! diesel-async's way of writing queries on a plain, blocking SQLite connection: the futures are ready when they are
//! made. So `queries/` is written once, with `.await`, and compiled for both backends; on SQLite it runs on a thread of
//! its own without a hop per statement.

use std::future::{Ready, ready};

use diesel::query_dsl::methods::{ExecuteDsl, LimitDsl, LoadQuery};
use diesel::{QueryResult, SqliteConnection};

/// The part of `diesel_async::RunQueryDsl` that the queries use.
pub trait RunQueryDsl: Sized {
    fn execute(self, conn: &mut SqliteConnection) -> Ready<QueryResult<usize>>
    where
        Self: diesel::RunQueryDsl<SqliteConnection> + ExecuteDsl<SqliteConnection>,
    {
        ready(diesel::RunQueryDsl::execute(self, conn))
    }

    fn load<'query, U>(self, conn: &mut SqliteConnection) -> Ready<QueryResult<Vec<U>>>
    where
        Self: diesel::RunQueryDsl<SqliteConnection> + LoadQuery<'query, SqliteConnection, U>,
    {
        ready(diesel::RunQueryDsl::load(self, conn))
    }

    fn get_result<'query, U>(self, conn: &mut SqliteConnection) -> Ready<QueryResult<U>>
    where
        Self: diesel::RunQueryDsl<SqliteConnection> + LoadQuery<'query, SqliteConnection, U>,
    {
        ready(diesel::RunQueryDsl::get_result(self, conn))
    }

    fn first<'query, U>(self, conn: &mut SqliteConnection) -> Ready<QueryResult<U>>
    where
        Self: diesel::RunQueryDsl<SqliteConnection> + LimitDsl,
        diesel::dsl::Limit<Self>: LoadQuery<'query, SqliteConnection, U>,
    {
        ready(diesel::RunQueryDsl::first(self, conn))
    }
}

impl<T> RunQueryDsl for T {}

/// Runs a future of `queries/` on SQLite.
pub fn run<F: Future>(future: F) -> F::Output {
    use futures_util::FutureExt;
    future.now_or_never().expect("every statement on SQLite is over when its future is made")
}
