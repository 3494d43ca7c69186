//! Identifiers: prefixed, sortable by time, and the numbers that the store and the engine use behind them.
//!
//! Endpoints, notifications and generated events get 48 bits of time and 80 random bits. Deliveries and attempts are by
//! far the most numerous rows, so their ids are *derived* from the time and the row's number: nothing to store, no index
//! to keep, and an id leads straight to its row. (What it shows of the number is how many deliveries the installation
//! has made, to those who may see the delivery.)

use std::fmt;

use super::time::Timestamp;

/// Crockford's base 32 in lower case: no `i`, `l`, `o`, `u`, and sorted as ASCII is.
const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

macro_rules! number {
    ($(#[$meta:meta])* $name:ident) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub i64);

        impl fmt::Display for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(out)
            }
        }
    };
}

number! {
    /// A tenant's row.
    TenantNo
}
number! {
    /// An event's row; rises in commit order.
    EventNo
}
number! {
    /// An endpoint's row.
    EndpointNo
}
number! {
    /// A delivery's row; rises in commit order, so an actor can say "I have read everything up to here".
    DeliveryNo
}

fn push_digits(text: &mut String, mut value: u128, digits: usize) {
    let mut buffer = [0u8; 26];
    for place in buffer[..digits].iter_mut().rev() {
        *place = DIGITS[(value & 31) as usize];
        value >>= 5;
    }
    text.extend(buffer[..digits].iter().map(|&byte| char::from(byte)));
}

fn read_digits(text: &str) -> Option<u128> {
    text.bytes().try_fold(0u128, |value, byte| {
        let digit = DIGITS.binary_search(&byte).ok()?;
        value.checked_mul(32).map(|shifted| shifted | digit as u128)
    })
}

fn millis(at: Timestamp) -> u128 {
    at.as_millis().clamp(0, (1 << 48) - 1) as u128
}

/// A new id: `prefix` and 26 digits. `random` must come from a good source; 80 of its bits are used.
pub fn unique_id(prefix: &str, at: Timestamp, random: u128) -> String {
    let mut text = String::with_capacity(prefix.len() + 26);
    text.push_str(prefix);
    push_digits(&mut text, (millis(at) << 80) | (random & ((1 << 80) - 1)), 26);
    text
}

/// The id of a delivery: `dlv_`, ten digits of time (milliseconds of its creation), thirteen of its number.
pub fn delivery_id(no: DeliveryNo, created_at: Timestamp) -> String {
    let mut text = String::with_capacity(27);
    text.push_str("dlv_");
    push_digits(&mut text, millis(created_at), 10);
    push_digits(&mut text, no.0 as u128, 13);
    text
}

/// The number in a delivery's id. The caller must compare the id of the row it finds with the text: digits of another
/// time before the right number are no id.
pub fn parse_delivery_id(text: &str) -> Option<DeliveryNo> {
    let digits = text.strip_prefix("dlv_").filter(|digits| digits.len() == 23 && digits.is_ascii())?;
    i64::try_from(read_digits(&digits[10..])?).ok().map(DeliveryNo)
}

/// The id of the `number`-th attempt ever made for a delivery.
pub fn attempt_id(delivery: DeliveryNo, number: u32, started_at: Timestamp) -> String {
    let mut text = String::with_capacity(31);
    text.push_str("att_");
    push_digits(&mut text, millis(started_at), 10);
    push_digits(&mut text, delivery.0 as u128, 13);
    push_digits(&mut text, u128::from(number), 4);
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ids_have_a_fixed_shape() {
        let at = Timestamp::parse("2026-09-03T12:04:01.412Z").unwrap();
        assert_eq!(unique_id("ep_", at, 0), "ep_01m1kjf4840000000000000000");
        assert_eq!(delivery_id(DeliveryNo(33), at), "dlv_01m1kjf4840000000000011");
        assert_eq!(attempt_id(DeliveryNo(33), 2, at), "att_01m1kjf48400000000000110002");
        for bad in [
            "",
            "dlv_",
            "dlv_01m1kjf484000000000001",
            "evt_01m1kjf4840000000000011",
            "dlv_01m1kjf484zzzzzzzzzzzzz",
            "dlv_01m1kjf484000000000001é",
        ] {
            assert_eq!(parse_delivery_id(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn delivery_ids_lead_back_to_their_number(no in 0..i64::MAX, at in 0..4_000_000_000_000_000i64) {
            let id = delivery_id(DeliveryNo(no), Timestamp::from_micros(at));
            prop_assert_eq!(parse_delivery_id(&id), Some(DeliveryNo(no)));
        }

        #[test]
        fn ids_sort_by_time(a in 0..4_000_000_000_000i64, b in 0..4_000_000_000_000i64, x: u128, y: u128) {
            let id = |millis: i64, random| unique_id("evt_", Timestamp::from_micros(millis * 1000), random);
            prop_assume!(a != b);
            prop_assert_eq!(a < b, id(a, x) < id(b, y));
        }
    }
}
