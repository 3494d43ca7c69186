//! Making one attempt: sign, send, watch the clock. Runs as a task of its own on the endpoint's thread; if the actor
//! dies the task is aborted with it, so an attempt belongs to one incarnation.

use std::rc::Rc;
use std::sync::Arc;

use actix::Addr;
use tokio::task::JoinHandle;

use super::endpoint::EndpointActor;
use super::gate::Pass;
use super::messages::{AttemptEnded, BecameSlow, tell_actor};
use super::{Env, Ping};
use crate::domain::attempt::{Attempt, Trigger};
use crate::domain::content::Content;
use crate::domain::delivery::Waiting;
use crate::domain::envelope::{self, Addressed};
use crate::domain::time::Span;
use crate::store::endpoint_record::EndpointRecord;
use crate::transport::{Request, Transport};

/// Bodies larger than this are signed on another thread, so that a big one does not hold up an endpoint's neighbours.
const SIGN_HERE: usize = 64 * 1024;

/// An attempt older than this is slow (S19), in real time.
const SLOW_AFTER: std::time::Duration = std::time::Duration::from_secs(1);

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

/// Starts an attempt; its end comes back as [`AttemptEnded`].
pub fn make(
    env: &Arc<Env>,
    transport: &Rc<dyn Transport>,
    order: Order,
    mut pass: Pass,
    back: Addr<EndpointActor>,
) -> Making {
    let (env, transport) = (env.clone(), transport.clone());
    let started_at = env.clock.now();
    Making(tokio::task::spawn_local(async move {
        let (delivery, trigger) = (order.delivery.no, order.trigger);
        let url = order.record.url.clone();
        let (body, timeout) = (order.content.body.clone(), order.timeout);
        let headers = sign(&env, order).await;
        let mut sending = transport.send(Request { url: url.clone(), headers, body, timeout });
        let (report, slow) = match tokio::time::timeout(SLOW_AFTER, &mut sending).await {
            Ok(report) => (report, false),
            Err(_) => {
                pass.is_slow();
                tell_actor(&back, BecameSlow);
                (sending.await, true)
            }
        };
        drop(pass);
        let attempt = Attempt { trigger, started_at, ended_at: env.clock.now(), url, report };
        let wall_secs = env.clock.wall().as_secs();
        tell_actor(&back, AttemptEnded { delivery, attempt, wall_secs, slow });
    }))
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

/// The attempt's headers, signed now (S23).
async fn sign(env: &Env, order: Order) -> Vec<(String, String)> {
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
        // Cancelled only with the runtime, and then nobody sends anything.
        true => tokio::task::spawn_blocking(work).await.unwrap_or_default(),
        false => work(),
    }
}
