//! The append-only buffer of one call's live events.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use neuraxis_core::{
    AgentId, Attempt, BlockIndex, ContentIndex, EffectId, LiveBody, LiveEvent, RunId, Seq,
};

/// The maximum size in bytes of a tool's partial output that is kept; what follows is dropped. The result stays
/// complete.
const MAX_TOOL_OUTPUT: usize = 256 * 1024;

/// The maximum size in bytes of the partial output that a model reads of a call that was cut off: the end of the
/// output.
const MAX_CUT_OUTPUT: usize = 4 * 1024;

/// The maximum number of progress reports that are kept of one call.
const MAX_REPORTS: usize = 1_000;

/// The call that a buffer belongs to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LiveCall {
    pub(crate) effect_id: EffectId,
    pub(crate) content_index: ContentIndex,
    pub(crate) run_id: RunId,
    pub(crate) agent: AgentId,
}

/// Text of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LiveText {
    Reasoning,
    Text,
    ToolCall {
        name: Option<Arc<str>>,
    },
    ToolOutput {
        tool_call_id: neuraxis_core::ToolCallId,
    },
}

/// What a call has shown so far.
#[derive(Debug)]
pub(crate) struct CallBuffer {
    pub(crate) call: LiveCall,
    shown: Mutex<Shown>,
}

#[derive(Debug, Default)]
struct Shown {
    items: Vec<Item>,
    /// The number of bytes so far, by attempt and block; usually only the last entry grows.
    lengths: Vec<((Attempt, BlockIndex), usize)>,
}

#[derive(Debug)]
struct Item {
    attempt: Attempt,
    block: BlockIndex,
    /// The number of bytes of the same block and attempt in earlier items.
    offset: usize,
    content: Content,
}

#[derive(Debug)]
enum Content {
    /// Text that can grow while it is the last item.
    Growing(LiveText, String),
    /// Anything else.
    Fixed(LiveBody),
}

impl Item {
    const fn is_retraction(&self) -> bool {
        matches!(self.content, Content::Fixed(LiveBody::TextRetracted))
    }
}

/// How far a listener has read a buffer.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Position {
    item: usize,
    bytes: usize,
    /// Whether any part of the item was read, even if only a name.
    begun: bool,
}

impl CallBuffer {
    pub(crate) fn new(call: LiveCall) -> Self {
        Self {
            call,
            shown: Mutex::default(),
        }
    }

    /// Adds text. Text that continues the last item's block is merged with it.
    pub(crate) fn text(&self, attempt: Attempt, block: BlockIndex, kind: LiveText, more: &str) {
        let mut shown = self.lock();
        let Shown { items, lengths } = &mut *shown;
        let place = (attempt, block);
        let known = lengths.iter().rposition(|(other, _)| *other == place);
        let known = known.unwrap_or_else(|| {
            lengths.push((place, 0));
            lengths.len() - 1
        });
        let Some((_, length)) = lengths.get_mut(known) else {
            return;
        };
        let more = match kind {
            LiveText::ToolOutput { .. } => {
                let room = MAX_TOOL_OUTPUT.saturating_sub(*length);
                let kept = more.get(..more.floor_char_boundary(room));
                match kept.filter(|kept| !kept.is_empty()) {
                    Some(kept) => kept,
                    None => return,
                }
            }
            _ => more,
        };
        match items.last_mut() {
            Some(Item {
                attempt: last,
                block: last_block,
                content: Content::Growing(last_kind, text),
                ..
            }) if (*last, *last_block) == (attempt, block) && kind.goes_on_from(last_kind) => {
                text.push_str(more);
            }
            _ => items.push(Item {
                attempt,
                block,
                offset: *length,
                content: Content::Growing(kind, more.to_owned()),
            }),
        }
        *length += more.len();
    }

    /// Adds an event that is not text.
    pub(crate) fn event(&self, attempt: Attempt, body: LiveBody) {
        let items = &mut self.lock().items;
        if items.is_empty() {
            // Most calls report only that they started.
            items.reserve_exact(1);
        }
        // The number of these is limited elsewhere, and listeners must not miss them.
        let always = matches!(
            body,
            LiveBody::TextRetracted | LiveBody::Question(_) | LiveBody::QuestionSettled { .. }
        );
        if items.len() < MAX_REPORTS || always {
            items.push(Item {
                attempt,
                block: BlockIndex(0),
                offset: 0,
                content: Content::Fixed(body),
            });
        }
    }

    /// Retracts what was shown of an attempt, if anything was shown since the last retraction.
    pub(crate) fn retract(&self, attempt: Attempt) {
        let shown = {
            let items = &self.lock().items;
            let mut standing = items.iter().rev().take_while(|item| !item.is_retraction());
            standing.any(|item| item.attempt == attempt)
        };
        if shown {
            self.event(attempt, LiveBody::TextRetracted);
        }
    }

    /// Returns the valid text of a model: what was shown since the last retraction.
    pub(super) fn valid_text(&self) -> String {
        self.valid_text_of(&LiveText::Text)
    }

    /// Returns the valid text of one kind.
    pub(super) fn valid_text_of(&self, wanted: &LiveText) -> String {
        let items = &self.lock().items;
        let voided = items.iter().rposition(Item::is_retraction);
        let standing = items.iter().skip(voided.map_or(0, |place| place + 1));
        let texts = standing.filter_map(|item| match &item.content {
            Content::Growing(kind, text) if kind == wanted => Some(text.as_str()),
            _ => None,
        });
        texts.collect()
    }

    /// Returns all text of a block that an attempt has shown.
    pub(crate) fn whole(&self, attempt: Attempt, block: BlockIndex) -> String {
        let items = &self.lock().items;
        let of_block = items
            .iter()
            .filter(|item| (item.attempt, item.block) == (attempt, block));
        let texts = of_block.filter_map(|item| match &item.content {
            Content::Growing(_, text) => Some(text.as_str()),
            Content::Fixed(_) => None,
        });
        texts.collect()
    }

    /// Returns whether it belongs to a model call: only those can be retracted.
    pub(super) fn is_speech(&self) -> bool {
        let items = &self.lock().items;
        items.iter().any(|item| {
            let Content::Growing(kind, _) = &item.content else {
                return false;
            };
            !matches!(kind, LiveText::ToolOutput { .. })
        })
    }

    /// Returns the end of what a tool call printed, if it printed anything.
    pub(super) fn printed(&self) -> Option<String> {
        let items = &self.lock().items;
        let texts = items.iter().filter_map(|item| match &item.content {
            Content::Growing(LiveText::ToolOutput { .. }, text) => Some(text.as_str()),
            _ => None,
        });
        let text: String = texts.collect();
        let begin = text.ceil_char_boundary(text.len().saturating_sub(MAX_CUT_OUTPUT));
        let end = text.get(begin..)?;
        let end = match begin {
            0 => end.to_owned(),
            _ => format!("…{end}"),
        };
        (!end.trim().is_empty()).then_some(end)
    }

    /// Returns whether something was shown, but all of it was retracted.
    pub(super) fn is_void(&self) -> bool {
        self.lock().items.last().is_some_and(Item::is_retraction)
    }

    /// Retracts what was shown last.
    pub(super) fn void(&self) {
        let last = self.lock().items.last().map(|item| item.attempt);
        if let Some(attempt) = last {
            self.retract(attempt);
        }
    }

    /// Returns how much text was shown of a block in an attempt, in bytes.
    pub(super) fn length(&self, attempt: Attempt, block: BlockIndex) -> usize {
        let lengths = &self.lock().lengths;
        let known = lengths.iter().find(|(place, _)| *place == (attempt, block));
        known.map_or(0, |(_, length)| *length)
    }

    /// Returns the last attempt that showed something.
    pub(super) fn last_attempt(&self) -> Option<Attempt> {
        self.lock().items.last().map(|item| item.attempt)
    }

    /// Returns the block in which text of a kind continues after what was last shown of an attempt: the block of the
    /// last item, if it has this kind, or else a new one.
    pub(super) fn block_to_go_on(&self, attempt: Attempt, kind: &LiveText) -> BlockIndex {
        let shown = self.lock();
        if let Some(Item {
            attempt: last,
            block,
            content: Content::Growing(of_last, _),
            ..
        }) = shown.items.last()
            && (*last, of_last) == (attempt, kind)
        {
            return *block;
        }
        let blocks = shown.lengths.iter().map(|((_, block), _)| block.0);
        BlockIndex(blocks.max().map_or(0, |last| last.saturating_add(1)))
    }

    /// Retracts what was shown, and counts later text from its first byte again.
    pub(super) fn begin_anew(&self) {
        self.void();
        self.lock().lengths.clear();
    }

    /// Returns what was added after the position, and advances the position.
    pub(crate) fn read(&self, place: &mut Position, after: Seq) -> Vec<LiveEvent> {
        let mut events = Vec::new();
        self.read_items(place, after, |_, event| events.push(event));
        events
    }

    /// Like [`read`](Self::read), with the number of the item that each event begins or continues. Items come in order,
    /// and all except the last are complete.
    pub(crate) fn read_items(
        &self,
        place: &mut Position,
        after: Seq,
        mut take: impl FnMut(usize, LiveEvent),
    ) {
        let items = &self.lock().items;
        while let Some(item) = items.get(place.item) {
            let is_last = place.item + 1 == items.len();
            let (read, begun) = (place.bytes, place.begun);
            let body = match &item.content {
                Content::Fixed(body) => Some(body.clone()),
                Content::Growing(kind, text) => {
                    let new = text.get(read..).unwrap_or_default();
                    let names = !begun && matches!(kind, LiveText::ToolCall { name: Some(_) });
                    *place = Position {
                        bytes: text.len(),
                        begun: true,
                        ..*place
                    };
                    (!new.is_empty() || names).then(|| kind.body(new, !begun))
                }
            };
            let keeps_growing = is_last && matches!(item.content, Content::Growing(..));
            if let Some(body) = body {
                let event = self.live(item, item.offset + read, after, body);
                take(place.item, event);
            }
            if keeps_growing {
                break;
            }
            *place = Position {
                item: place.item + 1,
                ..Position::default()
            };
        }
    }

    fn live(&self, item: &Item, offset: usize, after: Seq, body: LiveBody) -> LiveEvent {
        LiveEvent {
            after,
            content_index: self.call.content_index,
            run_id: self.call.run_id,
            agent: self.call.agent,
            call: self.call.effect_id,
            attempt: item.attempt,
            block: item.block,
            offset: u64::try_from(offset).unwrap_or(u64::MAX),
            body,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Shown> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LiveText {
    /// Returns whether text of this kind belongs to what the last item began: a call's name comes only once.
    fn goes_on_from(&self, last: &Self) -> bool {
        self == last
            || matches!(
                (self, last),
                (Self::ToolCall { name: None }, Self::ToolCall { .. })
            )
    }

    fn body(&self, new: &str, is_first: bool) -> LiveBody {
        let text = new.to_owned();
        match self {
            Self::Reasoning => LiveBody::ReasoningDelta { text },
            Self::Text => LiveBody::TextDelta { text },
            Self::ToolCall { name } => LiveBody::ToolCallDelta {
                name: name.clone().filter(|_| is_first),
                arguments: text,
            },
            Self::ToolOutput { tool_call_id } => LiveBody::ToolOutput {
                tool_call_id: tool_call_id.clone(),
                text,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use neuraxis_core::ToolCallId;
    use neuraxis_testkit::CountingIds;

    use super::*;

    #[test]
    fn tool_output_is_buffered_only_up_to_its_limit() {
        let (run_id, attempt, block) = (CountingIds::nth_run(1), Attempt(1), BlockIndex(0));
        let buffer = CallBuffer::new(LiveCall {
            effect_id: EffectId {
                run: run_id,
                number: 1,
            },
            content_index: ContentIndex(0),
            run_id,
            agent: AgentId::ROOT,
        });
        for text in ["x", "é".repeat(MAX_TOOL_OUTPUT).as_str(), "é"] {
            let tool_call_id = ToolCallId::from_text("call_1");
            buffer.text(attempt, block, LiveText::ToolOutput { tool_call_id }, text);
        }
        let kept = buffer.whole(attempt, block);
        assert_eq!(kept.len(), MAX_TOOL_OUTPUT - 1, "no half of a letter");
        assert_eq!(buffer.length(attempt, block), kept.len());
    }
}
