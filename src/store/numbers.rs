//! Lists of numbers in one column: positive and rising, each as its distance from the one before, in bytes of seven bits,
//! the lowest first (LEB128). One or two bytes for most. An event's endpoints are kept like this, and an endpoint's
//! deliveries.

/// The bytes of these numbers, which are positive and rise.
pub fn encode(numbers: impl IntoIterator<Item = i64>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut before = 0;
    for number in numbers {
        let mut distance = (number - before).unsigned_abs();
        before = number;
        while distance >= 0x80 {
            bytes.push(distance as u8 | 0x80);
            distance >>= 7;
        }
        bytes.push(distance as u8);
    }
    bytes
}

/// The numbers of these bytes; `None` if they are none of [`encode`]'s.
pub fn decode(bytes: &[u8]) -> Option<Vec<i64>> {
    let mut numbers = Vec::new();
    let (mut number, mut distance, mut shift) = (0_i64, 0_i64, 0);
    for byte in bytes {
        if shift > 56 {
            return None;
        }
        distance |= i64::from(byte & 0x7f) << shift;
        shift += 7;
        if byte & 0x80 == 0 {
            number = number.checked_add(distance)?;
            numbers.push(number);
            (distance, shift) = (0, 0);
        }
    }
    (shift == 0).then_some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(numbers in proptest::collection::btree_set(1_i64..1 << 62, 0..50)) {
            let numbers: Vec<i64> = numbers.into_iter().collect();
            prop_assert_eq!(decode(&encode(numbers.iter().copied())), Some(numbers));
        }

        #[test]
        fn no_bytes_make_it_panic(bytes: Vec<u8>) {
            decode(&bytes);
        }
    }

    #[test]
    fn a_hundred_neighbours_take_a_hundred_bytes() {
        assert_eq!(encode(1_000..1_100).len(), 101);
        assert_eq!(decode(&[0x80]), None);
    }
}
