//! What people decide about tool calls.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::decision::GrantScope;
use crate::ids::{InputId, ToolCallId};
use crate::json::{ContentHash, JsonText};

/// A person decided about a call, or the time to decide ran out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ApprovalDecided {
    /// The sender's id.
    pub id: InputId,
    /// The call.
    pub tool_call_id: ToolCallId,
    /// The hash of the arguments that were shown.
    pub arguments_hash: ContentHash,
    /// Whether the call may run, and with which arguments.
    #[serde(flatten)]
    pub decision: ApprovalDecision,
    /// Who decided, where known: a note, not proof of an identity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The keyed hash by which an engine knows an approval that it took itself from one that was written into its store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<ContentHash>,
    /// When the question expires, where an engine took the decision before that: it counts, however late the run hears of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub given_before: Option<Timestamp>,
}

impl ApprovalDecided {
    /// Returns the hash of the arguments that would run: those that were shown, or those that were put in their place.
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

/// What a person decided about a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "decision", rename_all = "snake_case")]
pub enum ApprovalDecision {
    /// The call runs once its arguments were checked again.
    Approve {
        /// With these arguments instead of those shown; they are checked again.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        arguments: Option<JsonText>,
        /// And so may these calls of the tool, for the rest of the session, as far as policy lets that be remembered.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        remember: Option<GrantScope>,
    },
    /// The call does not run; the model is told so.
    Deny {
        /// Why, for the model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// Nobody decided in time: not a person's denial.
    Expired,
}

impl ApprovalDecision {
    /// It may run as it was shown, this once.
    pub const APPROVE: Self = Self::Approve {
        arguments: None,
        remember: None,
    };

    /// It may run with other arguments, this once.
    #[must_use]
    pub const fn approve_with(arguments: JsonText) -> Self {
        Self::Approve {
            arguments: Some(arguments),
            remember: None,
        }
    }

    /// It may run as it was shown, and so may these calls for the rest of the session.
    #[must_use]
    pub const fn approve_for_session(calls: GrantScope) -> Self {
        Self::Approve {
            arguments: None,
            remember: Some(calls),
        }
    }
}
