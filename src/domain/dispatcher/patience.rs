//! What an actor may leave in its tray: nothing that is kept from the dispatcher would have changed what it does.

use proptest::prelude::*;

use super::races::{at, attempt, awake, starts, waiting};
use super::*;
use crate::domain::delivery::Line;
use crate::domain::pressure::SLOW;

/// What happens to a dispatcher, one after the other; a second passes between two steps.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// A new delivery, so many seconds older than now.
    Hint(i64),
    /// The oldest attempt on the wire ends.
    Ended {
        status: u16,
        slow: bool,
    },
    Wait(i64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0i64..20).prop_map(Step::Hint),
        3 => (prop_oneof![Just(200u16), Just(500u16), Just(500u16)], any::<bool>())
            .prop_map(|(status, slow)| Step::Ended { status, slow }),
        1 => (1i64..400).prop_map(Step::Wait),
    ];
    proptest::collection::vec(step, 1..80)
}

/// A dispatcher that has been through these steps, the numbers on its wire, its newest delivery and the time.
struct Lived {
    dispatcher: Dispatcher,
    wire: VecDeque<i64>,
    newest: i64,
    now: i64,
}

impl Lived {
    fn through(steps: &[Step]) -> Lived {
        let mut lived = Lived { dispatcher: awake(vec![], vec![]), wire: VecDeque::new(), newest: 0, now: 1 };
        for &step in steps {
            lived.now += 1;
            match step {
                Step::Hint(age) => {
                    let due = lived.now - age;
                    let no = lived.newest + 1;
                    lived.dispatcher.hint(DeliveryNo(lived.newest), vec![waiting(no, Line::First, due)]);
                    lived.newest = no;
                }
                Step::Ended { status, slow } => {
                    let Some(no) = lived.wire.pop_front() else { continue };
                    let mut attempt = attempt(Some(status), lived.now);
                    attempt.report.took = if slow { SLOW.scaled(2.0) } else { Span::ZERO };
                    lived.dispatcher.ended(DeliveryNo(no), attempt, 0.0, 0, false);
                }
                Step::Wait(seconds) => lived.now += seconds,
            }
            lived.pump();
        }
        lived
    }

    /// What starts now; every result is committed at once, and no read finds anything.
    fn pump(&mut self) -> Vec<i64> {
        let effects = self.dispatcher.pump(at(self.now), Room::PLENTY);
        for effect in &effects {
            match effect {
                Effect::Record(_) => drop(self.dispatcher.recorded(false)),
                Effect::Load { .. } => self.dispatcher.load_failed(at(self.now)),
                _ => {}
            }
        }
        let started = starts(&effects);
        self.wire.extend(&started);
        started
    }
}

proptest! {
    #[test]
    fn s03_what_a_patient_endpoint_is_not_told_could_not_have_started(
        steps in steps(), age in 0i64..20, later in 0i64..400,
    ) {
        let mut lived = Lived::through(&steps);
        let wake_at = lived.dispatcher.wake_at(at(lived.now));
        prop_assume!(lived.dispatcher.is_patient(wake_at));
        // Until it is woken, if by time, at any moment.
        let until = wake_at.map_or(lived.now + later, |at| (lived.now + later).min(at.as_micros() / 1_000_000 - 1));
        lived.now = until.max(lived.now);
        let no = lived.newest + 1;
        lived.dispatcher.hint(DeliveryNo(lived.newest), vec![waiting(no, Line::First, lived.now - age)]);
        let started = lived.pump();
        prop_assert!(!started.contains(&no), "{started:?} of {no} at {}, to be woken {wake_at:?}", lived.now);
    }

    #[test]
    fn s03_what_a_full_window_is_only_told_the_reach_of_it_would_have_forgotten(
        steps in steps(), age in 0i64..20, more in 1i64..4,
    ) {
        let (mut told, mut passed) = (Lived::through(&steps), Lived::through(&steps));
        let Some(full_at) = told.dispatcher.full_at() else { return Ok(()) };
        let newest = told.newest;
        let hinted: Vec<_> = (1..=more).map(|no| waiting(newest + no, Line::First, told.now - age)).collect();
        prop_assume!(hinted.iter().all(|waiting| waiting.place() > full_at));
        told.dispatcher.hint(DeliveryNo(newest), hinted);
        passed.dispatcher.passed(DeliveryNo(newest), DeliveryNo(newest + more));
        let known = |it: &Dispatcher| (it.seen_through, it.read_through, it.stale, it.wake_at(at(told.now)));
        prop_assert_eq!(known(&told.dispatcher), known(&passed.dispatcher));
        let places = |it: &Dispatcher| it.first.iter().chain(it.second.iter()).map(Waiting::place).collect::<Vec<_>>();
        prop_assert_eq!(places(&told.dispatcher), places(&passed.dispatcher));
        prop_assert_eq!(told.pump(), passed.pump());
    }
}
