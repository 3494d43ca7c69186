//! A judge that finds nothing may be blind. So the evidence of a world in which nothing was wrong is falsified, a rule at a
//! time, and each time the judge must say so.

use std::time::Duration;

use super::checks::judge;
use super::evidence::Evidence;
use super::ledger::Deed;
use super::places::{DOOMED, STEADY};
use super::receivers::{Arrival, Told};
use super::wire::cut_off;

type Falsify = fn(&mut Evidence);

/// The beginning of what must be said, and what is done to the evidence.
const FALSIFIED: [(&str, &str, Falsify); 14] = [
    ("S1: ", "a delivery is gone", |evidence| {
        let no = steady(evidence).delivery;
        evidence.deliveries.remove(&no);
    }),
    ("S1: nobody was told", "an event nobody was told of", |evidence| {
        let event = steady(evidence).event;
        evidence.accepted.remove(&event);
    }),
    ("S1: ", "a success is sent again", |evidence| {
        let again = again(&steady(evidence));
        evidence.arrivals.push(again);
    }),
    ("S1: attempt", "what had ended before a death is sent after it", |evidence| {
        // Moves a death to before an arrival, and what was recorded at it.
        let one = evidence.arrivals.iter().rev().find(|one| one.life > 0 && lasting(one)).expect("one").clone();
        let recorded = super::world::Recorded { attempt: one.attempt, ended: true };
        evidence.deaths[one.life - 1].recorded.insert(one.delivery, recorded);
        evidence.acts.clear();
    }),
    ("S1: two requests", "two at once", |evidence| {
        let index = evidence.arrivals.iter().position(|one| lasting(one) && !one.left).expect("one");
        let mut twin = evidence.arrivals[index].clone();
        let end = twin.at + Duration::from_millis(40);
        evidence.arrivals[index].end = Some(end);
        twin.end = Some(end);
        twin.at += Duration::from_millis(1);
        evidence.arrivals.push(twin);
    }),
    ("S1: nobody saw", "an attempt that was recorded and not made", |evidence| {
        let index =
            evidence.arrivals.iter().position(|one| lasting(one) && one.told == Told::Status(200)).expect("one");
        evidence.arrivals[index].wall -= 60_000_000;
    }),
    ("S2: ", "another byte", |evidence| {
        let index = evidence.arrivals.iter().position(lasting).expect("one");
        evidence.arrivals[index].data ^= 1;
    }),
    ("S9: ", "an attempt number is skipped", |evidence| {
        let no = steady(evidence).delivery;
        evidence.attempts.get_mut(&no).expect("attempts")[0].attempt += 1;
    }),
    ("S11: ", "the steady one's is dead", |evidence| {
        let no = steady(evidence).delivery;
        let row = evidence.deliveries.get_mut(&no).expect("a row");
        row["state"] = "dead".into();
        row["dead_reason"] = "exhausted".into();
    }),
    ("S12: ", "a run that nobody asked for", |evidence| {
        let no = steady(evidence).delivery;
        evidence.deliveries.get_mut(&no).expect("a row")["run"] = 1_000_000.into();
    }),
    ("S19: ", "one too many at once", |evidence| {
        let one = evidence.arrivals.iter().find(|one| one.receiver == STEADY && !one.left).expect("one").clone();
        for number in 0..17 {
            let end = Some(one.at + Duration::from_millis(100));
            evidence.arrivals.push(Arrival { delivery: -number, end, ..one.clone() });
        }
    }),
    ("S23: ", "a wrong signature", |evidence| {
        let index = evidence.arrivals.iter().position(lasting).expect("one");
        evidence.arrivals[index].fault = Some("wrong".into());
    }),
    ("S26: ", "an attempt while it is disabled", |evidence| {
        let index = evidence.acts.iter().position(|act| act.deed == Deed::Enable).expect("somebody enabled");
        let endpoint = evidence.acts[index].endpoint.clone();
        let one = evidence.arrivals.iter().find(|one| one.endpoint == endpoint).expect("one").clone();
        let mut act = evidence.acts[index].clone();
        act.deed = Deed::Disable;
        act.answered = (one.at - Duration::from_secs(5), one.wall - 5_000_000);
        act.sent = act.answered;
        evidence.stops.clear();
        evidence.acts.retain(|act| act.endpoint != endpoint);
        evidence.acts.push(act);
    }),
    ("GET ", "a reader is shown other attempts", |evidence| {
        let shown = evidence.shown.values_mut().find(|shown| shown[0].is_object()).expect("one");
        shown[0]["attempt"] = 77.into();
    }),
];

/// Of an endpoint that stays.
fn lasting(one: &Arrival) -> bool {
    one.receiver != DOOMED
}

/// The only request of a delivery to the steady one, which succeeded, and not so near to the end of its life that it may be
/// made again.
fn steady(evidence: &Evidence) -> Arrival {
    let once = |one: &Arrival| evidence.attempts.get(&one.delivery).is_some_and(|attempts| attempts.len() == 1);
    let calm = |one: &&Arrival| {
        one.receiver == STEADY && one.told == Told::Status(200) && once(one) && !cut_off(evidence, &again(one))
    };
    evidence.arrivals.iter().find(calm).expect("a calm moment").clone()
}

/// The same request once more, a little later.
fn again(one: &Arrival) -> Arrival {
    let at = one.at + Duration::from_millis(700);
    Arrival { at, wall: one.wall + 700_000, end: Some(at), ..one.clone() }
}

/// What the judge should have seen and did not.
pub fn overlooked(evidence: &Evidence) -> Vec<String> {
    let mut overlooked = Vec::new();
    for (says, what, falsify) in FALSIFIED {
        let mut falsified = evidence.clone();
        falsify(&mut falsified);
        let found = judge(&falsified);
        if !found.iter().any(|fault| fault.what.starts_with(says)) {
            let said: Vec<&str> = found.iter().map(|fault| fault.what.as_str()).take(3).collect();
            overlooked.push(format!("the judge does not see {what}; it says {said:?}"));
        }
    }
    overlooked
}
