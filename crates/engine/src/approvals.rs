//! Calls that wait for a person: listing them, deciding about them one by one, letting questions expire that nobody
//! answered in time, and the answers that a session remembers.
//!
//! Not for judging calls, which the policy does, nor for asking the person who sits here, which an
//! [`Approver`](neuraxis_ports::Approver) does.

mod decide;
mod later;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use neuraxis_core::jiff::Timestamp;
use neuraxis_core::log::RunView;
use neuraxis_core::{
    AgentId, ApprovalDecided, ApprovalDecision, ApprovalRequested, AskApproval, Grant, InboxInput,
    InputId, PendingKind, Record, Remembered, RunId, Seq, SessionId,
};
use neuraxis_ports::{RequestContext, RunSummary, SessionStore, StoreError};
use serde::Serialize;

use crate::orchestrator::Parts;
use crate::runs::{ResumeError, Runs, Taker};

pub use decide::{DecideError, Decided};
pub use later::DecideLater;

/// A call that waits for a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct WaitingApproval {
    /// The session.
    pub session_id: SessionId,
    /// Whose that is; left out where it is nobody's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// The run.
    pub run_id: RunId,
    /// The agent that calls, at whatever depth.
    pub agent: AgentId,
    /// When it was asked.
    pub requested_at: Timestamp,
    /// What was asked: exactly what would run, why a person decides, what may be remembered, and until when.
    pub request: ApprovalRequested,
    /// Why what stands in the store is not what was asked, if it is not: such a call should not be approved. A page over
    /// all sessions looks at the call alone, and not at the log of its session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub altered: Option<String>,
}

impl WaitingApproval {
    /// Returns the name of the question, by which people answer it.
    #[must_use]
    pub fn question(&self) -> String {
        self.request.question(self.run_id)
    }

    /// Returns the question as it was asked.
    #[must_use]
    pub fn ask(&self) -> AskApproval {
        self.request.ask(self.agent)
    }

    /// Returns when the question expired, if it had by a time.
    #[must_use]
    pub fn expired_by(&self, now: Timestamp) -> Option<Timestamp> {
        self.request.expires_at.filter(|at| *at <= now)
    }
}

/// The calls that wait for a person, and the runs of which nobody can tell.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct FoundApprovals {
    /// The calls.
    pub waiting: Vec<WaitingApproval>,
    /// The runs that have not ended and whose logs are damaged, and how.
    pub damaged: Vec<(RunId, String)>,
    /// The last run that was looked at for a page, behind which others wait for a person, too; `None` on the last page.
    pub next: Option<RunId>,
}

/// At what it is looked whether it is what was kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Look {
    /// At each call by itself.
    AtCalls,
    /// At the whole session, which takes about as long as reading it.
    AtSession,
}

/// What a sweep did.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Swept {
    /// The questions that expired.
    pub expired: Vec<WaitingApproval>,
    /// How many calls waited for a person in runs that were put aside, before any of them expired.
    pub waiting: usize,
    /// The runs of which that could not be told, and why. The next sweep tries again.
    pub left: Vec<(RunId, ResumeError)>,
}

/// The calls that wait for a person, and what people allowed. Cloning shares the engine.
#[derive(Debug, Clone)]
pub struct Approvals {
    pub(crate) parts: Arc<Parts>,
    /// What runs that go on with a decision are given.
    context: RequestContext,
}

impl Approvals {
    pub(crate) fn new(parts: &Arc<Parts>) -> Self {
        Self {
            parts: Arc::clone(parts),
            context: RequestContext::default(),
        }
    }

    /// Gives the runs that go on with a decision a context, as [`Runs::with_context`] does. Where it names an owner, the calls
    /// of that owner's sessions alone are shown and decided about, and what was allowed for another's is neither shown nor
    /// taken back.
    #[must_use]
    pub fn with_context(&self, context: RequestContext) -> Self {
        Self {
            parts: Arc::clone(&self.parts),
            context,
        }
    }

    /// Returns when a question expired, if it has by the engine's clock: it is open no more, though its run may not have heard
    /// of that.
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

    /// Returns the calls that wait for a person: those of runs that were put aside, and of runs at work in this process,
    /// the oldest run first. What another process asks about while its run is at work, that process lists. A run whose log is
    /// damaged is left out, with a warning; [`find`](Self::find) names it.
    ///
    /// # Errors
    ///
    /// A [`ResumeError`] if the store cannot tell.
    pub async fn list(&self) -> Result<Vec<WaitingApproval>, ResumeError> {
        Ok(self.find().await?.waiting)
    }

    /// Returns the calls that [`list`](Self::list) does, and the runs that it leaves out.
    ///
    /// # Errors
    ///
    /// A [`ResumeError`] if the store cannot tell.
    pub async fn find(&self) -> Result<FoundApprovals, ResumeError> {
        self.over_all(None, usize::MAX, Look::AtSession).await
    }

    /// Returns a page of what [`find`](Self::find) does: the calls of so many runs at the most, and only of those behind a run,
    /// the [`next`](FoundApprovals::next) of the page before. Whether the sessions are what was kept is not looked at:
    /// [`of_run`](Self::of_run) tells before anybody decides.
    ///
    /// # Errors
    ///
    /// A [`ResumeError`] if the store cannot tell.
    pub async fn page(
        &self,
        after: Option<RunId>,
        limit: usize,
    ) -> Result<FoundApprovals, ResumeError> {
        self.over_all(after, limit, Look::AtCalls).await
    }

    async fn over_all(
        &self,
        after: Option<RunId>,
        limit: usize,
        look: Look,
    ) -> Result<FoundApprovals, ResumeError> {
        let left = self.runs().unfinished().await?;
        // Those at work are looked up when it is their turn.
        let at_work = self.parts.active.ids().into_iter().map(|run| (run, None));
        let mut unended: BTreeMap<RunId, Option<RunSummary>> = at_work.collect();
        unended.extend(left.into_iter().map(|run| (run.run_id, Some(run))));
        unended.retain(|run, _| after.is_none_or(|after| *run > after));
        let (mut found, mut last, mut asking) = (FoundApprovals::default(), None, 0);
        for (id, run) in unended {
            let run = match run {
                Some(run) => Some(run),
                None => self.seen_at_work(id).await?,
            };
            let Some(run) = run else { continue };
            let open = self.asked_by(&run, look, &mut found).await?;
            if !open.is_empty() {
                if asking == limit {
                    found.next = last;
                    break;
                }
                found.waiting.extend(open);
                asking += 1;
            }
            // Those that ask nothing, or cannot be read, are not looked at again for the next page.
            last = Some(id);
        }
        Ok(found)
    }

    /// Returns the calls that wait for a person in a session, whichever process its run is in; none where there is no such
    /// session. A run whose log is damaged is left out, with a warning; [`find_in`](Self::find_in) names it.
    ///
    /// # Errors
    ///
    /// A [`ResumeError`] if the store cannot tell.
    pub async fn of_session(
        &self,
        session: &SessionId,
    ) -> Result<Vec<WaitingApproval>, ResumeError> {
        Ok(self.find_in(session).await?.waiting)
    }

    /// Returns the calls that [`of_session`](Self::of_session) does, and the runs that it leaves out.
    ///
    /// # Errors
    ///
    /// A [`ResumeError`] if the store cannot tell.
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
            let open = self.asked_by(&run, Look::AtSession, &mut found).await?;
            found.waiting.extend(open);
        }
        Ok(found)
    }

    /// Returns the calls of one of several runs. A run that cannot be read hides no other one's: it is noted.
    async fn asked_by(
        &self,
        run: &RunSummary,
        look: Look,
        found: &mut FoundApprovals,
    ) -> Result<Vec<WaitingApproval>, StoreError> {
        match self.open_in(run, look).await {
            // It was deleted meanwhile.
            Err(StoreError::NoSuchRun(_) | StoreError::NoSuchSession(_)) => Ok(Vec::new()),
            Err(StoreError::Damaged(why)) => {
                tracing::warn!(run = %run.run_id, error = %why, "nobody knows what the run asks");
                found.damaged.push((run.run_id, why));
                Ok(Vec::new())
            }
            open => open,
        }
    }

    /// Returns the calls of a run that wait for a person, and looks whether they are what was asked.
    ///
    /// # Errors
    ///
    /// A [`ResumeError`] if the store cannot tell.
    pub async fn of_run(&self, run: &RunSummary) -> Result<Vec<WaitingApproval>, ResumeError> {
        match self.runs().may_see(&run.session).await? {
            true => Ok(self.open_in(run, Look::AtSession).await?),
            false => Ok(Vec::new()),
        }
    }

    async fn open_in(
        &self,
        run: &RunSummary,
        look: Look,
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
        let altered = match look {
            Look::AtCalls => None,
            Look::AtSession => match store.verify(&run.session, None).await {
                Ok(_) => None,
                Err(StoreError::Damaged(why)) => Some(why),
                // What nobody could look at is not as good as what was found whole.
                Err(error) => return Err(error),
            },
        };
        for waiting in &mut open {
            waiting.altered = match waiting.request.fits_its_hash() {
                true => altered.clone(),
                false => Some("the arguments do not fit their hash".to_owned()),
            };
        }
        Ok(open)
    }

    /// Returns what people allowed for a session and did not take back, in the order in which they did. What stands in the
    /// log without the code of this installation counts for nothing and is left out.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchSession`].
    pub async fn remembered(&self, session: &SessionId) -> Result<Remembered, StoreError> {
        self.check_seen(session).await?;
        let mut remembered = self.store().carried(session).await?.remembered;
        let key = &self.parts.engine.approval_key;
        remembered.retain(|grant| key.grants(session, grant));
        Ok(remembered)
    }

    /// Tells whether what a person allowed for a session counts here: under the policy in force, for the tool as it is, and in
    /// the folder that the tools work in.
    #[must_use]
    pub fn counts(&self, grant: &Grant) -> bool {
        let engine = &self.parts.engine;
        let (catalog, root) = (engine.catalog(), engine.root.as_deref());
        let tool = catalog.tool(&grant.tool);
        tool.is_some_and(|tool| engine.policy.grant_counts(grant, tool.spec(), root))
    }

    /// Takes back what a person allowed for a session; tells whether there was such an answer. The next call that it would
    /// have let run asks again, that of a run at work included.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchSession`].
    pub async fn revoke(&self, session: &SessionId, answer: u32) -> Result<bool, StoreError> {
        self.check_seen(session).await?;
        self.store().revoke(session, answer).await
    }

    /// Refuses a session of another owner's than the context names, as one that there is not.
    async fn check_seen(&self, session: &SessionId) -> Result<(), StoreError> {
        match self.runs().may_see(session).await? {
            true => Ok(()),
            false => Err(StoreError::NoSuchSession(session.clone())),
        }
    }

    /// Lets the questions expire that nobody answered in time, by the clock on the wall. Each run is told once, whichever
    /// process sweeps, and goes on without the call; one that was imported is left to the person who lets it go on. To be
    /// called now and then; [`recover`](crate::Runs::recover) does, too.
    ///
    /// # Errors
    ///
    /// A [`ResumeError`] if the store cannot tell which runs there are.
    ///
    /// # Cancel safety
    ///
    /// Dropped, some runs may have been told; sweeping again tells the others.
    pub async fn sweep(&self) -> Result<Swept, ResumeError> {
        let store = self.store();
        let now = self.parts.engine.clock.now();
        let mut swept = Swept::default();
        let mut unended = store.unfinished().await?;
        let at_work = self.at_work_beside(&unended).await?;
        unended.extend(at_work);
        unended.sort_by_key(|run| run.run_id);
        for run in unended {
            let is_over = |at: Option<Timestamp>| at.is_some_and(|at| at <= now);
            let asked = run.pending.iter();
            let mut asked = asked.filter(|it| it.kind == PendingKind::Approval);
            swept.waiting += asked.clone().count();
            if !asked.any(|it| is_over(it.expires_at)) || self.is_left(&run) {
                continue;
            }
            let records = match store.records(run.run_id, Seq(0)).await {
                Ok(records) => records,
                // It was deleted meanwhile.
                Err(StoreError::NoSuchRun(_)) => continue,
                Err(error) => {
                    swept.left.push((run.run_id, error.into()));
                    continue;
                }
            };
            let checked = self
                .runs()
                .check_folder(run.run_id, &records, Taker::Engine);
            // A run of another folder is for the processes there; taking it up says so.
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
                    // Somebody decided meanwhile.
                    Err(ResumeError::Ended(_)) => {}
                    Err(error) => swept.left.push((run.run_id, error)),
                }
            }
        }
        Ok(swept)
    }

    /// Tells whether telling a run of anything is of no use for now: only a person lets one go on that was imported, and one
    /// that was put aside with something in its inbox, which may be its expiry, is to be taken up for that.
    fn is_left(&self, run: &RunSummary) -> bool {
        run.imported || (run.has_mail && !self.parts.active.contains(run.run_id))
    }

    /// Returns the runs at work here that are not among these: they may wait for a person as those do that were put aside.
    async fn at_work_beside(&self, others: &[RunSummary]) -> Result<Vec<RunSummary>, ResumeError> {
        let known: BTreeSet<RunId> = others.iter().map(|run| run.run_id).collect();
        let active = self.parts.active.ids().into_iter();
        let mut runs = Vec::new();
        for run in active.filter(|run| !known.contains(run)) {
            runs.extend(self.run_at_work(run).await?);
        }
        Ok(runs)
    }

    /// Returns a run at work here that the context's owner may see.
    async fn seen_at_work(&self, run: RunId) -> Result<Option<RunSummary>, StoreError> {
        let (found, runs) = (self.run_at_work(run).await?, self.runs());
        Ok(found.filter(|run| runs.is_seen(run)))
    }

    /// Returns a run at work here; `None` if it is just being begun.
    async fn run_at_work(&self, run: RunId) -> Result<Option<RunSummary>, StoreError> {
        match self.store().run(run).await {
            Ok(run) => Ok(Some(run)),
            Err(StoreError::NoSuchRun(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Returns what the records of a run ask people about and have no answer to.
fn read_open(run: &RunSummary, records: &[Arc<Record>]) -> Vec<WaitingApproval> {
    let view = RunView::of(records);
    let open = view.open_approvals().map(|asked| WaitingApproval {
        session_id: run.session.clone(),
        owner: run.owner.clone(),
        run_id: run.run_id,
        agent: asked.agent,
        requested_at: asked.at,
        request: asked.request.clone(),
        altered: None,
    });
    open.collect()
}

/// Returns what a run is told of a question that nobody answered in time. Its id is that of the question: whoever sweeps,
/// it is kept once.
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
