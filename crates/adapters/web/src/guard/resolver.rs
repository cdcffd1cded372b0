//! Turns names into addresses for a connection, and refuses a name that leads to one that is not public.

use std::fmt::Debug;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use neuraxis_ports::async_trait;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::BlockedAddress;
use super::address::not_public;

/// Looks names of hosts up. Whatever it answers, the guard looks at it before anything connects there.
#[async_trait]
pub trait NameLookup: Debug + Send + Sync + 'static {
    /// Returns the addresses of a name.
    ///
    /// # Errors
    ///
    /// What went wrong, when the name has none or nobody answers.
    ///
    /// # Cancel safety
    ///
    /// The future may be dropped at any time.
    async fn addresses(&self, host: &str) -> io::Result<Vec<IpAddr>>;
}

/// Asks the operating system, and so the files and servers that it is set up with.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemLookup;

#[async_trait]
impl NameLookup for SystemLookup {
    async fn addresses(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        let found = tokio::net::lookup_host((host, 0)).await?;
        Ok(found.map(|address| address.ip()).collect())
    }
}

/// Lets a name lead to public addresses alone. A name with one address that is not public is refused as a whole: it is set
/// up to reach what it must not.
#[derive(Debug)]
pub(crate) struct GuardedResolver(pub(crate) Arc<dyn NameLookup>);

/// Lets a name lead anywhere, for hosts that the operator allows.
#[derive(Debug)]
pub(crate) struct OpenResolver(pub(crate) Arc<dyn NameLookup>);

impl GuardedResolver {
    async fn addresses(lookup: &dyn NameLookup, host: &str) -> Result<Vec<IpAddr>, Refused> {
        let found = lookup.addresses(host).await?;
        match found.iter().find_map(|address| not_public(*address)) {
            None => Ok(found),
            Some(kind) => Err(Box::new(BlockedAddress::Resolved {
                host: host.to_owned(),
                kind,
            })),
        }
    }
}

type Refused = Box<dyn std::error::Error + Send + Sync>;

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let lookup = Arc::clone(&self.0);
        Box::pin(async move {
            let found = Self::addresses(&*lookup, name.as_str()).await?;
            Ok(sockets(found))
        })
    }
}

impl Resolve for OpenResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let lookup = Arc::clone(&self.0);
        Box::pin(async move { Ok(sockets(lookup.addresses(name.as_str()).await?)) })
    }
}

/// Port 0 stands for that of the URL.
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

    /// Gives one answer after the other.
    #[derive(Debug)]
    struct Changing(Mutex<Vec<Vec<IpAddr>>>);

    #[async_trait]
    impl NameLookup for Changing {
        async fn addresses(&self, _host: &str) -> io::Result<Vec<IpAddr>> {
            Ok(self.0.lock().unwrap().remove(0))
        }
    }

    fn addresses(texts: &[&str]) -> Vec<IpAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[tokio::test]
    async fn each_answer_is_looked_at_however_good_the_one_before_was() {
        let answers = [
            addresses(&["93.184.215.14"]),
            addresses(&["127.0.0.1"]),
            addresses(&["2606:4700::1111"]),
            addresses(&["93.184.215.14", "10.0.0.1"]),
            addresses(&["::ffff:93.184.215.14"]),
        ];
        let resolver = GuardedResolver(Arc::new(Changing(Mutex::new(answers.into()))));
        let mut passed = Vec::new();
        for _ in 0..5 {
            let name = "rebinding.example".parse().unwrap();
            passed.push(resolver.resolve(name).await.is_ok());
        }
        assert_eq!(passed, [true, false, true, false, false]);
    }

    #[tokio::test]
    async fn a_refusal_names_the_host_and_the_kind_and_not_the_address() {
        let lookup = Changing(Mutex::new(vec![addresses(&["10.11.12.13"])]));
        let refused = GuardedResolver::addresses(&lookup, "intranet.example").await;
        let text = refused.unwrap_err().to_string();
        assert!(
            text.starts_with(
                "blocked_address: the name intranet.example leads to a private address"
            )
        );
        assert!(!text.contains("10.11"), "{text}");
    }
}
