//! What a dispatcher holds of events in memory (S19).

use std::sync::Arc;

use super::races::{at, attempt, awake, starts, waiting};
use super::*;
use crate::domain::content::{ByteBudget, Content};
use crate::domain::delivery::Line;
use crate::domain::pressure::{NARROW_AFTER, SLOW};

const BODY: usize = 100_000;

/// A delivery whose event is in memory, charged to the budget.
fn with_body(no: i64, due: i64, budget: &ByteBudget) -> Waiting {
    let content = Content::new("evt".into(), "a".into(), at(0), vec![b'x'; BODY].into()).within(budget);
    Waiting { content: content.map(Arc::new), ..waiting(no, Line::First, due) }
}

/// An attempt that ends at `ended`, this slow.
fn slow(status: u16, ended: i64) -> Attempt {
    let mut attempt = attempt(Some(status), ended);
    attempt.report.took = SLOW + Span::MILLISECOND;
    attempt
}

#[test]
fn s19_a_narrowed_endpoint_holds_no_events_while_they_wait() {
    let budget = ByteBudget::new(1 << 24);
    let mut dispatcher = awake(Vec::new(), Vec::new());
    let used = || budget.used() / BODY;
    // So many that all of them fail slowly, and four that wait.
    let failing = i64::from(NARROW_AFTER);
    dispatcher.hint(DeliveryNo(0), (1..=failing).map(|no| with_body(no, 1, &budget)).take(4).collect());
    let mut next = 5;
    for _ in 0..failing {
        assert!(!dispatcher.is_narrowed());
        let room = Room { starts: 1, rate: None };
        let [no] = starts(&dispatcher.pump(at(2), room))[..] else { panic!("one starts") };
        dispatcher.hint(DeliveryNo(next - 1), vec![with_body(next, 1, &budget)]);
        next += 1;
        assert_eq!(used(), 4 + 1, "four wait, one is on the wire");
        dispatcher.ended(DeliveryNo(no), slow(500, 2), 0.0, 0, false);
        dispatcher.pump(at(2), Room { starts: 0, rate: None });
        dispatcher.recorded(false);
    }
    assert!(dispatcher.is_narrowed());
    assert_eq!(used(), 0, "what waited was let go of");
    dispatcher.hint(DeliveryNo(next - 1), vec![with_body(next, 0, &budget)]);
    assert_eq!(used(), 0, "nor is what comes kept");

    // It starts all the same, two at a time, and keeps events again once it is as wide as ever.
    let begun = starts(&dispatcher.pump(at(3), Room::PLENTY));
    assert_eq!(begun.len(), 2);
    let mut ended: Vec<i64> = begun;
    while dispatcher.is_narrowed() {
        let no = ended.pop().expect("enough of them");
        dispatcher.ended(DeliveryNo(no), attempt(Some(200), 3), 0.0, 0, false);
        ended.extend(starts(&dispatcher.pump(at(3), Room::PLENTY)));
        dispatcher.recorded(false);
    }
    let known = next;
    dispatcher.hint(DeliveryNo(known), vec![with_body(known + 1, 0, &budget)]);
    assert_eq!(used(), 1);
}

#[test]
fn s19_nor_does_one_whose_circuit_is_open() {
    let budget = ByteBudget::new(1 << 24);
    let mut dispatcher = awake(Vec::new(), Vec::new());
    let used = || budget.used() / BODY;
    let mut newest = 0;
    let mut hint = |dispatcher: &mut Dispatcher| {
        dispatcher.hint(DeliveryNo(newest), vec![with_body(newest + 1, 1, &budget)]);
        newest += 1;
    };
    // Quick answers: it is never narrowed.
    for _ in 0..40 {
        if dispatcher.health().circuit.opened_at().is_some() {
            break;
        }
        hint(&mut dispatcher);
        for no in starts(&dispatcher.pump(at(2), Room::PLENTY)) {
            dispatcher.ended(DeliveryNo(no), attempt(Some(410), 2), 0.0, 0, false);
        }
        hint(&mut dispatcher);
        dispatcher.pump(at(2), Room { starts: 0, rate: None });
        dispatcher.recorded(false);
    }
    assert!(!dispatcher.is_narrowed());
    hint(&mut dispatcher);
    dispatcher.pump(at(2), Room::PLENTY);
    dispatcher.recorded(false);
    assert_eq!(used(), 0);
}
