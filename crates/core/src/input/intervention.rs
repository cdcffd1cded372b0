//! What somebody says to a run at work: a message, its end, and that it goes on.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::finish::BudgetKind;
use crate::ids::{AgentId, EffectId, InputId};
use crate::json::is_default;
use crate::limits::Limits;
use crate::message::Message;

/// A message for a run at work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Steered {
    /// The sender's id.
    pub id: InputId,
    /// The message; a user message.
    pub message: Arc<Message>,
    /// The agent it is for.
    #[serde(default, skip_serializing_if = "is_default")]
    pub agent: AgentId,
}

impl Steered {
    /// A message for the agent that answers the user.
    #[must_use]
    pub const fn new(id: InputId, message: Arc<Message>) -> Self {
        Self {
            id,
            message,
            agent: AgentId::ROOT,
        }
    }
}

/// Somebody wants the run to end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cancelled {
    /// The sender's id.
    pub id: InputId,
    /// Why, for the log.
    pub reason: String,
    /// The agent that is to end, with all below it; the root agent for the whole run.
    #[serde(default, skip_serializing_if = "is_default")]
    pub agent: AgentId,
    /// The limit outside of the machine that makes the whole run end, if it is one: the run then ends as at any limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<BudgetKind>,
    /// The reply that it cuts off, as far as somebody has read it: it stays in the conversation, marked as interrupted. The
    /// driver fills this in; what a sender says here does not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<CutReply>,
    /// What the tool calls that it cuts off have printed, as far as somebody has read it: the model reads it with the error
    /// that stands in place of their results. The driver fills this in; what a sender says here does not count.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub printed: Vec<CutOutput>,
}

/// What a tool call had printed when it was cut off.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CutOutput {
    /// The attempt of the call.
    pub effect_id: EffectId,
    /// The end of what it had printed.
    pub text: String,
}

/// What a model had said of a reply when it was cut off.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CutReply {
    /// The model call.
    pub effect_id: EffectId,
    /// The text, as far as it had come.
    pub text: String,
}

impl Cancelled {
    /// A wish that the whole run end.
    #[must_use]
    pub fn new(id: InputId, reason: impl Into<String>) -> Self {
        Self {
            id,
            reason: reason.into(),
            agent: AgentId::ROOT,
            limit: None,
            cut: None,
            printed: Vec::new(),
        }
    }

    /// As [`new`](Self::new), because a limit outside of the machine is reached.
    #[must_use]
    pub fn at_limit(id: InputId, limit: BudgetKind) -> Self {
        let limit = Some(limit);
        Self {
            limit,
            ..Self::new(id, "a limit is reached")
        }
    }
}

/// A process took the run up again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Resumed {
    /// The sender's id.
    pub id: InputId,
    /// Why it had stopped, for the log.
    pub reason: String,
    /// What is checked anew.
    #[serde(default, skip_serializing_if = "is_default")]
    pub recheck: Recheck,
    /// What the run may use from here on, where that is less than is on record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<Box<Limits>>,
    /// Whether who had the run gave it back, as a process does that is told to stop: then it was not taken up in vain before.
    #[serde(default, skip_serializing_if = "is_default")]
    pub released: bool,
}

/// What is checked anew when a run is taken up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Recheck {
    /// Nothing: what is on record decides. So it is in logs of versions that did not look.
    #[default]
    Nothing,
    /// Every call before it starts or is made again: one that was found fit to run and waits for its turn, and one that
    /// had begun.
    Calls,
}

impl Resumed {
    /// Takes the run up as it is on record.
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

    /// Has every call checked anew before it starts or is made again.
    #[must_use]
    pub const fn checking_calls(mut self) -> Self {
        self.recheck = Recheck::Calls;
        self
    }
}
