//! Calls that wait for a person, over all sessions: listing them, deciding about them one by one, and letting questions
//! expire that nobody answered in time.

use std::collections::BTreeSet;
use std::sync::Arc;

use neuraxis_core::jiff::Timestamp;
use neuraxis_core::{
    AgentId, ApprovalDecided, ApprovalDecision, ApprovalRequested, ContentHash, InboxInput,
    InputId, PendingKind, Record, RecordBody, RunId, Seq, SessionId, ToolCallId,
};
use neuraxis_ports::{RunSummary, SessionStore, StoreError};

use crate::orchestrator::Parts;
use crate::resume::ResumeError;
use crate::runs::Runs;
use crate::taking_up::Taker;

/// A call that waits for a person.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct WaitingApproval {
    /// The session.
    pub session_id: SessionId,
    /// The run.
    pub run_id: RunId,
    /// The agent that calls, at whatever depth.
    pub agent: AgentId,
    /// When it was asked.
    pub requested_at: Timestamp,
    /// What was asked: exactly what would run, why a person decides, what may be remembered, and until when.
    pub request: ApprovalRequested,
}

/// What a sweep did.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Swept {
    /// The questions that expired.
    pub expired: Vec<WaitingApproval>,
    /// The runs of which that could not be told, and why. The next sweep tries again.
    pub left: Vec<(RunId, ResumeError)>,
}

/// The calls of an orchestrator's runs that wait for a person. Cloning is cheap and shares its engine and store.
#[derive(Debug, Clone)]
pub struct Approvals {
    pub(crate) parts: Arc<Parts>,
}

impl Approvals {
    /// Returns the calls that wait for a person: those of runs that were put aside, and of runs at work in this process,
    /// the oldest run first. What another process asks about while its run is at work, that process lists.
    ///
    /// # Errors
    ///
    /// A [`ResumeError`] if the store cannot tell.
    pub async fn list(&self) -> Result<Vec<WaitingApproval>, ResumeError> {
        let store = &self.parts.store;
        let mut waiting = Vec::new();
        for run in self.unended(store.as_ref()).await? {
            waiting.extend(open_approvals(store.as_ref(), &run).await?);
        }
        Ok(waiting)
    }

    /// Decides about a call that waits for a person, whichever process its run is in. The decision is kept before this
    /// returns; the run goes on if it was put aside. The hash is that of the arguments the person was shown.
    ///
    /// # Errors
    ///
    /// [`ResumeError::NotAsked`] if the run asks nothing about such a call with such arguments; [`ResumeError::Expired`] if
    /// the time for it is over, which is all that is kept then; otherwise as [`post`](Runs::post).
    ///
    /// # Cancel safety
    ///
    /// As [`post`](Runs::post).
    pub async fn decide(
        &self,
        run_id: RunId,
        call: &ToolCallId,
        arguments_hash: ContentHash,
        decision: ApprovalDecision,
        by: Option<String>,
    ) -> Result<(), ResumeError> {
        let store = &self.parts.store;
        let run = store.run(run_id).await?;
        let records = store.records(run_id, Seq(0)).await?;
        let mut open = read_open(&run.session, &records);
        if run.ended_at.is_some() {
            open.clear();
        }
        let is_it = |waiting: &WaitingApproval| {
            let request = &waiting.request;
            request.tool_call_id == *call && request.arguments_hash == arguments_hash
        };
        let Some(asked) = open.iter().find(|waiting| is_it(waiting)) else {
            return Err(ResumeError::NotAsked(call.clone()));
        };
        let now = self.parts.engine.clock.now();
        if let Some(at) = asked.request.expires_at.filter(|at| *at <= now) {
            // The run is told what became of the question, and nothing of the person.
            self.runs().post(run_id, expiry_of(&asked.request)).await?;
            let call = call.clone();
            return Err(ResumeError::Expired { call, at });
        }
        self.runs().check_folder(run_id, &records, Taker::Engine)?;
        let decided = ApprovalDecided {
            id: InputId::new(self.parts.engine.ids.new_id().to_string()),
            tool_call_id: call.clone(),
            arguments_hash,
            decision,
            by,
            code: None,
        };
        self.runs()
            .post(run_id, InboxInput::ApprovalDecided(decided))
            .await
    }

    /// Makes a decision count as one that was given through this engine: what is put into a store in another way than by
    /// [`decide`](Self::decide), [`resume`](Runs::resume) or [`post`](Runs::post) needs that.
    #[must_use]
    pub fn sign(&self, run: RunId, mut decided: ApprovalDecided) -> ApprovalDecided {
        self.parts.engine.approval_key.sign(run, &mut decided);
        decided
    }

    /// Lets the questions expire that nobody answered in time, by the clock on the wall. Each run is told once, whichever
    /// process sweeps, and goes on without the call. To be called now and then; [`recover`](Runs::recover) does, too.
    ///
    /// # Errors
    ///
    /// A [`ResumeError`] if the store cannot tell which runs there are.
    ///
    /// # Cancel safety
    ///
    /// Dropped, some runs may have been told; sweeping again tells the others.
    pub async fn sweep(&self) -> Result<Swept, ResumeError> {
        let store = &self.parts.store;
        let now = self.parts.engine.clock.now();
        let mut swept = Swept::default();
        for run in self.unended(store.as_ref()).await? {
            let is_over = |at: Option<Timestamp>| at.is_some_and(|at| at <= now);
            let mut pending = run.pending.iter();
            if !pending.any(|it| it.kind == PendingKind::Approval && is_over(it.expires_at)) {
                continue;
            }
            let records = store.records(run.run_id, Seq(0)).await?;
            // A run of another folder is for the processes there; taking it up says so.
            if self
                .runs()
                .check_folder(run.run_id, &records, Taker::Engine)
                .is_err()
            {
                continue;
            }
            for waiting in read_open(&run.session, &records) {
                if !is_over(waiting.request.expires_at) {
                    continue;
                }
                match self
                    .runs()
                    .post(run.run_id, expiry_of(&waiting.request))
                    .await
                {
                    Ok(()) => swept.expired.push(waiting),
                    // Somebody decided meanwhile.
                    Err(ResumeError::Store(StoreError::RunEnded(_))) => {}
                    Err(error) => swept.left.push((run.run_id, error)),
                }
            }
        }
        Ok(swept)
    }

    fn runs(&self) -> Runs {
        Runs {
            parts: Arc::clone(&self.parts),
        }
    }

    /// Returns the runs that may wait for a person: those put aside, and those at work here.
    async fn unended(&self, store: &dyn SessionStore) -> Result<Vec<RunSummary>, ResumeError> {
        let mut runs = store.unfinished().await?;
        let known: BTreeSet<RunId> = runs.iter().map(|run| run.run_id).collect();
        let at_work: Vec<RunId> = self.parts.engine.runs_at_work().keys().copied().collect();
        for run in at_work.into_iter().filter(|run| !known.contains(run)) {
            match store.run(run).await {
                Ok(run) => runs.push(run),
                // It is just being begun.
                Err(StoreError::NoSuchRun(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        runs.sort_by_key(|run| run.run_id);
        Ok(runs)
    }
}

/// Returns what a run asks people about and has no answer to.
async fn open_approvals(
    store: &dyn SessionStore,
    run: &RunSummary,
) -> Result<Vec<WaitingApproval>, StoreError> {
    if run.ended_at.is_some() {
        return Ok(Vec::new());
    }
    let records = store.records(run.run_id, Seq(0)).await?;
    Ok(read_open(&run.session, &records))
}

fn read_open(session: &SessionId, records: &[Arc<Record>]) -> Vec<WaitingApproval> {
    let mut open: Vec<WaitingApproval> = Vec::new();
    for record in records {
        let answered = match &record.body {
            RecordBody::ApprovalRequested(request) => {
                open.push(WaitingApproval {
                    session_id: session.clone(),
                    run_id: record.run_id,
                    agent: record.agent,
                    requested_at: record.at,
                    request: ApprovalRequested::clone(request),
                });
                continue;
            }
            RecordBody::ApprovalDecided(decided) => &decided.tool_call_id,
            RecordBody::ToolResult(result) => &result.tool_call_id,
            _ => continue,
        };
        open.retain(|waiting| waiting.request.tool_call_id != *answered);
    }
    open
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
    })
}
