//! Callers that go on posting while something else happens, and how long they wait for their answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::server::Server;

/// Events that go on coming in, one after the other, from two callers.
pub struct Ingest {
    stop: Arc<AtomicBool>,
    callers: Vec<thread::JoinHandle<Vec<Duration>>>,
}

impl Ingest {
    pub fn start(server: &Server, phase: &'static str) -> Ingest {
        let stop = Arc::<AtomicBool>::default();
        let callers = (0..2).map(|caller| {
            let (mut client, stop) = (server.client(), stop.clone());
            thread::spawn(move || {
                let mut times = Vec::new();
                for n in 0.. {
                    let id = format!("live-{phase}-{caller}-{n}");
                    let body = json!({"id": id, "type": "live", "data": {}}).to_string();
                    let began = Instant::now();
                    // An error is the death of the server.
                    let Ok(answer) = client.send("POST", "/events", body.as_bytes()) else { break };
                    assert_eq!(answer.status, 202);
                    times.push(began.elapsed());
                    if stop.load(Ordering::SeqCst) {
                        break;
                    }
                    thread::sleep(Duration::from_millis(5));
                }
                times
            })
        });
        Ingest { callers: callers.collect(), stop }
    }

    /// How many were accepted, and the 99th percentile of how long that took.
    pub fn stop(self) -> (usize, Duration) {
        self.stop.store(true, Ordering::SeqCst);
        let mut times: Vec<_> = self.callers.into_iter().flat_map(|caller| caller.join().expect("a caller")).collect();
        times.sort();
        (times.len(), times[times.len() * 99 / 100])
    }
}
