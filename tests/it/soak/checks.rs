//! The rules, worked out again from the evidence: what was accepted, what is recorded, what people see.

use std::collections::HashMap;

use posthaste::domain::ids::parse_delivery_id;
use serde_json::Value;

use super::evidence::{Attempt, Evidence, Fault};
use super::ledger::Deed;
use super::places::{DOOMED, Place, STEADY};
use super::receivers::Told;
use super::wire;
use crate::support::server::text;

pub struct Faults(pub Vec<Fault>);

impl Faults {
    pub fn add(&mut self, delivery: impl Into<Option<i64>>, what: String) {
        self.0.push(Fault { what, delivery: delivery.into() });
    }
}

pub fn judge(evidence: &Evidence) -> Vec<Fault> {
    let mut faults = Faults(Vec::new());
    nothing_is_lost(evidence, &mut faults);
    for (no, row) in &evidence.deliveries {
        let none = Vec::new();
        let attempts = evidence.attempts.get(no).unwrap_or(&none);
        ended_for_a_reason(evidence, *no, row, attempts, &mut faults);
        runs_are_in_order(evidence, *no, row, attempts, &mut faults);
    }
    shown_as_recorded(evidence, &mut faults);
    wire::judge(evidence, &mut faults);
    faults.0
}

/// S1: what was acknowledged is there, with a delivery for each endpoint that wanted it, and nothing else is.
fn nothing_is_lost(evidence: &Evidence, faults: &mut Faults) {
    for (id, event) in &evidence.accepted {
        let wants = |place: &&Place| !place.id.is_empty() && place.kinds.contains(&event.kind.as_str());
        for place in evidence.places[..DOOMED].iter().filter(wants) {
            if !event.deliveries.iter().any(|(_, endpoint)| *endpoint == place.id) {
                faults.add(None, format!("S1: {id} was accepted without a delivery for {}", place.id));
            }
        }
        for (no, endpoint) in &event.deliveries {
            match evidence.deliveries.get(no) {
                Some(row) if row["event_id"] != id.as_str() || row["endpoint_id"] != endpoint.as_str() => {
                    faults.add(*no, format!("S1: {id} for {endpoint} is another delivery now: {row}"));
                }
                None if evidence.deleted(endpoint).is_none() && !evidence.place(endpoint).id.is_empty() => {
                    faults.add(*no, format!("S1: {id} for {endpoint} is lost"));
                }
                _ => {}
            }
        }
    }
    for (no, row) in &evidence.deliveries {
        let accepted = evidence.accepted.get(&text(&row["event_id"]));
        if !accepted.is_some_and(|event| event.deliveries.iter().any(|(known, _)| known == no)) {
            faults.add(*no, format!("S1: nobody was told of {row}"));
        }
    }
}

/// S11: it is over, and for a reason that the outside knows of.
fn ended_for_a_reason(evidence: &Evidence, no: i64, row: &Value, attempts: &[Attempt], faults: &mut Faults) {
    let endpoint = text(&row["endpoint_id"]);
    let place = evidence.place(&endpoint);
    let last = attempts.last();
    let disabled = |deed: &Deed| *deed == Deed::Disable;
    let legitimate = match (row["state"].as_str(), row["dead_reason"].as_str()) {
        (Some("delivered"), None) => last.is_some_and(Attempt::succeeded),
        (Some("dead"), Some("exhausted")) => {
            let run = last.map_or(0, |last| last.run);
            attempts.iter().filter(|one| one.run == run).count() == place.rungs()
                && !last.is_some_and(Attempt::succeeded)
        }
        (Some("dead"), Some("endpoint_disabled")) => {
            // The fourth is also disabled by its failures.
            place.policy["auto_disable"].is_object()
                || evidence.acts.iter().any(|act| act.endpoint == endpoint && disabled(&act.deed))
        }
        _ => false,
    };
    if !legitimate || (endpoint == evidence.places[STEADY].id && row["state"] != "delivered") {
        faults.add(no, format!("S11: it did not end as it should: {row}"));
    }
    if row["attempts_total"] != attempts.len() {
        faults.add(no, format!("S11: {} attempts are recorded of {row}", attempts.len()));
    }
}

/// S9, S12: attempt numbers rise by one within a run, nothing follows a success, and only people begin runs.
fn runs_are_in_order(evidence: &Evidence, no: i64, row: &Value, attempts: &[Attempt], faults: &mut Faults) {
    let mut before: Option<&Attempt> = None;
    for (index, one) in attempts.iter().enumerate() {
        let follows = match before {
            None => one.attempt == 1,
            Some(before) if one.run == before.run => one.attempt == before.attempt + 1 && !before.succeeded(),
            Some(before) => one.run > before.run && one.attempt == 1,
        };
        if !follows || one.number != index as i32 + 1 {
            faults.add(no, format!("S9: {one:?} came after {before:?}"));
        }
        if one.succeeded() != (one.outcome == "delivered") {
            faults.add(no, format!("S4: {one:?}"));
        }
        before = Some(one);
    }
    let runs = row["run"].as_u64().unwrap_or(0) as usize;
    let acts = evidence.put_back(no, row["endpoint_id"].as_str().unwrap_or_default()).count();
    if runs > 1 + acts {
        faults.add(no, format!("S12: run {runs} after {acts} acts of people"));
    }
}

/// `GET /deliveries/{id}` has the attempts that the store has.
fn shown_as_recorded(evidence: &Evidence, faults: &mut Faults) {
    for (id, shown) in &evidence.shown {
        let no = parse_delivery_id(id).expect("an id").0;
        let recorded = evidence.attempts.get(&no).map(Vec::as_slice).unwrap_or_default();
        let newest = &recorded[recorded.len().saturating_sub(100)..];
        let row = |run: i32, attempt: i32, status: Option<i32>, kind: Option<&str>| {
            serde_json::json!([run, attempt, status, kind])
        };
        let recorded: Vec<Value> =
            newest.iter().map(|one| row(one.run, one.attempt, one.status, one.error_kind.as_deref())).collect();
        let shown = shown.as_array().expect("attempts").iter();
        let shown: Vec<Value> = shown
            .map(|one| Value::from_iter(["run", "attempt", "status", "error_kind"].map(|name| one[name].clone())))
            .collect();
        if shown != recorded {
            faults.add(no, format!("GET /deliveries/{id} shows {shown:?} for {recorded:?}"));
        }
    }
}

/// S2, S23: the bytes that were posted, the same with each attempt, and rightly signed.
pub fn bytes(evidence: &Evidence, faults: &mut Faults) {
    let mut bodies: HashMap<&str, u64> = HashMap::new();
    for one in &evidence.arrivals {
        let Some(event) = evidence.accepted.get(&one.event) else {
            faults.add(one.delivery, format!("S1: {} came, which nobody posted", one.event));
            continue;
        };
        if let Some(fault) = &one.fault {
            faults.add(one.delivery, format!("S23: {fault}"));
        }
        if event.data != one.data || event.kind != one.kind || *bodies.entry(&one.event).or_insert(one.body) != one.body
        {
            faults.add(one.delivery, format!("S2: {one:?} is not what was posted: {event:?}"));
        }
        let number = (one.delivery, one.endpoint.clone());
        if !event.deliveries.contains(&number) {
            faults.add(one.delivery, format!("S1: {number:?} came, and the answer had {event:?}"));
        }
    }
}

/// What is recorded and what was told agree.
pub fn agrees(recorded: &Attempt, told: Told) -> bool {
    match (recorded.status, told) {
        (Some(status), Told::Status(told)) => status == i32::from(told),
        (Some(_), _) => false,
        (None, Told::Status(_)) => recorded.error_kind.as_deref() == Some("timeout"),
        (None, _) => true,
    }
}
