//! The part of a reply's item that is stored with its text, to be sent back.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The server and the model that produced an item. State is sent back only to its origin: it is encrypted for one
/// account and model, and its ids are known only there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StateOrigin<'a> {
    pub(super) server: &'a str,
    pub(super) model: &'a str,
}

/// The part of a reply's item that is stored with its text.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct ItemState<'a> {
    pub(super) server: Cow<'a, str>,
    pub(super) model: Cow<'a, str>,
    /// The item's id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<Cow<'a, str>>,
    /// The id of the reasoning item that the item followed. Without that item, the server refuses this id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) after: Option<Cow<'a, str>>,
    /// The purpose of a message: some models distinguish interim notes from the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) phase: Option<Cow<'a, str>>,
    /// Whether the message consists only of a refusal.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(super) refusal: bool,
    /// A reasoning item in the form in which it is sent back.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub(super) item: Option<&'a RawValue>,
    /// Whether the reasoning item includes its encrypted content, so that a server that stores nothing can read it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(super) is_sealed: bool,
}

impl<'a> ItemState<'a> {
    pub(super) fn from(origin: StateOrigin<'a>) -> Self {
        Self {
            server: origin.server.into(),
            model: origin.model.into(),
            ..Self::default()
        }
    }

    /// Reads the stored state of an item, if it has this origin.
    pub(super) fn read(text: &'a str, origin: StateOrigin<'_>) -> Option<Self> {
        let state: Self = serde_json::from_str(text).ok()?;
        let is_ours = state.server == origin.server && state.model == origin.model;
        is_ours.then_some(state)
    }
}

const fn is_false(flag: &bool) -> bool {
    !*flag
}
