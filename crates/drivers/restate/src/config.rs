//! The section `[driver.restate]`: where Restate is, and where it finds workers.

use std::net::{Ipv4Addr, SocketAddr};

use reqwest::{Client, Url};
use serde::{Deserialize, Serialize};

/// `[driver.restate]`: where Restate is, and where it finds workers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct RestateConfig {
    /// Where servers hand runs over: Restate's ingress. `http://127.0.0.1:8080`.
    pub ingress: String,
    /// Where workers register and `doctor` looks: Restate's admin API. `http://127.0.0.1:9070`.
    pub admin: String,
    /// Where a worker listens for Restate. Nothing on this port asks who calls, unless there is an `identity_key`; so a loopback
    /// address, or one of a private network. `127.0.0.1:9080`.
    pub listen: SocketAddr,
    /// Where Restate reaches workers of this build, such as the address of their load balancer; that on which this worker
    /// listens if it is left out. A build that drives runs in another way needs another address: Restate sends a run back to the
    /// address where it began.
    pub advertise: Option<String>,
    /// The public key of the Restate that may call workers, `publickeyv1_…`; whoever reaches the port if it is left out.
    pub identity_key: Option<String>,
}

impl Default for RestateConfig {
    fn default() -> Self {
        Self {
            ingress: "http://127.0.0.1:8080".to_owned(),
            admin: "http://127.0.0.1:9070".to_owned(),
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 9080)),
            advertise: None,
            identity_key: None,
        }
    }
}

/// What is wrong with the section.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigFault {
    /// An address is none.
    #[error("driver.restate.{key}: {value:?} is no address: expected one such as {example}")]
    Address {
        /// The key, such as `ingress`.
        key: &'static str,
        /// The value that is configured.
        value: String,
        /// What it could say.
        example: &'static str,
    },
    /// This machine cannot speak HTTP: its certificates cannot be read, for instance.
    #[error("no HTTP client can be made here")]
    Client(#[source] reqwest::Error),
}

impl RestateConfig {
    /// Makes sure that the addresses are ones.
    ///
    /// # Errors
    ///
    /// A [`ConfigFault`] that names the first key that is not.
    pub fn check(&self) -> Result<(), ConfigFault> {
        self.ingress_url()?;
        self.admin_url()?;
        if let Some(advertise) = &self.advertise {
            address("advertise", advertise, "http://workers.internal:9080")?;
        }
        Ok(())
    }

    pub(crate) fn ingress_url(&self) -> Result<Url, ConfigFault> {
        address("ingress", &self.ingress, "http://127.0.0.1:8080")
    }

    pub(crate) fn admin_url(&self) -> Result<Url, ConfigFault> {
        address("admin", &self.admin, "http://127.0.0.1:9070")
    }
}

pub(crate) fn client() -> Result<Client, ConfigFault> {
    Client::builder().build().map_err(ConfigFault::Client)
}

fn address(key: &'static str, value: &str, example: &'static str) -> Result<Url, ConfigFault> {
    let url = Url::parse(value).ok();
    let url = url.filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    url.ok_or_else(|| ConfigFault::Address {
        key,
        value: value.to_owned(),
        example,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_is_none_is_named_with_its_key() {
        RestateConfig::default().check().unwrap();
        let config = RestateConfig {
            admin: "localhost:9070".to_owned(),
            ..RestateConfig::default()
        };
        let fault = config.check().unwrap_err().to_string();
        assert_eq!(
            fault,
            "driver.restate.admin: \"localhost:9070\" is no address: expected one such as http://127.0.0.1:9070"
        );
    }
}
