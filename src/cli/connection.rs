//! One request to the API: where it is, who asks, and what came of it.

use std::time::Duration;

use awc::http::Method;
use clap::Args;
use serde_json::Value;

use super::Failure;
use crate::domain::excerpt::escape_for_terminal;

/// Where the API is, and who asks.
#[derive(Args, Clone)]
pub struct Connection {
    /// The API's address
    #[arg(long = "url", env = "POSTHASTE_URL", default_value = "http://127.0.0.1:8080", global = true)]
    api: String,
    /// The API key
    #[arg(long, env = "POSTHASTE_API_KEY", hide_env_values = true, global = true)]
    api_key: Option<String>,
    /// Print the API's answer as it is
    #[arg(long, global = true)]
    pub json: bool,
}

/// How long an answer may take: a bulk requeue of 10,000 takes its time.
const TIMEOUT: Duration = Duration::from_secs(90);
/// An answer is read up to this many bytes.
const MAX_ANSWER_BYTES: usize = 32 * 1024 * 1024;

/// An answer of the API, whatever it says.
pub struct Got {
    status: u16,
    body: Value,
}

impl Connection {
    pub fn new(url: String, api_key: String) -> Connection {
        Connection { api: url, api_key: Some(api_key), json: false }
    }

    /// One request to `/api/v1/webhooks` + `path`. `body` is JSON, and goes out as it is.
    ///
    /// # Errors
    /// No answer.
    pub async fn request(&self, method: &str, path: &str, body: Option<String>) -> Result<Got, Failure> {
        let url = format!("{}/api/v1/webhooks{path}", self.api.trim_end_matches('/'));
        let client = awc::Client::builder().timeout(TIMEOUT).finish();
        let mut request = client.request(Method::from_bytes(method.as_bytes())?, &url);
        if let Some(key) = &self.api_key {
            request = request.insert_header(("X-API-Key", key.as_str()));
        }
        let sent = match body {
            Some(body) => request.content_type("application/json").send_body(body).await,
            None => request.send().await,
        };
        let mut answer = sent.map_err(|error| format!("no answer from {}: {error}", self.api))?;
        let bytes = answer.body().limit(MAX_ANSWER_BYTES).await?;
        let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        Ok(Got { status: answer.status().as_u16(), body })
    }

    /// The same, where anything but success is a failure.
    pub async fn ask(&self, method: &str, path: &str, body: Option<Value>) -> Result<Value, Failure> {
        self.request(method, path, body.map(|body| body.to_string())).await?.success()
    }
}

impl Got {
    /// The body of a success.
    ///
    /// # Errors
    /// Anything but success, told in the API's words.
    pub fn success(self) -> Result<Value, Failure> {
        match self.status {
            200..=299 => Ok(self.body),
            status => {
                let word = |name: &str| escape_for_terminal(self.body[name].as_str().unwrap_or_default().as_bytes());
                Err(format!("{status} {}: {}", word("code"), word("detail")).into())
            }
        }
    }
}
