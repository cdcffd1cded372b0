//! A host that the operator allows at any address.

use std::fmt;
use std::str::FromStr;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use url::Host;

/// A host and a port that may be reached even if the address is not public. In configuration, a string `"host:port"`.
///
/// ```
/// use neuraxis_web::AllowedHost;
///
/// let wiki: AllowedHost = "wiki.corp.example:8443".parse()?;
/// assert_eq!(wiki.to_string(), "wiki.corp.example:8443");
/// assert!("[::1]:8080".parse::<AllowedHost>().is_ok());
/// assert!("wiki.corp.example".parse::<AllowedHost>().is_err(), "which port?");
/// # Ok::<(), neuraxis_web::InvalidHost>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedHost {
    host: Host,
    port: u16,
}

/// The text does not name a host and a port.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected a host and a port, such as \"wiki.example:443\" or \"[::1]:8080\"")]
pub struct InvalidHost;

impl AllowedHost {
    /// Returns whether a URL with this host and port refers to it.
    pub(super) fn is(&self, host: &Host<&str>, port: Option<u16>) -> bool {
        let is_same = match (&self.host, host) {
            (Host::Domain(ours), Host::Domain(theirs)) => ours == theirs.trim_end_matches('.'),
            (Host::Ipv4(ours), Host::Ipv4(theirs)) => ours == theirs,
            (Host::Ipv6(ours), Host::Ipv6(theirs)) => ours == theirs,
            _ => false,
        };
        is_same && port == Some(self.port)
    }
}

impl FromStr for AllowedHost {
    type Err = InvalidHost;

    fn from_str(text: &str) -> Result<Self, InvalidHost> {
        let (host, port) = text.trim().rsplit_once(':').ok_or(InvalidHost)?;
        let port = port.parse().map_err(|_| InvalidHost)?;
        let host = Host::parse(host.trim_end_matches('.')).map_err(|_| InvalidHost)?;
        Ok(Self { host, port })
    }
}

impl fmt::Display for AllowedHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

impl Serialize for AllowedHost {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for AllowedHost {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(D::Error::custom)
    }
}
