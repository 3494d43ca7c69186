//! The scripted transport: writes every request down, asks the receiver, and keeps the policy's timeout as the real one
//! does.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;
use posthaste::clock::Clock;
use posthaste::domain::attempt::{ErrorKind, Finding, Report, Timing};
use posthaste::domain::ids::{EndpointNo, parse_delivery_id};
use posthaste::domain::time::Span;
use posthaste::transport::{Request, Transport, TransportFactory};

use super::ledger::{Ledger, Wire, WireEnd};
use super::receiver::{Call, Receiver, Turn};

/// Every endpoint's receiver, by the endpoint's id. Outlives the process.
#[derive(Clone, Default)]
pub struct Receivers(Arc<Mutex<HashMap<String, Known>>>);

struct Known {
    no: EndpointNo,
    receiver: Receiver,
    calls: usize,
}

impl Receivers {
    pub fn put(&self, id: &str, no: EndpointNo, receiver: Receiver) {
        let calls = 0;
        self.0.lock().unwrap().insert(id.to_owned(), Known { no, receiver, calls });
    }

    /// From now on every receiver answers 200.
    pub fn heal(&self) {
        self.replace(super::receiver::healthy);
    }

    /// From now on every receiver is another one.
    pub fn replace(&self, receiver: impl Fn() -> Receiver) {
        self.0.lock().unwrap().values_mut().for_each(|known| known.receiver = receiver());
    }
}

/// The transport of one life.
#[derive(Clone)]
pub struct Scripted {
    pub receivers: Receivers,
    pub ledger: Ledger,
    pub clock: Clock,
    pub life: u32,
    /// How often an actor has asked for a transport of its own.
    pub opened: Arc<AtomicUsize>,
}

impl TransportFactory for Scripted {
    fn open(&self) -> Box<dyn Transport> {
        self.opened.fetch_add(1, Ordering::Relaxed);
        Box::new(self.clone())
    }
}

impl Scripted {
    /// Writes the beginning down and asks the receiver. Returns the place in the ledger and what it does.
    fn begin(&self, request: &Request) -> (usize, Turn) {
        let header = |name: &str| {
            let found = request.headers.iter().find(|(other, _)| other.eq_ignore_ascii_case(name));
            found.map(|(_, value)| value.as_str()).unwrap_or_else(|| panic!("a request without {name}"))
        };
        let (event, delivery) = (header("Posthaste-Event-Id"), header("Posthaste-Delivery-Id"));
        let attempt = header("Posthaste-Attempt").parse().expect("a number");
        let now = self.clock.now();
        // A receiver may be scripted to panic.
        let mut receivers = self.receivers.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let known = receivers.get_mut(header("Posthaste-Endpoint-Id")).expect("a receiver");
        known.calls += 1;
        let turn = (known.receiver)(Call { event, attempt, now, nth: known.calls - 1 });
        let seq = self.ledger.next_seq();
        let mut pages = self.ledger.pages();
        pages.wire.push(Wire {
            seq,
            life: self.life,
            endpoint: known.no,
            event: event.into(),
            delivery: parse_delivery_id(delivery).expect("a delivery's id"),
            attempt,
            url: request.url.to_string(),
            body: request.body.to_vec(),
            began: now,
            ended: None,
            cut_off: None,
        });
        (pages.wire.len() - 1, turn)
    }
}

/// A request on the wire; dropped before its end, it is cut off.
struct OnTheWire<'a> {
    scripted: &'a Scripted,
    place: usize,
}

impl Drop for OnTheWire<'_> {
    fn drop(&mut self) {
        let (seq, at) = (self.scripted.ledger.next_seq(), self.scripted.clock.now());
        let wire = &mut self.scripted.ledger.pages().wire[self.place];
        if wire.ended.is_none() {
            wire.cut_off = Some((seq, at));
        }
    }
}

impl Transport for Scripted {
    fn send(&self, request: Request) -> LocalBoxFuture<'static, Report> {
        let this = self.clone();
        async move {
            let (place, turn) = this.begin(&request);
            let on_the_wire = OnTheWire { scripted: &this, place };
            let limit = request.timeout.to_std();
            let timed_out = turn.after >= limit;
            let took = turn.after.min(limit);
            if took > Duration::ZERO {
                tokio::time::sleep(took).await;
            }
            let finding = match timed_out {
                true => Finding::Failed { kind: ErrorKind::Timeout, error: "scripted" },
                false => turn.finding,
            };
            let (seq, at) = (this.ledger.next_seq(), this.clock.now());
            let slow = timed_out || took > Duration::from_secs(1);
            let end = WireEnd { seq, at, finding: finding.clone(), slow };
            this.ledger.pages().wire[place].ended = Some(end);
            drop(on_the_wire);
            Report { finding, timing: Timing::default(), remote_addr: None, took: Span::from_std(took) }
        }
        .boxed_local()
    }
}
