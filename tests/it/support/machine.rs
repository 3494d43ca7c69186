//! Tests that measure time or make a load want the machine for themselves; the others run beside each other.

use std::cell::Cell;
use std::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

static MACHINE: RwLock<()> = RwLock::new(());

thread_local! {
    /// Whether this thread has its place: a second request for it would wait for those that wait for the first.
    static HERE: Cell<bool> = const { Cell::new(false) };
}

/// A place on the machine, until it is dropped.
pub struct Place {
    _guard: Option<Guard>,
}

#[expect(dead_code, reason = "held, not read")]
enum Guard {
    Shared(RwLockReadGuard<'static, ()>),
    Whole(RwLockWriteGuard<'static, ()>),
}

impl Drop for Place {
    fn drop(&mut self) {
        if self._guard.is_some() {
            HERE.set(false);
        }
    }
}

fn take(guard: impl FnOnce() -> Guard) -> Place {
    Place { _guard: (!HERE.replace(true)).then(guard) }
}

/// A place beside others. On a thread that has one already this changes nothing.
pub fn beside_others() -> Place {
    take(|| Guard::Shared(MACHINE.read().unwrap_or_else(|poisoned| poisoned.into_inner())))
}

/// Waits until nobody else has a place, and keeps it so.
pub fn alone() -> Place {
    assert!(!HERE.get(), "this thread would wait for itself");
    take(|| Guard::Whole(MACHINE.write().unwrap_or_else(|poisoned| poisoned.into_inner())))
}
