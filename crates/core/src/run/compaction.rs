//! Has a model summarize messages that no longer fit (loop rule 13). A compaction counts only if it measurably shrinks
//! the conversation.

use std::fmt::Write;
use std::sync::Arc;

use super::Next;
use super::agent::{Agent, ModelCall};
use super::agent_step::AgentStep;
use super::context::TrimPlan;
use super::last_answer::Limit;
use crate::effect::{ModelRequest, Purpose, ReplyFormat, ToolChoice};
use crate::error::InputError;
use crate::message::Message;
use crate::record::{RecordBody, Summarized};
use crate::reply::Reply;
use crate::spec::AgentSpec;
use crate::texts::{SUMMARY_HEADING, SummaryTexts};

/// Maximum number of characters of one message to summarize, and of all messages together: the middle is cut out.
const MAX_MESSAGE_CHARS: usize = 4_000;
const MAX_CHARS: usize = 120_000;

/// Maximum number of tokens in a summary.
const MAX_SUMMARY_TOKENS: u32 = 1_024;

/// Assumed bytes per token of the text that a small model summarizes. Lower than elsewhere: an overrun loses the whole
/// summary, while a cut only loses the middle of the text.
const BYTES_PER_TOKEN: u64 = 3;

impl AgentStep<'_> {
    /// Handles the summary, or its failure: makes room with or without it, and makes the planned call if there is still
    /// time.
    pub(super) fn summary_replied(
        &mut self,
        call: ModelCall,
        reply: Option<&Reply>,
    ) -> Result<Next, InputError> {
        let missing = InputError::Inconsistent("nothing was to be summed up");
        let (plan, planned) = *call.making_room.ok_or(missing)?;
        let text = reply.map(Reply::text).unwrap_or_default();
        let text = text.trim();
        let summary = format!("{SUMMARY_HEADING}{text}");
        if text.is_empty() || self.agent.gauge.tokens_of_user(&summary) >= plan.tokens_removed() {
            self.agent.futile_compactions = self.agent.futile_compactions.saturating_add(1);
            if !plan.only_summed_up {
                self.trim(plan, None);
            }
        } else {
            let text = text.to_owned();
            let summed = RecordBody::Summary(Box::new(Summarized { text }));
            self.record_at(call.content_index, summed);
            self.trim(plan, Some(summary));
        }
        let may_continue = self.agent.closing.is_none();
        Ok(match self.budgets().exceeded_by(1) {
            // The summary used more than was left for it.
            Some(kind) if may_continue && planned.purpose == Purpose::Turn => {
                Next::AskLastAnswer(Limit::Budget(kind))
            }
            _ => self.call_planned(planned),
        })
    }
}

impl Agent {
    /// Builds the request for a summary; after a crash it is rebuilt from the same conversation.
    pub(super) fn summary_request(
        &self,
        spec: &AgentSpec,
        plan: &TrimPlan,
        texts: &SummaryTexts,
    ) -> ModelRequest {
        let context = spec.summary_context_tokens;
        let most_tokens = context.map_or(MAX_SUMMARY_TOKENS, summary_tokens);
        let text = excerpt(self, plan, texts);
        let text = match context {
            Some(context) => cut_to_bytes(&text, bytes_within(context, texts), texts),
            None => text,
        };
        let messages = [Message::system(texts.instructions), Message::user(text)];
        ModelRequest {
            messages: messages.into_iter().collect(),
            tools: Arc::default(),
            tool_choice: ToolChoice::None,
            max_output_tokens: Some(most_tokens),
            temperature: None,
            reply_format: ReplyFormat::Text,
        }
    }
}

/// Returns the maximum length of a summary by a model with this context size.
fn summary_tokens(context: u64) -> u32 {
    let quarter = u32::try_from(context / 4).unwrap_or(u32::MAX);
    quarter.clamp(1, MAX_SUMMARY_TOKENS)
}

/// Returns how many bytes of text a model with this context size may be given, beside its instructions and the summary.
fn bytes_within(context: u64, texts: &SummaryTexts) -> usize {
    let left = context.saturating_sub(summary_tokens(context).into());
    let bytes = left.saturating_mul(BYTES_PER_TOKEN);
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    bytes.saturating_sub(texts.instructions.len())
}

/// Cuts the middle out of a text until it has about `most` bytes.
fn cut_to_bytes(text: &str, most: usize, texts: &SummaryTexts) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let chars = text.chars().count();
    // Two halves with the same number of characters may differ in bytes, so the rest is cut again.
    let fewer = chars.saturating_mul(most) / text.len();
    let shorter = cut(text, fewer, texts);
    match shorter.len() <= most || fewer == 0 {
        true => shorter,
        false => cut(text, fewer.saturating_mul(most) / shorter.len(), texts),
    }
}

/// Writes out the messages to remove, one by one.
fn excerpt(agent: &Agent, plan: &TrimPlan, texts: &SummaryTexts) -> String {
    let mut text = String::new();
    for (place, message) in agent.conversation.without_prompt().iter().enumerate() {
        if !plan.removes(place) {
            continue;
        }
        let who = (texts.speaker)(message);
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "{who}: {}",
            cut(&message.text(), MAX_MESSAGE_CHARS, texts)
        );
        for call in message.tool_calls() {
            let arguments = cut(call.arguments.as_str(), MAX_MESSAGE_CHARS, texts);
            text.push_str(&(texts.call)(&call.name, &arguments));
        }
        text.push_str("\n\n");
    }
    cut(&text, MAX_CHARS, texts)
}

fn cut(text: &str, most: usize, texts: &SummaryTexts) -> String {
    let in_all = text.chars().count();
    if in_all <= most {
        return text.to_owned();
    }
    let half = most / 2;
    let head: String = text.chars().take(half).collect();
    let tail: String = text.chars().skip(in_all - half).collect();
    (texts.gap)(&head, in_all - 2 * half, &tail)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::texts::Texts;

    const TEXTS: &SummaryTexts = &Texts::of(4).summaries;

    #[test]
    fn input_for_a_summary_is_cut_to_the_context_of_the_model() {
        assert_eq!(
            (summary_tokens(1_000), summary_tokens(100_000)),
            (250, 1_024)
        );
        let most = bytes_within(1_000, TEXTS);
        assert!(most < 750 * 3, "{most}");
        let uneven = format!("{}{}", "a".repeat(4_000), "語".repeat(4_000));
        for text in ["a".repeat(8_000), "語".repeat(8_000), uneven] {
            let cut = cut_to_bytes(&text, most, TEXTS);
            // The note about the cut is added on top.
            assert!(cut.len() < most + 60, "{}", cut.len());
            assert!(cut.contains("characters left out"));
        }
        assert_eq!(cut_to_bytes("short", most, TEXTS), "short");
    }

    #[test]
    fn long_texts_are_cut_in_the_middle() {
        assert_eq!(cut("äöü", 3, TEXTS), "äöü");
        assert_eq!(cut("äöüß€", 4, TEXTS), "äö […1 characters left out…] ß€");
    }
}
