//! The reasoning of earlier turns, which gives way before messages do.
//!
//! Providers want the reasoning about the user's current question back: Anthropic and DeepSeek refuse results of calls
//! whose thinking is missing. What a model thought about earlier questions may be left out; DeepSeek then wants an empty
//! text in its place, which its adapter sends. What a provider stored with a text or a call, such as Gemini's signatures,
//! is no reasoning and stays.

use std::sync::Arc;

use super::TrimPlan;
use super::gauge::Gauge;
use super::units::{add_to, question_of};
use crate::message::{Message, Part};

/// The messages that would lose their reasoning, oldest first: their positions, and the estimated tokens of each.
#[derive(Debug, Default)]
pub(super) struct Thoughts(Vec<(usize, u64)>);

impl Thoughts {
    /// Finds the reasoning before the question of the run, which the first `earlier` messages precede.
    pub(super) fn of(
        messages: &[Arc<Message>],
        earlier: usize,
        gauge: &Gauge,
        version: u32,
    ) -> Self {
        if version < 4 {
            return Self::default();
        }
        let end = question_of(messages, earlier).unwrap_or(0);
        let places = messages.iter().enumerate().take(end);
        let places = places.filter(|(_, message)| may_lose_reasoning(message));
        let places = places.map(|(place, _)| (place, gauge.tokens_of_reasoning(messages, place)));
        Self(places.filter(|(_, tokens)| *tokens > 0).collect())
    }

    /// Returns the estimated tokens of the reasoning in these messages.
    pub(super) fn tokens_in(&self, places: std::ops::Range<usize>) -> u64 {
        let inside = self.0.iter().filter(|(place, _)| places.contains(place));
        inside
            .map(|(_, tokens)| *tokens)
            .fold(0, u64::saturating_add)
    }

    /// Returns the estimated tokens of all of it.
    pub(super) fn tokens(&self) -> u64 {
        self.tokens_in(0..usize::MAX)
    }

    /// Plans to remove the oldest of it, as far as that is necessary.
    pub(super) fn remove_oldest(&self, plan: &mut TrimPlan) {
        for (place, tokens) in &self.0 {
            if plan.falls_short() {
                plan.tokens = plan.tokens.saturating_add(*tokens);
                add_to(&mut plan.without_reasoning, *place..place + 1);
            }
        }
    }

    /// Plans to remove all of it from the messages that stay.
    pub(super) fn remove_rest(&self, plan: &mut TrimPlan) {
        for (place, tokens) in &self.0 {
            if !plan.removes(*place) {
                plan.of_reasoning = plan.of_reasoning.saturating_add(*tokens);
                add_to(&mut plan.without_reasoning, *place..place + 1);
            }
        }
    }
}

/// Returns whether a message has reasoning, and something else: a message of nothing else would be empty without it.
fn may_lose_reasoning(message: &Message) -> bool {
    let Message::Assistant(reply) = message else {
        return false;
    };
    let is_reasoning = |part: &Part| matches!(part, Part::Reasoning(_));
    reply.parts.iter().any(is_reasoning) && !reply.parts.iter().all(is_reasoning)
}
