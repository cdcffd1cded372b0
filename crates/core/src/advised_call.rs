//! What a program's own hooks said of a tool call before it was checked.
//!
//! Not for what the policy says of it, which is a [`Vetting`](crate::Vetting), nor for what a hook says between the steps of
//! the loop, which is an [`Advice`](crate::Advice).

use serde::{Deserialize, Serialize};

use crate::ids::ToolCallId;
use crate::json::{ContentHash, JsonText};

/// What the hooks of a program said of a call: from the record on that holds it they are not asked about the call again,
/// unless a person puts other arguments in their place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AdvisedCall {
    /// The call.
    pub tool_call_id: ToolCallId,
    /// The arguments that a hook put in place of those it was shown. They are what was checked, and what runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<JsonText>,
    /// How the call goes on.
    #[serde(flatten)]
    pub advice: CallAdvice,
    /// The keyed hash by which an engine knows what its own hooks said from what was written into its store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<ContentHash>,
}

/// How a call goes on, as a hook wants it. The policy judges the call all the same, and of both the stricter holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "advice", rename_all = "snake_case")]
#[non_exhaustive]
pub enum CallAdvice {
    /// As the policy says.
    Continue,
    /// A person has to approve it, be it that the policy lets it run.
    Ask {
        /// Why, for the person.
        reason: String,
    },
    /// It is not run, and the agent goes on.
    Refuse {
        /// Why, for the model.
        reason: String,
    },
    /// It is not run, and the agent that calls ends; the text so far is kept.
    Stop {
        /// Why, for the log.
        reason: String,
    },
}
