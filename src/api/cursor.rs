//! Cursors: opaque to callers, validated by us. One names its list and its order, so that a cursor of another list, or a
//! made-up one, is refused rather than misread.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::domain::time::Timestamp;
use crate::store::list::From;

/// The lists that have cursors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum List {
    Events,
    Endpoints,
    Deliveries,
    Dlq,
    Attempts,
    Notifications,
}

impl List {
    const fn tag(self) -> u8 {
        match self {
            List::Events => b'e',
            List::Endpoints => b'p',
            List::Deliveries => b'd',
            List::Dlq => b'q',
            List::Attempts => b'a',
            List::Notifications => b'n',
        }
    }
}

/// The text of a place in a list. [`From::Newest`] without a number has none: it is the beginning.
pub fn encode(list: List, from: From) -> String {
    let mut bytes = vec![1, list.tag()];
    match from {
        From::Newest { before } => {
            bytes.push(b'n');
            bytes.extend(before.unwrap_or(i64::MAX).to_be_bytes());
        }
        From::Changed { after, no } => {
            bytes.push(b'c');
            bytes.extend(after.as_micros().to_be_bytes());
            bytes.extend(no.to_be_bytes());
        }
    }
    let check = bytes.iter().fold(0x5au8, |sum, byte| sum.rotate_left(3) ^ byte);
    bytes.push(check);
    URL_SAFE_NO_PAD.encode(bytes)
}

/// The place that a text of [`encode`] means, if it is one of this list.
pub fn decode(list: List, text: &str) -> Option<From> {
    let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
    let (check, bytes) = bytes.split_last()?;
    if *check != bytes.iter().fold(0x5au8, |sum, byte| sum.rotate_left(3) ^ byte) {
        return None;
    }
    let rest = bytes.strip_prefix(&[1, list.tag()])?;
    let number = |bytes: &[u8]| bytes.try_into().ok().map(i64::from_be_bytes);
    match rest.split_first()? {
        (b'n', rest) => Some(From::Newest { before: Some(number(rest)?) }),
        (b'c', rest) if rest.len() == 16 => {
            Some(From::Changed { after: Timestamp::from_micros(number(&rest[..8])?), no: number(&rest[8..])? })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn cursors_lead_back_and_only_in_their_list(at: i64, no: i64, changed: bool) {
            let from = match changed {
                true => From::Changed { after: Timestamp::from_micros(at), no },
                false => From::Newest { before: Some(no) },
            };
            let text = encode(List::Events, from);
            prop_assert_eq!(decode(List::Events, &text), Some(from));
            prop_assert_eq!(decode(List::Deliveries, &text), None);
        }

        #[test]
        fn no_text_panics(text in ".{0,60}") {
            decode(List::Dlq, &text);
        }
    }
}
