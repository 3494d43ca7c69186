use proptest::prelude::*;

use super::BlockReason::*;
use super::*;

fn policy(allow: &[&str]) -> AddressPolicy {
    AddressPolicy::new(allow.iter().map(|text| AddressPolicy::parse_entry(text).unwrap()))
}

fn judge(allow: &[&str], ip: &str) -> Verdict {
    policy(allow).judge(ip.parse().unwrap())
}

#[test]
fn only_the_public_internet_is_called() {
    let check = |ip: &str, reason: BlockReason| assert_eq!(judge(&[], ip), Verdict::Blocked(reason), "{ip}");
    check("0.0.0.0", Unspecified);
    check("0.1.2.3", Reserved);
    check("10.0.0.1", Private);
    check("100.64.0.1", Shared);
    check("100.127.255.255", Shared);
    check("127.0.0.1", Loopback);
    check("127.255.255.254", Loopback);
    check("169.254.1.1", LinkLocal);
    check("172.16.0.1", Private);
    check("172.31.255.255", Private);
    check("192.0.0.8", Reserved);
    check("192.0.2.1", Documentation);
    check("192.168.1.1", Private);
    check("198.19.255.255", Benchmarking);
    check("198.51.100.1", Documentation);
    check("203.0.113.1", Documentation);
    check("224.0.0.1", Multicast);
    check("239.255.255.255", Multicast);
    check("240.0.0.1", Reserved);
    check("255.255.255.255", Broadcast);
    check("::", Unspecified);
    check("::1", Loopback);
    check("fd12::1", Private);
    check("fe80::1", LinkLocal);
    check("fec0::1", Private);
    check("ff02::1", Multicast);
    check("2001:db8::1", Documentation);
    check("3fff:1::1", Documentation);
    check("2001:2::1", Benchmarking);
    check("2001:20::1", Reserved);
    check("100::1", Reserved);
    check("5f00::1", Reserved);
    check("4000::1", Reserved);
    check("1::1", Reserved);
    for ip in [
        "169.254.169.254",
        "169.254.170.2",
        "100.100.100.200",
        "192.0.0.192",
        "168.63.129.16",
        "fd00:ec2::254",
        "fd00:ec2::23",
        "fd20:ce::254",
        "fe80::a9fe:a9fe",
    ] {
        check(ip, Metadata);
    }
    for ip in [
        "1.1.1.1",
        "9.255.255.255",
        "11.0.0.0",
        "100.63.255.255",
        "100.128.0.0",
        "126.255.255.255",
        "128.0.0.0",
        "169.253.255.255",
        "169.255.0.0",
        "172.15.255.255",
        "172.32.0.0",
        "192.0.1.0",
        "192.167.255.255",
        "192.169.0.0",
        "198.17.255.255",
        "198.20.0.0",
        "223.255.255.255",
        "2606:4700:4700::1111",
        "2001:4860:4860::8888",
        "2001:200::1",
        "2a00::1",
        "3ffe::1",
    ] {
        assert_eq!(judge(&[], ip), Verdict::Allowed, "{ip}");
    }
}

/// C26: an IPv6 address is no way round the rules for the IPv4 address inside it.
#[test]
fn embedded_addresses_are_judged() {
    let check = |ip: &str, reason: BlockReason| assert_eq!(judge(&[], ip), Verdict::Blocked(reason), "{ip}");
    check("::ffff:127.0.0.1", Loopback);
    check("::ffff:7f00:1", Loopback);
    check("::ffff:a9fe:a9fe", Metadata);
    check("::127.0.0.1", Loopback);
    check("::ffff:0:10.0.0.1", Private);
    check("64:ff9b::10.0.0.1", Private);
    check("64:ff9b::169.254.169.254", Metadata);
    check("64:ff9b::100.100.100.200", Metadata);
    check("2002:7f00:1::", Loopback);
    check("2002:a9fe:a9fe::1", Metadata);
    // Teredo: the server, and the client in inverted bits.
    check("2001:0:a00:1::", Private);
    check("2001:0:101:101:0:0:80ff:fffe", Loopback);
    check("2001:0:101:101:0:0:5601:5601", Metadata);
    check("2606:4700::5efe:10.0.0.1", Private);
    check("2606:4700::200:5efe:127.0.0.1", Loopback);
    // One within the other.
    check("2002:101:101::5efe:10.0.0.1", Private);
    check("2002:a00:1::5efe:1.1.1.1", Private);
    // RFC 6052 §2.2 with prefixes of 48, 56, 64 and 96 bits.
    check("64:ff9b:1:a9fe:00a9:fe00::", Metadata);
    check("64:ff9b:1:00a9:fe:a9fe::", Metadata);
    check("64:ff9b:1:0:a9:fea9:fe00:0", Metadata);
    check("64:ff9b:1::169.254.169.254", Metadata);
    // Public inside, but not public itself.
    check("64:ff9b:1::1.1.1.1", Reserved);
    check("::1.1.1.1", Reserved);
    check("fe80::5efe:1.1.1.1", LinkLocal);
    for ip in [
        "::ffff:1.1.1.1",
        "64:ff9b::1.1.1.1",
        "2002:101:101::1",
        "2001:0:101:101:0:0:fefe:fefe",
        "2606:4700::5efe:1.1.1.1",
    ] {
        assert_eq!(judge(&[], ip), Verdict::Allowed, "{ip}");
    }
}

/// C30.
#[test]
fn an_entry_must_cover_the_dialled_address() {
    let check = |allow: &[&str], ip: &str, allowed: bool| {
        assert_eq!(judge(allow, ip).is_allowed(), allowed, "{allow:?} {ip}");
    };
    check(&["10.1.0.0/16"], "10.1.255.255", true);
    check(&["10.1.0.0/16"], "10.2.0.0", false);
    check(&["10.1.2.3/16"], "10.1.0.0", true);
    check(&["10.1.2.3"], "10.1.2.3", true);
    check(&["10.1.2.3"], "10.1.2.4", false);
    check(&["fd00::/8", "127.0.0.0/8"], "fd12::1", true);
    check(&["::1"], "::1", true);
    check(&["::1"], "127.0.0.1", false);
    // IPv4 entries cover the mapped form and mapped entries IPv4; an entry for all of IPv6 covers neither.
    check(&["127.0.0.0/8"], "::ffff:127.0.0.1", true);
    check(&["::ffff:127.0.0.0/104"], "127.0.0.1", true);
    check(&["::ffff:127.0.0.0/104"], "::ffff:127.0.0.1", true);
    check(&["::/0"], "::ffff:127.0.0.1", false);
    check(&["::/0"], "127.0.0.1", false);
    // For every other embedding the address itself must be covered.
    check(&["10.0.0.0/8"], "64:ff9b::10.0.0.1", false);
    check(&["10.0.0.0/8"], "::10.0.0.1", false);
    check(&["64:ff9b::/96"], "64:ff9b::10.0.0.1", true);
    check(&["64:ff9b:1::/48"], "64:ff9b:1::1.1.1.1", true);
    check(&["0.0.0.0/0"], "0.0.0.0", true);
}

/// C30: metadata services stay closed unless they are named.
#[test]
fn metadata_addresses_must_be_named() {
    let check = |allow: &[&str], ip: &str, allowed: bool| {
        assert_eq!(judge(allow, ip).is_allowed(), allowed, "{allow:?} {ip}");
    };
    for ip in ["169.254.169.254", "::ffff:169.254.169.254", "169.254.1.1"] {
        check(&["0.0.0.0/0", "::/0"], ip, false);
        check(&["169.0.0.0/8"], ip, false);
        check(&["169.254.0.0/15"], ip, false);
        check(&["169.254.0.0/16"], ip, true);
    }
    check(&["169.254.169.254"], "169.254.169.254", true);
    check(&["169.254.169.0/24"], "169.254.169.254", true);
    check(&["169.254.169.254"], "169.254.169.253", false);
    check(&["fd00::/8"], "fd00:ec2::254", false);
    check(&["fd00:ec2::/32"], "fd00:ec2::254", true);
    check(&["fd00::/8"], "fd00:ec3::254", true);
    check(&["100.64.0.0/10"], "100.100.100.200", false);
    check(&["100.64.0.0/10"], "100.100.100.201", true);
    check(&["100.100.100.200"], "100.100.100.200", true);
    check(&["64:ff9b::/96"], "64:ff9b::169.254.169.254", false);
    check(&["169.254.169.254"], "64:ff9b::169.254.169.254", false);
    check(&["64:ff9b::169.254.169.254"], "64:ff9b::169.254.169.254", true);
}

/// C27: literals in any spelling at once; names at each dial.
#[test]
fn literals_are_judged_before_anything_is_dialled() {
    let check = |url: &str, allowed: bool| {
        let url = TargetUrl::parse(url, false).unwrap();
        assert_eq!(AddressPolicy::default().judge_literal(&url).is_allowed(), allowed, "{url}");
    };
    for host in [
        "2130706433",
        "0x7f000001",
        "0177.0.0.1",
        "127.1",
        "0",
        "017700000001",
        "0.0.0.0",
        "①②⑦.0.0.1",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[0:0:0:0:0:ffff:a9fe:a9fe]",
        "169.254.169.254",
    ] {
        check(&format!("http://{host}/"), false);
    }
    for host in ["localhost.", "127.0.0.1.nip.test", "1.1.1.1", "[2606:4700::1111]"] {
        check(&format!("http://{host}/"), true);
    }
}

#[test]
fn entries_are_networks_or_addresses() {
    for bad in ["", "hooks.lan", "10.0.0.0/33", "10.0.0/8", "::/129", "10.0.0.0/", "10.0.0.0/-1", "127.1", " ::1"] {
        assert!(AddressPolicy::parse_entry(bad).is_err(), "{bad:?}");
    }
}

proptest! {
    #[test]
    fn no_embedding_of_a_private_address_is_public(last: u32, high: u32, low: u32) {
        // 10.0.0.0/8 stands for all that is blocked.
        let ip = Ipv4Addr::from(0x0a00_0000 | last >> 8);
        let [a, b, c, d] = ip.octets();
        let (one, two) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        let [h1, h2, l1, l2] = [(high >> 16) as u16, high as u16, (low >> 16) as u16, low as u16];
        for parts in [
            [0, 0, 0, 0, 0, 0, one, two],
            [0, 0, 0, 0, 0, 0xffff, one, two],
            [0, 0, 0, 0, 0xffff, 0, one, two],
            [0x64, 0xff9b, 0, 0, 0, 0, one, two],
            [0x64, 0xff9b, 1, h1, h2, l1, one, two],
            [0x2002, one, two, h1, h2, l1, l2, 0],
            [0x2001, 0, one, two, h1, h2, l1, l2],
            [0x2001, 0, h1, h2, l1, l2, !one, !two],
            [h1, h2, l1, l2, 0, 0x5efe, one, two],
            [h1, h2, l1, l2, 0x0200, 0x5efe, one, two],
        ] {
            let ip = Ipv6Addr::from(parts);
            prop_assert!(!AddressPolicy::default().judge(ip.into()).is_allowed(), "{}", ip);
        }
    }

    #[test]
    fn any_address_and_its_mapped_form_are_judged_alike(ip: u32, net: u32, length in 0..=32_u8) {
        let ip = Ipv4Addr::from(ip);
        let policy = AddressPolicy::new([Ipv4Net::new_assert(net.into(), length).into()]);
        prop_assert_eq!(policy.judge(ip.into()), policy.judge(ip.to_ipv6_mapped().into()));
    }

    #[test]
    fn no_address_panics(ip: u128) {
        AddressPolicy::default().judge(Ipv6Addr::from(ip).into());
    }
}
