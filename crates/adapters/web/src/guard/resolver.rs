//! Resolves names for connections, and refuses a name that leads to an address that is not public.

use std::fmt::Debug;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use neuraxis_ports::async_trait;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::address::not_public;
use super::{AllowedAddresses, BlockedAddress};

/// Looks up host names. The guard checks every answer before a connection is made.
#[async_trait]
pub trait NameLookup: Debug + Send + Sync + 'static {
    /// Returns the addresses of a name.
    ///
    /// # Errors
    ///
    /// The lookup's error, if the name has no address or no server answers.
    ///
    /// # Cancel safety
    ///
    /// The future may be dropped at any time.
    async fn addresses(&self, host: &str) -> io::Result<Vec<IpAddr>>;
}

/// Uses the operating system's resolver, with its configured files and servers.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemLookup;

#[async_trait]
impl NameLookup for SystemLookup {
    async fn addresses(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        let found = tokio::net::lookup_host((host, 0)).await?;
        Ok(found.map(|address| address.ip()).collect())
    }
}

/// Restricts the addresses a name may lead to. If only public addresses may be reached, a name with even one other
/// address is refused as a whole: it is set up to reach what must not be reached.
#[derive(Debug, Clone)]
pub(crate) struct Resolver {
    pub(crate) lookup: Arc<dyn NameLookup>,
    pub(crate) addresses: AllowedAddresses,
}

type Refused = Box<dyn std::error::Error + Send + Sync>;

impl Resolver {
    async fn addresses(&self, host: &str) -> Result<Vec<IpAddr>, Refused> {
        let found = self.lookup.addresses(host).await?;
        let refused = match self.addresses {
            AllowedAddresses::PublicOnly => found.iter().find_map(|address| not_public(*address)),
            AllowedAddresses::Any => None,
        };
        match refused {
            None => Ok(found),
            Some(kind) => Err(Box::new(BlockedAddress::Resolved {
                host: host.to_owned(),
                kind,
            })),
        }
    }
}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let resolver = self.clone();
        Box::pin(async move { Ok(sockets(resolver.addresses(name.as_str()).await?)) })
    }
}

/// Port 0 stands for the URL's port.
fn sockets(addresses: Vec<IpAddr>) -> Addrs {
    Box::new(
        addresses
            .into_iter()
            .map(|address| SocketAddr::new(address, 0)),
    )
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Returns its answers one after the other.
    #[derive(Debug)]
    struct ChangingLookup(Mutex<Vec<Vec<IpAddr>>>);

    #[async_trait]
    impl NameLookup for ChangingLookup {
        async fn addresses(&self, _host: &str) -> io::Result<Vec<IpAddr>> {
            Ok(self.0.lock().unwrap().remove(0))
        }
    }

    fn resolver(answers: impl Into<Vec<Vec<IpAddr>>>) -> Resolver {
        Resolver {
            lookup: Arc::new(ChangingLookup(Mutex::new(answers.into()))),
            addresses: AllowedAddresses::PublicOnly,
        }
    }

    fn addresses(texts: &[&str]) -> Vec<IpAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[tokio::test]
    async fn every_dns_answer_is_checked_regardless_of_earlier_ones() {
        let answers = [
            addresses(&["93.184.215.14"]),
            addresses(&["127.0.0.1"]),
            addresses(&["2606:4700::1111"]),
            addresses(&["93.184.215.14", "10.0.0.1"]),
            addresses(&["::ffff:93.184.215.14"]),
        ];
        let resolver = resolver(answers);
        let mut passed = Vec::new();
        for _ in 0..5 {
            let name = "rebinding.example".parse().unwrap();
            passed.push(resolver.resolve(name).await.is_ok());
        }
        assert_eq!(passed, [true, false, true, false, false]);
    }

    #[tokio::test]
    async fn a_refusal_names_the_host_and_the_kind_of_address_but_not_the_address() {
        let resolver = resolver([addresses(&["10.11.12.13"])]);
        let refused = resolver.addresses("intranet.example").await;
        let text = refused.unwrap_err().to_string();
        assert!(text.starts_with(
            "blocked_address: the name intranet.example resolves to a private address"
        ));
        assert!(!text.contains("10.11"), "{text}");
    }
}
