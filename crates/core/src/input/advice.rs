//! What the embedder's hooks answer.

use serde::{Deserialize, Serialize};

use crate::ids::{EffectId, ToolName};

/// The embedder's hook answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Advised {
    /// The effect that asked.
    pub effect_id: EffectId,
    /// How the agent goes on.
    #[serde(flatten)]
    pub advice: Advice,
}

/// What a hook says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "advice", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Advice {
    /// Go on as planned.
    Continue,
    /// Offer only these of the agent's tools in this turn. An answer to [`Hook::ToolsSelected`](crate::Hook) alone.
    Offer {
        /// The tools; names the agent does not have are left out.
        tools: Vec<ToolName>,
    },
    /// The text is not the answer: the model is told why and answers again, as often as [`AnswerRule`](crate::AnswerRule)
    /// says; after that the agent ends with [`FinishReason::InvalidAnswer`](crate::FinishReason::InvalidAnswer). An answer
    /// to [`Hook::Answer`](crate::Hook) alone.
    TurnDown {
        /// What is wrong with it and what to do, for the model.
        message: String,
    },
    /// Send the request with changes, which stay in the conversation. An answer to [`Hook::Request`](crate::Hook) alone.
    Amend {
        /// What takes the place of the text of the last user message; its images and files stay.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
        /// System messages that are added at the end.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        notes: Vec<String>,
    },
    /// Do not ask the model: the agent ends with this reply and [`FinishReason::Refused`](crate::FinishReason::Refused). An
    /// answer to [`Hook::Request`](crate::Hook) alone.
    Refuse {
        /// What the user is told.
        reply: String,
        /// Why, kept in the record.
        reason: String,
    },
    /// End the loop; the text so far is kept.
    Stop {
        /// The embedder's words, kept in the record.
        reason: String,
    },
}
