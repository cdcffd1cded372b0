//! Whether and how long a model is asked to think, and which models do not accept that. How many tokens a budget leaves
//! for the answer is decided with the other settings, for each request.

use crate::config::{AnthropicConfig, Thinking};
use crate::model::ModelTraits;

/// Whether and how long a model thinks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ThinkingMode {
    Unspecified,
    Adaptive,
    /// With a budget of this many tokens.
    Budget(u32),
    Off,
}

impl ThinkingMode {
    /// Returns the mode that a configuration asks for.
    pub(super) const fn of(config: &AnthropicConfig) -> Self {
        match (config.thinking, config.thinking_budget) {
            (_, Some(budget)) => Self::Budget(budget),
            (Thinking::ModelDefault, None) => Self::Unspecified,
            (Thinking::Adaptive, None) => Self::Adaptive,
            (Thinking::Off, None) => Self::Off,
        }
    }

    /// Returns the warning if a model does not accept this mode, which is then omitted.
    pub(super) const fn refused_by(self, traits: ModelTraits) -> Option<&'static str> {
        match self {
            Self::Budget(_) if !traits.takes_budget && traits.is_adaptive => Some(
                "this model does not accept thinking_budget: it is omitted; set thinking = \"adaptive\" or effort instead",
            ),
            Self::Budget(_) if !traits.takes_budget => {
                Some("this model does not think: thinking_budget is omitted")
            }
            Self::Adaptive if !traits.is_adaptive && traits.takes_budget => Some(
                "this model does not accept thinking = \"adaptive\": it is omitted; set thinking_budget instead",
            ),
            Self::Adaptive if !traits.is_adaptive => {
                Some("this model does not think: thinking = \"adaptive\" is omitted")
            }
            Self::Off if !traits.can_stop_thinking => Some(
                "this model always thinks: thinking = \"off\" is omitted; set effort = \"low\" instead",
            ),
            _ => None,
        }
    }
}
