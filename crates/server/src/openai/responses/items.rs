//! The items of a response while it is built: texts, each from one or several model calls, and calls. Text of a model
//! call that broke off and is retried is removed.

use neuraxis::Event;
use neuraxis::core::{Attempt, EffectId, LiveBody, RunId};

use super::output::Item;

/// The attempt of a model call that produces text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TextSource {
    call: EffectId,
    attempt: Attempt,
}

impl TextSource {
    /// Returns the source of an event's text, or `None` if it is not a model call.
    pub(super) const fn of(event: &Event) -> Option<Self> {
        match event {
            Event::Live(live) => Some(Self {
                call: live.call,
                attempt: live.attempt,
            }),
            Event::Record(_) => None,
        }
    }
}

/// Returns the model call whose text an event discards, if it does.
pub(super) const fn retracted_by(event: &Event) -> Option<EffectId> {
    match event {
        Event::Live(live) if matches!(live.body, LiveBody::TextRetracted) => Some(live.call),
        _ => None,
    }
}

/// The kind of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Message,
    /// A message that says why there is no answer of the requested form.
    Refusal,
    Reasoning,
}

/// Returns whether a message of a response may have had this id and no longer exist, because it said what a run waited
/// for, or came from a discarded model call. `item_count` is the number of items that the response has.
pub(super) fn may_be_discarded(id: &str, item_count: usize) -> bool {
    let numbers = id.split('_').skip(2).map(|number| number.parse().ok());
    let numbers = numbers.collect::<Option<Vec<usize>>>();
    match numbers.as_deref() {
        // Items before it still exist.
        Some([before]) => *before <= item_count,
        Some([_, _, _]) => true,
        _ => false,
    }
}

/// An item that is text.
#[derive(Debug)]
pub(super) struct Text {
    pub(super) kind: Kind,
    pub(super) id: String,
    pub(super) text: String,
    /// The source of its last part, and where that part begins.
    part: Option<(TextSource, usize)>,
}

impl Text {
    /// Starts an item after `before` others. Its id is the same whether it is streamed, sent whole, or sent again, and
    /// differs from that of any discarded item.
    pub(super) fn start(kind: Kind, run: RunId, before: usize, by: Option<TextSource>) -> Self {
        let name = match kind {
            Kind::Message | Kind::Refusal => "msg",
            Kind::Reasoning => "rs",
        };
        let id = match by {
            Some(TextSource { call, attempt }) => {
                format!("{name}_{run}_{before}_{}_{attempt}", call.number)
            }
            None => format!("{name}_{run}_{before}"),
        };
        Self {
            kind,
            id,
            text: String::new(),
            part: None,
        }
    }

    /// Returns whether it is a text of this kind whose last part has this source.
    pub(super) fn is_from(&self, kind: Kind, by: Option<TextSource>) -> bool {
        self.kind == kind && self.source() == by
    }

    fn source(&self) -> Option<TextSource> {
        self.part.map(|(source, _)| source)
    }

    pub(super) fn add(&mut self, text: &str, by: Option<TextSource>) {
        if self.source() != by {
            self.part = by.map(|by| (by, self.text.len()));
        }
        self.text.push_str(text);
    }

    /// Removes what a model call said last, and returns whether any text is left.
    pub(super) fn retract_call(&mut self, call: EffectId) -> bool {
        match self.part {
            Some((source, begins)) if source.call == call => {
                self.text.truncate(begins);
                self.part = None;
                begins > 0
            }
            _ => true,
        }
    }

    /// Returns the item with all its text.
    pub(super) fn item(&self) -> Item {
        let (id, text) = (self.id.clone(), Some(self.text.clone()));
        match self.kind {
            Kind::Message => Item::message(id, text),
            Kind::Refusal => Item::refusal(id, text),
            Kind::Reasoning => Item::reasoning(id, text),
        }
    }
}

/// A complete item.
#[derive(Debug)]
pub(super) enum Done {
    Text(Text),
    Call(Item),
}

impl Done {
    /// Like [`Text::retract_call`].
    pub(super) fn retract_call(&mut self, call: EffectId) -> bool {
        match self {
            Self::Text(text) => text.retract_call(call),
            Self::Call(_) => true,
        }
    }

    /// Returns whether it is something that clients expect: a message or a call.
    pub(super) const fn is_answer(&self) -> bool {
        match self {
            Self::Text(text) => matches!(text.kind, Kind::Message | Kind::Refusal),
            Self::Call(_) => true,
        }
    }

    pub(super) fn into_item(self) -> Item {
        match self {
            Self::Text(text) => text.item(),
            Self::Call(call) => call,
        }
    }
}
