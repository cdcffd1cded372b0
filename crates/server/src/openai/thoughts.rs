//! What the agent that answers thought, among the events of a run.
//!
//! Thoughts of sub-agents are not told, and neither are those of calls whose text nobody is to read, such as the choice of a role
//! and a draft that is still to be checked.

use std::sync::Arc;

use neuraxis::Event;
use neuraxis::core::{AgentId, EffectId, LiveBody, Record};

use super::retold;

/// What stands between what two model calls thought or said where that is one text.
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
    for event in retold::events(records) {
        if let Some(thought) = thoughts.hear(&event) {
            if thought.follows_another {
                text.push_str(BREAK);
            }
            text.push_str(thought.text);
        }
    }
    Some(text).filter(|text| !text.is_empty())
}
