//! Stored sessions and their runs: listing, finding by what a user types, showing, checking, moving and deleting them.
//!
//! Needs only a store: no model and no policy. Not for driving runs, which [`Runs`](crate::Runs) does, nor for deciding
//! about calls, which [`Approvals`](crate::Approvals) does.

mod archive;
mod export;
mod find;
mod follow;
mod import;
mod recorded;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use neuraxis_core::jiff::Timestamp;
use neuraxis_core::log::Stats;
use neuraxis_core::{
    ContentHash, InboxEntry, InboxInput, InputId, JsonText, Message, Record, RecordBody, RunId,
    RunStatus, Seq, SessionId, SessionMetrics, Steered, ToolCallId, ToolFailure, Transcript,
};
use neuraxis_ports::{
    ChainHead, Ids, OutputHead, OutputPage, OutputPlace, RunFilter, RunSummary, Session,
    SessionFilter, SessionSearch, SessionStore, SessionSummary, SessionsFound, StatsFilter,
    StoreError,
};
use serde::Serialize;

use crate::engine::UuidV7;
pub use archive::{
    ARCHIVE_FORMAT, ArchiveEntry, ArchiveError, ArchiveFault, ArchiveReader, ArchivedSession,
    check_archive,
};
pub use export::{ExportError, Exported};
pub use find::FindError;
pub use follow::FollowedRun;
pub use import::{ImportError, ImportedSession, UnfinishedRuns};
pub use recorded::{LogFileError, RecordedRun, ReplayFailure, read_log_file};

/// The sessions of a store, and their runs. Clones share the store.
#[derive(Debug, Clone)]
pub struct Sessions {
    store: Arc<dyn SessionStore>,
}

/// An overview of one session.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct SessionOverview {
    /// The session itself.
    pub session: Session,
    /// Its runs, the oldest first.
    pub runs: Vec<RunSummary>,
    /// What its runs used, including runs that have not ended.
    pub metrics: SessionMetrics,
    /// Its messages, as its ended runs left them.
    pub history: Transcript,
    /// Its last plan, as JSON text: usually that of a `Plan`. Null in JSON if none of its runs made one.
    pub plan: Option<JsonText>,
}

impl Sessions {
    /// Creates a view of the sessions in a store.
    #[must_use]
    pub fn new(store: Arc<dyn SessionStore>) -> Self {
        Self { store }
    }

    /// Lists the sessions that match a filter one by one, in the order of the filter. The filter's limit is how many are
    /// read at a time.
    #[must_use]
    pub fn each(&self, filter: SessionFilter) -> EachSession {
        EachSession {
            store: Arc::clone(&self.store),
            filter,
            page: Vec::new().into_iter(),
        }
    }

    /// Returns a page of sessions, in the order of the filter, with what a list shows of each: its first message and its
    /// last run.
    ///
    /// # Errors
    ///
    /// Only errors of the store itself.
    pub async fn list(&self, filter: &SessionFilter) -> Result<Vec<SessionSummary>, StoreError> {
        self.store.summaries(filter).await
    }

    /// Returns sessions whose title, or the user's message of one of their runs, contains a text. A page may be short or
    /// empty although more follow: continue as long as [`SessionsFound::next`] says where.
    ///
    /// # Errors
    ///
    /// Only errors of the store itself.
    pub async fn search(&self, search: &SessionSearch) -> Result<SessionsFound, StoreError> {
        self.store.search(search).await
    }

    /// Sets the title of a session, or removes it if `None`, also while a run is in progress. Returns the session.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchSession`]; [`StoreError::Invalid`] for a title that
    /// [`check_title`](neuraxis_ports::check_title) refuses.
    pub async fn rename(&self, id: &SessionId, title: Option<&str>) -> Result<Session, StoreError> {
        self.store.set_title(id, title).await?;
        self.store.session(id).await
    }

    /// Returns a session.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchSession`].
    pub async fn get(&self, id: &SessionId) -> Result<Session, StoreError> {
        self.store.session(id).await
    }

    /// Returns an overview of a session.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchSession`].
    pub async fn overview(&self, id: &SessionId) -> Result<SessionOverview, StoreError> {
        Ok(SessionOverview {
            session: self.store.session(id).await?,
            runs: self.store.runs(id).await?,
            metrics: self.store.metrics(id).await?,
            history: self.store.history(id).await?,
            plan: self.store.carried(id).await?.plan,
        })
    }

    /// Returns the messages of a session as its ended runs left them.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchSession`].
    pub async fn history(&self, id: &SessionId) -> Result<Transcript, StoreError> {
        self.store.history(id).await
    }

    /// Returns what the runs of a session used.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchSession`].
    pub async fn metrics(&self, id: &SessionId) -> Result<SessionMetrics, StoreError> {
        self.store.metrics(id).await
    }

    /// Returns the last plan of a session, if it has one.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchSession`].
    pub async fn plan(&self, id: &SessionId) -> Result<Option<JsonText>, StoreError> {
        Ok(self.store.carried(id).await?.plan)
    }

    /// Verifies that a session is unaltered, with no record changed, removed or moved, and returns the head of its hash
    /// chain. If `expect` is given, such as a head noted elsewhere, the chain must have had that head; it may have
    /// grown since.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchSession`]; [`StoreError::Damaged`], which says what does not match.
    pub async fn verify(
        &self,
        id: &SessionId,
        expect: Option<ContentHash>,
    ) -> Result<ChainHead, StoreError> {
        self.store.verify(id, expect).await
    }

    /// Returns how a session was altered; `None` if it is unaltered or does not exist. Nothing should continue from an
    /// altered session: an attacker who can alter its log could add text and permissions to what a model continues
    /// from.
    ///
    /// # Errors
    ///
    /// Only errors of the store itself.
    pub async fn alteration(&self, id: &SessionId) -> Result<Option<String>, StoreError> {
        match self.store.verify(id, None).await {
            Ok(_) | Err(StoreError::NoSuchSession(_)) => Ok(None),
            Err(StoreError::Damaged(why)) => Ok(Some(why)),
            Err(error) => Err(error),
        }
    }

    /// Deletes a session with all of its runs, their long outputs, inboxes and metrics.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchSession`]; [`StoreError::SessionBusy`] if one of its runs has not ended.
    pub async fn delete(&self, id: &SessionId) -> Result<(), StoreError> {
        self.store.delete_session(id).await
    }

    /// Deletes a session like [`delete`](Self::delete), if the head of its hash chain is still the one at which the
    /// session was [exported](Self::export). This ensures that nothing is deleted that is not in the archive.
    ///
    /// # Errors
    ///
    /// Same as [`delete`](Self::delete); [`StoreError::SessionChanged`] if the session has changed since.
    pub async fn delete_at(&self, id: &SessionId, head: ChainHead) -> Result<(), StoreError> {
        self.store.delete_session_at(id, head).await
    }

    /// Returns the sessions without activity since a time, which [`prune`](Self::prune) would delete.
    ///
    /// # Errors
    ///
    /// Only errors of the store itself.
    pub async fn idle_since(&self, before: Timestamp) -> Result<Vec<Session>, StoreError> {
        // A store finds this many in one query. The remaining sessions are checked one by one only if there are more.
        let most = SessionFilter::MAX_LIMIT;
        let oldest: HashSet<_> = self.idle(before, most).await?.into_iter().collect();
        let are_all = oldest.len() < most;
        let mut idle = Vec::new();
        let mut each = self.each(SessionFilter::default());
        while let Some(session) = each.next().await? {
            if oldest.contains(&session.id) {
                idle.push(session);
                continue;
            }
            if are_all || session.created_at >= before {
                continue;
            }
            match self.runs(&session.id).await? {
                Some(runs) if runs.iter().all(|run| run.ended_before(before)) => idle.push(session),
                // The session is in use, or was deleted in the meantime.
                _ => {}
            }
        }
        Ok(idle)
    }

    /// Returns at most `most` of the sessions without activity since a time, the oldest first. A store finds them by
    /// age, however many there are.
    ///
    /// # Errors
    ///
    /// Only errors of the store itself.
    pub async fn idle(&self, before: Timestamp, most: usize) -> Result<Vec<SessionId>, StoreError> {
        self.store.idle(before, most).await
    }

    /// Returns the runs that have not ended, that no process drives, and in which nothing has happened since a time, the
    /// oldest first. Their sessions are neither [idle](Self::idle) nor [pruned](Self::prune).
    ///
    /// # Errors
    ///
    /// Only errors of the store itself.
    pub async fn unfinished_since(&self, before: Timestamp) -> Result<Vec<RunSummary>, StoreError> {
        let mut runs = self.store.unfinished().await?;
        runs.retain(|run| run.last_at.is_some_and(|last| last < before));
        Ok(runs)
    }

    /// Returns the time by the store's clock, if that is not the clock of this machine, which may be wrong.
    ///
    /// # Errors
    ///
    /// Only errors of the store itself.
    pub async fn shared_time(&self) -> Result<Option<Timestamp>, StoreError> {
        self.store.shared_time().await
    }

    /// Deletes the sessions without activity since a time, and returns how many. A session with a run that has not
    /// ended is kept.
    ///
    /// # Errors
    ///
    /// Only errors of the store itself. Some sessions may already be deleted by then.
    pub async fn prune(&self, before: Timestamp) -> Result<u64, StoreError> {
        self.store.prune(before).await
    }

    /// Returns the runs of a session, the oldest first; `None` if the session does not exist, for example because it
    /// was deleted since it was listed.
    ///
    /// # Errors
    ///
    /// Only errors of the store itself.
    pub async fn runs(&self, session: &SessionId) -> Result<Option<Vec<RunSummary>>, StoreError> {
        match self.store.runs(session).await {
            Ok(runs) => Ok(Some(runs)),
            Err(StoreError::NoSuchSession(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the run of a session that has not ended, if any.
    ///
    /// # Errors
    ///
    /// Only errors of the store itself.
    pub async fn unfinished_run(
        &self,
        session: &SessionId,
    ) -> Result<Option<RunSummary>, StoreError> {
        let is_open =
            |run: &RunSummary| matches!(run.status, RunStatus::Running | RunStatus::Waiting);
        let runs = self.runs(session).await?.unwrap_or_default();
        Ok(runs.into_iter().rfind(is_open))
    }

    /// Lists the runs of all sessions that match a filter one by one, the newest first. The filter's limit is how many
    /// are read at a time.
    #[must_use]
    pub fn each_run(&self, filter: RunFilter) -> EachRun {
        EachRun {
            store: Arc::clone(&self.store),
            filter,
            page: Vec::new().into_iter(),
        }
    }

    /// Returns the totals of runs: overall, and by day, owner, model, role, tool and agent. At most one page of runs is in
    /// memory at a time, however many there are.
    ///
    /// # Errors
    ///
    /// Only errors of the store itself.
    pub async fn stats(&self, filter: &StatsFilter) -> Result<Stats, StoreError> {
        self.store.stats(filter).await
    }

    /// Sends a message to a run, as its user. The process that drives the run receives it within some seconds and adds
    /// it after the current batch of tool calls. A run that no process is driving stays as it is, and receives the
    /// message when it continues; [`Runs::steer`](crate::Runs::steer) also resumes such a run. Returns the id that the
    /// message's record has.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchRun`]; [`StoreError::RunEnded`]; [`StoreError::InboxFull`]; [`StoreError::Invalid`] for a
    /// message that cannot be stored.
    pub async fn steer(
        &self,
        run: RunId,
        message: impl Into<String>,
    ) -> Result<InputId, StoreError> {
        self.steer_by(run, message, None).await
    }

    /// Like [`steer`](Self::steer), and the message's record names who sent it, as records of decisions do.
    ///
    /// # Errors
    ///
    /// Same as [`steer`](Self::steer).
    pub async fn steer_by(
        &self,
        run: RunId,
        message: impl Into<String>,
        by: Option<String>,
    ) -> Result<InputId, StoreError> {
        let id = InputId::new(UuidV7.new_id().to_string());
        let steered = Steered::new(id.clone(), Arc::new(Message::user(message))).by(by);
        let entry = InboxEntry::new(InboxInput::Steered(steered));
        self.store.post(run, &entry).await?;
        Ok(id)
    }

    /// Returns the summary of a run.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchRun`].
    pub async fn run(&self, run: RunId) -> Result<RunSummary, StoreError> {
        self.store.run(run).await
    }

    /// Returns the records of a run, in order.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchRun`].
    pub async fn records(&self, run: RunId) -> Result<Vec<Arc<Record>>, StoreError> {
        self.store.records(run, Seq(0)).await
    }

    /// Returns how the tool calls failed that did, by their ids: messages hold only the errors for the model. Reads the
    /// records of the runs in which a call failed.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] if records cannot be read.
    pub async fn failed_calls(
        &self,
        runs: &[RunSummary],
    ) -> Result<HashMap<ToolCallId, ToolFailure>, StoreError> {
        let mut failed = HashMap::new();
        for run in runs.iter().filter(|run| run.metrics().tool_errors > 0) {
            for record in self.records(run.run_id).await? {
                if let RecordBody::ToolResult(result) = &record.body
                    && let Some(failure) = result.failure
                {
                    failed.insert(result.tool_call_id.clone(), failure);
                }
            }
        }
        Ok(failed)
    }

    /// Returns the heads of the long outputs that are kept beside a run, by their calls' ids.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchRun`].
    pub async fn outputs(&self, run: RunId) -> Result<Vec<OutputHead>, StoreError> {
        self.store.outputs(run).await
    }

    /// Returns a page of a long output that is kept beside a run, with at most `most` bytes.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchRun`]; [`StoreError::NoSuchOutput`].
    pub async fn output_page(
        &self,
        run: RunId,
        call: &ToolCallId,
        from: OutputPlace,
        most: usize,
    ) -> Result<OutputPage, StoreError> {
        self.store.output_page(run, call, from, most).await
    }

    /// Returns the messages that a run continued from when it began.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchRun`]; [`StoreError::Damaged`] if an earlier run cannot be read.
    pub async fn history_before(&self, run: RunId) -> Result<Transcript, StoreError> {
        self.store.history_before(run).await
    }
}

/// Sessions, one at a time. A session that is deleted during the listing may still be listed.
#[derive(Debug)]
pub struct EachSession {
    store: Arc<dyn SessionStore>,
    filter: SessionFilter,
    page: std::vec::IntoIter<Session>,
}

impl EachSession {
    /// Returns the next session; `None` at the end.
    ///
    /// # Errors
    ///
    /// Only errors of the store itself.
    pub async fn next(&mut self) -> Result<Option<Session>, StoreError> {
        if let Some(session) = self.page.next() {
            return Ok(Some(session));
        }
        let page = self.store.sessions(&self.filter).await?;
        if let Some(last) = page.last() {
            self.filter = self.filter.clone().after(last);
        }
        self.page = page.into_iter();
        Ok(self.page.next())
    }
}

/// Runs, one at a time.
#[derive(Debug)]
pub struct EachRun {
    store: Arc<dyn SessionStore>,
    filter: RunFilter,
    page: std::vec::IntoIter<RunSummary>,
}

impl EachRun {
    /// Returns the next run; `None` at the end.
    ///
    /// # Errors
    ///
    /// Only errors of the store itself.
    pub async fn next(&mut self) -> Result<Option<RunSummary>, StoreError> {
        if let Some(run) = self.page.next() {
            return Ok(Some(run));
        }
        let page = self.store.find_runs(&self.filter).await?;
        if let Some(last) = page.last() {
            self.filter = self.filter.clone().after(last.run_id);
        }
        self.page = page.into_iter();
        Ok(self.page.next())
    }
}

#[cfg(test)]
mod tests;
