//! What is taken from a conversation to make it fit.

use std::sync::Arc;

use super::Conversation;
use crate::ids::ToolCallId;
use crate::message::{Message, Part};
use crate::record::{ContextTrimmed, Span};
use crate::transcript::PrefixDigest;

/// What is taken from a conversation to make it fit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cut<'a> {
    /// The messages to remove.
    pub(crate) removed: &'a [Span],
    /// The results to replace with their summaries.
    pub(crate) shortened: &'a [ToolCallId],
    /// The messages that stay, without their reasoning.
    pub(crate) without_reasoning: &'a [Span],
    /// What replaces the first of the removed messages.
    pub(crate) summary: Option<&'a str>,
}

impl ContextTrimmed {
    /// Returns what was taken.
    pub(crate) fn cut(&self) -> Cut<'_> {
        Cut {
            removed: &self.removed,
            shortened: &self.shortened,
            without_reasoning: &self.without_reasoning,
            summary: self.summary.as_deref(),
        }
    }
}

impl Conversation {
    /// Shortens some results to their summaries, removes the reasoning of some messages and other messages entirely; a
    /// summary of these, if there is one, replaces the first. Positions are counted without the system prompt.
    pub(crate) fn trim(&mut self, cut: Cut<'_>) {
        let Cut {
            removed,
            shortened,
            without_reasoning,
            summary,
        } = cut;
        let prompt = usize::from(self.has_prompt);
        let mut summary = summary.map(Message::user).map(Arc::new);
        let mut kept = Vec::with_capacity(self.transcript.len());
        let (mut recorded, mut earlier) = (0, 0);
        for (place, message) in self.transcript.messages().iter().enumerate() {
            let was_recorded = place < self.recorded;
            let before = kept.len();
            let is_in = |span: &Span| place >= prompt && span.contains(place - prompt);
            if removed.iter().any(is_in) {
                // The record of the trimming contains what replaces the messages, wherever they were.
                kept.extend(summary.take());
                recorded += kept.len() - before;
            } else {
                kept.push(match without_reasoning.iter().any(is_in) {
                    true => Arc::new(unreasoned(message)),
                    false => self.shortened(message, |id| shortened.contains(id)),
                });
                recorded += usize::from(was_recorded);
            }
            if place < self.earlier {
                earlier = kept.len();
            }
        }
        self.transcript = kept.into_iter().collect();
        (self.recorded, self.earlier) = (recorded, earlier);
        self.hashed = PrefixDigest::default();
    }
}

/// Returns a model's message without its reasoning. What a provider stored with its text and calls stays.
fn unreasoned(message: &Message) -> Message {
    let mut message = message.clone();
    if let Message::Assistant(reply) = &mut message {
        let is_kept = |part: &Part| !matches!(part, Part::Reasoning(_));
        reply.parts.retain(is_kept);
    }
    message
}
