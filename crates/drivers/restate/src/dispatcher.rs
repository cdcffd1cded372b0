//! Hands runs over to Restate, through its ingress.

use std::time::Duration;

use neuraxis_core::{RunId, SessionId};
use neuraxis_ports::{DispatchError, RunDispatcher, async_trait};
use reqwest::{Client, RequestBuilder, Response, Url};
use serde::Deserialize;

use crate::admin::{at, beginning};
use crate::config::{ConfigFault, RestateConfig, client};
use crate::object::{OBJECT, Ticket, WakeRequest};

/// The time limit for one request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// Hands runs over to the workers that are registered with Restate.
///
/// A run is an invocation with the run's own id, so a run that is dispatched twice is invoked only once. The second
/// time, it is signaled to look into its inbox, or to notice that the run has ended.
#[derive(Debug, Clone)]
pub struct RestateDispatcher {
    client: Client,
    ingress: Url,
}

/// The ingress's answer to an accepted call.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SendResponse {
    invocation_id: String,
    status: Status,
}

#[derive(Debug, Deserialize, PartialEq, Eq)]
enum Status {
    Accepted,
    PreviouslyAccepted,
}

impl RestateDispatcher {
    /// Creates a dispatcher for the ingress of a configuration. Sends nothing yet.
    ///
    /// # Errors
    ///
    /// A [`ConfigFault`] if the ingress address is invalid.
    pub fn new(config: &RestateConfig) -> Result<Self, ConfigFault> {
        Ok(Self {
            client: client()?,
            ingress: config.ingress_url()?,
        })
    }

    /// Prepares a call of a session's object whose result is not awaited.
    fn send(&self, session: &SessionId, handler: &str) -> RequestBuilder {
        let path = ["restate", "send", OBJECT, session.as_str(), handler];
        let url = at(&self.ingress, &path);
        self.client.post(url).timeout(REQUEST_TIMEOUT)
    }
}

#[async_trait]
impl RunDispatcher for RestateDispatcher {
    async fn dispatch(&self, session: &SessionId, run: RunId) -> Result<(), DispatchError> {
        let drive = self.send(session, "drive").json(&Ticket { run });
        let drive = drive.header("idempotency-key", run.to_string());
        let response: SendResponse = answered(drive).await?.json().await.map_err(|error| {
            DispatchError::new("cannot parse the answer of Restate's ingress").caused_by(error)
        })?;
        if response.status == Status::PreviouslyAccepted {
            let wake = WakeRequest {
                invocation: response.invocation_id,
                run: Some(run),
            };
            answered(self.send(session, "wake").json(&wake)).await?;
        }
        Ok(())
    }
}

async fn answered(request: RequestBuilder) -> Result<Response, DispatchError> {
    let answer = request.send().await.map_err(|error| {
        DispatchError::new("cannot reach Restate's ingress (driver.restate.ingress)")
            .caused_by(error)
    })?;
    let status = answer.status();
    if status.is_success() {
        return Ok(answer);
    }
    let said = beginning(answer).await;
    Err(DispatchError::new(match status.as_u16() {
        404 => {
            format!("no worker is registered with Restate; start `neuraxis-server worker` ({said})")
        }
        _ => format!("Restate's ingress answered {status}: {said}"),
    }))
}
