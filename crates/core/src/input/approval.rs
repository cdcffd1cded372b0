//! User decisions about tool calls.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::decision::GrantScope;
use crate::ids::{InputId, ToolCallId};
use crate::json::{ContentHash, JsonText};

/// A user decided about a call, or the time to decide ran out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ApprovalDecided {
    /// The sender's id.
    pub id: InputId,
    /// The call.
    pub tool_call_id: ToolCallId,
    /// The hash of the arguments that the user was shown.
    pub arguments_hash: ContentHash,
    /// Whether the call may run, and with which arguments.
    #[serde(flatten)]
    pub decision: ApprovalDecision,
    /// Who decided, if known: a note, not proof of identity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// A keyed hash that lets an engine distinguish an approval that it accepted itself from one that something else
    /// wrote into its store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<ContentHash>,
    /// When the question expires, if an engine accepted the decision before that: the decision then counts however late
    /// the run receives it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub given_before: Option<Timestamp>,
}

impl ApprovalDecided {
    /// Returns the hash of the arguments that would run: those that were shown, or their replacement.
    #[must_use]
    pub fn final_arguments(&self) -> ContentHash {
        match &self.decision {
            ApprovalDecision::Approve {
                arguments: Some(edited),
                ..
            } => edited.hash(),
            _ => self.arguments_hash,
        }
    }
}

/// A user's decision about a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "decision", rename_all = "snake_case")]
pub enum ApprovalDecision {
    /// The call runs after its arguments have been checked again.
    Approve {
        /// Arguments to use instead of those shown; they are checked again.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        arguments: Option<JsonText>,
        /// Calls of the tool that may also run for the rest of the session, as far as the policy lets that be
        /// remembered.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        remember: Option<GrantScope>,
    },
    /// The call does not run; the model is told.
    Deny {
        /// The reason, for the model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// No decision came in time; this is not a denial by a user.
    Expired,
}

impl ApprovalDecision {
    /// The call may run as shown, this once.
    pub const APPROVE: Self = Self::Approve {
        arguments: None,
        remember: None,
    };

    /// The call may run with other arguments, this once.
    #[must_use]
    pub const fn approve_with(arguments: JsonText) -> Self {
        Self::Approve {
            arguments: Some(arguments),
            remember: None,
        }
    }

    /// The call may run as shown, and so may the given calls for the rest of the session.
    #[must_use]
    pub const fn approve_for_session(calls: GrantScope) -> Self {
        Self::Approve {
            arguments: None,
            remember: Some(calls),
        }
    }
}
