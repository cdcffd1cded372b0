//! The engine that answers, and another put in its place while the server serves: new turns are the new one's, and turns at
//! work stay where they are until they have ended.
//!
//! Both share the store, so that to each other they are what two servers are: a session is at work in one of them, a run of
//! the former is steered and ended at the new one by way of the store. The store takes them for one process, so the new one is
//! built to know the former's runs, leaves them to it, and shows them as they happen ([`OrchestratorBuilder::replaces`]).
//!
//! [`OrchestratorBuilder::replaces`]: neuraxis::OrchestratorBuilder::replaces

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use neuraxis::Orchestrator;
use tokio::sync::{mpsc, oneshot, watch};

use crate::access::Access;
use crate::limits::{Limited, Limits};
use crate::mcp::McpClients;
use crate::routes::routes;
use crate::sweep::Sweeping;

/// How long turns at work may go on in an engine that was replaced; what is left then, the new one goes on with.
const GRACE: Duration = Duration::from_secs(60 * 60);

/// Puts another engine in the place of a server's while it serves. Cloning shares the server.
#[derive(Debug, Clone)]
pub struct Replacing(mpsc::Sender<Replacement>);

/// Another engine.
#[derive(Debug)]
pub(crate) struct Replacement {
    orchestrator: Orchestrator,
    limits: Limits,
    /// Told once it takes all turns.
    is_taken: oneshot::Sender<()>,
    /// Told once nothing is at work in the former engine.
    is_over: oneshot::Sender<()>,
}

impl Replacing {
    pub(crate) const fn new(server: mpsc::Sender<Replacement>) -> Self {
        Self(server)
    }

    /// Lets an engine on the same store take all turns from now on, built to
    /// [replace](neuraxis::OrchestratorBuilder::replaces) the former one, within these limits but for
    /// [`max_runs`](Limits::max_runs), which stays. Is over as soon as it takes them. Returns what is told once nothing is at
    /// work in the former one, after an hour at the most, or `None` if the server has stopped and did not take the engine.
    ///
    /// # Cancel safety
    ///
    /// Dropped, the engine takes the turns or it does not.
    pub async fn begin(
        &self,
        orchestrator: Orchestrator,
        limits: Limits,
    ) -> Option<oneshot::Receiver<()>> {
        let (is_taken, taken) = oneshot::channel();
        let (is_over, over) = oneshot::channel();
        let replacement = Replacement {
            orchestrator,
            limits,
            is_taken,
            is_over,
        };
        self.0.send(replacement).await.ok()?;
        taken.await.ok()?;
        Some(over)
    }
}

/// The engines of a server.
pub(crate) struct Engines {
    current: Orchestrator,
    clients: McpClients,
    sweeping: Sweeping,
    /// What limits all of them.
    limited: Limited,
    access: Access,
    router: watch::Sender<Router>,
    /// Those in which something may be at work still.
    former: Arc<Mutex<Vec<(u64, Orchestrator, McpClients)>>>,
    replaced: u64,
}

impl Engines {
    pub(crate) fn new(orchestrator: Orchestrator, limits: &Limits, access: Access) -> Self {
        let limited = Limited::new(orchestrator.clone(), limits, access.metrics.clone());
        let clients = McpClients::new(&limited);
        let router = routes(limited.clone(), &clients, access.clone());
        Self {
            sweeping: Sweeping::start(orchestrator.clone(), access.metrics.clone()),
            current: orchestrator,
            clients,
            limited,
            access,
            router: watch::Sender::new(router),
            former: Arc::default(),
            replaced: 0,
        }
    }

    /// Returns what answers requests, now and later.
    pub(crate) fn router(&self) -> watch::Receiver<Router> {
        self.router.subscribe()
    }

    /// Lets another engine answer.
    pub(crate) fn replace(&mut self, replacement: Replacement) {
        let Replacement {
            orchestrator,
            limits,
            is_taken,
            is_over,
        } = replacement;
        self.limited = self.limited.with(orchestrator.clone(), &limits);
        let clients = self.clients.replaced(&self.limited);
        let (limited, access) = (self.limited.clone(), self.access.clone());
        let router = routes(limited, &clients, access);
        drop(self.router.send_replace(router));
        self.sweeping = Sweeping::start(orchestrator.clone(), self.access.metrics.clone());
        let former = std::mem::replace(&mut self.current, orchestrator);
        let clients = std::mem::replace(&mut self.clients, clients);
        clients.stop_asking();
        // Nobody has to hear of it.
        let _ = is_taken.send(());
        self.replaced += 1;
        let (number, all) = (self.replaced, Arc::clone(&self.former));
        let mut list = all.lock().unwrap_or_else(PoisonError::into_inner);
        list.push((number, former.clone(), clients.clone()));
        drop(list);
        tokio::spawn(async move {
            for run in former.suspend(GRACE).await {
                tracing::info!(%run, "a run did not end in time: the new engine goes on with it");
            }
            clients.end_streams();
            let mut list = all.lock().unwrap_or_else(PoisonError::into_inner);
            list.retain(|(other, ..)| *other != number);
            drop(list);
            // Nobody has to hear of it.
            let _ = is_over.send(());
        });
    }

    /// Returns all that has to be ended: the engines, and the clients of the Model Context Protocol.
    pub(crate) fn stop(self) -> (Vec<Orchestrator>, Vec<McpClients>) {
        drop(self.sweeping);
        let mut former = self.former.lock().unwrap_or_else(PoisonError::into_inner);
        let former = former
            .drain(..)
            .map(|(_, engine, clients)| (engine, clients));
        let current = (self.current, self.clients);
        former.chain([current]).unzip()
    }
}
