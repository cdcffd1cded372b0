//! A port for an address that must be known before a server listens on it.
#![expect(clippy::expect_used, reason = "a test fails if no port is free")]

use std::fmt;

use tokio::net::TcpSocket;

/// A loopback port that the kernel gives to no other process while this is kept, however often the server that listens
/// on it is killed and restarted.
///
/// A port that is only looked up and released may be taken by the time a server listens on it: tests run in parallel,
/// and each of their connections takes a port. This one stays bound without listening. A server that asks for its
/// number still gets it if it binds with `SO_REUSEADDR`, as servers do (Linux, `socket(7)`: as long as no other socket
/// *listens* there).
#[derive(Debug)]
pub struct FreePort {
    _bound: TcpSocket,
    number: u16,
}

impl FreePort {
    /// Reserves a port.
    ///
    /// # Panics
    ///
    /// Panics if no port is free.
    #[must_use]
    pub fn take() -> Self {
        let bound = TcpSocket::new_v4().expect("a socket can be created");
        bound.set_reuseaddr(true).expect("sockets can share a port");
        bound
            .bind(([127, 0, 0, 1], 0).into())
            .expect("a port is free");
        let address = bound.local_addr().expect("it has an address");
        Self {
            number: address.port(),
            _bound: bound,
        }
    }

    /// Returns its number.
    #[must_use]
    pub fn number(&self) -> u16 {
        self.number
    }
}

impl fmt::Display for FreePort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.number.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener, TcpStream};

    use super::FreePort;

    #[test]
    fn a_reserved_port_can_be_rebound_and_is_given_to_no_other() {
        let port = FreePort::take();
        let address = (Ipv4Addr::LOCALHOST, port.number());
        for _ in 0..2 {
            assert!(TcpStream::connect(address).is_err(), "nobody listens");
            let listener = TcpListener::bind(address).unwrap();
            TcpStream::connect(address).unwrap();
            drop(listener);
        }
        // Enough ports that one of them would be this one if it were not reserved.
        let others: Vec<_> = std::iter::from_fn(|| {
            let other = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).ok()?;
            Some((other.local_addr().ok()?.port(), other))
        })
        .take(500)
        .collect();
        assert!(others.iter().all(|(other, _)| *other != port.number()));
    }
}
