//! What name servers said, kept for as long as they said it holds. hickory would keep whole messages and count them instead of
//! their bytes; a message has up to 64 KiB and a stranger's server writes it, so a few thousand names would fill the memory.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use moka::sync::Cache;

/// Of an answer, so many addresses are looked at. Eight are dialled (`dial.rs`), but first those that may not be called are
/// left out.
pub const LOOKED_AT: usize = 32;
/// What all answers of one family that are kept may take, about: some 8,000 names of a few addresses.
const KEPT_BYTES: u64 = 2 << 20;
/// What an entry takes besides its name and addresses, about.
const ENTRY_BYTES: usize = 200;

#[derive(Clone)]
struct Kept {
    addresses: Arc<[IpAddr]>,
    until: Instant,
}

/// Of one address family: that a name has addresses of it, or none, says nothing about the other.
pub struct Answers(Cache<Arc<str>, Kept>);

impl Default for Answers {
    fn default() -> Answers {
        Answers::within(KEPT_BYTES)
    }
}

impl Answers {
    fn within(bytes: u64) -> Answers {
        let weigh = |name: &Arc<str>, kept: &Kept| {
            let addresses = size_of_val(&*kept.addresses);
            u32::try_from(ENTRY_BYTES + name.len() + addresses).unwrap_or(u32::MAX)
        };
        Answers(Cache::builder().max_capacity(bytes).weigher(weigh).build())
    }

    /// A name's addresses (there may be none), if what was said of it still holds.
    pub fn get(&self, name: &str, now: Instant) -> Option<Arc<[IpAddr]>> {
        self.0.get(name).filter(|kept| kept.until > now).map(|kept| kept.addresses)
    }

    /// Keeps what was said of a name until then. It may be forgotten sooner.
    pub fn keep(&self, name: &str, addresses: Arc<[IpAddr]>, until: Instant) {
        self.0.insert(name.into(), Kept { addresses, until });
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::time::Duration;

    use super::super::now;
    use super::*;

    fn addresses(count: u32) -> Arc<[IpAddr]> {
        (0..count).map(|n| IpAddr::from(Ipv4Addr::from(n))).collect()
    }

    #[test]
    fn an_answer_holds_until_its_time() {
        let (answers, now) = (Answers::default(), now().into_std());
        answers.keep("a.test.", addresses(2), now + Duration::from_secs(1));
        answers.keep("none.test.", addresses(0), now + Duration::from_secs(1));
        assert_eq!(answers.get("a.test.", now), Some(addresses(2)));
        assert_eq!(answers.get("none.test.", now), Some(addresses(0)));
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
}
