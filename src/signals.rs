//! The signals that stop a process: SIGTERM and SIGINT.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Both, heard from when this is made: made before anybody is told that the process is there, since process 1 of a container
/// gets no signal that it has not asked for, and any other process would end without a drain.
pub struct Signals(Option<(Signal, Signal)>);

impl Signals {
    pub fn hear() -> Signals {
        let streams = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()));
        let (Ok(terminate), Ok(interrupt)) = streams else {
            log::error!("signals cannot be heard; only SIGKILL will stop this process");
            return Signals(None);
        };
        Signals(Some((terminate, interrupt)))
    }

    /// The next that comes, or has come since the last.
    pub async fn next(&mut self) {
        let Some((terminate, interrupt)) = &mut self.0 else { return std::future::pending().await };
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    }
}
