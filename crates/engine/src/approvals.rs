//! Calls that wait for approval: listing them, deciding them one by one, expiring questions that were not answered in
//! time, and the grants that a session remembers.
//!
//! Not for judging calls, which the policy does, nor for asking a user interactively, which an
//! [`Approver`](neuraxis_ports::Approver) does.

mod decide;
mod later;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use neuraxis_core::jiff::Timestamp;
use neuraxis_core::log::RunView;
use neuraxis_core::{
    AgentId, ApprovalDecided, ApprovalDecision, ApprovalRequested, AskApproval, Grant, Grants,
    InboxInput, InputId, PendingKind, Record, RunId, Seq, SessionId,
};
use neuraxis_ports::{RequestContext, RunSummary, SessionStore, StoreError};
use serde::Serialize;

use crate::orchestrator::Parts;
use crate::runs::{ResumeError, ResumedBy, Runs};

pub use decide::{DecideError, Decided};
pub use later::DecideLater;

/// A call that waits for approval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct WaitingApproval {
    /// The session.
    pub session_id: SessionId,
    /// The owner of the session; left out if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// The run.
    pub run_id: RunId,
    /// The agent that made the call, at any depth.
    pub agent: AgentId,
    /// When approval was requested.
    pub requested_at: Timestamp,
    /// The question: exactly what would run, why approval is required, what may be remembered, and when the question
    /// expires.
    pub request: ApprovalRequested,
    /// Why the stored question differs from the one that was asked, if it does. Such a call should not be approved. A
    /// page over all sessions checks only the call, not the log of its session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub altered: Option<String>,
}

impl WaitingApproval {
    /// Returns the question's name, which an answer refers to.
    #[must_use]
    pub fn question(&self) -> String {
        self.request.question(self.run_id)
    }

    /// Returns the question as it was asked.
    #[must_use]
    pub fn ask(&self) -> AskApproval {
        self.request.ask(self.agent)
    }

    /// Returns when the question expired, if it had expired by the given time.
    #[must_use]
    pub fn expired_by(&self, now: Timestamp) -> Option<Timestamp> {
        self.request.expires_at.filter(|at| *at <= now)
    }
}

/// The calls that wait for approval, and the runs that could not be checked.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct FoundApprovals {
    /// The calls.
    pub waiting: Vec<WaitingApproval>,
    /// The unfinished runs whose logs are damaged, each with the damage.
    pub damaged: Vec<(RunId, String)>,
    /// The last run checked for this page, if later runs also have calls that wait for approval; `None` on the last
    /// page.
    pub next: Option<RunId>,
}

/// How much is checked for alterations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AlterationCheck {
    /// Each call separately.
    PerCall,
    /// The whole session, which takes about as long as reading it.
    WholeSession,
}

/// The result of a sweep.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct SweepReport {
    /// The questions that expired.
    pub expired: Vec<WaitingApproval>,
    /// How many calls waited for approval in parked runs, before any of them expired.
    pub waiting: usize,
    /// The runs that could not be notified, and why. The next sweep tries again.
    pub left: Vec<(RunId, ResumeError)>,
}

/// The calls that wait for approval, and the remembered grants. Clones share the engine.
#[derive(Debug, Clone)]
pub struct Approvals {
    pub(crate) parts: Arc<Parts>,
    /// The context given to runs that continue after a decision.
    context: RequestContext,
}

impl Approvals {
    pub(crate) fn new(parts: &Arc<Parts>) -> Self {
        Self {
            parts: Arc::clone(parts),
            context: RequestContext::default(),
        }
    }

    /// Sets the context for runs that continue after a decision, like [`Runs::with_context`]. If it names an owner,
    /// only calls of that owner's sessions are shown and can be decided, and grants of other owners' sessions are
    /// neither shown nor revoked.
    #[must_use]
    pub fn with_context(&self, context: RequestContext) -> Self {
        Self {
            parts: Arc::clone(&self.parts),
            context,
        }
    }

    /// Returns when a question expired, if it has expired by the engine's clock. Such a question is no longer open,
    /// although its run may not have been notified yet.
    #[must_use]
    pub fn expired(&self, waiting: &WaitingApproval) -> Option<Timestamp> {
        waiting.expired_by(self.parts.engine.clock.now())
    }

    fn runs(&self) -> Runs {
        Runs::new(&self.parts).with_context(self.context.clone())
    }

    fn store(&self) -> &dyn SessionStore {
        self.parts.store.as_ref()
    }

    /// Returns the calls that wait for approval in parked runs and in runs that this process is driving, the oldest run
    /// first. Questions of runs that another process is driving are listed by that process. A run whose log is damaged
    /// is left out, with a warning; [`find`](Self::find) names it.
    ///
    /// # Errors
    ///
    /// A [`ResumeError`] if the store cannot be read.
    pub async fn list(&self) -> Result<Vec<WaitingApproval>, ResumeError> {
        Ok(self.find().await?.waiting)
    }

    /// Returns the same calls as [`list`](Self::list), and the runs that `list` leaves out.
    ///
    /// # Errors
    ///
    /// A [`ResumeError`] if the store cannot be read.
    pub async fn find(&self) -> Result<FoundApprovals, ResumeError> {
        self.over_all(None, usize::MAX, AlterationCheck::WholeSession)
            .await
    }

    /// Returns one page of what [`find`](Self::find) returns: the calls of at most `limit` runs, only of runs after the
    /// given one, which is the [`next`](FoundApprovals::next) of the previous page. Sessions are not checked for
    /// alterations; call [`of_run`](Self::of_run) for that before a decision.
    ///
    /// # Errors
    ///
    /// A [`ResumeError`] if the store cannot be read.
    pub async fn page(
        &self,
        after: Option<RunId>,
        limit: usize,
    ) -> Result<FoundApprovals, ResumeError> {
        self.over_all(after, limit, AlterationCheck::PerCall).await
    }

    async fn over_all(
        &self,
        after: Option<RunId>,
        limit: usize,
        alteration_check: AlterationCheck,
    ) -> Result<FoundApprovals, ResumeError> {
        let left = self.runs().unfinished().await?;
        // Runs that this process is driving are looked up when their turn comes.
        let at_work = self.parts.active.ids().into_iter().map(|run| (run, None));
        let mut unended: BTreeMap<RunId, Option<RunSummary>> = at_work.collect();
        unended.extend(left.into_iter().map(|run| (run.run_id, Some(run))));
        unended.retain(|run, _| after.is_none_or(|after| *run > after));
        let (mut found, mut last, mut asking) = (FoundApprovals::default(), None, 0);
        for (id, run) in unended {
            let run = match run {
                Some(run) => Some(run),
                None => self.visible_run_at_work(id).await?,
            };
            let Some(run) = run else { continue };
            let open = self
                .open_in_if_readable(&run, alteration_check, &mut found)
                .await?;
            if !open.is_empty() {
                if asking == limit {
                    found.next = last;
                    break;
                }
                found.waiting.extend(open);
                asking += 1;
            }
            // Runs that ask nothing, or cannot be read, are not checked again for the next page.
            last = Some(id);
        }
        Ok(found)
    }

    /// Returns the calls that wait for approval in a session, whichever process its run is in; none if the session does
    /// not exist. A run whose log is damaged is left out, with a warning; [`find_in`](Self::find_in) names it.
    ///
    /// # Errors
    ///
    /// A [`ResumeError`] if the store cannot be read.
    pub async fn of_session(
        &self,
        session: &SessionId,
    ) -> Result<Vec<WaitingApproval>, ResumeError> {
        Ok(self.find_in(session).await?.waiting)
    }

    /// Returns the same calls as [`of_session`](Self::of_session), and the runs that `of_session` leaves out.
    ///
    /// # Errors
    ///
    /// A [`ResumeError`] if the store cannot be read.
    pub async fn find_in(&self, session: &SessionId) -> Result<FoundApprovals, ResumeError> {
        if !self.runs().may_see(session).await? {
            return Ok(FoundApprovals::default());
        }
        let runs = match self.store().runs(session).await {
            Ok(runs) => runs,
            Err(StoreError::NoSuchSession(_)) => Vec::new(),
            Err(error) => return Err(error.into()),
        };
        let mut found = FoundApprovals::default();
        for run in runs {
            let open = self
                .open_in_if_readable(&run, AlterationCheck::WholeSession, &mut found)
                .await?;
            found.waiting.extend(open);
        }
        Ok(found)
    }

    /// Returns the calls of one of several runs. If a run cannot be read, this is recorded, and the other runs are
    /// still shown.
    async fn open_in_if_readable(
        &self,
        run: &RunSummary,
        alteration_check: AlterationCheck,
        found: &mut FoundApprovals,
    ) -> Result<Vec<WaitingApproval>, StoreError> {
        match self.open_in(run, alteration_check).await {
            // The run was deleted in the meantime.
            Err(StoreError::NoSuchRun(_) | StoreError::NoSuchSession(_)) => Ok(Vec::new()),
            Err(StoreError::Damaged(why)) => {
                tracing::warn!(run = %run.run_id, error = %why, "could not read which approvals the run waits for");
                found.damaged.push((run.run_id, why));
                Ok(Vec::new())
            }
            open => open,
        }
    }

    /// Returns the calls of a run that wait for approval, and checks that they are what was asked.
    ///
    /// # Errors
    ///
    /// A [`ResumeError`] if the store cannot be read.
    pub async fn of_run(&self, run: &RunSummary) -> Result<Vec<WaitingApproval>, ResumeError> {
        match self.runs().may_see(&run.session).await? {
            true => Ok(self.open_in(run, AlterationCheck::WholeSession).await?),
            false => Ok(Vec::new()),
        }
    }

    async fn open_in(
        &self,
        run: &RunSummary,
        alteration_check: AlterationCheck,
    ) -> Result<Vec<WaitingApproval>, StoreError> {
        if run.ended_at.is_some() {
            return Ok(Vec::new());
        }
        let store = self.store();
        let records = store.records(run.run_id, Seq(0)).await?;
        let mut open = read_open(run, &records);
        if open.is_empty() {
            return Ok(open);
        }
        let altered = match alteration_check {
            AlterationCheck::PerCall => None,
            AlterationCheck::WholeSession => match store.verify(&run.session, None).await {
                Ok(_) => None,
                Err(StoreError::Damaged(why)) => Some(why),
                // A check that could not be made must not pass for one that found no alteration.
                Err(error) => return Err(error),
            },
        };
        for waiting in &mut open {
            waiting.altered = match waiting.request.fits_its_hash() {
                true => altered.clone(),
                false => Some("the arguments do not match their hash".to_owned()),
            };
        }
        Ok(open)
    }

    /// Returns the grants that are remembered for a session and were not revoked, in the order in which they were
    /// given. Grants in the log that lack a valid code of this installation do not count and are left out.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchSession`].
    pub async fn grants(&self, session: &SessionId) -> Result<Grants, StoreError> {
        self.check_seen(session).await?;
        let mut remembered = self.store().carried(session).await?.remembered;
        let key = &self.parts.engine.approval_key;
        remembered.retain(|grant| key.grants(session, grant));
        Ok(remembered)
    }

    /// Returns `true` if a grant of a session is valid here: under the policy in force, for the tool in its current
    /// form, and in the folder that the tools work in.
    #[must_use]
    pub fn counts(&self, grant: &Grant) -> bool {
        let engine = &self.parts.engine;
        let (catalog, root) = (engine.catalog(), engine.root.as_deref());
        let tool = catalog.tool(&grant.tool);
        tool.is_some_and(|tool| engine.policy.grant_applies(grant, tool.spec(), root))
    }

    /// Revokes a grant of a session. Returns whether the grant existed. The next call that it would have allowed asks
    /// again, including in a run in progress.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchSession`].
    pub async fn revoke(&self, session: &SessionId, answer: u32) -> Result<bool, StoreError> {
        self.check_seen(session).await?;
        self.store().revoke(session, answer).await
    }

    /// Refuses a session that belongs to a different owner than the context names, as if it did not exist.
    async fn check_seen(&self, session: &SessionId) -> Result<(), StoreError> {
        match self.runs().may_see(session).await? {
            true => Ok(()),
            false => Err(StoreError::NoSuchSession(session.clone())),
        }
    }

    /// Expires the questions that were not answered in time, by the wall clock. Each run is notified once, whichever
    /// process sweeps, and continues without the call. An imported run is left to the user who resumes it. Call this
    /// periodically; [`recover`](crate::Runs::recover) calls it too.
    ///
    /// # Errors
    ///
    /// A [`ResumeError`] if the store cannot list the runs.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, some runs may already have been notified; another sweep notifies the rest.
    pub async fn sweep(&self) -> Result<SweepReport, ResumeError> {
        let store = self.store();
        let now = self.parts.engine.clock.now();
        let mut swept = SweepReport::default();
        let mut unended = store.unfinished().await?;
        let at_work = self.at_work_beside(&unended).await?;
        unended.extend(at_work);
        unended.sort_by_key(|run| run.run_id);
        for run in unended {
            let is_over = |at: Option<Timestamp>| at.is_some_and(|at| at <= now);
            let pending = run.pending.iter();
            let mut approvals = pending.filter(|it| it.kind == PendingKind::Approval);
            swept.waiting += approvals.clone().count();
            if !approvals.any(|it| is_over(it.expires_at)) || self.is_left(&run) {
                continue;
            }
            let records = match store.records(run.run_id, Seq(0)).await {
                Ok(records) => records,
                // The run was deleted in the meantime.
                Err(StoreError::NoSuchRun(_)) => continue,
                Err(error) => {
                    swept.left.push((run.run_id, error.into()));
                    continue;
                }
            };
            let checked = self
                .runs()
                .check_folder(run.run_id, &records, ResumedBy::Engine);
            // The processes of that folder handle this run. Resuming it here would return this error.
            if checked.is_err() {
                continue;
            }
            for waiting in read_open(&run, &records) {
                if waiting.expired_by(now).is_none() {
                    continue;
                }
                let expiry = expiry_of(&waiting.request);
                match self.runs().post(run.run_id, expiry).await {
                    Ok(()) => swept.expired.push(waiting),
                    // A decision arrived in the meantime.
                    Err(ResumeError::Ended(_)) => {}
                    Err(error) => swept.left.push((run.run_id, error)),
                }
            }
        }
        Ok(swept)
    }

    /// Returns `true` if notifying a run is of no use for now. An imported run continues only when a user resumes it. A
    /// parked run that already has something in its inbox, which may be its expiry, must be resumed for that.
    fn is_left(&self, run: &RunSummary) -> bool {
        run.imported || (run.has_mail && !self.parts.active.contains(run.run_id))
    }

    /// Returns the runs that this process is driving and that are not in `others`: like parked runs, they may wait for
    /// approval.
    async fn at_work_beside(&self, others: &[RunSummary]) -> Result<Vec<RunSummary>, ResumeError> {
        let known: BTreeSet<RunId> = others.iter().map(|run| run.run_id).collect();
        let active = self.parts.active.ids().into_iter();
        let mut runs = Vec::new();
        for run in active.filter(|run| !known.contains(run)) {
            runs.extend(self.run_at_work(run).await?);
        }
        Ok(runs)
    }

    /// Returns a run that this process is driving, if the context's owner may see it.
    async fn visible_run_at_work(&self, run: RunId) -> Result<Option<RunSummary>, StoreError> {
        let (found, runs) = (self.run_at_work(run).await?, self.runs());
        Ok(found.filter(|run| runs.is_visible(run)))
    }

    /// Returns a run that this process is driving; `None` if it is only being started.
    async fn run_at_work(&self, run: RunId) -> Result<Option<RunSummary>, StoreError> {
        match self.store().run(run).await {
            Ok(run) => Ok(Some(run)),
            Err(StoreError::NoSuchRun(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Returns the approval requests in a run's records that have no answer.
fn read_open(run: &RunSummary, records: &[Arc<Record>]) -> Vec<WaitingApproval> {
    let view = RunView::of(records);
    let open = view.open_approvals().map(|open| WaitingApproval {
        session_id: run.session.clone(),
        owner: run.owner.clone(),
        run_id: run.run_id,
        agent: open.agent,
        requested_at: open.at,
        request: open.request.clone(),
        altered: None,
    });
    open.collect()
}

/// Returns the input that notifies a run of an expired question. Its id derives from the question, so it is stored only
/// once, whichever process sweeps.
fn expiry_of(request: &ApprovalRequested) -> InboxInput {
    InboxInput::ApprovalDecided(ApprovalDecided {
        id: InputId::new(format!("expired-{}", request.effect_id)),
        tool_call_id: request.tool_call_id.clone(),
        arguments_hash: request.arguments_hash,
        decision: ApprovalDecision::Expired,
        by: None,
        code: None,
        given_before: None,
    })
}
