//! How much time of an attempt is charged to its receiver (S4): from the start of name resolution on, but not while the
//! attempt queues inside Posthaste.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::now;

/// Runs from its start, but for its pauses. Real time.
pub struct Stopwatch {
    /// The start, moved on by every pause that is over.
    start: Cell<Instant>,
    paused_at: Cell<Option<Instant>>,
}

impl Stopwatch {
    pub fn start() -> Stopwatch {
        Stopwatch { start: Cell::new(now()), paused_at: Cell::default() }
    }

    /// Stands still until `queueing` is over, or is given up.
    pub async fn pause_for<T>(&self, queueing: impl Future<Output = T>) -> T {
        self.paused_at.set(Some(now()));
        let _goes_on = GoesOn(self);
        queueing.await
    }

    /// What was charged up to `instant`.
    pub fn at(&self, instant: Instant) -> Duration {
        self.paused_at.get().map_or(instant, |paused_at| paused_at.min(instant)) - self.start.get()
    }

    /// When so much will have been charged; `None` while it stands still.
    fn deadline(&self, limit: Duration) -> Option<Instant> {
        self.paused_at.get().is_none().then(|| self.start.get() + limit)
    }

    /// Waits for `work`; `None` if `limit` was charged before it was done. Pauses must happen within `work`, or this
    /// does not hear of their ends.
    pub async fn limit<T>(&self, limit: Duration, work: impl Future<Output = T>) -> Option<T> {
        let mut work = pin!(work);
        let mut alarm = pin!(sleep_until(self.start.get() + limit));
        poll_fn(|cx| {
            if let std::task::Poll::Ready(done) = work.as_mut().poll(cx) {
                return std::task::Poll::Ready(Some(done));
            }
            let Some(deadline) = self.deadline(limit) else { return std::task::Poll::Pending };
            // The alarm alone would not do: it wants a share of the task's budget (tokio's `coop`), which a flood uses up.
            if now() >= deadline {
                return std::task::Poll::Ready(None);
            }
            if alarm.deadline() != deadline {
                alarm.as_mut().reset(deadline);
            }
            alarm.as_mut().poll(cx).map(|()| None)
        })
        .await
    }
}

struct GoesOn<'a>(&'a Stopwatch);

impl Drop for GoesOn<'_> {
    fn drop(&mut self) {
        if let Some(paused_at) = self.0.paused_at.take() {
            self.0.start.set(self.0.start.get() + paused_at.elapsed());
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;

    const fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[tokio::test(start_paused = true)]
    async fn s04_pauses_are_not_charged() {
        // Work before the pause, the pause, work after it; the limit; what comes of it, and after how long.
        for (before, pause, after, limit, done, ends) in [
            (100, 0, 100, 300, true, 200),
            (100, 0, 250, 300, false, 300),
            (100, 5_000, 100, 300, true, 5_200),
            (100, 5_000, 250, 300, false, 5_300),
            (0, 290, 290, 300, true, 580),
            (400, 5_000, 0, 300, false, 300),
        ] {
            let (begun, watch) = (now(), Stopwatch::start());
            let work = async {
                sleep(millis(before)).await;
                watch.pause_for(sleep(millis(pause))).await;
                sleep(millis(after)).await;
            };
            let outcome = watch.limit(millis(limit), work).await;
            assert_eq!((outcome.is_some(), begun.elapsed()), (done, millis(ends)), "{before} {pause} {after} {limit}");
            assert_eq!(watch.at(now()), millis(if done { before + after } else { limit }));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn s04_it_stands_still_during_a_pause_and_goes_on_when_one_is_given_up() {
        let watch = Stopwatch::start();
        sleep(millis(10)).await;
        {
            let mut pause = pin!(watch.pause_for(std::future::pending::<()>()));
            let _ = tokio::time::timeout(millis(700), &mut pause).await;
            assert_eq!(watch.at(now()), millis(10));
        }
        sleep(millis(5)).await;
        assert_eq!(watch.at(now()), millis(15));
    }
}
