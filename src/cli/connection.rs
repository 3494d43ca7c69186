//! One request to the API: where it is, who asks, and what came of it.

use std::time::Duration;

use awc::error::{ConnectError, SendRequestError};
use awc::http::header::{HeaderValue, LOCATION};
use awc::http::{Method, Uri};
use clap::Args;
use serde_json::Value;

use super::answer::Answer;
use super::{Failure, usage};
use crate::domain::excerpt::escape_for_terminal;
use crate::tls;

/// Where the API is, and who asks.
#[derive(Args, Clone)]
pub struct Connection {
    /// The API's address
    #[arg(long = "url", env = "POSTHASTE_URL", default_value = DEFAULT_URL, global = true)]
    api: String,
    /// The API key
    #[arg(long, env = "POSTHASTE_API_KEY", hide_env_values = true, global = true)]
    api_key: Option<String>,
    /// Print the API's answer as it is, byte for byte
    #[arg(long, global = true)]
    pub json: bool,
}

/// Where a server listens if nothing else is said.
const DEFAULT_URL: &str = "http://127.0.0.1:8080";
/// How long an answer may take: a bulk requeue of 10,000 takes its time.
const TIMEOUT: Duration = Duration::from_secs(90);
/// An answer is read up to this many bytes.
const MAX_ANSWER_BYTES: usize = 32 * 1024 * 1024;

impl Connection {
    pub fn new(url: String, api_key: String) -> Connection {
        Connection { api: url, api_key: Some(api_key), json: false }
    }

    /// One request to `/api/v1/webhooks` + `path`. `body` is JSON, and goes out as it is.
    ///
    /// # Errors
    /// No answer, or anything but success. A redirect is not followed, because the API key would go with the request.
    pub async fn request(&self, method: &str, path: &str, body: Option<String>) -> Result<Answer, Failure> {
        let url = format!("{}/api/v1/webhooks{path}", self.api.trim_end_matches('/'));
        let mut request = client(&url)?.request(Method::from_bytes(method.as_bytes())?, &url);
        let key = self.key()?;
        let has_key = key.is_some();
        if let Some(key) = key {
            request = request.insert_header(("X-API-Key", key));
        }
        let sent = match body {
            Some(body) => request.content_type("application/json").send_body(body).await,
            None => request.send().await,
        };
        let mut answer = sent.map_err(|error| self.unanswered(&error))?;
        if answer.status().is_redirection() {
            let location = answer.headers().get(LOCATION).map(|value| value.as_bytes());
            return Err(self.redirected(answer.status().as_u16(), &url, location));
        }
        let body = answer.body().limit(MAX_ANSWER_BYTES).await;
        let body = body.map_err(|error| format!("the answer of {} could not be read: {error}", self.api))?;
        Answer::read(&self.api, has_key, answer.status().as_u16(), &body)
    }

    /// The same, and what the answer says.
    pub async fn ask(&self, method: &str, path: &str, body: Option<Value>) -> Result<Value, Failure> {
        Ok(self.request(method, path, body.map(|body| body.to_string())).await?.value)
    }

    /// The address, if it has to be said with the next command too.
    pub fn elsewhere(&self) -> Option<String> {
        let led_there = std::env::var("POSTHASTE_URL").unwrap_or_else(|_| DEFAULT_URL.into());
        (self.api != led_there).then(|| self.api.clone())
    }

    /// The key as a header. An empty one, as an unset variable of a shell gives it, is none.
    fn key(&self) -> Result<Option<HeaderValue>, Failure> {
        let key = self.api_key.as_deref().filter(|key| !key.is_empty()).map(HeaderValue::from_str).transpose();
        key.map_err(|_| usage("--api-key (or POSTHASTE_API_KEY): this is no API key, which is visible ASCII alone"))
    }

    /// Why there is no answer.
    fn unanswered(&self, error: &SendRequestError) -> Failure {
        let api = &self.api;
        let sentence = match of_tls(error) {
            Some(refused @ rustls::Error::InvalidCertificate(_)) => format!(
                "{api} was asked nothing, its certificate is refused: {refused}. Trusted are the system's authorities, or \
                 those in the file that SSL_CERT_FILE names"
            ),
            Some(rustls::Error::InvalidMessage(_)) => format!("{api} does not speak TLS; is it http:?"),
            _ => format!("no answer from {api}: {error}"),
        };
        sentence.into()
    }

    /// A redirect to `location`, which may be relative to `url`.
    fn redirected(&self, status: u16, url: &str, location: Option<&[u8]>) -> Failure {
        let api = &self.api;
        let Some(location) = location.map(String::from_utf8_lossy) else {
            return format!("{api} answers {status}, a redirect that does not say where it points").into();
        };
        let target = url::Url::parse(url).and_then(|url| url.join(&location)).map(String::from);
        let target = escape_for_terminal(target.as_deref().unwrap_or(&location).as_bytes());
        let why = "It is not followed, because the API key would go with it; if the API is there, give that address";
        format!("{api} answers {status}, a redirect to {target}. {why}").into()
    }
}

/// A client for one request to `url`. The system's certificates are read only if they will be needed.
fn client(url: &str) -> Result<awc::Client, Failure> {
    let mut connector = awc::Connector::new();
    let parsed: Uri = url.parse().map_err(|error| usage(format!("--url: {url} is no URL: {error}")))?;
    if parsed.scheme_str() == Some("https") {
        connector = connector.rustls_0_23(tls::client_config(&[])?);
    }
    Ok(awc::Client::builder().connector(connector).timeout(TIMEOUT).disable_redirects().finish())
}

/// What rustls said, if it is why there is no connection.
fn of_tls(error: &SendRequestError) -> Option<&rustls::Error> {
    let SendRequestError::Connect(ConnectError::Io(error)) = error else { return None };
    error.get_ref()?.downcast_ref()
}
