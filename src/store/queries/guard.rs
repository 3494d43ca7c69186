//! Idempotent requests: look the key up, carry out, remember, in one transaction.

use diesel::prelude::*;
use diesel::{QueryResult, delete, insert_into};

use super::{Conn, RunQueryDsl, Tx};
use crate::domain::time::Timestamp;
use crate::store::guard::{Guard, Guarded, Once, Part, Remember, Remembered, RequestKey, StoredAnswer};
use crate::store::rows::IdempotencyRow;
use crate::store::schema::idempotency;
use crate::store::sentence::{FIXED_BYTES, Needs, Question, Sentence};

impl<S: Sentence<Conn>> Sentence<Conn> for Guarded<S, S::Reply> {
    type Reply = Once<S::Reply>;

    async fn run(&self, tx: &mut Tx<'_>) -> QueryResult<Self::Reply> {
        let Some(guard) = &self.guard else {
            return Ok(Once::Now(self.sentence.run(tx).await?));
        };
        if let Some((hash, answer)) = find(tx.conn, &guard.request, guard.kept_since).await? {
            return Ok(if hash == guard.hash { Once::Before(answer) } else { Once::OtherBody });
        }
        let reply = self.sentence.run(tx).await?;
        if let Some(answer) = (guard.compose)(&reply) {
            keep(tx.conn, &guard.request, &guard.hash, answer, guard.now).await?;
        }
        Ok(Once::Now(reply))
    }

    fn bytes(&self) -> usize {
        self.sentence.bytes() + self.guard.as_ref().map_or(0, Guard::bytes)
    }

    fn weight(&self) -> usize {
        self.sentence.weight()
    }

    fn is_acceptance(&self) -> bool {
        self.sentence.is_acceptance()
    }
}

impl<S: Sentence<Conn>> Sentence<Conn> for Part<S, S::Reply> {
    type Reply = S::Reply;

    async fn run(&self, tx: &mut Tx<'_>) -> QueryResult<Self::Reply> {
        let reply = self.sentence.run(tx).await?;
        if let Some(guard) = &self.guard
            && let Some(answer) = (guard.compose)(&reply)
        {
            keep(tx.conn, &guard.request, &guard.hash, answer, guard.now).await?;
        }
        Ok(reply)
    }

    fn bytes(&self) -> usize {
        self.sentence.bytes() + self.guard.as_ref().map_or(0, Guard::bytes)
    }

    fn weight(&self) -> usize {
        self.sentence.weight()
    }

    fn is_acceptance(&self) -> bool {
        self.sentence.is_acceptance()
    }
}

async fn find(
    conn: &mut Conn,
    request: &RequestKey,
    kept_since: Timestamp,
) -> QueryResult<Option<(Vec<u8>, StoredAnswer)>> {
    let row: Option<IdempotencyRow> = idempotency::table
        .find((request.tenant.0, &request.method, &request.path, &request.key))
        .filter(idempotency::created_at.ge(kept_since.as_micros()))
        .select(IdempotencyRow::as_select())
        .first(conn)
        .await
        .optional()?;
    let answer = |row: IdempotencyRow| {
        let status = u16::try_from(row.status).unwrap_or(200);
        (row.request_hash, StoredAnswer { status, body: row.body })
    };
    Ok(row.map(answer))
}

async fn keep(
    conn: &mut Conn,
    request: &RequestKey,
    hash: &[u8],
    answer: StoredAnswer,
    now: Timestamp,
) -> QueryResult<()> {
    // One past its time may still be there.
    delete(idempotency::table.find((request.tenant.0, &request.method, &request.path, &request.key)))
        .execute(conn)
        .await?;
    let row = IdempotencyRow {
        tenant: request.tenant.0,
        method: request.method.clone(),
        path: request.path.clone(),
        key: request.key.clone(),
        request_hash: hash.to_vec(),
        status: i32::from(answer.status),
        body: answer.body,
        created_at: now.as_micros(),
    };
    insert_into(idempotency::table).values(row).execute(conn).await?;
    Ok(())
}

impl Sentence<Conn> for Remember {
    type Reply = ();

    async fn run(&self, tx: &mut Tx<'_>) -> QueryResult<()> {
        keep(tx.conn, &self.request, &self.hash, self.answer.clone(), self.now).await
    }

    fn bytes(&self) -> usize {
        FIXED_BYTES + self.request.bytes() + self.hash.len() + self.answer.body.len()
    }
}

impl Question<Conn> for Remembered {
    type Answer = Option<(Vec<u8>, StoredAnswer)>;

    async fn ask(&self, conn: &mut Conn) -> QueryResult<Self::Answer> {
        find(conn, &self.request, self.kept_since).await
    }

    fn needs(&self) -> Needs {
        Needs::Nothing
    }
}
