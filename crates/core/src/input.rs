//! The inputs of the machine: what happened outside it.
//!
//! Every input has an id: the effect it answers plus the attempt, or one that its sender chose. A duplicate, or an
//! answer to a settled effect, changes nothing; an impossible input is an [`InputError`](crate::InputError).

mod advice;
mod approval;
mod intervention;
mod vetting;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::duration::whole_millis;
use crate::error::LlmError;
use crate::ids::{Attempt, EffectId, InputId, Role};
use crate::limits::MicroUsd;
use crate::message::ModelRef;
use crate::outcome::ToolOutcome;
use crate::record::RoleDowngraded;
use crate::reply::Reply;
use crate::usage::CountLabel;
pub use advice::{Advice, Advised};
pub use approval::{ApprovalDecided, ApprovalDecision};
pub use intervention::{Cancelled, CutOutput, CutReply, Recheck, Resumed, Steered};
pub use vetting::{Vetted, Vetting};

/// When an input arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// The wall-clock time, in whole milliseconds.
    pub at: Timestamp,
    /// How long the run has been active, in whole milliseconds; waiting for a user does not count.
    pub active_elapsed: Duration,
}

impl Stamp {
    /// Creates a stamp; both times are truncated to whole milliseconds, the precision of a record.
    #[must_use]
    pub fn new(at: Timestamp, active_elapsed: Duration) -> Self {
        let at = Timestamp::from_millisecond(at.as_millisecond()).unwrap_or(at);
        Self {
            at,
            active_elapsed: Duration::from_millis(whole_millis(active_elapsed)),
        }
    }
}

/// Something that happened outside.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// A model call returned a reply.
    ModelReplied(ModelReplied),
    /// An attempt of a model call failed.
    ModelFailed(ModelFailed),
    /// A batch of calls was checked.
    Vetted(Vetted),
    /// A tool call ended.
    ToolFinished(ToolFinished),
    /// A user decided about a call, or the time to decide ran out.
    ApprovalDecided(ApprovalDecided),
    /// The embedder's hook answered.
    Advised(Advised),
    /// A message for a run in progress; it joins the conversation after the current tool batch.
    Steered(Steered),
    /// A request to end the run.
    Cancelled(Cancelled),
    /// A process resumed the run after a crash or a wait. Effects in progress are requested again; those that must not
    /// run twice are settled as unknown.
    Resumed(Resumed),
    /// Time passed. Before the step's `wake_at` it changes nothing.
    TimePassed,
}

impl Input {
    /// Returns the effect that this input answers by id, if any.
    pub(crate) const fn effect(&self) -> Option<EffectId> {
        match self {
            Self::ModelReplied(replied) => Some(replied.effect_id),
            Self::ModelFailed(failed) => Some(failed.effect_id),
            Self::Vetted(vetted) => Some(vetted.effect_id),
            Self::ToolFinished(finished) => Some(finished.effect_id),
            Self::Advised(advised) => Some(advised.effect_id),
            Self::ApprovalDecided(_)
            | Self::Steered(_)
            | Self::Cancelled(_)
            | Self::Resumed(_)
            | Self::TimePassed => None,
        }
    }

    /// Returns the id that the sender of the input chose, if it chose one.
    pub(crate) const fn chosen_id(&self) -> Option<&InputId> {
        match self {
            Self::ApprovalDecided(decided) => Some(&decided.id),
            Self::Steered(steered) => Some(&steered.id),
            Self::Cancelled(cancelled) => Some(&cancelled.id),
            Self::Resumed(resumed) => Some(&resumed.id),
            Self::ModelReplied(_)
            | Self::ModelFailed(_)
            | Self::Vetted(_)
            | Self::ToolFinished(_)
            | Self::Advised(_)
            | Self::TimePassed => None,
        }
    }

    /// Returns the kind of input, as the name of its record.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::ModelReplied(_) => "llm_call",
            Self::ModelFailed(_) => "llm_failed",
            Self::Vetted(_) => "verdict",
            Self::ToolFinished(_) => "tool_result",
            Self::ApprovalDecided(_) => "approval_decided",
            Self::Advised(_) => "advised",
            Self::Steered(_) => "steered",
            Self::Cancelled(_) => "cancelled",
            Self::Resumed(_) => "resumed",
            Self::TimePassed => "limit_reached",
        }
    }
}

/// A model call returned a reply.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelReplied {
    /// The call.
    pub effect_id: EffectId,
    /// The attempt that succeeded.
    pub attempt: Attempt,
    /// The reply; shared with its record.
    pub reply: Arc<Reply>,
    /// The role that served it, which may differ from the requested one.
    pub served_by: Role,
    /// Why another role served, unless this follows from configuration.
    pub downgraded: Option<Box<RoleDowngraded>>,
    /// Its cost, if prices are known.
    pub cost: Option<MicroUsd>,
    /// How the cost was determined.
    pub cost_label: CountLabel,
    /// How long it took.
    pub duration: Duration,
    /// How long its first delta took, if it was streamed.
    pub first_delta: Option<Duration>,
}

/// An attempt of a model call failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelFailed {
    /// The call.
    pub effect_id: EffectId,
    /// The attempt that failed.
    pub attempt: Attempt,
    /// The provider's or the connection's error.
    pub error: LlmError,
    /// Whether the driver tries again.
    pub next: NextAttempt,
    /// The role that failed.
    pub served_by: Role,
    /// Why it differs from the requested role, unless this follows from configuration.
    pub downgraded: Option<Box<RoleDowngraded>>,
    /// Set if the role is degraded from now on: the reason.
    pub degraded: Option<String>,
    /// Its cost, if prices are known and the provider reported the usage.
    pub cost: Option<MicroUsd>,
    /// How the cost was determined.
    pub cost_label: CountLabel,
    /// The model that was called, if any.
    pub model: Option<Box<ModelRef>>,
    /// How long it took.
    pub duration: Duration,
}

/// Whether another attempt follows a failed one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum NextAttempt {
    /// Another attempt follows, unless the agent ends first: this attempt did not end the call.
    Follows,
    /// No attempt follows: the call has failed.
    None,
}

/// A tool call ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolFinished {
    /// The effect that ran it; for a client's tool, the one named when the run began to wait.
    pub effect_id: EffectId,
    /// The attempt that ended.
    pub attempt: Attempt,
    /// The result.
    pub outcome: ToolOutcome,
    /// How long it took.
    pub duration: Duration,
    /// Who sent the result of a client's tool, if known: a note, not proof of identity.
    pub by: Option<String>,
}
