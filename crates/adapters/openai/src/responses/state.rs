//! What of an item of a reply is kept beside its text, to be sent back.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The server and the model that gave an item. What they want to see again goes to no other: it is sealed for an account
/// and a model, and its ids are known there alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Origin<'a> {
    pub(super) server: &'a str,
    pub(super) model: &'a str,
}

/// What of an item of a reply is kept beside its text.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct ItemState<'a> {
    pub(super) server: Cow<'a, str>,
    pub(super) model: Cow<'a, str>,
    /// The item's id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<Cow<'a, str>>,
    /// The id of the reasoning item that the item came after. Without that one the server refuses this id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) after: Option<Cow<'a, str>>,
    /// What a message is for: some models tell notes on the way from the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) phase: Option<Cow<'a, str>>,
    /// Whether a message is nothing but a refusal.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(super) refusal: bool,
    /// A reasoning item as it is sent back.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub(super) item: Option<&'a RawValue>,
    /// Whether that item has its content with it, so that a server that keeps nothing can read it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(super) is_sealed: bool,
}

impl<'a> ItemState<'a> {
    pub(super) fn from(origin: Origin<'a>) -> Self {
        Self {
            server: origin.server.into(),
            model: origin.model.into(),
            ..Self::default()
        }
    }

    /// Reads what was kept of an item, if it is of this origin.
    pub(super) fn read(text: &'a str, origin: Origin<'_>) -> Option<Self> {
        let state: Self = serde_json::from_str(text).ok()?;
        let is_ours = state.server == origin.server && state.model == origin.model;
        is_ours.then_some(state)
    }
}

const fn is_false(flag: &bool) -> bool {
    !*flag
}
