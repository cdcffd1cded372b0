//! The received JSON: a chunk of a stream, or a whole reply, which has the same shape with `message` instead of
//! `delta`.
//!
//! It is decoded without building a tree: texts without escapes are borrowed from the received bytes.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, IgnoredAny, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::reply::{Text, written_count};

/// A chunk of a stream, or a whole reply.
#[derive(Debug, Deserialize)]
pub(super) struct Chunk<'a> {
    #[serde(borrow, default)]
    pub(super) model: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) choices: Option<FirstChoice<'a>>,
    // Boxed: few chunks have them, and every chunk would otherwise be moved with space for them.
    #[serde(default)]
    pub(super) usage: Option<Box<UsageField>>,
    #[serde(default)]
    pub(super) timings: Option<Box<Timings>>,
    #[serde(borrow, default)]
    pub(super) error: Option<&'a RawValue>,
}

/// The first choice, if there is one; the client never requests more than one.
#[derive(Debug)]
pub(super) struct FirstChoice<'a>(pub(super) Option<Choice<'a>>);

#[derive(Debug, Deserialize)]
pub(super) struct Choice<'a> {
    #[serde(borrow, default)]
    pub(super) delta: Option<Delta<'a>>,
    /// The content of a whole reply; some streams repeat it after their pieces. Boxed, since few chunks have it.
    #[serde(borrow, default)]
    pub(super) message: Option<Box<Delta<'a>>>,
    #[serde(borrow, default)]
    pub(super) finish_reason: Option<Text<'a>>,
    /// Why the reply failed, if that is reported in the choice.
    #[serde(borrow, default)]
    pub(super) error: Option<&'a RawValue>,
    /// The token counts, where Moonshot writes them in a stream.
    #[serde(default)]
    pub(super) usage: Option<Box<UsageField>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Delta<'a> {
    #[serde(borrow, default)]
    pub(super) content: Option<Content<'a>>,
    #[serde(borrow, default)]
    pub(super) reasoning_content: Option<Text<'a>>,
    /// The same under its other name; some servers send both.
    #[serde(borrow, default)]
    pub(super) reasoning: Option<Text<'a>>,
    /// The model's text when it refuses to answer.
    #[serde(borrow, default)]
    pub(super) refusal: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) tool_calls: Option<Vec<CallDelta<'a>>>,
}

/// The model's text: a string or a list of parts, as from Mistral's reasoning models.
#[derive(Debug)]
pub(super) enum Content<'a> {
    Text(Text<'a>),
    Parts(Vec<ContentPart<'a>>),
}

/// A part of the model's text. A part with neither field, such as a reference, is ignored.
#[derive(Debug, Deserialize)]
pub(super) struct ContentPart<'a> {
    #[serde(borrow, default)]
    pub(super) text: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) thinking: Option<Content<'a>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct CallDelta<'a> {
    #[serde(default)]
    pub(super) index: Option<usize>,
    #[serde(borrow, default, deserialize_with = "text_or_json")]
    pub(super) id: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) function: Option<FunctionDelta<'a>>,
    /// State that the server wants back with the call, such as Gemini's signature of the reasoning before it.
    #[serde(borrow, default)]
    pub(super) extra_content: Option<&'a RawValue>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct FunctionDelta<'a> {
    #[serde(borrow, default)]
    pub(super) name: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "text_or_json")]
    pub(super) arguments: Option<Text<'a>>,
}

/// Token counts. Signed, since servers write -1 for unknown counts.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
pub(super) struct UsageField {
    #[serde(default, deserialize_with = "written_count")]
    pub(super) prompt_tokens: Option<i64>,
    #[serde(default, deserialize_with = "written_count")]
    pub(super) completion_tokens: Option<i64>,
    #[serde(default, deserialize_with = "written_count")]
    pub(super) total_tokens: Option<i64>,
    #[serde(default)]
    pub(super) prompt_tokens_details: Option<PromptDetails>,
    #[serde(default)]
    pub(super) completion_tokens_details: Option<CompletionDetails>,
    /// Prompt tokens from Moonshot's cache.
    #[serde(default, deserialize_with = "written_count")]
    pub(super) cached_tokens: Option<i64>,
    /// Prompt tokens from DeepSeek's cache.
    #[serde(default, deserialize_with = "written_count")]
    pub(super) prompt_cache_hit_tokens: Option<i64>,
    /// Prompt tokens that were not in DeepSeek's cache.
    #[serde(default, deserialize_with = "written_count")]
    pub(super) prompt_cache_miss_tokens: Option<i64>,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
pub(super) struct PromptDetails {
    #[serde(default, deserialize_with = "written_count")]
    pub(super) cached_tokens: Option<i64>,
    /// Tokens that OpenAI wrote to its cache, and bills separately.
    #[serde(default, deserialize_with = "written_count")]
    pub(super) cache_write_tokens: Option<i64>,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
pub(super) struct CompletionDetails {
    #[serde(default, deserialize_with = "written_count")]
    pub(super) reasoning_tokens: Option<i64>,
}

/// The `timings` of llama-server, whose counts are used if `usage` has none.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
pub(super) struct Timings {
    /// Prompt tokens from the cache.
    #[serde(default, deserialize_with = "written_count")]
    pub(super) cache_n: Option<i64>,
    /// Prompt tokens that had to be processed.
    #[serde(default, deserialize_with = "written_count")]
    pub(super) prompt_n: Option<i64>,
    /// Generated tokens.
    #[serde(default, deserialize_with = "written_count")]
    pub(super) predicted_n: Option<i64>,
}

/// Reads a string. Some servers write a number for an id, or an object for arguments: for these, returns the JSON as it
/// is written.
fn text_or_json<'de: 'a, 'a, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Text<'a>>, D::Error> {
    let Some(json) = Option::<&'de RawValue>::deserialize(deserializer)? else {
        return Ok(None);
    };
    let json = json.get();
    if json.starts_with('"') {
        return serde_json::from_str(json)
            .map(Some)
            .map_err(D::Error::custom);
    }
    Ok(Some(Text(Cow::Borrowed(json))))
}

impl<'de: 'a, 'a> Deserialize<'de> for FirstChoice<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(FirstChoiceVisitor)
    }
}

struct FirstChoiceVisitor;

impl<'de> Visitor<'de> for FirstChoiceVisitor {
    type Value = FirstChoice<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of choices")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut choices: A) -> Result<Self::Value, A::Error> {
        let first = choices.next_element()?;
        while choices.next_element::<IgnoredAny>()?.is_some() {}
        Ok(FirstChoice(first))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Content<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ContentVisitor)
    }
}

struct ContentVisitor;

impl<'de> Visitor<'de> for ContentVisitor {
    type Value = Content<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string or a list of parts")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Content::Text(Text(Cow::Borrowed(text))))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Content::Text(Text(Cow::Owned(text.to_owned()))))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut parts = Vec::new();
        while let Some(part) = list.next_element()? {
            parts.push(part);
        }
        Ok(Content::Parts(parts))
    }
}
