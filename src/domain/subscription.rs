//! Which endpoints want which events: patterns, filters, and the index that answers for all endpoints of a tenant at
//! once (C76). Everything works on whole segments and on the exact case.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;

use super::event_type::{EventType, MAX_EVENT_TYPE_BYTES};

/// The most patterns that one filter holds.
pub const MAX_PATTERNS: usize = 500;

/// One entry of an endpoint's `event_types`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Pattern {
    /// `order.created`: this type and no other.
    Exact(EventType),
    /// `order.*`: `order.` and one or more further segments. Holds what stands before the `.*`.
    Under(EventType),
    /// `*`: every type.
    Any,
}

impl Pattern {
    /// Reads an exact name, `<name>.*` or `*`. The error is a sentence that quotes no input.
    pub fn parse(text: &str) -> Result<Pattern, String> {
        if text == "*" {
            return Ok(Pattern::Any);
        }
        if text.len() > MAX_EVENT_TYPE_BYTES {
            return Err(format!("An event type pattern is at most {MAX_EVENT_TYPE_BYTES} characters long."));
        }
        let pattern = match text.strip_suffix(".*") {
            Some(prefix) => EventType::parse(prefix).map(Pattern::Under),
            None => EventType::parse(text).map(Pattern::Exact),
        };
        pattern.map_err(|reason| match text.contains('*') {
            true => "In an event type pattern '*' stands alone or as the whole last segment, as in 'order.*'.".into(),
            false => reason,
        })
    }

    /// Whether an event of this type is meant.
    pub fn matches(&self, event_type: &str) -> bool {
        match self {
            Pattern::Exact(name) => name.as_str() == event_type,
            Pattern::Under(prefix) => prefixes(event_type).any(|start| start == prefix.as_str()),
            Pattern::Any => true,
        }
    }
}

/// As the owner wrote it.
impl fmt::Display for Pattern {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Pattern::Exact(name) => write!(out, "{name}"),
            Pattern::Under(prefix) => write!(out, "{prefix}.*"),
            Pattern::Any => out.write_str("*"),
        }
    }
}

/// What stands before each dot of a type: `a.b.c` gives `a` and `a.b`.
fn prefixes(event_type: &str) -> impl Iterator<Item = &str> {
    (event_type.match_indices('.')).filter(|(at, _)| at + 1 < event_type.len()).map(|(at, _)| &event_type[..at])
}

/// The event types that an endpoint wants: at least one pattern, in the owner's order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventFilter(Arc<[Pattern]>);

impl EventFilter {
    /// Every event: what an endpoint without `event_types` gets. The same as `["*"]`.
    pub fn all() -> EventFilter {
        EventFilter(Arc::new([Pattern::Any]))
    }

    /// Reads the list in `event_types`. An empty list is refused: an endpoint that wants nothing is a mistake.
    pub fn parse<T: AsRef<str>>(list: &[T]) -> Result<EventFilter, BadFilter> {
        let whole = |message: String| Err(BadFilter { entry: None, message });
        if list.is_empty() {
            return whole("The list of event types must not be empty; leave it out to get every event.".into());
        }
        if list.len() > MAX_PATTERNS {
            return whole(format!("At most {MAX_PATTERNS} event types can be listed; '*' means all."));
        }
        let patterns = list.iter().enumerate().map(|(index, text)| {
            let bad = |message: String| BadFilter { entry: Some(index), message };
            Pattern::parse(text.as_ref()).map_err(|reason| bad(reason.to_string()))
        });
        Ok(EventFilter(patterns.collect::<Result<_, _>>()?))
    }

    /// Whether any pattern means this type.
    pub fn matches(&self, event_type: &str) -> bool {
        self.0.iter().any(|pattern| pattern.matches(event_type))
    }

    /// The patterns, in the owner's order.
    pub fn patterns(&self) -> &[Pattern] {
        &self.0
    }
}

/// Why a list is no filter, as a sentence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct BadFilter {
    /// The entry at fault, counted from 0; `None`: the list as a whole.
    pub entry: Option<usize>,
    pub message: String,
}

/// A list of texts.
impl serde::Serialize for EventFilter {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.0.iter().map(|pattern| pattern.to_string()))
    }
}

/// From a list of texts, with the checks of [`EventFilter::parse`].
impl<'de> serde::Deserialize<'de> for EventFilter {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        EventFilter::parse(&Vec::<String>::deserialize(from)?).map_err(serde::de::Error::custom)
    }
}

/// The filters of many endpoints, turned round: from an event type to the endpoints that want it. Looking up costs as
/// much as the type has segments and the answer has endpoints, however many others there are.
#[derive(Clone, Debug)]
pub struct SubscriptionIndex<K> {
    exact: HashMap<EventType, HashSet<K>>,
    under: HashMap<EventType, HashSet<K>>,
    any: HashSet<K>,
    /// What each key is entered with, so that it can be taken out again.
    filters: HashMap<K, EventFilter>,
}

impl<K> Default for SubscriptionIndex<K> {
    fn default() -> Self {
        SubscriptionIndex { exact: HashMap::new(), under: HashMap::new(), any: HashSet::new(), filters: HashMap::new() }
    }
}

impl<K: Copy + Eq + Hash + Ord> SubscriptionIndex<K> {
    pub fn new() -> Self {
        Self::default()
    }

    /// Enters an endpoint, or gives it another filter.
    pub fn insert(&mut self, key: K, filter: &EventFilter) {
        self.remove(key);
        for pattern in filter.patterns() {
            match pattern {
                Pattern::Exact(name) => self.exact.entry(name.clone()).or_default().insert(key),
                Pattern::Under(prefix) => self.under.entry(prefix.clone()).or_default().insert(key),
                Pattern::Any => self.any.insert(key),
            };
        }
        self.filters.insert(key, filter.clone());
    }

    /// Takes an endpoint out; whether it was there.
    pub fn remove(&mut self, key: K) -> bool {
        let Some(filter) = self.filters.remove(&key) else {
            return false;
        };
        for pattern in filter.patterns() {
            match pattern {
                Pattern::Exact(name) => take(&mut self.exact, name, key),
                Pattern::Under(prefix) => take(&mut self.under, prefix, key),
                Pattern::Any => drop(self.any.remove(&key)),
            }
        }
        true
    }

    /// Every endpoint that wants this type: each once, however many of its patterns match, in ascending order.
    pub fn matching(&self, event_type: &str) -> Vec<K> {
        let under = prefixes(event_type).filter_map(|prefix| self.under.get(prefix));
        let sets = self.exact.get(event_type).into_iter().chain(under).chain([&self.any]);
        let mut keys: Vec<K> = sets.flatten().copied().collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    /// How many endpoints are entered.
    pub fn len(&self) -> usize {
        self.filters.len()
    }

    pub fn is_empty(&self) -> bool {
        self.filters.is_empty()
    }
}

/// Takes a key out of a set, and an empty set out of its map: names that nobody wants any more must not pile up.
fn take<K: Eq + Hash>(sets: &mut HashMap<EventType, HashSet<K>>, name: &EventType, key: K) {
    if let Some(keys) = sets.get_mut(name.as_str()) {
        keys.remove(&key);
        if keys.is_empty() {
            sets.remove(name.as_str());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn filter(patterns: &[&str]) -> EventFilter {
        EventFilter::parse(patterns).unwrap()
    }

    /// C76.
    #[test]
    fn matches_segment_by_segment() {
        let check = |patterns: &[&str], event_type: &str, wanted: bool| {
            assert_eq!(filter(patterns).matches(event_type), wanted, "{patterns:?} {event_type}");
            let mut index = SubscriptionIndex::new();
            index.insert(7, &filter(patterns));
            assert_eq!(index.matching(event_type), if wanted { vec![7] } else { vec![] });
        };
        check(&["user.create", "user.update"], "user.create", true);
        check(&["user.create", "user.update"], "user.update", true);
        check(&["user.create", "user.update"], "user.delete", false);
        check(&["user.*"], "user.update", true);
        check(&["user.*"], "user.created.v2", true);
        check(&["user.*"], "user", false);
        check(&["user.*"], "users.created", false);
        check(&["user.*"], "USER.created", false);
        check(&["user.*"], "user.", false);
        check(&["user.created.*"], "user.created", false);
        check(&["user.created.*"], "user.created.v2", true);
        check(&["user.*", "*"], "user.update", true);
        check(&["user.*", "*"], "other", true);
        check(&["user"], "user.update", false);
    }

    #[test]
    fn refuses_what_is_no_pattern() {
        for bad in ["", "*.created", "user.*.v2", "us*", "user.**", "user*", ".*", "**", "a b", "user.", "é.*"] {
            assert!(Pattern::parse(bad).is_err(), "{bad:?}");
        }
        assert!(Pattern::parse(&format!("{}.*", "a".repeat(126))).is_ok());
        assert!(Pattern::parse(&format!("{}.*", "a".repeat(127))).is_err());
        assert!(EventFilter::parse::<&str>(&[]).is_err());
        assert!(EventFilter::parse(&["a"; MAX_PATTERNS + 1]).is_err());
        assert_eq!(EventFilter::parse(&["a", "b*"]).unwrap_err().entry, Some(1));
    }

    #[test]
    fn is_stored_and_shown_as_the_owner_wrote_it() {
        let text = r#"["user.*","invoice.paid","*","invoice.paid"]"#;
        let filter: EventFilter = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&filter).unwrap(), text);
        assert_eq!(serde_json::to_string(&EventFilter::all()).unwrap(), r#"["*"]"#);
        assert!(serde_json::from_str::<EventFilter>("[]").is_err());
    }

    #[test]
    fn removing_leaves_nothing_behind() {
        let mut index = SubscriptionIndex::new();
        index.insert(1, &filter(&["a.*", "a.b", "*"]));
        index.insert(2, &filter(&["a.*"]));
        assert_eq!(index.matching("a.b"), [1, 2]);
        index.insert(1, &filter(&["c"]));
        assert_eq!(index.matching("a.b"), [2]);
        assert!(index.remove(1) && index.remove(2) && !index.remove(2));
        assert!(index.is_empty() && index.exact.is_empty() && index.under.is_empty() && index.any.is_empty());
    }

    fn name() -> impl Strategy<Value = String> {
        proptest::collection::vec("[ab]", 1..4).prop_map(|parts| parts.join("."))
    }

    fn pattern() -> impl Strategy<Value = String> {
        prop_oneof![name(), name().prop_map(|name| name + ".*"), Just("*".to_owned())]
    }

    proptest! {
        #[test]
        fn the_index_agrees_with_the_filters(
            lists in proptest::collection::vec(proptest::collection::vec(pattern(), 1..4), 0..8),
            gone in proptest::collection::vec(0..8usize, 0..4),
            event_type in name(),
        ) {
            let mut index = SubscriptionIndex::new();
            let filters: Vec<_> = lists.iter().map(|list| EventFilter::parse(list).unwrap()).collect();
            for (key, filter) in filters.iter().enumerate() {
                index.insert(key, filter);
            }
            for key in &gone {
                index.remove(*key);
            }
            let wanted: Vec<_> = (0..filters.len())
                .filter(|key| !gone.contains(key) && filters[*key].matches(&event_type))
                .collect();
            prop_assert_eq!(index.matching(&event_type), wanted);
        }
    }
}
