//! Endpoints as their owners write them: `POST` and `PATCH` bodies, checked to the end, every fault with its path, before
//! anything is stored (C21, C27, C28, C37, C86–C88).

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::api::json::{self, Document, below};
use crate::api::limits;
use crate::api::problem::Problem;
use crate::config::Config;
use crate::domain::endpoint::{DEFAULT_MAX_IN_FLIGHT, MAX_IN_FLIGHT, Status};
use crate::domain::field_error::{FieldErrors, shortened};
use crate::domain::headers::{CustomHeaders, HeaderPrefix};
use crate::domain::ids::{EndpointNo, TenantNo};
use crate::domain::json_reader::{At, Members};
use crate::domain::policy_spec::PolicySpec;
use crate::domain::secret::{SecretSet, SigningSecret};
use crate::domain::subscription::{BadFilter, EventFilter, MAX_PATTERNS};
use crate::domain::target::{AddressPolicy, TargetUrl};
use crate::domain::time::Timestamp;
use crate::store::endpoint_record::EndpointRecord;

const URL: &str = "url";
const HEADERS: &str = "headers";
const HEADER_PREFIX: &str = "header_prefix";
const SECRET: &str = "secret";
const MEMBERS: [&str; 9] =
    [URL, "description", "event_types", "policy", HEADERS, HEADER_PREFIX, "max_in_flight", SECRET, "metadata"];

/// What an installation allows, and what it does unless an endpoint says otherwise.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    pub targets: AddressPolicy,
    pub https_only: bool,
    pub prefix: HeaderPrefix,
}

impl Rules {
    pub fn of(config: &Config) -> Rules {
        Rules { targets: config.targets.clone(), https_only: config.https_only, prefix: config.header_prefix.clone() }
    }
}

/// What a new endpoint has that nobody writes.
pub struct Birth {
    pub tenant: TenantNo,
    pub id: String,
    /// Unless the owner brings one.
    pub secret: SigningSecret,
    pub now: Timestamp,
}

/// Reads the body of `POST /endpoints`.
pub fn create(body: &[u8], rules: &Rules, birth: Birth) -> Result<EndpointRecord, Problem> {
    let mut record = EndpointRecord {
        no: EndpointNo(0),
        tenant: birth.tenant,
        id: birth.id.into(),
        version: 0,
        url: Arc::from(""),
        description: String::new(),
        event_types: EventFilter::all(),
        policy: PolicySpec::default(),
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
    let mut errors = FieldErrors::default();
    let read = with_members(body, &mut errors, |document, members, errors| {
        members.required(URL, errors);
        if let Some(secret) = members.get(SECRET).filter(|at| !at.value.is_null()) {
            let secret = read_secret(&secret, errors);
            secret.into_iter().for_each(|secret| record.secrets = SecretSet::new(secret));
        }
        apply(document, members, &mut record, rules, errors);
    });
    errors.finish(read).map_err(Problem::invalid)?;
    Ok(record)
}

/// What a `PATCH` makes of an endpoint.
#[derive(Debug)]
pub struct Edit {
    pub record: EndpointRecord,
    /// Anything at all is different.
    pub changes: bool,
    /// Streaks are cleared and the circuit closed (S22).
    pub new_url: bool,
    /// The circuit breaker was removed (S17).
    pub close_circuit: bool,
}

/// Reads the body of `PATCH /endpoints/{id}`: what is missing stays, null is the default, `headers` are merged by name.
pub fn edit(body: &[u8], before: &EndpointRecord, rules: &Rules) -> Result<Edit, Problem> {
    let mut record = before.clone();
    let mut errors = FieldErrors::default();
    let read = with_members(body, &mut errors, |document, members, errors| {
        if members.get(SECRET).is_some() {
            errors.push(SECRET, "A secret is changed by POST …/secret/rotate.");
        }
        apply(document, members, &mut record, rules, errors);
    });
    errors.finish(read).map_err(Problem::invalid)?;
    let breaker = |record: &EndpointRecord| record.policy.resolve().circuit_breaker.is_some();
    Ok(Edit {
        changes: differ(before, &record),
        new_url: before.url != record.url,
        close_circuit: breaker(before) && !breaker(&record),
        record,
    })
}

/// Whether anything that an owner writes is different.
fn differ(a: &EndpointRecord, b: &EndpointRecord) -> bool {
    a.url != b.url
        || a.description != b.description
        || a.event_types != b.event_types
        || a.policy != b.policy
        || a.headers != b.headers
        || a.header_prefix != b.header_prefix
        || a.max_in_flight != b.max_in_flight
        || a.metadata != b.metadata
}

/// Takes a body apart. `None` after a fault that leaves nothing to look at.
fn with_members(
    body: &[u8],
    errors: &mut FieldErrors,
    read: impl FnOnce(&Document, &Members, &mut FieldErrors),
) -> Option<()> {
    let document = Document::read(json::text(body, errors)?, "", errors)?;
    let value = document.value(errors)?;
    let members = At::new(&value, "").object(&MEMBERS, errors)?;
    read(&document, &members, errors);
    Some(())
}

/// Writes the members that are there into `record`.
fn apply(document: &Document, members: &Members, record: &mut EndpointRecord, rules: &Rules, errors: &mut FieldErrors) {
    // A null is the default, which has its own spelling for each.
    let given = |name: &str| members.get(name).map(|at| (!at.value.is_null()).then_some(at));
    if let Some(at) = members.get(URL)
        && let Some(url) = read_url(&at, rules, errors)
    {
        move_to(record, &url);
    }
    match given("description") {
        Some(None) => record.description.clear(),
        Some(Some(at)) => {
            let text = read_text(&at, limits::DESCRIPTION_CHARS, errors);
            text.into_iter().for_each(|text| record.description = text);
        }
        None => {}
    }
    match given("event_types") {
        Some(None) => record.event_types = EventFilter::all(),
        Some(Some(at)) => read_event_types(&at, errors).into_iter().for_each(|types| record.event_types = types),
        None => {}
    }
    match given("policy") {
        Some(None) => record.policy = PolicySpec::default(),
        Some(Some(at)) => PolicySpec::read(&at, errors).into_iter().for_each(|policy| record.policy = policy),
        None => {}
    }
    match given("max_in_flight") {
        Some(None) => record.max_in_flight = DEFAULT_MAX_IN_FLIGHT,
        Some(Some(at)) => {
            let range = u32::from(*MAX_IN_FLIGHT.start())..=u32::from(*MAX_IN_FLIGHT.end());
            let number = at.whole_number(range, errors).and_then(|number| u16::try_from(number).ok());
            number.into_iter().for_each(|number| record.max_in_flight = number);
        }
        None => {}
    }
    match given("metadata") {
        Some(None) => record.metadata = Map::new(),
        Some(Some(at)) => read_metadata(&at, errors).into_iter().for_each(|map| record.metadata = map),
        None => {}
    }
    let prefix = match given(HEADER_PREFIX) {
        None => Some(record.header_prefix.clone()),
        Some(None) => Some(None),
        Some(Some(at)) => read_prefix(&at, errors).map(Some),
    };
    // Whose names are reserved depends on the prefix, so without one there is nothing to check the headers against.
    if let Some(prefix) = prefix {
        record.header_prefix = prefix;
        apply_headers(document, record, rules, errors);
    }
}

/// Another origin clears the custom headers, which may be credentials for the old one.
fn move_to(record: &mut EndpointRecord, url: &TargetUrl) {
    let before = TargetUrl::parse(&record.url, false).ok().map(|before| before.origin());
    if before.is_none_or(|before| before != url.origin()) {
        record.headers = CustomHeaders::default();
    }
    record.url = Arc::from(url.as_str());
}

/// Merges the member `headers`, in the owner's order, and checks what then is there.
fn apply_headers(document: &Document, record: &mut EndpointRecord, rules: &Rules, errors: &mut FieldErrors) {
    let prefix = record.header_prefix.as_ref().unwrap_or(&rules.prefix);
    let Some(patch) = read_headers(document, errors) else { return };
    let merged = match patch {
        Some(patch) => record.headers.merge(patch, prefix),
        None => Ok(CustomHeaders::default()),
    };
    match merged {
        Ok(headers) => record.headers = headers,
        Err(error) if error.name.is_empty() => errors.push(HEADERS, error.message),
        Err(error) => errors.push(below(HEADERS, &shortened(&error.name)), error.message),
    }
}

/// The member `headers`: name and value, null to delete; none at all if the member is missing. `Some(None)`: the member
/// is null, which is the default, which is no headers. `None` after a fault.
#[allow(clippy::type_complexity)]
fn read_headers(document: &Document, errors: &mut FieldErrors) -> Option<Option<Vec<(String, Option<String>)>>> {
    let Some(raw) = document.get(HEADERS) else { return Some(Some(Vec::new())) };
    if json::is_null(raw) {
        return Some(None);
    }
    let headers = Document::read(raw.get(), HEADERS, errors)?;
    let mut patch = Vec::new();
    let mut whole = true;
    for (name, value) in headers.members() {
        let value = match json::is_null(value) {
            true => Some(None),
            false => json::string(value, &below(HEADERS, &shortened(name)), errors).map(|text| Some(text.into_owned())),
        };
        match value {
            // Noted already.
            _ if patch.iter().any(|(earlier, _)| earlier == name) => whole = false,
            Some(value) => patch.push((name.to_owned(), value)),
            None => whole = false,
        }
    }
    whole.then_some(Some(patch))
}

/// A literal address that may never be called is refused at once; what a name leads to is judged at each dial. The answer
/// does not say which address it is, in case it was spelled in some other way (C29).
fn read_url(at: &At, rules: &Rules, errors: &mut FieldErrors) -> Option<TargetUrl> {
    let url = TargetUrl::parse(at.text(errors)?, rules.https_only);
    match url {
        Ok(url) if rules.targets.judge_literal(&url).is_allowed() => Some(url),
        Ok(_) => {
            errors.push(&at.path, "The URL's address is not a public one; the operator has not allowed to call it.");
            None
        }
        Err(message) => {
            errors.push(&at.path, message);
            None
        }
    }
}

fn read_event_types(at: &At, errors: &mut FieldErrors) -> Option<EventFilter> {
    let elements = at.list(MAX_PATTERNS, errors)?;
    let texts: Vec<_> = elements.iter().filter_map(|element| element.text(errors)).collect();
    if texts.len() < elements.len() {
        return None;
    }
    let bad = |bad: BadFilter| {
        let path = bad.entry.map_or(at.path.to_string(), |entry| format!("{}[{entry}]", at.path));
        errors.push(&path, bad.message);
    };
    EventFilter::parse(&texts).map_err(bad).ok()
}

fn read_prefix(at: &At, errors: &mut FieldErrors) -> Option<HeaderPrefix> {
    HeaderPrefix::parse(at.text(errors)?).map_err(|message| errors.push(&at.path, message)).ok()
}

/// A signing secret that its owner brings (C37).
pub fn read_secret(at: &At, errors: &mut FieldErrors) -> Option<SigningSecret> {
    SigningSecret::parse(at.text(errors)?).map_err(|error| errors.push(&at.path, error.to_string())).ok()
}

/// Text for people: at most `most` characters, none of which moves a cursor (C36, C91).
pub fn read_text(at: &At, most: usize, errors: &mut FieldErrors) -> Option<String> {
    let text = at.text(errors)?;
    let fault = match text {
        _ if text.chars().count() > most => format!("This is longer than {most} characters."),
        _ if text.chars().any(|one| one.is_control() && one != '\n' && one != '\t') => {
            "Control characters other than line breaks and tabs cannot be part of this.".into()
        }
        _ => return Some(text.to_owned()),
    };
    errors.push(&at.path, fault);
    None
}

fn read_metadata(at: &At, errors: &mut FieldErrors) -> Option<Map<String, Value>> {
    let Value::Object(map) = at.value else { return at.wrong("an object", errors) };
    let fault = if map.len() > limits::METADATA_MEMBERS {
        format!("At most {} members are allowed.", limits::METADATA_MEMBERS)
    } else if at.value.to_string().len() > limits::METADATA_BYTES {
        format!("As JSON this is at most {} bytes long.", limits::METADATA_BYTES)
    } else {
        return Some(map.clone());
    };
    errors.push(&at.path, fault);
    None
}

#[cfg(test)]
mod tests;
