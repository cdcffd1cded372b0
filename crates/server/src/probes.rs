//! Probes: whether the process is alive, and whether it can accept work.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use neuraxis::Orchestrator;
use schemars::JsonSchema;
use serde::Serialize;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::access::detached;
use crate::openapi::{Operation, Tag, operation};
use crate::problem::{Problem, SHUTTING_DOWN, STORE_UNAVAILABLE};

/// How long the store's answer is reused: each check is a write, and any client that reaches the server may probe.
const GOOD_FOR: Duration = Duration::from_secs(1);

/// The answer of a probe.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Health {
    /// Always `ok`; any other state is a problem document.
    status: &'static str,
}

const OK: Json<Health> = Json(Health { status: "ok" });

/// Describes the liveness probe.
pub(crate) fn alive() -> Operation {
    operation(
        "is_alive",
        Tag::Server,
        "Shows whether the process can answer.",
    )
    .answers::<Health>("The process can answer.")
    .example(r#"{ "status": "ok" }"#)
}

/// Describes the readiness probe.
pub(crate) fn ready() -> Operation {
    operation(
        "is_ready",
        Tag::Server,
        "Shows whether the server accepts turns.",
    )
    .answers::<Health>("The server accepts turns.")
    .example(r#"{ "status": "ok" }"#)
    .problems(&[&SHUTTING_DOWN, &STORE_UNAVAILABLE])
}

/// `GET /healthz`: 200 as long as the process can answer.
pub(crate) async fn is_alive() -> Json<Health> {
    OK
}

/// Checks whether the server accepts turns.
#[derive(Debug)]
pub(crate) struct Readiness {
    orchestrator: Orchestrator,
    /// When the store was last checked, and the result. Concurrent probes wait for the same result.
    last: Arc<Mutex<Option<(Instant, Store)>>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Store {
    Writes,
    Fails,
}

impl Readiness {
    pub(crate) fn new(orchestrator: Orchestrator) -> Arc<Self> {
        let last = Arc::default();
        Arc::new(Self { orchestrator, last })
    }

    /// `GET /readyz`: 200 while the server accepts turns. The port opens only once the engine is wired. After that, the
    /// server is not ready if it is stopping, or if its store accepts no records because, for example, a disk is full,
    /// a lock is held, or a database server is unavailable.
    pub(crate) async fn is_ready(self: Arc<Self>) -> Result<Json<Health>, Problem> {
        if self.orchestrator.is_shutting_down() {
            let detail = "the server is shutting down and accepts no new messages";
            return Err(Problem::new(&SHUTTING_DOWN, detail));
        }
        match self.store().await? {
            Store::Writes => Ok(OK),
            Store::Fails => {
                let detail = "the store accepts no records at the moment, so the server takes no turns; see the \
                              server's log";
                Err(Problem::new(&STORE_UNAVAILABLE, detail))
            }
        }
    }

    async fn store(self: Arc<Self>) -> Result<Store, Problem> {
        let mut last = Arc::clone(&self.last).lock_owned().await;
        if let Some((at, store)) = *last
            && at.elapsed() < GOOD_FOR
        {
            return Ok(store);
        }
        // Probes time out after about a second, and a hanging store takes longer. The result still reaches later probes
        // and the log.
        detached(async move {
            let store = self.ask(last.map(|(_, store)| store)).await;
            *last = Some((Instant::now(), store));
            store
        })
        .await
    }

    async fn ask(&self, before: Option<Store>) -> Store {
        let store = match self.orchestrator.probe_store().await {
            Ok(()) => Store::Writes,
            Err(error) => {
                // Logged once, not with each probe.
                if before != Some(Store::Fails) {
                    tracing::error!(%error, "not ready: the store accepts no records");
                }
                Store::Fails
            }
        };
        if (before, store) == (Some(Store::Fails), Store::Writes) {
            tracing::info!("ready: the store accepts records again");
        }
        store
    }
}

#[cfg(test)]
mod tests {
    use neuraxis::Role;
    use neuraxis::memory::MemoryStore;
    use neuraxis::offline::OfflineModel;
    use neuraxis_testkit::{FailingStore, Fault, StoreOperation};
    use tokio::time::timeout;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_probe_result_that_arrives_after_its_caller_left_goes_to_the_next_caller() {
        let store = Arc::new(FailingStore::new(MemoryStore::new()));
        let orchestrator = Orchestrator::builder()
            .model(Role::REASONING, Arc::new(OfflineModel))
            .store(store.clone())
            .build()
            .unwrap();
        let readiness = Readiness::new(orchestrator);
        let late = Fault::AnswerLate(Duration::from_secs(5));
        store.fail_next(StoreOperation::Probe, late);
        let asked = || Arc::clone(&readiness).is_ready();
        assert!(timeout(Duration::from_secs(1), asked()).await.is_err());
        assert!(asked().await.is_ok());
        let calls = store.calls().into_iter();
        let probes = calls.filter(|call| *call == StoreOperation::Probe);
        assert_eq!(probes.count(), 1);
    }
}
