//! Logs the runs that keep old sessions from being deleted, because they have not ended and may still continue.
//!
//! A run that waits for the result of a client's tool waits for as long as the client takes, and one that was imported
//! or left by a command waits for a person.

use std::collections::HashSet;

use neuraxis::core::RunId;
use neuraxis::core::jiff::Timestamp;
use neuraxis::engine::Sessions;
use neuraxis::ports::{RunSummary, StoreError};

/// How many of them are named.
const NAMED: usize = 5;

/// The runs that were found by the previous check, and so are known from the log.
#[derive(Debug, Default)]
pub(super) struct UnfinishedRuns(HashSet<RunId>);

impl UnfinishedRuns {
    /// Logs how many runs have had no activity since a time, with the ids of the first ones, if one of them was not found
    /// by the previous check.
    pub(super) async fn check(
        &mut self,
        sessions: &Sessions,
        before: Timestamp,
    ) -> Result<(), StoreError> {
        let runs = sessions.unfinished_since(before).await?;
        if self.has_new(&runs) {
            let first: Vec<String> = runs
                .iter()
                .take(NAMED)
                .map(|run| run.run_id.to_string())
                .collect();
            let (count, first) = (runs.len(), first.join(", "));
            tracing::warn!(
                count,
                first,
                "sessions are older than [store] keep and stay, because these runs in them have not ended; \
                 `neuraxis runs resume RUN --cancel`, or a client's cancel, ends one"
            );
        }
        Ok(())
    }

    /// Remembers these runs instead of the previous ones, and returns whether one of them was unknown.
    fn has_new(&mut self, runs: &[RunSummary]) -> bool {
        let found: HashSet<RunId> = runs.iter().map(|run| run.run_id).collect();
        let has_new = !found.is_subset(&self.0);
        self.0 = found;
        has_new
    }
}

#[cfg(test)]
mod tests {
    use neuraxis_testkit::CountingIds;

    use super::*;

    fn run(number: u64) -> RunSummary {
        RunSummary::new(CountingIds::nth_run(number), "s".parse().unwrap())
    }

    #[test]
    fn unfinished_runs_are_logged_again_only_with_another_one() {
        let mut known = UnfinishedRuns::default();
        assert!(!known.has_new(&[]));
        assert!(known.has_new(&[run(1)]));
        assert!(!known.has_new(&[run(1)]));
        assert!(known.has_new(&[run(1), run(2)]));
        assert!(!known.has_new(&[run(2)]));
        assert!(known.has_new(&[run(1)]));
    }
}
