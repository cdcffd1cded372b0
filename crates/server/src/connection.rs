//! What is known of the connection that a request came over: who is at its other end, and whether it is encrypted.

use std::net::IpAddr;

use crate::address::is_loopback;

/// How a server is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scheme {
    Http,
    Https,
}

impl Scheme {
    /// Returns what a URL begins with.
    pub(crate) const fn prefix(self) -> &'static str {
        match self {
            Self::Http => "http://",
            Self::Https => "https://",
        }
    }

    /// Returns the port of URLs that name none.
    pub(crate) const fn port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

/// The connection of a request, one of its extensions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Connection {
    peer: IpAddr,
    pub(crate) scheme: Scheme,
}

impl Connection {
    pub(crate) const fn new(peer: IpAddr, scheme: Scheme) -> Self {
        Self { peer, scheme }
    }

    /// Tells whether who asks is a program on this machine.
    pub(crate) const fn is_local(self) -> bool {
        is_loopback(self.peer)
    }
}
