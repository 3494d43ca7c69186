//! An endpoint's configuration between its row and the rest of the program: JSON parsed, secrets decrypted.

use std::sync::Arc;

use super::error::StoreError;
use super::rows::{EndpointRow, at, maybe_at, micros};
use super::vault::Vault;
use crate::domain::endpoint::{Endpoint, Status};
use crate::domain::headers::{CustomHeaders, HeaderPrefix};
use crate::domain::ids::{EndpointNo, TenantNo};
use crate::domain::policy_spec::PolicySpec;
use crate::domain::secret::SecretSet;
use crate::domain::subscription::EventFilter;
use crate::domain::time::Timestamp;

/// All that is known of an endpoint but its health. Holds secrets: never log it, never answer with it as it is.
#[derive(Clone, Debug)]
pub struct EndpointRecord {
    pub no: EndpointNo,
    pub tenant: TenantNo,
    pub id: Arc<str>,
    pub version: i64,
    pub url: Arc<str>,
    pub description: String,
    pub event_types: EventFilter,
    pub policy: PolicySpec,
    pub max_in_flight: u16,
    /// `None`: the installation's.
    pub header_prefix: Option<HeaderPrefix>,
    pub headers: CustomHeaders,
    pub secrets: SecretSet,
    pub metadata: serde_json::Map<String, serde_json::Value>,
    pub status: Status,
    pub disabled_reason: Option<String>,
    pub disabled_at: Option<Timestamp>,
    pub cut: u32,
    pub counted_from: Timestamp,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

impl EndpointRecord {
    /// Reads a row.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] if the row holds what this version does not understand, or was encrypted with another
    /// key.
    pub fn from_row(row: EndpointRow, vault: &Vault) -> Result<EndpointRecord, StoreError> {
        let broken = |what: &str| StoreError::Corrupt(format!("endpoint {}: {what}", row.id));
        let json = |text: &str, what| serde_json::from_str::<serde_json::Value>(text).map_err(|_| broken(what));
        let policy = PolicySpec::from_json(&json(&row.policy, "policy")?, "policy").map_err(|_| broken("policy"))?;
        let prefix = row.header_prefix.as_deref().map(HeaderPrefix::parse).transpose();
        let open =
            |sealed: &[u8], what| vault.open(&row.id, sealed).map_err(|error| broken(&format!("{what} {error}")));
        let secrets = SecretSet::from_stored(&open(&row.secrets, "secrets")?).map_err(|_| broken("secrets"))?;
        let headers = CustomHeaders::from_stored(&open(&row.headers, "headers")?).map_err(|_| broken("headers"))?;
        let serde_json::Value::Object(metadata) = json(&row.metadata, "metadata")? else {
            return Err(broken("metadata"));
        };
        Ok(EndpointRecord {
            no: EndpointNo(row.no),
            tenant: TenantNo(row.tenant),
            id: Arc::from(row.id.as_str()),
            version: row.version,
            url: Arc::from(row.url.as_str()),
            event_types: serde_json::from_str(&row.event_types).map_err(|_| broken("event_types"))?,
            policy,
            max_in_flight: u16::try_from(row.max_in_flight).map_err(|_| broken("max_in_flight"))?,
            header_prefix: prefix.map_err(|_| broken("header_prefix"))?,
            headers,
            secrets,
            metadata,
            status: Status::parse(&row.status).ok_or_else(|| broken("status"))?,
            disabled_at: maybe_at(row.disabled_at),
            cut: row.cut.unsigned_abs(),
            counted_from: at(row.counted_from),
            created_at: at(row.created_at),
            updated_at: at(row.updated_at),
            description: row.description,
            disabled_reason: row.disabled_reason,
        })
    }

    /// The row to write. `random` makes the nonces: two fresh draws.
    pub fn to_row(&self, vault: &Vault, random: [u128; 2]) -> EndpointRow {
        EndpointRow {
            no: self.no.0,
            tenant: self.tenant.0,
            id: self.id.to_string(),
            version: self.version,
            url: self.url.to_string(),
            description: self.description.clone(),
            event_types: serde_json::to_string(&self.event_types).unwrap_or_default(),
            policy: self.policy.to_json().to_string(),
            max_in_flight: i32::from(self.max_in_flight),
            header_prefix: self.header_prefix.as_ref().map(|prefix| prefix.as_str().to_owned()),
            headers: vault.seal(&self.id, &self.headers.to_stored(), random[0]),
            secrets: vault.seal(&self.id, &self.secrets.to_stored(), random[1]),
            metadata: serde_json::Value::Object(self.metadata.clone()).to_string(),
            status: self.status.as_str().into(),
            disabled_reason: self.disabled_reason.clone(),
            disabled_at: micros(self.disabled_at),
            cut: self.cut as i32,
            counted_from: self.counted_from.as_micros(),
            deleted_at: None,
            created_at: self.created_at.as_micros(),
            updated_at: self.updated_at.as_micros(),
        }
    }

    /// As its dispatcher sees it.
    pub fn endpoint(&self) -> Endpoint {
        Endpoint {
            no: self.no,
            id: self.id.clone(),
            url: self.url.clone(),
            version: self.version,
            status: self.status,
            policy: Arc::new(self.policy.resolve()),
            max_in_flight: self.max_in_flight,
            cut: self.cut,
            counted_from: self.counted_from,
            paused: false,
        }
    }
}
