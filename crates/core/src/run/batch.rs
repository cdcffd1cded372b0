//! The tool calls of one reply, from request to result.

use std::sync::Arc;
use std::time::Duration;

use crate::advised_call::AdvisedCall;
use crate::effect::Approved;
use crate::error::InputError;
use crate::ids::{AgentId, Attempt, CallIndex, ContentIndex, EffectId, ToolCallId};
use crate::json::{JsonText, without_fence};
use crate::message::Message;
use crate::outcome::ToolFailure;
use crate::profile::{Arguments, Parallel};
use crate::record::{ApprovalRequested, Origin, ToolCallStarted};
use crate::tool::{ToolClass, ToolKind};

/// The tool calls of one reply.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Batch {
    pub(super) content_index: ContentIndex,
    pub(super) calls: Vec<Call>,
    /// Whether the program's code wants a reply other than this one. The calls did not run, but this does not count as
    /// their failure.
    pub(super) turned_down: bool,
}

/// One tool call.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Call {
    pub(super) id: ToolCallId,
    pub(super) index: CallIndex,
    pub(super) name: Arc<str>,
    /// The final arguments: the model's, or those that a user substituted.
    pub(super) arguments: JsonText,
    pub(super) origin: Origin,
    /// A user's approval of exactly these arguments.
    pub(super) approved: Option<Box<Approved>>,
    /// What the program's hooks said about exactly these arguments.
    pub(super) advised: Option<Box<AdvisedCall>>,
    /// Whether governance found that its result will be untrusted content.
    pub(super) untrusted: bool,
    /// How far it was when the run was resumed, if it is being checked again because of that.
    pub(super) before: Option<Before>,
    /// Its output up to when it was cut off; kept from the request to end the run until the call has its result.
    pub(super) printed: Option<String>,
    pub(super) state: CallState,
}

/// A call that began: its effect, its latest attempt, and what it may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Begun {
    pub(super) effect_id: EffectId,
    pub(super) attempt: Attempt,
    pub(super) class: ToolClass,
}

/// How far a call was that is being checked again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Before {
    /// It was cleared to run, and had not begun.
    Ready { class: ToolClass },
    /// It had begun, and its outcome is unknown.
    Begun(Begun),
}

impl Before {
    /// Returns what the call may change, according to the log.
    pub(super) const fn class(self) -> ToolClass {
        match self {
            Self::Ready { class } | Self::Begun(Begun { class, .. }) => class,
        }
    }
}

/// The state of a tool call.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum CallState {
    /// It has not been checked yet.
    New,
    /// It is being checked.
    Vetting { effect_id: EffectId },
    /// A user must decide.
    Asking {
        class: ToolClass,
        asked: Box<ApprovalRequested>,
    },
    /// It may run when it is its turn.
    Ready { class: ToolClass },
    /// It is running; a client's tool is run by the caller.
    Running { begun: Begun, kind: ToolKind },
    /// Its agents are working on it.
    Delegated {
        begun: Begun,
        agents: Vec<AgentId>,
        /// The active time at which they were started.
        started: Duration,
    },
    /// The caller runs it after this run.
    HandedOver,
    /// It has its result.
    Settled { failure: Option<ToolFailure> },
}

impl Call {
    pub(super) const fn is_settled(&self) -> bool {
        matches!(self.state, CallState::Settled { .. })
    }

    /// Returns whether nothing more will happen to it in this run.
    pub(super) const fn is_finished(&self) -> bool {
        matches!(
            self.state,
            CallState::Settled { .. } | CallState::HandedOver
        )
    }

    /// Returns the journal entry of a running call.
    pub(super) fn started(&self) -> Option<ToolCallStarted> {
        let (begun, kind, agents) = match &self.state {
            CallState::Running { begun, kind } => (begun, *kind, Vec::new()),
            CallState::Delegated { begun, agents, .. } => (begun, ToolKind::Agent, agents.clone()),
            _ => return None,
        };
        Some(ToolCallStarted {
            tool_call_id: self.id.clone(),
            name: self.name.clone(),
            index: self.index,
            effect_id: begun.effect_id,
            attempt: begun.attempt,
            arguments: self.arguments.clone(),
            arguments_hash: self.arguments.hash(),
            class: begun.class,
            kind,
            origin: self.origin,
            agents,
        })
    }

    fn went_wrong(&self) -> bool {
        self.failure().is_some_and(|failure| {
            failure.is_of_the_tool()
                || matches!(
                    failure,
                    ToolFailure::InvalidArguments | ToolFailure::UnknownTool
                )
        })
    }

    /// Returns the name truncated for display: a model may write anything.
    pub(super) fn shown_name(&self) -> String {
        shown(&self.name)
    }

    pub(super) const fn failure(&self) -> Option<ToolFailure> {
        match &self.state {
            CallState::Settled { failure } => *failure,
            _ => None,
        }
    }

    /// Returns the effect whose answer it is waiting for.
    pub(super) fn effect(&self) -> Option<EffectId> {
        match &self.state {
            CallState::Asking { asked, .. } => Some(asked.effect_id),
            CallState::Vetting { effect_id } => Some(*effect_id),
            CallState::Running { begun, .. } | CallState::Delegated { begun, .. } => {
                Some(begun.effect_id)
            }
            CallState::New
            | CallState::Ready { .. }
            | CallState::HandedOver
            | CallState::Settled { .. } => None,
        }
    }
}

impl Batch {
    /// Creates the batch of a reply's calls, all unchecked.
    pub(super) fn of(
        reply: &Message,
        origin: Origin,
        rule: Arguments,
        content_index: ContentIndex,
    ) -> Self {
        // Exact capacity: a run that waits for its tools, or for a user, keeps the list in memory.
        let mut calls = Vec::with_capacity(reply.tool_calls().count());
        calls.extend(reply.tool_calls().zip(0..).map(|(call, index)| Call {
            id: call.id.clone(),
            index: CallIndex(index),
            name: call.name.clone(),
            arguments: preprocessed(rule, &call.arguments),
            origin,
            approved: None,
            advised: None,
            untrusted: false,
            before: None,
            printed: None,
            state: CallState::New,
        }));
        Self {
            content_index,
            calls,
            turned_down: false,
        }
    }

    /// Returns the call at an index.
    pub(super) fn call(&mut self, index: CallIndex) -> Result<&mut Call, InputError> {
        let call = self.calls.get_mut(place(index));
        call.ok_or(InputError::Inconsistent("a call is missing"))
    }

    /// Returns the index of a call.
    pub(super) fn index_of(&self, id: &ToolCallId) -> Option<CallIndex> {
        let call = self.calls.iter().find(|call| call.id == *id);
        call.map(|call| call.index)
    }

    /// Returns the first call that is waiting for this effect.
    pub(super) fn of_effect(&self, effect: EffectId) -> Option<&Call> {
        let mut calls = self.calls.iter();
        calls.find(|call| call.effect() == Some(effect))
    }

    /// Returns the indexes of the calls that satisfy a predicate.
    pub(super) fn places(&self, holds: impl Fn(&Call) -> bool) -> Vec<CallIndex> {
        let calls = self.calls.iter().filter(|call| holds(call));
        calls.map(|call| call.index).collect()
    }

    pub(super) fn is_finished(&self) -> bool {
        self.calls.iter().all(Call::is_finished)
    }

    /// Returns the first call that failed, other than by reaching a limit or with a rejected reply. An abandoned call,
    /// such as those that another call's failure leaves behind, is returned only if all failed calls were abandoned.
    pub(super) fn failed(&self) -> Option<&Call> {
        let is_failed = |call: &&Call| {
            let failure = call.failure();
            failure.is_some_and(|failure| failure != ToolFailure::LimitReached)
        };
        let failed = self.calls.iter().filter(is_failed);
        let first = failed.min_by_key(|call| call.failure() == Some(ToolFailure::Cancelled));
        first.filter(|_| !self.turned_down)
    }

    /// Returns whether one of the calls named a nonexistent tool.
    pub(super) fn had_unknown(&self) -> bool {
        let mut calls = self.calls.iter();
        calls.any(|call| call.failure() == Some(ToolFailure::UnknownTool))
    }

    /// Returns whether every call failed, either in the tool or because of how the model called it.
    pub(super) fn is_all_failed(&self) -> bool {
        self.calls.iter().all(Call::went_wrong)
    }

    /// Returns whether the caller must run one of the calls after this run.
    pub(super) fn is_handed_over(&self) -> bool {
        let mut calls = self.calls.iter();
        calls.any(|call| matches!(call.state, CallState::HandedOver))
    }

    /// Returns the calls that may start now, in call order (loop rule 1).
    pub(super) fn startable(&self, parallel: Parallel) -> Vec<CallIndex> {
        let mut startable = Vec::new();
        let mut all_over = true;
        let mut only_reading = true;
        for call in &self.calls {
            if let CallState::Ready { class } = call.state {
                let reads = class == ToolClass::ReadOnly;
                let may_start = match parallel {
                    Parallel::All => true,
                    Parallel::Auto => all_over || (reads && only_reading),
                    Parallel::None => all_over,
                };
                if may_start {
                    startable.push(call.index);
                }
            }
            all_over &= call.is_finished();
            only_reading &= call.is_finished() || call.state.is_read_only();
        }
        startable
    }
}

impl CallState {
    const fn is_read_only(&self) -> bool {
        let class = match self {
            Self::Ready { class } => *class,
            Self::Running { begun, .. } | Self::Delegated { begun, .. } => begun.class,
            _ => return false,
        };
        matches!(class, ToolClass::ReadOnly)
    }
}

/// Returns the first 64 characters of a tool's name as a model wrote it.
pub(super) fn shown(name: &str) -> String {
    name.chars().take(64).collect()
}

fn place(index: CallIndex) -> usize {
    usize::try_from(index.0).unwrap_or(usize::MAX)
}

/// Returns the arguments in the form that is checked and run; what the model wrote stays in the history.
fn preprocessed(rule: Arguments, written: &JsonText) -> JsonText {
    match rule {
        Arguments::AsWritten => written.clone(),
        Arguments::Lenient => lenient(written),
    }
}

fn lenient(written: &JsonText) -> JsonText {
    let text = without_fence(written.as_str());
    if text.is_empty() {
        return JsonText::from_text("{}");
    }
    match serde_json::from_str::<String>(text) {
        Ok(inner) if inner.trim_start().starts_with('{') => JsonText::from_text(inner),
        _ if text.len() == written.as_str().len() => written.clone(),
        _ => JsonText::from_text(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_argument_mistakes_of_small_models_are_corrected() {
        for (written, meant) in [
            ("", "{}"),
            ("  ", "{}"),
            ("{\"a\":1}", "{\"a\":1}"),
            ("```json\n{\"a\":1}\n```", "{\"a\":1}"),
            ("```{\"a\":1}```", "{\"a\":1}"),
            (r#""{\"a\":1}""#, "{\"a\":1}"),
            // Not corrected by guessing: the model gets an error.
            ("[1]", "[1]"),
            ("\"x\"", "\"x\""),
            ("{\"a\":", "{\"a\":"),
        ] {
            let written = JsonText::from_text(written);
            assert_eq!(preprocessed(Arguments::Lenient, &written).as_str(), meant);
            assert_eq!(preprocessed(Arguments::AsWritten, &written), written);
        }
    }
}
