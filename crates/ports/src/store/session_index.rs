//! The role of a store that finds things: sessions, their runs, and what both add up to.

use std::fmt::Debug;

use async_trait::async_trait;
use neuraxis_core::jiff::Timestamp;
use neuraxis_core::log::{Carried, Stats};
use neuraxis_core::{ContentHash, RunId, SessionId, SessionMetrics, Transcript};

use super::{
    ChainHead, RunFilter, RunSummary, Session, SessionFilter, Standing, StatsFilter, StoreError,
    UsageOf,
};

/// Keeps the index of sessions and runs: makes, lists and removes sessions, lists runs, and tells what a session carries
/// from one run to the next.
///
/// Nothing here needs a lease, and all of it may be called from any process. Who repeats a call, what a dropped one leaves
/// and which order holds is said at [`SessionStore`](super::SessionStore).
#[async_trait]
pub trait SessionIndex: Debug + Send + Sync + 'static {
    /// Adds a session.
    ///
    /// # Errors
    ///
    /// [`StoreError::SessionExists`] if the id is taken, be it by an earlier attempt; [`StoreError::Invalid`].
    async fn create_session(&self, session: &Session) -> Result<(), StoreError>;

    /// Returns a session.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchSession`].
    async fn session(&self, id: &SessionId) -> Result<Session, StoreError>;

    /// Returns a page of sessions, the newest first, at most [`SessionFilter::MAX_LIMIT`]. Their seeds are left out.
    ///
    /// # Errors
    ///
    /// Only what can befall the store itself.
    async fn sessions(&self, filter: &SessionFilter) -> Result<Vec<Session>, StoreError>;

    /// Removes a session with all that belongs to it: its runs, their records, inboxes and outputs, and what it carries.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchSession`]; [`StoreError::SessionBusy`] while a run of it has not ended.
    async fn delete_session(&self, id: &SessionId) -> Result<(), StoreError>;

    /// Removes a session as [`delete_session`](Self::delete_session) does, if its hash chain still ends where it did when the
    /// session was read: what came later would be in no copy that was made of it.
    ///
    /// As this is, something may come between the look and the removal: a store does both at once.
    ///
    /// # Errors
    ///
    /// As [`delete_session`](Self::delete_session); [`StoreError::SessionChanged`] if the chain ends elsewhere.
    async fn delete_session_at(&self, id: &SessionId, head: ChainHead) -> Result<(), StoreError> {
        if self.verify(id, None).await? != head {
            return Err(StoreError::SessionChanged(id.clone()));
        }
        self.delete_session(id).await
    }

    /// Removes all sessions in which nothing has happened since the given time, and returns how many. One with a run
    /// that has not ended stays.
    ///
    /// # Errors
    ///
    /// Only what can befall the store itself; some may be gone by then.
    async fn prune(&self, before: Timestamp) -> Result<u64, StoreError>;

    /// Returns sessions that [`prune`](Self::prune) would remove, at most so many, the oldest first: for whoever archives them
    /// before. As this is, it looks at the newest [`SessionFilter::MAX_LIMIT`] alone: a store with more finds them by age.
    ///
    /// # Errors
    ///
    /// Only what can befall the store itself.
    async fn idle(&self, before: Timestamp, most: usize) -> Result<Vec<SessionId>, StoreError> {
        let mut idle = Vec::new();
        let sessions = self.sessions(&SessionFilter::default()).await?;
        for session in sessions.into_iter().rev() {
            if idle.len() >= most {
                break;
            }
            if session.created_at >= before {
                continue;
            }
            match self.runs(&session.id).await {
                Ok(runs) if runs.iter().all(|run| run.ended_before(before)) => {
                    idle.push(session.id);
                }
                // It is in use, or was deleted since it was listed.
                Ok(_) | Err(StoreError::NoSuchSession(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(idle)
    }

    /// Returns the time by the clock of the store, where that is not the one of the process's own machine: whoever removes what
    /// is old can tell by it that the latter is ahead. As this is, `None`.
    ///
    /// # Errors
    ///
    /// Only what can befall the store itself.
    async fn shared_time(&self) -> Result<Option<Timestamp>, StoreError> {
        Ok(None)
    }

    /// Returns the runs of a session, the oldest first.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchSession`].
    async fn runs(&self, session: &SessionId) -> Result<Vec<RunSummary>, StoreError>;

    /// Returns a page of runs of all sessions, by their ids, the greatest first: ids that begin with the time they were
    /// made come the newest first. At most [`RunFilter::MAX_LIMIT`].
    ///
    /// # Errors
    ///
    /// Only what can befall the store itself.
    async fn find_runs(&self, filter: &RunFilter) -> Result<Vec<RunSummary>, StoreError>;

    /// Returns a run in a few words.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchRun`].
    async fn run(&self, run: RunId) -> Result<RunSummary, StoreError> {
        let found = self.find_runs(&RunFilter::exactly(run)).await?;
        found.into_iter().next().ok_or(StoreError::NoSuchRun(run))
    }

    /// Returns the runs that have not ended and that nobody drives: their leases have run out or were released. The
    /// oldest first.
    ///
    /// # Errors
    ///
    /// Only what can befall the store itself.
    async fn unfinished(&self) -> Result<Vec<RunSummary>, StoreError>;

    /// Returns those of the [unfinished](Self::unfinished) runs that are in sessions of an owner, or in those that have none. The
    /// oldest first.
    ///
    /// As this is, each run's session is read: a store finds them at once.
    ///
    /// # Errors
    ///
    /// Only what can befall the store itself.
    async fn unfinished_of(&self, owner: Option<&str>) -> Result<Vec<RunSummary>, StoreError> {
        let mut theirs = Vec::new();
        for run in self.unfinished().await? {
            match self.session(&run.session).await {
                Ok(session) if session.owner.as_deref() == owner => theirs.push(run),
                // It was deleted since it was listed.
                Ok(_) | Err(StoreError::NoSuchSession(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(theirs)
    }

    /// Returns those of the [unfinished](Self::unfinished) runs that can go on at once: they wait for nobody, or something was
    /// posted to them. The oldest first. Asked every two seconds, so that a store finds them without reading those that wait.
    ///
    /// # Errors
    ///
    /// Only what can befall the store itself.
    async fn due(&self) -> Result<Vec<RunSummary>, StoreError> {
        let mut runs = self.unfinished().await?;
        runs.retain(RunSummary::is_due);
        Ok(runs)
    }

    /// Returns runs that have not ended and have not taken yet what was posted to them, whether somebody drives them or not: at
    /// most [`RunFilter::MAX_LIMIT`], in no order. Asked every second, so that a store finds them by index.
    ///
    /// # Errors
    ///
    /// Only what can befall the store itself.
    async fn mailed(&self) -> Result<Vec<RunId>, StoreError>;

    /// Returns the messages of a session as its ended runs left them.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchSession`].
    async fn history(&self, id: &SessionId) -> Result<Transcript, StoreError>;

    /// Returns what the next run of a session goes on from, so that the run can begin in one step with its first records:
    /// [`RunStart::after`](super::RunStart::after) makes sure that it still goes on from there. While a run of the session is
    /// at work no last one is named.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchSession`].
    async fn standing(&self, id: &SessionId) -> Result<Standing, StoreError>;

    /// Returns the messages of a session as a run of it found them when it began: what it goes on from.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchRun`]; [`StoreError::Damaged`] if a run before it cannot be read.
    async fn history_before(&self, run: RunId) -> Result<Transcript, StoreError>;

    /// Returns what a session carries from one run to the next, by all records of its runs, those of runs that have not
    /// ended included: untrusted content, permissions that nobody took back, and the last plan.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchSession`].
    async fn carried(&self, session: &SessionId) -> Result<Carried, StoreError>;

    /// Takes a remembered answer back, from any process, whether a run is at work or not; tells whether there was one.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchSession`].
    async fn revoke(&self, session: &SessionId, id: u32) -> Result<bool, StoreError>;

    /// Returns what was used since a time, by the time of the records: what daily budgets are checked against. What is
    /// deleted no longer counts.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchSession`]. An owner without sessions has used nothing.
    async fn usage_since(
        &self,
        of: &UsageOf,
        since: Timestamp,
    ) -> Result<SessionMetrics, StoreError>;

    /// Returns what a session used, from its first record on.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchSession`].
    async fn metrics(&self, session: &SessionId) -> Result<SessionMetrics, StoreError> {
        let of = UsageOf::Session(session.clone());
        self.usage_since(&of, Timestamp::MIN).await
    }

    /// Returns what runs add up to, those that have not ended included: a run counts with all of it from when it began. What is
    /// deleted no longer counts.
    ///
    /// However many runs there are, no more than a page of them is in memory at a time. As provided, all runs are listed page
    /// by page, by their ids; a store that can find them by their beginnings does so.
    ///
    /// # Errors
    ///
    /// Only what can befall the store itself.
    async fn stats(&self, filter: &StatsFilter) -> Result<Stats, StoreError> {
        let mut stats = filter.begun();
        let mut page_of = RunFilter::default();
        page_of.owner.clone_from(&filter.owner);
        loop {
            let page = self.find_runs(&page_of).await?;
            let Some(last) = page.last() else {
                return Ok(stats);
            };
            page_of = page_of.after(last.run_id);
            for run in page.iter().filter(|run| filter.counts(run.started_at)) {
                stats.add(run);
            }
        }
    }

    /// Checks that a session's records are those that were kept, none changed, removed or moved, and that what it carries is
    /// what they say; returns where their hash chain ends. Who changes the whole chain, or cuts it off and mends what points at its end, is found out by a
    /// head that was noted elsewhere: the chain ends with it, or had it before the session went on.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchSession`]; [`StoreError::Damaged`] naming the run and the record, or if the chain never
    /// had the expected hash.
    async fn verify(
        &self,
        session: &SessionId,
        expect: Option<ContentHash>,
    ) -> Result<ChainHead, StoreError>;

    /// Tells whether anything can be written at this moment, by writing something that changes nothing that is kept.
    ///
    /// As provided, it always can: a store in memory has no disk that may be full.
    ///
    /// # Errors
    ///
    /// Only what can befall the store itself.
    async fn probe(&self) -> Result<(), StoreError> {
        Ok(())
    }
}
