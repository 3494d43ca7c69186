//! Cursors: opaque to callers, validated by us. Each carries the list and the order that it is a place in, so one from
//! another list, or one that somebody made up, is refused instead of being taken for something.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

use crate::domain::time::Timestamp;
use crate::store::list::From;

/// The lists that have pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum List {
    Events,
    Endpoints,
    Policies,
    Deliveries,
    Attempts,
    Dlq,
    Notifications,
}

impl List {
    /// Goes into the check of every cursor, so it must not change.
    const fn name(self) -> &'static str {
        match self {
            List::Events => "events",
            List::Endpoints => "endpoints",
            List::Policies => "policies",
            List::Deliveries => "deliveries",
            List::Attempts => "attempts",
            List::Dlq => "dlq",
            List::Notifications => "notifications",
        }
    }
}

/// The layout; another layout gets another number.
const VERSION: u8 = 1;
const NEWEST: u8 = b'n';
const CHANGED: u8 = b'c';
/// Bytes of the check.
const CHECK: usize = 4;

/// A place in a list as text.
pub fn encode(list: List, place: From) -> String {
    let mut bytes = match place {
        From::Newest { before } => {
            let mut bytes = vec![VERSION, NEWEST];
            bytes.extend(before.unwrap_or(i64::MAX).to_be_bytes());
            bytes
        }
        From::Changed { after, no } => {
            let mut bytes = vec![VERSION, CHANGED];
            bytes.extend(after.as_micros().to_be_bytes());
            bytes.extend(no.to_be_bytes());
            bytes
        }
    };
    bytes.extend(check(list, &bytes));
    URL_SAFE_NO_PAD.encode(bytes)
}

/// The place that a text of [`encode`] means; `None` if it is none of this list.
pub fn decode(list: List, text: &str) -> Option<From> {
    let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
    let (place, given) = bytes.split_at_checked(bytes.len().checked_sub(CHECK)?)?;
    let (&[VERSION, order], numbers) = place.split_first_chunk::<2>()? else { return None };
    if given != check(list, place) {
        return None;
    }
    let number = |at: usize| Some(i64::from_be_bytes(numbers.get(at..at + 8)?.try_into().ok()?));
    match (order, numbers.len()) {
        (NEWEST, 8) => Some(From::Newest { before: Some(number(0)?) }),
        (CHANGED, 16) => Some(From::Changed { after: Timestamp::from_micros(number(0)?), no: number(8)? }),
        _ => None,
    }
}

/// Against mistakes, not against forgers: a forged cursor leads nowhere that its caller could not go without one.
fn check(list: List, place: &[u8]) -> [u8; CHECK] {
    let hash = Sha256::new().chain_update(list.name()).chain_update([0]).chain_update(place).finalize();
    std::array::from_fn(|index| hash[index])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn place() -> impl Strategy<Value = From> {
        prop_oneof![
            any::<i64>().prop_map(|no| From::Newest { before: Some(no) }),
            any::<(i64, i64)>().prop_map(|(at, no)| From::Changed { after: Timestamp::from_micros(at), no }),
        ]
    }

    proptest! {
        #[test]
        fn a_cursor_leads_back_to_its_place_and_only_in_its_list(place in place()) {
            let text = encode(List::Events, place);
            prop_assert_eq!(decode(List::Events, &text), Some(place));
            prop_assert!(text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_'));
            let others = [
                List::Endpoints, List::Policies, List::Deliveries, List::Attempts, List::Dlq, List::Notifications,
            ];
            for other in others {
                prop_assert_eq!(decode(other, &text), None);
            }
        }

        #[test]
        fn a_changed_cursor_is_refused(place in place(), at in 0..64usize, bit in 0..8u8) {
            let mut bytes = URL_SAFE_NO_PAD.decode(encode(List::Dlq, place)).unwrap();
            let at = at % bytes.len();
            bytes[at] ^= 1 << bit;
            prop_assert_eq!(decode(List::Dlq, &URL_SAFE_NO_PAD.encode(bytes)), None);
        }

        #[test]
        fn no_text_panics(text in ".{0,60}|[A-Za-z0-9_-]{0,60}") {
            decode(List::Attempts, &text);
        }
    }
}
