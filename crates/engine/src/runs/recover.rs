//! Finds the runs that a process left behind, and resumes them.

use std::collections::HashSet;
use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use neuraxis_core::log::RunView;
use neuraxis_core::uuid::Uuid;
use neuraxis_core::{Interruption, RunId, RunStatus, Seq, SessionId};
use neuraxis_ports::{RequestContext, RunFilter, RunSummary, StoreError};

use super::slot::Claim;
use super::{LostRuns, ResumeError, Runs};
use crate::run_handle::RunHandle;

/// How many of the preceding runs of a session are checked for one that may block a run.
const MOST_EARLIER: usize = 16;

/// How long after the start of an engine runs are left alone whose tools belong to a server that has not connected yet:
/// a resumed run keeps the tools that it is resumed with until its end.
const SERVERS_BEGIN: Duration = Duration::from_secs(60);

/// Returns whether a session is one in which a run of an eval began, of a case or of a judge, according to its id.
#[must_use]
pub fn is_session_of_eval(session: &SessionId) -> bool {
    let id = session.as_str().strip_prefix("eval-");
    id.is_some_and(|id| id.parse::<Uuid>().is_ok())
}

/// The outcome for the runs that a process left behind.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct RecoveryReport {
    /// The runs that continue.
    pub resumed: Vec<RunHandle>,
    /// The runs that cannot continue, and why.
    pub left: Vec<(RunId, ResumeError)>,
}

/// Creates the context for a resumed run.
#[derive(Clone)]
pub(super) struct ContextOfEach(Arc<dyn Fn(&RunSummary) -> RequestContext + Send + Sync>);

impl fmt::Debug for ContextOfEach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ContextOfEach")
    }
}

impl Runs {
    /// Gives each run that [`recover`](Self::recover) and [`keep_recovering`](Self::keep_recovering) resume the context
    /// that `context` creates for it, instead of the [shared context](Self::with_context). A value in it is dropped
    /// when the run ends, is parked, or is not resumed after all.
    #[must_use]
    pub fn with_context_of_each(
        &self,
        context: impl Fn(&RunSummary) -> RequestContext + Send + Sync + 'static,
    ) -> Self {
        let mut runs = self.clone();
        runs.recovering = Some(ContextOfEach(Arc::new(context)));
        runs
    }

    /// Resumes all runs that a process left in progress when it died, and those whose inboxes hold what they wait for.
    /// Returns those that continue, and those that cannot, with the reason. A session that was reserved for a run that
    /// never began is freed, and an [eval](is_session_of_eval) run that was in progress is ended: its models may be
    /// different here. The approver is asked again about calls that wait for approval, if it [wants to
    /// be](neuraxis_ports::Approver::asks_again_after_restart).
    ///
    /// A run is found once its lease has expired: runs of a process that died a moment ago are found later, by
    /// [`keep_recovering`](Self::keep_recovering). Two kinds of runs are also left to `keep_recovering`, and are in
    /// neither list. Runs that this process itself lost, because their records could not be stored, are left alone for
    /// five seconds, longer each time. Runs in progress, or posted to, with tools of a
    /// [`ToolSource`](neuraxis_ports::ToolSource) that has had none yet are left alone during the first minute of the
    /// engine.
    ///
    /// # Errors
    ///
    /// A [`ResumeError`] if the store cannot list the runs.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, some runs may have been resumed.
    pub async fn recover(&self) -> Result<RecoveryReport, ResumeError> {
        // Questions that expired meanwhile are reported first, so they are not asked again.
        let not_swept = match self.approvals().sweep().await {
            Ok(swept) => swept.left,
            // Runs that wait for no decision can continue anyway.
            Err(error) => {
                let error: &(dyn Error + 'static) = &error;
                tracing::warn!(error, "could not check which questions have expired");
                Vec::new()
            }
        };
        let (store, approver) = (&self.parts.store, &self.parts.engine.approver);
        let left = match approver.asks_again_after_restart() {
            true => store.unfinished().await?,
            false => store.due().await?,
        };
        let mut recovered = self.recover_each(left).await?;
        recovered.left.extend(not_swept);
        Ok(recovered)
    }

    /// Repeatedly searches for left runs until the engine shuts down: runs whose process died, once their leases have
    /// expired, and waiting runs, once something was posted to them. A run that cannot be resumed here, such as one of
    /// another folder, is tried less and less often, down to every five minutes.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the search stops.
    pub async fn keep_recovering(&self, every: Duration) {
        let closing = &self.parts.engine.closing;
        let sleep = || closing.run_until_cancelled(tokio::time::sleep(every));
        let mut left = LeftRuns::default();
        while sleep().await.is_some() {
            // Only due runs, so no user is asked again about a run that waits.
            let recovered = match self.parts.store.due().await {
                Ok(due) => self.recover_each(left.without_resting(due)).await,
                Err(error) => Err(error.into()),
            };
            match recovered {
                Ok(recovered) => left.report(&recovered),
                Err(error) => {
                    let error: &(dyn Error + 'static) = &error;
                    tracing::warn!(error, "could not check which runs were left unfinished");
                }
            }
        }
    }

    async fn recover_each(&self, runs: Vec<RunSummary>) -> Result<RecoveryReport, ResumeError> {
        let mut recovered = RecoveryReport::default();
        let lost = &self.parts.lost;
        for run in runs.iter().filter(|run| !lost.rests(run.run_id)) {
            match self.recover_run(run).await {
                Ok(handle) => recovered.resumed.extend(handle),
                // It waits, or was resumed or ended elsewhere first.
                Err(ResumeError::NothingToDo | ResumeError::AtWork(_) | ResumeError::Ended(_)) => {}
                Err(ResumeError::Store(StoreError::SessionBusy { .. } | StoreError::Stale(_))) => {}
                // The engine stops: the remaining runs are left to the next process.
                Err(ResumeError::ShuttingDown) => break,
                Err(error) => recovered.left.push((run.run_id, error)),
            }
        }
        Ok(recovered)
    }

    /// Resumes a left run; if it never began its session is freed instead, and if it belongs to an eval it is ended.
    async fn recover_run(&self, run: &RunSummary) -> Result<Option<RunHandle>, ResumeError> {
        if run.records == 0 {
            self.abandon_unbegun(&run.session, run.run_id).await?;
            return Ok(None);
        }
        // It is not waiting. An imported run is left to the user.
        let is_at_work = run.status == RunStatus::Running && !run.imported;
        if is_at_work && is_session_of_eval(&run.session) {
            let cause = Interruption::EvalGone;
            self.close_as(run.run_id, cause, &cause.to_string()).await?;
            return Ok(None);
        }
        if let Some(dispatcher) = &self.parts.dispatcher {
            // A waiting run was already dispatched, and is not dispatched again.
            if run.is_due()
                && let Some(times) = self.parts.dispatches.due(run.run_id)
            {
                self.dispatch_soon(dispatcher, run.session.clone(), run.run_id);
                // A process may still hold an earlier run of the session that was waiting and that another process has
                // ended, and keep this run from starting.
                if let Some(earlier) = self.earlier(run, times).await? {
                    self.dispatch_soon(dispatcher, run.session.clone(), earlier);
                }
            }
            return Ok(None);
        }
        // A run that is not due, about which the user is only asked again, is not put off: it would not be found again
        // later.
        if run.is_due() && self.awaits_server(run.run_id).await? {
            return Ok(None);
        }
        let runs = match &self.recovering {
            Some(of_each) => self.with_context((of_each.0)(run)),
            None => self.clone(),
        };
        runs.resume(run.run_id, Vec::new()).await.map(Some)
    }

    /// Returns whether a run has tools of a server that was started with this process and is not connected yet.
    async fn awaits_server(&self, run: RunId) -> Result<bool, StoreError> {
        let engine = &self.parts.engine;
        if engine.began.elapsed() >= SERVERS_BEGIN || !engine.catalogs.awaits_any() {
            return Ok(false);
        }
        let records = self.parts.store.records(run, Seq(0)).await?;
        let view = RunView::of(&records);
        let agents = view.spec().into_iter().flat_map(|spec| spec.all_agents());
        let mut tools = agents.flat_map(|agent| agent.tools.iter());
        Ok(tools.any(|tool| engine.catalogs.awaits(tool.name.as_str())))
    }

    /// Returns a run of a session that preceded another: the last one at first, and each further time the one before
    /// that.
    async fn earlier(&self, run: &RunSummary, times: usize) -> Result<Option<RunId>, StoreError> {
        let place = times % MOST_EARLIER;
        let filter = RunFilter::default().of_session(run.session.clone());
        let newest = filter.limited_to(place + 2);
        let newest = self.parts.store.find_runs(&newest).await?;
        let mut earlier = newest.iter().filter(|it| it.run_id != run.run_id);
        Ok(earlier.nth(place).map(|it| it.run_id))
    }

    /// Frees a session that was reserved for a run that never began because its process died first: the run that
    /// [`RequestError::Busy`](crate::RequestError::Busy) names and that has no records.
    ///
    /// # Errors
    ///
    /// [`ResumeError::AtWork`] if the run has begun after all and must be resumed instead; [`ResumeError::OtherOwner`].
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the session may stay reserved.
    pub async fn abandon_unbegun(
        &self,
        session: &SessionId,
        run: RunId,
    ) -> Result<(), ResumeError> {
        // The caller names both, and may be wrong about which run belongs to which session.
        if !self.may_see(session).await? {
            let session = session.clone();
            return Err(ResumeError::OtherOwner { session });
        }
        self.check_owner_of(run).await?;
        let claim = Claim::take(&self.parts, run).ok_or(ResumeError::AtWork(run))?;
        if !self.parts.store.records(run, Seq(0)).await?.is_empty() {
            return Err(ResumeError::AtWork(run));
        }
        Ok(claim.lease(session).await?.abandon().await?)
    }
}

/// The runs that cannot be resumed here, such as those of another folder. Each is logged once, and left alone for
/// longer each time, since finding out requires reading all of its records.
#[derive(Debug, Default)]
struct LeftRuns {
    reported: HashSet<RunId>,
    resting: LostRuns,
}

impl LeftRuns {
    /// Returns the runs to resume now, and forgets those that are gone.
    fn without_resting(&mut self, mut due: Vec<RunSummary>) -> Vec<RunSummary> {
        let due_ids: HashSet<_> = due.iter().map(|run| run.run_id).collect();
        self.reported.retain(|run| due_ids.contains(run));
        due.retain(|run| !self.resting.rests(run.run_id));
        due
    }

    /// Logs the outcome, once for each run that cannot continue.
    fn report(&mut self, recovered: &RecoveryReport) {
        for run in &recovered.resumed {
            tracing::info!(run = %run.run_id(), "resumed an interrupted run");
        }
        for (run, error) in &recovered.left {
            // Failures of the store are temporary.
            if !matches!(error, ResumeError::Store(_)) {
                self.resting.note(*run);
            }
            if self.reported.insert(*run) {
                // Includes its causes.
                let error: &(dyn Error + 'static) = error;
                tracing::warn!(%run, error, "an interrupted run cannot be resumed");
            }
        }
    }
}
