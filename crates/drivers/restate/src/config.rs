//! The section `[driver.restate]`: where Restate is, and where it finds workers.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use reqwest::{Client, Url};
use serde::{Deserialize, Serialize};

/// The least that a time after which Restate gives something up may be, in milliseconds.
const LEAST_MS: u64 = 100;

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
    /// How long an invocation that waits for somebody keeps its connection to a worker, in milliseconds. A worker that is told to
    /// stop, or dies, loses nothing by it. 60,000.
    pub inactivity_ms: u64,
    /// How long a step (a model call, the calls of a batch, a hook) may last after `inactivity_ms`, in milliseconds, before Restate
    /// gives its attempt up and has it repeated, by the class of the calls in it. To be longer than the longest time limit of a
    /// tool and of a model. 86,400,000, a day.
    pub abort_ms: u64,
    /// How long workers refuse a run whose tools work in another folder than theirs, in milliseconds, so that one with that folder
    /// may take it; after that it is ended as interrupted, of which its client hears. 60,000.
    pub refuse_ms: u64,
}

impl Default for RestateConfig {
    fn default() -> Self {
        Self {
            ingress: "http://127.0.0.1:8080".to_owned(),
            admin: "http://127.0.0.1:9070".to_owned(),
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 9080)),
            advertise: None,
            identity_key: None,
            inactivity_ms: 60_000,
            abort_ms: 86_400_000,
            refuse_ms: 60_000,
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
        /// The value that is configured, without user, password and query.
        value: String,
        /// What it could say.
        example: &'static str,
    },
    /// A time is so short that steps would be given up which go well.
    #[error("driver.restate.{key}: {value} milliseconds are too few: expected at least {least}")]
    TooShort {
        /// The key, such as `abort_ms`.
        key: &'static str,
        /// The value that is configured.
        value: u64,
        /// The least that it may say.
        least: u64,
    },
    /// This machine cannot speak HTTP: its certificates cannot be read, for instance.
    #[error("no HTTP client can be made here")]
    Client(#[source] reqwest::Error),
}

impl RestateConfig {
    /// Makes sure that the addresses are ones, and that times are long enough.
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
        for (key, value) in [
            ("inactivity_ms", self.inactivity_ms),
            ("abort_ms", self.abort_ms),
        ] {
            if value < LEAST_MS {
                let least = LEAST_MS;
                return Err(ConfigFault::TooShort { key, value, least });
            }
        }
        Ok(())
    }

    /// Returns how long one step of a run may last before Restate has it repeated.
    #[must_use]
    pub const fn longest_step(&self) -> Duration {
        Duration::from_millis(self.inactivity_ms.saturating_add(self.abort_ms))
    }

    /// Returns the address at which Restate is told to reach workers that are configured so; `None` if their port is chosen by the
    /// operating system.
    #[must_use]
    pub fn advertised(&self) -> Option<String> {
        let own = || (self.listen.port() != 0).then(|| format!("http://{}", self.listen));
        self.advertise.clone().or_else(own)
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
        value: without_secrets(value),
        example,
    })
}

/// Returns an address as it may be told, whether it is one or not: without user, password and query.
pub(crate) fn without_secrets(address: &str) -> String {
    let (before, host) = address.rsplit_once('@').unwrap_or(("", address));
    let host = host.split(['?', '#']).next().unwrap_or_default();
    let scheme = before.split_once("://").map(|(scheme, _)| scheme);
    let is_scheme = |scheme: &&str| scheme.bytes().all(|byte| byte.is_ascii_alphabetic());
    match scheme.filter(is_scheme) {
        Some(scheme) => format!("{scheme}://***@{host}"),
        None if before.is_empty() => host.to_owned(),
        None => format!("***@{host}"),
    }
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

    #[test]
    fn neither_user_nor_password_nor_query_of_an_address_is_told() {
        for (address, told) in [
            ("http://127.0.0.1:9070", "http://127.0.0.1:9070"),
            ("http://me:hunter2@host:9070/a", "http://***@host:9070/a"),
            ("htp://me:hunt@er2@host", "htp://***@host"),
            ("me:hunt://er2@host:9070", "***@host:9070"),
            ("https://host/a?token=hunter2", "https://host/a"),
        ] {
            assert_eq!(without_secrets(address), told);
        }
        let fault = address("admin", "me:hunter2@host", "http://127.0.0.1:9070");
        let fault = fault.unwrap_err().to_string();
        assert!(fault.contains("\"***@host\" is no address"), "{fault}");
    }

    #[test]
    fn a_time_that_would_have_each_step_given_up_is_refused() {
        let config = RestateConfig {
            abort_ms: 0,
            ..RestateConfig::default()
        };
        let fault = config.check().unwrap_err().to_string();
        assert_eq!(
            fault,
            "driver.restate.abort_ms: 0 milliseconds are too few: expected at least 100"
        );
    }

    #[test]
    fn workers_are_reached_where_they_listen_unless_they_say_otherwise() {
        let mut config = RestateConfig::default();
        assert_eq!(config.advertised().unwrap(), "http://127.0.0.1:9080");
        config.listen.set_port(0);
        assert_eq!(config.advertised(), None);
        config.advertise = Some("http://workers:9080".to_owned());
        assert_eq!(config.advertised().unwrap(), "http://workers:9080");
    }
}
