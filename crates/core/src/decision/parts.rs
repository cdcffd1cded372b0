//! The parts of a decision other than models, tools and limits: routing, clarification, self-check, escalation and
//! approval.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Remember;
use crate::duration;
use crate::ids::Role;
use crate::limits::BudgetMeasure;

/// How hard a request seems: a sum of points for features of its text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Complexity {
    /// The sum of the points.
    pub score: u32,
    /// The number of points at which a request is treated as complex.
    pub threshold: u32,
    /// The features that gave points, with the points of each.
    pub features: Vec<ComplexityFeature>,
}

impl Complexity {
    /// Returns whether the request is complex.
    #[must_use]
    pub const fn is_complex(&self) -> bool {
        self.score >= self.threshold
    }
}

/// A feature of a request's text that makes it seem hard.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ComplexityFeature {
    /// Its name, such as `code`.
    pub name: String,
    /// How much of it there is; for most features, how often it occurs.
    pub count: u32,
    /// The points it gives.
    pub points: u32,
}

/// A model to ask which role serves a request. Governance reads its reply; if the model fails, the decision's own role
/// applies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Routing {
    /// The role to ask.
    pub asks: Role,
    /// The prompt; the user's message follows as a separate message.
    pub prompt: String,
    /// The roles it can choose from.
    pub choices: Vec<Role>,
    /// Maximum number of tokens in its reply.
    pub max_output_tokens: u32,
}

/// A question to reply with when a request is too vague to work on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Clarification {
    /// The question.
    pub question: String,
    /// Why it is asked.
    pub reason: String,
}

/// A check of the draft by a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SelfCheck {
    /// The role that checks.
    pub role: Role,
    /// The prompt for the check.
    pub prompt: String,
    /// Why the check is made.
    pub reason: String,
}

/// Who takes over when a run does not go well.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Escalation {
    /// The larger role, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// How many consecutive failures trigger it.
    pub after_failures: u32,
    /// Whether a user is asked if the larger role also fails.
    #[serde(default)]
    pub person: bool,
}

/// How user approvals are requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ApprovalPolicy {
    /// How long a question stays open; `None` means indefinitely.
    #[serde(
        default,
        rename = "expires_after_ms",
        skip_serializing_if = "Option::is_none",
        with = "duration::optional_millis"
    )]
    #[cfg_attr(feature = "schema", schemars(with = "Option<u64>"))]
    pub expires_after: Option<Duration>,
    /// The broadest scope that an answer may be remembered for.
    #[serde(default)]
    pub remember: Remember,
}

/// The scope of a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum BudgetScope {
    /// One run.
    Run,
    /// All runs of a session.
    Session,
    /// All runs of a key or user on one day.
    Day,
}

/// A budget that was used up before the run began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SpentBudget {
    /// Its scope.
    pub scope: BudgetScope,
    /// The measure that is used up.
    pub measure: BudgetMeasure,
    /// The reply to the user.
    pub reply: String,
}
