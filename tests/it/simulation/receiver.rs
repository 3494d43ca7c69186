//! Scripted receivers: what each does with a request, and how long it takes.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use posthaste::domain::attempt::{Answer, ErrorKind, Finding};
use posthaste::domain::time::{Span, Timestamp};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// A request, as a receiver looks at it.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    pub event: &'a str,
    /// Within its run.
    pub attempt: u32,
    pub now: Timestamp,
    /// So many requests came before this one.
    pub nth: usize,
}

/// What a receiver does with one request.
#[derive(Clone, Debug)]
pub struct Turn {
    /// In real time.
    pub after: Duration,
    pub finding: Finding,
}

pub type Receiver = Box<dyn FnMut(Call<'_>) -> Turn + Send>;

impl Turn {
    pub fn status(status: u16) -> Turn {
        Turn::answer(status, None)
    }

    pub fn retry_after(status: u16, text: &str) -> Turn {
        Turn::answer(status, Some(text.to_owned()))
    }

    fn answer(status: u16, retry_after: Option<String>) -> Turn {
        let excerpt = Bytes::from_static(b"ok");
        Turn {
            after: Duration::from_millis(5),
            finding: Finding::Answered(Answer { status, retry_after, excerpt, excerpt_truncated: false }),
        }
    }

    pub fn failed(kind: ErrorKind) -> Turn {
        Turn { after: Duration::from_millis(1), finding: Finding::Failed { kind, error: "scripted" } }
    }

    /// Never answers: the transport's timeout ends it.
    pub fn hang() -> Turn {
        Turn { after: Duration::MAX, finding: Finding::Failed { kind: ErrorKind::Timeout, error: "scripted" } }
    }

    /// A fault of ours (S6).
    pub fn local() -> Turn {
        Turn { after: Duration::ZERO, finding: Finding::Local { reason: "scripted" } }
    }

    pub fn after(self, after: Duration) -> Turn {
        Turn { after, ..self }
    }
}

/// Always the same.
pub fn always(turn: Turn) -> Receiver {
    Box::new(move |_| turn.clone())
}

pub fn healthy() -> Receiver {
    always(Turn::status(204))
}

/// One turn after the other; the last one for ever.
pub fn script(turns: impl IntoIterator<Item = Turn>) -> Receiver {
    let mut turns: VecDeque<Turn> = turns.into_iter().collect();
    Box::new(move |_| match turns.len() {
        1 => turns[0].clone(),
        _ => turns.pop_front().expect("a script has a turn"),
    })
}

/// `down` within these windows of engine time, `up` outside them.
pub fn outage(windows: Vec<(Timestamp, Timestamp)>, down: Turn, mut up: Receiver) -> Receiver {
    Box::new(move |call| match windows.iter().any(|(from, to)| (*from..*to).contains(&call.now)) {
        true => down.clone(),
        false => up(call),
    })
}

/// Up and down in turns of `period`.
pub fn flapping(period: Span, down: Turn) -> Receiver {
    Box::new(move |call| match (call.now.as_micros() / period.as_micros().max(1)) % 2 {
        0 => Turn::status(200),
        _ => down.clone(),
    })
}

/// These events fail, whatever else.
pub fn poison(events: Vec<String>, turn: Turn, mut others: Receiver) -> Receiver {
    Box::new(move |call| match events.iter().any(|event| event == call.event) {
        true => turn.clone(),
        false => others(call),
    })
}

/// By chance: each request gets one of these turns.
pub fn by_chance(seed: u64, turns: Vec<Turn>) -> Receiver {
    let mut random = StdRng::seed_from_u64(seed);
    Box::new(move |_| turns[random.random_range(0..turns.len())].clone())
}
