//! The rows against the model: every delivery, every attempt, streaks, circuit, counts, notifications, and when each
//! endpoint's actor is needed.

use std::collections::{BTreeMap, BTreeSet};

use diesel::prelude::*;
use diesel::sql_types::{BigInt, Binary, Bool, Integer, Nullable, Text};
use posthaste::domain::delivery::{Line, State};
use posthaste::domain::endpoint::Status;
use posthaste::domain::ids::{DeliveryNo, EndpointNo};
use posthaste::domain::time::{Span, Timestamp};
use posthaste::store::numbers::decode;

use super::model::{Delivery, Endpoint, Model};

#[derive(QueryableByName, Debug)]
struct DeliveryRow {
    #[diesel(sql_type = BigInt)]
    no: i64,
    #[diesel(sql_type = BigInt)]
    endpoint: i64,
    #[diesel(sql_type = Text)]
    state: String,
    #[diesel(sql_type = Integer)]
    run: i32,
    #[diesel(sql_type = Integer)]
    attempt: i32,
    #[diesel(sql_type = Integer)]
    attempts_total: i32,
    #[diesel(sql_type = BigInt)]
    due_at: i64,
    #[diesel(sql_type = Nullable<Text>)]
    dead_reason: Option<String>,
    #[diesel(sql_type = Nullable<BigInt>)]
    delivered_at: Option<i64>,
    /// A cut has taken it.
    #[diesel(sql_type = Bool)]
    cut: bool,
}

/// An event some of whose deliveries may have no row yet.
#[derive(QueryableByName, Debug)]
struct FreshRow {
    #[diesel(sql_type = BigInt)]
    first: i64,
    #[diesel(sql_type = BigInt)]
    received_at: i64,
    #[diesel(sql_type = Binary)]
    targets: Vec<u8>,
}

#[derive(QueryableByName, Debug)]
struct AttemptRow {
    #[diesel(sql_type = BigInt)]
    delivery: i64,
    #[diesel(sql_type = Integer)]
    number: i32,
    #[diesel(sql_type = Integer)]
    run: i32,
    #[diesel(sql_type = Integer)]
    attempt: i32,
    #[diesel(sql_type = BigInt)]
    started_at: i64,
    #[diesel(sql_type = Nullable<Integer>)]
    status: Option<i32>,
}

#[derive(QueryableByName, Debug)]
struct EndpointRow {
    #[diesel(sql_type = BigInt)]
    no: i64,
    #[diesel(sql_type = Text)]
    status: String,
    #[diesel(sql_type = BigInt)]
    failures: i64,
    #[diesel(sql_type = Nullable<BigInt>)]
    failing_since: Option<i64>,
    #[diesel(sql_type = BigInt)]
    exhausted: i64,
    #[diesel(sql_type = Nullable<BigInt>)]
    opened_at: Option<i64>,
    #[diesel(sql_type = Nullable<BigInt>)]
    retry_at: Option<i64>,
    #[diesel(sql_type = BigInt)]
    pending: i64,
    #[diesel(sql_type = BigInt)]
    failed: i64,
    #[diesel(sql_type = BigInt)]
    dead: i64,
    #[diesel(sql_type = BigInt)]
    last_delivery: i64,
    #[diesel(sql_type = Nullable<BigInt>)]
    wake_at: Option<i64>,
}

#[derive(QueryableByName, Debug)]
struct NoticeRow {
    #[diesel(sql_type = Nullable<Text>)]
    endpoint: Option<String>,
    #[diesel(sql_type = Text)]
    kind: String,
    #[diesel(sql_type = BigInt)]
    count: i64,
}

const DELIVERIES: &str = "SELECT d.no, d.endpoint, d.state, d.run, d.attempt, d.attempts_total, d.due_at, d.dead_reason, \
     d.delivered_at, d.state IN ('pending', 'failed') AND d.cut < e.cut AND s.delivery IS NULL AS cut \
     FROM deliveries d JOIN endpoints e ON e.no = d.endpoint LEFT JOIN spared s ON s.delivery = d.no \
     WHERE e.deleted_at IS NULL ORDER BY d.no";
/// Those with a delivery behind `written_through`.
const FRESH: &str = "SELECT first_delivery AS first, received_at, targets FROM events \
     WHERE first_delivery + deliveries - 1 > (SELECT written_through FROM meta)";
const ATTEMPTS: &str = "SELECT a.delivery, a.number, a.run, a.attempt, a.started_at, a.status FROM attempts a \
     JOIN deliveries d ON d.no = a.delivery JOIN endpoints e ON e.no = d.endpoint WHERE e.deleted_at IS NULL \
     ORDER BY a.delivery, a.number";
const ENDPOINTS: &str = "SELECT e.no, e.status, h.failures, h.failing_since, h.exhausted, h.opened_at, h.retry_at, \
     h.pending, h.failed, h.dead, h.last_delivery, h.wake_at FROM endpoints e JOIN endpoint_health h ON h.endpoint = e.no \
     WHERE e.deleted_at IS NULL ORDER BY e.no";
const NOTICES: &str = "SELECT endpoint, kind, count(*) AS count FROM notifications GROUP BY endpoint, kind";
/// Spared by a cut, and in truth not on the wire: to be released in a moment.
const SPARED: &str = "SELECT count(*) AS count, NULL AS endpoint, '' AS kind FROM spared";

fn at(micros: Option<i64>) -> Option<Timestamp> {
    micros.map(Timestamp::from_micros)
}

impl Model {
    /// Compares everything that the database holds with what it must hold.
    pub fn compare(&self, conn: &mut SqliteConnection) {
        let spared: Vec<NoticeRow> = diesel::sql_query(SPARED).load(conn).expect("spared");
        let mine = self.deliveries.values().filter(|delivery| delivery.spared).count() as i64;
        if spared[0].count != mine {
            // A release is under way; what it will have changed cannot be compared before it has.
            return;
        }
        super::filed::compare(conn);
        self.compare_deliveries(conn);
        self.compare_attempts(conn);
        self.compare_endpoints(conn);
        self.compare_notices(conn);
    }

    fn compare_deliveries(&self, conn: &mut SqliteConnection) {
        let mut rows: Vec<DeliveryRow> = diesel::sql_query(DELIVERIES).load(conn).expect("deliveries");
        rows.extend(self.implied(conn, &rows));
        rows.sort_by_key(|row| row.no);
        assert_eq!(rows.len(), self.deliveries.len(), "S1: every event × endpoint is one delivery");
        for (row, (no, delivery)) in rows.iter().zip(&self.deliveries) {
            assert_eq!((row.no, row.endpoint), (no.0, delivery.endpoint.0));
            let state = if row.cut { State::Dead.as_str() } else { &row.state };
            let reason = if row.cut { Some("endpoint_disabled") } else { row.dead_reason.as_deref() };
            let given = (state, row.run, row.attempt, row.attempts_total, at(row.delivered_at));
            let wanted = (
                delivery.state.as_str(),
                delivery.run as i32,
                delivery.attempt as i32,
                delivery.total as i32,
                delivery.delivered_at,
            );
            assert_eq!(given, wanted, "delivery {no}: state, run, attempt, attempts ever made, first success");
            match delivery.state {
                State::Dead => {
                    assert_eq!(reason, delivery.dead_reason.map(|reason| reason.as_str()), "delivery {no}")
                }
                State::Pending | State::Failed => {
                    assert_eq!(row.due_at, delivery.due_at.as_micros(), "delivery {no}: S10, its due time")
                }
                State::Delivered => {}
            }
        }
    }

    /// The deliveries that have no row because nothing has happened to them: they follow from their events.
    fn implied(&self, conn: &mut SqliteConnection, rows: &[DeliveryRow]) -> Vec<DeliveryRow> {
        let written: BTreeSet<i64> = rows.iter().map(|row| row.no).collect();
        let events: Vec<FreshRow> = diesel::sql_query(FRESH).load(conn).expect("events");
        let deleted = |endpoint| self.endpoints.get(&endpoint).is_none_or(|endpoint| endpoint.deleted);
        let of_event = |event: FreshRow| {
            let targets = decode(&event.targets).expect("an event's targets");
            (event.first..).zip(targets).map(move |(no, endpoint)| (no, EndpointNo(endpoint), event.received_at))
        };
        let missing = events.into_iter().flat_map(of_event);
        let missing = missing.filter(|(no, endpoint, _)| !written.contains(no) && !deleted(*endpoint));
        let row = |(no, endpoint, due_at): (i64, EndpointNo, i64)| DeliveryRow {
            no,
            endpoint: endpoint.0,
            state: State::Pending.as_str().into(),
            run: 1,
            attempt: 0,
            attempts_total: 0,
            due_at,
            dead_reason: None,
            delivered_at: None,
            cut: false,
        };
        missing.map(row).collect()
    }

    fn compare_attempts(&self, conn: &mut SqliteConnection) {
        let rows: Vec<AttemptRow> = diesel::sql_query(ATTEMPTS).load(conn).expect("attempts");
        let given = rows.iter().map(|row| {
            let place = (row.delivery, row.number, row.run, row.attempt);
            (place, row.started_at, row.status)
        });
        let wanted = self.deliveries.iter().flat_map(|(no, delivery)| {
            delivery.attempts.iter().map(|&(number, run, attempt, started, status)| {
                let place = (no.0, number as i32, run as i32, attempt as i32);
                (place, started.as_micros(), status.map(i32::from))
            })
        });
        let (given, wanted): (Vec<_>, Vec<_>) = (given.collect(), wanted.collect());
        assert_eq!(given, wanted, "S1: the attempts recorded are those that ended, each once");
    }

    fn compare_endpoints(&self, conn: &mut SqliteConnection) {
        let rows: Vec<EndpointRow> = diesel::sql_query(ENDPOINTS).load(conn).expect("endpoints");
        let living = || self.endpoints.iter().filter(|(_, endpoint)| !endpoint.deleted);
        assert_eq!(rows.len(), living().count());
        for (row, (no, endpoint)) in rows.iter().zip(living()) {
            assert_eq!(row.no, no.0);
            assert_eq!(row.status, endpoint.status.as_str(), "endpoint {no}: S14, its status");
            let streaks = (row.failures, at(row.failing_since), row.exhausted);
            let wanted = (i64::from(endpoint.failures), endpoint.since, i64::from(endpoint.exhausted));
            assert_eq!(streaks, wanted, "endpoint {no}: S13, its streaks: failures, since, exhausted");
            assert_eq!(at(row.opened_at).zip(at(row.retry_at)), endpoint.circuit, "endpoint {no}: S17, its circuit");
            let count = |state| {
                // What is newer is counted later; nothing has happened to it.
                let its = |(number, delivery): &(&DeliveryNo, &Delivery)| {
                    delivery.endpoint == *no && delivery.state == state && number.0 <= row.last_delivery
                };
                self.deliveries.iter().filter(its).count() as i64
            };
            let wanted = (count(State::Pending), count(State::Failed), count(State::Dead));
            let given = (row.pending, row.failed, row.dead);
            assert_eq!(given, wanted, "endpoint {no}: the counts: pending, failed, dead");
            let uncounted = |(number, delivery): &(&DeliveryNo, &Delivery)| {
                delivery.endpoint == *no && number.0 > row.last_delivery
            };
            let touched = |(_, delivery): &(_, &Delivery)| !delivery.attempts.is_empty() || delivery.run > 1;
            let wrong = self.deliveries.iter().filter(uncounted).find(touched).map(|(number, _)| number);
            assert!(wrong.is_none(), "endpoint {no}: not counted, and something has happened to it: {wrong:?}");
            self.compare_wake(*no, endpoint, at(row.wake_at));
        }
    }

    /// Whatever the process forgets, the row brings its actor back in time.
    fn compare_wake(&self, no: EndpointNo, endpoint: &Endpoint, wake_at: Option<Timestamp>) {
        if endpoint.status != Status::Enabled {
            return;
        }
        let hold = endpoint.circuit.map_or(Timestamp::MIN, |(_, retry_at)| retry_at);
        let waits = |(_, delivery): &(&DeliveryNo, &Delivery)| {
            delivery.endpoint == no && delivery.state.waits() && delivery.cut == endpoint.cut
        };
        let needed = self.deliveries.iter().filter(waits).map(|(_, delivery)| match delivery.line {
            Line::Single => delivery.due_at,
            Line::First | Line::Retry => delivery.due_at.max(hold),
        });
        if let Some(needed) = needed.min() {
            let in_time = wake_at.is_some_and(|at| at <= needed.max(self.now) + Span::MILLISECOND);
            assert!(in_time, "endpoint {no}: needed at {needed}, wakes at {wake_at:?} (now {})", self.now);
        }
    }

    fn compare_notices(&self, conn: &mut SqliteConnection) {
        let rows: Vec<NoticeRow> = diesel::sql_query(NOTICES).load(conn).expect("notifications");
        let key = |endpoint: Option<&str>, kind: &str| (endpoint.unwrap_or("").to_owned(), kind.to_owned());
        let given: BTreeMap<_, i64> =
            rows.iter().map(|row| (key(row.endpoint.as_deref(), &row.kind), row.count)).collect();
        let of_endpoints = self.endpoints.values().flat_map(|endpoint| {
            let id = Some(endpoint.id.as_str());
            endpoint.notices.iter().map(move |(kind, count)| (key(id, kind.as_str()), i64::from(*count)))
        });
        let of_all = self.told.iter().map(|(kind, count)| (key(None, kind.as_str()), i64::from(*count)));
        let wanted: BTreeMap<_, i64> = of_endpoints.chain(of_all).collect();
        assert_eq!(given, wanted, "the notifications, by endpoint and kind");
    }
}
