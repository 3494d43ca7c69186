//! Connections that wait for another request, and the janitor that closes them. awc looks at a pooled connection's age
//! only when the next request comes, and that may be never; a socket would stay open for as long.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::{Rc, Weak};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::now;
use super::wire::Wire;

/// How long a connection may wait for another request.
pub const IDLE_LIMIT: Duration = Duration::from_secs(15);

/// One connection: held by its stream in awc's pool, known to the janitor.
pub struct Line {
    /// Gone once it is closed.
    pub wire: RefCell<Option<Wire>>,
    pub peer: SocketAddr,
    /// Since when it waits; `None` while it carries an exchange.
    idle_since: Cell<Option<Instant>>,
    /// It has carried an exchange before.
    pub used: Cell<bool>,
}

impl Line {
    pub fn new(wire: Wire, peer: SocketAddr) -> Rc<Line> {
        Rc::new(Line { wire: RefCell::new(Some(wire)), peer, idle_since: Cell::new(None), used: Cell::new(false) })
    }

    /// An exchange begins.
    pub fn take_up(&self) {
        self.idle_since.set(None);
    }
}

/// Closes one endpoint's idle connections in time: one task with one timer, and only while there are any.
#[derive(Default)]
pub struct Janitor {
    lines: RefCell<Vec<Weak<Line>>>,
    at_work: Cell<bool>,
}

impl Janitor {
    /// An exchange on `line` has ended and another may follow.
    pub fn lay_down(self: &Rc<Self>, line: &Rc<Line>) {
        line.idle_since.set(Some(now()));
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
            let waiting = lines.iter().filter_map(|line| line.upgrade()?.idle_since.get());
            next = waiting.min().unwrap_or(now) + IDLE_LIMIT;
        }
    }
}

/// Closes a connection that has waited too long. The stream in awc's pool then reads as ended, and is dropped there
/// when the next request comes or the client goes.
fn close_if_due(line: &Line, now: Instant) -> bool {
    let due = line.idle_since.get().is_some_and(|since| now >= since + IDLE_LIMIT);
    if due {
        line.wire.take();
    }
    due
}
