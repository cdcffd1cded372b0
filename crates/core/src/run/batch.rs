//! The tool calls of one reply, each on its way from asked for to settled.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::decision::{AskCause, GrantScope, RuleRef};
use crate::effect::Approved;
use crate::ids::{AgentId, Attempt, CallIndex, ContentIndex, EffectId, ToolCallId};
use crate::json::JsonText;
use crate::outcome::{ToolFailure, ToolOutcome};
use crate::record::{ApprovalRequested, Origin};
use crate::tool::{ToolClass, ToolKind};

/// The tool calls of one reply.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Batch {
    pub(super) content_index: ContentIndex,
    pub(super) calls: Vec<Call>,
}

/// One tool call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Call {
    pub(super) id: ToolCallId,
    pub(super) index: CallIndex,
    pub(super) name: Arc<str>,
    /// The final arguments: the model's, or those a person put in their place.
    pub(super) arguments: JsonText,
    pub(super) origin: Origin,
    /// A person approved exactly these arguments.
    pub(super) approved: Option<Approved>,
    /// Its result will be untrusted content, as governance found.
    pub(super) untrusted: bool,
    /// How far it was when the run was taken up, where it is checked anew because of that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) before: Option<Before>,
    pub(super) state: CallState,
}

/// How far a call was that is checked anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Before {
    /// It was found fit to run, and had not begun.
    Ready { class: ToolClass },
    /// It had begun, and nobody knows what came of it.
    Begun {
        effect_id: EffectId,
        attempt: Attempt,
        class: ToolClass,
    },
}

impl Before {
    /// Returns what the call may change, as far as that is on record.
    pub(super) const fn class(self) -> ToolClass {
        match self {
            Self::Ready { class } | Self::Begun { class, .. } => class,
        }
    }
}

/// How far a tool call is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) enum CallState {
    /// Nobody has looked at it yet.
    New,
    /// It is being checked.
    Vetting { effect_id: EffectId },
    /// A person has to decide.
    Asking {
        effect_id: EffectId,
        class: ToolClass,
        question: Box<Question>,
    },
    /// It may run when its turn comes.
    Ready { class: ToolClass },
    /// It runs; for a client's tool, the caller runs it.
    Running {
        effect_id: EffectId,
        attempt: Attempt,
        class: ToolClass,
        kind: ToolKind,
    },
    /// Its agents work on it.
    Delegated {
        effect_id: EffectId,
        attempt: Attempt,
        class: ToolClass,
        agents: Vec<AgentId>,
        /// The active time at which they were started.
        started: Duration,
    },
    /// It is the caller's to run, after this run.
    HandedOver,
    /// It has its result.
    Settled {
        value: JsonText,
        failure: Option<ToolFailure>,
    },
}

/// What a person is asked about a call, beside the call itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Question {
    pub(super) reason: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) causes: Vec<AskCause>,
    pub(super) rule: Option<RuleRef>,
    pub(super) choices: Vec<GrantScope>,
    pub(super) expires_at: Option<Timestamp>,
}

impl Call {
    /// Returns what stands on record of asking a person about this call.
    pub(super) fn requested(&self, effect_id: EffectId, question: &Question) -> ApprovalRequested {
        ApprovalRequested {
            effect_id,
            tool_call_id: self.id.clone(),
            name: self.name.clone(),
            arguments: self.arguments.clone(),
            arguments_hash: self.arguments.hash(),
            reason: question.reason.clone(),
            causes: question.causes.clone(),
            rule: question.rule.clone(),
            choices: question.choices.clone(),
            expires_at: question.expires_at,
        }
    }

    pub(super) const fn is_settled(&self) -> bool {
        matches!(self.state, CallState::Settled { .. })
    }

    /// Tells whether nothing more will happen to it in this run.
    pub(super) const fn is_over(&self) -> bool {
        matches!(
            self.state,
            CallState::Settled { .. } | CallState::HandedOver
        )
    }

    pub(super) fn settle(&mut self, outcome: &ToolOutcome) {
        self.state = CallState::Settled {
            value: outcome.output.value.clone(),
            failure: outcome.failure,
        };
    }

    pub(super) const fn failure(&self) -> Option<ToolFailure> {
        match &self.state {
            CallState::Settled { failure, .. } => *failure,
            _ => None,
        }
    }

    /// Returns the effect that is to answer for it.
    pub(super) const fn effect(&self) -> Option<EffectId> {
        match &self.state {
            CallState::Vetting { effect_id }
            | CallState::Asking { effect_id, .. }
            | CallState::Running { effect_id, .. }
            | CallState::Delegated { effect_id, .. } => Some(*effect_id),
            CallState::New
            | CallState::Ready { .. }
            | CallState::HandedOver
            | CallState::Settled { .. } => None,
        }
    }
}

impl Batch {
    pub(super) fn call_mut(&mut self, id: &ToolCallId) -> Option<&mut Call> {
        self.calls.iter_mut().find(|call| call.id == *id)
    }

    pub(super) fn call_of_effect(&mut self, effect: EffectId) -> Option<&mut Call> {
        self.calls
            .iter_mut()
            .find(|call| call.effect() == Some(effect))
    }

    pub(super) fn is_over(&self) -> bool {
        self.calls.iter().all(Call::is_over)
    }

    /// Tells whether a call failed, other than by reaching a limit.
    pub(super) fn has_failed(&self) -> bool {
        let mut failures = self.calls.iter().filter_map(Call::failure);
        failures.any(|failure| failure != ToolFailure::LimitReached)
    }
}
