//! Finds the runs that a process left behind, and lets them go on.

use std::collections::HashSet;
use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use neuraxis_core::log::RunView;
use neuraxis_core::uuid::Uuid;
use neuraxis_core::{RunId, RunStatus, Seq, SessionId};
use neuraxis_ports::{RequestContext, RunFilter, RunSummary, StoreError};

use super::slot::Claim;
use super::{LostRuns, ResumeError, Runs};
use crate::run_handle::RunHandle;

/// How many of the runs before one are looked at, of what may stand in its way.
const MOST_EARLIER: usize = 16;

/// For how long from the beginning of an engine runs are left alone whose tools are of a server that has not been there yet: a
/// run keeps the tools with which it is taken up to its end.
const SERVERS_BEGIN: Duration = Duration::from_secs(60);

/// Why a run of an eval ended whose process died.
const EVAL_GONE: &str =
    "the eval that it was begun for is gone, and nobody waits for what comes of it";

/// Tells by its id whether a session is one that a run of an eval was begun in: of a case, or of a judge.
#[must_use]
pub fn is_session_of_eval(session: &SessionId) -> bool {
    let id = session.as_str().strip_prefix("eval-");
    id.is_some_and(|id| id.parse::<Uuid>().is_ok())
}

/// What became of the runs that a process left behind.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Recovered {
    /// The runs that go on.
    pub resumed: Vec<RunHandle>,
    /// The runs that cannot, and why.
    pub left: Vec<(RunId, ResumeError)>,
}

/// Gives a run that is taken up a context of its own.
#[derive(Clone)]
pub(super) struct ContextOfEach(Arc<dyn Fn(&RunSummary) -> RequestContext + Send + Sync>);

impl fmt::Debug for ContextOfEach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ContextOfEach")
    }
}

impl Runs {
    /// Gives each run that [`recover`](Self::recover) and [`keep_recovering`](Self::keep_recovering) take up what `context`
    /// makes for it, in place of the [context of all](Self::with_context): a value in it is dropped once the run is over, is put
    /// aside, or is not taken up after all.
    #[must_use]
    pub fn with_context_of_each(
        &self,
        context: impl Fn(&RunSummary) -> RequestContext + Send + Sync + 'static,
    ) -> Self {
        let mut runs = self.clone();
        runs.recovering = Some(ContextOfEach(Arc::new(context)));
        runs
    }

    /// Takes up all runs that a process left at work when it died, and those that were posted what they wait for.
    /// Returns those that go on, and those that cannot, with the reason. A session that was reserved for a run which never
    /// began is freed, and a run of an [eval](is_session_of_eval) that was at work is ended: its models may be others here.
    /// About calls that wait for a person the approver is asked anew, if it [wants to be](neuraxis_ports::Approver::is_asked_anew).
    ///
    /// A run is left once its lease has run out: those of a process that died just now are found later, by
    /// [`keep_recovering`](Self::keep_recovering). So are those that this process itself lost, because their records could not be
    /// kept: they are left alone for five seconds, longer each time, and are in neither list meanwhile. Neither are those at
    /// work, or posted to, with tools of a [`ToolSource`](neuraxis_ports::ToolSource) that has had none yet: for a minute from the
    /// beginning of the engine they are left to `keep_recovering` as well.
    ///
    /// # Errors
    ///
    /// A [`ResumeError`] if the store cannot tell which runs there are.
    ///
    /// # Cancel safety
    ///
    /// Dropped, some runs may have been taken up.
    pub async fn recover(&self) -> Result<Recovered, ResumeError> {
        // What expired while nobody looked is told first, so that nobody is asked about it again.
        let untold = match self.approvals().sweep().await {
            Ok(swept) => swept.left,
            // Those that wait for nobody can go on all the same.
            Err(error) => {
                let error: &(dyn Error + 'static) = &error;
                tracing::warn!(error, "nobody knows which questions have expired");
                Vec::new()
            }
        };
        let (store, approver) = (&self.parts.store, &self.parts.engine.approver);
        let left = match approver.is_asked_anew() {
            true => store.unfinished().await?,
            false => store.due().await?,
        };
        let mut recovered = self.recover_each(left).await?;
        recovered.left.extend(untold);
        Ok(recovered)
    }

    /// Looks for left runs again and again, until the engine shuts down: those whose process died, once their leases have
    /// run out, and those that wait, once somebody has posted to them. One that cannot be taken up here, such as one of another
    /// folder, is tried less and less often, every five minutes at last.
    ///
    /// # Cancel safety
    ///
    /// Dropped, nothing is looked for any more.
    pub async fn keep_recovering(&self, every: Duration) {
        let closing = &self.parts.engine.closing;
        let sleep = || closing.run_until_cancelled(tokio::time::sleep(every));
        let mut left = LeftRuns::default();
        while sleep().await.is_some() {
            // Who was asked before about a run that waits is not asked again.
            let recovered = match self.parts.store.due().await {
                Ok(due) => self.recover_each(left.without_resting(due)).await,
                Err(error) => Err(error.into()),
            };
            match recovered {
                Ok(recovered) => left.report(&recovered),
                Err(error) => {
                    let error: &(dyn Error + 'static) = &error;
                    tracing::warn!(error, "nobody knows which runs were left");
                }
            }
        }
    }

    async fn recover_each(&self, runs: Vec<RunSummary>) -> Result<Recovered, ResumeError> {
        let mut recovered = Recovered::default();
        let lost = &self.parts.lost;
        for run in runs.iter().filter(|run| !lost.rests(run.run_id)) {
            match self.recover_run(run).await {
                Ok(handle) => recovered.resumed.extend(handle),
                // It waits, or somebody else was quicker.
                Err(ResumeError::NothingToDo | ResumeError::AtWork(_) | ResumeError::Ended(_)) => {}
                Err(ResumeError::Store(StoreError::SessionBusy { .. } | StoreError::Stale(_))) => {}
                // The engine stops: those that are left are for whoever comes next.
                Err(ResumeError::ShuttingDown) => break,
                Err(error) => recovered.left.push((run.run_id, error)),
            }
        }
        Ok(recovered)
    }

    /// Takes a left run up; one that never began frees its session, and one of an eval ends.
    async fn recover_run(&self, run: &RunSummary) -> Result<Option<RunHandle>, ResumeError> {
        if run.records == 0 {
            self.abandon_unbegun(&run.session, run.run_id).await?;
            return Ok(None);
        }
        // It waits for nobody, and one that was imported is left to a person.
        let is_at_work = run.status == RunStatus::Running && !run.imported;
        if is_at_work && is_session_of_eval(&run.session) {
            self.close(run.run_id, EVAL_GONE).await?;
            return Ok(None);
        }
        if let Some(dispatcher) = &self.parts.dispatcher {
            // Who was told of a run that waits hears no more of it.
            if run.is_due()
                && let Some(times) = self.parts.dispatches.due(run.run_id)
            {
                self.dispatch_soon(dispatcher, run.session.clone(), run.run_id);
                // Whoever had an earlier run that waited may have it still, and keep this one waiting: somebody else ended it.
                if let Some(earlier) = self.earlier(run, times).await? {
                    self.dispatch_soon(dispatcher, run.session.clone(), earlier);
                }
            }
            return Ok(None);
        }
        // Nobody comes back to one about which somebody is only to be asked.
        if run.is_due() && self.awaits_server(run.run_id).await? {
            return Ok(None);
        }
        let runs = match &self.recovering {
            Some(of_each) => self.with_context((of_each.0)(run)),
            None => self.clone(),
        };
        runs.resume(run.run_id, Vec::new()).await.map(Some)
    }

    /// Tells whether a run has tools of a server that began with this process and is not there yet.
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

    /// Returns a run of a session that came before one: the last of them at first, each time the one before that.
    async fn earlier(&self, run: &RunSummary, times: usize) -> Result<Option<RunId>, StoreError> {
        let place = times % MOST_EARLIER;
        let filter = RunFilter::default().of_session(run.session.clone());
        let newest = filter.limited_to(place + 2);
        let newest = self.parts.store.find_runs(&newest).await?;
        let mut earlier = newest.iter().filter(|it| it.run_id != run.run_id);
        Ok(earlier.nth(place).map(|it| it.run_id))
    }

    /// Frees a session that was reserved for a run which never began, because its process died in between: the run that
    /// [`RequestError::Busy`](crate::RequestError::Busy) names and that has no records.
    ///
    /// # Errors
    ///
    /// [`ResumeError::AtWork`] if the run has begun after all: then it is to be taken up; [`ResumeError::OtherOwner`].
    ///
    /// # Cancel safety
    ///
    /// Dropped in the middle, the session may stay reserved.
    pub async fn abandon_unbegun(
        &self,
        session: &SessionId,
        run: RunId,
    ) -> Result<(), ResumeError> {
        // Whoever asks names both, and need not be right about which belongs to which.
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

/// The runs that cannot be taken up here, such as those of another folder: they are told of once, and left alone for longer each
/// time, since all of their records are read to find out.
#[derive(Debug, Default)]
struct LeftRuns {
    told: HashSet<RunId>,
    resting: LostRuns,
}

impl LeftRuns {
    /// Returns those that are to be taken up now, and forgets which are not there any more.
    fn without_resting(&mut self, mut due: Vec<RunSummary>) -> Vec<RunSummary> {
        let there: HashSet<_> = due.iter().map(|run| run.run_id).collect();
        self.told.retain(|run| there.contains(run));
        due.retain(|run| !self.resting.rests(run.run_id));
        due
    }

    /// Logs what came of it: of what is left nobody needs to hear again and again.
    fn report(&mut self, recovered: &Recovered) {
        for run in &recovered.resumed {
            tracing::info!(run = %run.run_id(), "an interrupted run goes on");
        }
        for (run, error) in &recovered.left {
            // What keeps the store from its part passes.
            if !matches!(error, ResumeError::Store(_)) {
                self.resting.note(*run);
            }
            if self.told.insert(*run) {
                // With all that caused it.
                let error: &(dyn Error + 'static) = error;
                tracing::warn!(%run, error, "an interrupted run cannot go on");
            }
        }
    }
}
