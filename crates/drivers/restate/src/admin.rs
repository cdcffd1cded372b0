//! Restate as its admin API shows it: which workers are registered, where new runs go, and which invocations are cancelled.

use std::time::Duration;

use reqwest::{Client, RequestBuilder, Response, StatusCode, Url};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::config::{ConfigFault, RestateConfig, client, without_secrets};
use crate::deployment::{Deployment, Deployments, Discovered, FIRST, Service};
use crate::object::OBJECT;

/// How long a request may take. Registering has Restate ask the worker.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long workers may take until they are asked what they offer. One that stalls never answers.
const ALIVE_WITHIN: Duration = Duration::from_secs(3);

/// How much of what Restate says about a refusal is told, in characters.
const MAX_SAID: usize = 300;

/// The key of the configuration that says where the admin API is.
const ADMIN: &str = "driver.restate.admin";

/// A Restate, as seen by who runs it.
#[derive(Debug, Clone)]
pub struct Restate {
    client: Client,
    ingress: Url,
    admin: Url,
}

/// The workers that new runs go to.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Registered {
    /// By which Restate knows their address.
    pub deployment: String,
    /// How often what workers offer was registered anew.
    pub revision: u64,
    /// Where Restate reaches them.
    pub address: String,
    /// Of which build they said they are, when Restate asked; empty for builds that did not say so.
    pub build: String,
}

/// Why Restate cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdminError {
    /// It does not answer.
    #[error("Restate does not answer at {url} ({key})")]
    Unreachable {
        /// Where it was asked, without user and password.
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
        /// Where it was asked, without user and password.
        url: String,
        /// The status.
        status: u16,
        /// The text of its answer, at most 300 characters of it.
        said: String,
    },
    /// No worker was ever registered.
    #[error("no worker is registered with Restate: start `neuraxis-server worker`")]
    NoWorker,
    /// New runs go to workers that Restate does not reach.
    #[error("new runs go to workers at {address}, and none answers Restate there")]
    NoneAnswers {
        /// Where they should be.
        address: String,
    },
}

#[derive(Debug, Deserialize)]
struct Rows {
    rows: Vec<Cancelled>,
}

/// How often an invocation was cancelled.
#[derive(Debug, Deserialize)]
pub(crate) struct Cancelled {
    pub(crate) id: String,
    pub(crate) times: u64,
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

    /// Makes workers known that Restate reaches at an address, and has it ask what they offer, though it may have done so before.
    /// New runs go there from then on; those that began elsewhere go on there. Returns the build that answered.
    ///
    /// # Errors
    ///
    /// An [`AdminError`] if Restate does not answer, or cannot reach the address.
    pub async fn register(&self, address: &str) -> Result<String, AdminError> {
        let known = self.deployments().await?;
        let known = known.into_iter().find(|known| known.is_at(address));
        // What was registered first stays so, since who is the youngest is decided by it.
        let metadata = match known {
            Some(known) => json!({ FIRST: known.first() }),
            None => json!({}),
        };
        let asked = json!({ "uri": address, "force": true, "metadata": metadata });
        let url = at(&self.admin, &["deployments"]);
        let asked = self.client.post(url.clone()).json(&asked);
        let found: Discovered = read(asked.timeout(PATIENCE), &url).await?;
        let ours = found.services.iter().find(|service| service.name == OBJECT);
        Ok(ours.map(Service::build).unwrap_or_default())
    }

    /// Has Restate ask workers at an address what they offer, without changing anything. False if it does not reach them.
    pub(crate) async fn reaches(&self, address: &str) -> Result<bool, AdminError> {
        let asked = json!({ "uri": address, "force": true, "dry_run": true });
        let url = at(&self.admin, &["deployments"]);
        let asked = self.client.post(url.clone()).json(&asked);
        match accepted(asked.timeout(ALIVE_WITHIN).send().await, &url, ADMIN).await {
            Ok(_) => Ok(true),
            Err(AdminError::Refused { .. }) => Ok(false),
            // Restate waits for longer than this for somebody who stalls; if it is Restate that does, this says so.
            Err(AdminError::Unreachable { source, .. }) if source.is_timeout() => {
                let url = at(&self.admin, &["health"]);
                let asked = self.client.get(url.clone()).timeout(PATIENCE);
                accepted(asked.send().await, &url, ADMIN).await?;
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Looks whether runs can be handed over, and to whom they go: workers that live.
    ///
    /// # Errors
    ///
    /// An [`AdminError`] if Restate does not answer, no worker is registered, or none answers where new runs go.
    pub async fn check(&self) -> Result<Registered, AdminError> {
        let url = at(&self.ingress, &["restate", "health"]);
        let answer = self.client.get(url.clone()).timeout(PATIENCE).send().await;
        accepted(answer, &url, "driver.restate.ingress").await?;
        let (registered, _) = self.workers().await?;
        let registered = registered.ok_or(AdminError::NoWorker)?;
        match self.reaches(&registered.address).await? {
            true => Ok(registered),
            false => Err(AdminError::NoneAnswers {
                address: without_secrets(&registered.address),
            }),
        }
    }

    /// Returns where new runs go and all addresses of workers that Restate knows; `None` and none if no worker was ever registered.
    pub(crate) async fn workers(
        &self,
    ) -> Result<(Option<Registered>, Vec<Deployment>), AdminError> {
        let url = at(&self.admin, &["services", OBJECT]);
        let answer = self.client.get(url.clone()).timeout(PATIENCE).send().await;
        if matches!(&answer, Ok(answer) if answer.status() == StatusCode::NOT_FOUND) {
            return Ok((None, Vec::new()));
        }
        let service: Service = understood(accepted(answer, &url, ADMIN).await?, &url).await?;
        let known = self.deployments().await?;
        let latest = known.iter().find(|it| it.id == service.deployment_id);
        // One that was removed in between is as one that was never there.
        let latest = latest.map(|latest| Registered {
            build: service.build(),
            deployment: service.deployment_id,
            revision: service.revision,
            address: latest.uri.clone(),
        });
        Ok((latest, known))
    }

    async fn deployments(&self) -> Result<Vec<Deployment>, AdminError> {
        let url = at(&self.admin, &["deployments"]);
        let asked = self.client.get(url.clone()).timeout(PATIENCE);
        let found: Deployments = read(asked, &url).await?;
        Ok(found.deployments)
    }

    /// Returns which of these invocations somebody cancelled, and how often.
    pub(crate) async fn cancelled(&self, ids: &[String]) -> Result<Vec<Cancelled>, AdminError> {
        // They are Restate's own, of letters and digits; anything else would be another query.
        let is_id = |id: &&String| id.chars().all(|it| it.is_ascii_alphanumeric() || it == '_');
        let ids: Vec<_> = ids
            .iter()
            .filter(is_id)
            .map(|id| format!("'{id}'"))
            .collect();
        let query = format!(
            "SELECT id, count(*) AS times FROM sys_journal WHERE id IN ({}) \
             AND entry_type = 'Notification: Signal' AND entry_lite_json LIKE '%\"SignalIndex\":1}}%' GROUP BY id",
            ids.join(", ")
        );
        let url = at(&self.admin, &["query"]);
        let asked = self
            .client
            .post(url.clone())
            .json(&json!({ "query": query }));
        let asked = asked.header("accept", "application/json").timeout(PATIENCE);
        let found: Rows = read(asked, &url).await?;
        Ok(found.rows)
    }
}

/// Returns the address of a path below a base.
pub(crate) fn at(base: &Url, path: &[&str]) -> Url {
    let mut url = base.clone();
    // An address with a host can hold segments.
    if let Ok(mut segments) = url.path_segments_mut() {
        segments.pop_if_empty().extend(path);
    }
    url
}

/// Asks the admin API, and reads its answer.
async fn read<T: DeserializeOwned>(asked: RequestBuilder, url: &Url) -> Result<T, AdminError> {
    let answer = accepted(asked.send().await, url, ADMIN).await?;
    understood(answer, url).await
}

async fn understood<T: DeserializeOwned>(answer: Response, url: &Url) -> Result<T, AdminError> {
    let read = answer.json().await;
    read.map_err(|source| AdminError::Unreachable {
        url: without_secrets(url.as_str()),
        key: ADMIN,
        source,
    })
}

async fn accepted(
    answer: Result<Response, reqwest::Error>,
    url: &Url,
    key: &'static str,
) -> Result<Response, AdminError> {
    let answer = answer.map_err(|source| AdminError::Unreachable {
        url: without_secrets(url.as_str()),
        key,
        source,
    })?;
    let status = answer.status();
    if status.is_success() {
        return Ok(answer);
    }
    Err(AdminError::Refused {
        url: without_secrets(url.as_str()),
        status: status.as_u16(),
        said: said(answer).await,
    })
}

/// Returns the beginning of what an answer says: it may be the page of another server.
pub(crate) async fn said(answer: Response) -> String {
    let said = answer.text().await.unwrap_or_default();
    said.chars().take(MAX_SAID).collect()
}

#[cfg(test)]
mod tests {
    use neuraxis_testkit::{WebAnswer, WebRequest, WebSite};

    use super::*;

    #[tokio::test]
    async fn of_the_page_of_another_server_the_beginning_is_told() {
        let page = |_: &WebRequest| WebAnswer::page("x".repeat(10_000)).with_status(403);
        let config = RestateConfig {
            admin: WebSite::start(page).await.url("/"),
            ..RestateConfig::default()
        };
        let restate = Restate::new(&config).unwrap();
        let error = restate.workers().await.unwrap_err();
        assert!(
            matches!(&error, AdminError::Refused { status: 403, said, .. } if said.len() == 300),
            "{error}"
        );
    }

    #[tokio::test]
    async fn no_password_of_an_address_stands_in_an_error() {
        let config = RestateConfig {
            admin: "http://me:hunter2@127.0.0.1:1".to_owned(),
            ..RestateConfig::default()
        };
        let restate = Restate::new(&config).unwrap();
        let error = restate.workers().await.unwrap_err();
        let text = format!("{error}: {error:?}");
        let told = "http://***@127.0.0.1:1/services/NeuraxisSession";
        assert!(text.contains(told) && !text.contains("hunter2"), "{text}");
    }
}
