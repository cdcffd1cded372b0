//! What a client receives: the reply as text, and other facts about the run as structured content.

use std::sync::Arc;

use neuraxis_core::{
    FinishReason, Record, Reply, RunStatus, has_answered, last_reply, with_causes,
};
use neuraxis_engine::{OrchestratorResult, RequestError, WaitingApproval};
use rmcp::model::{CallToolResult, ContentBlock, JsonObject};
use serde_json::json;

use crate::offers::object;
use crate::shown::one_line;

/// Describes the structured content of every tool.
pub(crate) fn schema() -> JsonObject {
    let count = json!({"type": "integer", "minimum": 0});
    object(json!({
        "type": "object",
        "properties": {
            "reply": {"type": "string", "description": "The answer, or why there is none."},
            "notice": {"type": "string", "description": "The end of the reply that is not from the model, such as why there is no answer or only a part of one; omitted if there is none."},
            "session_id": {"type": "string", "description": "The value of `session` that continues the conversation."},
            "run_id": {"type": "string", "description": "The run's ID, for looking it up later."},
            "status": {
                "type": "string",
                "description": "The run's status: done, failed, interrupted, or waiting for a user.",
            },
            "finish_reason": {"type": "string", "description": "Why the run ended; omitted while it waits."},
            "turns": {"type": "integer", "minimum": 0, "description": "The number of model calls that may use tools."},
            "usage": {
                "type": "object",
                "description": "Tokens of all model calls.",
                "properties": {
                    "prompt_tokens": count, "completion_tokens": count, "total_tokens": count,
                },
                "required": ["prompt_tokens", "completion_tokens", "total_tokens"],
                "additionalProperties": false,
            },
            "trace_id": {"type": "string", "description": "The trace ID, as 32 hexadecimal digits."},
            "sources": {
                "type": "array",
                "description": "The pages that the answer cites, in the order of their numbers; omitted if there are none.",
                "items": {
                    "type": "object",
                    "properties": {"url": {"type": "string"}, "title": {"type": "string"}},
                    "required": ["url"],
                    "additionalProperties": false,
                },
            },
        },
        "required": ["reply", "session_id", "run_id", "status", "turns", "usage", "trace_id"],
        "additionalProperties": false,
    }))
}

/// Returns whether a run ended with an answer. A run that reached a limit may have none, and a run may have had no
/// model.
fn is_answer(result: &OrchestratorResult, records: &[Arc<Record>]) -> bool {
    let reason = result.finish_reason.as_ref();
    let is_short = reason.is_some_and(FinishReason::ends_at_a_limit) && !has_answered(records);
    let has_reply = result.status == RunStatus::Done && !result.reply.trim().is_empty();
    has_reply && !is_short && !last_reply(records).is_some_and(Reply::is_no_answer)
}

/// Returns the result of a run with these records. Anything other than an answer is an error to the client.
pub(crate) fn of_run(
    result: &OrchestratorResult,
    open: &[WaitingApproval],
    records: &[Arc<Record>],
) -> CallToolResult {
    let is_answer = is_answer(result, records);
    let text = match result.status {
        RunStatus::Waiting => waiting(result, open),
        RunStatus::Done if result.reply.trim().is_empty() => {
            "The model ended without an answer.".to_owned()
        }
        _ => result.reply.clone(),
    };
    let usage = &result.usage.total;
    let mut structured = json!({
        "reply": text,
        "session_id": result.session_id,
        "run_id": result.run_id.to_string(),
        "status": result.status,
        "turns": result.turns,
        "usage": {
            "prompt_tokens": usage.prompt.tokens,
            "completion_tokens": usage.completion.tokens,
            "total_tokens": usage.total.tokens,
        },
        "trace_id": result.trace_id,
    });
    if let Some(members) = structured.as_object_mut() {
        let reason = result.finish_reason.as_ref().map(FinishReason::to_string);
        members.extend(reason.map(|reason| ("finish_reason".to_owned(), reason.into())));
        let notice = result.notice.as_ref();
        members.extend(notice.map(|notice| ("notice".to_owned(), notice.as_str().into())));
        if !result.sources.is_empty() {
            members.insert("sources".to_owned(), json!(result.sources));
        }
    }
    let content = vec![ContentBlock::text(text)];
    let mut answer = match is_answer {
        true => CallToolResult::success(content),
        false => CallToolResult::error(content),
    };
    answer.structured_content = Some(structured);
    answer
}

/// Describes what a run waits for that the user at the client cannot be asked about.
fn waiting(result: &OrchestratorResult, open: &[WaitingApproval]) -> String {
    let calls: Vec<String> = open
        .iter()
        .map(|waiting| {
            let question = waiting.question();
            format!("{} (question {question})", one_line(&waiting.request.name))
        })
        .collect();
    match calls.is_empty() {
        true => {
            "The run waits for someone who cannot be reached here. It continues once it has what it waits for."
                .to_owned()
        }
        false => {
            let calls = calls.join(", ");
            let run = result.run_id;
            format!(
                "The run waits for approval of {calls}, and then continues. This client is not asked: run `neuraxis \
                 approvals show {run}` with this server's configuration to see what would run, or open the page of \
                 neuraxis-server."
            )
        }
    }
}

/// Reports that a call failed before its run began, or independently of it.
pub(crate) fn failed(text: impl Into<String>) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(text.into())])
}

/// Describes why a request was refused.
pub(crate) fn refusal(error: &RequestError) -> String {
    let text = with_causes(error);
    match error {
        RequestError::Busy { run, .. } => format!(
            "{text}: wait until it has ended, or omit `session` to start another; with this server's configuration, \
             `neuraxis approvals show {run}` shows whether it waits for approval, and for what, and `neuraxis runs \
             resume {run}` resumes it if its process died (with `--cancel`, it cancels it)"
        ),
        _ => text,
    }
}
