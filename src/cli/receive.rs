//! `posthaste receive`: a test receiver that answers by a script, checks signatures and prints what comes.

mod shown;

use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use actix_web::dev::ServerHandle;
use actix_web::http::StatusCode;
use actix_web::rt::net::TcpStream;
use actix_web::web::{Bytes, Data, PayloadConfig};
use actix_web::{App, HttpRequest, HttpResponse, HttpServer, web};
use clap::Args;

use super::script::{self, Act};
use super::signed::Signatures;
use super::{Failure, print_line, usage, verify};
use crate::clock::system_time;
use crate::config::listen_address;
use crate::domain::duration_text::parse_duration;
use crate::domain::secret::SigningSecret;
use crate::domain::signature::DEFAULT_TOLERANCE;
use crate::domain::simulate::Cue;
use crate::domain::time::{Span, Timestamp};
use crate::signals::Signals;

/// The longest body that is taken in, in bytes: more than any that Posthaste sends.
const MAX_BODY: usize = 20 * 1024 * 1024;
/// What was heard when the receiver is stopped has so long to be printed.
const LAST_WORDS: Duration = Duration::from_secs(1);

#[derive(Args)]
pub struct Receive {
    /// Address, or a host's name, and port
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:9000", value_parser = listen_address)]
    listen: SocketAddr,
    /// What to answer, request by request; the last entry repeats. E.g. 503*2,200 or "429;retry-after=60" or hang or reset
    #[arg(long, default_value = "200")]
    script: Vec<String>,
    /// Wait so long before each answer
    #[arg(long, default_value = "0s", value_parser = parse_duration)]
    delay: Span,
    /// Never answer
    #[arg(long, conflicts_with = "script")]
    hang: bool,
    /// Check signatures with this secret, and answer 401 to wrong ones (repeatable)
    #[arg(long, env = "POSTHASTE_SECRET", hide_env_values = true)]
    secret: Vec<String>,
    /// Print the bodies too
    #[arg(long)]
    show_body: bool,
    /// One JSON object per line: first where it listens, then each request
    #[arg(long)]
    json: bool,
}

/// A request as it came, with what was answered.
#[derive(Clone, Debug)]
pub struct Received {
    pub at: Timestamp,
    pub method: String,
    /// With the query, if there is one.
    pub path: String,
    pub headers: Vec<(String, String)>,
    pub body: Bytes,
    /// The verdict on its signatures, if there was a secret to check with.
    pub signature: Option<Result<&'static str, String>>,
    pub act: Act,
    /// `None`: it hangs, or the connection is closed.
    pub answered: Option<u16>,
}

impl Received {
    /// The header with this name, or with any prefix before it (`-Event-Id` finds `X-Shop-Event-Id`); `-` if there is
    /// none.
    pub fn header(&self, name: &str) -> &str {
        self.find(name).unwrap_or("-")
    }

    fn find(&self, name: &str) -> Option<&str> {
        let matches = |header: &str| {
            let from = header.len().checked_sub(name.len());
            from.and_then(|from| header.get(from..)).is_some_and(|end| end.eq_ignore_ascii_case(name))
        };
        self.headers.iter().find(|(header, _)| matches(header)).map(|(_, value)| value.as_str())
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

/// The socket of a connection, to be shut under actix's hands: it has no other way to give no answer at all.
struct Socket(std::net::TcpStream);

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
        App::new().app_data(state.clone()).app_data(PayloadConfig::new(MAX_BODY)).default_service(web::to(answer))
    })
    .on_connect(|stream, extensions| {
        let stream = stream.downcast_ref::<TcpStream>();
        if let Some(Ok(socket)) = stream.map(|stream| stream.as_fd().try_clone_to_owned()) {
            extensions.insert(Socket(socket.into()));
        }
    })
    // One, so that requests take their turns in the script as they come.
    .workers(1)
    .disable_signals()
    .shutdown_timeout(0)
    .listen(listener)?
    .run();
    let handle = server.handle();
    actix_web::rt::spawn(server);
    Ok((address, handle))
}

async fn answer(
    state: Data<State>,
    request: HttpRequest,
    body: Result<Bytes, actix_web::Error>,
) -> Result<HttpResponse, actix_web::Error> {
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str()).to_owned();
    // Cut off or too long: no request to speak of, and no turn of the script.
    let body = body.inspect_err(|error| log::warn!("{} {path:?}: {error}", request.method()))?;
    let text = |value: &actix_web::http::header::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let headers: Vec<(String, String)> =
        request.headers().iter().map(|(name, value)| (name.to_string(), text(value))).collect();
    let now = system_time();
    let signature = state.behaviour.verdict(&headers, &body, now);
    let act = match &signature {
        Some(Err(_)) => Act::Cue(Cue::Answer { status: 401, retry_after: None }),
        _ => state.behaviour.script[state.turn()].clone(),
    };
    let answered = match &act {
        Act::Cue(Cue::Answer { status, .. }) => Some(*status),
        Act::Cue(Cue::Fail(_)) | Act::Hang | Act::Reset => None,
    };
    let method = request.method().to_string();
    let received = Received { at: now, method, path, headers, body, signature, act: act.clone(), answered };
    let _ = state.heard.send(received);
    tokio::time::sleep(state.behaviour.delay).await;
    if act == Act::Reset
        && let Some(Socket(socket)) = request.conn_data()
    {
        // Already closed is closed.
        let _ = socket.shutdown(std::net::Shutdown::Both);
    }
    let Act::Cue(Cue::Answer { status, retry_after }) = act else { return std::future::pending().await };
    let mut response = HttpResponse::build(StatusCode::from_u16(status).unwrap_or(StatusCode::OK));
    if let Some(value) = retry_after {
        response.insert_header(("retry-after", value));
    }
    Ok(response.finish())
}

impl State {
    /// The next place in the script; the last one repeats.
    fn turn(&self) -> usize {
        let last = self.behaviour.script.len() - 1;
        let next = self.next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |next| Some((next + 1).min(last + 1)));
        next.unwrap_or_default().min(last)
    }
}

impl Behaviour {
    fn verdict(
        &self,
        headers: &[(String, String)],
        body: &[u8],
        now: Timestamp,
    ) -> Option<Result<&'static str, String>> {
        let secrets: Vec<&SigningSecret> = self.secrets.iter().collect();
        let now = now.as_secs();
        let signatures = Signatures { headers, body, secrets: &secrets, now, tolerance: DEFAULT_TOLERANCE };
        (!secrets.is_empty()).then(|| signatures.check())
    }
}

impl Receive {
    pub fn run(self) -> Result<(), Failure> {
        let script = script::acts(&self.script).map_err(|why| usage(format!("--script: {why}")))?;
        let behaviour = Behaviour {
            script: if self.hang { vec![Act::Hang] } else { script },
            delay: self.delay.to_std(),
            secrets: verify::secrets(&self.secret)?,
        };
        let (json, show_body) = (self.json, self.show_body);
        let (heard, requests) = mpsc::channel();
        actix_web::rt::System::new().block_on(async move {
            let (address, handle) = start(self.listen, behaviour, heard)
                .map_err(|error| format!("cannot listen on {}: {error}", self.listen))?;
            let mut signals = Signals::hear();
            print_line(&shown::listening(address, json))?;
            // A thread of its own: a terminal that is slow to take the lines holds up no answer.
            let (ended, mut printed) = tokio::sync::oneshot::channel();
            std::thread::spawn(move || {
                let mut lines = requests.iter().map(|received: Received| shown::request(&received, json, show_body));
                let _ = ended.send(lines.try_for_each(|text| print(&text)));
            });
            tokio::select! {
                () = signals.next() => {}
                // Nobody reads what it prints any more.
                result = &mut printed => return Ok(result??),
            }
            handle.stop(false).await;
            match tokio::time::timeout(LAST_WORDS, printed).await {
                Ok(Ok(result)) => Ok::<(), Failure>(result?),
                _ => Ok(()),
            }
        })
    }
}

fn print(text: &str) -> std::io::Result<()> {
    use std::io::Write;
    let mut out = std::io::stdout().lock();
    writeln!(out, "{text}").and_then(|()| out.flush())
}
