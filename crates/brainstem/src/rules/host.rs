//! Hosts of URLs in arguments.

use url::{Host, Url};

/// A pattern of hosts: one host, `*.` and a host for everything below it, or `*` for all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum HostPattern {
    Any,
    Beneath(String),
    Exactly(String),
}

impl HostPattern {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text == "*" {
            return Ok(Self::Any);
        }
        let is_ipv6 = text.starts_with('[') && text.ends_with(']');
        if text.contains(['/', '@']) || text.contains(':') && !is_ipv6 {
            let why = "write only the host, without scheme, port or path, and an IPv6 address in brackets";
            return Err(why.to_owned());
        }
        let (beneath, host) = match text.strip_prefix("*.") {
            Some(host) => (true, host),
            None => (false, text),
        };
        if host.contains('*') {
            return Err("a * may only stand for everything before the first dot".to_owned());
        }
        let host = Host::parse(host).map_err(|error| error.to_string())?;
        let host = named(&host);
        Ok(if beneath {
            Self::Beneath(host)
        } else {
            Self::Exactly(host)
        })
    }

    pub(crate) fn matches(&self, host: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Exactly(wanted) => wanted == host,
            Self::Beneath(domain) => host
                .strip_suffix(domain.as_str())
                .is_some_and(|front| front.ends_with('.')),
        }
    }
}

/// Returns the host that a URL leads to, as browsers and HTTP clients read it; `None` if they may read it differently.
///
/// Numbers that are addresses are returned as addresses, and names in other scripts in their ASCII form.
pub(crate) fn host_of(url: &str) -> Option<String> {
    // The standard requires skipping these; a client that does not skip them reads another host.
    if url.contains(|letter: char| letter.is_control() || letter.is_whitespace() || letter == '\\')
    {
        return None;
    }
    let url = Url::parse(url).ok()?;
    let is_web = matches!(url.scheme(), "http" | "https");
    if !is_web || !url.username().is_empty() || url.password().is_some() {
        return None;
    }
    url.host().map(|host| named(&host))
}

/// Returns the name of a host. For an IPv4 address inside an IPv6 address, returns the IPv4 address, because clients
/// connect to it.
fn named<S: AsRef<str>>(host: &Host<S>) -> String {
    let within = match host {
        Host::Ipv6(address) => address.to_ipv4_mapped(),
        Host::Domain(_) | Host::Ipv4(_) => None,
    };
    match within {
        Some(address) => address.to_string(),
        None => host.to_string().trim_end_matches('.').to_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_is_the_one_a_client_connects_to() {
        for (url, expected) in [
            ("https://Docs.RS/serde", Some("docs.rs")),
            ("https://docs.rs.:443/", Some("docs.rs")),
            ("http://2130706433/", Some("127.0.0.1")),
            ("http://0x7f.1/", Some("127.0.0.1")),
            ("http://[::1]/", Some("[::1]")),
            ("http://[::ffff:127.0.0.1]/", Some("127.0.0.1")),
            ("http://[::ffff:7f00:1]/", Some("127.0.0.1")),
            ("https://docs.rs@evil.example/", None),
            ("https://docs.rs\\@evil.example/", None),
            ("https://docs.rs\t.evil.example/", None),
            ("file:///etc/passwd", None),
            ("docs.rs", None),
        ] {
            assert_eq!(host_of(url).as_deref(), expected, "{url}");
        }
    }

    #[test]
    fn a_host_pattern_matches_whole_labels() {
        let pattern = HostPattern::parse("*.example.org").unwrap();
        assert!(pattern.matches("a.b.example.org"));
        assert!(!pattern.matches("example.org"));
        assert!(!pattern.matches("evilexample.org"));
        assert!(HostPattern::parse("exa*mple.org").is_err());
        assert!(HostPattern::parse("[::1]").unwrap().matches("[::1]"));
        for pattern in ["https://x.example", "x.example:443", "x.example/a", "::1"] {
            let why = HostPattern::parse(pattern).unwrap_err();
            assert!(why.starts_with("write only the host"), "{pattern}: {why}");
        }
        assert!(
            HostPattern::parse("EXAMPLE.org")
                .unwrap()
                .matches("example.org")
        );
    }
}
