//! Which addresses may be called (C24–C30). Judged is the address that is about to be dialled, on every connection.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use super::url::{Host, TargetUrl};
use crate::domain::words::words;

words! {
    /// Why an address is not called unless it is allowed. For the operator's log: owners only ever see
    /// `blocked_address` (C29).
    pub enum BlockReason {
        /// 0.0.0.0, `::`: systems dial themselves for it.
        Unspecified = "unspecified",
        Loopback = "loopback",
        /// RFC 1918, and unique local IPv6 addresses (RFC 4193).
        Private = "private",
        /// 169.254.0.0/16, fe80::/10.
        LinkLocal = "link_local",
        /// 100.64.0.0/10, between a carrier and its customers (RFC 6598).
        Shared = "shared",
        Documentation = "documentation",
        Benchmarking = "benchmarking",
        Multicast = "multicast",
        Broadcast = "broadcast",
        /// A cloud's metadata service, which hands out credentials to whoever asks.
        Metadata = "metadata",
        /// Everything else that is not the public internet.
        Reserved = "reserved",
    }
}

/// What is thought of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Allowed,
    Blocked(BlockReason),
}

impl Verdict {
    pub fn is_allowed(self) -> bool {
        self == Verdict::Allowed
    }
}

/// The public internet, and what the operator allows besides (`--allow-target`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressPolicy {
    allow: Vec<IpNet>,
}

impl AddressPolicy {
    /// Entries for IPv4 count for the IPv4-mapped form too, and the other way round: either dials the same machine.
    pub fn new(allow: impl IntoIterator<Item = IpNet>) -> AddressPolicy {
        AddressPolicy { allow: allow.into_iter().map(|entry| unmapped(entry.trunc())).collect() }
    }

    /// Reads an entry: a network such as `10.1.0.0/16`, or one address. The error is a sentence.
    pub fn parse_entry(text: &str) -> Result<IpNet, String> {
        let entry = match text.contains('/') {
            true => text.parse().ok(),
            false => text.parse::<IpAddr>().ok().map(IpNet::from),
        };
        entry.ok_or_else(|| "An allowed target is a network such as 10.1.0.0/16 or fd00::/8, or one IP address.".into())
    }

    /// Judges the address that is about to be dialled.
    ///
    /// An address that is not public, or that carries such an IPv4 address inside (6to4, Teredo, NAT64, ISATAP, …), may
    /// be dialled only if an entry covers it as it is dialled. Addresses in [`METADATA`] moreover need an entry that
    /// lies within the range given there, that is, one that was written for them: `0.0.0.0/0` does not open
    /// 169.254.169.254, `169.254.0.0/16` does (C30). One that carries a metadata address inside needs an entry for
    /// itself alone.
    pub fn judge(&self, dialled: IpAddr) -> Verdict {
        // An IPv4-mapped address is an IPv4 address to every socket (C26).
        let dialled = dialled.to_canonical();
        let Some(reason) = reason_to_block(dialled) else {
            return Verdict::Allowed;
        };
        let named_within = METADATA.iter().find(|range| range.contains(&dialled)).copied();
        let named_within = match (named_within, reason) {
            (None, BlockReason::Metadata) => Some(IpNet::from(dialled)),
            (range, _) => range,
        };
        let allows = |entry: &IpNet| entry.contains(&dialled) && named_within.is_none_or(|range| range.contains(entry));
        match self.allow.iter().any(allows) {
            true => Verdict::Allowed,
            false => Verdict::Blocked(reason),
        }
    }

    /// Judges what can be judged of a URL before anything is resolved: addresses in whatever spelling. Names are
    /// allowed here and judged by what they resolve to, at each dial.
    pub fn judge_literal(&self, url: &TargetUrl) -> Verdict {
        match url.host() {
            Host::Ip(ip) => self.judge(*ip),
            Host::Name(_) => Verdict::Allowed,
        }
    }
}

/// An IPv4-mapped network (`::ffff:10.0.0.0/104`) as the IPv4 network it is.
fn unmapped(entry: IpNet) -> IpNet {
    let IpNet::V6(net) = entry else { return entry };
    match (net.addr().to_ipv4_mapped(), net.prefix_len().checked_sub(96)) {
        (Some(ip), Some(length)) => Ipv4Net::new_assert(ip, length).into(),
        _ => entry,
    }
}

const fn v4(a: u8, b: u8, c: u8, d: u8, length: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), length)
}

const fn v6(start: [u16; 4], end: [u16; 4], length: u8) -> Ipv6Net {
    let ([a, b, c, d], [e, f, g, h]) = (start, end);
    Ipv6Net::new_assert(Ipv6Addr::new(a, b, c, d, e, f, g, h), length)
}

/// Where metadata services live, and how precisely an entry must name them: all link-local IPv4 addresses (most clouds
/// use 169.254.169.254; ECS, EKS, Tencent and Scaleway others in it) and Amazon's IPv6 range; single addresses of
/// Alibaba, Oracle, Azure's host agent, OpenStack, Google and Scaleway.
const METADATA: [IpNet; 8] = [
    IpNet::V4(v4(169, 254, 0, 0, 16)),
    IpNet::V6(v6([0xfd00, 0x0ec2, 0, 0], [0, 0, 0, 0], 32)),
    IpNet::V4(v4(100, 100, 100, 200, 32)),
    IpNet::V4(v4(192, 0, 0, 192, 32)),
    IpNet::V4(v4(168, 63, 129, 16, 32)),
    IpNet::V6(v6([0xfe80, 0, 0, 0], [0, 0, 0xa9fe, 0xa9fe], 128)),
    IpNet::V6(v6([0xfd20, 0x00ce, 0, 0], [0, 0, 0, 0x0254], 128)),
    IpNet::V6(v6([0xfd00, 0x0042, 0, 0], [0, 0, 0, 0x0042], 128)),
];

/// The IPv4 networks that are not the public internet (IANA IPv4 Special-Purpose Address Registry); first match.
const V4: [(Ipv4Net, BlockReason); 18] = [
    (v4(0, 0, 0, 0, 32), BlockReason::Unspecified),
    (v4(0, 0, 0, 0, 8), BlockReason::Reserved),
    (v4(10, 0, 0, 0, 8), BlockReason::Private),
    (v4(100, 64, 0, 0, 10), BlockReason::Shared),
    (v4(127, 0, 0, 0, 8), BlockReason::Loopback),
    (v4(169, 254, 0, 0, 16), BlockReason::LinkLocal),
    (v4(172, 16, 0, 0, 12), BlockReason::Private),
    // IETF protocol assignments; the two addresses in it that are routed are no receivers.
    (v4(192, 0, 0, 0, 24), BlockReason::Reserved),
    (v4(192, 0, 2, 0, 24), BlockReason::Documentation),
    // The former 6to4 relays (RFC 7526).
    (v4(192, 88, 99, 0, 24), BlockReason::Reserved),
    (v4(192, 168, 0, 0, 16), BlockReason::Private),
    (v4(198, 18, 0, 0, 15), BlockReason::Benchmarking),
    (v4(198, 51, 100, 0, 24), BlockReason::Documentation),
    (v4(203, 0, 113, 0, 24), BlockReason::Documentation),
    (v4(233, 252, 0, 0, 24), BlockReason::Documentation),
    (v4(224, 0, 0, 0, 4), BlockReason::Multicast),
    (v4(255, 255, 255, 255, 32), BlockReason::Broadcast),
    (v4(240, 0, 0, 0, 4), BlockReason::Reserved),
];

/// The same for IPv6 (IANA IPv6 Special-Purpose Address Registry), as far as it lies within 2000::/3 or has a name of
/// its own; what remains outside of 2000::/3 is reserved.
const V6: [(Ipv6Net, BlockReason); 11] = [
    (v6([0; 4], [0; 4], 128), BlockReason::Unspecified),
    (v6([0; 4], [0, 0, 0, 1], 128), BlockReason::Loopback),
    (v6([0xfc00, 0, 0, 0], [0; 4], 7), BlockReason::Private),
    // Site-local, deprecated by RFC 3879 and still private.
    (v6([0xfec0, 0, 0, 0], [0; 4], 10), BlockReason::Private),
    (v6([0xfe80, 0, 0, 0], [0; 4], 10), BlockReason::LinkLocal),
    (v6([0xff00, 0, 0, 0], [0; 4], 8), BlockReason::Multicast),
    (v6([0x2001, 0x0002, 0, 0], [0; 4], 48), BlockReason::Benchmarking),
    (v6([0x2001, 0x0db8, 0, 0], [0; 4], 32), BlockReason::Documentation),
    (v6([0x3fff, 0, 0, 0], [0; 4], 20), BlockReason::Documentation),
    (v6([0x0100, 0, 0, 0], [0; 4], 64), BlockReason::Reserved),
    // Local NAT64 (RFC 8215), whatever is inside.
    (v6([0x0064, 0xff9b, 1, 0], [0; 4], 48), BlockReason::Reserved),
];

/// Outside of it nothing is public but [`NAT64`].
const GLOBAL: Ipv6Net = v6([0x2000, 0, 0, 0], [0; 4], 3);
/// IETF protocol assignments: not public, but for Teredo, which is judged by the IPv4 addresses inside.
const ASSIGNMENTS: Ipv6Net = v6([0x2001, 0, 0, 0], [0; 4], 23);
const TEREDO: Ipv6Net = v6([0x2001, 0, 0, 0], [0; 4], 32);
const NAT64: Ipv6Net = v6([0x0064, 0xff9b, 0, 0], [0; 4], 96);

/// Why an address, or one that it carries inside, is not public. Metadata inside comes before all else.
fn reason_to_block(address: IpAddr) -> Option<BlockReason> {
    if METADATA.iter().any(|range| range.contains(&address)) && !is_plain_link_local(address) {
        return Some(BlockReason::Metadata);
    }
    let address = match address {
        IpAddr::V4(address) => return first_match(&V4, |net| net.contains(&address)),
        IpAddr::V6(address) => address,
    };
    let inside: Vec<_> = embedded(address).into_iter().filter_map(|ip| reason_to_block(ip.into())).collect();
    if inside.contains(&BlockReason::Metadata) {
        return Some(BlockReason::Metadata);
    }
    first_match(&V6, |net| net.contains(&address)).or_else(|| inside.first().copied()).or_else(|| {
        let public = GLOBAL.contains(&address) && (!ASSIGNMENTS.contains(&address) || TEREDO.contains(&address));
        (!public && !NAT64.contains(&address)).then_some(BlockReason::Reserved)
    })
}

/// Link-local IPv4 addresses other than those of metadata services; the rule for entries is the same, the reason is
/// not.
fn is_plain_link_local(address: IpAddr) -> bool {
    const SERVICES: [[u8; 2]; 5] = [[169, 254], [170, 2], [170, 23], [0, 23], [42, 42]];
    match address {
        IpAddr::V4(address) => {
            let [a, b, c, d] = address.octets();
            [a, b] == [169, 254] && !SERVICES.contains(&[c, d])
        }
        IpAddr::V6(_) => false,
    }
}

fn first_match<N>(table: &[(N, BlockReason)], covers: impl Fn(&N) -> bool) -> Option<BlockReason> {
    table.iter().find(|(net, _)| covers(net)).map(|(_, reason)| *reason)
}

/// Every IPv4 address that an IPv6 address may be standing for, in whatever scheme of translation or tunnelling. All
/// candidates: whether a scheme is in use on the way is not ours to know.
fn embedded(address: Ipv6Addr) -> Vec<Ipv4Addr> {
    let parts = address.segments();
    let octets = address.octets();
    let at = |one: usize| Ipv4Addr::new(octets[one], octets[one + 1], octets[one + 2], octets[one + 3]);
    let last = at(12);
    let mut found = match parts {
        // `::` and `::1` have names of their own.
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => vec![],
        // IPv4-compatible (RFC 4291 §2.5.5.1), mapped (§2.5.5.2), translated (RFC 2765).
        [0, 0, 0, 0, 0, 0, _, _] | [0, 0, 0, 0, 0, 0xffff, _, _] | [0, 0, 0, 0, 0xffff, 0, _, _] => vec![last],
        // NAT64 (RFC 6052 §2.1).
        [0x64, 0xff9b, 0, 0, 0, 0, _, _] => vec![last],
        // Local NAT64 (RFC 8215), with prefixes of 48, 56, 64 or 96 bits (RFC 6052 §2.2: bits 64 to 71 are left out).
        [0x64, 0xff9b, 1, ..] => vec![
            Ipv4Addr::new(octets[6], octets[7], octets[9], octets[10]),
            Ipv4Addr::new(octets[7], octets[9], octets[10], octets[11]),
            at(9),
            last,
        ],
        // 6to4 (RFC 3056 §2).
        [0x2002, ..] => vec![at(2)],
        // Teredo (RFC 4380 §4): the server, and the client with its bits inverted.
        [0x2001, 0, ..] => vec![at(4), Ipv4Addr::from(!u32::from(last))],
        _ => vec![],
    };
    // ISATAP (RFC 5214 §6.1), under any prefix, so also behind one of those above.
    if let [_, _, _, _, 0 | 0x0200, 0x5efe, _, _] = parts {
        found.push(last);
    }
    found
}

#[cfg(test)]
mod tests;
