//! A worker: a process that drives runs when Restate calls it.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use neuraxis_engine::Runs;
use restate_sdk::endpoint::{Endpoint, ServiceOptions};
use restate_sdk::http_server::HttpServer;
use restate_sdk::service::IntoServiceDefinition;
use socket2::SockRef;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::admin::Restate;
use crate::config::{ConfigFault, RestateConfig};
use crate::deployment::BUILD;
use crate::object::SessionRuns;
use crate::registration::Registration;

/// The version of what workers offer to Restate: their handlers, the types of those, and how often they are retried.
/// Increase it with every change of these.
const OFFER_VERSION: u32 = 3;

/// How often a worker checks whether something was posted to the runs that it drives.
const INBOX_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// A worker that listens for Restate.
#[derive(Debug)]
pub struct Worker {
    listener: TcpListener,
    address: SocketAddr,
    config: RestateConfig,
    restate: Restate,
    runs: Runs,
}

/// Why a worker cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkerError {
    /// An address in the configuration is invalid.
    #[error(transparent)]
    Config(#[from] ConfigFault),
    /// The address cannot be listened on.
    #[error("cannot listen on {address} (driver.restate.listen)")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The operating system's error.
        #[source]
        source: io::Error,
    },
    /// The configured key of the Restate server that may call is invalid.
    #[error("driver.restate.identity_key: expected a key such as publickeyv1_…")]
    IdentityKey,
}

impl Worker {
    /// Listens for Restate, to drive runs of the engine behind `runs`. That engine must have no dispatcher, and must
    /// use the same store as the servers that hand runs over.
    ///
    /// # Errors
    ///
    /// A [`WorkerError`] that names the unusable configuration key.
    pub async fn bind(config: &RestateConfig, runs: Runs) -> Result<Self, WorkerError> {
        config.check()?;
        if let Some(key) = &config.identity_key
            && Endpoint::builder().identity_key(key).is_err()
        {
            return Err(WorkerError::IdentityKey);
        }
        let failed = |source| WorkerError::Listen {
            address: config.listen,
            source,
        };
        let listener = TcpListener::bind(config.listen).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        // Accepted connections inherit this from the listening socket. Without it, each step takes 40 milliseconds
        // longer, because the other side waits before it acknowledges data.
        let socket = SockRef::from(&listener);
        socket.set_tcp_nodelay(true).map_err(failed)?;
        Ok(Self {
            listener,
            address,
            config: config.clone(),
            restate: Restate::new(config)?,
            runs,
        })
    }

    /// Returns the address that the worker listens on.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Registers and drives runs until a future completes. Then it leaves the runs to other workers.
    pub async fn serve(self, until: impl Future<Output = ()>) {
        let stopping = CancellationToken::new();
        let refused_for = Duration::from_millis(self.config.refuse_ms);
        let sessions = SessionRuns::new(self.runs.clone(), stopping.clone(), refused_for);
        let watching = sessions.steps_in_progress().watch(self.restate.clone());
        let mut endpoint = Endpoint::builder();
        if let Some(key) = &self.config.identity_key {
            // The key was checked in `bind`, so it is valid.
            endpoint = match endpoint.identity_key(key) {
                Ok(endpoint) => endpoint,
                Err(_) => return,
            };
        }
        let registration = self.registration();
        let options = ServiceOptions::new()
            .inactivity_timeout(Duration::from_millis(self.config.inactivity_ms))
            .abort_timeout(Duration::from_millis(self.config.abort_ms))
            .metadata(BUILD, &registration.build);
        let sessions = sessions.into_service_definition().options(options);
        let until = async {
            until.await;
            stopping.cancel();
        };
        let serving = HttpServer::new(endpoint.bind(sessions).build())
            .serve_with_cancel(self.listener, until);
        tokio::select! {
            () = serving => {}
            never = registration.maintain() => match never {},
            never = watching => match never {},
            () = self.runs.keep_checking_inboxes(INBOX_CHECK_INTERVAL) => {}
            () = self.runs.keep_live_exchange() => {}
        }
    }

    fn registration(&self) -> Registration {
        let config = &self.config;
        let advertised = config.advertise.clone();
        Registration {
            restate: self.restate.clone(),
            address: advertised.unwrap_or_else(|| format!("http://{}", self.address)),
            build: format!(
                "{} {OFFER_VERSION} {} {}",
                env!("CARGO_PKG_VERSION"),
                config.inactivity_ms,
                config.abort_ms
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use neuraxis_core::Role;
    use neuraxis_engine::Orchestrator;
    use neuraxis_memory::MemoryStore;
    use neuraxis_testkit::ScriptedModel;

    use super::*;

    /// The URL of a Restate server that is not running.
    const NOBODY: &str = "http://127.0.0.1:1";

    /// Sends requests to a worker without a signature, and returns the statuses of its answers.
    async fn statuses<const N: usize>(identity_key: Option<&str>, paths: [&str; N]) -> [u16; N] {
        let config = RestateConfig {
            ingress: NOBODY.to_owned(),
            admin: NOBODY.to_owned(),
            listen: "127.0.0.1:0".parse().unwrap(),
            identity_key: identity_key.map(str::to_owned),
            ..RestateConfig::default()
        };
        let engine = Orchestrator::builder()
            .model(Role::REASONING, Arc::new(ScriptedModel::new()))
            .store(Arc::new(MemoryStore::new()))
            .build()
            .unwrap();
        let worker = Worker::bind(&config, engine.runs()).await.unwrap();
        let address = worker.address();
        let working = tokio::spawn(worker.serve(std::future::pending()));
        // The worker speaks only HTTP/2.
        let client = reqwest::Client::builder().no_proxy();
        let client = client.http2_prior_knowledge().build().unwrap();
        let mut statuses = [0; N];
        for (status, path) in statuses.iter_mut().zip(paths) {
            let answer = client.post(format!("http://{address}{path}")).send().await;
            *status = answer.unwrap().status().as_u16();
        }
        working.abort();
        statuses
    }

    #[tokio::test]
    async fn requests_not_signed_with_the_configured_restate_key_are_refused() {
        let key = "publickeyv1_w7YHemBctH5Ck2nQRQ47iBBqhNHy4FV7t2Usbye2A6f";
        let paths = ["/health", "/discover", "/invoke/NeuraxisSession/drive"];
        assert_eq!(statuses(Some(key), paths).await, [401; 3]);
        assert_eq!(statuses(None, ["/health"]).await, [200]);
    }
}
