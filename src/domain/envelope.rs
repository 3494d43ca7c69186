//! The headers of an attempt: what every receiver gets beside the stored body (api.md, *What a receiver gets*).

use super::content::Content;
use super::headers::{CustomHeaders, HeaderPrefix};
use super::secret::SigningSecret;
use super::signature::{sign_standard, sign_timestamped};

/// Which delivery an attempt is made for, as its headers tell.
#[derive(Clone, Copy, Debug)]
pub struct Addressed<'a> {
    pub endpoint_id: &'a str,
    pub delivery_id: &'a str,
    /// The attempt's number within its run.
    pub attempt: u32,
}

/// All headers of an attempt but `Host` and `Content-Length`. Signed with every secret valid now, the newest first
/// (S23); `wall_secs` is the wall clock, because receivers compare it with theirs.
pub fn headers(
    content: &Content,
    to: Addressed<'_>,
    prefix: &HeaderPrefix,
    secrets: &[&SigningSecret],
    custom: &CustomHeaders,
    wall_secs: i64,
) -> Vec<(String, String)> {
    let body = &content.body;
    let own = |name: &str, value: String| (prefix.header(name), value);
    let mut headers = vec![
        ("Content-Type".into(), "application/json".into()),
        ("User-Agent".into(), concat!("Posthaste/", env!("CARGO_PKG_VERSION")).into()),
        ("webhook-id".into(), content.event_id.to_string()),
        ("webhook-timestamp".into(), wall_secs.to_string()),
        ("webhook-signature".into(), sign_standard(&content.event_id, wall_secs, body, secrets)),
        own("Event-Id", content.event_id.to_string()),
        own("Event-Type", content.event_type.to_string()),
        own("Endpoint-Id", to.endpoint_id.into()),
        own("Delivery-Id", to.delivery_id.into()),
        own("Attempt", to.attempt.to_string()),
        own("Received-At", content.received_at.to_millis_text()),
        own("Signature", sign_timestamped(wall_secs, body, secrets)),
    ];
    headers.extend(custom.iter().map(|(name, value)| (name.to_owned(), value.to_owned())));
    headers
}
