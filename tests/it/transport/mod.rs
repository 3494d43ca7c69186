//! The transport against receivers that do as they please. Every test runs on an actix system, as the engine does.

mod addresses;
mod answers;
mod cuts;
mod early;
mod idle;
mod limits;
mod names;
mod odd;
mod requests;
mod reuse;
mod tls;

use std::future::Future;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures_util::future::{BoxFuture, FutureExt};
use posthaste::domain::attempt::{Answer, ErrorKind, Finding, Report};
use posthaste::domain::target::AddressPolicy;
use posthaste::domain::time::Span;
use posthaste::transport::awc::{AwcFactory, Options};
use posthaste::transport::failure::Failure;
use posthaste::transport::resolve::Resolve;
use posthaste::transport::{Request, Transport, TransportFactory};

use crate::support::machine::beside_others;

/// Runs a test as the engine runs: on an actix system.
pub fn on_actix<T>(test: impl Future<Output = T>) -> T {
    let _machine = beside_others();
    actix_rt::System::new().block_on(test)
}

/// Options that let receivers on this machine be called.
pub fn local_options() -> Options {
    let allow = ["127.0.0.0/8", "::1/128"].map(|net| net.parse().expect("a network"));
    Options { policy: AddressPolicy::new(allow), ..Options::default() }
}

/// A transport with these options.
pub fn transport_with(options: Options) -> Box<dyn Transport> {
    AwcFactory::new(options).expect("usable roots").open()
}

/// A transport that may call receivers on this machine.
pub fn transport() -> Box<dyn Transport> {
    transport_with(local_options())
}

/// A small request with a generous timeout.
pub fn request(url: &str) -> Request {
    Request {
        url: Arc::from(url),
        headers: vec![("Content-Type".into(), "application/json".into()), ("X-Event".into(), "order.paid".into())],
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

/// The kind of failure and its wording in a report, which must be one.
#[track_caller]
pub fn failure(report: &Report) -> (ErrorKind, &'static str) {
    match report.finding {
        Finding::Failed { kind, error } => (kind, error),
        ref other => panic!("{other:?}"),
    }
}

/// A resolver that gives its answers in turn, and the last of them for ever.
pub struct StubResolver {
    answers: Mutex<Vec<Result<Vec<IpAddr>, Failure>>>,
    asked: Mutex<Vec<String>>,
}

impl StubResolver {
    pub fn new(answers: impl IntoIterator<Item = Result<Vec<IpAddr>, Failure>>) -> Arc<StubResolver> {
        let mut answers: Vec<_> = answers.into_iter().collect();
        answers.reverse();
        Arc::new(StubResolver { answers: Mutex::new(answers), asked: Mutex::default() })
    }

    /// Always these addresses.
    pub fn fixed(addresses: &[&str]) -> Arc<StubResolver> {
        Self::new([Ok(addresses.iter().map(|ip| ip.parse().expect("an address")).collect())])
    }

    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().expect("asked").clone()
    }
}

impl Resolve for StubResolver {
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Vec<IpAddr>, Failure>> {
        self.asked.lock().expect("asked").push(name.to_owned());
        let mut answers = self.answers.lock().expect("answers");
        let answer = if answers.len() > 1 { answers.pop() } else { answers.last().cloned() };
        async move { answer.expect("an answer") }.boxed()
    }
}
