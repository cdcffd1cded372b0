//! The server: accepts connections, and closes them in an orderly way.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;

use axum::serve::Listener;
use futures_util::future::join_all;
use hyper_util::server::graceful::GracefulShutdown;
use neuraxis::Orchestrator;
use neuraxis_app::AccessLog;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::time::{sleep, timeout};

use crate::access::Access;
use crate::address::ListenAddress;
use crate::connection::{Accepted, Connection, Scheme};
use crate::engines::{EngineReplacer, Engines, Replacement};
use crate::limits::ClientLimits;
use crate::metrics::Metrics;
use crate::shutdown::SHUTDOWN;
use crate::stop::Stop;
use crate::tls::Tls;

/// The maximum number of connections; further ones wait to be accepted.
const MAX_CONNECTIONS: usize = 8_192;

/// A server that is listening.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    orchestrator: Orchestrator,
    limits: ClientLimits,
    metrics: Metrics,
    access_log: Option<AccessLog>,
    tls: Option<Tls>,
    replacements: (mpsc::Sender<Replacement>, mpsc::Receiver<Replacement>),
}

/// The error when a server cannot listen on its address.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}")]
#[non_exhaustive]
pub struct BindError {
    /// The address.
    pub address: ListenAddress,
    /// The operating system's error.
    #[source]
    pub source: io::Error,
}

/// Some runs neither ended nor were left in time when the server stopped, so their last actions may not be on record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("some runs neither ended nor were suspended in time, and were abandoned")]
#[non_exhaustive]
pub struct Unfinished;

impl Server {
    /// Starts to listen. Clients can connect from now on; [`serve`](Self::serve) answers them.
    ///
    /// # Errors
    ///
    /// Returns a [`BindError`], for example if the port is taken.
    pub async fn bind(
        address: ListenAddress,
        orchestrator: Orchestrator,
    ) -> Result<Self, BindError> {
        let refused = |source| BindError { address, source };
        let listener = TcpListener::bind(address.socket_address())
            .await
            .map_err(refused)?;
        Ok(Self {
            address: listener.local_addr().map_err(refused)?,
            listener,
            orchestrator,
            limits: ClientLimits::default(),
            metrics: Metrics::default(),
            access_log: None,
            tls: None,
            replacements: mpsc::channel(1),
        })
    }

    /// Sets what clients may use. The default is [`ClientLimits::default`].
    #[must_use]
    pub fn with_limits(mut self, limits: ClientLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Counts with these metrics. By default, new ones are created.
    #[must_use]
    pub fn with_metrics(mut self, metrics: Metrics) -> Self {
        self.metrics = metrics;
        self
    }

    /// Writes a line of the access log for each answer. By default, the lines are written at level `debug`.
    #[must_use]
    pub const fn with_access_log(mut self, log: Option<AccessLog>) -> Self {
        self.access_log = log;
        self
    }

    /// Serves TLS connections only. By default, connections are not encrypted.
    #[must_use]
    pub fn with_tls(mut self, tls: Tls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// Returns a handle that replaces this server's engine while it serves.
    #[must_use]
    pub fn engine_replacer(&self) -> EngineReplacer {
        EngineReplacer::new(self.replacements.0.clone())
    }

    const fn scheme(&self) -> Scheme {
        match self.tls {
            Some(_) => Scheme::Https,
            None => Scheme::Http,
        }
    }

    /// Returns the server's URL, with the actual port.
    #[must_use]
    pub fn url(&self) -> String {
        format!("{}{}", self.scheme().prefix(), self.address)
    }

    /// Answers requests until `stop` completes. Then the server accepts no new connections, ends or leaves all runs as
    /// `stop` says, and gives clients a moment to receive the outcome.
    ///
    /// # Errors
    ///
    /// Returns [`Unfinished`] if runs had to be abandoned.
    pub async fn serve(self, stop: impl Future<Output = Stop>) -> Result<(), Unfinished> {
        let scheme = self.scheme();
        let Self {
            mut listener,
            orchestrator,
            limits,
            metrics,
            access_log,
            tls,
            replacements: (_sender, mut replacements),
            ..
        } = self;
        if let Some(tls) = &tls {
            metrics.show_expiry_of(tls.clone());
        }
        let access = Access {
            log: access_log,
            metrics,
        };
        let mut engines = Engines::new(orchestrator, &limits, access);
        let permits = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let graceful = GracefulShutdown::new();
        let mut stop = pin!(stop);
        let how = loop {
            tokio::select! {
                (stream, peer, permit) = next(&mut listener, &permits) => {
                    let accepted = Accepted {
                        router: engines.router(),
                        connection: Connection::new(peer.ip(), scheme),
                        watcher: graceful.watcher(),
                        permit,
                    };
                    tokio::spawn(accepted.begin(stream, tls.clone()));
                }
                Some(replacement) = replacements.recv() => engines.replace(replacement),
                how = &mut stop => break how,
            }
        };
        let (runs_ended_sender, runs_ended) = oneshot::channel();
        let (orchestrators, clients) = engines.stop();
        // In this order: a client that cannot connect any more can rely on no new run starting.
        let (ended, (), ()) = tokio::join!(
            async {
                let ended = join_all(orchestrators.iter().map(|each| end(each, how))).await;
                for clients in clients {
                    clients.end_streams();
                }
                // `drain_connections` waits for this, and continues too if the sender is dropped.
                let _ = runs_ended_sender.send(());
                ended.into_iter().collect()
            },
            async { drop(listener) },
            drain_connections(graceful, runs_ended),
        );
        ended
    }
}

/// Ends all runs, or gives them time to end and leaves those that do not.
async fn end(orchestrator: &Orchestrator, how: Stop) -> Result<(), Unfinished> {
    let ended = match how {
        Stop::Cancel => timeout(SHUTDOWN.recording, orchestrator.shutdown()).await,
        Stop::Drain => {
            let within = SHUTDOWN.grace + SHUTDOWN.leaving;
            let left = timeout(within, orchestrator.suspend(SHUTDOWN.grace)).await;
            left.map(|left| {
                for run in left {
                    tracing::info!(%run, "a run did not end in time; the next server resumes it");
                }
            })
        }
    };
    ended.map_err(|_| Unfinished)
}

/// Closes idle connections, and others once they have sent their remaining data or some time after all runs have ended.
async fn drain_connections(graceful: GracefulShutdown, runs_ended: oneshot::Receiver<()>) {
    let patience = async {
        // The runs have ended whether the sender was used or dropped.
        let _ = runs_ended.await;
        sleep(SHUTDOWN.draining).await;
    };
    tokio::select! {
        () = graceful.shutdown() => {}
        () = patience => {
            tracing::warn!("some clients did not read the rest of their answers in time");
        }
    }
}

/// Waits for a free connection slot, then for the next connection.
async fn next(
    listener: &mut TcpListener,
    permits: &Arc<Semaphore>,
) -> (TcpStream, SocketAddr, Option<OwnedSemaphorePermit>) {
    // The semaphore is never closed.
    let permit = Arc::clone(permits).acquire_owned().await.ok();
    // This axum implementation survives running out of file descriptors.
    let (stream, peer) = Listener::accept(listener).await;
    (stream, peer, permit)
}
