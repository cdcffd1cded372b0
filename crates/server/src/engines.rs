//! The engine that answers, and its replacement by another one while the server serves. New turns go to the new engine;
//! turns in progress stay where they are until they end.
//!
//! The engines share the store, so they relate to each other like two servers: a session is in use in one of them, and
//! a run of the former engine is steered and ended through the store by requests to the new one. The store sees them as
//! one process, so the new engine is built to know the former's runs. It leaves them to the former engine and shows
//! them as they happen ([`OrchestratorBuilder::replaces`]).
//!
//! [`OrchestratorBuilder::replaces`]: neuraxis::OrchestratorBuilder::replaces

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use neuraxis::Orchestrator;
use tokio::sync::{mpsc, oneshot, watch};

use crate::access::Access;
use crate::limits::{ClientLimits, ServerState};
use crate::mcp::McpClients;
use crate::routes::routes;
use crate::sweep::ExpirySweep;

/// How long turns in progress may continue in a replaced engine. The new engine then resumes the rest.
const GRACE: Duration = Duration::from_secs(60 * 60);

/// Replaces a server's engine while it serves. Clones refer to the same server.
#[derive(Debug, Clone)]
pub struct EngineReplacer(mpsc::Sender<Replacement>);

/// An engine that replaces another.
#[derive(Debug)]
pub(crate) struct Replacement {
    orchestrator: Orchestrator,
    limits: ClientLimits,
    /// Signals that the new engine takes all turns.
    in_service_sender: oneshot::Sender<()>,
    /// Signals that nothing is in progress in the former engine any more.
    former_idle_sender: oneshot::Sender<()>,
}

impl EngineReplacer {
    pub(crate) const fn new(server: mpsc::Sender<Replacement>) -> Self {
        Self(server)
    }

    /// Directs all turns from now on to an engine on the same store that was built to
    /// [replace](neuraxis::OrchestratorBuilder::replaces) the former one. The given limits apply to it, except
    /// [`max_runs`](ClientLimits::max_runs), which stays as it was. Completes as soon as the new engine takes turns.
    /// Returns a receiver that is notified once nothing is in progress in the former engine, at the latest after an
    /// hour. Returns `None` if the server has stopped and did not accept the engine.
    ///
    /// # Cancel safety
    ///
    /// If this is dropped, the engine may or may not take over.
    pub async fn replace(
        &self,
        orchestrator: Orchestrator,
        limits: ClientLimits,
    ) -> Option<oneshot::Receiver<()>> {
        let (in_service_sender, in_service) = oneshot::channel();
        let (former_idle_sender, former_idle) = oneshot::channel();
        let replacement = Replacement {
            orchestrator,
            limits,
            in_service_sender,
            former_idle_sender,
        };
        self.0.send(replacement).await.ok()?;
        in_service.await.ok()?;
        Some(former_idle)
    }
}

/// The engines of a server.
pub(crate) struct Engines {
    current: Orchestrator,
    clients: McpClients,
    expiry_sweep: ExpirySweep,
    /// The state of the current engine. The former engines share its permits, streams and followers.
    state: ServerState,
    access: Access,
    router: watch::Sender<Router>,
    /// Former engines in which runs may still be in progress.
    former: Arc<Mutex<Vec<(u64, Orchestrator, McpClients)>>>,
    replaced: u64,
}

impl Engines {
    pub(crate) fn new(orchestrator: Orchestrator, limits: &ClientLimits, access: Access) -> Self {
        let state = ServerState::new(orchestrator.clone(), limits, access.metrics.clone());
        let clients = McpClients::new(&state);
        let router = routes(state.clone(), &clients, access.clone());
        Self {
            expiry_sweep: ExpirySweep::start(orchestrator.clone(), access.metrics.clone()),
            current: orchestrator,
            clients,
            state,
            access,
            router: watch::Sender::new(router),
            former: Arc::default(),
            replaced: 0,
        }
    }

    /// Returns the router that answers requests, and its later replacements.
    pub(crate) fn router(&self) -> watch::Receiver<Router> {
        self.router.subscribe()
    }

    /// Replaces the engine that answers.
    pub(crate) fn replace(&mut self, replacement: Replacement) {
        let Replacement {
            orchestrator,
            limits,
            in_service_sender,
            former_idle_sender,
        } = replacement;
        self.state = self.state.with(orchestrator.clone(), &limits);
        let clients = self.clients.replaced(&self.state);
        let (state, access) = (self.state.clone(), self.access.clone());
        let router = routes(state, &clients, access);
        drop(self.router.send_replace(router));
        self.expiry_sweep = ExpirySweep::start(orchestrator.clone(), self.access.metrics.clone());
        let former = std::mem::replace(&mut self.current, orchestrator);
        let clients = std::mem::replace(&mut self.clients, clients);
        clients.stop_asking();
        // The receiver may have been dropped.
        let _ = in_service_sender.send(());
        self.replaced += 1;
        let (number, all) = (self.replaced, Arc::clone(&self.former));
        let mut list = all.lock().unwrap_or_else(PoisonError::into_inner);
        list.push((number, former.clone(), clients.clone()));
        drop(list);
        tokio::spawn(async move {
            for run in former.suspend(GRACE).await {
                tracing::info!(%run, "a run did not end in time; the new engine resumes it");
            }
            clients.end_streams();
            let mut list = all.lock().unwrap_or_else(PoisonError::into_inner);
            list.retain(|(other, ..)| *other != number);
            drop(list);
            // The receiver may have been dropped.
            let _ = former_idle_sender.send(());
        });
    }

    /// Returns everything that must be ended: the engines, and the clients of the Model Context Protocol.
    pub(crate) fn stop(self) -> (Vec<Orchestrator>, Vec<McpClients>) {
        drop(self.expiry_sweep);
        let mut former = self.former.lock().unwrap_or_else(PoisonError::into_inner);
        let former = former
            .drain(..)
            .map(|(_, engine, clients)| (engine, clients));
        let current = (self.current, self.clients);
        former.chain([current]).unzip()
    }
}
