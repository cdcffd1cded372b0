//! Whether a call may run, why, and which rule says so.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::json::is_default;

/// Whether a call may run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Verdict {
    /// The call may run without asking.
    Allow,
    /// A user must approve it first.
    Ask {
        /// The reason, for users.
        reason: String,
        /// The reasons, for programs: what requires the approval, each kind once.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        causes: Vec<AskCause>,
        /// The rule that requires it; `None` if a mode does.
        #[serde(skip_serializing_if = "Option::is_none")]
        rule: Option<RuleRef>,
        /// How much of the answer may be remembered for the session.
        #[serde(skip_serializing_if = "is_default")]
        remember: Remember,
    },
    /// The call may not run, and a user cannot override this.
    Deny {
        /// The sentence that the model reads instead of a result.
        reason: String,
        /// The rule that denies it; `None` if a mode does.
        #[serde(skip_serializing_if = "Option::is_none")]
        rule: Option<RuleRef>,
    },
}

/// Why governance asks a user about a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AskCause {
    /// The mode of the request.
    Mode,
    /// A layer of the policy above the one that defines the mode.
    Layer,
    /// A rule.
    Rule,
    /// A rule that may apply to the call; what the call does cannot be determined for certain.
    UnclearRule,
    /// Untrusted content in the conversation. No rule lifts this.
    UntrustedContent,
}

/// A rule of the policy, with its name and source location.
///
/// Displayed as `NAME (SOURCE:LINE)`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RuleRef {
    /// The rule's name.
    pub name: Arc<str>,
    /// The file or other source that the rule was read from.
    pub source: Arc<str>,
    /// The line in the source, from 1; 0 if not known.
    #[serde(default, skip_serializing_if = "is_default")]
    pub line: u32,
}

impl fmt::Display for RuleRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}", self.name, self.source)?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
        }
        f.write_str(")")
    }
}

/// How much of a user's "allow" may be remembered for the session, in increasing order.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Remember {
    /// Nothing: every call asks again.
    #[default]
    Never,
    /// Calls that only read, and only from one host that the answer names.
    Hosts,
    /// Calls with exactly the same arguments, or with arguments that match the same pattern.
    Arguments,
    /// All calls of the tool.
    Tool,
}
