//! The rules, worked out again from the evidence: what was on the wire.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use super::checks::{Faults, agrees, bytes};
use super::evidence::{Attempt, Evidence};
use super::ledger::{Act, Deed};
use super::places::TIMEOUT_MS;
use super::receivers::{Arrival, Told};
use super::world::COMMIT_LIMIT;

/// After trouble the store has taken what waited for it by then.
const RECOVERED: Duration = Duration::from_secs(5);
/// Judged results of one endpoint that may wait for their commit (the engine's `UNRECORDED`).
const UNRECORDED: usize = 256;
/// When a sender leaves, its receiver may see that so much later; meanwhile another request may come.
const LEFT: Duration = Duration::from_secs(1);
/// What was on the wire when a person was answered may arrive so much later.
const LATE: Duration = Duration::from_secs(2);
/// Between the clocks of the process and of its receivers, in microseconds.
const CLOCKS: i64 = 300_000;
/// The same as long as nobody sets a clock.
const TICK: i64 = 10_000;

pub fn judge(evidence: &Evidence, faults: &mut Faults) {
    bytes(evidence, faults);
    let mut of: HashMap<i64, Vec<&Arrival>> = HashMap::new();
    for one in &evidence.arrivals {
        of.entry(one.delivery).or_default().push(one);
    }
    let none = Vec::new();
    let mut repeated: HashMap<(&str, usize), usize> = HashMap::new();
    for (no, arrivals) in &of {
        together(arrivals, 1, "S1: two requests of one delivery at once", faults);
        after_a_death(evidence, *no, arrivals, faults);
        for one in unrecorded(evidence.attempts.get(no).unwrap_or(&none), arrivals, evidence, faults) {
            if !replaced(one, arrivals) && evidence.deleted(&one.endpoint).is_none() {
                *repeated.entry((&one.endpoint, one.life)).or_default() += 1;
                if !cut_off(evidence, one) {
                    faults.add(*no, format!("S1: attempt {} of life {} was not recorded", one.attempt, one.life));
                }
            }
        }
    }
    for ((endpoint, life), count) in repeated {
        if count > evidence.place(endpoint).max_in_flight + UNRECORDED {
            faults.add(None, format!("S1: {count} attempts for {endpoint} in life {life} were not recorded"));
        }
    }
    let mut by_endpoint: HashMap<&str, Vec<&Arrival>> = HashMap::new();
    for one in &evidence.arrivals {
        by_endpoint.entry(&one.endpoint).or_default().push(one);
    }
    for (endpoint, arrivals) in by_endpoint {
        together(&arrivals, evidence.place(endpoint).max_in_flight, "S19: more than max_in_flight", faults);
        as_people_said(evidence, endpoint, &arrivals, faults);
    }
}

/// At most so many of these are open at once. What a sender left counts as over a little earlier than it was seen.
fn together(arrivals: &[&Arrival], most: usize, rule: &str, faults: &mut Faults) {
    let mut steps: Vec<(Instant, bool, &Arrival)> = Vec::new();
    for one in arrivals {
        let end = one.end.unwrap_or(one.at);
        let end = if one.left { end.checked_sub(LEFT).unwrap_or(end) } else { end };
        steps.push((one.at, true, one));
        steps.push((end.max(one.at), false, one));
    }
    // Of the same instant, ends come first; but no request ends before it came.
    steps.sort_by_key(|(at, begins, one)| (*at, *begins && one.end != Some(*at)));
    let mut open: i64 = 0;
    for (_, begins, one) in steps {
        open += if begins { 1 } else { -1 };
        if begins && open > most as i64 {
            faults.add(one.delivery, format!("{rule}: {open} in life {}", one.life));
            return;
        }
    }
}

/// What had ended before a death is not sent after it, nor an attempt that was recorded, unless a person said so.
fn after_a_death(evidence: &Evidence, no: i64, arrivals: &[&Arrival], faults: &mut Faults) {
    for one in arrivals {
        let Some(death) = one.life.checked_sub(1).and_then(|life| evidence.deaths.get(life)) else { continue };
        let Some(recorded) = death.recorded.get(&no) else { continue };
        let asked = |act: &Act| act.sent.0 <= one.at && act.answered.0 >= death.at;
        let again = recorded.ended || one.attempt <= recorded.attempt;
        if again && !evidence.put_back(no, &one.endpoint).any(asked) {
            faults.add(
                no,
                format!("S1: attempt {} in life {}, before which {recorded:?} was recorded", one.attempt, one.life),
            );
        }
    }
}

/// The arrivals that no recorded attempt stands for.
fn unrecorded<'a>(
    attempts: &[Attempt],
    arrivals: &[&'a Arrival],
    evidence: &Evidence,
    faults: &mut Faults,
) -> Vec<&'a Arrival> {
    let mut left: Vec<&Arrival> = arrivals.to_vec();
    for attempt in attempts {
        let (from, to) = (attempt.started_at - CLOCKS, attempt.started_at + attempt.duration + LATE.as_micros() as i64);
        let fits = |one: &&Arrival| {
            one.attempt as i32 == attempt.attempt && (from..=to + held_up(evidence, one)).contains(&one.wall)
        };
        let agreeing = |one: &&Arrival| fits(one) && agrees(attempt, one.told);
        // Rather one that came while it ran by both clocks: of those that were told nothing the last, because the others
        // were replaced at once. Else the nearest, a later one rather than an earlier.
        let rank = |one: &Arrival| {
            let (since, left) = (one.wall - attempt.started_at, attempt.started_at + attempt.duration - one.wall);
            match (since >= -TICK, left >= -TICK) {
                (true, true) if one.told == Told::Nothing => (0, -one.wall),
                (true, true) => (0, one.wall),
                (true, false) => (1, one.wall),
                (false, _) => (2, -one.wall),
            }
        };
        let agreed = (0..left.len()).filter(|&index| agreeing(&left[index]));
        let found = agreed.min_by_key(|&index| rank(left[index]));
        match found {
            Some(index) => {
                let one = left.remove(index);
                let gave_up = attempt.duration >= (TIMEOUT_MS - 20) * 1_000;
                if attempt.status.is_none() && matches!(one.told, Told::Status(_)) && !gave_up {
                    faults.add(attempt.delivery, format!("S4: told {:?}, and recorded {attempt:?}", one.told));
                }
            }
            None if attempt.status.is_some() && !arrivals.is_empty() => {
                faults.add(attempt.delivery, format!("S1: nobody saw {attempt:?}, of {:?}", evidence.began.elapsed()));
            }
            None => {}
        }
    }
    left
}

/// How long the process was stopped just before, in microseconds: an attempt may have begun when it was, and its receiver's
/// time when it went on.
fn held_up(evidence: &Evidence, one: &Arrival) -> i64 {
    let before = evidence.stops.iter().filter(|(from, to)| *from < one.at && one.at < *to + LATE);
    before.map(|(from, to)| (*to - *from).as_micros() as i64).sum()
}

/// A connection that was used before died under it without a byte: it was sent again at once, on another (C04).
fn replaced(one: &Arrival, arrivals: &[&Arrival]) -> bool {
    let next = |other: &&&Arrival| other.life == one.life && other.attempt == one.attempt && other.at > one.at;
    one.nth > 0 && one.told == Told::Nothing && arrivals.iter().find(next).is_some()
}

/// Its life ended before its result could be committed.
pub fn cut_off(evidence: &Evidence, one: &Arrival) -> bool {
    let Some(death) = evidence.deaths.get(one.life) else { return false };
    let mut since = death.safe;
    for (from, to) in evidence.troubles.iter().chain(&evidence.stops).rev() {
        // In the troubles' own time nothing is committed, nor what was answered just before, and a little after.
        if *to + RECOVERED >= since && *from <= death.at {
            since = since.min(from.checked_sub(COMMIT_LIMIT).unwrap_or(*from));
        }
    }
    one.end.is_none_or(|end| end >= since)
}

/// S15, S22, S26, S27: after the answer to a disable, an edit or a deletion no attempt starts under the old state.
fn as_people_said(evidence: &Evidence, endpoint: &str, arrivals: &[&Arrival], faults: &mut Faults) {
    let acts: Vec<&Act> = evidence.acts.iter().filter(|act| act.endpoint == endpoint).collect();
    let stopped = |from: Instant, to: Instant| evidence.stops.iter().any(|stop| stop.0 < to + LATE && stop.1 > from);
    let deliveries: HashSet<i64> = arrivals.iter().map(|one| one.delivery).collect();
    let attempts: Vec<&Attempt> = deliveries.iter().filter_map(|no| evidence.attempts.get(no)).flatten().collect();
    for (index, act) in acts.iter().enumerate() {
        if !matches!(act.deed, Deed::Disable | Deed::Delete | Deed::Url(_)) {
            continue;
        }
        // Until the next act of its kind is on its way.
        let undone = |other: &&&Act| match act.deed {
            Deed::Disable => other.deed == Deed::Enable,
            Deed::Url(_) => matches!(other.deed, Deed::Url(_)),
            _ => false,
        };
        let next = acts[index + 1..].iter().find(undone).map_or((Instant::now(), i64::MAX), |other| other.sent);
        let forbidden = |path: &str| match &act.deed {
            Deed::Disable | Deed::Delete => true,
            Deed::Url(new) => path != new,
            _ => false,
        };
        if stopped(act.sent.0, next.0) && act.deed == Deed::Disable {
            continue;
        }
        for one in arrivals {
            let since = act.answered.0 + LATE;
            if one.at > since && one.at < next.0 && forbidden(&one.path) && !stopped(act.sent.0, one.at) {
                faults
                    .add(one.delivery, format!("S26: {} {:?} after {:?}", one.path, one.at - act.answered.0, act.deed));
            }
        }
        for attempt in &attempts {
            let during = attempt.started_at > act.answered.1 + CLOCKS && attempt.started_at < next.1 - CLOCKS;
            let path = || attempt.url.match_indices('/').nth(2).map_or("", |(at, _)| &attempt.url[at..]);
            if during && forbidden(path()) {
                let late = attempt.started_at - act.answered.1;
                faults.add(attempt.delivery, format!("S26: {attempt:?} began {late} µs after {:?}", act.deed));
            }
        }
    }
}
