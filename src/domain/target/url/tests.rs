use proptest::prelude::*;

use super::*;

fn parse(text: &str) -> TargetUrl {
    TargetUrl::parse(text, false).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// C78: what is sent is what was written, minus the fragment.
#[test]
fn the_request_target_is_byte_equal() {
    let check = |text: &str, target: &str| {
        assert_eq!(parse(text).request_target(), target);
        assert_eq!(parse(text).as_str(), text);
    };
    check("https://r.test/a%2Fb/../c//?x=1%3A2&x=3&sig=a+b%2B&e=#frag", "/a%2Fb/../c//?x=1%3A2&x=3&sig=a+b%2B&e=");
    check("https://r.test", "/");
    check("https://r.test/", "/");
    check("https://r.test#frag", "/");
    check("https://r.test?x=1", "/?x=1");
    check("https://r.test?", "/?");
    check("https://r.test/./a/%2e%2E/b?a/b?c=%e9", "/./a/%2e%2E/b?a/b?c=%e9");
    check("http://r.test/a:b@c;d=(e)!$'*,~?@:/", "/a:b@c;d=(e)!$'*,~?@:/");
    check("https://bücher.test/a#é{}", "/a");
}

#[test]
fn what_cannot_be_sent_as_written_is_refused() {
    for rest in ["{}", "a|b", "a[0]", "é", "a\"b", "<a>", "a^b", "a`b", "%", "%2", "%zz", "a%é", "?x={}", "?é"] {
        let error = TargetUrl::parse(&format!("https://r.test/{rest}"), false).unwrap_err();
        assert!(error.contains("percent-encoded"), "{rest}: {error}");
    }
}

/// C28.
#[test]
fn nothing_that_two_parsers_could_read_differently() {
    let check = |text: &str, wrong: &str| {
        let error = TargetUrl::parse(text, false).unwrap_err();
        assert!(error.contains(wrong), "{text:?}: {error}");
    };
    check("http://ok.test\\@127.0.0.1/", "backslash");
    check("http:\\\\ok.test", "backslash");
    check("http://127.0.0.1@ok.test/", "user name");
    check("http://user:pw@ok.test/", "user name");
    check("http://@ok.test/", "user name");
    check("http://user%40ok.test@127.0.0.1/", "user name");
    check("http:///127.0.0.1/", "host");
    check("http://", "host");
    check("http://:80/", "host");
    check("http://?x", "host");
    check("http:ok.test", "begin with");
    check("http:/ok.test", "begin with");
    check("ftp://ok.test/", "begin with");
    check("//ok.test/", "begin with");
    check("ok.test", "begin with");
    check("", "begin with");
    check("javascript:alert(1)//http://ok.test", "begin with");
    for bad in [
        "http://ok.test/\t",
        "http://ok\n.test/",
        "\rhttp://ok.test/",
        " http://ok.test/",
        "http://ok.test/ ",
        "http://ok.test/\0",
        "http://ok.test/\u{7f}",
        "http://ok.test/\u{a0}",
        "http://ok.test/\u{2028}",
        "http://ok.test/\u{85}",
    ] {
        check(bad, "control characters");
    }
    for port in ["0", "00", "65536", "99999", "-1", "+80", "", "80a", "8 0", "８０", "80:80", "99999999999999999999"]
    {
        assert!(TargetUrl::parse(&format!("http://ok.test:{port}/"), false).is_err(), "{port:?}");
    }
    for host in [
        "[::1",
        "::1",
        "[::1]x",
        "[fe80::1%25eth0]",
        "[]",
        "a..b",
        ".a",
        ".",
        "*.test",
        "a!b",
        "ok.test%2f",
        "127%2e0.0.1",
        "1.2.3.4.5",
        "256.1.1.1",
        "0x1ffffffff",
        "a,b",
        "<a>",
        "xn--",
        &"a".repeat(64),
        &"a.".repeat(130),
        "a]",
        "[::1]]",
    ] {
        check(&format!("http://{host}/"), "The URL's");
    }
    check(&format!("http://ok.test/{}", "a".repeat(8_000)), "2048");

    // These are no trouble: the fragment never leaves, and schemes have no case.
    assert_eq!(*parse("http://ok.test#@127.0.0.1/").host(), Host::Name("ok.test".into()));
    assert_eq!(parse("HTTP://OK.test/").scheme(), Scheme::Http);
    assert_eq!(parse("http://ok.test/@127.0.0.1").request_target(), "/@127.0.0.1");
    assert_eq!(parse(&format!("https://ok.test/{}", "a".repeat(2_032))).as_str().len(), MAX_URL_BYTES);
}

#[test]
fn https_only_refuses_http() {
    assert!(TargetUrl::parse("http://r.test/", true).is_err());
    assert!(TargetUrl::parse("HTTPS://r.test/", true).is_ok());
}

/// C27: numeric spellings are addresses, and are judged as such.
#[test]
fn numeric_hosts_are_addresses() {
    let check = |host: &str, ip: &str| {
        assert_eq!(*parse(&format!("http://{host}/")).host(), Host::Ip(ip.parse().unwrap()), "{host}");
    };
    for host in [
        "2130706433",
        "0x7f000001",
        "0177.0.0.1",
        "127.1",
        "017700000001",
        "0x7f.1",
        "127.0.0.1",
        "127.0.0.1.",
        "①②⑦.0.0.1",
        "１２７.0.0.1",
        "127。0。0。1",
    ] {
        check(host, "127.0.0.1");
    }
    check("0", "0.0.0.0");
    check("[::ffff:7f00:1]", "::ffff:127.0.0.1");
    check("[0:0:0:0:0:ffff:a9fe:a9fe]", "::ffff:169.254.169.254");
    check("[2001:DB8::0:1]", "2001:db8::1");
    // Names, whatever they resolve to.
    for name in ["localhost.", "127.0.0.1.nip.test", "0x7f.test"] {
        assert_eq!(*parse(&format!("http://{name}/")).host(), Host::Name(name.into()));
    }
}

/// C16, C17, C22.
#[test]
fn host_header_port_and_tls_name() {
    let check = |text: &str, header: &str, port: u16, tls: &str| {
        let url = parse(text);
        assert_eq!((url.host_header().as_str(), url.port(), url.tls_name().as_str()), (header, port, tls), "{text}");
    };
    check("https://r.test/", "r.test", 443, "r.test");
    check("https://r.test:443/", "r.test", 443, "r.test");
    check("https://r.test:80/", "r.test:80", 80, "r.test");
    check("http://r.test:443/", "r.test:443", 443, "r.test");
    check("http://r.test:080/", "r.test", 80, "r.test");
    check("http://R.Test:8080", "r.test:8080", 8080, "r.test");
    check("http://[::1]:8080/", "[::1]:8080", 8080, "::1");
    check("https://[2001:db8:0::1]", "[2001:db8::1]", 443, "2001:db8::1");
    check("https://127.0.0.1:9/", "127.0.0.1:9", 9, "127.0.0.1");
    check("https://r.test./h", "r.test.", 443, "r.test");
    check("https://bücher.test/", "xn--bcher-kva.test", 443, "xn--bcher-kva.test");
    check("http://my_host-1/", "my_host-1", 80, "my_host-1");
}

#[test]
fn origins_compare_what_is_called() {
    let same = |one: &str, other: &str| parse(one).origin() == parse(other).origin();
    assert!(same("https://R.test/a", "HTTPS://r.test:443?b"));
    assert!(same("https://r.test./a", "https://r.test/a"));
    assert!(same("http://127.1/", "http://127.0.0.1/"));
    assert!(!same("https://r.test/", "http://r.test/"));
    assert!(!same("https://r.test/", "https://r.test:444/"));
    assert!(!same("https://r.test/", "https://s.test/"));
}

/// C89.
#[test]
fn debug_hides_path_and_query() {
    assert_eq!(format!("{:?}", parse("https://r.test:1/hunter2?hunter2#hunter2")), "https://r.test:1/…");
    assert!(!TargetUrl::parse("https://hunter2:hunter2@r.test", false).unwrap_err().contains("hunter2"));
}

proptest! {
    #[test]
    fn no_text_panics(text in "((https?|HTTP)://)?([a-z]{0,5}|[0-9]{1,3}|[\\[\\].:@/?#%\\\\]|é|0x7f|①|\\PC)*") {
        if let Ok(url) = TargetUrl::parse(&text, false) {
            let _ = (url.host_header(), url.tls_name(), url.origin());
            // What was accepted is a request line's target, and the URL as a whole reads the same to the `url` crate.
            prop_assert!(url.request_target().starts_with('/'));
            prop_assert!(url.request_target().bytes().all(|byte| byte.is_ascii_graphic()));
            let whatwg = ::url::Url::parse(&text).unwrap();
            let host = match whatwg.host().unwrap().to_owned() {
                ::url::Host::Domain(name) => Host::Name(name),
                ::url::Host::Ipv4(ip) => Host::Ip(ip.into()),
                ::url::Host::Ipv6(ip) => Host::Ip(ip.into()),
            };
            prop_assert_eq!(url.host(), &host);
            prop_assert_eq!(whatwg.port_or_known_default(), Some(url.port()));
            prop_assert_eq!(TargetUrl::parse(url.as_str(), false).unwrap(), url);
        }
    }
}
