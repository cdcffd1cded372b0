//! The runs that a worker refuses because their tools work in another folder, and since when: another worker may have it, and if
//! none has, somebody waits for them in vain.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use neuraxis_core::RunId;
use tokio::time::Instant;

/// How many runs are remembered before those are forgotten of which nothing was heard for long.
const MANY: usize = 1_000;

/// The runs that a worker refuses, and since when.
#[derive(Debug, Clone)]
pub(crate) struct Refusals {
    since: Arc<Mutex<HashMap<RunId, Instant>>>,
    /// How long a run is refused before that is for good.
    patience: Duration,
}

impl Refusals {
    pub(crate) fn new(patience: Duration) -> Self {
        Self {
            since: Arc::default(),
            patience,
        }
    }

    /// Notes that a run is refused, and tells whether it has been for so long that no other worker will take it.
    pub(crate) fn is_over(&self, run: RunId) -> bool {
        let mut since = self.lock();
        if since.len() >= MANY {
            // Others have taken them up meanwhile, or ended them.
            let long = self.patience.saturating_mul(2);
            since.retain(|_, at| at.elapsed() < long);
        }
        let first = since.entry(run).or_insert_with(Instant::now);
        first.elapsed() >= self.patience
    }

    /// Notes that a run is not refused any more.
    pub(crate) fn forget(&self, run: RunId) {
        self.lock().remove(&run);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<RunId, Instant>> {
        self.since.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use neuraxis_core::uuid::Uuid;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_run_is_refused_for_a_while_before_that_is_for_good() {
        let refusals = Refusals::new(Duration::from_secs(60));
        let [one, other] = [1, 2].map(|number| RunId(Uuid::from_u128(number)));
        assert!(!refusals.is_over(one));
        tokio::time::advance(Duration::from_secs(59)).await;
        assert!(!refusals.is_over(one) && !refusals.is_over(other));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(refusals.is_over(one) && !refusals.is_over(other));
        refusals.forget(one);
        assert!(!refusals.is_over(one));
    }

    #[tokio::test(start_paused = true)]
    async fn runs_of_which_nothing_is_heard_any_more_are_forgotten() {
        let refusals = Refusals::new(Duration::from_secs(60));
        for number in 0..MANY as u128 {
            assert!(!refusals.is_over(RunId(Uuid::from_u128(number))));
        }
        tokio::time::advance(Duration::from_secs(120)).await;
        assert!(!refusals.is_over(RunId(Uuid::from_u128(MANY as u128))));
        assert_eq!(refusals.lock().len(), 1);
    }
}
