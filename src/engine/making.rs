//! Making one attempt: sign, send, watch the clock. Runs as a task of its own on the endpoint's thread; if the actor
//! dies the task is aborted with it, so an attempt belongs to one incarnation.

use std::rc::Rc;
use std::sync::Arc;

use actix::Addr;
use tokio::task::JoinHandle;

use super::endpoint::EndpointActor;
use super::ends::{AttemptEnded, Ends, Next};
use super::gate::Pass;
use super::messages::{AttemptsEnded, BecameSlow, tell_actor};
use super::{Env, Ping};
use crate::domain::attempt::{Attempt, Finding, Report, Timing, Trigger};
use crate::domain::content::Content;
use crate::domain::delivery::Waiting;
use crate::domain::envelope::{self, Addressed};
use crate::domain::ids::{DeliveryNo, delivery_id};
use crate::domain::time::{Span, Timestamp};
use crate::store::endpoint_record::EndpointRecord;
use crate::transport::{Request, Transport};

/// Bodies larger than this are signed on another thread, so that a big one does not hold up an endpoint's neighbours.
const SIGN_HERE: usize = 64 * 1024;

/// An attempt older than this is slow (S19), in real time.
const SLOW_AFTER: std::time::Duration = std::time::Duration::from_secs(1);

/// For so long an endpoint has the floor: what the actor does then, and what it begins, happens meanwhile.
const FLOOR_FOR: std::time::Duration = std::time::Duration::from_millis(1);

/// An attempt under way; dropping it aborts it.
pub struct Making(JoinHandle<()>);

impl Drop for Making {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// What an attempt is made from.
pub struct Order {
    pub record: Arc<EndpointRecord>,
    pub delivery: Waiting,
    pub content: Arc<Content>,
    pub trigger: Trigger,
    /// The policy's, in real time.
    pub timeout: Span,
}

/// Starts an attempt; its end comes back through `ends`.
pub fn make(
    env: &Arc<Env>,
    transport: &Rc<dyn Transport>,
    order: Order,
    mut pass: Pass,
    (ends, back): (&Ends, Addr<EndpointActor>),
) -> Making {
    let transport = transport.clone();
    let mut end = End {
        env: env.clone(),
        back,
        ends: ends.clone(),
        delivery: order.delivery.no,
        created_at: order.delivery.created_at,
        trigger: order.trigger,
        url: order.record.url.clone(),
        started_at: env.clock.now(),
        slow: false,
        over: false,
    };
    Making(tokio::task::spawn_local(async move {
        let (body, timeout) = (order.content.body.clone(), order.timeout);
        let report = match sign(&end.env, order).await {
            None => local("the request could not be signed"),
            Some(headers) => {
                let mut sending = transport.send(Request { url: end.url.clone(), headers, body, timeout });
                match tokio::time::timeout(SLOW_AFTER, &mut sending).await {
                    Ok(report) => report,
                    Err(_) => {
                        pass.is_slow();
                        end.is_slow();
                        sending.await
                    }
                }
            }
        };
        drop(pass);
        end.put_down(report);
    }))
}

/// Sees to it that the actor hears of an attempt's end.
struct End {
    env: Arc<Env>,
    back: Addr<EndpointActor>,
    ends: Ends,
    delivery: DeliveryNo,
    /// The delivery was; its id is made of it.
    created_at: Timestamp,
    trigger: Trigger,
    url: Arc<str>,
    started_at: Timestamp,
    slow: bool,
    over: bool,
}

impl End {
    fn is_slow(&mut self) {
        self.slow = true;
        self.ends.one_became_slow();
        tell_actor(&self.back, BecameSlow);
    }

    /// Puts down what the attempt came to, and sees to it that the actor is told.
    fn put_down(&mut self, report: Report) {
        self.over = true;
        // Not while there is a panic: the thread may be about to end.
        let patient = self.slow && !report.finding.is_success() && !std::thread::panicking();
        if let Finding::Local { reason } = report.finding {
            let id = delivery_id(self.delivery, self.created_at);
            self.env.complaints.warn(&self.env.clock, reason, id, "the attempt does not count and is made again");
        }
        let (trigger, url, started_at) = (self.trigger, self.url.clone(), self.started_at);
        let attempt = Attempt { trigger, started_at, ended_at: self.env.clock.now(), url, report };
        let (delivery, wall_secs, slow) = (self.delivery, self.env.clock.wall().as_secs(), self.slow);
        match self.ends.put(AttemptEnded { delivery, attempt, wall_secs, slow }, patient) {
            Next::Nothing => {}
            Next::Tell => tell_actor(&self.back, AttemptsEnded),
            // A task of its own: this one is aborted when the actor hears of its end.
            Next::WaitForFloor => {
                let (env, ends, back) = (self.env.clone(), self.ends.clone(), self.back.clone());
                drop(tokio::task::spawn_local(tell_with_floor(env, ends, back)));
            }
        }
    }
}

impl Drop for End {
    /// A panic on the way would otherwise be heard by nobody, and the delivery be on the wire for ever. (An attempt that is
    /// aborted has no actor any more.)
    fn drop(&mut self) {
        if !self.over && std::thread::panicking() {
            self.put_down(local("the attempt panicked"));
        }
    }
}

/// Tells an actor when it has the floor, and leaves it time to work.
async fn tell_with_floor(env: Arc<Env>, ends: Ends, back: Addr<EndpointActor>) {
    let _floor = env.floor.take().await;
    if ends.has_floor() {
        tell_actor(&back, AttemptsEnded);
        tokio::time::sleep(FLOOR_FOR).await;
    }
}

/// The fault is ours (S6).
fn local(reason: &'static str) -> Report {
    Report { finding: Finding::Local { reason }, timing: Timing::default(), remote_addr: None, took: Span::ZERO }
}

/// The request of a test ping: like an attempt's, for no delivery.
pub fn ping_request(env: &Env, ping: &Ping) -> Request {
    let record = &ping.record;
    let to = Addressed { endpoint_id: &record.id, delivery_id: &ping.delivery_id, attempt: 1 };
    let prefix = record.header_prefix.as_ref().unwrap_or(&env.header_prefix);
    let secrets = record.secrets.valid_at(env.clock.now());
    let headers = envelope::headers(&ping.content, to, prefix, &secrets, &record.headers, env.clock.wall().as_secs());
    let timeout = record.policy.resolve().timeout;
    Request { url: record.url.clone(), headers, body: ping.content.body.clone(), timeout }
}

/// The attempt's headers, signed now (S23); `None` if that panicked.
async fn sign(env: &Env, order: Order) -> Option<Vec<(String, String)>> {
    let (now, wall_secs) = (env.clock.now(), env.clock.wall().as_secs());
    let installation = env.header_prefix.clone();
    let large = order.content.body.len() > SIGN_HERE;
    let work = move || {
        let delivery_id = order.delivery.id();
        let attempt = order.delivery.attempt + 1;
        let to = Addressed { endpoint_id: &order.record.id, delivery_id: &delivery_id, attempt };
        let prefix = order.record.header_prefix.as_ref().unwrap_or(&installation);
        let secrets = order.record.secrets.valid_at(now);
        envelope::headers(&order.content, to, prefix, &secrets, &order.record.headers, wall_secs)
    };
    match large {
        true => tokio::task::spawn_blocking(work).await.ok(),
        false => Some(work()),
    }
}
