//! Where a server may listen.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

/// A socket address that only programs on the same machine can reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListenAddress(SocketAddr);

/// Why a server may not listen on an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ListenAddressError {
    /// The text is no socket address.
    #[error("it must be an IP address and a port, such as 127.0.0.1:8787 or [::1]:8787")]
    Malformed,
    /// Other machines could reach it.
    #[error(
        "{0} is not a loopback address: without keys, anybody who can reach it could use the models and tools of this \
         machine; listen on 127.0.0.1 or [::1]"
    )]
    NotLoopback(SocketAddr),
}

impl ListenAddress {
    pub(crate) const fn socket_address(self) -> SocketAddr {
        self.0
    }
}

/// Tells whether an IP address leads back to this machine.
pub(crate) const fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

impl TryFrom<SocketAddr> for ListenAddress {
    type Error = ListenAddressError;

    fn try_from(address: SocketAddr) -> Result<Self, ListenAddressError> {
        if is_loopback(address.ip()) {
            Ok(Self(address))
        } else {
            Err(ListenAddressError::NotLoopback(address))
        }
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
    fn what_is_no_address_with_a_port_is_malformed() {
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
