//! Probes: whether the process lives, and whether it can be given work.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use neuraxis::Orchestrator;
use schemars::JsonSchema;
use serde::Serialize;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::openapi::{Operation, Tag, operation};
use crate::problem::{Problem, SHUTTING_DOWN, STORE_UNAVAILABLE};

/// How long an answer of the store is good for: each is a write, and anybody who reaches the server may ask.
const GOOD_FOR: Duration = Duration::from_secs(1);

/// The answer of a probe.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Health {
    /// Always `ok`: whatever else there is to say is a problem.
    status: &'static str,
}

const OK: Json<Health> = Json(Health { status: "ok" });

/// Describes the probe of the process.
pub(crate) fn alive() -> Operation {
    operation(
        "is_alive",
        Tag::Server,
        "Tells whether the process can answer.",
    )
    .answers::<Health>("It can.")
    .example(r#"{ "status": "ok" }"#)
}

/// Describes the probe of the server.
pub(crate) fn ready() -> Operation {
    operation(
        "is_ready",
        Tag::Server,
        "Tells whether the server takes turns.",
    )
    .answers::<Health>("It does.")
    .example(r#"{ "status": "ok" }"#)
    .problems(&[&SHUTTING_DOWN, &STORE_UNAVAILABLE])
}

/// `GET /healthz`: 200 as long as the process can answer.
pub(crate) async fn is_alive() -> Json<Health> {
    OK
}

/// Knows whether the server takes turns.
#[derive(Debug)]
pub(crate) struct Readiness {
    orchestrator: Orchestrator,
    /// When the store was asked last, and what it said. Whoever asks meanwhile waits for the same answer.
    last: Mutex<Option<(Instant, Store)>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Store {
    Writes,
    Fails,
}

impl Readiness {
    pub(crate) fn new(orchestrator: Orchestrator) -> Arc<Self> {
        let last = Mutex::default();
        Arc::new(Self { orchestrator, last })
    }

    /// `GET /readyz`: 200 while the server takes turns. It opens its port once the engine is wired; from then on what keeps
    /// it from taking them is that it stops, or that its store takes no records: a full disk, a lock, a server that is away.
    pub(crate) async fn is_ready(self: Arc<Self>) -> Result<Json<Health>, Problem> {
        if self.orchestrator.is_shutting_down() {
            let detail = "the server is shutting down and takes no new messages";
            return Err(Problem::new(&SHUTTING_DOWN, detail));
        }
        match self.store().await {
            Store::Writes => Ok(OK),
            Store::Fails => {
                let detail = "the store takes no records now, so that no turn can be taken; the server's log says why";
                Err(Problem::new(&STORE_UNAVAILABLE, detail))
            }
        }
    }

    async fn store(&self) -> Store {
        let mut last = self.last.lock().await;
        let before = last.map(|(_, store)| store);
        if let Some((at, store)) = *last
            && at.elapsed() < GOOD_FOR
        {
            return store;
        }
        let store = match self.orchestrator.probe_store().await {
            Ok(()) => Store::Writes,
            Err(error) => {
                // Once, not with each probe.
                if before != Some(Store::Fails) {
                    tracing::error!(%error, "not ready: the store takes no records");
                }
                Store::Fails
            }
        };
        if (before, store) == (Some(Store::Fails), Store::Writes) {
            tracing::info!("ready: the store takes records again");
        }
        *last = Some((Instant::now(), store));
        store
    }
}
