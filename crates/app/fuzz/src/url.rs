//! URLs: whatever a model or a redirect contains, no URL passes whose host is an address that is not public, and a host
//! that the operator allows does not open another one.

use std::net::{Ipv4Addr, Ipv6Addr};

use ::url::{Host, Url};
use neuraxis_web::{AllowedHost, WebConfig};

/// Checks a text as a URL, as the target of a redirect, and as the name of an allowed host.
pub fn url(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let guard = WebConfig::default();
    let page = Url::parse("https://example.org/a/b?c=d").unwrap();
    for url in [Url::parse(text.trim()), page.join(&text)]
        .into_iter()
        .flatten()
    {
        if guard.check(url.as_str()).is_ok() {
            assert_public(&url);
        }
    }
    let is_url = Url::parse(text.trim());
    if guard.check(&text).is_ok() {
        assert_public(&is_url.unwrap());
    }
    if let Ok(allowed) = text.parse::<AllowedHost>() {
        let again = allowed.to_string().parse();
        assert_eq!(again.as_ref(), Ok(&allowed), "{allowed}");
        let mut config = WebConfig::default();
        config.allow_hosts = vec![allowed.clone()];
        for other in ["127.0.0.1:65000", "[::1]:65000"] {
            let is_other = other.parse() != Ok(allowed.clone());
            let opens = config.check(&format!("http://{other}/")).is_ok();
            assert!(!(is_other && opens), "{allowed} opens {other}");
        }
    }
}

/// Checks a URL that passed against the standard library's knowledge of addresses, independently of the guard's table.
fn assert_public(url: &Url) {
    assert!(matches!(url.scheme(), "http" | "https"), "{url}");
    assert!(
        url.username().is_empty() && url.password().is_none(),
        "{url}"
    );
    let is_public = match url.host().unwrap() {
        // The address is checked once the name is resolved. A name that ends in a number could be read as an address.
        Host::Domain(name) => !ends_in_number(name),
        Host::Ipv4(address) => is_public_v4(address),
        Host::Ipv6(address) => is_public_v6(address),
    };
    assert!(is_public, "{url} passes");
}

fn ends_in_number(name: &str) -> bool {
    let last = name.trim_end_matches('.').rsplit('.').next();
    last.is_some_and(|last| !last.is_empty() && last.bytes().all(|byte| byte.is_ascii_digit()))
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, ..] = address.octets();
    let is_special = address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_broadcast()
        || address.is_documentation()
        || address.is_multicast()
        || address.is_unspecified();
    let is_shared = a == 100 && (64..128).contains(&b);
    !is_special && !is_shared && a != 0 && a < 240
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let [first, second, ..] = address.segments();
    let carries_v4 =
        address.to_ipv4().is_some() || first == 0x2002 || (first, second) == (0x2001, 0);
    let is_documentation = (first, second) == (0x2001, 0xdb8);
    first & 0xe000 == 0x2000 && !carries_v4 && !is_documentation
}
