//! Dispatches runs to other processes until that succeeds, with one task per run however often it is requested, and
//! leaves runs alone for a while that may be in a queue.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::error::Error;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use neuraxis_core::{RunId, SessionId};
use neuraxis_ports::RunDispatcher;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::Runs;

/// How long one attempt to dispatch a run may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// The pause after a dispatch that failed, doubled with each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(200);

/// The longest pause between two attempts to dispatch a run.
const MAX_PAUSE: Duration = Duration::from_secs(10);

/// How long recovery leaves a dispatched run alone: it may be in a queue, and each further dispatch would fill the
/// queue.
const LEFT_ALONE: Duration = Duration::from_secs(60);

/// How many runs are remembered before those are forgotten that no longer need to be left alone.
const MANY: usize = 10_000;

/// The runs that this process is dispatching, and those that it dispatched because no process drove them.
#[derive(Debug, Default)]
pub(crate) struct Dispatches {
    recent: Mutex<HashMap<RunId, LastDispatch>>,
    under_way: Mutex<HashMap<RunId, Redispatch>>,
}

/// When a run was last dispatched because no process drove it, and how often.
#[derive(Debug, Clone, Copy)]
struct LastDispatch {
    last: Instant,
    times: usize,
}

/// Whether another dispatch was requested for a run that is being dispatched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Redispatch {
    /// Not since its task began or started over.
    NotRequested,
    /// Yes; what was posted may have come too late for the attempt in progress.
    Requested,
}

impl Runs {
    /// Dispatches a run in a separate task, with as many attempts as needed while this process lives. The work is in
    /// the store: if the process dies first, the process that [recovers](Runs::recover) runs dispatches it.
    pub(super) fn dispatch_soon(
        &self,
        dispatcher: &Arc<dyn RunDispatcher>,
        session: SessionId,
        run: RunId,
    ) {
        let Some(mut dispatch) = Dispatch::begin(&self.parts.dispatches, run) else {
            return;
        };
        let engine = &self.parts.engine;
        let (dispatcher, closing) = (Arc::clone(dispatcher), engine.closing.clone());
        engine.tasks.spawn(async move {
            while dispatched(dispatcher.as_ref(), &session, run, &closing).await {
                if !dispatch.is_requested_again() {
                    return;
                }
            }
        });
    }
}

/// A run that is being dispatched; ends when dropped.
struct Dispatch {
    dispatches: Arc<Dispatches>,
    run: RunId,
    /// Whether the next request starts a new task.
    is_over: bool,
}

impl Dispatch {
    /// Begins dispatching, unless a task is already at it; then that task dispatches the run once more.
    fn begin(dispatches: &Arc<Dispatches>, run: RunId) -> Option<Self> {
        match dispatches.under_way().entry(run) {
            Entry::Vacant(place) => place.insert(Redispatch::NotRequested),
            Entry::Occupied(mut state) => {
                state.insert(Redispatch::Requested);
                return None;
            }
        };
        Some(Self {
            dispatches: Arc::clone(dispatches),
            run,
            is_over: false,
        })
    }

    /// Returns whether another dispatch was requested since the last call. If not, the next request starts a new task.
    fn is_requested_again(&mut self) -> bool {
        let mut under_way = self.dispatches.under_way();
        let before = under_way.insert(self.run, Redispatch::NotRequested);
        let is_requested = before == Some(Redispatch::Requested);
        if !is_requested {
            under_way.remove(&self.run);
            self.is_over = true;
        }
        is_requested
    }
}

impl Drop for Dispatch {
    fn drop(&mut self) {
        if !self.is_over {
            self.dispatches.under_way().remove(&self.run);
        }
    }
}

/// Dispatches a run with as many attempts as needed. Returns `false` once this process shuts down.
async fn dispatched(
    dispatcher: &dyn RunDispatcher,
    session: &SessionId,
    run: RunId,
    closing: &CancellationToken,
) -> bool {
    let mut pause = FIRST_PAUSE;
    loop {
        match timeout(PATIENCE, dispatcher.dispatch(session, run)).await {
            Ok(Ok(())) => return true,
            Ok(Err(error)) => {
                let error: &(dyn Error + 'static) = &error;
                tracing::warn!(%run, error, "could not dispatch the run yet");
            }
            Err(_) => tracing::warn!(%run, "the dispatcher did not respond in time"),
        }
        if closing.run_until_cancelled(sleep(pause)).await.is_none() {
            return false;
        }
        pause = (pause * 2).min(MAX_PAUSE);
    }
}

impl Dispatches {
    /// Returns how often a run that no process drives was dispatched before, if it should be dispatched now, and counts
    /// this dispatch. `None` if it should be left alone, or a task is still trying to dispatch it.
    pub(super) fn due(&self, run: RunId) -> Option<usize> {
        if self.under_way().contains_key(&run) {
            return None;
        }
        let mut runs = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        if runs.len() > MANY {
            runs.retain(|_, again| again.last.elapsed() < LEFT_ALONE);
        }
        let before = runs.get(&run).copied();
        if before.is_some_and(|before| before.last.elapsed() < LEFT_ALONE) {
            return None;
        }
        let times = before.map_or(0, |before| before.times);
        let again = LastDispatch {
            last: Instant::now(),
            times: times.saturating_add(1),
        };
        runs.insert(run, again);
        Some(times)
    }

    fn under_way(&self) -> MutexGuard<'_, HashMap<RunId, Redispatch>> {
        self.under_way
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use neuraxis_core::uuid::Uuid;

    use super::*;

    #[test]
    fn a_request_during_a_dispatch_makes_the_same_task_dispatch_once_more() {
        let dispatches = Arc::<Dispatches>::default();
        let run = RunId(Uuid::from_u128(1));
        let begin = || Dispatch::begin(&dispatches, run);
        let mut first = begin().unwrap();
        assert!(begin().is_none() && begin().is_none());
        assert!(first.is_requested_again());
        assert!(!first.is_requested_again());
        // The next request starts a new task, and the end of the first task does not affect it.
        let second = begin().unwrap();
        drop(first);
        assert!(begin().is_none());
        drop(second);
        assert!(begin().is_some());
    }
}
