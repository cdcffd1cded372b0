//! Spellings of addresses that must not be reached, and of some that may.

use std::net::{Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::*;

/// Addresses that are not public, in spellings with which such guards have been bypassed.
const PRIVATE: [&str; 92] = [
    // Loopback, in the spellings that IPv4 parsers accept.
    "http://127.0.0.1/",
    "http://127.0.0.1:8080/x?y#z",
    "http://127.1/",
    "http://127.0.1/",
    "http://127.255.255.254/",
    "http://2130706433/",
    "http://0x7f000001/",
    "http://0x7f.0x0.0x0.0x1/",
    "http://0X7F.1/",
    "http://0177.0.0.1/",
    "http://0177.0.0.01/",
    "http://017700000001/",
    "http://0x7f.0.0.01/",
    "http://127.0.0.1./",
    "http://127.1./",
    "http://2130706433./",
    "http://127.0x1/",
    "http://127.00000000000.0.1/",
    "http:127.0.0.1",
    "http:/127.0.0.1/",
    "http:///127.0.0.1/",
    "http:\\\\127.0.0.1\\",
    "https://127.0.0.1:443/",
    "HTTP://127.0.0.1/",
    " http://127.0.0.1/ ",
    "ht\ntp://127.0.\t0.1/",
    // Percent-encoding, and digits of other scripts and widths.
    "http://%31%32%37%2e%30%2e%30%2e%31/",
    "http://127%2E0%2E0%2E1/",
    "http://%30%78%37%66.1/",
    "http://１２７.０.０.１/",
    "http://127。0。0。1/",
    "http://127．0．0．1/",
    "http://127｡0｡0｡1/",
    "http://①②⑦.⓪.⓪.①/",
    "http://⑫7.0.0.1/",
    "http://𝟏𝟐𝟕.𝟎.𝟎.𝟏/",
    "http://0x⑦f.1/",
    "http://127.0.0.1\u{ad}/",
    // Private, link-local, shared and other special IPv4 addresses.
    "http://10.0.0.1/",
    "http://10.255.255.255/",
    "http://0xa.1/",
    "http://167772161/",
    "http://012.0.0.1/",
    "http://172.16.0.1/",
    "http://172.31.255.255/",
    "http://0xac100001/",
    "http://192.168.0.1/",
    "http://192.168.1/",
    "http://3232235777/",
    "http://0300.0250.1.1/",
    "http://169.254.0.1/",
    "http://169.254.169.254/latest/meta-data/",
    "http://0xa9fea9fe/",
    "http://2852039166/",
    "http://0251.0376.0251.0376/",
    "http://169.254.43518/",
    "http://169.254.170.2/v2/credentials",
    "http://100.64.0.1/",
    "http://100.127.255.255/",
    "http://100.100.100.200/",
    "http://168.63.129.16/",
    "http://0.0.0.0/",
    "http://0/",
    "http://0.1.2.3/",
    "http://192.0.0.192/",
    "http://192.0.2.1/",
    "http://192.88.99.1/",
    "http://198.18.0.1/",
    "http://198.19.255.255/",
    "http://198.51.100.7/",
    "http://203.0.113.9/",
    "http://224.0.0.1/",
    "http://239.255.255.250/",
    "http://240.0.0.1/",
    "http://255.255.255.255/",
    "http://4294967295/",
    // IPv6, and IPv4 embedded in it.
    "http://[::]/",
    "http://[::1]/",
    "http://[0:0:0:0:0:0:0:1]:80/",
    "http://[::127.0.0.1]/",
    "http://[::ffff:127.0.0.1]/",
    "http://[::ffff:7f00:1]/",
    "http://[::ffff:169.254.169.254]/",
    "http://[::ffff:8.8.8.8]/",
    "http://[64:ff9b::7f00:1]/",
    "http://[64:ff9b::169.254.169.254]/",
    "http://[64:ff9b:1::10.0.0.1]/",
    "http://[2002:7f00:1::]/",
    "http://[2001:0:53aa:64c::1]/",
    "http://[fd00:ec2::254]/",
    "http://[fe80::1]/",
    "http://[fec0::1]/",
];

/// Further IPv6 addresses that are not public.
const PRIVATE_V6: [&str; 12] = [
    "http://[fc00::1]/",
    "http://[fdff:ffff::1]/",
    "http://[febf::1]/",
    "http://[ff02::1]/",
    "http://[2001:db8::1]/",
    "http://[3fff::1]/",
    "http://[2001:2::1]/",
    "http://[2001:10::1]/",
    "http://[100::1]/",
    "http://[5f00::1]/",
    "http://[4000::1]/",
    "http://[0:0:0:0:ffff:0:127.0.0.1]/",
];

fn check(text: &str) -> Result<AllowedAddresses, BlockedAddress> {
    Guard::default().check(&Url::parse(text).unwrap())
}

#[test]
fn no_spelling_of_a_non_public_address_is_allowed() {
    for text in PRIVATE.into_iter().chain(PRIVATE_V6) {
        // An invalid URL is refused before its address is checked.
        let Ok(url) = Url::parse(text) else {
            panic!("{text}: no URL, so it belongs into another test")
        };
        let refused = Guard::default().check(&url).unwrap_err();
        assert!(
            matches!(refused, BlockedAddress::Literal { .. }),
            "{text}: {refused}"
        );
    }
}

#[test]
fn public_addresses_and_all_names_pass_the_url_check() {
    for text in [
        "http://8.8.8.8/",
        "http://100.63.255.255/",
        "http://100.128.0.1/",
        "http://172.15.255.255/",
        "http://172.32.0.1/",
        "http://192.167.0.1/",
        "http://223.255.255.255/",
        "http://[2606:4700:4700::1111]/",
        "http://[2a00:1450:4001:81b::200e]:8080/",
        "https://docs.rs/serde",
        "https://xn--mnchen-3ya.example/",
        // A name, whatever it looks like: the resolver checks where it leads.
        "http://localhost/",
        "http://127.0.0.1.nip.example/",
        "http://metadata.google.internal/",
    ] {
        assert_eq!(check(text), Ok(AllowedAddresses::PublicOnly), "{text}");
    }
}

#[test]
fn other_schemes_and_user_info_are_refused() {
    for text in [
        "file:///etc/passwd",
        "ftp://example.org/",
        "gopher://example.org/",
        "data:text/html,x",
        "javascript:alert(1)",
        "ws://example.org/",
        "view-source:http://example.org/",
        "unix:/run/docker.sock",
    ] {
        let refused = check(text).unwrap_err();
        assert!(matches!(refused, BlockedAddress::Scheme { .. }), "{text}");
    }
    for text in [
        "http://user@example.org/",
        "http://user:secret@example.org/",
        "http://:secret@example.org/",
        "http://example.org@127.0.0.1/",
        "http://127.0.0.1@example.org/",
        "http://example.org%40127.0.0.1@example.org/",
    ] {
        let refused = check(text).unwrap_err();
        assert_eq!(refused, BlockedAddress::UserInfo, "{text}");
        assert!(!refused.to_string().contains("secret"));
    }
}

#[test]
fn an_allowed_host_is_reachable_only_at_its_port() {
    let allowed = ["127.0.0.1:8080", "wiki.corp.example:443", "[::1]:81"];
    let guard = Guard::new(&allowed.map(|text| text.parse().unwrap()));
    let check = |text: &str| guard.check(&Url::parse(text).unwrap());
    for text in [
        "http://127.0.0.1:8080/x",
        "http://2130706433:8080/",
        "https://wiki.corp.example/",
        "https://WIKI.corp.example./",
        "http://wiki.corp.example:443/",
        "http://[0::1]:81/",
    ] {
        assert_eq!(check(text), Ok(AllowedAddresses::Any), "{text}");
    }
    for text in [
        "http://127.0.0.1:8081/",
        "http://127.0.0.1/",
        "http://[::1]/",
    ] {
        assert!(check(text).is_err(), "{text}");
    }
    for text in [
        "http://wiki.corp.example/",
        "https://wiki.corp.example.org/",
    ] {
        assert_eq!(check(text), Ok(AllowedAddresses::PublicOnly), "{text}");
    }
    assert_eq!(
        check("http://user@127.0.0.1:8080/"),
        Err(BlockedAddress::UserInfo)
    );
}

#[test]
fn a_connection_to_a_non_public_peer_is_refused() {
    let url = Url::parse("http://example.org/").unwrap();
    let peer = |text: &str| Some(text.parse().unwrap());
    assert!(
        Guard::check_peer(AllowedAddresses::PublicOnly, &url, peer("93.184.215.14:80")).is_ok()
    );
    assert!(Guard::check_peer(AllowedAddresses::Any, &url, peer("127.0.0.1:80")).is_ok());
    for led in [
        peer("127.0.0.1:80"),
        peer("[::1]:80"),
        peer("[::ffff:10.0.0.1]:80"),
        None,
    ] {
        assert!(Guard::check_peer(AllowedAddresses::PublicOnly, &url, led).is_err());
    }
}

/// The standard library's notion of addresses that are not public, as a second opinion on the table.
fn is_private(address: Ipv4Addr) -> bool {
    address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_broadcast()
        || address.is_documentation()
        || address.is_multicast()
        || address.is_unspecified()
}

/// Generates an IPv4 address that is not public.
fn private() -> impl Strategy<Value = Ipv4Addr> {
    let within = |first: [u8; 4], bits: u32| {
        let mask = u32::MAX >> bits;
        let first = Ipv4Addr::from(first).to_bits();
        any::<u32>().prop_map(move |rest| Ipv4Addr::from_bits(first | (rest & mask)))
    };
    prop_oneof![
        within([10, 0, 0, 0], 8),
        within([127, 0, 0, 0], 8),
        within([172, 16, 0, 0], 12),
        within([192, 168, 0, 0], 16),
        within([169, 254, 0, 0], 16),
        within([100, 64, 0, 0], 10),
        within([224, 0, 0, 0], 4),
        within([0, 0, 0, 0], 8),
    ]
}

/// Writes one part of an address in the given base.
fn part(number: u32, style: u8) -> String {
    match style % 4 {
        0 => format!("0x{number:x}"),
        1 => format!("0{number:o}"),
        2 => format!("0X{number:08X}"),
        _ => number.to_string(),
    }
}

/// Writes an address in one of the forms that a URL can contain.
fn spelled(address: Ipv4Addr, styles: [u8; 4], form: u8) -> String {
    let [a, b, c, d] = address.octets().map(u32::from);
    let [s, t, u, v] = styles;
    let v6 = |prefix: &str| format!("[{prefix}{:x}:{:x}]", a << 8 | b, c << 8 | d);
    match form % 10 {
        0 => format!(
            "{}.{}.{}.{}",
            part(a, s),
            part(b, t),
            part(c, u),
            part(d, v)
        ),
        1 => format!("{}.{}.{}", part(a, s), part(b, t), part(c << 8 | d, u)),
        2 => format!("{}.{}", part(a, s), part(b << 16 | c << 8 | d, t)),
        3 => part(address.to_bits(), s),
        4 => format!("{address}."),
        5 => {
            let coded = |byte: u8| format!("%{byte:02x}");
            address.to_string().bytes().map(coded).collect()
        }
        6 => {
            let wide = |digit: char| match digit.to_digit(10) {
                Some(digit) => char::from_u32(0xff10 + digit).unwrap(),
                None => '。',
            };
            address.to_string().chars().map(wide).collect()
        }
        7 => v6("::ffff:"),
        8 => v6("64:ff9b::"),
        _ => v6("::"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn no_url_with_a_private_address_passes_in_any_spelling(
        address in private(),
        styles in any::<[u8; 4]>(),
        form in any::<u8>(),
        port in proptest::option::of(any::<u16>()),
    ) {
        let host = spelled(address, styles, form);
        let port = port.map(|port| format!(":{port}")).unwrap_or_default();
        let text = format!("http://{host}{port}/");
        let url = Url::parse(&text).unwrap();
        prop_assert!(Guard::default().check(&url).is_err(), "{}", text);
    }

    #[test]
    fn no_parsable_text_with_a_private_address_passes(text in "(https?:)?/{0,3}[0-9a-fxA-F.:\\[\\]%@。１/\\\\]{0,40}") {
        let Ok(url) = Url::parse(&text) else { return Ok(()) };
        let is_ours = match url.host() {
            Some(Host::Ipv4(address)) => is_private(address),
            Some(Host::Ipv6(address)) => {
                let carried = address.to_ipv4().is_some();
                carried || address.is_loopback() || address.is_multicast() || address.is_unique_local()
                    || address.is_unicast_link_local() || address == Ipv6Addr::UNSPECIFIED
            }
            _ => false,
        };
        let passed = Guard::default().check(&url).is_ok();
        prop_assert!(!(is_ours && passed), "{}", text);
    }
}
