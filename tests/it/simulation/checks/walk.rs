//! A reader who walks deliveries by `updated_after`, going on from where they stopped: whatever has changed in any way must
//! have come by (S24).

use std::collections::BTreeMap;

use diesel::prelude::*;
use diesel::sql_types::{BigInt, Text};

#[derive(QueryableByName)]
struct Row {
    #[diesel(sql_type = BigInt)]
    no: i64,
    #[diesel(sql_type = BigInt)]
    updated_at: i64,
    #[diesel(sql_type = Text)]
    content: String,
}

#[derive(Default)]
pub struct Walk {
    /// The last change seen, and whose it was.
    at: (i64, i64),
    seen: BTreeMap<i64, String>,
}

const ROWS: &str = "SELECT d.no, d.updated_at, json_array(d.state, d.run, d.attempt, d.attempts_total, d.due_at, d.line, \
     d.dead_reason, d.last_status, d.delivered_at) AS content FROM deliveries d JOIN endpoints e ON e.no = d.endpoint \
     WHERE e.deleted_at IS NULL ORDER BY d.updated_at, d.no";

impl Walk {
    pub fn go_on(&mut self, conn: &mut SqliteConnection) {
        let rows: Vec<Row> = diesel::sql_query(ROWS).load(conn).expect("deliveries");
        for row in rows.iter().filter(|row| (row.updated_at, row.no) > self.at) {
            self.seen.insert(row.no, row.content.clone());
        }
        for row in &rows {
            let seen = self.seen.get(&row.no);
            assert_eq!(
                seen,
                Some(&row.content),
                "S24, delivery {}: a walk by updated_after has missed a change",
                row.no
            );
        }
        self.at = self.at.max(rows.last().map_or((0, 0), |row| (row.updated_at, row.no)));
    }
}
