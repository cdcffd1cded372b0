//! Whether and how long a model is asked to think, and which models do not take that. How much room a budget leaves for
//! the answer is decided beside the other settings, request by request.

use crate::config::{AnthropicConfig, Thinking};
use crate::model::ModelTraits;

/// Whether and how long a model thinks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ThinkingMode {
    Unsaid,
    Adaptive,
    /// For as many tokens.
    Budget(u32),
    Off,
}

impl ThinkingMode {
    /// Returns what a configuration asks for.
    pub(super) const fn of(config: &AnthropicConfig) -> Self {
        match (config.thinking, config.thinking_budget) {
            (_, Some(budget)) => Self::Budget(budget),
            (Thinking::ModelDefault, None) => Self::Unsaid,
            (Thinking::Adaptive, None) => Self::Adaptive,
            (Thinking::Off, None) => Self::Off,
        }
    }

    /// Returns what is said where a model does not take this: it is left out.
    pub(super) const fn refused_by(self, traits: ModelTraits) -> Option<&'static str> {
        match self {
            Self::Budget(_) if !traits.takes_budget && traits.is_adaptive => Some(
                "this model takes no thinking_budget: it is left out; set thinking = \"adaptive\" or effort in its place",
            ),
            Self::Budget(_) if !traits.takes_budget => {
                Some("this model does not think: thinking_budget is left out")
            }
            Self::Adaptive if !traits.is_adaptive && traits.takes_budget => Some(
                "this model takes no thinking = \"adaptive\": it is left out; set thinking_budget in its place",
            ),
            Self::Adaptive if !traits.is_adaptive => {
                Some("this model does not think: thinking = \"adaptive\" is left out")
            }
            Self::Off if !traits.can_stop_thinking => Some(
                "this model always thinks: thinking = \"off\" is left out; set effort = \"low\" in its place",
            ),
            _ => None,
        }
    }
}
