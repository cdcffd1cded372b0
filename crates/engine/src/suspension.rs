//! Stops the engine without ending its runs: those that do not end in time are left as a process that dies leaves them,
//! but free to be taken up at once.

use std::time::Duration;

use neuraxis_core::{RunId, SessionId};
use neuraxis_ports::{SessionStore, StoreError};

use crate::driver::Driver;
use crate::orchestrator::Orchestrator;
use crate::reservation::{AtWork, reserve};
use crate::runs::Runs;

impl Orchestrator {
    /// Takes no new runs, lets those at work go on for a while, and leaves what has not ended then to be taken up by any
    /// engine on the same store: nothing is recorded of it, and its session stays busy. Returns the runs that are left.
    ///
    /// A left run is one whose process died, for whoever listens to it: its events end without a last one, and
    /// [`RunHandle::result`](crate::RunHandle::result) is an error. Calls that were under way are made again, or told as
    /// unknown, as their class allows. A run that is kept nowhere is cancelled. Where the store does not outlive the
    /// process [`shutdown`](Self::shutdown) is kinder.
    ///
    /// # Cancel safety
    ///
    /// Dropped, the engine takes no new runs, and some runs may be left until their leases have run out.
    pub async fn suspend(&self, grace: Duration) -> Vec<RunId> {
        let engine = &self.parts.engine;
        engine.closing.cancel();
        engine.tasks.close();
        let ended = tokio::time::timeout(grace, engine.tasks.wait()).await;
        let stopped = match ended {
            Ok(()) => Vec::new(),
            Err(_) => self.stop_runs().await,
        };
        // For those that nobody could take up. The others are gone: they would record it.
        engine.shutdown.cancel();
        engine.tasks.wait().await;
        let mut left = Vec::new();
        for (run, session) in stopped {
            if self.leave(self.parts.store.as_ref(), &session, run).await {
                left.push(run);
            }
        }
        left
    }

    /// Stops the tasks of all runs, and waits until none of them does anything more.
    async fn stop_runs(&self) -> Vec<(RunId, SessionId)> {
        let engine = &self.parts.engine;
        let mut stopped = Vec::new();
        for (run, place) in engine.runs_at_work().iter() {
            if let (Some(task), Some(handle)) = (&place.task, &place.handle) {
                task.abort();
                stopped.push((*run, handle.session_id.clone()));
            }
        }
        loop {
            // From now on nothing is missed.
            let moved = engine.places.notified();
            let is_there = |(run, _): &(RunId, SessionId)| engine.runs_at_work().contains_key(run);
            if !stopped.iter().any(is_there) {
                return stopped;
            }
            moved.await;
        }
    }

    /// Gives the lease of a run back that nobody drives any more; false if it has ended after all.
    async fn leave(&self, store: &dyn SessionStore, session: &SessionId, run: RunId) -> bool {
        // Nobody knows its lease any more, so that it is begun anew.
        let left = async {
            let lease = reserve(store, session, run).await?;
            store.release(&lease).await
        };
        match left.await {
            Ok(()) => true,
            // It ended with what it did last.
            Err(StoreError::Stale(_)) => false,
            Err(error) => {
                tracing::warn!(%run, %error, "a run's lease was not given back; it runs out by itself");
                true
            }
        }
    }
}

impl Runs {
    /// Lets a run go on in a task of its own.
    pub(crate) fn set_to_work(&self, driver: Box<Driver>, place: AtWork) {
        let run = place.run();
        let task = self.parts.engine.tasks.spawn(driver.drive(Some(place)));
        // It may be over already.
        if let Some(place) = self.parts.engine.runs_at_work().get_mut(&run) {
            place.task = Some(task.abort_handle());
        }
    }
}
