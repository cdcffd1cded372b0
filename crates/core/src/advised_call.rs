//! What a program's own hooks said about a tool call before it was checked.
//!
//! The policy's result for a call is a [`Vetting`](crate::Vetting). A hook's answer between the steps of the loop is an
//! [`Advice`](crate::Advice).

use serde::{Deserialize, Serialize};

use crate::ids::ToolCallId;
use crate::json::{ContentHash, JsonText};

/// What a program's hooks said about a call. From the record that holds it onward, the hooks are not asked about the
/// call again, unless a user replaces its arguments.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AdvisedCall {
    /// The call.
    pub tool_call_id: ToolCallId,
    /// The arguments that a hook substituted for the ones it was shown. These are checked and run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<JsonText>,
    /// How the call proceeds.
    #[serde(flatten)]
    pub advice: CallAdvice,
    /// A keyed hash that lets an engine distinguish what its own hooks said from an entry that something else wrote
    /// into its store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<ContentHash>,
}

/// How a hook wants a call to proceed. The policy still judges the call, and the stricter result of the two applies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "advice", rename_all = "snake_case")]
#[non_exhaustive]
pub enum CallAdvice {
    /// Do what the policy says.
    Continue,
    /// A user must approve the call, even if the policy allows it.
    Ask {
        /// The reason, for the user.
        reason: String,
    },
    /// The call does not run, and the agent continues.
    Refuse {
        /// The reason, for the model.
        reason: String,
    },
    /// The call does not run, and the agent that made it ends; the text so far is kept.
    Stop {
        /// The reason, for the log.
        reason: String,
    },
}
