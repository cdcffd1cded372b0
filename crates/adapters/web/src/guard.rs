//! Which web addresses may be reached: public ones, and hosts that the operator allows.
//!
//! An address is checked three times: in the URL, when a host name is resolved for a connection, and as the socket's
//! peer address once connected. The second check is of the exact addresses that the connection then uses, so a name
//! whose answer changes between two lookups gains nothing.

mod address;
mod allowed;
mod resolver;

use std::net::{IpAddr, SocketAddr};

use url::{Host, Url};

pub use allowed::{AllowedHost, InvalidHost};
pub(crate) use resolver::Resolver;
pub use resolver::{NameLookup, SystemLookup};

/// Why an address is not fetched. No message reveals the address behind a name: the names of a private network may be
/// confidential.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BlockedAddress {
    /// The URL's scheme is neither `http:` nor `https:`.
    #[error("blocked_address: only http: and https: URLs can be fetched, not {scheme}:")]
    Scheme {
        /// The URL's scheme.
        scheme: String,
    },
    /// The URL contains a user name or a password.
    #[error("blocked_address: the URL contains a user name or a password; remove it, up to the @")]
    UserInfo,
    /// The URL names no host.
    #[error("blocked_address: the URL names no host")]
    NoHost,
    /// The URL's host is an address that is not public.
    #[error(
        "blocked_address: {host} is {kind}; only public addresses can be fetched, however they are written. Use another \
         source, or tell the user that the operator can allow this host with allow_hosts in [web]"
    )]
    Literal {
        /// The host in its canonical spelling.
        host: String,
        /// The kind of address, with its article.
        kind: &'static str,
    },
    /// The host name leads to an address that is not public.
    #[error(
        "blocked_address: the name {host} resolves to {kind}; only public addresses can be fetched. Use another source, \
         or tell the user that the operator can allow this host with allow_hosts in [web]"
    )]
    Resolved {
        /// The host name.
        host: String,
        /// The kind of address it leads to, with its article.
        kind: &'static str,
    },
    /// The connection leads to an address that is not public or not known.
    #[error(
        "blocked_address: the connection to {host} did not lead to a public address; its answer was not read"
    )]
    Connected {
        /// The host of the URL.
        host: String,
    },
}

/// The addresses at which a URL's host may be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AllowedAddresses {
    /// Only public addresses.
    PublicOnly,
    /// Any address: the operator allows this host and port.
    Any,
}

/// Decides which addresses may be reached.
#[derive(Debug, Clone, Default)]
pub(crate) struct Guard {
    allowed: Vec<AllowedHost>,
}

impl Guard {
    /// Creates a guard that allows these hosts at any address.
    pub(crate) fn new(allowed: &[AllowedHost]) -> Self {
        Self {
            allowed: allowed.to_vec(),
        }
    }

    /// Checks a URL before anything is sent, or the target of a redirect.
    pub(crate) fn check(&self, url: &Url) -> Result<AllowedAddresses, BlockedAddress> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(BlockedAddress::Scheme {
                scheme: url.scheme().to_owned(),
            });
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(BlockedAddress::UserInfo);
        }
        let host = url.host().ok_or(BlockedAddress::NoHost)?;
        let port = url.port_or_known_default();
        if self.allowed.iter().any(|allowed| allowed.is(&host, port)) {
            return Ok(AllowedAddresses::Any);
        }
        let address = match host {
            Host::Domain(_) => return Ok(AllowedAddresses::PublicOnly),
            Host::Ipv4(address) => IpAddr::V4(address),
            Host::Ipv6(address) => IpAddr::V6(address),
        };
        match address::not_public(address) {
            None => Ok(AllowedAddresses::PublicOnly),
            Some(kind) => Err(BlockedAddress::Literal {
                host: host.to_string(),
                kind,
            }),
        }
    }

    /// Checks the address to which a connection was made.
    pub(crate) fn check_peer(
        addresses: AllowedAddresses,
        url: &Url,
        peer: Option<SocketAddr>,
    ) -> Result<(), BlockedAddress> {
        let is_public = |peer: SocketAddr| address::not_public(peer.ip()).is_none();
        if addresses == AllowedAddresses::Any || peer.is_some_and(is_public) {
            return Ok(());
        }
        Err(BlockedAddress::Connected {
            host: url.host_str().unwrap_or_default().to_owned(),
        })
    }
}

#[cfg(test)]
mod tests;
