//! The runs that this process left while still alive: their records could not be stored, or it may no longer have held
//! them.
//!
//! Resuming such a run does not mean that the run crashes processes, and each further attempt costs a model call. What
//! other processes lost is not known here.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use neuraxis_core::RunId;
use tokio::time::Instant;

/// The maximum number of remembered runs; beyond it, the one that was lost longest ago is forgotten.
const MAX_RUNS: usize = 1_024;

/// How long a run is left alone after it was first lost; doubles with each further time.
const FIRST_PAUSE: Duration = Duration::from_secs(5);
/// The maximum time that a run is left alone.
const MAX_PAUSE: Duration = Duration::from_secs(300);

/// How often a run was lost, and when it was last lost.
#[derive(Debug, Clone, Copy)]
struct Loss {
    last: Instant,
    times: u32,
}

/// The runs that were lost.
#[derive(Debug, Default)]
pub(crate) struct LostRuns(Mutex<HashMap<RunId, Loss>>);

impl LostRuns {
    /// Notes that a run was lost.
    pub(crate) fn note(&self, run: RunId) {
        let mut runs = self.runs();
        if runs.len() >= MAX_RUNS && !runs.contains_key(&run) {
            let oldest = runs.iter().min_by_key(|(_, loss)| loss.last);
            if let Some(oldest) = oldest.map(|(run, _)| *run) {
                runs.remove(&oldest);
            }
        }
        let now = Instant::now();
        let loss = runs.entry(run).or_insert(Loss {
            last: now,
            times: 0,
        });
        loss.last = now;
        loss.times = loss.times.saturating_add(1);
    }

    /// Forgets a run that was left for another reason.
    pub(crate) fn forget(&self, run: RunId) {
        self.runs().remove(&run);
    }

    /// Returns whether a run was lost here.
    pub(crate) fn contains(&self, run: RunId) -> bool {
        self.runs().contains_key(&run)
    }

    /// Returns whether a run is left alone for now, unless it is explicitly requested.
    pub(crate) fn rests(&self, run: RunId) -> bool {
        self.runs().get(&run).is_some_and(|loss| {
            let doublings = loss.times.saturating_sub(1).min(16);
            let pause = FIRST_PAUSE.saturating_mul(1 << doublings).min(MAX_PAUSE);
            loss.last.elapsed() < pause
        })
    }

    fn runs(&self) -> MutexGuard<'_, HashMap<RunId, Loss>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use neuraxis_core::uuid::Uuid;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_lost_run_pauses_longer_each_time_up_to_a_maximum() {
        let lost = LostRuns::default();
        let run = RunId(Uuid::from_u128(1));
        assert!(!lost.rests(run) && !lost.contains(run));
        for seconds in [5, 10, 20, 40, 80, 160, 300, 300] {
            lost.note(run);
            tokio::time::advance(Duration::from_secs(seconds - 1)).await;
            assert!(lost.rests(run), "{seconds}");
            tokio::time::advance(Duration::from_secs(1)).await;
            assert!(!lost.rests(run), "{seconds}");
        }
        assert!(lost.contains(run));
    }

    #[tokio::test(start_paused = true)]
    async fn remembered_lost_runs_are_limited() {
        let lost = LostRuns::default();
        for number in 0..=MAX_RUNS {
            lost.note(RunId(Uuid::from_u128(number as u128)));
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        assert!(!lost.contains(RunId(Uuid::from_u128(0))));
        assert!(lost.contains(RunId(Uuid::from_u128(MAX_RUNS as u128))));
        assert_eq!(lost.runs().len(), MAX_RUNS);
    }
}
