//! The received JSON: the events of a stream, and a whole message.
//!
//! It is decoded without building a tree: texts without escapes are borrowed from the received bytes. Unknown content
//! is skipped: the service adds fields, events and kinds of blocks within a version.

use neuraxis_core::{LlmError, LlmErrorKind, ReplyFinish};
use neuraxis_wire::ServerErrors;
use neuraxis_wire::reply::{Text, TokenCounts, clean, known_count, written_count};
use serde::Deserialize;
use serde_json::value::RawValue;

/// An event of a stream, a whole message, or an error instead of either.
#[derive(Debug, Deserialize)]
pub(super) struct Event<'a> {
    #[serde(borrow, default, rename = "type")]
    pub(super) kind: Option<Text<'a>>,
    /// The number of the block that it belongs to.
    #[serde(default)]
    pub(super) index: Option<u64>,
    #[serde(borrow, default)]
    pub(super) message: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) content_block: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) delta: Option<&'a RawValue>,
    #[serde(default)]
    pub(super) usage: Option<UsageField>,
    #[serde(borrow, default)]
    pub(super) error: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) request_id: Option<Text<'a>>,
}

/// A message: whole, or the beginning of one in a stream, without content.
#[derive(Debug, Deserialize)]
pub(super) struct Message<'a> {
    #[serde(borrow, default)]
    pub(super) model: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) content: Option<Vec<&'a RawValue>>,
    #[serde(default)]
    pub(super) usage: Option<UsageField>,
    #[serde(borrow, default)]
    pub(super) stop_reason: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) stop_details: Option<StopDetails<'a>>,
}

/// Why a model stopped; in a stream, this has its own event.
#[derive(Debug, Deserialize)]
pub(super) struct Stop<'a> {
    #[serde(borrow, default)]
    pub(super) stop_reason: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) stop_details: Option<StopDetails<'a>>,
}

/// Details of a refusal.
#[derive(Debug, Deserialize)]
pub(super) struct StopDetails<'a> {
    #[serde(borrow, default)]
    pub(super) category: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) explanation: Option<Text<'a>>,
}

/// The kind of a block or of a piece of one.
#[derive(Debug, Deserialize)]
pub(super) struct Kind<'a> {
    #[serde(borrow, default, rename = "type")]
    pub(super) kind: Option<Text<'a>>,
}

/// A block at its beginning, or a whole one.
#[derive(Debug, Deserialize)]
pub(super) struct StartedBlock<'a> {
    #[serde(borrow, default)]
    pub(super) text: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) thinking: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) signature: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) id: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) name: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) input: Option<&'a RawValue>,
}

/// A piece of a block.
#[derive(Debug, Deserialize)]
pub(super) struct Delta<'a> {
    #[serde(borrow, default, rename = "type")]
    pub(super) kind: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) text: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) thinking: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) signature: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) partial_json: Option<Text<'a>>,
}

/// Token counts. Signed, since some gateways write -1 for unknown counts.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
pub(super) struct UsageField {
    /// Prompt tokens neither read from the cache nor written to it.
    #[serde(default, deserialize_with = "written_count")]
    input_tokens: Option<i64>,
    #[serde(default, deserialize_with = "written_count")]
    cache_creation_input_tokens: Option<i64>,
    #[serde(default, deserialize_with = "written_count")]
    cache_read_input_tokens: Option<i64>,
    #[serde(default, deserialize_with = "written_count")]
    output_tokens: Option<i64>,
    #[serde(default)]
    output_tokens_details: Option<OutputDetails>,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
struct OutputDetails {
    #[serde(default, deserialize_with = "written_count")]
    thinking_tokens: Option<i64>,
}

impl Stop<'_> {
    /// Returns why the model stopped, if that is reported. A refusal is an error: the content before it must not be
    /// used.
    pub(super) fn finish(&self, errors: &ServerErrors) -> Result<Option<ReplyFinish>, LlmError> {
        Ok(match text_or_empty(self.stop_reason.as_ref()) {
            "" => None,
            "end_turn" | "stop_sequence" => Some(ReplyFinish::Stop),
            "tool_use" => Some(ReplyFinish::ToolCalls),
            "refusal" => return Err(self.refusal(errors)),
            // All other reasons so far mean an early stop, after which calls may be incomplete.
            other => {
                if let Some(reason) = early_end(other) {
                    tracing::warn!("the reply may be incomplete: {reason}");
                }
                Some(ReplyFinish::Length)
            }
        })
    }

    fn refusal(&self, errors: &ServerErrors) -> LlmError {
        let details = self.stop_details.as_ref();
        let category = text_or_empty(details.and_then(|details| details.category.as_ref()));
        let explanation = text_or_empty(details.and_then(|details| details.explanation.as_ref()));
        let mut message = "the model refused to answer".to_owned();
        if !category.is_empty() {
            message = format!("{message} (category {})", clean(category, 60));
        }
        if !explanation.is_empty() {
            message = format!("{message}: {}", errors.tidy(explanation));
        }
        LlmError::new(LlmErrorKind::ContentFiltered, message)
    }
}

/// Returns why a reply ended early, except at the request's own token limit.
fn early_end(reason: &str) -> Option<String> {
    Some(match reason {
        "max_tokens" => return None,
        "model_context_window_exceeded" => {
            "the conversation fills the model's context (model_context_window_exceeded)"
                .to_owned()
        }
        "pause_turn" => {
            "the service paused a turn of its own tools (pause_turn), although none are offered here; the turn is not \
             resumed"
                .to_owned()
        }
        newer => format!(
            "the model stopped for an unknown reason: {}",
            clean(newer, 60)
        ),
    })
}

/// Returns a string that may be missing, null or empty.
fn text_or_empty<'a>(field: Option<&'a Text<'_>>) -> &'a str {
    field.map_or("", |text| &text.0)
}

impl UsageField {
    /// Merges a later event's counts. Counts grow over a stream and each event has the total; some gateways report a
    /// count once and 0 at other times.
    pub(super) fn update(&mut self, later: Self) {
        self.input_tokens = self.input_tokens.max(later.input_tokens);
        self.cache_creation_input_tokens = self
            .cache_creation_input_tokens
            .max(later.cache_creation_input_tokens);
        self.cache_read_input_tokens = self
            .cache_read_input_tokens
            .max(later.cache_read_input_tokens);
        self.output_tokens = self.output_tokens.max(later.output_tokens);
        self.output_tokens_details = later.output_tokens_details.or(self.output_tokens_details);
    }

    /// Returns whether it has the reply's count.
    pub(super) fn has_completion(&self) -> bool {
        known_count(self.output_tokens).is_some()
    }

    /// Returns the counts. The parts of the prompt are counted separately.
    pub(super) fn counts(&self) -> TokenCounts {
        let read = known_count(self.cache_read_input_tokens).unwrap_or(0);
        let fresh = known_count(self.input_tokens);
        let written = self.written().unwrap_or(0);
        let details = self.output_tokens_details;
        TokenCounts {
            prompt: fresh.map(|fresh| fresh.saturating_add(read).saturating_add(written)),
            completion: known_count(self.output_tokens),
            total: None,
            reasoning: known_count(details.and_then(|details| details.thinking_tokens)),
            cached: Some(read),
            cache_written: self.written(),
        }
    }

    /// Returns the prompt tokens written to the cache, if reported.
    fn written(&self) -> Option<u64> {
        known_count(self.cache_creation_input_tokens)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_early_stop_reason_is_explained() {
        assert_eq!(early_end("max_tokens"), None, "the usual one");
        for (reason, words) in [
            ("model_context_window_exceeded", "fills the model's context"),
            ("pause_turn", "(pause_turn)"),
            ("something_new", "unknown reason: something_new"),
        ] {
            let told = early_end(reason).unwrap_or_default();
            assert!(told.contains(words), "{told}");
        }
        let long = early_end(&"x\u{1b}".repeat(1_000)).unwrap_or_default();
        assert!(!long.contains('\u{1b}'), "{long}");
    }
}
