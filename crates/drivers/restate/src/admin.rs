//! Restate as its admin API shows it: where workers are registered.

use std::time::Duration;

use reqwest::{Client, Response, StatusCode, Url};
use serde::{Deserialize, Serialize};

use crate::config::{ConfigFault, RestateConfig, client};
use crate::object::OBJECT;

/// How long a request may take. Registering has Restate ask the worker.
const PATIENCE: Duration = Duration::from_secs(10);

/// A Restate, as seen by who runs it.
#[derive(Debug, Clone)]
pub struct Restate {
    client: Client,
    ingress: Url,
    admin: Url,
}

/// The workers that new runs go to.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct Registered {
    /// By which Restate knows their address.
    #[serde(rename = "deployment_id")]
    pub deployment: String,
    /// How often what workers offer was registered anew.
    pub revision: u64,
}

/// Why Restate cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdminError {
    /// It does not answer.
    #[error("Restate does not answer at {url} ({key})")]
    Unreachable {
        /// Where it was asked.
        url: String,
        /// The configuration key that says so.
        key: &'static str,
        /// Why there was no answer, or none that is understood.
        #[source]
        source: reqwest::Error,
    },
    /// It answers with a status that is none of success.
    #[error("Restate refuses at {url}: {status}: {said}")]
    Refused {
        /// Where it was asked.
        url: String,
        /// The status.
        status: u16,
        /// The text of its answer.
        said: String,
    },
    /// No worker was ever registered.
    #[error("no worker is registered with Restate: start `neuraxis-server worker`")]
    NoWorker,
}

#[derive(Debug, Serialize)]
struct Deployment<'a> {
    uri: &'a str,
}

impl Restate {
    /// Reaches Restate as a configuration says. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// A [`ConfigFault`] if an address is none.
    pub fn new(config: &RestateConfig) -> Result<Self, ConfigFault> {
        Ok(Self {
            client: client()?,
            ingress: config.ingress_url()?,
            admin: config.admin_url()?,
        })
    }

    /// Makes workers known that Restate reaches at an address. New runs go there from then on; those that began elsewhere go
    /// on there. An address that is known already stays as it is.
    ///
    /// # Errors
    ///
    /// An [`AdminError`] if Restate does not answer, or cannot reach the address.
    pub async fn register(&self, uri: &str) -> Result<(), AdminError> {
        let url = at(&self.admin, &["deployments"]);
        let asked = self.client.post(url.clone()).json(&Deployment { uri });
        let answer = asked.timeout(PATIENCE).send().await;
        accepted(answer, &url, "driver.restate.admin").await?;
        Ok(())
    }

    /// Looks whether runs can be handed over, and to whom they go.
    ///
    /// # Errors
    ///
    /// An [`AdminError`] if Restate does not answer, or no worker is registered.
    pub async fn check(&self) -> Result<Registered, AdminError> {
        let url = at(&self.ingress, &["restate", "health"]);
        let answer = self.client.get(url.clone()).timeout(PATIENCE).send().await;
        accepted(answer, &url, "driver.restate.ingress").await?;
        let url = at(&self.admin, &["services", OBJECT]);
        let key = "driver.restate.admin";
        let answer = self.client.get(url.clone()).timeout(PATIENCE).send().await;
        if matches!(&answer, Ok(answer) if answer.status() == StatusCode::NOT_FOUND) {
            return Err(AdminError::NoWorker);
        }
        let answer = accepted(answer, &url, key).await?;
        answer
            .json()
            .await
            .map_err(|source| AdminError::Unreachable {
                url: url.into(),
                key,
                source,
            })
    }
}

fn at(base: &Url, path: &[&str]) -> Url {
    let mut url = base.clone();
    // An address with a host can hold segments.
    if let Ok(mut segments) = url.path_segments_mut() {
        segments.pop_if_empty().extend(path);
    }
    url
}

async fn accepted(
    answer: Result<Response, reqwest::Error>,
    url: &Url,
    key: &'static str,
) -> Result<Response, AdminError> {
    let answer = answer.map_err(|source| AdminError::Unreachable {
        url: url.to_string(),
        key,
        source,
    })?;
    let status = answer.status();
    if status.is_success() {
        return Ok(answer);
    }
    Err(AdminError::Refused {
        url: url.to_string(),
        status: status.as_u16(),
        said: answer.text().await.unwrap_or_default(),
    })
}
