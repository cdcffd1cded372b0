//! Notices when an invocation is cancelled while one of its steps is in progress.
//!
//! The SDK reads nothing from Restate while it awaits a step, so the step would first run to its end, which can take
//! hours. But Restate adds the cancellation to the invocation's journal immediately. So Restate is queried about long
//! steps, once a second for all steps of a worker.

use std::collections::HashMap;
use std::convert::Infallible;
use std::error::Error;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::admin::Restate;

/// How often Restate is queried, and how long a step must last before it is included: shorter steps end soon enough.
const QUERY_INTERVAL: Duration = Duration::from_secs(1);

/// The maximum number of invocations in one query.
const PAGE: usize = 200;

/// The steps in progress in a worker, by the ids of their invocations.
#[derive(Debug, Clone, Default)]
pub(crate) struct StepsInProgress(Arc<Mutex<HashMap<String, StepInProgress>>>);

#[derive(Debug)]
struct StepInProgress {
    since: Instant,
    /// How many cancellations of the invocation its run was notified of before the step.
    known_cancellations: u64,
    cancelled: CancellationToken,
}

/// A step in progress, until this is dropped.
#[derive(Debug)]
pub(crate) struct WatchedStep {
    steps: StepsInProgress,
    invocation: String,
    cancelled: CancellationToken,
}

impl StepsInProgress {
    /// Registers a step that begins. `known_cancellations` is how often its invocation was cancelled before.
    pub(crate) fn begin(&self, invocation: &str, known_cancellations: u64) -> WatchedStep {
        let cancelled = CancellationToken::new();
        let in_progress = StepInProgress {
            since: Instant::now(),
            known_cancellations,
            cancelled: cancelled.clone(),
        };
        self.lock().insert(invocation.to_owned(), in_progress);
        WatchedStep {
            steps: self.clone(),
            invocation: invocation.to_owned(),
            cancelled,
        }
    }

    /// Queries Restate forever.
    pub(crate) async fn watch(self, restate: Restate) -> Infallible {
        loop {
            sleep(QUERY_INTERVAL).await;
            for page in self.long_steps().chunks(PAGE) {
                match restate.cancelled(page).await {
                    Ok(cancelled) => {
                        for one in cancelled {
                            self.note_cancellations(&one.id, one.times);
                        }
                    }
                    // Without an answer, the cancellation is noticed when the step ends.
                    Err(error) => {
                        let error: &(dyn Error + 'static) = &error;
                        tracing::debug!(error, "cannot determine which invocations are cancelled");
                    }
                }
            }
        }
    }

    /// Returns the invocations with long steps that have not been notified yet.
    fn long_steps(&self) -> Vec<String> {
        let steps = self.lock();
        let long_steps = steps.iter().filter(|(_, step)| {
            step.since.elapsed() >= QUERY_INTERVAL && !step.cancelled.is_cancelled()
        });
        long_steps
            .map(|(invocation, _)| invocation.clone())
            .collect()
    }

    fn note_cancellations(&self, invocation: &str, times: u64) {
        if let Some(step) = self.lock().get(invocation)
            && times > step.known_cancellations
        {
            step.cancelled.cancel();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, StepInProgress>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WatchedStep {
    /// Completes once the invocation is cancelled.
    pub(crate) async fn cancelled(&self) {
        self.cancelled.cancelled().await;
    }
}

impl Drop for WatchedStep {
    fn drop(&mut self) {
        self.steps.lock().remove(&self.invocation);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn only_a_long_step_that_missed_a_cancellation_is_cancelled() {
        let steps = StepsInProgress::default();
        let first = steps.begin("inv_1", 0);
        let second = steps.begin("inv_2", 1);
        assert_eq!(steps.long_steps(), Vec::<String>::new());
        tokio::time::advance(QUERY_INTERVAL).await;
        assert_eq!(steps.long_steps().len(), 2);
        for invocation in ["inv_1", "inv_2", "inv_3"] {
            steps.note_cancellations(invocation, 1);
        }
        first.cancelled().await;
        assert!(!second.cancelled.is_cancelled());
        assert_eq!(steps.long_steps(), ["inv_2"]);
        drop((first, second));
        assert!(steps.lock().is_empty());
    }
}
