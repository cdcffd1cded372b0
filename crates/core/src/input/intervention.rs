//! Interventions in a run in progress: steering it, cancelling it, and resuming it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::finish::BudgetKind;
use crate::ids::{AgentId, EffectId, InputId};
use crate::json::is_default;
use crate::limits::Limits;
use crate::message::Message;

/// A message for a run in progress.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Steered {
    /// The sender's id.
    pub id: InputId,
    /// The message, which must be a user message.
    pub message: Arc<Message>,
    /// The agent that receives it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub agent: AgentId,
    /// Who sent it, if known: a note, not proof of identity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

impl Steered {
    /// Creates a message for the agent that answers the user.
    #[must_use]
    pub const fn new(id: InputId, message: Arc<Message>) -> Self {
        Self {
            id,
            message,
            agent: AgentId::ROOT,
            by: None,
        }
    }

    /// Sets who sent it.
    #[must_use]
    pub fn by(mut self, by: Option<String>) -> Self {
        self.by = by;
        self
    }
}

/// A request to end the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cancelled {
    /// The sender's id.
    pub id: InputId,
    /// The reason, for the log.
    pub reason: String,
    /// The agent to end, with all agents below it; the root agent ends the whole run.
    #[serde(default, skip_serializing_if = "is_default")]
    pub agent: AgentId,
    /// The limit outside the machine that ends the whole run, if that is the cause: the run then ends as at any limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<BudgetKind>,
    /// The part of the interrupted reply that has been shown. It stays in the conversation, marked as interrupted. The
    /// driver fills this in and ignores the sender's value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<CutReply>,
    /// The part of the interrupted tool calls' output that has been shown. The model reads it with the error that
    /// replaces their results. The driver fills this in and ignores the sender's value.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub printed: Vec<CutOutput>,
    /// Who sent it, if known: a note, not proof of identity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// The output of a tool call when it was cut off.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CutOutput {
    /// The effect that ran the call.
    pub effect_id: EffectId,
    /// The end of its output.
    pub text: String,
}

/// The text of a model's reply when it was cut off.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CutReply {
    /// The model call.
    pub effect_id: EffectId,
    /// The text received so far.
    pub text: String,
}

impl Cancelled {
    /// Creates a request to end the whole run.
    #[must_use]
    pub fn new(id: InputId, reason: impl Into<String>) -> Self {
        Self {
            id,
            reason: reason.into(),
            agent: AgentId::ROOT,
            limit: None,
            cut: None,
            printed: Vec::new(),
            by: None,
        }
    }

    /// Sets who sent it.
    #[must_use]
    pub fn by(mut self, by: Option<String>) -> Self {
        self.by = by;
        self
    }

    /// Like [`new`](Self::new), for a limit outside the machine that was reached.
    #[must_use]
    pub fn at_limit(id: InputId, limit: BudgetKind) -> Self {
        let limit = Some(limit);
        Self {
            limit,
            ..Self::new(id, "a limit is reached")
        }
    }
}

/// A process resumed the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Resumed {
    /// The sender's id.
    pub id: InputId,
    /// Why the run had stopped, for the log.
    pub reason: String,
    /// What is checked again.
    #[serde(default, skip_serializing_if = "is_default")]
    pub recheck: Recheck,
    /// The run's limits from here on, if they are tighter than those on record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<Box<Limits>>,
    /// Whether the previous process released the run, as it does when told to stop. This resumption then does not count
    /// in [`RunTree::futile_resumes`](crate::RunTree::futile_resumes).
    #[serde(default, skip_serializing_if = "is_default")]
    pub released: bool,
}

/// What is checked again when a run is resumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Recheck {
    /// Nothing; what is on record decides. Logs of versions that did not check have this value.
    #[default]
    Nothing,
    /// Every call before it starts or is repeated: calls that were cleared to run and wait for their turn, and calls
    /// that had begun.
    Calls,
}

impl Resumed {
    /// Resumes the run as it is on record.
    #[must_use]
    pub fn new(id: InputId, reason: impl Into<String>) -> Self {
        Self {
            id,
            reason: reason.into(),
            recheck: Recheck::Nothing,
            limits: None,
            released: false,
        }
    }

    /// Requires every call to be checked again before it starts or is repeated.
    #[must_use]
    pub const fn checking_calls(mut self) -> Self {
        self.recheck = Recheck::Calls;
        self
    }
}
