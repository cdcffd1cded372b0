//! The thoughts of the answering agent, extracted from the events of a run.
//!
//! Thoughts of sub-agents are not sent. Neither are those of calls whose text is not shown, such as the choice of a
//! role or a draft that has not been checked yet.

use std::sync::Arc;

use neuraxis::Event;
use neuraxis::core::{AgentId, EffectId, LiveBody, Record};

use super::events_from_records;

/// The separator between what two model calls thought or said, if it is joined to one text.
pub(super) const BREAK: &str = "\n\n";

/// Extracts thoughts from the events of one run.
#[derive(Debug, Default)]
pub(super) struct Thoughts {
    /// The last model call that produced thoughts.
    call: Option<EffectId>,
}

/// A piece of a model's thoughts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Thought<'a> {
    pub(super) text: &'a str,
    /// Whether another model call produced thoughts before.
    pub(super) follows_another: bool,
}

impl Thoughts {
    /// Returns the thoughts in the run's next event, if there are any.
    pub(super) fn extract<'a>(&mut self, event: &'a Event) -> Option<Thought<'a>> {
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

/// Returns all thoughts of a run as one text, or `None` if there are none.
pub(super) fn all(records: &[Arc<Record>]) -> Option<String> {
    let mut thoughts = Thoughts::default();
    let mut text = String::new();
    for event in events_from_records::events(records) {
        if let Some(thought) = thoughts.extract(&event) {
            if thought.follows_another {
                text.push_str(BREAK);
            }
            text.push_str(thought.text);
        }
    }
    Some(text).filter(|text| !text.is_empty())
}
