//! What a run waits for, with everything that is needed to answer it.

use std::sync::Arc;

use neuraxis_core::jiff::Timestamp;
use neuraxis_core::{
    AgentId, EffectId, JsonText, Pending, PendingKind, Record, RecordBody, RunId, ToolCallId,
};
use serde::Serialize;

/// A call that a run waits for: for a user's decision, or for its result from the client whose tool it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct PendingCall {
    /// The effect to answer.
    pub effect_id: EffectId,
    /// The call it is about.
    pub tool_call_id: ToolCallId,
    /// The kind of answer that is awaited.
    pub kind: PendingKind,
    /// When the run stops waiting for it; `None` if it waits indefinitely.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// The calling agent, at any depth.
    pub agent: AgentId,
    /// The tool. Empty, like the arguments, if the log of the run no longer holds them.
    pub name: Arc<str>,
    /// Exactly what would run, or what the client must run: JSON as text, byte for byte.
    pub arguments: JsonText,
    /// Why the user must decide, as readable text; `None` if a client must run the tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The name of the question, which a decision must include; `None` if a client must run the tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub question: Option<String>,
}

/// Returns what a run waits for, with each call's details from its records.
pub(super) fn named(pending: &[Pending], records: &[Arc<Record>], run: RunId) -> Vec<PendingCall> {
    let calls = pending.iter();
    calls.map(|pending| one(pending, records, run)).collect()
}

fn one(pending: &Pending, records: &[Arc<Record>], run: RunId) -> PendingCall {
    let mut call = PendingCall {
        effect_id: pending.effect_id,
        tool_call_id: pending.tool_call_id.clone(),
        kind: pending.kind,
        expires_at: pending.expires_at,
        agent: AgentId::ROOT,
        name: Arc::default(),
        arguments: JsonText::from_text(""),
        reason: None,
        question: None,
    };
    // The most recent question applies.
    for record in records.iter().rev() {
        match &record.body {
            RecordBody::ApprovalRequested(asked) if asked.effect_id == pending.effect_id => {
                call.name = Arc::clone(&asked.name);
                call.arguments = asked.arguments.clone();
                call.reason = Some(asked.reason.clone());
                call.question = Some(asked.question(run));
            }
            RecordBody::ToolCall(begun) if begun.effect_id == pending.effect_id => {
                call.name = Arc::clone(&begun.name);
                call.arguments = begun.arguments.clone();
            }
            _ => continue,
        }
        call.agent = record.agent;
        break;
    }
    call
}
