//! Everything that is known of a world at its end, and how a delivery's history is told.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use diesel::prelude::*;
use diesel::sql_types::{BigInt, Integer, Nullable, Text};
use posthaste::domain::ids::parse_delivery_id;
use serde_json::Value;

use super::ledger::{Accepted, Act, Deed, lock};
use super::places::{DOOMED, Place};
use super::receivers::Arrival;
use super::world::{Death, World};
use crate::support::server::text;

/// An attempt as the store has it.
#[derive(Clone, Debug, QueryableByName)]
pub struct Attempt {
    #[diesel(sql_type = BigInt)]
    pub delivery: i64,
    #[diesel(sql_type = Integer)]
    pub number: i32,
    #[diesel(sql_type = Integer)]
    pub run: i32,
    #[diesel(sql_type = Integer)]
    pub attempt: i32,
    #[diesel(sql_type = BigInt)]
    pub started_at: i64,
    #[diesel(sql_type = BigInt)]
    pub duration: i64,
    #[diesel(sql_type = Text)]
    pub url: String,
    #[diesel(sql_type = Nullable<Integer>)]
    pub status: Option<i32>,
    #[diesel(sql_type = Nullable<Text>)]
    pub error_kind: Option<String>,
    #[diesel(sql_type = Text)]
    pub outcome: String,
}

impl Attempt {
    pub fn succeeded(&self) -> bool {
        self.status.is_some_and(|status| (200..300).contains(&status))
    }
}

/// What broke a rule, and which delivery it is about.
pub struct Fault {
    pub what: String,
    pub delivery: Option<i64>,
}

impl Fault {
    pub fn told(&self, evidence: &Evidence) -> String {
        let history = self.delivery.map_or(String::new(), |no| evidence.history(no));
        format!("{}\n{history}", self.what)
    }
}

#[derive(Clone)]
pub struct Evidence {
    pub began: Instant,
    pub accepted: HashMap<String, Accepted>,
    pub acts: Vec<Act>,
    /// In order of arrival.
    pub arrivals: Vec<Arrival>,
    pub attempts: HashMap<i64, Vec<Attempt>>,
    /// As the API shows them, by number.
    pub deliveries: HashMap<i64, Value>,
    /// Some deliveries' attempts as the API shows them, by the delivery's id.
    pub shown: HashMap<String, Value>,
    pub deaths: Vec<Death>,
    pub troubles: Vec<(Instant, Instant)>,
    pub stops: Vec<(Instant, Instant)>,
    pub places: std::sync::Arc<[Place]>,
}

impl Evidence {
    /// The process is dead.
    pub fn collect(world: &World, deliveries: Vec<Value>, shown: HashMap<String, Value>, began: Instant) -> Evidence {
        let (mut conn, _folder) = world.subject.remains();
        let rows: Vec<Attempt> = diesel::sql_query(
            "SELECT delivery, number, run, attempt, started_at, duration, url, status, error_kind, outcome \
             FROM attempts ORDER BY delivery, number",
        )
        .load(&mut conn)
        .expect("attempts");
        let mut attempts: HashMap<i64, Vec<Attempt>> = HashMap::new();
        for row in rows {
            attempts.entry(row.delivery).or_default().push(row);
        }
        let number = |row: &Value| parse_delivery_id(&text(&row["id"])).expect("an id").0;
        Evidence {
            began,
            accepted: lock(&world.ledger.accepted).clone(),
            acts: lock(&world.ledger.acts).clone(),
            arrivals: world.book.all(),
            attempts,
            deliveries: deliveries.into_iter().map(|row| (number(&row), row)).collect(),
            shown,
            deaths: world.deaths.clone(),
            troubles: world.troubles.clone(),
            stops: world.stops.clone(),
            places: world.places.clone(),
        }
    }

    /// The place of an endpoint; whichever is none of the lasting ones came and went.
    pub fn place(&self, endpoint: &str) -> &Place {
        self.places.iter().find(|place| place.id == endpoint).unwrap_or(&self.places[DOOMED])
    }

    pub fn deleted(&self, endpoint: &str) -> Option<&Act> {
        self.acts.iter().find(|act| act.endpoint == endpoint && act.deed == Deed::Delete)
    }

    /// Acts that may have put this delivery back: done, or perhaps done.
    pub fn put_back(&self, delivery: i64, endpoint: &str) -> impl Iterator<Item = &Act> {
        self.acts.iter().filter(move |act| match act.deed {
            Deed::Again(no) => no == delivery && [0, 202].contains(&act.status),
            Deed::Bulk => act.endpoint == endpoint && [0, 202].contains(&act.status),
            _ => false,
        })
    }

    fn since(&self, at: Instant) -> Duration {
        at.saturating_duration_since(self.began)
    }

    /// What is known of a delivery, in the order of time.
    fn history(&self, no: i64) -> String {
        let mut told = format!("  delivery {no}: {}\n", self.deliveries.get(&no).cloned().unwrap_or_default());
        let arrivals: Vec<&Arrival> = self.arrivals.iter().filter(|one| one.delivery == no).collect();
        let endpoint = arrivals.first().map(|one| one.endpoint.clone()).unwrap_or_default();
        let mut lines: Vec<(Instant, String)> = Vec::new();
        for one in &arrivals {
            let end = one.end.map(|end| end - one.at);
            let (life, attempt, nth, path, wall) = (one.life, one.attempt, one.nth, &one.path, one.wall);
            let said = format!(
                "life {life}: attempt {attempt} came to receiver {} {path} (request {nth} of its connection, wall {wall}), told {:?} after {end:?}, sender left: {}",
                one.receiver, one.told, one.left
            );
            lines.push((one.at, said));
        }
        for act in self.acts.iter().filter(|act| act.endpoint == endpoint || act.deed == Deed::Again(no)) {
            lines.push((
                act.sent.0,
                format!("{:?} answered {} after {:?}", act.deed, act.status, act.answered.0 - act.sent.0),
            ));
        }
        for (life, death) in self.deaths.iter().enumerate() {
            lines.push((death.at, format!("life {life} ends; recorded: {:?}", death.recorded.get(&no))));
        }
        for (what, spans) in [("the store is in trouble", &self.troubles), ("the process is stopped", &self.stops)] {
            lines.extend(spans.iter().map(|(from, to)| (*from, format!("{what} for {:.1?}", *to - *from))));
        }
        lines.sort_by_key(|line| line.0);
        for (at, line) in lines {
            let _ = writeln!(told, "  {:>9.3?} {line}", self.since(at));
        }
        for attempt in self.attempts.get(&no).into_iter().flatten() {
            let _ = writeln!(told, "  recorded: {attempt:?}");
        }
        told
    }

    pub fn summary(&self, pages: u64) -> String {
        let count = |state: &str| self.deliveries.values().filter(|row| row["state"] == state).count();
        let recorded: usize = self.attempts.values().map(Vec::len).sum();
        format!(
            "{} events, {} deliveries ({} delivered, {} dead), {} requests, {recorded} attempts recorded, {} lives, {} acts of people, {pages} pages of changes",
            self.accepted.len(),
            self.deliveries.len(),
            count("delivered"),
            count("dead"),
            self.arrivals.len(),
            self.deaths.len(),
            self.acts.len(),
        )
    }
}
