//! A worker: the process in which Restate has runs driven.

use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use neuraxis_engine::Runs;
use restate_sdk::endpoint::Endpoint;
use restate_sdk::http_server::HttpServer;
use socket2::SockRef;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::admin::Restate;
use crate::config::{ConfigFault, RestateConfig};
use crate::object::SessionRuns;

/// The pause before a worker that could not be registered tries again, doubled each time.
const FIRST_PAUSE: Duration = Duration::from_millis(250);

/// The longest such pause.
const MAX_PAUSE: Duration = Duration::from_secs(15);

/// A worker that listens for Restate.
#[derive(Debug)]
pub struct Worker {
    listener: TcpListener,
    address: SocketAddr,
    /// Where Restate is told that it reaches the worker.
    advertised: String,
    restate: Restate,
    identity_key: Option<String>,
    runs: Runs,
}

/// Why there is no worker.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkerError {
    /// An address in the configuration is none.
    #[error(transparent)]
    Config(#[from] ConfigFault),
    /// The address cannot be listened on.
    #[error("cannot listen on {address} (driver.restate.listen)")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the operating system says.
        #[source]
        source: io::Error,
    },
    /// The key of the Restate that may call is none.
    #[error("driver.restate.identity_key: expected a key such as publickeyv1_…")]
    IdentityKey,
}

impl Worker {
    /// Listens, for runs of the engine that these are of: one without a dispatcher, on the store of those that hand runs over.
    ///
    /// # Errors
    ///
    /// A [`WorkerError`] that names the key of the configuration that cannot be used.
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
        // Connections have it from the socket that they came by. Without it each step takes the 40 milliseconds more that the
        // other side waits before it acknowledges what it was sent.
        let socket = SockRef::from(&listener);
        socket.set_tcp_nodelay(true).map_err(failed)?;
        let advertised = config.advertise.clone();
        Ok(Self {
            listener,
            address,
            advertised: advertised.unwrap_or_else(|| format!("http://{address}")),
            restate: Restate::new(config)?,
            identity_key: config.identity_key.clone(),
            runs,
        })
    }

    /// Returns the address that it listens on.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Registers and drives runs until a future is over: then it leaves them, free for other workers.
    pub async fn serve(self, until: impl Future<Output = ()>) {
        let stopping = CancellationToken::new();
        let sessions = SessionRuns::new(self.runs, stopping.clone());
        let mut endpoint = Endpoint::builder();
        if let Some(key) = &self.identity_key {
            // It was tried before, so that it is one.
            endpoint = match endpoint.identity_key(key) {
                Ok(endpoint) => endpoint,
                Err(_) => return,
            };
        }
        let registering = keep_registering(self.restate, self.advertised);
        let until = async {
            until.await;
            stopping.cancel();
        };
        let serving = HttpServer::new(endpoint.bind(sessions).build())
            .serve_with_cancel(self.listener, until);
        tokio::select! {
            () = serving => {}
            never = registering => match never {},
        }
    }
}

/// Registers a worker, as often as it takes, and then waits for ever.
async fn keep_registering(restate: Restate, advertised: String) -> std::convert::Infallible {
    let mut pause = FIRST_PAUSE;
    loop {
        match restate.register(&advertised).await {
            Ok(()) => break tracing::info!(address = advertised, "registered with Restate"),
            Err(error) => {
                let error: &(dyn Error + 'static) = &error;
                tracing::warn!(error, "not registered with Restate yet");
            }
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(MAX_PAUSE);
    }
    std::future::pending().await
}
