//! The transport against receivers that do as they please. Every test runs on an actix system, as the engine does.

mod answers;

use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use posthaste::domain::attempt::{Answer, ErrorKind, Finding, Report};
use posthaste::domain::time::Span;
use posthaste::transport::awc::{AwcFactory, Options};
use posthaste::transport::target::AddressPolicy;
use posthaste::transport::{Request, Transport, TransportFactory};

/// Runs a test as the engine runs: on an actix system.
pub fn on_actix<T>(test: impl Future<Output = T>) -> T {
    actix_rt::System::new().block_on(test)
}

/// Options that let receivers on this machine be called.
pub fn local_options() -> Options {
    let allow = ["127.0.0.0/8", "::1/128"].map(|net| net.parse().expect("a network"));
    Options {
        policy: AddressPolicy::new(allow),
        ..Options::default()
    }
}

/// A transport that may call receivers on this machine.
pub fn transport() -> Box<dyn Transport> {
    AwcFactory::new(local_options()).expect("no extra roots").open()
}

/// A small request with a generous timeout.
pub fn request(url: &str) -> Request {
    Request {
        url: Arc::from(url),
        headers: vec![
            ("Content-Type".into(), "application/json".into()),
            ("X-Event".into(), "order.paid".into()),
        ],
        body: Bytes::from_static(b"{\"id\":\"evt_1\"}"),
        timeout: Span::from_secs(10),
    }
}

/// The answer in a report, which must be one.
#[track_caller]
pub fn answer(report: Report) -> Answer {
    match report.finding {
        Finding::Answered(answer) => answer,
        other => panic!("{other:?}"),
    }
}

/// The kind of failure in a report, which must be one.
#[track_caller]
pub fn failure(report: &Report) -> (ErrorKind, &'static str) {
    match report.finding {
        Finding::Failed { kind, error } => (kind, error),
        ref other => panic!("{other:?}"),
    }
}
