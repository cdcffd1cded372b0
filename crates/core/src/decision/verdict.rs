//! Whether a call may run, why, and which rule says so.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::json::is_default;

/// Whether a call may run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Verdict {
    /// The call may run, and nobody is asked.
    Allow,
    /// A person has to say so first.
    Ask {
        /// Why, for people.
        reason: String,
        /// Why, for programs: what asks, each kind once.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        causes: Vec<AskCause>,
        /// The rule that says so; none where a mode does.
        #[serde(skip_serializing_if = "Option::is_none")]
        rule: Option<RuleRef>,
        /// How much of the answer may be remembered for the session.
        #[serde(skip_serializing_if = "is_default")]
        remember: Remember,
    },
    /// It may not, whatever a person says.
    Deny {
        /// The sentence that the model reads in place of a result.
        reason: String,
        /// The rule that says so; none where a mode does.
        #[serde(skip_serializing_if = "Option::is_none")]
        rule: Option<RuleRef>,
    },
}

/// What makes governance ask a person about a call.
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
    /// A rule that may concern the call; what the call does cannot be told for certain.
    UnclearRule,
    /// Untrusted content in the conversation. No rule lifts that.
    UntrustedContent,
}

/// A rule of the policy, by its name and the place where it is written.
///
/// Written out it is `NAME (SOURCE:LINE)`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RuleRef {
    /// The rule's name.
    pub name: Arc<str>,
    /// The file, or what else the rule was read from.
    pub source: Arc<str>,
    /// The line there, from 1; 0 where it is not known.
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

/// How much of a person's "allow" may be remembered for the session, from nothing to the most.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Remember {
    /// Nothing: every call asks again.
    #[default]
    Never,
    /// Calls that only read, and from one host that the answer names.
    Hosts,
    /// Calls with the very same arguments, or with arguments that fit the same pattern.
    Arguments,
    /// All calls of the tool.
    Tool,
}
