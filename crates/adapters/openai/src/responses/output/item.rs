//! One item of a reply that is arriving.

mod kept;

use std::collections::VecDeque;
use std::sync::Arc;

use neuraxis_core::{BlockIndex, LlmError, ReplyDelta};
use neuraxis_wire::reply::{Shares, Text, clean, invalid, parse};
use serde_json::value::RawValue;

use self::kept::reasoning_text;
use crate::responses::event::{ContentPart, Item, ItemKind, text_of};
use crate::responses::state::StateOrigin;

/// The separator between two parts of reasoning.
const BETWEEN_THOUGHTS: &str = "\n\n";

/// An item of a reply that is arriving.
#[derive(Debug)]
pub(super) struct Progress {
    pub(super) kind: Kind,
    pub(super) is_done: bool,
    block: BlockIndex,
    /// The id of the reasoning item before this one.
    after: Option<Arc<str>>,
    /// The item's id if it is reasoning, or the call's id if it is a call.
    id: Option<Arc<str>>,
    name: String,
    /// The text that has been shown.
    shown: String,
    section: Option<Section>,
    text: bool,
    refusal: bool,
}

/// The kind of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Message,
    Reasoning,
    Call,
    /// An item that was not requested and has nothing to read.
    Other,
}

/// The part of an item to which a piece belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Section {
    Text,
    Refusal,
    Summary(u32),
    Thought(u32),
    Arguments,
}

impl Section {
    const fn kind(self) -> Kind {
        match self {
            Self::Text | Self::Refusal => Kind::Message,
            Self::Summary(_) | Self::Thought(_) => Kind::Reasoning,
            Self::Arguments => Kind::Call,
        }
    }
}

impl Kind {
    fn of(item: &RawValue) -> Result<Self, LlmError> {
        let item: ItemKind<'_> = parse(item.get())?;
        match &*text_of(item.kind) {
            "message" => Ok(Self::Message),
            "reasoning" => Ok(Self::Reasoning),
            "function_call" => Ok(Self::Call),
            "" => Err(invalid("an item of the reply has no type")),
            // A call that nothing could answer.
            other if other.ends_with("_call") && other.starts_with("custom_") => {
                Err(invalid(format!(
                    "the reply has an item of type {:?}, which was not offered",
                    clean(other, 60)
                )))
            }
            _ => Ok(Self::Other),
        }
    }
}

impl Progress {
    /// Starts an item, which has number `at` in its reply.
    pub(super) fn begin(
        at: usize,
        raw: &RawValue,
        after: Option<Arc<str>>,
        out: &mut VecDeque<ReplyDelta>,
    ) -> Result<Self, LlmError> {
        let block = u32::try_from(at).map_err(|_| invalid("too many items in one reply"))?;
        let mut progress = Self {
            kind: Kind::of(raw)?,
            is_done: false,
            block: BlockIndex(block),
            after,
            id: None,
            name: String::new(),
            shown: String::new(),
            section: None,
            text: false,
            refusal: false,
        };
        let id = match progress.kind {
            Kind::Call => {
                let item: Item<'_> = parse(raw.get())?;
                progress.name = text_of(item.name).into_owned();
                if progress.name.is_empty() {
                    return Err(invalid("a tool call begins without a name"));
                }
                let id = Text::of(item.call_id);
                out.push_back(ReplyDelta::ToolCall {
                    block: progress.block,
                    provider_id: id.as_deref().map(Into::into),
                    name: Some(progress.name.as_str().into()),
                    arguments: String::new(),
                });
                id
            }
            Kind::Reasoning => Text::of(parse::<Item<'_>>(raw.get())?.id),
            Kind::Message | Kind::Other => None,
        };
        progress.id = id.as_deref().map(Arc::from);
        Ok(progress)
    }

    /// Shows a piece.
    pub(super) fn append(
        &mut self,
        section: Section,
        piece: &str,
        shares: &mut Shares,
        out: &mut VecDeque<ReplyDelta>,
    ) -> Result<(), LlmError> {
        if self.is_done {
            return Err(invalid(format!(
                "item {} of the reply continued after its end",
                self.block
            )));
        }
        if self.kind != section.kind() {
            return Err(invalid(format!(
                "item {} of the reply holds two kinds of content",
                self.block
            )));
        }
        self.text |= section == Section::Text;
        self.refusal |= section == Section::Refusal;
        if piece.is_empty() {
            return Ok(());
        }
        let is_next =
            self.kind == Kind::Reasoning && self.section.is_some_and(|before| before != section);
        self.section = Some(section);
        if is_next {
            self.show(&[BETWEEN_THOUGHTS, piece].concat(), shares, out);
        } else {
            self.show(piece, shares, out);
        }
        Ok(())
    }

    /// Processes the completed item: shows the rest of its text, and stores what must be sent back.
    pub(super) fn finish(
        &mut self,
        raw: &RawValue,
        origin: StateOrigin<'_>,
        shares: &mut Shares,
        out: &mut VecDeque<ReplyDelta>,
    ) -> Result<(), LlmError> {
        if Kind::of(raw)? != self.kind {
            return Err(invalid(format!(
                "item {} of the reply changed its type",
                self.block
            )));
        }
        self.is_done = true;
        if self.kind == Kind::Other {
            return Ok(());
        }
        let mut item: Item<'_> = parse(raw.get())?;
        let whole = match self.kind {
            Kind::Message => self.message_text(&item)?,
            Kind::Reasoning => reasoning_text(&item)?,
            Kind::Call | Kind::Other => self.arguments(&mut item)?,
        };
        match whole.strip_prefix(self.shown.as_str()) {
            Some(rest) if !rest.is_empty() => self.show(rest, shares, out),
            Some(_) => {}
            // Reasoning text is only for display; the item itself is sent back.
            None if self.kind == Kind::Reasoning => {}
            None => {
                return Err(invalid(format!(
                    "item {} of the reply differs from what was streamed",
                    self.block
                )));
            }
        }
        let was_shown = !self.shown.is_empty() || self.kind != Kind::Message;
        if was_shown && let Some(state) = self.state(item, origin)? {
            out.push_back(state);
        }
        self.shown = String::new();
        Ok(())
    }

    /// Returns the id of the call, if the item is a call.
    pub(super) fn call_id(&self) -> Option<&str> {
        self.id.as_deref().filter(|_| self.kind == Kind::Call)
    }

    /// Returns the id of the reasoning, if the item is reasoning.
    pub(super) fn reasoning_id(&self) -> Option<Arc<str>> {
        let id = self.id.as_ref().filter(|_| self.kind == Kind::Reasoning);
        id.map(Arc::clone)
    }

    pub(super) const fn has_refusal(&self) -> bool {
        self.refusal
    }

    fn show(&mut self, piece: &str, shares: &mut Shares, out: &mut VecDeque<ReplyDelta>) {
        self.shown.push_str(piece);
        let (block, text) = (self.block, piece.to_owned());
        out.push_back(match self.kind {
            Kind::Message | Kind::Other => {
                shares.text += text.len();
                ReplyDelta::Text { block, text }
            }
            Kind::Reasoning => {
                shares.reasoning += text.len();
                ReplyDelta::Reasoning { block, text }
            }
            Kind::Call => {
                shares.calls += text.len();
                ReplyDelta::ToolCall {
                    block,
                    provider_id: None,
                    name: None,
                    arguments: text,
                }
            }
        });
    }

    fn message_text(&mut self, item: &Item<'_>) -> Result<String, LlmError> {
        let mut whole = String::new();
        for part in ContentPart::list(item.content)? {
            if let Some(text) = Text::of(part.text) {
                self.text = true;
                whole.push_str(&text);
            }
            if let Some(text) = Text::of(part.refusal) {
                self.refusal = true;
                whole.push_str(&text);
            }
        }
        Ok(whole)
    }

    fn arguments(&self, item: &mut Item<'_>) -> Result<String, LlmError> {
        let same_name = *text_of(item.name.take()) == *self.name;
        let id = Text::of(item.call_id.take());
        if !same_name || id.as_deref() != self.id.as_deref() {
            return Err(invalid("the name or the id of a tool call changed midway"));
        }
        Ok(text_of(item.arguments.take()).into_owned())
    }
}

fn unreadable() -> LlmError {
    invalid("an item of the reply cannot be read")
}
