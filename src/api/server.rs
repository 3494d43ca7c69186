//! The HTTP server around the routes: what goes with every answer, and how connections are treated.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use actix_web::body::MessageBody;
use actix_web::dev::{Server, ServiceFactory, ServiceRequest, ServiceResponse};
use actix_web::http::Method;
use actix_web::http::header::{CACHE_CONTROL, HeaderName, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use actix_web::middleware::{Next, from_fn};
use actix_web::web::{self, Data};
use actix_web::{App, Error, HttpResponse, HttpServer};

use super::problem::Problem;
use super::{Api, limits, routes};
use crate::domain::excerpt::escape_for_terminal;

/// An idle connection of a caller is kept for so long.
const KEEP_ALIVE: Duration = Duration::from_secs(75);
/// A request's head has so long to come.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// Connections of callers, per worker, whatever is to be had.
const MAX_CONNECTIONS: usize = 4_096;

/// The application: routes, and 404 for everything else.
pub fn app(
    api: Data<Api>,
) -> App<
    impl ServiceFactory<
        ServiceRequest,
        Config = (),
        Response = ServiceResponse<impl MessageBody>,
        Error = Error,
        InitError = (),
    >,
> {
    App::new()
        .app_data(api)
        .configure(routes)
        .default_service(web::to(|| async { Err::<HttpResponse, _>(Problem::not_found("path")) }))
        .wrap(from_fn(finish))
}

/// What goes with every answer, errors included. Nothing here is for caches, and nothing but what it says it is.
async fn finish(
    request: ServiceRequest,
    next: Next<impl MessageBody>,
) -> Result<ServiceResponse<impl MessageBody>, Error> {
    let scale = request.app_data::<Data<Api>>().map_or(1.0, |api| api.store.clock().scale());
    let deed = deed(request.method(), request.path());
    let mut answer = next.call(request).await?;
    if let Some(deed) = deed.filter(|_| answer.status().is_success()) {
        log::info!("{deed}: {}", answer.status().as_u16());
    }
    let headers = answer.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    // S25: whoever talks to a rehearsal is told so.
    if scale != 1.0
        && let Ok(scale) = HeaderValue::from_str(&scale.to_string())
    {
        headers.insert(HeaderName::from_static("posthaste-time-scale"), scale);
    }
    Ok(answer)
}

/// What a person does to endpoints, deliveries and keys, for the log: whoever reads there why deliveries stopped finds who
/// was disabled. Events are not deeds, and looking changes nothing.
fn deed(method: &Method, path: &str) -> Option<String> {
    let event = path.ends_with("/events") || path.ends_with("/events/batch") || path.ends_with("/policies/simulate");
    (!method.is_safe() && !event).then(|| format!("{method} {}", escape_for_terminal(path.as_bytes())))
}

/// Serves; the server runs when it is polled. Returns the address it listens on. `connections`: of callers,
/// all workers together.
///
/// # Errors
/// If the address cannot be listened on.
pub fn serve(api: Api, listener: TcpListener, workers: usize, connections: usize) -> io::Result<(SocketAddr, Server)> {
    let connections = (connections / workers.max(1)).clamp(1, MAX_CONNECTIONS);
    let address = listener.local_addr()?;
    let api = Data::new(api);
    let server = HttpServer::new(move || app(api.clone()))
        .workers(workers)
        .max_connections(connections)
        .keep_alive(KEEP_ALIVE)
        .client_request_timeout(HEAD_TIME)
        // Also how long actix-http goes on reading a request that was answered before its end (413).
        .client_disconnect_timeout(limits::DRAIN_TIME)
        .disable_signals()
        .shutdown_timeout(2)
        .listen(listener)?
        .run();
    Ok((address, server))
}
