//! A run of this API from its beginning to its end: who leaves ends it.

use std::sync::Arc;

use neuraxis::core::{
    AgentId, BudgetKind, LlmErrorKind, Message, Record, RecordBody, RunId, RunUsage, ToolCall,
    ToolChoice, ToolKind, ToolSpec, run_messages,
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
use crate::limits::Limited;
use crate::problem::Problem;
use crate::refusal::refused_in;
use crate::turns::{Later, no_result, start};

/// Why a run ended whose client has left.
const LEFT: &str = "the client went away";

/// A run that is cancelled when it is dropped before its end.
#[derive(Debug)]
pub(super) struct Held {
    handle: RunHandle,
    limited: Limited,
}

/// What a run came to.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) result: OrchestratorResult,
    /// The calls that are the client's to run.
    pub(super) calls: Vec<ToolCall>,
    /// What the user is asked beside them.
    asked: Option<String>,
    /// Whether one of the client's tools was to be called, and a person is waited for or the user is asked instead. Many clients
    /// ask for an answer of a form in this way, and repeat themselves where they are given a text.
    pub(super) lacks_call: bool,
    /// What the reply says behind the answer, which no event tells: why a limit was reached, and what to do about it.
    pub(super) notice: Option<String>,
    /// What OpenAI's API calls the failure of a model with which it ended.
    pub(super) model_failure: Option<&'static str>,
}

/// Begins a run, also where the client leaves in the middle. `said_in` is the field of the conversation.
pub(super) async fn begin(
    limited: &Limited,
    caller: &Caller,
    request: UserRequest,
    said_in: &'static str,
) -> Result<(Held, Events), Problem> {
    let request = caller.apply(limited, request)?;
    let slot = limited.slot(caller)?;
    let limited = limited.clone();
    let begun = detached(async move {
        let orchestrator = limited.orchestrator().clone();
        let (handle, events) = start(orchestrator, request, Some(slot)).await?;
        // Dropped with the answer of this task if nobody waits for it any more.
        Ok::<_, RequestError>((Held { handle, limited }, events))
    });
    begun
        .await?
        .map_err(|error| refused_in(said_in, "neuraxis.session", error))
}

impl Held {
    /// Waits for the run to end, or to wait for somebody.
    pub(super) async fn ended(&self) -> Result<Ended, Problem> {
        let result = self.handle.result().await;
        let orchestrator = self.limited.orchestrator();
        let later = Later::InTheSession;
        let mut result =
            result.map_err(|why| no_result(orchestrator, &self.handle, &why, later))?;
        let records = self.handle.records();
        say_that_it_waits(&mut result, &records);
        Ok(Ended::new(result, &records))
    }

    pub(super) const fn handle(&self) -> &RunHandle {
        &self.handle
    }

    /// Returns when the run began, in seconds since 1970.
    pub(super) fn created(&self) -> i64 {
        created(&self.handle.records())
    }
}

/// Lets the answer of a run that waits say so, and for what.
pub(super) fn say_that_it_waits(result: &mut OrchestratorResult, records: &[Arc<Record>]) {
    if result.status == RunStatus::Waiting {
        result.reply = waits::notice(result, records);
    }
}

/// Where the conversation and the run are found on the server's own API, and how the run stands.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(rename = "OpenAiPlace")]
pub(crate) struct RunRef {
    /// The session.
    session_id: SessionId,
    /// The run.
    run_id: RunId,
    /// Where the run stands; left out while it is at work.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<RunStatus>,
    /// Why it ended, if it has: more closely than OpenAI's API has words for.
    #[serde(skip_serializing_if = "Option::is_none")]
    finish_reason: Option<FinishReason>,
    /// What it waits for, if it waits.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pending: Vec<PendingCall>,
}

impl RunRef {
    /// Names a run that begins.
    pub(super) const fn begun(session_id: SessionId, run_id: RunId) -> Self {
        Self {
            session_id,
            run_id,
            status: None,
            finish_reason: None,
            pending: Vec::new(),
        }
    }

    /// Names the run of an answer that begins.
    pub(super) fn of(held: &Held) -> Self {
        Self::begun(held.handle.session_id().clone(), held.handle.run_id())
    }

    /// Adds what the run came to.
    pub(super) fn ended(mut self, ended: &Ended) -> Self {
        self.status = Some(ended.result.status);
        self.finish_reason.clone_from(&ended.result.finish_reason);
        self.pending.clone_from(&ended.result.pending);
        self
    }
}

/// Tells whether the answer of a run is of a form: one that its request asked for, or its agent's own.
pub(super) fn has_form(records: &[Arc<Record>]) -> bool {
    let started = records.first().and_then(|first| first.run_started());
    started.is_some_and(|started| started.spec.root.answer_schema().is_some())
}

/// Tells whether a request wants one of the client's tools to be called.
pub(super) fn has_to_call(records: &[Arc<Record>]) -> bool {
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

/// Returns when a run began, in seconds since 1970.
pub(super) fn created(records: &[Arc<Record>]) -> i64 {
    records.first().map_or(0, |first| first.at.as_second())
}

impl Drop for Held {
    fn drop(&mut self) {
        // One that has ended cannot be cancelled, and need not be.
        let _ = self.handle.cancel(LEFT);
    }
}

impl Ended {
    /// Puts together what a run with these records came to.
    pub(super) fn new(mut result: OrchestratorResult, records: &[Arc<Record>]) -> Self {
        if gave_up_on_the_form(&result)
            && let Some(fault) = &result.answer_fault
        {
            let why = format!("This is not the answer that was asked for: {fault}");
            if !result.reply.is_empty() {
                result.reply.push_str(BREAK);
            }
            result.reply.push_str(&why);
        }
        let notice = notice(&result, records);
        let model_failure = model_failure(&result, records);
        let (calls, asked) = match result.finish_reason {
            Some(FinishReason::ClientTools) => (handed_over(records), asked_beside(records)),
            _ => (Vec::new(), Vec::new()),
        };
        let is_for_a_person = result.status == RunStatus::Waiting
            || result.finish_reason == Some(FinishReason::Clarify);
        Self {
            result,
            calls,
            asked: (!asked.is_empty()).then(|| asked.join(BREAK)),
            lacks_call: is_for_a_person && has_to_call(records),
            notice,
            model_failure,
        }
    }

    /// Tells whether there is anything to tell the client, be it a sentence that says why there is no answer.
    pub(super) fn is_answered(&self) -> bool {
        let is_done = matches!(self.result.status, RunStatus::Done | RunStatus::Waiting);
        is_done && !is_out_of_budget(&self.result) && !gave_up_on_the_form(&self.result)
    }

    /// Returns what a client is told that asked for an answer of a form, or that lacks a call. What the model said beside calls is
    /// no answer, and is left out, but for what it asks the user there.
    pub(super) fn formed(&self) -> Formed {
        if !self.calls.is_empty() {
            return Formed {
                content: None,
                refusal: self.asked.clone(),
            };
        }
        let reply = Some(self.result.reply.clone()).filter(|reply| !reply.is_empty());
        let why = self.result.finish_reason.as_ref();
        let is_cut_off =
            why.is_some_and(|why| *why == FinishReason::Length || why.ends_at_a_limit());
        let is_answer = self.result.answer_fault.is_none() && !self.lacks_call;
        match is_answer || is_cut_off {
            true => Formed {
                content: reply,
                refusal: None,
            },
            false => Formed {
                content: None,
                refusal: reply,
            },
        }
    }
}

/// What is told where an answer of a form was asked for: clients read the one as JSON, and show the other as it is.
#[derive(Debug)]
pub(super) struct Formed {
    /// The answer, or what there is of one that was cut off.
    pub(super) content: Option<String>,
    /// Why there is none: what the run waits for, a question to the user, a model that will not.
    pub(super) refusal: Option<String>,
}

/// Tells whether a run ended before any model was asked, since nothing is left of a budget. Clients would take a sentence that
/// says so for an answer that was cut off.
pub(super) fn is_out_of_budget(result: &OrchestratorResult) -> bool {
    began_without_budget(result.finish_reason.as_ref(), &result.usage)
}

/// Tells the same from why a run ended and what it used.
pub(super) fn began_without_budget(why: Option<&FinishReason>, used: &RunUsage) -> bool {
    matches!(why, Some(FinishReason::Budget(_))) && used.roles.is_empty()
}

/// Tells whether a run ended without the answer of a form that was asked for since its model did the same again and again, such
/// as giving the same wrong one. Nothing was cut off: clients would be told to ask for more tokens.
pub(super) fn gave_up_on_the_form(result: &OrchestratorResult) -> bool {
    result.answer_fault.is_some() && ended_by_repeats(result.finish_reason.as_ref())
}

/// Tells whether a run ended since its model made the same call again and again.
pub(super) fn ended_by_repeats(why: Option<&FinishReason>) -> bool {
    matches!(why, Some(FinishReason::Budget(BudgetKind::RepeatedCalls)))
}

/// Tells whether an event ends a run without anything left of a budget: what it says is told as the error, and not as the
/// answer.
pub(super) fn ends_without_budget(event: &Event) -> bool {
    let Event::Record(record) = event else {
        return false;
    };
    match &record.body {
        RecordBody::Final(end) => began_without_budget(Some(&end.finish_reason), &end.usage),
        _ => false,
    }
}

/// Tells whether an event ends a run with a question to the user, which is told as a refusal where a call was to come.
pub(super) fn ends_with_a_question(event: &Event) -> bool {
    let Event::Record(record) = event else {
        return false;
    };
    matches!(&record.body, RecordBody::Final(end) if end.finish_reason == FinishReason::Clarify)
}

/// Returns what the reply of a run says behind what it ended with. What is asked beside calls is told with the events.
fn notice(result: &OrchestratorResult, records: &[Arc<Record>]) -> Option<String> {
    if result.finish_reason == Some(FinishReason::ClientTools) {
        return None;
    }
    let of_root = records.iter().rev();
    let mut of_root = of_root.filter(|record| record.agent == AgentId::ROOT);
    let content = of_root.find_map(|record| match &record.body {
        RecordBody::Final(end) => Some(end.content.as_str()),
        _ => None,
    })?;
    let notice = result.reply.strip_prefix(content)?.trim_start();
    (!notice.is_empty()).then(|| notice.to_owned())
}

/// Returns what OpenAI's API calls the failure of a model that ended a run, where it is one that clients act on.
fn model_failure(result: &OrchestratorResult, records: &[Arc<Record>]) -> Option<&'static str> {
    let Some(FinishReason::Failed(why)) = &result.finish_reason else {
        return None;
    };
    let of_root = records.iter().rev();
    let of_root = of_root.filter(|record| record.agent == AgentId::ROOT);
    let mut failures = of_root.filter_map(|record| match &record.body {
        RecordBody::LlmFailed(failed) => Some(&failed.error),
        _ => None,
    });
    let last = failures.next().filter(|error| error.to_string() == *why)?;
    match last.kind {
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
    let (said, after) = messages.split_at(last.saturating_add(1));
    let is_answered = |call: &ToolCall| {
        let mut after = after.iter().map(Arc::as_ref);
        after.any(|message| matches!(message, Message::Tool(tool) if tool.tool_call_id == call.id))
    };
    let calls = said.last().into_iter().flat_map(|said| said.tool_calls());
    calls.filter(|call| !is_answered(call)).cloned().collect()
}
