//! The items of a response while they are made: texts, each said by one model call or by several, and calls. What a model call
//! said in vain, since it broke off and is made again, is taken out of them.

use neuraxis::Event;
use neuraxis::core::{Attempt, EffectId, LiveBody, RunId};

use super::output::Item;

/// The attempt of a model call that says something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Speaker {
    call: EffectId,
    attempt: Attempt,
}

impl Speaker {
    /// Returns who says what an event tells; `None` if it is no model call.
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

/// Returns the model call that said something in vain, where an event tells so.
pub(super) const fn voided(event: &Event) -> Option<EffectId> {
    match event {
        Event::Live(live) if matches!(live.body, LiveBody::TextRetracted) => Some(live.call),
        _ => None,
    }
}

/// What a text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Message,
    /// A message that says why there is no answer of the form that was asked for.
    Refusal,
    Reasoning,
}

/// Tells whether a message of a response may have had an id and stand no more: what a run waited for, or what a model call said
/// in vain. `standing` is how many items the response has.
pub(super) fn may_be_void(id: &str, standing: usize) -> bool {
    let numbers = id.split('_').skip(2).map(|number| number.parse().ok());
    let numbers = numbers.collect::<Option<Vec<usize>>>();
    match numbers.as_deref() {
        // What stood before it stands still.
        Some([before]) => *before <= standing,
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
    /// Who says the last part of it, and where that begins.
    part: Option<(Speaker, usize)>,
}

impl Text {
    /// Begins an item that so many others stand before. Its id is the same whether it is told as it comes, whole or again, and
    /// no void one has it.
    pub(super) fn begun(kind: Kind, run: RunId, before: usize, by: Option<Speaker>) -> Self {
        let name = match kind {
            Kind::Message | Kind::Refusal => "msg",
            Kind::Reasoning => "rs",
        };
        let id = match by {
            Some(Speaker { call, attempt }) => {
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

    /// Tells whether it is such a text, and the same one says the last part of it.
    pub(super) fn is_said_by(&self, kind: Kind, by: Option<Speaker>) -> bool {
        self.kind == kind && self.speaker() == by
    }

    fn speaker(&self) -> Option<Speaker> {
        self.part.map(|(speaker, _)| speaker)
    }

    pub(super) fn add(&mut self, text: &str, by: Option<Speaker>) {
        if self.speaker() != by {
            self.part = by.map(|by| (by, self.text.len()));
        }
        self.text.push_str(text);
    }

    /// Takes out what a model call said last. False if nothing is left.
    pub(super) fn stands_without(&mut self, call: EffectId) -> bool {
        match self.part {
            Some((speaker, begins)) if speaker.call == call => {
                self.text.truncate(begins);
                self.part = None;
                begins > 0
            }
            _ => true,
        }
    }

    /// Returns the item, with all its text.
    pub(super) fn item(&self) -> Item {
        let (id, text) = (self.id.clone(), Some(self.text.clone()));
        match self.kind {
            Kind::Message => Item::message(id, text),
            Kind::Refusal => Item::refusal(id, text),
            Kind::Reasoning => Item::reasoning(id, text),
        }
    }
}

/// An item that is whole.
#[derive(Debug)]
pub(super) enum Done {
    Text(Text),
    Call(Item),
}

impl Done {
    /// As [`Text::stands_without`].
    pub(super) fn stands_without(&mut self, call: EffectId) -> bool {
        match self {
            Self::Text(text) => text.stands_without(call),
            Self::Call(_) => true,
        }
    }

    /// Tells whether it is what clients look for: a message or a call.
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
