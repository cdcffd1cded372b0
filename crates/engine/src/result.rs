//! What a caller gets back: always something, however the run went.

mod apology;
mod no_answer;
mod pending_call;

use std::sync::Arc;

use neuraxis_core::{
    AgentId, Cost, CountLabel, FinishReason, JsonText, MicroUsd, Record, RecordBody, RunId,
    RunOutcome, RunStatus, RunUsage, SessionId, Source, Transcript,
};
use serde::Serialize;

use crate::answer::{self, AnswerFault};
use crate::run_end::RunEnd;
use crate::run_handle::RunHandle;
use crate::steps::{StepMetadata, Steps};

pub use no_answer::NoAnswer;
pub use pending_call::PendingCall;

/// What a run came to.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct OrchestratorResult {
    /// What to tell the user: the answer, or a friendly sentence saying why there is none.
    pub reply: String,
    /// The answer as JSON that fits the schema, where [`UserRequest::answer`](crate::UserRequest::answer) asked for one and
    /// there is such an answer; the reply is the same then.
    #[serde(
        serialize_with = "answer::embedded",
        skip_serializing_if = "Option::is_none"
    )]
    #[cfg_attr(feature = "schema", schemars(with = "Option<serde_json::Value>"))]
    pub answer: Option<JsonText>,
    /// Why there is no such answer, where one was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer_fault: Option<AnswerFault>,
    /// What was done on the way.
    pub steps: Steps,
    /// The trace, as 32 hexadecimal digits.
    pub trace_id: String,
    /// The session.
    pub session_id: SessionId,
    /// The run.
    pub run_id: RunId,
    /// Where the run stands.
    pub status: RunStatus,
    /// Why it ended; `None` while it waits.
    pub finish_reason: Option<FinishReason>,
    /// Turns that counted.
    pub turns: u32,
    /// Tokens, in all and by the role that served.
    pub usage: RunUsage,
    /// The pages that the answer cites, in the order of its numbers, where its agent's
    /// [citations](neuraxis_core::Citations) are checked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<Source>,
    /// What its model calls cost, those of its sub-agents included, by the policy's prices. `None` if any of its replies came
    /// from a model without a price: what the others cost stands in the records.
    #[serde(rename = "cost_micro_usd", skip_serializing_if = "Option::is_none")]
    pub cost: Option<MicroUsd>,
    /// How sure that is: measured by the provider's counts and the deployment's prices; estimated where either comes from
    /// elsewhere, such as a list of public prices; unknown, and the amount at most a lower bound, where a model has no price,
    /// or a call was stopped before anybody said what it used.
    pub cost_label: CountLabel,
    /// What it waits for, if it waits: a person's decisions and the results of a client's tools, each with its call.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pending: Vec<PendingCall>,
}

/// One thing a run did.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct OrchestratorStep {
    /// What kind of thing.
    #[serde(rename = "type")]
    pub kind: StepType,
    /// What, in a few words for people.
    pub description: Arc<str>,
    /// What, for programs: `model_role`, `tool_name`, `span_id`, `error` and others.
    pub metadata: StepMetadata,
}

/// The kinds of steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StepType {
    /// A model was asked and answered.
    LlmCall,
    /// A tool was called, with what came of it.
    ToolCall,
    /// The plan changed.
    Plan,
    /// Work was summed up.
    Summary,
    /// Something went wrong, or a limit was reached.
    Warning,
}

/// Puts the result of a run together from what it left.
pub(crate) fn of_run(run: &RunHandle, end: &RunEnd) -> OrchestratorResult {
    let outcome = end.outcome.as_ref();
    let feed = &run.link.feed;
    let (answer, answer_fault) = feed.with_records(|records| answer::of_run(outcome, records));
    let reply = match &answer {
        Some(answer) => Some(answer.to_string()),
        None => outcome.map(|outcome| feed.with_records(|records| reply(outcome, records))),
    };
    let (turns, usage) = match outcome {
        Some(outcome) => (outcome.turns, outcome.usage.clone()),
        None => end.so_far.clone().unwrap_or_default(),
    };
    OrchestratorResult {
        reply: reply.unwrap_or_default(),
        answer,
        answer_fault,
        steps: Steps::of(Arc::clone(feed)),
        trace_id: run.trace.trace_id_hex(),
        session_id: run.session_id.clone(),
        run_id: run.link.run_id,
        status: outcome.map_or(RunStatus::Waiting, RunOutcome::status),
        finish_reason: outcome.map(|outcome| outcome.finish_reason.clone()),
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

/// The result of a run whose task crashed, which only a defect in an adapter or in the engine itself can cause.
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
    }
}

/// Adds up what the model calls of a run cost; `None` if any of its replies came from a model without a price: a sum without
/// it would be too low. Attempts that failed, and those that a hook stopped, count as far as their providers said what they
/// used.
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

/// Returns how sure the [cost](cost) of a run is.
pub(crate) fn cost_label(records: &[Arc<Record>]) -> CountLabel {
    let costs = records.iter().filter_map(|record| Cost::of(&record.body));
    costs.map(|cost| cost.label).max().unwrap_or_default()
}

/// Says what to tell the user at the end of a run with these records.
pub(crate) fn reply(outcome: &RunOutcome, records: &[Arc<Record>]) -> String {
    let notice = match &outcome.finish_reason {
        FinishReason::Failed(why) => apology::for_failure(why, records)
            .unwrap_or_else(|| format!("I could not finish this: {why}")),
        FinishReason::ContentFilter if outcome.content.is_empty() => {
            "The provider withheld the answer; put the request in other words.".to_owned()
        }
        FinishReason::Length if outcome.content.is_empty() => {
            "The model reached its limit before it came to an answer; ask for less at once."
                .to_owned()
        }
        FinishReason::Interrupted(why) => format!("I was interrupted: {why}"),
        FinishReason::InvalidAnswer(why) => {
            // Why the model was told has what it is to do about it, which is no matter of the user's.
            let why = match answer::of_run(Some(outcome), records) {
                (_, Some(fault @ (AnswerFault::NotJson(_) | AnswerFault::NotSchema(_)))) => {
                    fault.to_string()
                }
                _ => why.clone(),
            };
            format!("This is not the answer that was asked for: {why}")
        }
        FinishReason::ClientTools => {
            let mut asked = asked_beside(records);
            asked.retain(|question| !outcome.content.contains(question));
            if asked.is_empty() {
                return outcome.content.clone();
            }
            asked.join("\n\n")
        }
        FinishReason::ToolError => apology::for_tool(records),
        FinishReason::UnknownTool(name) => {
            format!("I stopped because the model called a tool that does not exist: {name:?}.")
        }
        FinishReason::Cancelled => apology::for_cancelling(records),
        FinishReason::Deadline if apology::was_never_answered(records) => {
            apology::for_silence(records)
        }
        reason if reason.ends_at_a_limit() && apology::ended_in_cut_calls(records) => {
            apology::CUT_CALLS.to_owned()
        }
        _ => return outcome.content.clone(),
    };
    if outcome.content.is_empty() {
        notice
    } else {
        format!("{}\n\n{notice}", outcome.content)
    }
}

/// Returns what the agent asked the user beside the calls with which its run ends, in the order in which it was asked.
#[must_use]
pub fn asked_beside(records: &[Arc<Record>]) -> Vec<&str> {
    let latest_first = records.iter().rev();
    let of_root = latest_first.filter(|record| record.agent == AgentId::ROOT);
    let after_the_reply =
        of_root.take_while(|record| !matches!(record.body, RecordBody::LlmCall(_)));
    let questions = after_the_reply.filter_map(|record| match &record.body {
        RecordBody::ToolResult(result) => result.question(),
        _ => None,
    });
    let mut asked: Vec<&str> = questions.collect();
    asked.reverse();
    asked
}
