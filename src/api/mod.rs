//! The HTTP API (`api.md`): one route table, one error type, one file per resource. It sees the engine only through its
//! handle.
//!
//! A handler's signature says who may call it ([`auth::Reader`], [`auth::Sender`], [`auth::Manager`]). It reads the
//! request to its end, says everything that is wrong with it, and only then touches store or engine. What takes more than
//! one step there runs as a task of its own ([`detached`]), so that a caller who hangs up leaves nothing half done.

mod answer;
mod attempts;
pub mod auth;
mod body;
pub(crate) mod cursor;
mod deliveries;
mod dlq;
pub(crate) mod endpoints;
pub(crate) mod events;
mod health;
mod idempotency;
mod json;
pub mod limits;
mod notifications;
mod policies;
pub mod problem;
mod query;
mod server;
mod turns;

use std::future::Future;

use actix_web::web::{self, ServiceConfig};
use tokio::sync::Semaphore;

use crate::config::Config;
use crate::domain::content::ByteBudget;
use crate::engine::Engine;
use crate::store::Store;
use crate::store::error::StoreError;
use auth::Keys;
use endpoints::Rules;
use health::StoreCheck;
use idempotency::Running;
use problem::Problem;
use turns::Turns;

pub use server::{app, serve};

/// What every handler needs.
pub struct Api {
    store: Store,
    engine: Engine,
    keys: Keys,
    rules: Rules,
    running: Running,
    turns: Turns,
    bodies: ByteBudget,
    pings: Semaphore,
    store_check: StoreCheck,
}

impl Api {
    /// # Errors
    /// If the keys cannot be read.
    pub async fn new(store: Store, engine: Engine, config: &Config) -> Result<Api, StoreError> {
        let operator = config.operator_key.as_ref().map(|key| key.0.as_str());
        Ok(Api {
            keys: Keys::load(&store, operator).await?,
            rules: Rules::of(config),
            running: Running::default(),
            turns: Turns::default(),
            bodies: ByteBudget::new(limits::BODIES_BYTES),
            pings: Semaphore::new(limits::PINGS),
            store_check: StoreCheck::default(),
            store,
            engine,
        })
    }
}

/// Runs a conversation with store and engine to its end, although the caller may hang up in the middle.
async fn detached<T: 'static>(conversation: impl Future<Output = Result<T, Problem>> + 'static) -> Result<T, Problem> {
    let ended = actix_web::rt::spawn(conversation).await;
    // It panicked, or the runtime is going down: what was committed is, but nobody knows what.
    ended.unwrap_or_else(|_| Err(Problem::unavailable("The request did not come to its end.")))
}

/// Declares routes: a path, and a handler for each method that it knows. GET serves HEAD too (RFC 9110 §9.3.2); for every
/// other method there is a 405 that says which would have been right.
macro_rules! routes {
    ($config:expr; $($path:literal: $($method:ident $handler:path),+;)+) => { $(
        $config.service(
            web::resource($path)
                $(.route(method!($method).to($handler)))+
                .default_service(web::to(|| async {
                    Err::<actix_web::HttpResponse, _>(Problem::method_not_allowed(allowed!($($method)+)))
                })),
        );
    )+ };
}

macro_rules! method {
    (GET) => {
        web::route().guard(actix_web::guard::Any(actix_web::guard::Get()).or(actix_web::guard::Head()))
    };
    (POST) => {
        web::post()
    };
    (PATCH) => {
        web::patch()
    };
    (DELETE) => {
        web::delete()
    };
}

macro_rules! allowed {
    (GET $($more:ident)*) => { concat!("GET, HEAD", $(", ", stringify!($more)),*) };
    ($first:ident $($more:ident)*) => { concat!(stringify!($first), $(", ", stringify!($more)),*) };
}

/// Every route of the API. What it does not know is answered 404 by [`app`].
pub fn routes(config: &mut ServiceConfig) {
    routes! { config;
        "/healthz": GET health::healthz;
        "/readyz": GET health::readyz;
    }
    config.service(web::scope("/api/v1/webhooks").configure(|config| {
        routes! { config;
            "/events": GET events::list, POST events::post;
            "/events/batch": POST events::post_batch;
            "/events/{id}": GET events::get;

            "/endpoints": GET endpoints::list, POST endpoints::create;
            "/endpoints/{id}": GET endpoints::get, PATCH endpoints::edit, DELETE endpoints::delete;
            "/endpoints/{id}/status": GET endpoints::status::get;
            "/endpoints/{id}/enable": POST endpoints::actions::enable;
            "/endpoints/{id}/disable": POST endpoints::actions::disable;
            "/endpoints/{id}/ping": POST endpoints::ping::ping;
            "/endpoints/{id}/secret": GET endpoints::secret::get;
            "/endpoints/{id}/secret/rotate": POST endpoints::secret::rotate;

            "/policies": GET policies::list;
            "/policies/simulate": POST policies::simulate;

            "/deliveries": GET deliveries::list;
            "/deliveries/{id}": GET deliveries::get;
            "/deliveries/{id}/attempts": GET deliveries::attempts;
            "/deliveries/{id}/retry": POST deliveries::retry;

            "/dlq": GET dlq::list;
            "/dlq/requeue": POST dlq::requeue_many;
            "/dlq/{delivery_id}/requeue": POST dlq::requeue;

            "/notifications": GET notifications::list;
            "/notifications/{id}/read": POST notifications::read;
        }
    }));
}
