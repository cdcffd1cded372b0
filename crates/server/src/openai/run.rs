//! A run of this API from start to end. It ends when its client disconnects.

use std::sync::Arc;

use neuraxis::core::{
    BudgetKind, LlmErrorKind, Message, Record, RecordBody, RunId, RunUsage, ToolCall, ToolChoice,
    ToolKind, ToolSpec, run_messages,
};
use neuraxis::engine::{PendingCall, RequestError, asked_beside};
use neuraxis::{
    Event, Events, FinishReason, OrchestratorResult, RunHandle, RunStatus, SessionId, UserRequest,
};
use schemars::JsonSchema;
use serde::Serialize;

use super::thoughts::BREAK;
use super::waits;
use crate::access::detached;
use crate::caller::Caller;
use crate::limits::ServerState;
use crate::problem::Problem;
use crate::refusal::refused_in;
use crate::turns::{RetryAdvice, no_result, start};

/// Why a run is ended whose client has left.
const LEFT: &str = "the client disconnected";

/// A run that is cancelled if this is dropped before the run ends.
#[derive(Debug)]
pub(super) struct GuardedRun {
    handle: RunHandle,
    state: ServerState,
}

/// The outcome of a run.
#[derive(Debug)]
pub(super) struct ClientOutcome {
    pub(super) result: OrchestratorResult,
    /// The calls that the client must run.
    pub(super) calls: Vec<ToolCall>,
    /// Questions to the user that accompany the calls.
    questions: Option<String>,
    /// Whether a call of one of the client's tools was required, but the run waits for a user or asks the user instead.
    /// Many clients request a structured answer in this way, and repeat the request if they receive text.
    pub(super) lacks_call: bool,
    /// The notice of the result, unless it is in an event, as questions that accompany calls are.
    pub(super) notice: Option<String>,
    /// OpenAI's code for the model failure that ended the run.
    pub(super) model_failure: Option<&'static str>,
}

/// Starts a run, even if the client disconnects halfway. `conversation_field` is the field that holds the conversation.
pub(super) async fn begin(
    state: &ServerState,
    caller: &Caller,
    request: UserRequest,
    conversation_field: &'static str,
) -> Result<(GuardedRun, Events), Problem> {
    let request = caller.apply(state, request)?;
    let permit = state.take_permit(caller)?;
    let state = state.clone();
    let begun = detached(async move {
        let orchestrator = state.orchestrator().clone();
        let (handle, events) = start(orchestrator, request, Some(permit)).await?;
        // If the client has disconnected, this is dropped with the task's result.
        Ok::<_, RequestError>((GuardedRun { handle, state }, events))
    });
    begun
        .await?
        .map_err(|error| refused_in(conversation_field, "neuraxis.session", error))
}

impl GuardedRun {
    /// Waits for the run to end, or to wait for input.
    pub(super) async fn outcome(&self) -> Result<ClientOutcome, Problem> {
        let result = self.handle.result().await;
        let orchestrator = self.state.orchestrator();
        let advice = RetryAdvice::ReadSession;
        let mut result =
            result.map_err(|why| no_result(orchestrator, &self.handle, &why, advice))?;
        let records = self.handle.records();
        set_waiting_notice(&mut result, &records);
        Ok(ClientOutcome::new(result, &records))
    }

    pub(super) const fn handle(&self) -> &RunHandle {
        &self.handle
    }

    /// Returns when the run started, in seconds since 1970.
    pub(super) fn created(&self) -> i64 {
        created(&self.handle.records())
    }
}

/// Replaces the answer of a waiting run by a notice of what it waits for.
pub(super) fn set_waiting_notice(result: &mut OrchestratorResult, records: &[Arc<Record>]) {
    if result.status == RunStatus::Waiting {
        result.reply = waits::notice(result, records);
    }
}

/// Where the server's own API has the conversation and the run, and the status of the run.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(rename = "OpenAiPlace")]
pub(crate) struct RunRef {
    /// The session.
    session_id: SessionId,
    /// The run.
    run_id: RunId,
    /// The status of the run. Absent while it is in progress.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<RunStatus>,
    /// Why the run ended, if it has: more specific than OpenAI's finish reasons.
    #[serde(skip_serializing_if = "Option::is_none")]
    finish_reason: Option<FinishReason>,
    /// What the run waits for, if it waits.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pending: Vec<PendingCall>,
}

impl RunRef {
    /// Refers to a run that starts.
    pub(super) const fn begun(session_id: SessionId, run_id: RunId) -> Self {
        Self {
            session_id,
            run_id,
            status: None,
            finish_reason: None,
            pending: Vec::new(),
        }
    }

    /// Refers to the run of an answer that starts.
    pub(super) fn of(guarded: &GuardedRun) -> Self {
        Self::begun(guarded.handle.session_id().clone(), guarded.handle.run_id())
    }

    /// Adds the outcome of the run.
    pub(super) fn with_outcome(mut self, outcome: &ClientOutcome) -> Self {
        self.status = Some(outcome.result.status);
        self.finish_reason.clone_from(&outcome.result.finish_reason);
        self.pending.clone_from(&outcome.result.pending);
        self
    }
}

/// Returns whether the answer of a run is structured, as its request or its agent asked.
pub(super) fn is_structured(records: &[Arc<Record>]) -> bool {
    let started = records.first().and_then(|first| first.run_started());
    started.is_some_and(|started| started.spec.root.answer_schema().is_some())
}

/// Returns whether a request requires a call of one of the client's tools.
pub(super) fn requires_call(records: &[Arc<Record>]) -> bool {
    let started = records.first().and_then(|first| first.run_started());
    started.is_some_and(|started| {
        let root = &started.spec.root;
        let of_client = |tool: &&ToolSpec| tool.kind == ToolKind::Client;
        let mut of_client = root.tools.iter().filter(of_client);
        match &root.tool_choice {
            Some(ToolChoice::Required) => of_client.next().is_some(),
            Some(ToolChoice::Named(name)) => of_client.any(|tool| tool.name == *name),
            Some(ToolChoice::Auto | ToolChoice::None) | None => false,
        }
    })
}

/// Returns when a run started, in seconds since 1970.
pub(super) fn created(records: &[Arc<Record>]) -> i64 {
    records.first().map_or(0, |first| first.at.as_second())
}

impl Drop for GuardedRun {
    fn drop(&mut self) {
        // A run that has ended cannot be cancelled, and need not be.
        let _ = self.handle.cancel(LEFT);
    }
}

impl ClientOutcome {
    /// Builds the outcome of a run with these records.
    pub(super) fn new(mut result: OrchestratorResult, records: &[Arc<Record>]) -> Self {
        if gave_up_on_structure(&result)
            && let Some(fault) = &result.answer_fault
        {
            let why = format!("This answer does not have the requested form: {fault}");
            if !result.reply.is_empty() {
                result.reply.push_str(BREAK);
            }
            result.reply.push_str(&why);
        }
        let is_sent = result.finish_reason == Some(FinishReason::ClientTools);
        let notice = result.notice.clone().filter(|_| !is_sent);
        let model_failure = model_failure(records);
        let (calls, questions) = match result.finish_reason {
            Some(FinishReason::ClientTools) => (handed_over(records), asked_beside(records)),
            _ => (Vec::new(), Vec::new()),
        };
        let needs_user = result.status == RunStatus::Waiting
            || result.finish_reason == Some(FinishReason::Clarify);
        Self {
            result,
            calls,
            questions: (!questions.is_empty()).then(|| questions.join(BREAK)),
            lacks_call: needs_user && requires_call(records),
            notice,
            model_failure,
        }
    }

    /// Returns whether there is anything to send as an answer, even if only a sentence that says why there is none.
    pub(super) fn is_answered(&self) -> bool {
        let is_done = matches!(self.result.status, RunStatus::Done | RunStatus::Waiting);
        is_done && !is_out_of_budget(&self.result) && !gave_up_on_structure(&self.result)
    }

    /// Returns what to send to a client that asked for a structured answer, or that does not get a required call. What
    /// the model said along with calls is not an answer and is left out, except for its questions to the user.
    pub(super) fn structured_reply(&self) -> StructuredReply {
        if !self.calls.is_empty() {
            return StructuredReply {
                content: None,
                refusal: self.questions.clone(),
            };
        }
        let reply = Some(self.result.reply.clone()).filter(|reply| !reply.is_empty());
        let why = self.result.finish_reason.as_ref();
        let is_cut_off =
            why.is_some_and(|why| *why == FinishReason::Length || why.ends_at_a_limit());
        let is_answer = self.result.answer_fault.is_none() && !self.lacks_call;
        match is_answer || is_cut_off {
            true => StructuredReply {
                content: reply,
                refusal: None,
            },
            false => StructuredReply {
                content: None,
                refusal: reply,
            },
        }
    }
}

/// The reply to a request for a structured answer: clients parse the content as JSON, and show the refusal as it is.
#[derive(Debug)]
pub(super) struct StructuredReply {
    /// The answer, or the available part of one that was cut off.
    pub(super) content: Option<String>,
    /// Why there is no answer: what the run waits for, a question to the user, or a model that refuses.
    pub(super) refusal: Option<String>,
}

/// Returns whether a run ended before any model was called because a budget was exhausted. Clients would mistake a
/// sentence that says so for an answer that was cut off.
pub(super) fn is_out_of_budget(result: &OrchestratorResult) -> bool {
    began_without_budget(result.finish_reason.as_ref(), &result.usage)
}

/// Like [`is_out_of_budget`], from the finish reason and the usage of a run.
pub(super) fn began_without_budget(why: Option<&FinishReason>, used: &RunUsage) -> bool {
    matches!(why, Some(FinishReason::Budget(_))) && used.roles.is_empty()
}

/// Returns whether a run ended without the requested structured answer because its model kept repeating itself, for
/// example giving the same invalid answer. Nothing was cut off, so clients must not be told to ask for more tokens.
pub(super) fn gave_up_on_structure(result: &OrchestratorResult) -> bool {
    result.answer_fault.is_some() && ended_by_repeats(result.finish_reason.as_ref())
}

/// Returns whether a run ended because its model repeatedly made the same call.
pub(super) fn ended_by_repeats(why: Option<&FinishReason>) -> bool {
    matches!(why, Some(FinishReason::Budget(BudgetKind::RepeatedCalls)))
}

/// Returns whether an event ends a run that began with an exhausted budget. Its text is sent as the error and not as
/// the answer.
pub(super) fn ends_without_budget(event: &Event) -> bool {
    let Event::Record(record) = event else {
        return false;
    };
    match &record.body {
        RecordBody::Final(end) => began_without_budget(Some(&end.finish_reason), &end.usage),
        _ => false,
    }
}

/// Returns whether an event ends a run with a question to the user. It is sent as a refusal if a call was required.
pub(super) fn ends_with_a_question(event: &Event) -> bool {
    let Event::Record(record) = event else {
        return false;
    };
    matches!(&record.body, RecordBody::Final(end) if end.finish_reason == FinishReason::Clarify)
}

/// Returns OpenAI's code for the model failure that ended a run, if it is one that clients act on.
fn model_failure(records: &[Arc<Record>]) -> Option<&'static str> {
    let mut latest_first = records.iter().rev();
    let outcome = latest_first.find_map(|record| match &record.body {
        RecordBody::RunFailed(outcome) if record.ends_the_run() => Some(outcome),
        _ => None,
    })?;
    match outcome.model_failure(records)?.error.kind {
        LlmErrorKind::ContextOverflow { .. } => Some("context_length_exceeded"),
        LlmErrorKind::RateLimited { .. } => Some("rate_limit_exceeded"),
        _ => None,
    }
}

/// Returns the calls at the end of a run that have no result.
pub(super) fn handed_over(records: &[Arc<Record>]) -> Vec<ToolCall> {
    let messages = run_messages(records);
    let is_answer = |message: &Arc<Message>| matches!(**message, Message::Assistant(_));
    let Some(last) = messages.iter().rposition(is_answer) else {
        return Vec::new();
    };
    let (up_to_answer, after) = messages.split_at(last.saturating_add(1));
    let is_answered = |call: &ToolCall| {
        let mut after = after.iter().map(Arc::as_ref);
        after.any(|message| matches!(message, Message::Tool(tool) if tool.tool_call_id == call.id))
    };
    let calls = up_to_answer
        .last()
        .into_iter()
        .flat_map(|answer| answer.tool_calls());
    calls.filter(|call| !is_answered(call)).cloned().collect()
}
