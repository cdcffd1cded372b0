//! Which calls of a batch run now (loop rule 1), and how a call starts, for the first time or again.

use std::sync::Arc;

use super::Next;
use super::agent_step::AgentStep;
use super::batch::{Begun, Call, CallState};
use crate::effect::{Effect, RunTool};
use crate::error::InputError;
use crate::ids::{AgentId, Attempt, CallIndex};
use crate::outcome::{ToolFailure, ToolOutcome};
use crate::profile::ToolErrors;
use crate::record::RecordBody;
use crate::spec::ClientTools;
use crate::tool::{ToolKind, ToolSpec};

impl AgentStep<'_> {
    /// Determines which calls may run now; once all have results, the batch is complete.
    pub(super) fn schedule(&mut self) -> Result<Next, InputError> {
        let profile = &self.spec.profile;
        let Some(batch) = self.agent.batch() else {
            // Sub-agents that ended immediately may have completed the batch already.
            return Ok(Next::Wait);
        };
        if profile.tool_errors == ToolErrors::Stop && batch.failed().is_some() {
            let unstarted = |call: &Call| {
                let state = &call.state;
                matches!(state, CallState::Ready { .. } | CallState::Asking { .. })
            };
            let message = self.texts.calls.other_failed;
            self.refuse_each(unstarted, ToolFailure::Cancelled, message)?;
        }
        let batch = self.batch()?;
        let startable = batch.startable(profile.parallel);
        Ok(if !startable.is_empty() {
            Next::Start(startable)
        } else if batch.is_finished() {
            Next::BatchOver
        } else {
            Next::Wait
        })
    }

    /// Starts calls that may run at the same time. One may end at the moment it would start and let another run, so the
    /// calls are examined again afterwards.
    pub(super) fn start_calls(&mut self, calls: Vec<CallIndex>) -> Result<Next, InputError> {
        let mut calls = calls.into_iter();
        while let Some(call) = calls.next() {
            if self.start_call(call)? == Starts::Agents {
                let rest = Next::Start(calls.collect());
                self.step.todo.push((self.agent.id, rest));
                return Ok(Next::StartAgents(call));
            }
        }
        Ok(Next::Schedule)
    }

    /// Starts a call if it has not started yet, unless agents are to work on it.
    fn start_call(&mut self, index: CallIndex) -> Result<Starts, InputError> {
        let hands_over = self.run.client_tools == ClientTools::HandOver;
        let (id, spec, texts) = (self.agent.id, self.spec, &self.texts.calls);
        let call = self.agent.batch_mut().map(|batch| batch.call(index));
        // Sub-agents that ended immediately may have let it run already, or completed the batch.
        let Some(call) = call.transpose()? else {
            return Ok(Starts::Here);
        };
        let CallState::Ready { class } = call.state else {
            return Ok(Starts::Here);
        };
        let Some(tool) = spec.tool(&call.name) else {
            self.refuse(index, ToolFailure::NotEnabled, texts.not_in_run)?;
            return Ok(Starts::Here);
        };
        match tool.kind {
            ToolKind::Agent => return Ok(Starts::Agents),
            // Only the root agent's calls can be handed over, because the run ends with them.
            ToolKind::Client if hands_over && id == AgentId::ROOT => {
                call.state = CallState::HandedOver;
            }
            // A sub-agent's call cannot be handed over, and the run does not wait for results: nothing can run it.
            ToolKind::Client if hands_over => {
                self.refuse(index, ToolFailure::NotEnabled, texts.not_in_run)?;
            }
            // A result would end the run, because its log cannot be replayed.
            ToolKind::Client if self.run.withheld().is_some() => {
                self.refuse(index, ToolFailure::NotEnabled, texts.client_cannot_wait)?;
            }
            kind @ (ToolKind::Server | ToolKind::Client) => {
                let begun = Begun {
                    effect_id: self.step.new_effect(),
                    attempt: Attempt(1),
                    class,
                };
                self.run_call(index, tool, begun, kind)?;
            }
        }
        Ok(Starts::Here)
    }

    /// Marks a call as running, requests it unless the caller runs it, and journals it first.
    fn run_call(
        &mut self,
        index: CallIndex,
        tool: &ToolSpec,
        begun: Begun,
        kind: ToolKind,
    ) -> Result<(), InputError> {
        let (agent, turn) = (self.agent.id, self.agent.turn);
        let timeout = self.spec.limits.time_of_call(tool.timeout);
        let batch = self.batch()?;
        let content_index = batch.content_index;
        let call = batch.call(index)?;
        call.state = CallState::Running { begun, kind };
        if kind == ToolKind::Server {
            let run = RunTool {
                effect_id: begun.effect_id,
                attempt: begun.attempt,
                agent,
                turn,
                content_index,
                tool_call_id: call.id.clone(),
                name: tool.name.clone(),
                index,
                arguments: call.arguments.clone(),
                class: begun.class,
                timeout,
            };
            self.step.effects.push(Effect::RunTool(run));
        }
        self.journal(index)
    }

    /// Records that a call is about to run.
    pub(super) fn journal(&mut self, index: CallIndex) -> Result<(), InputError> {
        let started = self.batch()?.call(index)?.started();
        let started = started.ok_or(InputError::Inconsistent(
            "a call is journaled that is not running",
        ))?;
        self.record_in_batch(RecordBody::ToolCall(Box::new(started)));
        Ok(())
    }

    /// Handles a call that was in progress when the process died: it runs again only if its class allows; otherwise the
    /// model is told that its outcome is unknown.
    pub(super) fn rerun_or_give_up(
        &mut self,
        index: CallIndex,
        begun: Begun,
        untrusted: bool,
    ) -> Result<(), InputError> {
        let call = self.batch()?.call(index)?;
        call.before = None;
        call.untrusted |= untrusted;
        if begun.class.may_rerun() {
            return self.rerun(index, begun);
        }
        let message = self.texts.stops.interrupted;
        let outcome = ToolOutcome::failed(ToolFailure::OutcomeUnknown, message);
        self.settle(index, Some(begun.ran(None)), &outcome)
    }

    /// Starts another attempt of a call under the same effect, which is the idempotency key for its tool.
    pub(super) fn rerun(&mut self, index: CallIndex, begun: Begun) -> Result<(), InputError> {
        let name = Arc::clone(&self.batch()?.call(index)?.name);
        let tool = self.spec.tool(&name);
        let tool = tool.ok_or(InputError::Inconsistent(
            "the tool of a call that ran is missing",
        ))?;
        let begun = Begun {
            attempt: begun.attempt.next(),
            ..begun
        };
        self.run_call(index, tool, begun, ToolKind::Server)
    }
}

/// What works on a call that starts.
#[derive(PartialEq, Eq)]
enum Starts {
    /// A tool, or nothing because it is handed over or refused.
    Here,
    /// Sub-agents.
    Agents,
}
