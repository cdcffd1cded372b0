//! Reconstructs the events of a run from its records, as a live listener would have received them.

use std::sync::Arc;

use neuraxis::Event;
use neuraxis::core::{
    AgentId, AgentSpec, BlockIndex, ContentIndex, LiveBody, LiveEvent, LlmCall, Purpose, Record,
    RecordBody, ReplyPart, SelfCheck, is_last_answer,
};
use neuraxis::engine::TextExtractor;

use super::run::ClientOutcome;
use super::thoughts::BREAK;

/// Returns the events of a run, with each reply as if it had arrived in one piece.
pub(super) fn events(records: &[Arc<Record>]) -> impl Iterator<Item = Event> + '_ {
    let started = records.first().and_then(|first| first.run_started());
    let agent = started.map(|started| &started.spec.root);
    let self_check = records.iter().find_map(|record| match &record.body {
        RecordBody::Decision(decision) => decision.self_check.as_ref(),
        _ => None,
    });
    records.iter().flat_map(move |record| {
        let replied = match &record.body {
            RecordBody::LlmCall(call)
                if record.agent == AgentId::ROOT
                    && agent.is_some_and(|agent| is_shown_live(call, agent, self_check)) =>
            {
                pieces(record, call)
            }
            _ => Vec::new(),
        };
        replied
            .into_iter()
            .chain([Event::Record(Arc::clone(record))])
    })
}

/// Returns whether a reply is shown as it arrives and not retracted later.
fn is_shown_live(call: &LlmCall, agent: &AgentSpec, self_check: Option<&SelfCheck>) -> bool {
    let is_kept = match call.purpose {
        Purpose::LastAnswer => is_last_answer(&call.reply),
        _ => call.reply.turned_down().is_none(),
    };
    is_kept && agent.is_read_along(call.purpose, self_check)
}

fn pieces(record: &Record, call: &LlmCall) -> Vec<Event> {
    let bodies = call.reply.parts.iter().filter_map(|part| match part {
        ReplyPart::Text(part) => Some(LiveBody::TextDelta {
            text: part.text.clone(),
        }),
        ReplyPart::Reasoning(part) => Some(LiveBody::ReasoningDelta {
            text: part.text.clone(),
        }),
        ReplyPart::ToolCall(_) => None,
    });
    let events = bodies.map(|body| {
        Event::Live(LiveEvent {
            after: record.seq,
            content_index: ContentIndex(0),
            run_id: call.effect_id.run,
            agent: record.agent,
            call: call.effect_id,
            attempt: call.attempt,
            block: BlockIndex(0),
            offset: 0,
            body,
        })
    });
    events.collect()
}

/// Returns the whole text for the user, the answer last. This equals the streamed text, except for text that a stream
/// could not retract, such as that of a model call that broke off.
pub(super) fn full_text(records: &[Arc<Record>], outcome: &ClientOutcome) -> String {
    let reply = outcome.result.reply.as_str();
    let mut words = TextExtractor::default();
    let sent: String = events(records)
        .filter_map(|event| words.extract(&event))
        .collect();
    // Some models write line breaks before they call a tool.
    let sent = sent.trim_start_matches('\n');
    match (&outcome.result.finish_reason, &outcome.notice) {
        _ if sent.is_empty() => reply.to_owned(),
        (Some(_), Some(notice)) => format!("{sent}{BREAK}{notice}"),
        (Some(_), None) => sent.to_owned(),
        // What a run waits for is not in any event.
        (None, _) => format!("{sent}{BREAK}{reply}"),
    }
}
