//! What the server sends: the events of a stream, and the response they lead to, which may also arrive whole.
//!
//! Items are decoded only where they are needed: the event that ends a stream repeats them all.

use std::borrow::Cow;

use neuraxis_core::LlmError;
use neuraxis_wire::reply::{Text, TokenCounts, known_count, parse, written_count};
use serde::Deserialize;
use serde_json::value::RawValue;

/// An event of a stream.
#[derive(Debug, Deserialize)]
pub(super) struct Event<'a> {
    #[serde(borrow, rename = "type", default)]
    pub(super) kind: Option<Text<'a>>,
    #[serde(default)]
    pub(super) output_index: Option<usize>,
    /// The index of the part of a message, or of the raw reasoning.
    #[serde(default)]
    pub(super) content_index: Option<u32>,
    /// The index of the part of the reasoning summary.
    #[serde(default)]
    pub(super) summary_index: Option<u32>,
    /// A text, in the events that this client handles.
    #[serde(borrow, default)]
    pub(super) delta: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) item: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) response: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) error: Option<&'a RawValue>,
}

/// A response, as it arrives in the event that ends a stream, or whole.
#[derive(Debug, Deserialize)]
pub(super) struct Response<'a> {
    #[serde(borrow, default)]
    pub(super) status: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) model: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) error: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) incomplete_details: Option<IncompleteDetails<'a>>,
    #[serde(borrow, default)]
    pub(super) output: Option<Vec<&'a RawValue>>,
    #[serde(default)]
    pub(super) usage: Option<ResponseUsage>,
}

#[derive(Debug, Deserialize)]
pub(super) struct IncompleteDetails<'a> {
    #[serde(borrow, default)]
    pub(super) reason: Option<Text<'a>>,
}

/// Token counts. Signed, since some servers write -1 for unknown counts.
#[derive(Debug, Clone, Copy, Deserialize)]
pub(super) struct ResponseUsage {
    #[serde(default, deserialize_with = "written_count")]
    input_tokens: Option<i64>,
    #[serde(default, deserialize_with = "written_count")]
    output_tokens: Option<i64>,
    #[serde(default, deserialize_with = "written_count")]
    total_tokens: Option<i64>,
    #[serde(default)]
    input_tokens_details: Option<PromptDetails>,
    #[serde(default)]
    output_tokens_details: Option<CompletionDetails>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
struct PromptDetails {
    #[serde(default, deserialize_with = "written_count")]
    cached_tokens: Option<i64>,
    #[serde(default, deserialize_with = "written_count")]
    cache_write_tokens: Option<i64>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
struct CompletionDetails {
    #[serde(default, deserialize_with = "written_count")]
    reasoning_tokens: Option<i64>,
}

/// The kind of an item.
#[derive(Debug, Deserialize)]
pub(super) struct ItemKind<'a> {
    #[serde(borrow, rename = "type", default)]
    pub(super) kind: Option<Text<'a>>,
}

/// A message, a call, or reasoning.
#[derive(Debug, Deserialize)]
pub(super) struct Item<'a> {
    #[serde(borrow, default)]
    pub(super) id: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) phase: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) call_id: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) name: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) arguments: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) summary: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) encrypted_content: Option<&'a RawValue>,
}

/// A part of a message, of a summary or of reasoning.
#[derive(Debug, Deserialize)]
pub(super) struct ContentPart<'a> {
    #[serde(borrow, default)]
    pub(super) text: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) refusal: Option<Text<'a>>,
}

impl<'a> ContentPart<'a> {
    /// Parses a list of parts; a missing list is empty.
    pub(super) fn list(field: Option<&'a RawValue>) -> Result<Vec<Self>, LlmError> {
        field.map_or(Ok(Vec::new()), |list| {
            parse::<Option<_>>(list.get()).map(Option::unwrap_or_default)
        })
    }
}

impl ResponseUsage {
    /// Returns the token counts. A server that counts tokens but does not mention its cache is taken to have read
    /// nothing from a cache.
    pub(super) fn counts(&self) -> TokenCounts {
        let cached = |details: PromptDetails| details.cached_tokens;
        let written = |details: PromptDetails| details.cache_write_tokens;
        let reasoning = |details: CompletionDetails| details.reasoning_tokens;
        TokenCounts {
            prompt: known_count(self.input_tokens),
            completion: known_count(self.output_tokens),
            total: known_count(self.total_tokens),
            reasoning: known_count(self.output_tokens_details.and_then(reasoning)),
            cached: known_count(self.input_tokens_details.and_then(cached)).or(Some(0)),
            cache_written: known_count(self.input_tokens_details.and_then(written)),
        }
    }
}

/// Returns a text that may be missing, null, or empty.
pub(super) fn text_of(field: Option<Text<'_>>) -> Cow<'_, str> {
    Text::of(field).unwrap_or_default()
}

/// Returns a value unless it is missing, null, `false` or empty.
pub(super) fn non_empty(field: Option<&RawValue>) -> Option<&RawValue> {
    field.filter(|value| !matches!(value.get(), "null" | "false" | "\"\"" | "{}" | "[]"))
}
