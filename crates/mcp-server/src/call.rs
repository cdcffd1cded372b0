//! One call of a tool: starts a run, follows it, puts its questions to the user at the client, and answers with the
//! result.
//!
//! A run that needs approval is suspended, and its questions are in the store, so they survive the loss of this process
//! or of the client. Clients of the `initialize` era are then asked by a request from the server. Clients of 2026-07-28
//! receive the questions as the result of their call and send the answers with the next call. Questions that a tool
//! asks in the middle of a call are handled the same way; the tool waits meanwhile.

mod ask;
mod elicitation;
mod follow;
mod run_guard;

use std::sync::Arc;
use std::time::Duration;

use http::request::Parts;
use neuraxis_core::{ApprovalDecision, RunId, RunStatus, Seq, TraceContext};
use neuraxis_engine::{
    Approvals, DecideLater, OrchestratorResult, ResumeError, Runs, UserRequest, WaitingApproval,
};
use neuraxis_ports::{CancellationToken, RequestContext as CallerContext};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ErrorData, InputResponses, JsonObject,
    ProtocolVersion, RequestId,
};
use rmcp::service::RequestContext;
use rmcp::{Peer, RoleServer};
use tokio_util::sync::DropGuard;

use self::ask::AskOutcome;
use self::elicitation::ClientApprover;
use self::follow::{FollowError, FollowOutcome, FollowedRun, cannot_follow};
use self::run_guard::{GIVEN_UP, RunGuard};
use crate::log_messages::LogMessages;
use crate::offers::OfferedTool;
use crate::outcome::{failed, of_run, refusal};
use crate::progress::Progress;
use crate::run_permit::RunPermit;
use crate::server::McpServer;
use crate::shown::one_line;
use crate::{arguments, question};

/// How long a tool waits for the client to answer its question.
const QUESTION_TIMEOUT: Duration = Duration::from_secs(5 * 60);

/// The error for a call whose run would exceed the server's limit on concurrent runs.
const FULL: &str =
    "the server has reached its limit of concurrent runs; try again in a few seconds";

/// The error for a call whose `requestState` cannot be opened. The client then does not know which run to look for.
const NOT_OPENED: &str = "no decision was made: this server did not issue this requestState for this tool, or the \
                          server was restarted since, or the client may no longer approve. A run that waits for an \
                          approval keeps waiting. To decide, use `neuraxis approvals` with this server's \
                          configuration, or the page of neuraxis-server. Calling the tool again starts another run";

/// A call in progress.
pub(crate) struct Call<'a> {
    server: &'a McpServer,
    peer: Peer<RoleServer>,
    /// The client's id for its request.
    id: RequestId,
    /// Cancelled when the client no longer wants an answer.
    given_up: CancellationToken,
    asking: AskMode,
    /// The trace that the client's request is part of.
    trace: Option<TraceContext>,
    /// The name recorded as the decider of the run's questions.
    by: String,
    progress: Progress,
    messages: LogMessages,
    /// Cancelled when the call ends, after which the client is asked nothing more.
    call_ended: DropGuard,
}

/// How the user at a client is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AskMode {
    /// Not at all: the orchestrator's approver decides.
    Nobody,
    /// By a request from the server, during the call.
    ByRequest,
    /// In the result of the call; the next call carries the answers.
    InResult,
}

impl<'a> Call<'a> {
    pub(crate) fn new(server: &'a McpServer, context: RequestContext<RoleServer>) -> Self {
        let version = context.protocol_version();
        let client = context.client_capabilities();
        let can_ask = server.asks && question::can_show_form(client.as_ref());
        let asking = match can_ask {
            false => AskMode::Nobody,
            true if version.is_some_and(|it| it >= ProtocolVersion::V_2026_07_28) => {
                AskMode::InResult
            }
            true => AskMode::ByRequest,
        };
        let client = context.client_info().map(|client| one_line(&client.name));
        let client = client.unwrap_or_else(|| "an MCP client".to_owned());
        Self {
            server,
            asking,
            trace: trace_of(&context),
            by: format!("the user of {client}"),
            messages: server
                .level
                .messages(&context.peer, context.meta.log_level()),
            call_ended: context.ct.child_token().drop_guard(),
            progress: Progress::new(context.peer.clone(), context.meta.get_progress_token()),
            peer: context.peer,
            id: context.id,
            given_up: context.ct,
        }
    }

    /// Answers the call.
    ///
    /// # Errors
    ///
    /// Returns an error only for what no model can fix: an unknown tool. Every other failure is a result marked as an
    /// error.
    pub(crate) async fn answer(
        mut self,
        call: CallToolRequestParams,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(offer) = self.server.offers.find(&call.name) else {
            let (name, names) = (one_line(&call.name), self.server.offers.names().join(", "));
            let text = format!("unknown tool {name:?}; known: {names}");
            return Err(ErrorData::invalid_params(text, None));
        };
        let state = call.request_state.as_deref();
        let waiting = match state.map(|state| self.open_state(offer, state)) {
            Some(Some(run)) => Some(run),
            Some(None) => return Ok(failed(NOT_OPENED).into()),
            None => None,
        };
        let begun = match waiting {
            Some(run) => {
                self.resume(run, call.input_responses.unwrap_or_default())
                    .await
            }
            None => self.begin(offer, &call.arguments.unwrap_or_default()).await,
        };
        Ok(match begun {
            Ok((run, followed)) => self.follow_to_end(offer, run, followed).await,
            Err(text) => failed(text).into(),
        })
    }

    /// Follows a run to its end, and puts its questions to the client on the way.
    async fn follow_to_end(
        &mut self,
        offer: &OfferedTool,
        run: RunId,
        mut followed: FollowedRun,
    ) -> CallToolResponse {
        let mut guard = RunGuard::new(self.server, self.runs(), run);
        let answer = loop {
            let ask_outcome = match self.follow(followed).await {
                Ok(FollowOutcome::Question) => self.ask_questions_in_result(offer, run).await,
                Ok(FollowOutcome::Result(result)) => {
                    let open = match result.status {
                        RunStatus::Waiting => self.open_questions(run).await,
                        _ => Ok(Vec::new()),
                    };
                    let open = match open {
                        Ok(open) => open,
                        Err(text) => break failed(text).into(),
                    };
                    if open.is_empty() || self.asking == AskMode::Nobody {
                        break self.outcome(&result, &open).await.into();
                    }
                    match self.asking {
                        AskMode::InResult => self.ask_in_result(offer, run, &open).await,
                        AskMode::ByRequest | AskMode::Nobody => {
                            match self.ask_by_request(run, &open).await.transpose() {
                                Some(ask_outcome) => ask_outcome,
                                None => break self.outcome(&result, &open).await.into(),
                            }
                        }
                    }
                }
                Err(stopped) => Err(stopped),
            };
            let next = match ask_outcome {
                Ok(AskOutcome::Settled(last)) => self.follow_on(run, last).await,
                Ok(AskOutcome::ByClient(questions)) => break questions.into(),
                Err(FollowError::Cancelled) => return failed(GIVEN_UP).into(),
                Err(FollowError::Failed(text)) => Err(text),
            };
            followed = match next {
                Ok(followed) => followed,
                Err(text) => break failed(text).into(),
            };
        };
        guard.is_settled = true;
        answer
    }

    /// Returns the outcome of a run according to its records.
    async fn outcome(
        &self,
        result: &OrchestratorResult,
        open: &[WaitingApproval],
    ) -> CallToolResult {
        let sessions = self.server.orchestrator.sessions();
        let records = match result.status {
            // The client gets its answer even if the records can no longer be read.
            RunStatus::Done => sessions.records(result.run_id).await.unwrap_or_default(),
            _ => Vec::new(),
        };
        of_run(result, open, &records)
    }

    /// Starts the run of a request, in a separate task: if the client disconnects halfway, a half-started run would
    /// keep its session busy permanently.
    async fn begin(
        &self,
        offer: &OfferedTool,
        arguments: &JsonObject,
    ) -> Result<(RunId, FollowedRun), String> {
        let permits = self.server.run_permits.as_ref();
        let permit = permits.map(|permits| RunPermit::take(permits).ok_or(FULL));
        let permit = permit.transpose()?;
        let mut request: UserRequest = arguments::request(self.server, offer, arguments)
            .map_err(|why| format!("{}: {why}", offer.tool.name))?;
        // Keep what the admission added to the context.
        let context = self.add_approver(std::mem::take(&mut request.context));
        request.context = match permit {
            // The context is dropped when the run ends or is suspended, which releases the permit.
            Some(permit) => context.with(permit),
            None => context,
        };
        request.trace.clone_from(&self.trace);
        let runs = self.server.orchestrator.runs();
        let begun = tokio::spawn(async move { runs.start(request).await }).await;
        let run = begun
            .map_err(|_| {
                "could not start the run because of an internal error, which was logged".to_owned()
            })?
            .map_err(|error| refusal(&error))?;
        Ok((run.run_id(), FollowedRun::started_here(run, self.server)))
    }

    /// Resumes a run that waits for answers, with the answers that arrived.
    async fn resume(
        &self,
        run: RunId,
        mut answers: InputResponses,
    ) -> Result<(RunId, FollowedRun), String> {
        let at_work = self.runs().questions(run);
        for open in at_work.iter().flatten() {
            if let Some(answer) = answers.remove(open.question_id.as_str()) {
                let reply = elicitation::reply_in(answer);
                // An answer that does not fit is asked for again, and a question settled meanwhile needs no answer.
                let _ = self.runs().answer_question(run, &open.question_id, reply);
            }
        }
        let mut last = None;
        for waiting in self.open_questions(run).await? {
            if let Some(answer) = answers.remove(&waiting.question()) {
                let decision = question::decision_in(answer);
                last = last.max(self.decide(run, &waiting, decision).await?);
            }
        }
        if at_work.is_some() && last.is_none() {
            last = Some(self.newest(run).await?);
        }
        Ok((run, self.follow_on(run, last).await?))
    }

    /// Returns the number of a run's newest record.
    async fn newest(&self, run: RunId) -> Result<Seq, String> {
        let summary = self.server.orchestrator.sessions().run(run).await;
        let summary = summary.map_err(|error| cannot_follow(run, &error))?;
        Ok(Seq(summary.records))
    }

    async fn open_questions(&self, run: RunId) -> Result<Vec<WaitingApproval>, String> {
        let summary = self.server.orchestrator.sessions().run(run).await;
        let summary = summary.map_err(|error| cannot_follow(run, &error))?;
        let open = self.approvals().of_run(&summary).await;
        open.map_err(|error| cannot_follow(run, &error))
    }

    /// Records a decision about a call and returns the last record before it. Returns `None` if the question was
    /// settled meanwhile, by another decision or by expiring.
    async fn decide(
        &self,
        run: RunId,
        waiting: &WaitingApproval,
        decision: ApprovalDecision,
    ) -> Result<Option<Seq>, String> {
        let request = &waiting.request;
        let (call, hash) = (&request.tool_call_id, request.arguments_hash);
        let by = Some(self.by.clone());
        let approvals = self.approvals().with_context(self.resume_context());
        match approvals.decide(run, call, hash, decision, by).await {
            Ok(last) => Ok(Some(last)),
            Err(ResumeError::NotAsked(_) | ResumeError::Expired { .. } | ResumeError::Ended(_)) => {
                Ok(None)
            }
            Err(error) => Err(cannot_follow(run, &error)),
        }
    }

    fn open_state(&self, offer: &OfferedTool, state: &str) -> Option<RunId> {
        // A client that may no longer be asked must not decide about earlier questions either.
        if !self.server.asks {
            return None;
        }
        let owner = self.server.owner.as_deref();
        self.server.states.open(state, &offer.tool.name, owner)
    }

    /// Returns the context with which the run of this call resumes.
    fn context(&self) -> CallerContext {
        let owner = self.server.owner.as_deref();
        self.add_approver(CallerContext::default().owned_by(owner.map(ToOwned::to_owned)))
    }

    /// Returns the context with which the run of this call resumes after a decision of its client, including its
    /// permit. When another caller decides, the run gets that caller's context.
    fn resume_context(&self) -> CallerContext {
        let mut context = self.context();
        if let Some(permits) = &self.server.run_permits {
            context = context.with(RunPermit::take_regardless(permits));
        }
        match &self.server.resume_context {
            Some(resume_context) => resume_context(context),
            None => context,
        }
    }

    /// Adds what this call supplies to its run.
    fn add_approver(&self, context: CallerContext) -> CallerContext {
        match self.asking {
            AskMode::Nobody => context,
            AskMode::InResult => context
                .approved_by(Arc::new(DecideLater))
                .with_questions_open_for(QUESTION_TIMEOUT),
            AskMode::ByRequest => context.approved_by(Arc::new(ClientApprover {
                peer: self.peer.clone(),
                call: self.id.clone(),
                call_ended: self.call_ended.token().clone(),
                asking_ended: self.server.asking_ended().clone(),
            })),
        }
    }

    fn runs(&self) -> Runs {
        self.server.orchestrator.runs().with_context(self.context())
    }

    fn approvals(&self) -> Approvals {
        let approvals = self.server.orchestrator.approvals();
        approvals.with_context(self.context())
    }
}

/// Returns the trace that a request belongs to, from its `_meta` or else from the header of the HTTP request that
/// carried it. A malformed value is ignored.
fn trace_of(context: &RequestContext<RoleServer>) -> Option<TraceContext> {
    let meta = &context.meta;
    if let Some(parent) = meta.get_traceparent() {
        let state = meta.get_tracestate().map(ToOwned::to_owned);
        let parent: TraceContext = parent.parse().ok()?;
        return Some(parent.with_state(state));
    }
    let headers = &context.extensions.get::<Parts>()?.headers;
    let header = |name: &str| headers.get(name)?.to_str().ok();
    let parent: TraceContext = header("traceparent")?.parse().ok()?;
    Some(parent.with_state(header("tracestate").map(ToOwned::to_owned)))
}
