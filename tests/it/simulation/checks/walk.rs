//! A reader who walks deliveries and events by `updated_after`, going on from where they stopped: whatever has changed in any
//! way must have come by (S24).

use std::collections::BTreeMap;

use diesel::prelude::*;
use diesel::sql_types::{BigInt, Text};
use futures_util::FutureExt;
use posthaste::domain::time::Timestamp;
use posthaste::store::DEFAULT_TENANT;
use posthaste::store::list::{EventFilter, EventSummary, From, ListEvents, Page};
use posthaste::store::sentence::Question;

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
    /// The same of events.
    events_at: Option<(Timestamp, i64)>,
    events: BTreeMap<i64, Timestamp>,
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
    /// Events, which change with their deliveries, and when these are removed with their endpoint. Of those that have no rows
    /// yet nothing is asked.
    pub fn go_on_with_events(&mut self, conn: &mut SqliteConnection) {
        let (after, no) = self.events_at.unwrap_or((Timestamp::MIN, 0));
        for event in list(conn, From::Changed { after, no }) {
            let place = Some((event.updated_at, event.no));
            assert!(place > self.events_at, "S24, event {}: behind what came before it", event.id);
            self.events_at = place;
            self.events.insert(event.no, event.updated_at);
        }
        for event in list(conn, From::Newest { before: None }) {
            let (id, seen) = (&event.id, self.events.get(&event.no));
            let is_seen = seen == Some(&event.updated_at) || event.without_rows > 0;
            assert!(is_seen, "S24, event {id}: seen last as of {seen:?}, now it is of {}", event.updated_at);
        }
    }
}

/// All events from here on.
fn list(conn: &mut SqliteConnection, mut from: From) -> Vec<EventSummary> {
    let mut events = Vec::new();
    loop {
        let list =
            ListEvents { page: Page { tenant: DEFAULT_TENANT, from, limit: 20 }, filter: EventFilter::default() };
        let listed = list.ask(conn).now_or_never().expect("at once").expect("an answer");
        events.extend(listed.rows);
        if !listed.more {
            return events;
        }
        from = listed.end;
    }
}
