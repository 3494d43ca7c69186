//! What name servers said, kept for as long as they said it holds. hickory would keep whole messages and count them instead of
//! their bytes; a message has up to 64 KiB and a stranger's server writes it, so a few thousand names would fill the memory.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use moka::sync::Cache;

use super::failure::Failure;

/// Of an answer, so many addresses of each family are looked at. Eight are dialled (`dial.rs`), but first those that may not
/// be called are left out.
pub const MAX_ADDRESSES: usize = 32;
/// What all answers that are kept may take, about: some 15,000 names of a few addresses.
const KEPT_BYTES: u64 = 4 << 20;
/// What an entry takes besides its name and addresses, about.
const ENTRY_BYTES: usize = 200;

/// The addresses of a name, or that it has none.
pub type Said = Result<Arc<[IpAddr]>, Failure>;

#[derive(Clone)]
struct Kept {
    said: Said,
    until: Instant,
}

pub struct Answers(Cache<Arc<str>, Kept>);

impl Default for Answers {
    fn default() -> Answers {
        Answers::within(KEPT_BYTES)
    }
}

impl Answers {
    fn within(bytes: u64) -> Answers {
        let weigh = |name: &Arc<str>, kept: &Kept| {
            let addresses = kept.said.as_ref().map_or(0, |addresses| size_of_val(&**addresses));
            u32::try_from(ENTRY_BYTES + name.len() + addresses).unwrap_or(u32::MAX)
        };
        Answers(Cache::builder().max_capacity(bytes).weigher(weigh).build())
    }

    /// What was said of a name, if that still holds.
    pub fn get(&self, name: &str, now: Instant) -> Option<Said> {
        self.0.get(name).filter(|kept| kept.until > now).map(|kept| kept.said)
    }

    /// Keeps what was said of a name until then. It may be forgotten sooner.
    pub fn keep(&self, name: &str, said: Said, until: Instant) {
        self.0.insert(name.into(), Kept { said, until });
    }
}

/// The addresses that are looked at: the first so many of each family, in the order in which they came.
pub fn first_of_each(addresses: impl Iterator<Item = IpAddr>) -> Arc<[IpAddr]> {
    let mut left = [MAX_ADDRESSES; 2];
    let is_early = |ip: &IpAddr| {
        let left = &mut left[usize::from(ip.is_ipv6())];
        let early = *left > 0;
        *left -= usize::from(early);
        early
    };
    addresses.filter(is_early).collect()
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};
    use std::time::Duration;

    use super::super::{failure, now};
    use super::*;

    fn addresses(count: u32) -> Said {
        Ok((0..count).map(|n| IpAddr::from(Ipv4Addr::from(n))).collect())
    }

    #[test]
    fn an_answer_holds_until_its_time() {
        let (answers, now) = (Answers::default(), now().into_std());
        answers.keep("a.test.", addresses(2), now + Duration::from_secs(1));
        answers.keep("none.test.", Err(failure::DNS_NO_ADDRESS), now + Duration::from_secs(1));
        assert_eq!(answers.get("a.test.", now), Some(addresses(2)));
        assert_eq!(answers.get("none.test.", now), Some(Err(failure::DNS_NO_ADDRESS)));
        assert_eq!(answers.get("a.test.", now + Duration::from_secs(1)), None);
        assert_eq!(answers.get("b.test.", now), None);
    }

    #[test]
    fn what_is_kept_is_limited_in_bytes() {
        let (answers, now) = (Answers::within(100_000), now().into_std());
        for n in 0..10_000 {
            answers.keep(&format!("n{n}.test."), addresses(64), now + Duration::from_secs(60));
        }
        answers.0.run_pending_tasks();
        assert!(answers.0.weighted_size() <= 100_000 && answers.0.entry_count() < 100);
    }

    #[test]
    fn a_long_answer_of_one_family_does_not_hide_the_other() {
        let many = (0..1_000_u32).map(|n| IpAddr::from(Ipv6Addr::from(u128::from(n))));
        let few = [IpAddr::from(Ipv4Addr::LOCALHOST)];
        let looked_at = first_of_each(many.chain(few));
        assert_eq!((looked_at.len(), looked_at.last()), (MAX_ADDRESSES + 1, few.last()));
    }
}
