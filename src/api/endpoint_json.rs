//! Endpoints as callers write and read them. What a caller writes is checked completely before anything is stored; what
//! is answered holds no secret and no header value.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::limits;
use super::problem::Problem;
use crate::config::Config;
use crate::domain::duration_text::parse_duration;
use crate::domain::endpoint::{DEFAULT_MAX_IN_FLIGHT, MAX_IN_FLIGHT, Status};
use crate::domain::field_error::{FieldError, FieldErrors};
use crate::domain::headers::{CustomHeaders, HeaderPrefix};
use crate::domain::ids::{EndpointNo, TenantNo};
use crate::domain::json_reader::{At, Members};
use crate::domain::policy::Preset;
use crate::domain::policy_json::policy_json;
use crate::domain::policy_spec::{Overrides, PolicySpec};
use crate::domain::secret::{MAX_OVERLAP, SecretSet, SigningSecret};
use crate::domain::subscription::EventFilter;
use crate::domain::target::{AddressPolicy, TargetUrl};
use crate::domain::time::{Span, Timestamp};
use crate::store::endpoint_record::EndpointRecord;

/// Members of an endpoint that a caller may write.
const WRITABLE: [&str; 9] =
    ["url", "description", "event_types", "policy", "headers", "header_prefix", "max_in_flight", "secret", "metadata"];

/// What an endpoint's fields are checked against.
pub struct Rules {
    pub targets: AddressPolicy,
    pub https_only: bool,
    /// The installation's header prefix.
    pub prefix: HeaderPrefix,
}

impl Rules {
    pub fn of(config: &Config) -> Rules {
        let (targets, prefix) = (config.targets.clone(), config.header_prefix.clone());
        Rules { targets, https_only: config.https_only, prefix }
    }
}

/// A fresh endpoint's identity.
pub struct Birth {
    pub tenant: TenantNo,
    pub id: String,
    pub secret: SigningSecret,
    pub now: Timestamp,
}

/// Reads the body of `POST /endpoints`.
pub fn create(body: &Value, rules: &Rules, birth: Birth) -> Result<EndpointRecord, Problem> {
    let mut errors = FieldErrors::default();
    let members = At::new(body, "").object(&WRITABLE, &mut errors);
    let blank = EndpointRecord {
        no: EndpointNo(0),
        tenant: birth.tenant,
        id: Arc::from(birth.id),
        version: 0,
        url: Arc::from(""),
        description: String::new(),
        event_types: EventFilter::all(),
        policy: orbit(),
        max_in_flight: DEFAULT_MAX_IN_FLIGHT,
        header_prefix: None,
        headers: CustomHeaders::default(),
        secrets: SecretSet::new(birth.secret),
        metadata: Map::new(),
        status: Status::Enabled,
        disabled_reason: None,
        disabled_at: None,
        cut: 0,
        counted_from: birth.now,
        created_at: birth.now,
        updated_at: birth.now,
    };
    let record = members.and_then(|members| {
        members.required("url", &mut errors)?;
        apply(&members, blank, rules, &mut errors)
    });
    errors.finish(record).map_err(Problem::fields)
}

/// What a PATCH changes beyond the fields themselves.
pub struct Edit {
    pub record: EndpointRecord,
    /// Streaks are cleared and the circuit closed (S22).
    pub new_url: bool,
    /// The circuit breaker was removed (S17).
    pub close_circuit: bool,
}

/// Applies the body of `PATCH /endpoints/{id}`: missing members stay, null means the default.
pub fn edit(body: &Value, before: &EndpointRecord, rules: &Rules) -> Result<Edit, Problem> {
    let mut errors = FieldErrors::default();
    let members = At::new(body, "").object(&WRITABLE, &mut errors);
    let record = members.and_then(|members| {
        if members.get("secret").is_some() {
            errors.push("secret", "is changed by POST …/secret/rotate");
        }
        apply(&members, before.clone(), rules, &mut errors)
    });
    let record = errors.finish(record).map_err(Problem::fields)?;
    let new_url = record.url != before.url;
    let had_breaker = before.policy.resolve().circuit_breaker.is_some();
    let close_circuit = had_breaker && record.policy.resolve().circuit_breaker.is_none();
    Ok(Edit { record, new_url, close_circuit })
}

fn orbit() -> PolicySpec {
    PolicySpec { preset: Preset::Orbit, overrides: Overrides::default() }
}

/// Writes the members that are there into `record`.
fn apply(
    members: &Members<'_>,
    mut record: EndpointRecord,
    rules: &Rules,
    errors: &mut FieldErrors,
) -> Option<EndpointRecord> {
    let old_url = record.url.clone();
    if let Some(at) = members.get("url")
        && let Some(text) = at.text(errors)
    {
        match target(text, rules) {
            Ok(url) => record.url = Arc::from(url.as_str()),
            Err(why) => errors.push("url", why),
        }
    }
    if let Some(at) = members.get("description") {
        record.description = if at.value.is_null() { String::new() } else { at.text(errors)?.to_owned() };
        if record.description.chars().count() > limits::MAX_DESCRIPTION {
            errors.push(
                "description",
                format!("may have at most {} characters (MAX_DESCRIPTION)", limits::MAX_DESCRIPTION),
            );
        }
    }
    if let Some(at) = members.get("event_types") {
        record.event_types = if at.value.is_null() { EventFilter::all() } else { event_types(&at, errors)? };
    }
    if let Some(at) = members.get("policy") {
        record.policy = if at.value.is_null() { orbit() } else { PolicySpec::read(&at, errors)? };
    }
    if let Some(at) = members.get("max_in_flight") {
        let range = u32::from(*MAX_IN_FLIGHT.start())..=u32::from(*MAX_IN_FLIGHT.end());
        let number =
            if at.value.is_null() { Some(u32::from(DEFAULT_MAX_IN_FLIGHT)) } else { at.whole_number(range, errors) };
        record.max_in_flight = number? as u16;
    }
    if let Some(at) = members.get("header_prefix") {
        record.header_prefix = match at.value.is_null() {
            true => None,
            false => match HeaderPrefix::parse(at.text(errors)?) {
                Ok(prefix) => Some(prefix),
                Err(why) => {
                    errors.push("header_prefix", why);
                    return None;
                }
            },
        };
    }
    if let Some(at) = members.get("metadata") {
        record.metadata = if at.value.is_null() { Map::new() } else { metadata(&at, errors)? };
    }
    if let Some(at) = members.get("secret")
        && !at.value.is_null()
    {
        match SigningSecret::parse(at.text(errors)?) {
            Ok(secret) => record.secrets = SecretSet::new(secret),
            Err(why) => errors.push("secret", why.to_string()),
        }
    }
    headers(members, &mut record, &old_url, rules, errors);
    Some(record)
}

/// A URL that may be stored: a literal address that may never be called is refused at once.
fn target(text: &str, rules: &Rules) -> Result<TargetUrl, String> {
    let url = TargetUrl::parse(text, rules.https_only)?;
    match rules.targets.judge_literal(&url).is_allowed() {
        true => Ok(url),
        false => Err("this address may not be called (allow it with --allow-target)".into()),
    }
}

fn event_types(at: &At<'_>, errors: &mut FieldErrors) -> Option<EventFilter> {
    let list = at.list(crate::domain::subscription::MAX_PATTERNS, errors)?;
    let patterns: Option<Vec<&str>> = list.iter().map(|at| at.text(errors)).collect();
    match EventFilter::parse(&patterns?) {
        Ok(filter) => Some(filter),
        Err(why) => {
            errors.push("event_types", why);
            None
        }
    }
}

fn metadata(at: &At<'_>, errors: &mut FieldErrors) -> Option<Map<String, Value>> {
    let Value::Object(map) = at.value else { return at.wrong("an object", errors) };
    if at.value.to_string().len() > limits::MAX_METADATA_BYTES {
        errors.push("metadata", format!("may have at most {} bytes (MAX_METADATA_BYTES)", limits::MAX_METADATA_BYTES));
        return None;
    }
    Some(map.clone())
}

/// Headers are merged by name; another origin clears those it was not given with.
fn headers(members: &Members<'_>, record: &mut EndpointRecord, old_url: &str, rules: &Rules, errors: &mut FieldErrors) {
    let prefix = record.header_prefix.clone().unwrap_or_else(|| rules.prefix.clone());
    let origin = |url: &str| TargetUrl::parse(url, false).ok().map(|url| url.origin());
    if !old_url.is_empty() && origin(old_url) != origin(&record.url) {
        record.headers = CustomHeaders::default();
    }
    let patch = match members.get("headers") {
        None => Vec::new(),
        Some(at) if at.value.is_null() => {
            record.headers = CustomHeaders::default();
            Vec::new()
        }
        Some(at) => {
            let Value::Object(map) = at.value else {
                at.wrong::<()>("an object", errors);
                return;
            };
            let mut patch = Vec::new();
            for (name, value) in map {
                match value {
                    Value::Null => patch.push((name.as_str(), None)),
                    Value::String(text) => patch.push((name.as_str(), Some(text.as_str()))),
                    _ => errors.push(format!("headers.{name}"), "must be text, or null to remove it"),
                }
            }
            patch
        }
    };
    match record.headers.merge(patch, &prefix) {
        Ok(headers) => record.headers = headers,
        Err(error) => errors.push(format!("headers.{}", error.name), error.message),
    }
}

/// An endpoint as it is answered. `secret`: shown once, when it was made.
pub fn answer(record: &EndpointRecord, secret: Option<&str>) -> Value {
    let headers: Map<String, Value> =
        record.headers.masked().map(|(name, mask)| (name.to_owned(), Value::from(mask))).collect();
    let mut answer = json!({
        "id": &*record.id,
        "url": &*record.url,
        "description": record.description,
        "event_types": record.event_types,
        "policy": policy_json(&record.policy.resolve()),
        "headers": headers,
        "header_prefix": record.header_prefix.as_ref().map(HeaderPrefix::as_str),
        "max_in_flight": record.max_in_flight,
        "metadata": record.metadata,
        "status": record.status,
        "disabled_reason": record.disabled_reason,
        "disabled_at": record.disabled_at,
        "created_at": record.created_at,
        "updated_at": record.updated_at,
    });
    if let Some(secret) = secret {
        answer["secret"] = Value::from(secret);
    }
    answer
}

/// The body of `POST …/secret/rotate`: the new secret, if the caller brings one, and how long the old one still signs.
pub fn rotation(body: &Value) -> Result<(Option<SigningSecret>, Span), Problem> {
    let mut errors = FieldErrors::default();
    let members = At::new(body, "").object(&["secret", "overlap"], &mut errors);
    let read = members.and_then(|members| {
        let overlap = match members.get("overlap").filter(|at| !at.value.is_null()) {
            Some(at) => at.duration(Span::ZERO..=MAX_OVERLAP, &mut errors)?,
            None => parse_duration("24h").ok()?,
        };
        let secret = match members.get("secret").filter(|at| !at.value.is_null()) {
            None => None,
            Some(at) => match SigningSecret::parse(at.text(&mut errors)?) {
                Ok(secret) => Some(secret),
                Err(why) => {
                    errors.push("secret", why.to_string());
                    return None;
                }
            },
        };
        Some((secret, overlap))
    });
    errors.finish(read).map_err(Problem::fields)
}

/// The body of `POST …/disable`.
pub fn reason(body: &Value) -> Result<String, Problem> {
    let mut errors = FieldErrors::default();
    let members = At::new(body, "").object(&["reason"], &mut errors);
    let read = members.and_then(|members| match members.get("reason").filter(|at| !at.value.is_null()) {
        None => Some(String::from("disabled by a person")),
        Some(at) => at.text(&mut errors).map(str::to_owned),
    });
    let reason = errors.finish(read).map_err(Problem::fields)?;
    match reason.chars().count() <= limits::MAX_REASON {
        true => Ok(reason),
        false => {
            let message = format!("may have at most {} characters (MAX_REASON)", limits::MAX_REASON);
            Err(Problem::fields(vec![FieldError { field: "reason".into(), message }]))
        }
    }
}
