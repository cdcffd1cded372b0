//! What the agent that answers thought, among the events of a run; and those events once more, of a run that nobody listened to.
//!
//! Thoughts of sub-agents are not told, and neither are those of calls whose text nobody is to read, such as the choice of a role
//! and a draft that is still to be checked.

use std::sync::Arc;

use neuraxis::Event;
use neuraxis::core::{
    AgentId, AgentSpec, BlockIndex, ContentIndex, EffectId, LiveBody, LiveEvent, LlmCall, Purpose,
    Record, RecordBody, ReplyPart, SelfCheck, is_last_answer,
};

/// What stands between the thoughts of two model calls where they are one text.
pub(super) const BREAK: &str = "\n\n";

/// Finds thoughts among the events of one run.
#[derive(Debug, Default)]
pub(super) struct Thoughts {
    /// The model call that thought last.
    call: Option<EffectId>,
}

/// A piece of what a model thought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Thought<'a> {
    pub(super) text: &'a str,
    /// Whether another model call thought before.
    pub(super) follows_another: bool,
}

impl Thoughts {
    /// Returns what the run's next event holds of thoughts, if anything.
    pub(super) fn hear<'a>(&mut self, event: &'a Event) -> Option<Thought<'a>> {
        let Event::Live(live) = event else {
            return None;
        };
        let LiveBody::ReasoningDelta { text } = &live.body else {
            return None;
        };
        if live.agent != AgentId::ROOT || text.is_empty() {
            return None;
        }
        let before = self.call.replace(live.call);
        Some(Thought {
            text,
            follows_another: before.is_some_and(|before| before != live.call),
        })
    }
}

/// Returns all thoughts of a run as one text; `None` if there are none.
pub(super) fn all(records: &[Arc<Record>]) -> Option<String> {
    let mut thoughts = Thoughts::default();
    let mut text = String::new();
    for event in retold(records) {
        if let Some(thought) = thoughts.hear(&event) {
            if thought.follows_another {
                text.push_str(BREAK);
            }
            text.push_str(thought.text);
        }
    }
    Some(text).filter(|text| !text.is_empty())
}

/// Returns the events of a run as whoever had listened would have heard them: each reply as if it had come in one piece.
pub(super) fn retold(records: &[Arc<Record>]) -> impl Iterator<Item = Event> + '_ {
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
                    && agent.is_some_and(|agent| is_heard(call, agent, self_check)) =>
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

/// Tells whether a person reads a reply as it comes, and it is not taken back.
fn is_heard(call: &LlmCall, agent: &AgentSpec, self_check: Option<&SelfCheck>) -> bool {
    let stands = match call.purpose {
        Purpose::LastAnswer => is_last_answer(&call.reply),
        _ => call.reply.turned_down().is_none(),
    };
    stands && agent.is_read_along(call.purpose, self_check)
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
