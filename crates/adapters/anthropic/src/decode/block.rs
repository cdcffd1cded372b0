//! One block of a reply being received.

use std::borrow::Cow;
use std::sync::Arc;

use neuraxis_core::{BlockIndex, LlmError, ModelRef, ReplyDelta};
use neuraxis_wire::reply::{Shares, Text, invalid, parse};
use serde_json::value::RawValue;

use super::event::{Delta, Kind, StartedBlock};
use crate::thinking::BlockState;

/// A block of a reply.
#[derive(Debug)]
pub(super) struct Block {
    /// The service's number for it.
    pub(super) number: u64,
    /// Its position in the reply.
    pub(super) place: BlockIndex,
    pub(super) content: Content,
    pub(super) is_done: bool,
}

/// The content of a block.
#[derive(Debug)]
pub(super) enum Content {
    Text,
    Thinking {
        /// No text has arrived so far: the service keeps it hidden.
        is_hidden: bool,
        signature: String,
    },
    Call {
        id: Option<Arc<str>>,
        /// Complete arguments from the beginning of the block, for a call without later pieces.
        begun_with: Option<String>,
        has_arguments: bool,
    },
    /// A block of another kind, stored unchanged if it arrived whole.
    Sealed(Option<Box<RawValue>>),
}

impl Block {
    /// Begins a block; in a whole reply, this is all of it.
    pub(super) fn begin(
        number: u64,
        place: BlockIndex,
        raw: &RawValue,
        shares: &mut Shares,
        out: &mut impl Extend<ReplyDelta>,
    ) -> Result<Self, LlmError> {
        let kind = Text::of(parse::<Kind<'_>>(raw.get())?.kind);
        let content = match kind.as_deref() {
            Some("text") => {
                let block: StartedBlock<'_> = parse(raw.get())?;
                out.extend(text_delta(place, block.text, shares));
                Content::Text
            }
            Some("thinking") => {
                let block: StartedBlock<'_> = parse(raw.get())?;
                let signature = text_of(block.signature).into_owned();
                let delta = thinking_delta(place, block.thinking, shares);
                let is_hidden = delta.is_none();
                out.extend(delta);
                Content::Thinking {
                    is_hidden,
                    signature,
                }
            }
            Some("tool_use") => {
                let block: StartedBlock<'_> = parse(raw.get())?;
                let name = Text::of(block.name)
                    .ok_or_else(|| invalid("a tool call begins without a name"))?;
                shares.calls += name.len();
                let id: Option<Arc<str>> = Text::of(block.id).map(Into::into);
                out.extend([ReplyDelta::ToolCall {
                    block: place,
                    provider_id: id.clone(),
                    name: Some(name.into()),
                    arguments: String::new(),
                }]);
                Content::Call {
                    id,
                    begun_with: block.input.map(|input| input.get().to_owned()),
                    has_arguments: false,
                }
            }
            Some(_) => Content::Sealed(Some(raw.to_owned())),
            None => return Err(invalid("a block of the reply has no type")),
        };
        Ok(Self {
            number,
            place,
            content,
            is_done: false,
        })
    }

    /// Processes a piece of the block. Skips a piece of an unknown kind.
    pub(super) fn append(
        &mut self,
        raw: &RawValue,
        shares: &mut Shares,
        out: &mut impl Extend<ReplyDelta>,
    ) -> Result<(), LlmError> {
        if let Content::Sealed(block) = &mut self.content {
            // A block with further pieces cannot be sent back whole.
            *block = None;
            return Ok(());
        }
        let delta: Delta<'_> = parse(raw.get())?;
        let kind = text_of(delta.kind);
        match (&mut self.content, &*kind) {
            (Content::Text, "text_delta") => {
                out.extend(text_delta(self.place, delta.text, shares));
            }
            (Content::Thinking { is_hidden, .. }, "thinking_delta") => {
                let piece = thinking_delta(self.place, delta.thinking, shares);
                *is_hidden &= piece.is_none();
                out.extend(piece);
            }
            (Content::Thinking { signature, .. }, "signature_delta") => {
                let piece = text_of(delta.signature);
                signature.push_str(&piece);
            }
            (Content::Call { has_arguments, .. }, "input_json_delta") => {
                if let Some(piece) = Text::of(delta.partial_json) {
                    shares.calls += piece.len();
                    *has_arguments |= !piece.trim().is_empty();
                    out.extend([self.arguments(piece.into_owned())]);
                }
            }
            (_, "text_delta" | "thinking_delta" | "signature_delta" | "input_json_delta") => {
                return Err(invalid(format!(
                    "block {} of the reply got a delta of the wrong kind",
                    self.place
                )));
            }
            _ => {}
        }
        Ok(())
    }

    /// Ends the block: its state is complete now, if it is sent back to a model.
    pub(super) fn end(
        &mut self,
        back_to: Option<&ModelRef>,
        shares: &mut Shares,
        out: &mut impl Extend<ReplyDelta>,
    ) {
        self.is_done = true;
        match &mut self.content {
            Content::Text => {}
            Content::Thinking {
                is_hidden,
                signature,
            } => {
                // The encoder of the next request decides whether it is sent back unsigned.
                let signature = std::mem::take(signature);
                if let Some(model) = back_to
                    && (!signature.is_empty() || !*is_hidden)
                {
                    let signature = (!signature.is_empty()).then_some(signature);
                    out.extend([self.state(signature, &BlockState::new(model, None))]);
                }
            }
            Content::Call {
                begun_with,
                has_arguments,
                ..
            } => {
                if !*has_arguments {
                    let whole = begun_with.take().unwrap_or_else(|| "{}".to_owned());
                    shares.calls += whole.len();
                    out.extend([self.arguments(whole)]);
                }
            }
            Content::Sealed(block) => {
                if let Some((block, model)) = block.take().zip(back_to) {
                    out.extend([self.state(None, &BlockState::new(model, Some(&block)))]);
                }
            }
        }
    }

    fn arguments(&self, arguments: String) -> ReplyDelta {
        ReplyDelta::ToolCall {
            block: self.place,
            provider_id: None,
            name: None,
            arguments,
        }
    }

    fn state(&self, signature: Option<String>, state: &BlockState<'_>) -> ReplyDelta {
        ReplyDelta::State {
            block: self.place,
            id: None,
            signature,
            state: state.written(),
        }
    }
}

fn text_delta(
    block: BlockIndex,
    text: Option<Text<'_>>,
    shares: &mut Shares,
) -> Option<ReplyDelta> {
    let text = Text::of(text)?.into_owned();
    shares.text += text.len();
    Some(ReplyDelta::Text { block, text })
}

fn thinking_delta(
    block: BlockIndex,
    text: Option<Text<'_>>,
    shares: &mut Shares,
) -> Option<ReplyDelta> {
    let text = Text::of(text)?.into_owned();
    shares.reasoning += text.len();
    Some(ReplyDelta::Reasoning { block, text })
}

/// Returns a string that may be missing, null or empty.
fn text_of(field: Option<Text<'_>>) -> Cow<'_, str> {
    Text::of(field).unwrap_or_default()
}
