//! The section `[driver.restate]`: the addresses of Restate and of workers.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use reqwest::{Client, Url};
use serde::{Deserialize, Serialize};

/// The minimum, in milliseconds, for a time after which Restate gives something up.
const MIN_MS: u64 = 100;

/// `[driver.restate]`: the addresses of Restate and of workers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct RestateConfig {
    /// Restate's ingress, where servers hand runs over. Default: `http://127.0.0.1:8080`.
    pub ingress: String,
    /// Restate's admin API, where workers register and which `doctor` checks. Default: `http://127.0.0.1:9070`.
    pub admin: String,
    /// The address on which a worker listens for Restate. Without an `identity_key`, this port does not authenticate
    /// callers, so use a loopback address or one of a private network. Default: `127.0.0.1:9080`.
    pub listen: SocketAddr,
    /// The address at which Restate reaches workers of this build, such as their load balancer. If left out, the
    /// address on which this worker listens. A build that drives runs differently needs a different address, because
    /// Restate sends a run back to the address where it began.
    pub advertise: Option<String>,
    /// The public key of the Restate server that may call workers, `publickeyv1_…`. If left out, any client that
    /// reaches the port may call them.
    pub identity_key: Option<String>,
    /// How long a waiting invocation keeps its connection to a worker, in milliseconds. Stopping or killing a worker in
    /// the meantime loses nothing. Default: 60,000.
    pub inactivity_ms: u64,
    /// How long a step (a model call, the calls of a batch, a hook) may last after `inactivity_ms`, in milliseconds,
    /// before Restate gives up the attempt and has it repeated, according to the class of the calls in it. Must be
    /// longer than the longest time limit of a tool and of a model. Default: 86,400,000, a day.
    pub abort_ms: u64,
    /// How long workers refuse a run whose tools work in a different folder from theirs, in milliseconds, so that a
    /// worker with that folder can take it. After that, the run is ended as interrupted, and its client is notified.
    /// Default: 60,000.
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

/// A fault in the section.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigFault {
    /// An address is invalid.
    #[error(
        "driver.restate.{key}: {value:?} is not a valid address; expected, for example, {example}"
    )]
    Address {
        /// The key, such as `ingress`.
        key: &'static str,
        /// The configured value, without user, password and query.
        value: String,
        /// A valid example.
        example: &'static str,
    },
    /// A time is so short that working steps would be given up.
    #[error("driver.restate.{key}: {value} milliseconds is too short; expected at least {least}")]
    TooShort {
        /// The key, such as `abort_ms`.
        key: &'static str,
        /// The configured value.
        value: u64,
        /// The minimum value.
        least: u64,
    },
    /// This machine cannot use HTTP, for instance because its certificates cannot be read.
    #[error("cannot create an HTTP client")]
    Client(#[source] reqwest::Error),
}

impl RestateConfig {
    /// Checks that the addresses are valid and that the times are long enough.
    ///
    /// # Errors
    ///
    /// A [`ConfigFault`] that names the first invalid key.
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
            if value < MIN_MS {
                let least = MIN_MS;
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

    /// Returns the address at which Restate is told to reach workers with this configuration; `None` if the operating
    /// system chooses their port.
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

/// Returns an address without user, password and query, so that it can be shown, even if it is not a valid URL.
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
    fn an_invalid_address_is_named_with_its_key() {
        RestateConfig::default().check().unwrap();
        let config = RestateConfig {
            admin: "localhost:9070".to_owned(),
            ..RestateConfig::default()
        };
        let fault = config.check().unwrap_err().to_string();
        assert_eq!(
            fault,
            "driver.restate.admin: \"localhost:9070\" is not a valid address; expected, for example, http://127.0.0.1:9070"
        );
    }

    #[test]
    fn secrets_of_an_address_are_not_shown() {
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
        assert!(
            fault.contains("\"***@host\" is not a valid address"),
            "{fault}"
        );
    }

    #[test]
    fn an_abort_time_too_short_for_any_step_is_refused() {
        let config = RestateConfig {
            abort_ms: 0,
            ..RestateConfig::default()
        };
        let fault = config.check().unwrap_err().to_string();
        assert_eq!(
            fault,
            "driver.restate.abort_ms: 0 milliseconds is too short; expected at least 100"
        );
    }

    #[test]
    fn workers_advertise_their_listen_address_by_default() {
        let mut config = RestateConfig::default();
        assert_eq!(config.advertised().unwrap(), "http://127.0.0.1:9080");
        config.listen.set_port(0);
        assert_eq!(config.advertised(), None);
        config.advertise = Some("http://workers:9080".to_owned());
        assert_eq!(config.advertised().unwrap(), "http://workers:9080");
    }
}
