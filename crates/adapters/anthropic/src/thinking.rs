//! What a model thought, on its way back to it: whose it is, and how the service says that it takes it no longer.
//!
//! A block of thinking is signed, and goes back to the model that gave it exactly as it came, or not at all.

use std::borrow::Cow;

use neuraxis_core::{ModelRef, ProviderState};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// Words by which the service refuses thinking in a conversation: its signature was made for another one, for example
/// since a prompt or the tools are not those of then. Or it misses some at the beginning of a turn, and wants it without any.
pub(crate) const REFUSALS: [&str; 5] = [
    "invalid `signature`",
    "invalid signature",
    "bound to a different conversation",
    "blocks in the latest assistant message cannot be modified",
    "expected `thinking`",
];

/// Whether what a model thinks in its reply goes back to it later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NewThinking {
    /// With all later requests of the conversation, as the service wants it.
    GoesBack,
    /// It was thought about words that stand in that one request alone, and the service would refuse it.
    StaysOut,
}

/// What is kept beside a block: whose it is, and the block itself where it is nothing but sealed data.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct BlockState<'a> {
    provider: Cow<'a, str>,
    /// The model that was asked; what it calls itself may be longer.
    model: Cow<'a, str>,
    /// The block as it came and goes back, of a kind that has no text of its own.
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

    /// Reads what was kept beside a block, if this model gave it.
    pub(crate) fn read(state: &'a ProviderState, model: &ModelRef) -> Option<Self> {
        let state: Self = serde_json::from_str(state.as_str()).ok()?;
        let is_ours = *state.provider == *model.provider && *state.model == *model.model;
        is_ours.then_some(state)
    }

    /// Writes it down; nothing only if it cannot be written.
    pub(crate) fn written(&self) -> Option<ProviderState> {
        ProviderState::encode(self).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_another_model_gave_is_not_read() {
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
