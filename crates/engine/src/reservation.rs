//! What a run holds while it is at work: its session, and its place among the runs of this process.

use std::collections::hash_map::Entry;
use std::sync::Arc;

use backon::{ExponentialBuilder, Retryable};
use neuraxis_core::{RunId, SessionId};
use neuraxis_ports::{RunLease, SessionStore, StoreError};

use crate::orchestrator::{Engine, Parts, Place};
use crate::run_handle::RunHandle;
use crate::runs::Runs;

/// Reserves a session for a run, as often as it takes: if only the answer was lost, the session is reserved already, and
/// nobody but this run could free it.
pub(crate) async fn reserve(
    store: &dyn SessionStore,
    session: &SessionId,
    run: RunId,
) -> Result<RunLease, StoreError> {
    let begin = || store.begin_run(session, run);
    begin
        .retry(ExponentialBuilder::default().with_jitter())
        .sleep(tokio::time::sleep)
        .when(StoreError::is_retryable)
        .await
}

/// The place of a run among those at work here: nobody else can take it up meanwhile.
#[derive(Debug)]
pub(crate) struct AtWork {
    parts: Arc<Parts>,
    run: RunId,
}

impl AtWork {
    /// Takes the place of a run; `None` if it is taken.
    pub(crate) fn claim(parts: &Arc<Parts>, run: RunId) -> Option<Self> {
        match parts.engine.runs_at_work().entry(run) {
            Entry::Vacant(place) => place.insert(Place::default()),
            Entry::Occupied(_) => return None,
        };
        Some(Self {
            parts: Arc::clone(parts),
            run,
        })
    }

    /// Returns the run.
    pub(crate) const fn run(&self) -> RunId {
        self.run
    }

    pub(crate) fn runs(&self) -> Runs {
        Runs {
            parts: Arc::clone(&self.parts),
        }
    }

    /// Lets what is posted to the run here reach it at once, and a repeated request its events.
    pub(crate) fn reached_by(&self, handle: &RunHandle) {
        let handle = Some(handle.clone());
        self.parts
            .engine
            .runs_at_work()
            .entry(self.run)
            .or_default()
            .handle = handle;
        self.parts.engine.places.notify_waiters();
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        self.parts.engine.runs_at_work().remove(&self.run);
        self.parts.engine.places.notify_waiters();
    }
}

/// What a run needs to begin: its place among those at work here, and its session.
pub(crate) struct Held {
    pub(crate) place: AtWork,
    pub(crate) reserved: Reserved,
}

/// A session reserved for a run that has not begun. Unless it is kept, the session is given back: be it that something
/// failed in between, or that the caller went away.
pub(crate) struct Reserved {
    engine: Arc<Engine>,
    store: Arc<dyn SessionStore>,
    pub(crate) lease: RunLease,
    is_kept: bool,
}

impl Reserved {
    pub(crate) fn new(
        engine: &Arc<Engine>,
        store: &Arc<dyn SessionStore>,
        lease: RunLease,
    ) -> Self {
        Self {
            engine: Arc::clone(engine),
            store: Arc::clone(store),
            lease,
            is_kept: false,
        }
    }

    pub(crate) fn keep(mut self) {
        self.is_kept = true;
    }

    /// Gives the session back at once, so that it is free when the caller hears of it.
    pub(crate) async fn give_back(mut self) {
        abandon(self.store.as_ref(), &self.lease).await;
        self.is_kept = true;
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        if self.is_kept {
            return;
        }
        let (store, lease) = (Arc::clone(&self.store), self.lease.clone());
        self.engine.tasks.spawn(async move {
            abandon(store.as_ref(), &lease).await;
        });
    }
}

async fn abandon(store: &dyn SessionStore, lease: &RunLease) {
    if let Err(error) = store.abandon_run(lease).await {
        tracing::warn!(run = %lease.run, %error, "a session reserved for a run that never began stays busy");
    }
}
