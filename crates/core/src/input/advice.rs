//! The answers of the embedder's hooks.

use serde::{Deserialize, Serialize};

use crate::ids::{EffectId, ToolName};

/// The embedder's hook answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Advised {
    /// The effect that asked.
    pub effect_id: EffectId,
    /// How the agent should proceed.
    #[serde(flatten)]
    pub advice: Advice,
}

/// A hook's answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "advice", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Advice {
    /// Proceed as planned.
    Continue,
    /// Offer only these of the agent's tools in this turn. Only valid for [`Hook::ToolsSelected`](crate::Hook).
    Offer {
        /// The tools; names that the agent does not have are ignored.
        tools: Vec<ToolName>,
    },
    /// Reject the text as an answer: the model is told why and answers again, up to the number of times that
    /// [`AnswerRule`](crate::AnswerRule) allows. After that, the agent ends with
    /// [`FinishReason::InvalidAnswer`](crate::FinishReason::InvalidAnswer). Only valid for
    /// [`Hook::Answer`](crate::Hook).
    TurnDown {
        /// What is wrong with it and what to do, for the model.
        message: String,
    },
    /// Send the request with changes, which stay in the conversation. Only valid for [`Hook::Request`](crate::Hook).
    Amend {
        /// A replacement for the text of the last user message; its images and files stay.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
        /// System messages to add at the end.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        notes: Vec<String>,
    },
    /// Do not call the model: the agent ends with this reply and
    /// [`FinishReason::Refused`](crate::FinishReason::Refused). Only valid for [`Hook::Request`](crate::Hook).
    Refuse {
        /// The reply to the user.
        reply: String,
        /// The reason, stored in the record.
        reason: String,
    },
    /// End the loop; the text so far is kept.
    Stop {
        /// The embedder's reason, stored in the record.
        reason: String,
    },
}
