//! Assembles a reply from its deltas: any split of the same stream gives the same reply.

use std::sync::Arc;

use crate::error::{LlmError, LlmErrorKind};
use crate::ids::BlockIndex;
use crate::json::JsonText;
use crate::message::{ProviderState, ReasoningPart, TextPart};
use crate::reply::{Reply, ReplyDelta, ReplyEnd, ReplyPart, RequestedCall};

/// Maximum size of a reply in bytes, so a runaway model cannot fill the memory.
pub const MAX_REPLY_BYTES: usize = 8 * 1024 * 1024;

/// Collects deltas into a [`Reply`].
///
/// ```
/// use neuraxis_core::{BlockIndex, ModelRef, ReplyAssembler, ReplyDelta, ReplyEnd, ReplyFinish, Usage};
///
/// let mut assembler = ReplyAssembler::default();
/// for piece in ["Hel", "lo"] {
///     assembler.push(ReplyDelta::Text { block: BlockIndex(0), text: piece.into() })?;
/// }
/// let model = ModelRef::new("example", "m");
/// let end = ReplyEnd { finish: ReplyFinish::Stop, usage: Usage::default(), model };
/// assembler.push(ReplyDelta::End(Box::new(end)))?;
/// assert_eq!(assembler.finish()?.text(), "Hello");
/// # Ok::<(), neuraxis_core::LlmError>(())
/// ```
#[derive(Debug, Default)]
pub struct ReplyAssembler {
    /// Sorted by index; rarely more than a few.
    blocks: Vec<(BlockIndex, Block)>,
    bytes: usize,
    end: Option<ReplyEnd>,
}

#[derive(Debug, Default)]
struct Block {
    content: BlockContent,
    id: Option<String>,
    signature: Option<String>,
    state: Option<ProviderState>,
}

#[derive(Debug, Default)]
enum BlockContent {
    #[default]
    Empty,
    Text(String),
    Reasoning(String),
    ToolCall {
        provider_id: Option<Arc<str>>,
        name: Option<Arc<str>>,
        arguments: String,
    },
}

impl ReplyAssembler {
    /// Adds one piece.
    ///
    /// # Errors
    ///
    /// [`LlmErrorKind::InvalidResponse`] when the stream contradicts itself: two kinds of content in one block, a call
    /// whose name or id changes, anything after the end, or more than [`MAX_REPLY_BYTES`].
    pub fn push(&mut self, delta: ReplyDelta) -> Result<(), LlmError> {
        if self.end.is_some() {
            return Err(invalid("the stream went on after its end"));
        }
        match delta {
            ReplyDelta::Text { block, text } => self.push_text(block, text),
            ReplyDelta::Reasoning { block, text } => self.push_reasoning(block, text),
            ReplyDelta::ToolCall {
                block,
                provider_id,
                name,
                arguments,
            } => self.push_call(block, provider_id, name, arguments),
            ReplyDelta::State {
                block,
                id,
                signature,
                state,
            } => {
                let kept = state.as_ref().map(ProviderState::as_str);
                self.grow(length(id.as_deref()) + length(signature.as_deref()) + length(kept))?;
                let block = self.block(block);
                block.id = id.or(block.id.take());
                block.signature = signature.or(block.signature.take());
                block.state = state.or(block.state.take());
                Ok(())
            }
            ReplyDelta::End(end) => {
                self.end = Some(*end);
                Ok(())
            }
        }
    }

    /// Adds one piece whose text the caller keeps: answer text, reasoning and arguments only count toward the size
    /// limit. Finish with [`finish_with`](Self::finish_with).
    ///
    /// # Errors
    ///
    /// Those of [`push`](Self::push).
    pub fn push_without_text(&mut self, mut delta: ReplyDelta) -> Result<(), LlmError> {
        if let ReplyDelta::Text { text, .. }
        | ReplyDelta::Reasoning { text, .. }
        | ReplyDelta::ToolCall {
            arguments: text, ..
        } = &mut delta
        {
            self.grow(text.len())?;
            *text = String::new();
        }
        self.push(delta)
    }

    /// Returns the whole reply, with the text of each block supplied by the caller.
    ///
    /// # Errors
    ///
    /// Those of [`finish`](Self::finish).
    pub fn finish_with(
        mut self,
        mut text_of: impl FnMut(BlockIndex) -> String,
    ) -> Result<Reply, LlmError> {
        for (index, block) in &mut self.blocks {
            if let BlockContent::Text(text)
            | BlockContent::Reasoning(text)
            | BlockContent::ToolCall {
                arguments: text, ..
            } = &mut block.content
            {
                *text = text_of(*index);
            }
        }
        self.finish()
    }

    /// Returns the whole reply.
    ///
    /// # Errors
    ///
    /// [`LlmErrorKind::Incomplete`] when the stream never ended properly: the reply's calls must not run.
    /// [`LlmErrorKind::InvalidResponse`] when a call has no name.
    pub fn finish(self) -> Result<Reply, LlmError> {
        let Some(end) = self.end else {
            return Err(LlmError::new(
                LlmErrorKind::Incomplete,
                "the stream ended before the reply was whole",
            ));
        };
        let mut parts = Vec::with_capacity(self.blocks.len());
        for (index, block) in self.blocks {
            parts.extend(block.into_part(index)?);
        }
        Ok(Reply {
            parts,
            finish: end.finish,
            usage: end.usage,
            model: end.model,
            advice: None,
        })
    }

    fn push_text(&mut self, index: BlockIndex, more: String) -> Result<(), LlmError> {
        self.grow(more.len())?;
        match &mut self.block(index).content {
            BlockContent::Text(text) => text.push_str(&more),
            content @ BlockContent::Empty => *content = BlockContent::Text(more),
            _ => return Err(mixed(index)),
        }
        Ok(())
    }

    fn push_reasoning(&mut self, index: BlockIndex, more: String) -> Result<(), LlmError> {
        self.grow(more.len())?;
        match &mut self.block(index).content {
            BlockContent::Reasoning(text) => text.push_str(&more),
            content @ BlockContent::Empty => *content = BlockContent::Reasoning(more),
            _ => return Err(mixed(index)),
        }
        Ok(())
    }

    fn push_call(
        &mut self,
        index: BlockIndex,
        new_id: Option<Arc<str>>,
        new_name: Option<Arc<str>>,
        more: String,
    ) -> Result<(), LlmError> {
        let named = length(new_id.as_deref()) + length(new_name.as_deref());
        self.grow(named + more.len())?;
        let block = self.block(index);
        if matches!(block.content, BlockContent::Empty) {
            block.content = BlockContent::ToolCall {
                provider_id: None,
                name: None,
                arguments: String::new(),
            };
        }
        let BlockContent::ToolCall {
            provider_id,
            name,
            arguments,
        } = &mut block.content
        else {
            return Err(mixed(index));
        };
        set_once(provider_id, new_id, "id")?;
        set_once(name, new_name, "name")?;
        if arguments.is_empty() {
            *arguments = more;
        } else {
            arguments.push_str(&more);
        }
        Ok(())
    }

    #[expect(
        clippy::indexing_slicing,
        reason = "the block was found or has just been put there"
    )]
    fn block(&mut self, index: BlockIndex) -> &mut Block {
        let place = match self
            .blocks
            .binary_search_by_key(&index, |(index, _)| *index)
        {
            Ok(place) => place,
            Err(place) => {
                self.blocks.insert(place, (index, Block::default()));
                place
            }
        };
        &mut self.blocks[place].1
    }

    fn grow(&mut self, bytes: usize) -> Result<(), LlmError> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > MAX_REPLY_BYTES {
            return Err(invalid(format!(
                "the reply is larger than {MAX_REPLY_BYTES} bytes"
            )));
        }
        Ok(())
    }
}

impl Block {
    fn into_part(mut self, index: BlockIndex) -> Result<Option<ReplyPart>, LlmError> {
        Ok(match self.content {
            // A reasoning item may consist only of state that its provider wants back.
            BlockContent::Empty
                if self.id.is_none() && self.signature.is_none() && self.state.is_none() =>
            {
                None
            }
            BlockContent::Text(text) if text.is_empty() && self.state.is_none() => None,
            BlockContent::Text(text) => Some(ReplyPart::Text(TextPart {
                text,
                state: self.state,
            })),
            BlockContent::Empty => Some(self.reasoning(index, String::new())),
            BlockContent::Reasoning(ref mut text) => {
                let text = std::mem::take(text);
                Some(self.reasoning(index, text))
            }
            BlockContent::ToolCall {
                provider_id,
                name,
                arguments,
            } => {
                let name = name.ok_or_else(|| invalid("a tool call has no name"))?;
                // A call without arguments has an empty object: an empty string is not JSON, and some servers refuse a
                // history that contains one.
                let is_empty = arguments.trim().is_empty();
                let arguments = if is_empty {
                    JsonText::from_text("{}")
                } else {
                    JsonText::from_text(arguments)
                };
                Some(ReplyPart::ToolCall(RequestedCall {
                    provider_id,
                    name,
                    arguments,
                    state: self.state,
                }))
            }
        })
    }

    fn reasoning(self, index: BlockIndex, text: String) -> ReplyPart {
        ReplyPart::Reasoning(ReasoningPart {
            index,
            text,
            id: self.id,
            signature: self.signature,
            state: self.state,
        })
    }
}

fn length(text: Option<&str>) -> usize {
    text.map_or(0, str::len)
}

fn set_once(
    field: &mut Option<Arc<str>>,
    value: Option<Arc<str>>,
    what: &str,
) -> Result<(), LlmError> {
    match (&field, value) {
        (Some(old), Some(new)) if *old != new => {
            Err(invalid(format!("the {what} of a tool call changed midway")))
        }
        (None, Some(new)) => {
            *field = Some(new);
            Ok(())
        }
        _ => Ok(()),
    }
}

fn mixed(index: BlockIndex) -> LlmError {
    invalid(format!(
        "block {index} of the reply holds two kinds of content"
    ))
}

fn invalid(message: impl Into<String>) -> LlmError {
    LlmError::new(LlmErrorKind::InvalidResponse, message)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::message::ModelRef;
    use crate::reply::ReplyFinish;
    use crate::usage::Usage;

    fn end() -> ReplyDelta {
        let model = ModelRef::new("test", "m");
        ReplyDelta::End(Box::new(ReplyEnd {
            finish: ReplyFinish::Stop,
            usage: Usage::default(),
            model,
        }))
    }

    fn assemble(deltas: impl IntoIterator<Item = ReplyDelta>) -> Result<Reply, LlmError> {
        let mut assembler = ReplyAssembler::default();
        deltas
            .into_iter()
            .try_for_each(|delta| assembler.push(delta))?;
        assembler.finish()
    }

    fn call(name: Option<&str>, arguments: &str) -> ReplyDelta {
        let (name, arguments) = (name.map(Into::into), arguments.to_owned());
        ReplyDelta::ToolCall {
            block: BlockIndex(1),
            provider_id: None,
            name,
            arguments,
        }
    }

    proptest! {
        #[test]
        fn any_split_of_a_stream_gives_the_same_reply(text in "\\PC{0,40}", cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8)) {
            let chars: Vec<char> = text.chars().collect();
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(chars.len() + 1)).collect();
            cuts.extend([0, chars.len()]);
            cuts.sort_unstable();
            let pieces = cuts.windows(2).map(|pair| chars[pair[0]..pair[1]].iter().collect::<String>());
            let split = pieces.flat_map(|piece| {
                [ReplyDelta::Text { block: BlockIndex(0), text: piece.clone() }, call(None, &piece)]
            });
            let whole = [ReplyDelta::Text { block: BlockIndex(0), text: text.clone() }, call(Some("t"), &text), end()];
            let split = std::iter::once(call(Some("t"), "")).chain(split).chain([end()]);
            prop_assert_eq!(assemble(split), assemble(whole));
        }
    }

    #[test]
    fn a_stream_without_an_end_is_incomplete() {
        let error = assemble([call(Some("t"), "{}")]).unwrap_err();
        assert_eq!(error.kind, LlmErrorKind::Incomplete);
    }

    #[test]
    fn a_call_whose_name_changes_is_an_invalid_response() {
        let error = assemble([call(Some("a"), ""), call(Some("b"), ""), end()]).unwrap_err();
        assert_eq!(error.kind, LlmErrorKind::InvalidResponse);
    }

    #[test]
    fn a_call_without_arguments_has_an_empty_object() {
        let reply = assemble([call(Some("t"), ""), end()]).unwrap();
        assert_eq!(
            reply.calls().next().map(|call| call.arguments.as_str()),
            Some("{}")
        );
    }

    #[test]
    fn an_oversized_reply_is_refused_wherever_its_text_is_stored() {
        let text = "x".repeat(MAX_REPLY_BYTES / 2 + 1);
        let pieces: [fn(BlockIndex, String) -> ReplyDelta; 5] = [
            |block, text| ReplyDelta::Text { block, text },
            |block, text| ReplyDelta::ToolCall {
                block,
                provider_id: Some(text.into()),
                name: Some("t".into()),
                arguments: String::new(),
            },
            |block, text| ReplyDelta::ToolCall {
                block,
                provider_id: None,
                name: Some(text.into()),
                arguments: String::new(),
            },
            |block, text| ReplyDelta::State {
                block,
                id: Some(text),
                signature: None,
                state: None,
            },
            |block, text| ReplyDelta::State {
                block,
                id: None,
                signature: None,
                state: Some(ProviderState::from_text(text)),
            },
        ];
        for push in [ReplyAssembler::push, ReplyAssembler::push_without_text] {
            for piece in pieces {
                let mut assembler = ReplyAssembler::default();
                assert!(push(&mut assembler, piece(BlockIndex(0), text.clone())).is_ok());
                assert!(push(&mut assembler, piece(BlockIndex(1), text.clone())).is_err());
            }
        }
    }
}
