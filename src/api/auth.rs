//! Who asks: API keys, roles, tenants. Keys are stored hashed and compared in constant time.

use std::sync::RwLock;

use actix_web::HttpRequest;
use actix_web::http::header::AUTHORIZATION;
use sha2::{Digest, Sha256};
use subtle::{Choice, ConstantTimeEq};

use super::problem::{Code, Problem};
use crate::clock::system_random;
use crate::domain::ids::{TenantNo, unique_id};
use crate::domain::words::words;
use crate::store::change::KeepKey;
use crate::store::error::StoreError;
use crate::store::list::{FindTenant, LoadKeys};
use crate::store::{DEFAULT_TENANT, Store};

words! {
    /// What a key may do.
    pub enum Role {
        /// Every tenant, and tenants, keys, nodes.
        Operator = "operator",
        /// Everything of one tenant.
        Admin = "admin",
        /// Only POST events.
        Send = "send",
        /// Only GET, and no secrets.
        Read = "read",
    }
}

/// What a request needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right {
    Read,
    Send,
    Manage,
}

/// Who asks, for which tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    pub tenant: TenantNo,
    pub role: Role,
}

impl Role {
    fn may(self, right: Right) -> bool {
        match self {
            Role::Operator | Role::Admin => true,
            Role::Send => right == Right::Send,
            Role::Read => right == Right::Read,
        }
    }
}

/// The keys that are valid now.
pub struct Keys(RwLock<Vec<Key>>);

struct Key {
    hash: [u8; 32],
    tenant: Option<TenantNo>,
    role: Role,
}

fn hash(key: &str) -> [u8; 32] {
    Sha256::digest(key.as_bytes()).into()
}

impl Keys {
    /// The stored keys and, if set, the operator's from the environment.
    pub async fn load(store: &Store, operator: Option<&str>) -> Result<Keys, StoreError> {
        let stored = store.ask(LoadKeys).await?.into_iter().filter_map(|found| {
            let (hash, role) = (found.hash.try_into().ok()?, Role::parse(&found.role)?);
            Some(Key { hash, tenant: found.tenant, role })
        });
        let operator = operator.map(|key| Key { hash: hash(key), tenant: None, role: Role::Operator });
        Ok(Keys(RwLock::new(stored.chain(operator).collect())))
    }

    /// Every key is compared, and all of each, so that the time taken tells nothing.
    fn find(&self, text: &str) -> Option<(Option<TenantNo>, Role)> {
        let given = hash(text);
        let keys = self.0.read().unwrap_or_else(|poisoned| poisoned.into_inner());
        let mut found = None;
        for key in keys.iter() {
            let same: Choice = key.hash.ct_eq(&given);
            if bool::from(same) {
                found = Some((key.tenant, key.role));
            }
        }
        found
    }
}

/// The key in a request's headers.
fn presented(request: &HttpRequest) -> Result<&str, Problem> {
    let missing = || Problem::new(Code::Unauthorized, "Send the key as X-API-Key or as Authorization: Bearer.");
    let headers = request.headers();
    if let Some(value) = headers.get("x-api-key") {
        return value.to_str().map_err(|_| missing());
    }
    let bearer = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()).ok_or_else(missing)?;
    let (scheme, key) = bearer.split_once(' ').ok_or_else(missing)?;
    if scheme.eq_ignore_ascii_case("bearer") { Ok(key.trim()) } else { Err(missing()) }
}

/// Who asks, if they may.
///
/// # Errors
/// 401 without a valid key, 403 if its role does not allow it, 404 for an `X-Tenant-Id` that does not exist.
pub async fn caller(store: &Store, keys: &Keys, request: &HttpRequest, right: Right) -> Result<Caller, Problem> {
    let found = keys.find(presented(request)?);
    let (tenant, role) = found.ok_or_else(|| Problem::new(Code::Unauthorized, "This API key is not valid."))?;
    if !role.may(right) {
        return Err(Problem::new(Code::Forbidden, format!("A key with the role `{role}` may not do that.")));
    }
    let asked = request.headers().get("x-tenant-id").map(|value| value.to_str().unwrap_or_default());
    let tenant = match (tenant, asked) {
        (Some(own), None) => own,
        (Some(_), Some(_)) => {
            return Err(Problem::new(Code::Forbidden, "X-Tenant-Id is for operators; this key has its own tenant."));
        }
        (None, None) => DEFAULT_TENANT,
        (None, Some(id)) => store.ask(FindTenant(id.to_owned())).await?.ok_or_else(|| Problem::not_found("tenant"))?,
    };
    Ok(Caller { tenant, role })
}

/// Without an operator's key in the environment, a new store gets one. Returned once, stored hashed.
pub async fn first_key(store: &Store, has_operator: bool, is_new: bool) -> Result<Option<String>, StoreError> {
    if has_operator || !is_new {
        return Ok(None);
    }
    let random: String = system_random().iter().map(|byte| format!("{byte:02x}")).collect();
    let key = format!("ph_{random}");
    let now = store.clock().now();
    let kept = KeepKey {
        id: unique_id("key_", now, store.clock().random_bits()),
        tenant: None,
        role: Role::Operator.as_str(),
        name: "generated at the first start".into(),
        hash: hash(&key).to_vec(),
        now,
    };
    store.write(kept).await?;
    Ok(Some(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_may_do_what_the_contract_says() {
        let rights = |role: Role| [Right::Read, Right::Send, Right::Manage].map(|right| role.may(right));
        assert_eq!(rights(Role::Operator), [true, true, true]);
        assert_eq!(rights(Role::Admin), [true, true, true]);
        assert_eq!(rights(Role::Send), [false, true, false]);
        assert_eq!(rights(Role::Read), [true, false, false]);
    }

    #[test]
    fn keys_are_taken_from_either_header() {
        use actix_web::test::TestRequest;
        let key = |name: &str, value: &str| {
            let request = TestRequest::default().insert_header((name, value)).to_http_request();
            presented(&request).map(str::to_owned).map_err(|problem| problem.code())
        };
        assert_eq!(key("X-API-Key", "ph_1"), Ok("ph_1".into()));
        assert_eq!(key("Authorization", "bearer ph_1"), Ok("ph_1".into()));
        assert_eq!(key("Authorization", "Basic ph_1"), Err(Code::Unauthorized));
        assert_eq!(key("Cookie", "ph_1"), Err(Code::Unauthorized));
    }
}
