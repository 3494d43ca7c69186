//! Who asks: API keys, roles, tenants (`api.md`, *Keys and tenants*). Keys are kept as SHA-256, compared in constant time
//! and never logged (C89).

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

use actix_web::dev::Payload;
use actix_web::http::Method;
use actix_web::http::header::{AUTHORIZATION, HeaderMap};
use actix_web::web::Data;
use actix_web::{FromRequest, HttpRequest};
use futures_util::future::LocalBoxFuture;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::Api;
use super::problem::{Code, Problem};
use crate::clock::Clock;
use crate::domain::ids::{TenantNo, unique_id};
use crate::domain::words::words;
use crate::store::change::KeepKey;
use crate::store::error::StoreError;
use crate::store::list::{FindTenant, LoadKeys};
use crate::store::{DEFAULT_TENANT, Store};

words! {
    /// What a key is for.
    pub enum Role {
        /// Every tenant, plus tenants, keys, nodes.
        Operator = "operator",
        /// All of one tenant.
        Admin = "admin",
        /// Only posting events.
        Send = "send",
        /// Only GET, no secrets.
        Read = "read",
    }
}

/// What a route asks of its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Right {
    Read,
    Send,
    Manage,
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

/// Who asks, and for which tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    pub tenant: TenantNo,
    pub role: Role,
}

/// Extractors that a handler's signature names its right by: whoever may not is answered before the handler is called.
macro_rules! callers {
    ($($(#[$meta:meta])* $name:ident: $right:ident;)+) => { $(
        $(#[$meta])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name(pub Caller);

        impl FromRequest for $name {
            type Error = Problem;
            type Future = LocalBoxFuture<'static, Result<Self, Problem>>;

            fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
                let request = request.clone();
                Box::pin(async move { Ok($name(caller(&request, Right::$right).await?)) })
            }
        }
    )+ };
}

callers! {
    /// Someone who may read, secrets aside.
    Reader: Read;
    /// Someone who may post events.
    Sender: Send;
    /// Someone who may do everything within the tenant.
    Manager: Manage;
}

/// Who asks, if they may: in this order 503 while draining (whatever is not a mere reading), 401, 403, and 404 for a
/// tenant that does not exist or is another's.
async fn caller(request: &HttpRequest, right: Right) -> Result<Caller, Problem> {
    let no_api = || Problem::unavailable("The API is not set up.");
    let api = request.app_data::<Data<Api>>().ok_or_else(no_api)?;
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    if !reads && api.engine.is_draining() {
        return Err(Problem::draining());
    }
    let found = api.keys.find(presented(request.headers())?);
    let (own, role) = found.ok_or_else(|| Problem::new(Code::Unauthorized, "This API key is not valid."))?;
    if !role.may(right) {
        return Err(Problem::new(Code::Forbidden, format!("A key with the role '{role}' may not do that.")));
    }
    let tenant = match (own, request.headers().get("x-tenant-id")) {
        (own, None) => own.unwrap_or(DEFAULT_TENANT),
        (own, Some(id)) => {
            // One answer for a tenant that is not there and for one that is another's.
            let asked = api.keys.tenant(&api.store, id.to_str().unwrap_or_default()).await?;
            let asked = asked.filter(|&asked| own.is_none_or(|own| own == asked));
            asked.ok_or_else(|| Problem::not_found("tenant"))?
        }
    };
    Ok(Caller { tenant, role })
}

/// The key that a request shows: `X-API-Key`, or `Authorization: Bearer`. The former wins; one given twice is none.
fn presented(headers: &HeaderMap) -> Result<&str, Problem> {
    let none = || Problem::new(Code::Unauthorized, "Send the key as X-API-Key: ph_… or as Authorization: Bearer ph_….");
    let mut keys = headers.get_all("x-api-key");
    if let Some(key) = keys.next() {
        return key.to_str().ok().filter(|_| keys.next().is_none()).ok_or_else(none);
    }
    let mut values = headers.get_all(AUTHORIZATION);
    let value = values.next().and_then(|value| value.to_str().ok()).filter(|_| values.next().is_none());
    let (scheme, key) = value.and_then(|value| value.split_once(' ')).ok_or_else(none)?;
    if scheme.eq_ignore_ascii_case("bearer") { Ok(key.trim_matches(' ')) } else { Err(none()) }
}

/// One key.
struct Key {
    hash: [u8; 32],
    /// `None`: every tenant.
    tenant: Option<TenantNo>,
    role: Role,
}

/// The keys that are valid now, and the tenants that operators have named.
pub struct Keys {
    keys: Vec<Key>,
    /// Tenants are never deleted, so what was found once holds.
    tenants: RwLock<HashMap<String, TenantNo>>,
}

impl Keys {
    /// The stored keys and the operator's own from the settings.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn load(store: &Store, operator: Option<&str>) -> Result<Keys, StoreError> {
        let stored = store.ask(LoadKeys).await?.into_iter().filter_map(|found| {
            let (hash, role) = (found.hash.try_into().ok()?, Role::parse(&found.role)?);
            Some(Key { hash, tenant: found.tenant, role })
        });
        let operator = operator.map(|key| Key { hash: hash(key), tenant: None, role: Role::Operator });
        Ok(Keys { keys: stored.chain(operator).collect(), tenants: RwLock::default() })
    }

    /// Whose key this is. Compares with every key, whether or not an earlier one was right.
    fn find(&self, text: &str) -> Option<(Option<TenantNo>, Role)> {
        let given = hash(text);
        self.keys.iter().fold(None, |found, key| match bool::from(key.hash.ct_eq(&given)) {
            true => Some((key.tenant, key.role)),
            false => found,
        })
    }

    async fn tenant(&self, store: &Store, id: &str) -> Result<Option<TenantNo>, StoreError> {
        let known = self.tenants.read().unwrap_or_else(PoisonError::into_inner).get(id).copied();
        if known.is_some() {
            return Ok(known);
        }
        let found = store.ask(FindTenant(id.to_owned())).await?;
        if let Some(tenant) = found {
            self.tenants.write().unwrap_or_else(PoisonError::into_inner).insert(id.to_owned(), tenant);
        }
        Ok(found)
    }
}

fn hash(key: &str) -> [u8; 32] {
    Sha256::digest(key.as_bytes()).into()
}

/// Whether the store holds an operator's key.
///
/// # Errors
/// If the keys cannot be read.
pub async fn has_operator(store: &Store) -> Result<bool, StoreError> {
    let keys = store.ask(LoadKeys).await?;
    Ok(keys.iter().any(|key| Role::parse(&key.role) == Some(Role::Operator)))
}

/// The text of a new key. Whoever shows it does so before it is kept: a key that nobody saw would lock everybody out.
pub fn new_key(clock: &Clock) -> String {
    let digits: String = clock.random_key().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("ph_{digits}")
}

/// Keeps a new operator's key, as its hash.
///
/// # Errors
/// If it could not be stored.
pub async fn keep_operator(store: &Store, key: &str) -> Result<(), StoreError> {
    let clock = store.clock();
    let now = clock.now();
    let kept = KeepKey {
        id: unique_id("key_", now, clock.random_bits()),
        tenant: None,
        role: Role::Operator.as_str(),
        name: "generated at the first start".into(),
        hash: hash(key).to_vec(),
        now,
    };
    store.write(kept).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use actix_web::test::TestRequest;

    #[test]
    fn roles_may_do_what_the_contract_says() {
        let check = |role: Role, rights: [bool; 3]| {
            assert_eq!([Right::Read, Right::Send, Right::Manage].map(|right| role.may(right)), rights, "{role}");
        };
        check(Role::Operator, [true, true, true]);
        check(Role::Admin, [true, true, true]);
        check(Role::Send, [false, true, false]);
        check(Role::Read, [true, false, false]);
    }

    #[test]
    fn a_key_comes_in_one_of_two_headers() {
        let check = |headers: &[(&str, &str)], key: Option<&str>| {
            let request = headers.iter().fold(TestRequest::default(), |request, &header| request.append_header(header));
            let request = request.to_http_request();
            let found = presented(request.headers());
            assert_eq!(found.as_ref().ok().copied(), key, "{headers:?}");
            assert!(found.err().is_none_or(|problem| problem.code() == Code::Unauthorized));
        };
        check(&[("X-API-Key", "ph_1")], Some("ph_1"));
        check(&[("Authorization", "Bearer ph_1")], Some("ph_1"));
        check(&[("authorization", "bEARER  ph_1 ")], Some("ph_1"));
        check(&[("X-API-Key", "ph_1"), ("Authorization", "Bearer ph_2")], Some("ph_1"));
        check(&[], None);
        check(&[("X-API-Key", "ph_1"), ("X-API-Key", "ph_1")], None);
        check(&[("X-API-Key", "ph_\u{e9}")], None);
        check(&[("Authorization", "Basic ph_1")], None);
        check(&[("Authorization", "ph_1")], None);
        check(&[("Authorization", "Bearer ph_1"), ("Authorization", "Bearer ph_1")], None);
    }

    #[test]
    fn a_key_is_found_by_its_hash() {
        let key = |text, tenant: i64, role| Key { hash: hash(text), tenant: Some(TenantNo(tenant)), role };
        let keys = vec![key("ph_a", 1, Role::Read), key("ph_b", 2, Role::Send)];
        let keys = Keys { keys, tenants: RwLock::default() };
        assert_eq!(keys.find("ph_a"), Some((Some(TenantNo(1)), Role::Read)));
        assert_eq!(keys.find("ph_b"), Some((Some(TenantNo(2)), Role::Send)));
        assert_eq!(keys.find("ph_c"), None);
        assert_eq!(keys.find(""), None);
    }
}
