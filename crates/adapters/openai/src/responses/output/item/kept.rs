//! Which part of an item is for display, and which is stored to be sent back.

use std::borrow::Cow;

use neuraxis_core::{JsonText, LlmError, ReplyDelta};
use neuraxis_wire::reply::Text;
use neuraxis_wire::request::JsonWriter;
use serde_json::value::RawValue;

use super::{BETWEEN_THOUGHTS, Kind, Progress, unreadable};
use crate::responses::event::{ContentPart, Item, non_empty};
use crate::responses::state::{ItemState, StateOrigin};

impl Progress {
    /// Returns the part of the item that is stored to be sent back.
    pub(super) fn state(
        &self,
        item: Item<'_>,
        origin: StateOrigin<'_>,
    ) -> Result<Option<ReplyDelta>, LlmError> {
        let whole = match self.kind {
            Kind::Reasoning => Some(reasoning_to_send(&item)?),
            Kind::Message | Kind::Call | Kind::Other => None,
        };
        let id = Text::of(item.id);
        let phase = Text::of(item.phase);
        if id.is_none() && phase.is_none() && !self.refusal {
            return Ok(None);
        }
        let state = ItemState {
            id: id.as_deref().map(Cow::Borrowed),
            after: self.after.as_deref().map(Cow::Borrowed),
            phase,
            refusal: self.refusal && !self.text,
            is_sealed: non_empty(item.encrypted_content).is_some(),
            item: whole.as_deref(),
            ..ItemState::from(origin)
        };
        Ok(Some(ReplyDelta::State {
            block: self.block,
            id: id
                .as_deref()
                .filter(|_| self.kind == Kind::Reasoning)
                .map(str::to_owned),
            signature: None,
            state: Some(JsonText::encode(&state).map_err(|_| unreadable())?),
        }))
    }
}

/// Returns all readable text of a reasoning item: the thoughts, then their summary.
pub(super) fn reasoning_text(item: &Item<'_>) -> Result<String, LlmError> {
    let mut texts = Vec::new();
    for field in [item.content, item.summary] {
        let parts = ContentPart::list(field)?;
        texts.extend(parts.into_iter().filter_map(|part| Text::of(part.text)));
    }
    Ok(texts.join(BETWEEN_THOUGHTS))
}

/// Returns a reasoning item in the form in which it is sent back: complete, except for empty fields, which servers
/// refuse.
fn reasoning_to_send(item: &Item<'_>) -> Result<Box<RawValue>, LlmError> {
    let mut bytes = Vec::new();
    let mut json = JsonWriter::new(&mut bytes);
    json.raw(r#"{"type":"reasoning""#);
    if let Some(Text(id)) = &item.id {
        json.raw(r#","id":"#);
        json.string(id);
    }
    json.raw(r#","summary":"#);
    json.raw(non_empty(item.summary).map_or("[]", RawValue::get));
    let others = [
        ("content", item.content),
        ("encrypted_content", item.encrypted_content),
    ];
    for (name, value) in others {
        if let Some(value) = non_empty(value) {
            json.raw(",");
            json.string(name);
            json.raw(":");
            json.raw(value.get());
        }
    }
    json.raw("}");
    let text = String::from_utf8(bytes).unwrap_or_default();
    RawValue::from_string(text).map_err(|_| unreadable())
}
