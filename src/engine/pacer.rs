//! Overdue attempts after a start are let out at a rate, round-robin over endpoints, so that a restart after an outage is
//! no second outage. Pure: the supervisor ticks it.

use std::collections::{HashMap, VecDeque};

use crate::domain::ids::EndpointNo;

/// Permissions per endpoint and round.
const QUANTUM: usize = 4;

/// Who wants to start overdue attempts.
#[derive(Debug, Default)]
pub struct Pacer {
    line: VecDeque<EndpointNo>,
    /// How many each of them still wants.
    wanted: HashMap<EndpointNo, usize>,
    /// Parts of a permission left from the last tick.
    credit: f64,
}

impl Pacer {
    /// An endpoint would start so many; what it wanted before is in that.
    pub fn want(&mut self, endpoint: EndpointNo, attempts: usize) {
        if attempts > 0 && self.wanted.insert(endpoint, attempts).is_none() {
            self.line.push_back(endpoint);
        }
    }

    pub fn is_empty(&self) -> bool {
        self.line.is_empty()
    }

    /// Gives out what `seconds` at `rate` per second allow. Unused permissions are not saved up.
    pub fn tick(&mut self, rate: u32, seconds: f64) -> Vec<(EndpointNo, usize)> {
        self.credit += f64::from(rate) * seconds;
        let mut given = Vec::new();
        while self.credit >= 1.0
            && let Some(endpoint) = self.line.pop_front()
        {
            let wanted = self.wanted.remove(&endpoint).unwrap_or_default();
            let count = wanted.min(QUANTUM).min(self.credit as usize);
            self.credit -= count as f64;
            given.push((endpoint, count));
            self.want(endpoint, wanted - count);
        }
        self.credit = self.credit.min(1.0);
        given
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_go_round() {
        let mut pacer = Pacer::default();
        pacer.want(EndpointNo(1), 500_000);
        pacer.want(EndpointNo(2), 10);
        assert_eq!(pacer.tick(500, 0.01), [(EndpointNo(1), 4), (EndpointNo(2), 1)]);
        assert_eq!(pacer.tick(500, 0.02), [(EndpointNo(1), 4), (EndpointNo(2), 4), (EndpointNo(1), 2)]);
        pacer.want(EndpointNo(1), 3);
        assert_eq!(pacer.tick(500, 10.0), [(EndpointNo(2), 4), (EndpointNo(1), 3), (EndpointNo(2), 1)]);
        assert!(pacer.is_empty());
        pacer.want(EndpointNo(1), 9);
        assert_eq!(pacer.tick(500, 0.0), [(EndpointNo(1), 1)], "nothing is saved up beyond one");
    }
}
