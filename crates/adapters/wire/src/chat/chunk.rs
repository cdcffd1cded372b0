//! What comes over the wire: a chunk of a stream, or a whole reply, which has the same shape with `message` for `delta`.
//!
//! Decoded without building a tree: texts are borrowed from the bytes that came in where nothing is escaped in them.

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
    // Boxed, because few chunks have them and every chunk would be moved with the room for them.
    #[serde(default)]
    pub(super) usage: Option<Box<UsageField>>,
    #[serde(default)]
    pub(super) timings: Option<Box<Timings>>,
    #[serde(borrow, default)]
    pub(super) error: Option<&'a RawValue>,
}

/// The first choice, if there is one; more than one is never asked for.
#[derive(Debug)]
pub(super) struct FirstChoice<'a>(pub(super) Option<Choice<'a>>);

#[derive(Debug, Deserialize)]
pub(super) struct Choice<'a> {
    #[serde(borrow, default)]
    pub(super) delta: Option<Delta<'a>>,
    /// What a whole reply says, and what some streams end with, after its pieces. Boxed, as few chunks have it.
    #[serde(borrow, default)]
    pub(super) message: Option<Box<Delta<'a>>>,
    #[serde(borrow, default)]
    pub(super) finish_reason: Option<Text<'a>>,
    /// Why the reply failed, where that is not said beside the choices.
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
    /// What the model says in place of an answer.
    #[serde(borrow, default)]
    pub(super) refusal: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) tool_calls: Option<Vec<CallDelta<'a>>>,
}

/// What the model says: a text, or a list of parts, as from Mistral's models that reason.
#[derive(Debug)]
pub(super) enum Content<'a> {
    Text(Text<'a>),
    Parts(Vec<ContentPart<'a>>),
}

/// A part of what the model says; one that has neither field is of no use here, such as a reference.
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
    /// What the server wants to see again with the call, such as Gemini's signature of what was thought before it.
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

/// Token counts. Signed, since servers write -1 for what they do not know.
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
    /// Prompt tokens that DeepSeek had to read.
    #[serde(default, deserialize_with = "written_count")]
    pub(super) prompt_cache_miss_tokens: Option<i64>,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
pub(super) struct PromptDetails {
    #[serde(default, deserialize_with = "written_count")]
    pub(super) cached_tokens: Option<i64>,
    /// What OpenAI wrote to its cache, and bills apart.
    #[serde(default, deserialize_with = "written_count")]
    pub(super) cache_write_tokens: Option<i64>,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
pub(super) struct CompletionDetails {
    #[serde(default, deserialize_with = "written_count")]
    pub(super) reasoning_tokens: Option<i64>,
}

/// The `timings` of llama-server, whose counts serve where `usage` has none.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
pub(super) struct Timings {
    /// Prompt tokens from the cache.
    #[serde(default, deserialize_with = "written_count")]
    pub(super) cache_n: Option<i64>,
    /// Prompt tokens that had to be read.
    #[serde(default, deserialize_with = "written_count")]
    pub(super) prompt_n: Option<i64>,
    /// Tokens written.
    #[serde(default, deserialize_with = "written_count")]
    pub(super) predicted_n: Option<i64>,
}

/// Reads a text. Some servers write a number for an id, and an object for arguments: of these the JSON, as it stands there.
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
        f.write_str("a text or a list of parts")
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
