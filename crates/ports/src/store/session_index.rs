//! The role of a store that finds things: sessions, their runs, and their totals.

use std::fmt::Debug;

use async_trait::async_trait;
use neuraxis_core::jiff::Timestamp;
use neuraxis_core::log::{Carried, Stats};
use neuraxis_core::{ContentHash, RunId, SessionId, SessionMetrics, Transcript};

use super::{
    ChainHead, Continuation, RunFilter, RunSummary, Session, SessionFilter, SessionSearch,
    SessionSummary, SessionsFound, StatsFilter, StoreError, UsageOf,
};

/// Maintains the index of sessions and runs: creates, lists and removes sessions, lists runs, and reports what a
/// session carries from one run to the next.
///
/// None of this needs a lease, and all of it may be called from any process. [`SessionStore`](super::SessionStore)
/// documents retries, cancel safety and order.
#[async_trait]
pub trait SessionIndex: Debug + Send + Sync + 'static {
    /// Adds a session.
    ///
    /// # Errors
    ///
    /// [`StoreError::SessionExists`] if the id is taken, even by an earlier attempt; [`StoreError::Invalid`].
    async fn create_session(&self, session: &Session) -> Result<(), StoreError>;

    /// Returns a session.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchSession`].
    async fn session(&self, id: &SessionId) -> Result<Session, StoreError>;

    /// Returns a page of sessions in the [order](SessionFilter::order) of the filter, at most
    /// [`SessionFilter::MAX_LIMIT`]. Their seeds are left out.
    ///
    /// # Errors
    ///
    /// Only failures of the store itself.
    async fn sessions(&self, filter: &SessionFilter) -> Result<Vec<Session>, StoreError>;

    /// Returns the same page as [`sessions`](Self::sessions), with what a list shows of each: its first message and its
    /// last run. One read, however many sessions and runs there are.
    ///
    /// # Errors
    ///
    /// Only failures of the store itself.
    async fn summaries(&self, filter: &SessionFilter) -> Result<Vec<SessionSummary>, StoreError>;

    /// Returns sessions of a list that contain a text, in the order of the list.
    ///
    /// Unlike [`summaries`](Self::summaries), a page may be short or empty although more follow, because a call examines
    /// only as much as [`SearchExtent`](super::SearchExtent) allows: it has reached the end only if
    /// [`SessionsFound::next`] is `None`.
    ///
    /// # Errors
    ///
    /// Only failures of the store itself.
    async fn search(&self, search: &SessionSearch) -> Result<SessionsFound, StoreError>;

    /// Sets the title of a session, or removes it if `None`, whether a run is in progress or not. The last caller wins.
    ///
    /// The default implementation refuses it: a store that keeps titles must implement it.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchSession`]; [`StoreError::Invalid`] for a title that [`check_title`](super::check_title)
    /// refuses.
    async fn set_title(&self, id: &SessionId, title: Option<&str>) -> Result<(), StoreError> {
        let _ = (id, title);
        Err(StoreError::Refused("it keeps no titles".to_owned()))
    }

    /// Removes a session with everything that belongs to it: its runs, their records, inboxes and outputs, and what it
    /// carries.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchSession`]; [`StoreError::SessionBusy`] while a run of it has not ended.
    async fn delete_session(&self, id: &SessionId) -> Result<(), StoreError>;

    /// Removes a session like [`delete_session`](Self::delete_session), but only if its hash chain still ends where it
    /// did when the session was read: anything added later would be missing from every copy made of it.
    ///
    /// In the default implementation, something may be added between the check and the removal. A store should do both
    /// in one step.
    ///
    /// # Errors
    ///
    /// Same as [`delete_session`](Self::delete_session); [`StoreError::SessionChanged`] if the chain ends elsewhere.
    async fn delete_session_at(&self, id: &SessionId, head: ChainHead) -> Result<(), StoreError> {
        if self.verify(id, None).await? != head {
            return Err(StoreError::SessionChanged(id.clone()));
        }
        self.delete_session(id).await
    }

    /// Removes all sessions in which nothing has happened since the given time, and returns how many were removed. A
    /// session with a run that has not ended stays.
    ///
    /// # Errors
    ///
    /// Only failures of the store itself; some sessions may have been removed by then.
    async fn prune(&self, before: Timestamp) -> Result<u64, StoreError>;

    /// Returns sessions that [`prune`](Self::prune) would remove, at most `most`, the oldest first: for archiving them
    /// first. The default implementation checks only the newest [`SessionFilter::MAX_LIMIT`] sessions; a store that can
    /// hold more should search by age.
    ///
    /// # Errors
    ///
    /// Only failures of the store itself.
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
                // The session is in use, or was deleted since it was listed.
                Ok(_) | Err(StoreError::NoSuchSession(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(idle)
    }

    /// Returns the time by the clock of the store, if that is not the clock of this process's machine. Code that
    /// removes old data uses it to detect that the local clock is ahead. `None` by default.
    ///
    /// # Errors
    ///
    /// Only failures of the store itself.
    async fn shared_time(&self) -> Result<Option<Timestamp>, StoreError> {
        Ok(None)
    }

    /// Returns the runs of a session, the oldest first.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchSession`].
    async fn runs(&self, session: &SessionId) -> Result<Vec<RunSummary>, StoreError>;

    /// Returns a page of runs of all sessions, sorted by id, the greatest first. Ids that begin with their creation
    /// time sort the newest first. At most [`RunFilter::MAX_LIMIT`].
    ///
    /// # Errors
    ///
    /// Only failures of the store itself.
    async fn find_runs(&self, filter: &RunFilter) -> Result<Vec<RunSummary>, StoreError>;

    /// Returns the summary of a run.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchRun`].
    async fn run(&self, run: RunId) -> Result<RunSummary, StoreError> {
        let found = self.find_runs(&RunFilter::exactly(run)).await?;
        found.into_iter().next().ok_or(StoreError::NoSuchRun(run))
    }

    /// Returns the runs that have not ended and that no process drives: their leases have expired or were released. The
    /// oldest first.
    ///
    /// # Errors
    ///
    /// Only failures of the store itself.
    async fn unfinished(&self) -> Result<Vec<RunSummary>, StoreError>;

    /// Returns the [unfinished](Self::unfinished) runs in sessions of an owner, or in sessions without an owner. The
    /// oldest first.
    ///
    /// The default implementation reads the session of each run; a store should find the runs directly.
    ///
    /// # Errors
    ///
    /// Only failures of the store itself.
    async fn unfinished_of(&self, owner: Option<&str>) -> Result<Vec<RunSummary>, StoreError> {
        let mut theirs = Vec::new();
        for run in self.unfinished().await? {
            match self.session(&run.session).await {
                Ok(session) if session.owner.as_deref() == owner => theirs.push(run),
                // The session was deleted since the run was listed.
                Ok(_) | Err(StoreError::NoSuchSession(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(theirs)
    }

    /// Returns the [unfinished](Self::unfinished) runs that can continue immediately: they are not waiting, or their
    /// inboxes hold something. The oldest first. Called every two seconds, so a store should find them without reading
    /// the waiting runs.
    ///
    /// # Errors
    ///
    /// Only failures of the store itself.
    async fn due(&self) -> Result<Vec<RunSummary>, StoreError> {
        let mut runs = self.unfinished().await?;
        runs.retain(RunSummary::is_due);
        Ok(runs)
    }

    /// Returns runs that have not ended and whose inboxes hold something, whether a process drives them or not: at most
    /// [`RunFilter::MAX_LIMIT`], in no particular order. Called every second, so a store should find them by index.
    ///
    /// # Errors
    ///
    /// Only failures of the store itself.
    async fn mailed(&self) -> Result<Vec<RunId>, StoreError>;

    /// Returns the messages of a session as its ended runs left them.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchSession`].
    async fn history(&self, id: &SessionId) -> Result<Transcript, StoreError>;

    /// Returns what the next run of a session continues from, so the run and its first records can begin in one step;
    /// [`RunStart::after`](super::RunStart::after) ensures that this is still current then. While a run of the session
    /// is in progress, no last run is named.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchSession`].
    async fn continuation(&self, id: &SessionId) -> Result<Continuation, StoreError>;

    /// Returns the messages of a session as one of its runs found them when it began.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchRun`]; [`StoreError::Damaged`] if an earlier run cannot be read.
    async fn history_before(&self, run: RunId) -> Result<Transcript, StoreError>;

    /// Returns what a session carries from one run to the next, according to all records of its runs, including runs
    /// that have not ended: untrusted content, remembered answers that were not revoked, and the last plan.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchSession`].
    async fn carried(&self, session: &SessionId) -> Result<Carried, StoreError>;

    /// Revokes a remembered answer, from any process, whether a run is in progress or not; returns whether the answer
    /// existed.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchSession`].
    async fn revoke(&self, session: &SessionId, id: u32) -> Result<bool, StoreError>;

    /// Returns the usage since a time, by the time of the records. Daily budgets are checked against it. Deleted runs
    /// are not included.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchSession`]. The usage of an owner without sessions is zero.
    async fn usage_since(
        &self,
        of: &UsageOf,
        since: Timestamp,
    ) -> Result<SessionMetrics, StoreError>;

    /// Returns the usage of a session, from its first record on.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchSession`].
    async fn metrics(&self, session: &SessionId) -> Result<SessionMetrics, StoreError> {
        let of = UsageOf::Session(session.clone());
        self.usage_since(&of, Timestamp::MIN).await
    }

    /// Returns the totals of runs, including runs that have not ended. A run is counted whole, at the time when it
    /// began. Deleted runs are not included.
    ///
    /// At most one page of runs is in memory at a time, however many runs there are. The default implementation lists
    /// all runs page by page, by id; a store that can find them by their start time should do so.
    ///
    /// # Errors
    ///
    /// Only failures of the store itself.
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
                stats.add_of(run.owner.as_deref(), run);
            }
        }
    }

    /// Checks that a session's records are the ones that were stored, with none changed, removed or moved, and that
    /// what the session carries agrees with them; returns the end of their hash chain. If the whole chain was
    /// rewritten, or cut off and the reference to its end adjusted, a head that was noted elsewhere reveals it: an
    /// intact chain ends with that head, or had it before the session continued.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchSession`]; [`StoreError::Damaged`] naming the run and the record, or if the chain never had
    /// the expected hash.
    async fn verify(
        &self,
        session: &SessionId,
        expect: Option<ContentHash>,
    ) -> Result<ChainHead, StoreError>;

    /// Checks whether anything can be written at this moment, with a write that changes no stored data.
    ///
    /// By default it always succeeds: a store in memory has no disk that can be full.
    ///
    /// # Errors
    ///
    /// Only failures of the store itself.
    async fn probe(&self) -> Result<(), StoreError> {
        Ok(())
    }
}
