//! Restate through its admin API: registered workers, where new runs go, and cancelled invocations.

use std::time::Duration;

use reqwest::{Client, RequestBuilder, Response, StatusCode, Url};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::config::{ConfigFault, RestateConfig, client, without_secrets};
use crate::deployment::{Deployment, Deployments, Discovered, FIRST, Service};
use crate::object::OBJECT;

/// The time limit for a request. Registering includes a request from Restate to the worker.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// The time limit for workers to report what they offer. A stalled worker never answers.
const PROBE_TIMEOUT: Duration = Duration::from_secs(3);

/// The maximum length, in characters, of Restate's reason for a refusal that is shown.
const MAX_ERROR_CHARS: usize = 300;

/// The configuration key of the admin API's address.
const ADMIN: &str = "driver.restate.admin";

/// A Restate server, from an operator's point of view.
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
    /// The id by which Restate knows their address.
    pub deployment: String,
    /// How often the workers' offer was registered again.
    pub revision: u64,
    /// The address at which Restate reaches them.
    pub address: String,
    /// The build that they reported when Restate asked; empty for builds that do not report one.
    pub build: String,
}

/// Why Restate cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdminError {
    /// Restate does not answer.
    #[error("Restate does not respond at {url} ({key})")]
    Unreachable {
        /// The URL that was called, without user and password.
        url: String,
        /// The configuration key of the address.
        key: &'static str,
        /// Why there was no answer, or none that could be parsed.
        #[source]
        source: reqwest::Error,
    },
    /// Restate answers with an error status.
    #[error("Restate at {url} refused the request: {status}: {said}")]
    Refused {
        /// The URL that was called, without user and password.
        url: String,
        /// The status.
        status: u16,
        /// The text of its answer, up to 300 characters.
        said: String,
    },
    /// No worker was ever registered.
    #[error("no worker is registered with Restate; start `neuraxis-server worker`")]
    NoWorker,
    /// New runs go to workers that Restate cannot reach.
    #[error("new runs go to workers at {address}, but Restate cannot reach any there")]
    NoneAnswers {
        /// The address of those workers.
        address: String,
    },
}

#[derive(Debug, Deserialize)]
struct Rows {
    rows: Vec<Cancelled>,
}

/// An invocation and how often it was cancelled.
#[derive(Debug, Deserialize)]
pub(crate) struct Cancelled {
    pub(crate) id: String,
    pub(crate) times: u64,
}

impl Restate {
    /// Creates a client for the Restate server of a configuration. Sends nothing yet.
    ///
    /// # Errors
    ///
    /// A [`ConfigFault`] if an address is invalid.
    pub fn new(config: &RestateConfig) -> Result<Self, ConfigFault> {
        Ok(Self {
            client: client()?,
            ingress: config.ingress_url()?,
            admin: config.admin_url()?,
        })
    }

    /// Registers the workers that Restate reaches at an address, and makes Restate ask them what they offer, even if it
    /// has asked before. From then on, new runs go there; runs that began elsewhere continue there. Returns the build
    /// that answered.
    ///
    /// # Errors
    ///
    /// An [`AdminError`] if Restate does not answer or cannot reach the address.
    pub async fn register(&self, address: &str) -> Result<String, AdminError> {
        let known = self.deployments().await?;
        let known = known.into_iter().find(|known| known.is_at(address));
        // Keeps the time of the first registration, which decides which address is the youngest.
        let metadata = match known {
            Some(known) => json!({ FIRST: known.first() }),
            None => json!({}),
        };
        let body = json!({ "uri": address, "force": true, "metadata": metadata });
        let url = at(&self.admin, &["deployments"]);
        let request = self.client.post(url.clone()).json(&body);
        let found: Discovered = read(request.timeout(REQUEST_TIMEOUT), &url).await?;
        let ours = found.services.iter().find(|service| service.name == OBJECT);
        Ok(ours.map(Service::build).unwrap_or_default())
    }

    /// Makes Restate ask the workers at an address what they offer, without changing anything. Returns `false` if
    /// Restate cannot reach them.
    pub(crate) async fn reaches(&self, address: &str) -> Result<bool, AdminError> {
        let body = json!({ "uri": address, "force": true, "dry_run": true });
        let url = at(&self.admin, &["deployments"]);
        let request = self.client.post(url.clone()).json(&body);
        match accepted(request.timeout(PROBE_TIMEOUT).send().await, &url, ADMIN).await {
            Ok(_) => Ok(true),
            Err(AdminError::Refused { .. }) => Ok(false),
            // Restate waits longer than this for a stalled worker. If Restate itself stalls, this request returns the
            // error.
            Err(AdminError::Unreachable { source, .. }) if source.is_timeout() => {
                let url = at(&self.admin, &["health"]);
                let request = self.client.get(url.clone()).timeout(REQUEST_TIMEOUT);
                accepted(request.send().await, &url, ADMIN).await?;
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Checks that runs can be handed over and that the workers that new runs go to are alive. Returns those workers.
    ///
    /// # Errors
    ///
    /// An [`AdminError`] if Restate does not answer, no worker is registered, or none answers where new runs go.
    pub async fn check(&self) -> Result<Registered, AdminError> {
        let url = at(&self.ingress, &["restate", "health"]);
        let answer = self
            .client
            .get(url.clone())
            .timeout(REQUEST_TIMEOUT)
            .send()
            .await;
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

    /// Returns where new runs go, and all addresses of workers that Restate knows; `None` and an empty list if no
    /// worker was ever registered.
    pub(crate) async fn workers(
        &self,
    ) -> Result<(Option<Registered>, Vec<Deployment>), AdminError> {
        let url = at(&self.admin, &["services", OBJECT]);
        let answer = self
            .client
            .get(url.clone())
            .timeout(REQUEST_TIMEOUT)
            .send()
            .await;
        if matches!(&answer, Ok(answer) if answer.status() == StatusCode::NOT_FOUND) {
            return Ok((None, Vec::new()));
        }
        let service: Service = parsed(accepted(answer, &url, ADMIN).await?, &url).await?;
        let known = self.deployments().await?;
        let latest = known.iter().find(|it| it.id == service.deployment_id);
        // An address that was removed in between is treated as if it had never been registered.
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
        let request = self.client.get(url.clone()).timeout(REQUEST_TIMEOUT);
        let found: Deployments = read(request, &url).await?;
        Ok(found.deployments)
    }

    /// Returns which of these invocations were cancelled, and how often.
    pub(crate) async fn cancelled(&self, ids: &[String]) -> Result<Vec<Cancelled>, AdminError> {
        // Restate's own ids consist of letters, digits and `_`; any other character would change the query.
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
        let request = self
            .client
            .post(url.clone())
            .json(&json!({ "query": query }));
        let request = request
            .header("accept", "application/json")
            .timeout(REQUEST_TIMEOUT);
        let found: Rows = read(request, &url).await?;
        Ok(found.rows)
    }
}

/// Returns the URL of a path below a base.
pub(crate) fn at(base: &Url, path: &[&str]) -> Url {
    let mut url = base.clone();
    // A URL with a host always has path segments.
    if let Ok(mut segments) = url.path_segments_mut() {
        segments.pop_if_empty().extend(path);
    }
    url
}

/// Sends a request to the admin API, and reads its answer.
async fn read<T: DeserializeOwned>(request: RequestBuilder, url: &Url) -> Result<T, AdminError> {
    let answer = accepted(request.send().await, url, ADMIN).await?;
    parsed(answer, url).await
}

async fn parsed<T: DeserializeOwned>(answer: Response, url: &Url) -> Result<T, AdminError> {
    let parsed = answer.json().await;
    parsed.map_err(|source| AdminError::Unreachable {
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
        said: beginning(answer).await,
    })
}

/// Returns the beginning of an answer's text, which may be the page of a different server.
pub(crate) async fn beginning(answer: Response) -> String {
    let text = answer.text().await.unwrap_or_default();
    text.chars().take(MAX_ERROR_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use neuraxis_testkit::{WebAnswer, WebRequest, WebSite};

    use super::*;

    #[tokio::test]
    async fn an_error_page_of_another_server_is_truncated() {
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
    async fn errors_do_not_reveal_the_password_of_an_address() {
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
