//! The clients that follow a run. The run is ended once the last one has left, unless a client was sent its end.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use neuraxis::Runs;
use neuraxis::core::RunId;
use tokio::runtime::Handle;

/// Why a run is ended whose clients have left.
const LEFT: &str = "the AG-UI client disconnected";

/// The clients that follow runs. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Followers(Arc<Mutex<HashMap<RunId, RunFollowers>>>);

/// The clients that follow one run.
#[derive(Debug, Default)]
struct RunFollowers {
    count: usize,
    /// How often the run has resumed since the first client came. An end reported late from before a resumption is
    /// ignored.
    stretch: u64,
    /// Whether a client was sent the end of this stretch: that the run ended, or that it waits.
    is_end_sent: bool,
}

impl RunFollowers {
    const fn begin_stretch(&mut self) {
        self.stretch = self.stretch.wrapping_add(1);
        self.is_end_sent = false;
    }
}

/// One client that follows a run. Dropping it means that the client has left.
#[derive(Debug)]
pub(super) struct FollowerGuard {
    followers: Followers,
    runs: Runs,
    run: RunId,
    stretch: u64,
    pub(super) is_settled: bool,
}

impl Followers {
    /// Adds a client. The client leaves when the returned value is dropped. A broken connection must not end a run that
    /// another client follows.
    pub(super) fn add(&self, runs: Runs, run: RunId) -> FollowerGuard {
        let mut known = self.lock();
        let of_run = known.entry(run).or_default();
        of_run.count = of_run.count.saturating_add(1);
        // A client that comes after the end of a stretch follows the next one.
        if of_run.is_end_sent {
            of_run.begin_stretch();
        }
        FollowerGuard {
            followers: self.clone(),
            runs,
            run,
            stretch: of_run.stretch,
            is_settled: false,
        }
    }

    /// Records that a run resumes: what current clients are sent about the previous stretch's end no longer counts.
    pub(super) fn note_resumed(&self, run: RunId) {
        if let Some(of_run) = self.lock().get_mut(&run) {
            of_run.begin_stretch();
        }
    }

    /// Removes a client. Returns whether no client follows the run any more and none was sent its end.
    fn remove(&self, run: RunId, stretch: u64, is_settled: bool) -> bool {
        let mut known = self.lock();
        let Some(of_run) = known.get_mut(&run) else {
            return false;
        };
        of_run.count = of_run.count.saturating_sub(1);
        of_run.is_end_sent |= is_settled && stretch == of_run.stretch;
        let (is_last, is_end_sent) = (of_run.count == 0, of_run.is_end_sent);
        if is_last {
            known.remove(&run);
        }
        is_last && !is_end_sent
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<RunId, RunFollowers>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for FollowerGuard {
    fn drop(&mut self) {
        let is_left = self
            .followers
            .remove(self.run, self.stretch, self.is_settled);
        // If the runtime has shut down, the run has ended too.
        let (true, Ok(runtime)) = (is_left, Handle::try_current()) else {
            return;
        };
        let (runs, run) = (self.runs.clone(), self.run);
        runtime.spawn(async move {
            if let Err(error) = runs.cancel(run, LEFT).await {
                tracing::debug!(%run, %error, "a client disconnected, but its run was not cancelled");
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use neuraxis::core::uuid::Uuid;
    use neuraxis::memory::MemoryStore;
    use neuraxis::{Orchestrator, Role};
    use neuraxis_testkit::ScriptedModel;

    use super::*;

    #[tokio::test]
    async fn a_run_is_abandoned_by_its_last_client_if_none_was_sent_its_end() {
        let orchestrator = Orchestrator::builder()
            .model(Role::REASONING, Arc::new(ScriptedModel::new()))
            .store(Arc::new(MemoryStore::new()))
            .build()
            .unwrap();
        let run = RunId(Uuid::nil());
        for (settled, is_left) in [
            (&[false][..], true),
            (&[true], false),
            (&[false, false], true),
            (&[true, false], false),
            (&[false, true], false),
        ] {
            let followers = Followers::default();
            let add = |_: &bool| followers.add(orchestrator.runs(), run);
            let clients: Vec<FollowerGuard> = settled.iter().map(add).collect();
            let mut leaving = settled.iter();
            let last = leaving.next_back().unwrap();
            for is_settled in leaving {
                assert!(!followers.remove(run, 0, *is_settled), "one is there still");
            }
            assert_eq!(followers.remove(run, 0, *last), is_left, "{settled:?}");
            assert!(followers.lock().is_empty());
            drop(clients);
        }
    }

    #[tokio::test]
    async fn an_end_sent_before_the_run_resumed_does_not_count() {
        let orchestrator = Orchestrator::builder()
            .model(Role::REASONING, Arc::new(ScriptedModel::new()))
            .store(Arc::new(MemoryStore::new()))
            .build()
            .unwrap();
        let (run, followers) = (RunId(Uuid::nil()), Followers::default());
        let add = || followers.add(orchestrator.runs(), run);
        let [first, late] = [0, 1].map(|_| add());
        assert!(!followers.remove(run, first.stretch, true));
        let next = add();
        assert!(!followers.remove(run, late.stretch, true), "told late");
        assert!(followers.remove(run, next.stretch, false));

        let late = add();
        // Another client's answer, before this client is sent that the run waits.
        followers.note_resumed(run);
        let next = add();
        assert!(!followers.remove(run, late.stretch, true));
        assert!(followers.remove(run, next.stretch, false));
    }
}
