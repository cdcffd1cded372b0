//! The text of an answer of Chat Completions in one piece: what a stream of it tells, but for what cannot be taken back there, such
//! as the text of a model call that broke off.

use std::sync::Arc;

use neuraxis::OrchestratorResult;
use neuraxis::core::Record;
use neuraxis::engine::Words;

use crate::openai::thoughts::{BREAK, retold};

/// Returns all that the user is told, the answer last, as a stream of it tells it.
pub(super) fn whole(records: &[Arc<Record>], result: &OrchestratorResult) -> String {
    let reply = result.reply.as_str();
    if result.answer.is_some() {
        return reply.to_owned();
    }
    let mut words = Words::default();
    let said: String = retold(records)
        .filter_map(|event| words.hear(&event))
        .collect();
    // Some models begin with line breaks before they call a tool.
    let said = said.trim_start_matches('\n');
    match &result.finish_reason {
        _ if said.is_empty() => reply.to_owned(),
        Some(_) => said.to_owned(),
        // What a run waits for is in no event.
        None => format!("{said}{BREAK}{reply}"),
    }
}
