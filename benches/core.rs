//! The pure core, by criterion: what a dispatcher's step, a signature and the choice of endpoints cost.
//!
//! ```sh
//! cargo bench --bench core
//! ```
#![allow(clippy::disallowed_methods)] // criterion measures with the wall clock

use std::hint::black_box;
use std::sync::Arc;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use posthaste::domain::attempt::{Answer, Attempt, Finding, Report, Timing, Trigger};
use posthaste::domain::delivery::Waiting;
use posthaste::domain::dispatcher::{Dispatcher, Effect, Limits, Loaded, Room};
use posthaste::domain::endpoint::{Endpoint, Status};
use posthaste::domain::health::Health;
use posthaste::domain::ids::{DeliveryNo, EndpointNo, EventNo};
use posthaste::domain::policy::{Policy, Preset};
use posthaste::domain::secret::SigningSecret;
use posthaste::domain::signature::{sign_standard, sign_timestamped};
use posthaste::domain::subscription::{EventFilter, SubscriptionIndex};
use posthaste::domain::time::{Span, Timestamp};

/// Deliveries that one step of the dispatcher's benchmark takes from their hint to their commit.
const ABREAST: usize = 64;
const NOW: Timestamp = Timestamp::from_micros(1_788_445_441_000_000);

fn dispatcher() -> Dispatcher {
    let endpoint = Endpoint {
        no: EndpointNo(1),
        id: "ep_1".into(),
        url: "https://one.test/".into(),
        version: 1,
        status: Status::Enabled,
        policy: Arc::new(Policy::preset(Preset::Orbit)),
        max_in_flight: 64,
        cut: 0,
        counted_from: NOW,
        paused: false,
    };
    let limits = Limits { window: 256, unrecorded: 256, real_second: Span::SECOND, paced_before: Timestamp::MIN };
    let mut dispatcher = Dispatcher::new(endpoint, Health::default(), 1, limits);
    dispatcher.pump(NOW, Room::PLENTY);
    dispatcher.loaded(Loaded { first_complete: true, second_complete: true, ..Loaded::default() });
    dispatcher
}

fn success() -> Attempt {
    let answer = Answer { status: 200, retry_after: None, excerpt: Default::default(), excerpt_truncated: false };
    let report = Report {
        finding: Finding::Answered(answer),
        timing: Timing::default(),
        remote_addr: None,
        took: Span::MILLISECOND,
    };
    Attempt { trigger: Trigger::Schedule, started_at: NOW, ended_at: NOW, url: "https://one.test/".into(), report }
}

/// Hinted, started, ended, recorded: everything the brain does for deliveries that succeed.
fn steps(dispatcher: &mut Dispatcher) {
    let new = (1..=ABREAST as i64).map(|no| Waiting::accepted(DeliveryNo(no), EventNo(no), NOW)).collect();
    dispatcher.hint(DeliveryNo(0), new);
    let mut started = Vec::new();
    for effect in dispatcher.pump(NOW, Room::PLENTY) {
        if let Effect::Start(start) = effect {
            started.push(start.delivery.no);
        }
    }
    assert_eq!(started.len(), ABREAST);
    for no in started {
        dispatcher.ended(no, success(), 0.5, 1_788_445_441, false);
    }
    while let Some(Effect::Record(_)) = dispatcher.pump(NOW, Room::PLENTY).pop() {
        black_box(dispatcher.recorded(false));
    }
    assert!(dispatcher.is_idle());
}

fn dispatching(c: &mut Criterion) {
    let mut group = c.benchmark_group("dispatcher");
    group.throughput(Throughput::Elements(ABREAST as u64));
    group.bench_function("64 deliveries, hint to commit", |bench| {
        bench.iter_batched_ref(dispatcher, steps, BatchSize::SmallInput);
    });
    group.finish();
}

fn signing(c: &mut Criterion) {
    let secret = SigningSecret::generate([7; 32]);
    let mut group = c.benchmark_group("signature");
    for size in [1_024, 65_536] {
        let body = vec![b'x'; size];
        group.throughput(Throughput::Bytes(size as u64));
        group.bench_with_input(BenchmarkId::new("standard", size), &body, |bench, body| {
            bench.iter(|| sign_standard("evt_1", 1_788_445_441, black_box(body), &[&secret]));
        });
        group.bench_with_input(BenchmarkId::new("timestamped", size), &body, |bench, body| {
            bench.iter(|| sign_timestamped(1_788_445_441, black_box(body), &[&secret]));
        });
    }
    group.finish();
}

fn matching(c: &mut Criterion) {
    let mut group = c.benchmark_group("matching");
    for endpoints in [10, 1_000, 100_000] {
        let mut index = SubscriptionIndex::new();
        for n in 0..endpoints {
            let filter = EventFilter::parse(&[format!("tenant{n}.order.*")]).expect("a filter");
            index.insert(n, &filter);
        }
        group.bench_function(BenchmarkId::new("one of", endpoints), |bench| {
            bench.iter(|| index.matching(black_box("tenant7.order.created.late")));
        });
    }
    group.finish();
}

criterion_group!(benches, dispatching, signing, matching);
criterion_main!(benches);
