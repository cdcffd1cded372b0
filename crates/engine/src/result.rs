//! The result that a caller gets for every run, however the run went.

mod apology;
mod no_answer;
mod pending_call;

use std::sync::Arc;

use neuraxis_core::{
    Cost, CountLabel, FinishReason, Interruption, JsonText, MicroUsd, Record, RecordBody, RunId,
    RunOutcome, RunStatus, RunUsage, SessionId, Source, Transcript, root_records,
};
use serde::Serialize;

use crate::answer::{self, AnswerFault};
use crate::run_end::RunEnd;
use crate::run_handle::RunHandle;
use crate::steps::{StepMetadata, Steps};

pub use no_answer::NoAnswer;
pub use pending_call::PendingCall;

/// The result of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct OrchestratorResult {
    /// The text for the user: the answer, or a friendly sentence that says why there is none.
    pub reply: String,
    /// What the user is told beside what the model said: why there is no answer or only a part of one, or questions
    /// that accompany calls of the client's tools. `reply` ends with it, after an empty line if the model said
    /// anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notice: Option<String>,
    /// The answer as JSON that fits the schema, if [`UserRequest::answer`](crate::UserRequest::answer) asked for one
    /// and the run gave it; `reply` then holds the same.
    #[serde(
        serialize_with = "answer::embedded",
        skip_serializing_if = "Option::is_none"
    )]
    #[cfg_attr(feature = "schema", schemars(with = "Option<serde_json::Value>"))]
    pub answer: Option<JsonText>,
    /// Why there is no such answer, if one was requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer_fault: Option<AnswerFault>,
    /// The steps that the run took.
    pub steps: Steps,
    /// The trace, as 32 hexadecimal digits.
    pub trace_id: String,
    /// The session.
    pub session_id: SessionId,
    /// The run.
    pub run_id: RunId,
    /// The run's status.
    pub status: RunStatus,
    /// Why the run ended; null in JSON while it waits.
    pub finish_reason: Option<FinishReason>,
    /// Why it was ended without being continued, if its finish reason is [`FinishReason::Interrupted`] and the cause
    /// was recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interruption: Option<Interruption>,
    /// The number of turns that counted toward the limit.
    pub turns: u32,
    /// Tokens used, in total and by the role that served.
    pub usage: RunUsage,
    /// The pages that the answer cites, in the order of its citation numbers, if [citations](neuraxis_core::Citations)
    /// are checked for its agent.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<Source>,
    /// The cost of the run's model calls, including those of its sub-agents, at the policy's prices. `None` if any
    /// reply came from a model without a price; the cost of the others is in the records.
    #[serde(rename = "cost_micro_usd", skip_serializing_if = "Option::is_none")]
    pub cost: Option<MicroUsd>,
    /// How reliable the cost is. Measured: from the provider's counts and the deployment's prices. Estimated: either
    /// comes from elsewhere, such as a list of public prices. Unknown: a model has no price, or a call was stopped
    /// before its usage was reported; the amount, if any, is then a lower bound.
    pub cost_label: CountLabel,
    /// What a waiting run waits for: decisions of users and results of the client's tools, each with its call.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pending: Vec<PendingCall>,
}

/// One thing that a run did.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct OrchestratorStep {
    /// The kind of step.
    #[serde(rename = "type")]
    pub kind: StepType,
    /// A short description for readers.
    pub description: Arc<str>,
    /// Details for programs: `model_role`, `tool_name`, `span_id`, `error` and others.
    pub metadata: StepMetadata,
}

/// The kinds of steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StepType {
    /// A model was asked and replied.
    LlmCall,
    /// A tool was called, with its outcome.
    ToolCall,
    /// The plan changed.
    Plan,
    /// Work was summarized.
    Summary,
    /// Something went wrong, or a limit was reached.
    Warning,
}

/// Builds the result of a run from its end.
pub(crate) fn of_run(run: &RunHandle, end: &RunEnd) -> OrchestratorResult {
    let outcome = end.outcome.as_ref();
    let feed = &run.link.feed;
    let (answer, answer_fault) = feed.with_records(|records| answer::of_run(outcome, records));
    let (reply, notice) = match (&answer, outcome) {
        (Some(answer), _) => (answer.to_string(), None),
        (None, Some(outcome)) => {
            let notice = feed.with_records(|records| notice(outcome, records));
            (with_notice(&outcome.content, notice.as_deref()), notice)
        }
        (None, None) => (String::new(), None),
    };
    let (turns, usage) = match outcome {
        Some(outcome) => (outcome.turns, outcome.usage.clone()),
        None => end.so_far.clone().unwrap_or_default(),
    };
    OrchestratorResult {
        reply,
        notice,
        answer,
        answer_fault,
        steps: Steps::of(Arc::clone(feed)),
        trace_id: run.trace.trace_id_hex(),
        session_id: run.session_id.clone(),
        run_id: run.link.run_id,
        status: outcome.map_or(RunStatus::Waiting, RunOutcome::status),
        finish_reason: outcome.map(|outcome| outcome.finish_reason.clone()),
        interruption: outcome.and_then(|outcome| outcome.interruption),
        turns,
        usage,
        sources: outcome
            .map(|outcome| outcome.sources.clone())
            .unwrap_or_default(),
        cost: feed.with_records(cost),
        cost_label: feed.with_records(cost_label),
        pending: feed
            .with_records(|records| pending_call::named(&end.pending, records, run.link.run_id)),
    }
}

/// Builds the result of a run whose task crashed, which only a defect in an adapter or in the engine itself can cause.
pub(crate) fn of_crashed(run: &RunHandle) -> OrchestratorResult {
    let end = RunEnd {
        outcome: Some(crashed_outcome()),
        pending: Vec::new(),
        so_far: None,
        messages: Transcript::default(),
    };
    of_run(run, &end)
}

pub(crate) fn crashed_outcome() -> RunOutcome {
    RunOutcome {
        content: String::new(),
        finish_reason: FinishReason::Failed("an internal error; it was logged".to_owned()),
        turns: 0,
        usage: RunUsage::default(),
        sources: Vec::new(),
        unheard: 0,
        failed_call: None,
        interruption: None,
    }
}

/// Returns the sum of what a run's model calls cost; `None` if any reply came from a model without a price, since the
/// sum would be too low. Failed attempts, and those that a hook stopped, are included as far as their providers
/// reported their usage.
#[must_use]
pub fn cost(records: &[Arc<Record>]) -> Option<MicroUsd> {
    let mut costs = records.iter().filter_map(|record| {
        let paid = Cost::of(&record.body)?;
        match &record.body {
            RecordBody::LlmCall(call) => Some(call.cost),
            RecordBody::LlmFailed(_) => Some(Some(paid.amount)),
            _ => None,
        }
    });
    costs.try_fold(MicroUsd::default(), |sum, cost| {
        Some(MicroUsd(sum.0.saturating_add(cost?.0)))
    })
}

/// Returns how reliable the [cost](cost) of a run is.
pub(crate) fn cost_label(records: &[Arc<Record>]) -> CountLabel {
    let costs = records.iter().filter_map(|record| Cost::of(&record.body));
    costs.map(|cost| cost.label).max().unwrap_or_default()
}

/// Returns the text for the user at the end of a run with these records.
pub(crate) fn reply(outcome: &RunOutcome, records: &[Arc<Record>]) -> String {
    with_notice(&outcome.content, notice(outcome, records).as_deref())
}

/// Adds what the user is told beside what the model said.
fn with_notice(content: &str, notice: Option<&str>) -> String {
    match notice {
        Some(notice) if content.is_empty() => notice.to_owned(),
        Some(notice) => format!("{content}\n\n{notice}"),
        None => content.to_owned(),
    }
}

/// Returns what the user is told beside what the model said, at the end of a run with these records.
fn notice(outcome: &RunOutcome, records: &[Arc<Record>]) -> Option<String> {
    Some(match &outcome.finish_reason {
        FinishReason::Failed(why) => apology::for_failure(outcome, records)
            .unwrap_or_else(|| format!("This could not be finished: {why}")),
        FinishReason::ContentFilter if outcome.content.is_empty() => {
            "The provider withheld the answer; rephrase the request.".to_owned()
        }
        FinishReason::Length if outcome.content.is_empty() => {
            "The model reached its limit before it gave an answer; ask for less at a time."
                .to_owned()
        }
        FinishReason::Interrupted(why) => format!("The run was interrupted: {why}"),
        FinishReason::InvalidAnswer(why) => {
            // The reason as the model was told it includes instructions for the model, which do not concern the user.
            let why = match answer::of_run(Some(outcome), records) {
                (_, Some(fault @ (AnswerFault::NotJson(_) | AnswerFault::NotSchema(_)))) => {
                    fault.to_string()
                }
                _ => why.clone(),
            };
            format!("This is not the requested answer: {why}")
        }
        FinishReason::ClientTools => {
            let mut questions = asked_beside(records);
            questions.retain(|question| !outcome.content.contains(question));
            if questions.is_empty() {
                return None;
            }
            questions.join("\n\n")
        }
        FinishReason::ToolError => apology::for_tool(records),
        FinishReason::UnknownTool(name) => {
            format!(
                "The run stopped because the model called a tool that does not exist: {name:?}."
            )
        }
        FinishReason::Cancelled => apology::for_cancelling(records),
        FinishReason::Deadline if apology::was_never_answered(records) => {
            apology::for_silence(records)
        }
        reason if reason.ends_at_a_limit() && apology::ended_in_cut_calls(records) => {
            apology::CUT_CALLS.to_owned()
        }
        _ => return None,
    })
}

/// Returns the questions that the agent asked the user in addition to the calls that end its run, in the order in which
/// they were asked.
#[must_use]
pub fn asked_beside(records: &[Arc<Record>]) -> Vec<&str> {
    let latest_first = root_records(records).rev();
    let after_the_reply =
        latest_first.take_while(|record| !matches!(record.body, RecordBody::LlmCall(_)));
    let questions = after_the_reply.filter_map(|record| match &record.body {
        RecordBody::ToolResult(result) => result.question(),
        _ => None,
    });
    let mut questions: Vec<&str> = questions.collect();
    questions.reverse();
    questions
}
