//! Connections that wait for another request: how many may, and the janitor that closes them in time. awc looks at a
//! pooled connection's age only when the next request comes, and that may be never; a socket would stay open for as long.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep_until};

use super::now;
use super::wire::Wire;

/// How long a connection may wait for another request.
pub const IDLE_LIMIT: Duration = Duration::from_secs(15);

/// How many connections may wait at once, of all endpoints together, in a process with descriptors enough. Each is a file
/// descriptor that no attempt can have, and over TLS tens of kilobytes, where a new connection costs a handshake: so many
/// that a thousand busy endpoints keep theirs. A process with few descriptors keeps fewer (`app.rs`).
pub const MAX_IDLE: usize = 1_000;

/// The places for connections that wait; clones share them.
#[derive(Clone)]
pub struct IdlePlaces(Arc<Semaphore>);

impl IdlePlaces {
    pub fn new(number: usize) -> IdlePlaces {
        IdlePlaces(Arc::new(Semaphore::new(number)))
    }

    /// A place, given back when it is dropped, on whichever thread; `None` if all are taken.
    pub fn take(&self) -> Option<IdlePlace> {
        Arc::clone(&self.0).try_acquire_owned().ok().map(|permit| IdlePlace { _permit: permit })
    }
}

/// The right of one connection to wait.
pub struct IdlePlace {
    _permit: OwnedSemaphorePermit,
}

/// One connection: held by its stream in awc's pool, known to the janitor.
pub struct Line {
    /// Gone once it is closed. Stands before `idle`, so that it is dropped first: a place is free when the socket is.
    pub wire: RefCell<Option<Wire>>,
    pub peer: SocketAddr,
    /// Its waiting; `None` while it carries an exchange. A connection that its receiver has closed waits until we close
    /// our end too: so long it takes up a descriptor.
    idle: RefCell<Option<Idle>>,
    /// It has carried an exchange before.
    pub used: Cell<bool>,
}

struct Idle {
    since: Instant,
    _place: IdlePlace,
}

impl Line {
    pub fn new(wire: Wire, peer: SocketAddr) -> Rc<Line> {
        Rc::new(Line { wire: RefCell::new(Some(wire)), peer, idle: RefCell::new(None), used: Cell::new(false) })
    }

    /// An exchange begins.
    pub fn take_up(&self) {
        self.idle.take();
    }

    /// Closes the socket now, whoever still holds the line.
    pub fn close(&self) {
        self.wire.take();
        self.idle.take();
    }

    fn idle_since(&self) -> Option<Instant> {
        self.idle.borrow().as_ref().map(|idle| idle.since)
    }
}

/// Closes one endpoint's idle connections in time: one task with one timer, and only while there are any.
pub struct Janitor {
    places: IdlePlaces,
    lines: RefCell<Vec<Weak<Line>>>,
    at_work: Cell<bool>,
}

impl Janitor {
    pub fn new(places: IdlePlaces) -> Rc<Janitor> {
        Rc::new(Janitor { places, lines: RefCell::default(), at_work: Cell::new(false) })
    }

    /// A place for a connection that is about to wait; `None` means that it is to be closed.
    pub fn place(&self) -> Option<IdlePlace> {
        self.places.take()
    }

    /// An exchange on `line` has ended and another may follow.
    pub fn lay_down(self: &Rc<Self>, line: &Rc<Line>, place: IdlePlace) {
        line.idle.replace(Some(Idle { since: now(), _place: place }));
        if !line.used.replace(true) {
            self.lines.borrow_mut().push(Rc::downgrade(line));
        }
        if !self.at_work.replace(true) {
            actix_rt::spawn(Rc::clone(self).work());
        }
    }

    async fn work(self: Rc<Self>) {
        // Nothing is due before the first connection can have waited long enough.
        let mut next = now() + IDLE_LIMIT;
        loop {
            sleep_until(next).await;
            let now = now();
            let mut lines = self.lines.borrow_mut();
            lines.retain(|line| line.upgrade().is_some_and(|line| !close_if_due(&line, now)));
            if lines.is_empty() {
                self.at_work.set(false);
                return;
            }
            let waiting = lines.iter().filter_map(|line| line.upgrade()?.idle_since());
            next = waiting.min().unwrap_or(now) + IDLE_LIMIT;
        }
    }
}

/// Closes a connection that has waited too long. The stream in awc's pool then reads as ended, and is dropped there
/// when the next request comes or the client goes.
fn close_if_due(line: &Line, now: Instant) -> bool {
    let due = line.idle_since().is_some_and(|since| now >= since + IDLE_LIMIT);
    if due {
        line.close();
    }
    due
}
