//! Which addresses of the web may be reached: public ones, and hosts that the operator names.
//!
//! An address is looked at three times: as it stands in the URL, as the names of hosts are resolved for a connection, and as
//! the socket tells it once it is connected. The second look is at the very addresses that are then connected to, so that a
//! name that changes its answer between two questions gains nothing.

mod address;
mod allowed;
mod resolver;

use std::net::{IpAddr, SocketAddr};

use url::{Host, Url};

pub use allowed::{AllowedHost, InvalidHost};
pub(crate) use resolver::Resolver;
pub use resolver::{NameLookup, SystemLookup};

/// Why an address is not fetched. None of the messages tells an address that a name has: names of a private network may be
/// nobody else's business.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BlockedAddress {
    /// The URL is of another scheme than `http:` and `https:`.
    #[error("blocked_address: only http: and https: URLs can be fetched, not {scheme}:")]
    Scheme {
        /// The scheme.
        scheme: String,
    },
    /// A user or a password stands in the URL.
    #[error(
        "blocked_address: the URL holds a user name or a password; leave out what stands before the @"
    )]
    UserInfo,
    /// The URL names no host.
    #[error("blocked_address: the URL names no host")]
    NoHost,
    /// The host of the URL is an address that is not public.
    #[error(
        "blocked_address: {host} is {kind}; only public addresses can be fetched, in whatever way they are written. Use another \
         source, or tell the user that the operator can allow this host with allow_hosts in [web]"
    )]
    Literal {
        /// The host, in its usual spelling.
        host: String,
        /// What kind of address it is, with its article.
        kind: &'static str,
    },
    /// The name of the host leads to an address that is not public.
    #[error(
        "blocked_address: the name {host} leads to {kind}; only public addresses can be fetched. Use another source, or tell the \
         user that the operator can allow this host with allow_hosts in [web]"
    )]
    Resolved {
        /// The name.
        host: String,
        /// What kind of address it leads to, with its article.
        kind: &'static str,
    },
    /// The connection leads to an address that is not public, or nobody knows where.
    #[error(
        "blocked_address: the connection to {host} did not lead to a public address; its answer was not read"
    )]
    Connected {
        /// The host of the URL.
        host: String,
    },
}

/// How the host of a URL is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// At public addresses alone.
    Public,
    /// Wherever its name leads: the operator allows this host and port.
    Allowed,
}

/// What decides which addresses may be reached.
#[derive(Debug, Clone, Default)]
pub(crate) struct Guard {
    allowed: Vec<AllowedHost>,
}

impl Guard {
    /// Makes one that lets these hosts be reached wherever they are.
    pub(crate) fn new(allowed: &[AllowedHost]) -> Self {
        Self {
            allowed: allowed.to_vec(),
        }
    }

    /// Looks at a URL before anything is sent, or at the one that a redirect names.
    pub(crate) fn check(&self, url: &Url) -> Result<Reach, BlockedAddress> {
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
            return Ok(Reach::Allowed);
        }
        let address = match host {
            Host::Domain(_) => return Ok(Reach::Public),
            Host::Ipv4(address) => IpAddr::V4(address),
            Host::Ipv6(address) => IpAddr::V6(address),
        };
        match address::not_public(address) {
            None => Ok(Reach::Public),
            Some(kind) => Err(BlockedAddress::Literal {
                host: host.to_string(),
                kind,
            }),
        }
    }

    /// Looks at where a connection led.
    pub(crate) fn check_peer(
        reach: Reach,
        url: &Url,
        peer: Option<SocketAddr>,
    ) -> Result<(), BlockedAddress> {
        let is_public = |peer: SocketAddr| address::not_public(peer.ip()).is_none();
        if reach == Reach::Allowed || peer.is_some_and(is_public) {
            return Ok(());
        }
        Err(BlockedAddress::Connected {
            host: url.host_str().unwrap_or_default().to_owned(),
        })
    }
}

#[cfg(test)]
mod tests;
