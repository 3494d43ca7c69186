//! `posthaste receive`: a test receiver that answers by a script, checks signatures and prints what comes.

use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use actix_web::dev::ServerHandle;
use actix_web::web::{Bytes, Data, PayloadConfig};
use actix_web::{App, HttpRequest, HttpResponse, HttpServer, web};
use clap::Args;
use serde_json::json;

use super::script::{self, Act};
use super::verify::Signatures;
use super::{Failure, print_line};
use crate::clock::system_time;
use crate::domain::duration_text::parse_duration;
use crate::domain::excerpt::escape_for_terminal;
use crate::domain::secret::SigningSecret;
use crate::domain::signature::DEFAULT_TOLERANCE;
use crate::domain::simulate::Cue;

#[derive(Args)]
pub struct Receive {
    /// Address and port
    #[arg(long, default_value = "127.0.0.1:9000")]
    listen: SocketAddr,
    /// What to answer, request by request; the last entry repeats. E.g. 503*2,200 or hang
    #[arg(long, default_value = "200")]
    script: Vec<String>,
    /// Wait so long before each answer
    #[arg(long, default_value = "0s")]
    delay: String,
    /// Never answer
    #[arg(long)]
    hang: bool,
    /// Check signatures with this secret, and answer 401 to wrong ones (repeatable)
    #[arg(long, env = "POSTHASTE_SECRET", hide_env_values = true)]
    secret: Vec<String>,
    /// Print the bodies too
    #[arg(long)]
    show_body: bool,
    /// One JSON object per request
    #[arg(long)]
    json: bool,
}

/// A request as it came, with what was answered.
#[derive(Clone, Debug)]
pub struct Received {
    pub path: String,
    pub headers: Vec<(String, String)>,
    pub body: Bytes,
    /// The verdict on its signatures, if there was a secret to check with.
    pub signature: Option<Result<&'static str, String>>,
    /// `None`: it hangs.
    pub answered: Option<u16>,
}

impl Received {
    /// The header with this name, or with any prefix before it (`Event-Id` finds `X-Shop-Event-Id`).
    pub fn header(&self, name: &str) -> &str {
        let matches =
            |header: &str| header.len() >= name.len() && header[header.len() - name.len()..].eq_ignore_ascii_case(name);
        self.headers.iter().find(|(header, _)| matches(header)).map_or("-", |(_, value)| value)
    }
}

/// How a receiver behaves.
pub struct Behaviour {
    pub script: Vec<Act>,
    pub delay: Duration,
    pub secrets: Vec<SigningSecret>,
}

struct State {
    behaviour: Behaviour,
    next: AtomicUsize,
    heard: Sender<Received>,
}

/// Starts a receiver on the current actix system; what comes is told to `heard`.
pub fn start(
    listen: SocketAddr,
    behaviour: Behaviour,
    heard: Sender<Received>,
) -> std::io::Result<(SocketAddr, ServerHandle)> {
    let listener = TcpListener::bind(listen)?;
    let address = listener.local_addr()?;
    let state = Data::from(Arc::new(State { behaviour, next: AtomicUsize::new(0), heard }));
    let server = HttpServer::new(move || {
        App::new()
            .app_data(state.clone())
            .app_data(PayloadConfig::new(20 * 1024 * 1024))
            .default_service(web::to(answer))
    })
    .workers(1)
    .disable_signals()
    .shutdown_timeout(0)
    .listen(listener)?
    .run();
    let handle = server.handle();
    actix_web::rt::spawn(server);
    Ok((address, handle))
}

async fn answer(state: Data<State>, request: HttpRequest, body: Bytes) -> HttpResponse {
    let text = |value: &actix_web::http::header::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let headers: Vec<(String, String)> =
        request.headers().iter().map(|(name, value)| (name.to_string(), text(value))).collect();
    let behaviour = &state.behaviour;
    let signature = (!behaviour.secrets.is_empty()).then(|| {
        let secrets: Vec<&SigningSecret> = behaviour.secrets.iter().collect();
        let now = system_time().as_secs();
        Signatures { headers: &headers, body: &body, secrets: &secrets, now, tolerance: DEFAULT_TOLERANCE }.check()
    });
    let index = state.next.fetch_add(1, Ordering::Relaxed).min(behaviour.script.len() - 1);
    let act = match &signature {
        Some(Err(_)) => Act::Cue(Cue::Answer { status: 401, retry_after: None }),
        _ => behaviour.script[index].clone(),
    };
    let (status, retry_after) = match act {
        Act::Cue(Cue::Answer { status, retry_after }) => (Some(status), retry_after),
        Act::Cue(Cue::Fail(_)) | Act::Hang => (None, None),
    };
    let path = request.path().to_owned();
    let _ = state.heard.send(Received { path, headers, body, signature, answered: status });
    tokio::time::sleep(behaviour.delay).await;
    let Some(status) = status else { return std::future::pending().await };
    let status = actix_web::http::StatusCode::from_u16(status).unwrap_or(actix_web::http::StatusCode::OK);
    let mut response = HttpResponse::build(status);
    if let Some(seconds) = retry_after {
        response.insert_header(("retry-after", seconds));
    }
    response.finish()
}

impl Receive {
    pub fn run(self) -> Result<(), Failure> {
        let secrets: Result<Vec<SigningSecret>, _> =
            self.secret.iter().map(|text| SigningSecret::parse(text)).collect();
        let behaviour = Behaviour {
            script: if self.hang { vec![Act::Hang] } else { script::acts(&self.script)? },
            delay: parse_duration(&self.delay).map_err(|why| format!("--delay: {why}"))?.to_std(),
            secrets: secrets.map_err(|why| format!("--secret: {why}"))?,
        };
        let (heard, requests) = mpsc::channel();
        let (json, show_body) = (self.json, self.show_body);
        let printer = std::thread::spawn(move || {
            requests
                .iter()
                .try_for_each(|received| print(&received, json, show_body).map_err(|error| error.to_string()))
        });
        actix_web::rt::System::new().block_on(async move {
            let (address, handle) = start(self.listen, behaviour, heard)
                .map_err(|error| format!("cannot listen on {}: {error}", self.listen))?;
            print_line(&format!("receiving on http://{address}"))?;
            crate::app::signalled().await;
            handle.stop(false).await;
            Ok::<(), Failure>(())
        })?;
        // The printer ends with the last sender, which the server held.
        drop(printer);
        Ok(())
    }
}

fn print(received: &Received, as_json: bool, show_body: bool) -> Result<(), Failure> {
    let answered = received.answered.map_or_else(|| "hang".into(), |status| status.to_string());
    let verdict = match &received.signature {
        None => "not checked".to_owned(),
        Some(Ok(text)) => (*text).to_owned(),
        Some(Err(why)) => format!("REFUSED, {why}"),
    };
    if as_json {
        let headers: serde_json::Map<String, serde_json::Value> =
            received.headers.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
        let body = String::from_utf8_lossy(&received.body);
        let line = json!({
            "at": system_time(), "path": received.path, "headers": headers, "body": body, "signature": verdict,
            "answered": received.answered,
        });
        return print_line(&line.to_string());
    }
    print_line(&format!(
        "{} {} {} {} attempt {}, {} bytes, signature: {verdict}; answered {answered}",
        system_time().to_millis_text(),
        escape_for_terminal(received.path.as_bytes()),
        escape_for_terminal(received.header("-Event-Type").as_bytes()),
        escape_for_terminal(received.header("-Event-Id").as_bytes()),
        escape_for_terminal(received.header("-Attempt").as_bytes()),
        received.body.len(),
    ))?;
    match show_body {
        true => print_line(&format!("    {}", escape_for_terminal(&received.body))),
        false => Ok(()),
    }
}
