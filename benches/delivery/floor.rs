//! What the same machine does at the same hour without Posthaste: plain POSTs by awc to the same receiver, and bare group commits
//! to the same disk.

use std::fs::File;
use std::io::Write;
use std::time::{Duration, Instant};

use futures_util::future::join_all;

use super::book::{histogram, millis};
use super::receiver::Receiver;
use super::report::{Reading, reading};
use super::{Setting, machine};

/// How long each floor is measured.
const TIME: Duration = Duration::from_secs(2);
/// Requests at once, and events in a commit.
const ABREAST: usize = 64;

/// Both floors, for events of so many bytes.
pub fn floor(setting: &Setting, receiver: &Receiver, bytes: usize) -> Vec<Reading> {
    let (posts, cost) = plain_posts(receiver, bytes);
    let (commits, p99) = bare_commits(setting, bytes);
    vec![
        reading("floor: plain awc", "POSTs/s", posts),
        reading("floor: plain awc, CPU", "µs per POST", cost),
        reading("floor: 64 events in a bare commit", "events/s", commits * ABREAST as f64),
        reading("floor: bare commit p99", "ms", p99),
    ]
}

fn plain_posts(receiver: &Receiver, bytes: usize) -> (f64, f64) {
    let (url, body) = (receiver.url(super::receiver::WELL), bytes::Bytes::from(vec![b'x'; bytes]));
    let measured = std::thread::spawn(move || {
        actix_rt::System::new().block_on(async {
            let client = awc::Client::builder().connector(awc::Connector::new().limit(ABREAST)).finish();
            let (began, before) = (Instant::now(), machine::of_this_thread());
            let post = async || {
                let mut count = 0;
                while began.elapsed() < TIME {
                    let mut answer = client.post(&url).send_body(body.clone()).await.expect("an answer");
                    let _ = answer.body().await;
                    count += 1;
                }
                count
            };
            let count: u32 = join_all((0..ABREAST).map(|_| post())).await.into_iter().sum();
            let (took, cost) = (began.elapsed(), machine::of_this_thread() - before);
            (f64::from(count) / took.as_secs_f64(), cost.as_secs_f64() * 1e6 / f64::from(count))
        })
    });
    measured.join().expect("no panic")
}

/// Commits a second, and the 99th percentile of how long one takes in milliseconds.
fn bare_commits(setting: &Setting, bytes: usize) -> (f64, f64) {
    let folder = tempfile::tempdir_in(&setting.store).expect("a folder");
    let mut file = File::create(folder.path().join("floor")).expect("a file");
    let group = vec![b'x'; bytes * ABREAST];
    let (began, mut times) = (Instant::now(), histogram());
    while began.elapsed() < TIME {
        let at = Instant::now();
        file.write_all(&group).expect("written");
        file.sync_data().expect("synced");
        times.saturating_record(at.elapsed().as_nanos() as u64);
    }
    (times.len() as f64 / began.elapsed().as_secs_f64(), millis(&times, 0.99))
}
