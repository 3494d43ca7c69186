//! Endpoints as they are answered: the policy resolved, header values masked (C90), no secret but when it was made.

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value};

use super::Rules;
use crate::domain::endpoint::Status;
use crate::domain::headers::CustomHeaders;
use crate::domain::policy_json::{PolicyJson, policy_json};
use crate::domain::subscription::EventFilter;
use crate::domain::time::Timestamp;
use crate::store::endpoint_record::EndpointRecord;

/// Whether an answer has the member `secret`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Secret {
    NotPart,
    /// It was shown once, and is null now.
    Hidden,
    /// This once.
    Shown,
}

impl Secret {
    /// The member's value, if there is one.
    pub fn of(self, record: &EndpointRecord) -> Option<Option<&str>> {
        match self {
            Secret::NotPart => None,
            Secret::Hidden => Some(None),
            Secret::Shown => Some(Some(record.secrets.current().as_str())),
        }
    }
}

#[derive(serde::Serialize)]
pub struct EndpointJson<'a> {
    id: &'a str,
    url: &'a str,
    description: &'a str,
    event_types: &'a EventFilter,
    policy: PolicyJson,
    headers: Masked<'a>,
    /// The one in use: the endpoint's own, or the installation's.
    header_prefix: &'a str,
    max_in_flight: u16,
    metadata: &'a Map<String, Value>,
    status: Status,
    disabled_reason: Option<&'a str>,
    disabled_at: Option<Timestamp>,
    created_at: Timestamp,
    updated_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    secret: Option<Option<&'a str>>,
}

impl<'a> EndpointJson<'a> {
    pub fn new(record: &'a EndpointRecord, rules: &'a Rules, secret: Secret) -> EndpointJson<'a> {
        EndpointJson {
            id: &record.id,
            url: &record.url,
            description: &record.description,
            event_types: &record.event_types,
            policy: policy_json(&record.policy.resolve()),
            headers: Masked(&record.headers),
            header_prefix: record.header_prefix.as_ref().unwrap_or(&rules.prefix).as_str(),
            max_in_flight: record.max_in_flight,
            metadata: &record.metadata,
            status: record.status,
            disabled_reason: record.disabled_reason.as_deref(),
            disabled_at: record.disabled_at,
            created_at: record.created_at,
            updated_at: record.updated_at,
            secret: secret.of(record),
        }
    }
}

/// Names with their masks, in the owner's order.
struct Masked<'a>(&'a CustomHeaders);

impl Serialize for Masked<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(Some(self.0.len()))?;
        for (name, mask) in self.0.masked() {
            map.serialize_entry(name, mask)?;
        }
        map.end()
    }
}
