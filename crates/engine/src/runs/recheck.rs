//! Checks before a run is resumed: the folder, the tools and limits in force, and the open calls. A log is not an
//! authorization: its content never lets a call run by itself, since anyone who can write to the store, or supplies a
//! file to import, can write a log.
//!
//! Not for judging calls, which the driver does in the same way for every run.

use std::sync::Arc;

use neuraxis_brainstem::works_on_files;
use neuraxis_core::log::RunView;
use neuraxis_core::{
    ApprovalDecision, ApprovalRequested, Decision, Limits, OpenCall as Open, Record, RecordBody,
    RunId, RunSpec, RunTree, Seq, SessionId, ToolClass, ToolKind, ToolName, Verdict, last_of_user,
};
use neuraxis_ports::StoreError;
use serde::Serialize;

use super::{ResumeError, Runs};
use crate::request::UserRequest;
use crate::run_handle::RunHandle;

/// How often in a row a run may be resumed without progress. The next time it is ended.
pub(crate) const MAX_FUTILE_RESUMES: u32 = 2;

/// Who resumes a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResumedBy {
    /// The engine, automatically or because something was posted, as with [`resume`](Runs::resume).
    Engine,
    /// A user who was shown the run's open calls, as with [`resume_by_user`](Runs::resume_by_user).
    User,
}

/// A call of a run that has no result yet, and what would happen to it here and now.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RecheckedCall {
    /// The call, according to its log.
    pub call: Open,
    /// What the tool of that name may change here; `None` if there is no such tool.
    pub class: Option<ToolClass>,
    /// The current policy's verdict on it, under the recorded decision.
    pub verdict: Verdict,
}

/// What applies to a run in addition to its records.
#[derive(Debug)]
pub(crate) struct InForce {
    /// The tools that such a request would be offered now.
    pub(crate) tools: Arc<[ToolName]>,
    /// The limits, if they are lower than those on record.
    pub(crate) limits: Option<Box<Limits>>,
}

impl Runs {
    /// Resumes a run at the request of a user who was shown its [open calls](Self::open_calls), even if the run was
    /// imported, or its log does not say in which folder its tools worked. Every call is still checked again.
    ///
    /// # Errors
    ///
    /// Same as [`resume`](Self::resume).
    ///
    /// # Cancel safety
    ///
    /// Same as [`resume`](Self::resume).
    pub async fn resume_by_user(&self, run_id: RunId) -> Result<RunHandle, ResumeError> {
        self.resume_as(run_id, Vec::new(), ResumedBy::User).await
    }

    /// Returns whether only a user can let a run continue, with [`resume_by_user`](Self::resume_by_user).
    ///
    /// # Errors
    ///
    /// A [`ResumeError`] if the store cannot tell.
    pub async fn needs_user_to_resume(&self, run_id: RunId) -> Result<bool, ResumeError> {
        let seen = self.visible_run(run_id).await?;
        if seen.imported && !seen.status.is_ended() {
            return Ok(true);
        }
        let records = self.parts.store.records(run_id, Seq(0)).await?;
        let found = self.check_folder(run_id, &records, ResumedBy::Engine);
        Ok(matches!(found, Err(ResumeError::NoFolder(_))))
    }

    /// Returns the calls of a run that have no result yet, each with what would happen to it here and now. Nothing is
    /// written.
    ///
    /// # Errors
    ///
    /// A [`ResumeError`] if the run cannot be read back.
    pub async fn open_calls(&self, run_id: RunId) -> Result<Vec<RecheckedCall>, ResumeError> {
        self.check_seen(run_id).await?;
        let store = &self.parts.store;
        let records = store.records(run_id, Seq(0)).await?;
        let history = store.history_before(run_id).await?;
        let (tree, _) = RunTree::restore(history, &records)?;
        let view = RunView::of(&records);
        let calls = tree.open_calls().into_iter();
        let owner = self.owner_of(&view).await?;
        let decision = view.decision().map(Arc::as_ref);
        let judged = calls.map(|call| self.judged(&tree, decision, owner.as_deref(), call));
        Ok(judged.collect())
    }

    async fn owner_of(&self, view: &RunView) -> Result<Option<String>, StoreError> {
        match view.session() {
            Some(session) => Ok(self.parts.store.session(session).await?.owner),
            None => Ok(None),
        }
    }

    fn judged(
        &self,
        tree: &RunTree,
        decision: Option<&Decision>,
        owner: Option<&str>,
        call: Open,
    ) -> RecheckedCall {
        let deny = |reason: &str| Verdict::Deny {
            reason: reason.to_owned(),
            rule: None,
        };
        let agent = tree.agent_spec(call.agent);
        if agent.is_delivered_by(&call.name) || agent.is_searched_by(&call.name) {
            return RecheckedCall {
                class: Some(ToolClass::ReadOnly),
                verdict: Verdict::Allow,
                call,
            };
        }
        let name = call.name.parse::<ToolName>().ok();
        let catalog = self.parts.engine.catalog();
        let tool = name.and_then(|name| catalog.tool(&name));
        let verdict = match (tool, decision) {
            (None, _) => deny("There is no such tool here."),
            (_, None) => deny("Its log contains no policy decision."),
            (Some(tool), Some(decision)) => {
                let engine = &self.parts.engine;
                let taint = tree.taint(call.agent);
                let judged = engine.call(tool.spec(), &call.arguments, taint, owner);
                engine.policy.judge(decision, &judged)
            }
        };
        RecheckedCall {
            class: tool.map(|tool| tool.spec().class),
            verdict,
            call,
        }
    }

    /// Decides again about the request of a run.
    pub(crate) fn in_force(
        &self,
        session: &SessionId,
        spec: &RunSpec,
        decision: &Decision,
    ) -> InForce {
        let text = last_of_user(&spec.messages).map(|message| message.text());
        let mut request = UserRequest::new(session.clone(), text.unwrap_or_default())
            .mode(decision.mode.clone())
            .channel(decision.channel.clone());
        request.agent.clone_from(&decision.agent);
        let run = spec.run_id;
        match self.decide_without_plan(&request) {
            Ok(now) => {
                let tools = now.tools.iter().chain(&now.sub_agent_tools);
                let tools = tools.cloned().collect();
                let engine = &self.parts.engine;
                let agent = engine.policy.main_agent(&now, Arc::default());
                let now = engine.completed(agent, Some(&now));
                let recorded = spec.root.limits;
                let limits = recorded.tightest(now.limits);
                let limits = (limits != recorded).then(|| Box::new(limits));
                InForce { tools, limits }
            }
            Err(error) => {
                tracing::warn!(%run, %error, "the current policy refuses such a request; none of its tools will run");
                InForce {
                    tools: Arc::default(),
                    limits: None,
                }
            }
        }
    }

    /// Refuses a run whose tools work on the files of another folder, or of an unknown one.
    pub(crate) fn check_folder(
        &self,
        run: RunId,
        records: &[Arc<Record>],
        resumed_by: ResumedBy,
    ) -> Result<(), ResumeError> {
        let view = RunView::of(records.get(..1).unwrap_or_default());
        let Some(spec) = view.spec() else {
            return Ok(());
        };
        match (&spec.folder, &self.parts.engine.root) {
            (Some(folder), root) if root.as_ref() != Some(folder) => {
                let folder = Arc::clone(folder);
                Err(ResumeError::Elsewhere { run, folder })
            }
            (None, Some(_)) if resumed_by == ResumedBy::Engine && self.offers_files(spec) => {
                Err(ResumeError::NoFolder(run))
            }
            _ => Ok(()),
        }
    }

    /// Checks that the mode and channel of a run that waits for approval exist here. Without them it would continue
    /// under a policy that does not let an approved call run.
    ///
    /// # Errors
    ///
    /// [`ResumeError::NotConfigured`] names what is missing.
    pub fn check_policy(&self, run: RunId, records: &[Arc<Record>]) -> Result<(), ResumeError> {
        let view = RunView::of(records);
        let waits = view.open_approvals().next().is_some();
        let Some(decided) = view.decision().filter(|_| waits) else {
            return Ok(());
        };
        let policy = &self.parts.engine.policy;
        let what = if policy.modes().all(|known| *known != decided.mode) {
            format!("mode {}", decided.mode)
        } else if policy.channels().all(|known| *known != decided.channel) {
            format!("channel {}", decided.channel)
        } else {
            return Ok(());
        };
        Err(ResumeError::NotConfigured { run, what })
    }

    /// Refuses to continue a run if an approval would be used up for nothing: because the approved call, or one that
    /// was approved before and has not begun, belongs to a server that has no tools now.
    pub(crate) fn check_servers(
        &self,
        records: &[Arc<Record>],
        is_allowed: impl Fn(&ApprovalRequested) -> bool,
    ) -> Result<(), ResumeError> {
        let view = RunView::of(records);
        let open = view.open_approvals().map(|open| open.request);
        let mut allowed: Vec<&ApprovalRequested> =
            open.filter(|request| is_allowed(request)).collect();
        if !allowed.is_empty() {
            allowed.extend(allowed_before(records));
        }
        for request in allowed {
            if let Some(server) = self
                .parts
                .engine
                .catalogs
                .source_without_tools(&request.name)
            {
                return Err(ResumeError::ServerAway {
                    call: request.tool_call_id.clone(),
                    server: server.into(),
                });
            }
        }
        Ok(())
    }

    /// Returns whether a run offers tools that work on files here, whatever the run says about them. A tool that the
    /// client runs does not, even if a tool here has the same name, which it replaced.
    fn offers_files(&self, spec: &RunSpec) -> bool {
        let offered = spec.all_agents().flat_map(|agent| agent.tools.iter());
        let mut run_here = offered.filter(|tool| tool.kind != ToolKind::Client);
        let catalog = self.parts.engine.catalog();
        run_here.any(|offered| {
            let tool = catalog.tool(&offered.name);
            tool.is_some_and(|tool| works_on_files(tool.spec()))
        })
    }
}

/// Returns the approval requests of the calls that were approved and have not begun.
fn allowed_before(records: &[Arc<Record>]) -> Vec<&ApprovalRequested> {
    let mut requests: Vec<&ApprovalRequested> = Vec::new();
    let mut allowed: Vec<&ApprovalRequested> = Vec::new();
    for record in records {
        match &record.body {
            RecordBody::ApprovalRequested(request) => requests.push(request),
            RecordBody::ApprovalDecided(decided) => {
                if matches!(decided.decision, ApprovalDecision::Approve { .. }) {
                    let mut newest = requests.iter().rev();
                    allowed.extend(newest.find(|it| it.tool_call_id == decided.tool_call_id));
                }
            }
            RecordBody::ToolCall(call) => {
                allowed.retain(|it| it.tool_call_id != call.tool_call_id);
            }
            RecordBody::ToolResult(result) => {
                allowed.retain(|it| it.tool_call_id != result.tool_call_id);
            }
            _ => {}
        }
    }
    allowed
}
