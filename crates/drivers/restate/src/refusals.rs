//! The runs that a worker refuses because their tools work in a different folder, and since when. Another worker may
//! have that folder; if none has, a client would wait for the run in vain.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use neuraxis_core::RunId;
use tokio::time::Instant;

/// The number of remembered runs above which those not seen for a long time are forgotten.
const MANY: usize = 1_000;

/// The runs that a worker refuses.
#[derive(Debug, Clone)]
pub(crate) struct Refusals {
    refused: Arc<Mutex<HashMap<RunId, RefusedRun>>>,
    /// How long a run is refused before the refusal is final.
    patience: Duration,
}

/// A run that is refused.
#[derive(Debug, Clone, Copy)]
struct RefusedRun {
    since: Instant,
    /// How many records the run had. If it has more later, another worker was driving it.
    records: u64,
}

impl Refusals {
    pub(crate) fn new(patience: Duration) -> Self {
        Self {
            refused: Arc::default(),
            patience,
        }
    }

    /// Registers the refusal of a run with `records` records. Returns `true` if it has been refused for so long that no
    /// other worker will take it.
    pub(crate) fn note(&self, run: RunId, records: u64) -> bool {
        let mut refused = self.lock();
        if refused.len() >= MANY {
            // Other workers have resumed or ended these in the meantime.
            let long = self.patience.saturating_mul(2);
            refused.retain(|_, it| it.since.elapsed() < long);
        }
        let now = RefusedRun {
            since: Instant::now(),
            records,
        };
        let first = refused.entry(run).or_insert(now);
        if first.records != records {
            *first = now;
        }
        first.since.elapsed() >= self.patience
    }

    /// Registers that a run is no longer refused.
    pub(crate) fn forget(&self, run: RunId) {
        self.lock().remove(&run);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<RunId, RefusedRun>> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use neuraxis_core::uuid::Uuid;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_run_is_refused_temporarily_before_it_is_refused_permanently() {
        let refusals = Refusals::new(Duration::from_secs(60));
        let [one, other] = [1, 2].map(|number| RunId(Uuid::from_u128(number)));
        assert!(!refusals.note(one, 1));
        tokio::time::advance(Duration::from_secs(59)).await;
        assert!(!refusals.note(one, 1) && !refusals.note(other, 1));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(refusals.note(one, 1) && !refusals.note(other, 1));
        refusals.forget(one);
        assert!(!refusals.note(one, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn the_refusal_period_restarts_after_another_worker_had_the_run() {
        let refusals = Refusals::new(Duration::from_secs(60));
        let run = RunId(Uuid::from_u128(1));
        assert!(!refusals.note(run, 1));
        tokio::time::advance(Duration::from_secs(600)).await;
        assert!(!refusals.note(run, 9));
        tokio::time::advance(Duration::from_secs(60)).await;
        assert!(refusals.note(run, 9));
    }

    #[tokio::test(start_paused = true)]
    async fn runs_without_recent_refusals_are_forgotten() {
        let refusals = Refusals::new(Duration::from_secs(60));
        for number in 0..MANY as u128 {
            assert!(!refusals.note(RunId(Uuid::from_u128(number)), 1));
        }
        tokio::time::advance(Duration::from_secs(120)).await;
        assert!(!refusals.note(RunId(Uuid::from_u128(MANY as u128)), 1));
        assert_eq!(refusals.lock().len(), 1);
    }
}
