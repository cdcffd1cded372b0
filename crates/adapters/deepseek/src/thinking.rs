//! Whether a model thinks before it answers, and what that means for its conversation.

use neuraxis_wire::ReasoningEcho;
use serde::{Deserialize, Serialize};

/// Whether a model thinks before it answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Thinking {
    /// The request enables thinking: reasoning comes before the answer.
    On,
    /// The request disables thinking: the answer comes immediately.
    Off,
    /// The service's default, which is to think (<https://api-docs.deepseek.com/guides/thinking_mode>).
    #[default]
    ModelDefault,
}

/// How much a model thinks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ReasoningEffort {
    /// Little.
    Low,
    /// Much.
    High,
    /// As much as the model can.
    Max,
}

impl Thinking {
    /// Returns whether a model thinks.
    pub(crate) fn is_on_for(self, model: &str) -> bool {
        match self {
            Self::On => true,
            Self::Off => false,
            // Models that never thought; some hosts still offer them under these names.
            Self::ModelDefault => !model.to_ascii_lowercase().contains("chat"),
        }
    }
}

/// Returns which reasoning is sent back to a model unless the configuration says otherwise.
///
/// The rule has changed with the models. R1 refuses all reasoning; V3.2 requires that of the current turn; later models
/// require the reasoning of every reply that called tools, for as long as the conversation lasts, and accept the rest.
pub(crate) fn default_echo(model: &str) -> ReasoningEcho {
    let model = model.to_ascii_lowercase();
    let is_one_of = |names: &[&str]| names.iter().any(|name| model.contains(name));
    if is_one_of(&["-r1", "_r1", "/r1"]) {
        ReasoningEcho::Never
    } else if is_one_of(&["v3.2", "v3-2", "deepseek-reasoner"]) {
        ReasoningEcho::SameTurn
    } else {
        ReasoningEcho::Always
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_model_generation_has_its_default_reasoning_echo() {
        for (model, expected) in [
            ("deepseek-flash", ReasoningEcho::Always),
            ("deepseek-v4-pro", ReasoningEcho::Always),
            ("one-that-is-not-known-yet", ReasoningEcho::Always),
            ("deepseek-ai/DeepSeek-V3.2", ReasoningEcho::SameTurn),
            ("deepseek-reasoner", ReasoningEcho::SameTurn),
            ("deepseek-ai/DeepSeek-R1-0528", ReasoningEcho::Never),
        ] {
            assert_eq!(default_echo(model), expected, "{model}");
        }
    }

    #[test]
    fn a_model_thinks_by_default_unless_known_otherwise() {
        assert!(Thinking::ModelDefault.is_on_for("deepseek-flash"));
        assert!(!Thinking::ModelDefault.is_on_for("deepseek-chat"));
        assert!(Thinking::On.is_on_for("deepseek-chat"));
        assert!(!Thinking::Off.is_on_for("deepseek-flash"));
    }
}
