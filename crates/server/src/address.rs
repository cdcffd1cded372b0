//! The addresses that a server may listen on.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

/// A socket address that a server may listen on: one that only programs on the same machine can reach, or one where
/// clients present keys over an encrypted connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListenAddress(SocketAddr);

/// Why a server may not listen on an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ListenAddressError {
    /// The text is not a socket address.
    #[error("expected an IP address and a port, such as 127.0.0.1:8787 or [::1]:8787")]
    Malformed,
    /// Other machines could reach it, and clients need no key.
    #[error(
        "{0} is not a loopback address: without keys, anyone who can reach it could use this machine's models and \
         tools; create a key with `neuraxis-server keys create --owner NAME`, or listen on 127.0.0.1 or [::1]"
    )]
    NotLoopback(SocketAddr),
    /// Keys would be sent unencrypted.
    #[error(
        "{0} is not a loopback address: without encryption, keys could be read on the network; set `[server] \
         behind_proxy = true` if an encrypting proxy is in front of the server, configure a certificate and a key in \
         `[server.tls]`, or listen on 127.0.0.1 or [::1]"
    )]
    Unencrypted(SocketAddr),
}

/// What protects a server against unauthorized clients that can reach it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Protection {
    /// Whether clients must present keys.
    pub keys: bool,
    /// Whether client traffic is encrypted on its way over a network.
    pub encryption: bool,
}

impl ListenAddress {
    /// Accepts an address for a server with this protection. A loopback address is always accepted.
    ///
    /// # Errors
    ///
    /// Returns [`ListenAddressError::NotLoopback`] or [`ListenAddressError::Unencrypted`].
    pub const fn protected(
        address: SocketAddr,
        protection: Protection,
    ) -> Result<Self, ListenAddressError> {
        match protection {
            _ if is_loopback(address.ip()) => Ok(Self(address)),
            Protection { keys: false, .. } => Err(ListenAddressError::NotLoopback(address)),
            Protection {
                encryption: false, ..
            } => Err(ListenAddressError::Unencrypted(address)),
            _ => Ok(Self(address)),
        }
    }

    /// Returns whether only programs on the same machine can reach it.
    #[must_use]
    pub const fn is_loopback(self) -> bool {
        is_loopback(self.0.ip())
    }

    pub(crate) const fn socket_address(self) -> SocketAddr {
        self.0
    }
}

/// Returns whether an IP address is a loopback address.
pub(crate) const fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

impl TryFrom<SocketAddr> for ListenAddress {
    type Error = ListenAddressError;

    fn try_from(address: SocketAddr) -> Result<Self, ListenAddressError> {
        Self::protected(address, Protection::default())
    }
}

impl FromStr for ListenAddress {
    type Err = ListenAddressError;

    fn from_str(text: &str) -> Result<Self, ListenAddressError> {
        let address: SocketAddr = text.parse().map_err(|_| ListenAddressError::Malformed)?;
        address.try_into()
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_addresses_are_allowed_in_every_notation() {
        for text in [
            "127.0.0.1:8787",
            "127.9.9.9:0",
            "[::1]:80",
            "[::ffff:127.0.0.1]:80",
        ] {
            assert!(text.parse::<ListenAddress>().is_ok(), "{text}");
        }
    }

    #[test]
    fn an_address_that_other_machines_can_reach_is_refused() {
        for text in [
            "0.0.0.0:8787",
            "[::]:8787",
            "192.0.2.1:80",
            "[2001:db8::1]:80",
        ] {
            let error = text.parse::<ListenAddress>().unwrap_err();
            assert!(
                matches!(error, ListenAddressError::NotLoopback(_)),
                "{text}"
            );
        }
    }

    #[test]
    fn an_address_that_other_machines_can_reach_requires_keys_and_encryption() {
        let address: SocketAddr = "0.0.0.0:8787".parse().unwrap();
        for (keys, encryption, expected) in [
            (false, false, Err(ListenAddressError::NotLoopback(address))),
            (false, true, Err(ListenAddressError::NotLoopback(address))),
            (true, false, Err(ListenAddressError::Unencrypted(address))),
            (true, true, Ok(ListenAddress(address))),
        ] {
            let protection = Protection { keys, encryption };
            assert_eq!(ListenAddress::protected(address, protection), expected);
        }
    }

    #[test]
    fn text_that_is_not_an_ip_address_with_a_port_is_malformed() {
        for text in [
            "",
            "127.0.0.1",
            ":8787",
            "localhost:8787",
            "127.0.0.1:99999",
        ] {
            let error = text.parse::<ListenAddress>().unwrap_err();
            assert_eq!(error, ListenAddressError::Malformed, "{text}");
        }
    }
}
