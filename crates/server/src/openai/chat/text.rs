//! The text of an answer of Chat Completions in one piece: what a stream of it tells, but for what cannot be taken back there, such
//! as the text of a model call that broke off.

use std::sync::Arc;

use neuraxis::OrchestratorResult;
use neuraxis::core::{AgentId, Purpose, Record, RecordBody};

use crate::openai::thoughts::BREAK;

/// Returns the answer behind what the model said before it called the server's tools, as a stream of it tells it.
pub(super) fn whole(records: &[Arc<Record>], result: &OrchestratorResult) -> String {
    let reply = result.reply.as_str();
    if result.answer.is_some() {
        return reply.to_owned();
    }
    let said = records.iter().filter_map(|record| said_with_calls(record));
    // What a limit leaves, and what the model says beside calls of the client, is all that was said.
    let before = said.filter(|text| !reply.contains(text.as_str()));
    let answer = Some(reply.to_owned()).filter(|reply| !reply.is_empty());
    let texts: Vec<String> = before.chain(answer).collect();
    texts.join(BREAK)
}

/// Returns what the agent that answers said in a reply with calls.
fn said_with_calls(record: &Record) -> Option<String> {
    let RecordBody::LlmCall(call) = &record.body else {
        return None;
    };
    let (purpose, reply) = (call.purpose, &call.reply);
    let is_of_answer = record.agent == AgentId::ROOT && matches!(purpose, Purpose::Turn);
    let stands = reply.turned_down().is_none() && reply.calls().next().is_some();
    let text = Some(reply.text()).filter(|_| is_of_answer && stands)?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}
