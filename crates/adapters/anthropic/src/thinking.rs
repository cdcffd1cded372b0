//! A model's thinking that is sent back to it: which model it belongs to, and how the service reports that it no longer
//! accepts it.
//!
//! A block of thinking is signed, and is sent back to the model that produced it either exactly as it arrived or not at
//! all.

use std::borrow::Cow;

use neuraxis_core::{ModelRef, ProviderState};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// Phrases with which the service refuses thinking in a conversation. Its signature may belong to a different
/// conversation, for example because a prompt or the tools have changed since. Or thinking is missing at the beginning
/// of a turn, and the service wants the turn without any.
pub(crate) const REFUSALS: [&str; 5] = [
    "invalid `signature`",
    "invalid signature",
    "bound to a different conversation",
    "blocks in the latest assistant message cannot be modified",
    "expected `thinking`",
];

/// Whether the thinking in a reply is sent back to the model later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NewThinking {
    /// With all later requests of the conversation, as the service requires.
    GoesBack,
    /// It was produced for instructions that are only in that one request, and the service would refuse it.
    StaysOut,
}

/// The state stored with a block: its model, and the block itself if it is only sealed data.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct BlockState<'a> {
    provider: Cow<'a, str>,
    /// The model that was asked for; the name it reports may be longer.
    model: Cow<'a, str>,
    /// The block exactly as it arrived, for a kind without text of its own.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub(crate) block: Option<&'a RawValue>,
}

impl<'a> BlockState<'a> {
    pub(crate) fn new(model: &'a ModelRef, block: Option<&'a RawValue>) -> Self {
        Self {
            provider: (&*model.provider).into(),
            model: (&*model.model).into(),
            block,
        }
    }

    /// Reads the state stored with a block, if this model produced the block.
    pub(crate) fn read(state: &'a ProviderState, model: &ModelRef) -> Option<Self> {
        let state: Self = serde_json::from_str(state.as_str()).ok()?;
        let is_ours = *state.provider == *model.provider && *state.model == *model.model;
        is_ours.then_some(state)
    }

    /// Serializes it; `None` only if it cannot be serialized.
    pub(crate) fn written(&self) -> Option<ProviderState> {
        ProviderState::encode(self).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn block_state_of_another_model_is_not_read() {
        let model = ModelRef::new("anthropic", "claude-opus-5-5");
        let state = BlockState::new(&model, None).written().unwrap();
        assert_eq!(
            state.as_str(),
            r#"{"provider":"anthropic","model":"claude-opus-5-5"}"#
        );
        assert!(BlockState::read(&state, &model).is_some());
        for other in [
            ModelRef::new("anthropic", "claude-opus-5"),
            ModelRef::new("openai", "claude-opus-5-5"),
        ] {
            assert!(BlockState::read(&state, &other).is_none(), "{other}");
        }
        let foreign = ProviderState::from_text("{\"item\":1}");
        assert!(BlockState::read(&foreign, &model).is_none());
    }
}
