//! The HTTP API. One route table, one error type, one file per resource; what it knows of the engine is its handle.

pub mod auth;
mod body;
mod cursor;
mod deliveries;
mod dlq;
mod endpoint_json;
mod endpoints;
mod events;
mod idempotency;
pub mod limits;
mod others;
pub mod problem;
mod query;
mod status;

use std::future::Future;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use actix_web::dev::{Server, Service};
use actix_web::http::header::{HeaderName, HeaderValue};
use actix_web::web::{self, Data, ServiceConfig};
use actix_web::{App, HttpRequest, HttpResponse, HttpServer};
use serde_json::{Map, Value};

use crate::config::Config;
use crate::domain::hold::{NextReason, next_retry};
use crate::domain::time::Timestamp;
use crate::engine::Engine;
use crate::store::endpoint_record::EndpointRecord;
use crate::store::list::{EndpointFound, Listed};
use crate::store::load::LoadWindow;
use crate::store::{Queue, Store};
use auth::{Caller, Keys, Right};
use cursor::List;
use endpoint_json::Rules;
use idempotency::Running;
use problem::{Answer, Problem};

/// Bytes that an idle keep-alive connection of a caller may wait, in seconds.
const KEEP_ALIVE_SECONDS: u64 = 75;
/// Connections that callers may have open, per worker.
const MAX_CONNECTIONS: usize = 4_096;

/// What every handler needs.
pub struct Api {
    store: Store,
    engine: Engine,
    keys: Keys,
    rules: Rules,
    running: Running,
}

impl Api {
    /// # Errors
    /// If the keys cannot be read.
    pub async fn new(store: Store, engine: Engine, config: &Config) -> Result<Api, crate::store::error::StoreError> {
        let operator = config.operator_key.as_ref().map(|key| key.0.as_str());
        let keys = Keys::load(&store, operator).await?;
        Ok(Api { store, engine, keys, rules: Rules::of(config), running: Running::default() })
    }

    /// Who asks, if they may.
    async fn caller(&self, request: &HttpRequest, right: Right) -> Result<Caller, Problem> {
        auth::caller(&self.store, &self.keys, request, right).await
    }

    /// The same for requests that change something: refused while draining.
    async fn accepting(&self, request: &HttpRequest, right: Right) -> Result<Caller, Problem> {
        if self.engine.is_draining() {
            return Err(Problem::unavailable("This process is shutting down."));
        }
        self.caller(request, right).await
    }

    /// When the endpoint's next attempt may start, by the heads of its two lines; `None` if nothing waits or it is
    /// disabled.
    async fn next_retry(
        &self,
        record: &EndpointRecord,
        found: &EndpointFound,
    ) -> Result<Option<(Timestamp, NextReason)>, Problem> {
        if record.status != crate::domain::endpoint::Status::Enabled {
            return Ok(None);
        }
        let heads = self.store.window(LoadWindow { endpoint: record.no, cut: record.cut, limit: 1 }).await?;
        let mut next = None;
        for waiting in heads.first.iter().chain(&heads.second) {
            let view = deliveries::find(self, record.tenant, &waiting.id()).await?;
            let single = waiting.line == crate::domain::delivery::Line::Single;
            let head = next_retry(view.due_at, view.due_reason, single, found.health.circuit());
            next =
                Some(next.map_or(head, |other: (Timestamp, NextReason)| if other.0 <= head.0 { other } else { head }));
        }
        Ok(next)
    }
}

/// Runs a conversation to its end although the caller may hang up.
async fn detached<T: 'static>(conversation: impl Future<Output = Result<T, Problem>> + 'static) -> Result<T, Problem> {
    let ended = actix_web::rt::spawn(conversation).await;
    ended.unwrap_or_else(|_| Err(Problem::unavailable("The request did not come to its end.")))
}

/// A page of a list: `data`, `next_cursor` and, in the order of changes, `resume`.
fn page_body<T>(list: List, listed: &Listed<T>, row: impl Fn(&T) -> Value) -> Answer {
    let (next, resume) = deliveries::cursors(list, listed);
    let mut body = Map::new();
    body.insert("data".into(), listed.rows.iter().map(row).collect());
    body.insert("next_cursor".into(), next);
    if let Some(resume) = resume {
        body.insert("resume".into(), resume);
    }
    Ok(HttpResponse::Ok().json(body))
}

/// One path and what it answers to; any other method is a 405 that says what would have been right.
macro_rules! route {
    ($config:expr, $path:literal, $first:ident $handler:path $(, $other:ident $more:path)*) => {
        $config.service(
            web::resource($path)
                .route(web::$first().to($handler))
                $(.route(web::$other().to($more)))*
                .default_service(web::to(|| async {
                    let allow = concat!(upper!($first) $(, ", ", upper!($other))*);
                    Err::<HttpResponse, Problem>(Problem::method_not_allowed(allow))
                })),
        )
    };
}

macro_rules! upper {
    (get) => {
        "GET"
    };
    (post) => {
        "POST"
    };
    (patch) => {
        "PATCH"
    };
    (delete) => {
        "DELETE"
    };
}

/// Every route.
pub fn routes(config: &mut ServiceConfig) {
    route!(config, "/healthz", get others::healthz);
    route!(config, "/readyz", get others::readyz);
    config.service(web::scope("/api/v1/webhooks").configure(webhooks));
    config.default_service(web::to(|| async { Err::<HttpResponse, Problem>(Problem::not_found("path")) }));
}

fn webhooks(config: &mut ServiceConfig) {
    route!(config, "/events", get events::list, post events::post);
    route!(config, "/events/batch", post events::post_batch);
    route!(config, "/events/{id}", get events::get);
    route!(config, "/endpoints", get endpoints::list, post endpoints::create);
    route!(config, "/endpoints/{id}", get endpoints::get, patch endpoints::edit, delete endpoints::delete);
    route!(config, "/endpoints/{id}/status", get endpoints::status);
    route!(config, "/endpoints/{id}/enable", post endpoints::enable);
    route!(config, "/endpoints/{id}/disable", post endpoints::disable);
    route!(config, "/endpoints/{id}/ping", post endpoints::ping);
    route!(config, "/endpoints/{id}/secret", get endpoints::secret);
    route!(config, "/endpoints/{id}/secret/rotate", post endpoints::rotate);
    route!(config, "/policies", get others::policies);
    route!(config, "/policies/simulate", post others::simulate);
    route!(config, "/deliveries", get deliveries::list);
    route!(config, "/deliveries/{id}", get deliveries::get);
    route!(config, "/deliveries/{id}/attempts", get deliveries::attempts);
    route!(config, "/deliveries/{id}/retry", post deliveries::retry);
    route!(config, "/dlq", get dlq::list);
    route!(config, "/dlq/requeue", post dlq::requeue_many);
    route!(config, "/dlq/{id}/requeue", post dlq::requeue);
    route!(config, "/notifications", get others::notifications);
    route!(config, "/notifications/{id}/read", post others::read_notification);
}

/// Binds and serves; the server runs when it is polled. Returns the address it listens on.
pub fn serve(api: Api, listen: SocketAddr, workers: usize) -> io::Result<(SocketAddr, Server)> {
    let listener = TcpListener::bind(listen)?;
    let address = listener.local_addr()?;
    let api = Data::from(Arc::new(api));
    let scale = api.store.clock().scale();
    let rehearsal = (scale != 1.0).then(|| scale.to_string());
    let server = HttpServer::new(move || {
        let rehearsal = rehearsal.as_ref().and_then(|scale| HeaderValue::from_str(scale).ok());
        App::new().app_data(api.clone()).configure(routes).wrap_fn(move |request, service| {
            let (answer, rehearsal) = (service.call(request), rehearsal.clone());
            async move {
                let mut answer = answer.await?;
                if let Some(scale) = rehearsal {
                    answer.headers_mut().insert(HeaderName::from_static("posthaste-time-scale"), scale);
                }
                Ok(answer)
            }
        })
    })
    .workers(workers)
    .max_connections(MAX_CONNECTIONS)
    .keep_alive(std::time::Duration::from_secs(KEEP_ALIVE_SECONDS))
    .disable_signals()
    .shutdown_timeout(2)
    .listen(listener)?
    .run();
    Ok((address, server))
}
