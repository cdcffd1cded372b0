//! What a decision says beside models, tools and limits: how to route, ask back, check, escalate, approve.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Remember;
use crate::duration;
use crate::ids::Role;

/// How hard a request seems: a sum of points for what stands in its text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Complexity {
    /// The sum of the points.
    pub score: u32,
    /// From how many points on a request is complex.
    pub threshold: u32,
    /// What gave points, with how many each.
    pub features: Vec<ComplexityFeature>,
}

impl Complexity {
    /// Tells whether the request is complex.
    #[must_use]
    pub const fn is_complex(&self) -> bool {
        self.score >= self.threshold
    }
}

/// Something in a request's text that makes it seem hard.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ComplexityFeature {
    /// What it is, such as `code`.
    pub name: String,
    /// How much of it there is.
    pub count: u32,
    /// The points it gives.
    pub points: u32,
}

/// A model that is to be asked which role serves. What it says is read by governance; if it fails, the decision's own
/// role holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Routing {
    /// The role that is asked.
    pub asks: Role,
    /// What it is asked; the user's message follows as a message of its own.
    pub prompt: String,
    /// The roles it can choose from.
    pub choices: Vec<Role>,
    /// The most tokens of its reply.
    pub max_output_tokens: u32,
}

/// A question that is the reply to a request that is too vague to work on.
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
    /// What it is told.
    pub prompt: String,
    /// Why it is done.
    pub reason: String,
}

/// Who takes over when it does not go well.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Escalation {
    /// The larger role, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// How many failures in a row it takes.
    pub after_failures: u32,
    /// Whether a person is asked once the larger role fails too.
    #[serde(default)]
    pub person: bool,
}

/// How people's approvals are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ApprovalPolicy {
    /// How long a question stays open; for good if there is no limit.
    #[serde(
        default,
        rename = "expires_after_ms",
        skip_serializing_if = "Option::is_none",
        with = "duration::optional_millis"
    )]
    #[cfg_attr(feature = "schema", schemars(with = "Option<u64>"))]
    pub expires_after: Option<Duration>,
    /// The most that an answer may be remembered.
    #[serde(default)]
    pub remember: Remember,
}

/// What a budget is for.
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

/// What a budget counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum BudgetMeasure {
    /// Tokens of model calls.
    Tokens,
    /// Money.
    Cost,
    /// Active time.
    Time,
    /// Tool calls.
    ToolCalls,
}

/// A budget that is used up before the run began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SpentBudget {
    /// What it is for.
    pub scope: BudgetScope,
    /// What is used up.
    pub measure: BudgetMeasure,
    /// What the user is told.
    pub reply: String,
}
