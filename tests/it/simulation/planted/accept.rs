//! An acceptance that is answered too early.

use diesel::{QueryResult, SqliteConnection};
use posthaste::domain::time::Timestamp;
use posthaste::store::sentence::{Sentence, Tx};

use crate::simulation::life::Life;

/// A sentence that is carried out and then taken back with its transaction.
struct TakenBack<S>(S);

impl<S: Sentence<SqliteConnection>> Sentence<SqliteConnection> for TakenBack<S> {
    type Reply = S::Reply;

    async fn run(&self, tx: &mut Tx<'_, SqliteConnection>) -> QueryResult<S::Reply> {
        self.0.run(tx).await?;
        Err(diesel::result::Error::RollbackTransaction)
    }

    fn bytes(&self) -> usize {
        self.0.bytes()
    }

    fn is_acceptance(&self) -> bool {
        self.0.is_acceptance()
    }
}

impl Life {
    /// Posts an event whose caller is answered before the commit, which then does not come through.
    pub async fn post_unsynced(&self, id: &str, created_at: Timestamp) {
        // The ledger has it, as the caller has the answer.
        let _ = self.store.write(TakenBack(self.acceptance(id, created_at))).await;
    }
}
