//! How an agent ends, and with the root agent the run: with a valid history (loop rule 11). Also how work in progress
//! is abandoned, because the run ends, its time is up, or it is cancelled.

use super::agent::{Agent, Phase};
use super::agent_step::{AgentStep, StepBuilder};
use super::batch::{Begun, CallState};
use super::{Next, RunTree};
use crate::citations::{Source, cite};
use crate::effect::{CancelModel, CancelTool, Effect};
use crate::error::InputError;
use crate::finish::{FinishReason, RunOutcome, RunStatus};
use crate::ids::{AgentId, CallIndex, EffectId};
use crate::log::Conversation;
use crate::metrics::Cost;
use crate::outcome::{ToolFailure, ToolOutcome};
use crate::profile::UsageScope;
use crate::record::RecordBody;
use crate::spec::AgentSpec;
use crate::texts::StopTexts;
use crate::tool::{ToolClass, ToolKind};
use crate::usage::{RunUsage, Usage};

impl RunTree {
    /// Stops whatever an agent is doing: its model call, or its calls, which then have results. The agent is left
    /// between two phases.
    pub(super) fn stop_work(
        &mut self,
        step: &mut StepBuilder,
        id: AgentId,
        failure: ToolFailure,
        why: &str,
    ) -> Result<(), InputError> {
        let mut agent_step = self.agent_step(id, step)?;
        agent_step.cancel_model_call();
        agent_step.agent.restore_batch();
        self.abandon_batch(step, id, failure, why)?;
        self.agent_step(id, step)?.join_results();
        Ok(())
    }

    /// Settles every call of the batch in one step, and stops those that run. Agents that work on a call end before the
    /// call does, and all agents below them end first.
    pub(super) fn abandon_batch(
        &mut self,
        step: &mut StepBuilder,
        id: AgentId,
        failure: ToolFailure,
        why: &str,
    ) -> Result<(), InputError> {
        let mut open = vec![id];
        while let Some(&agent) = open.last() {
            if let Some(child) = self.agent_step(agent, step)?.abandon_calls(failure, why)? {
                let mut child_step = self.agent_step(child, step)?;
                child_step.cancel_model_call();
                child_step.agent.restore_batch();
                open.push(child);
                continue;
            }
            open.pop();
            if !open.is_empty() {
                let mut agent_step = self.agent_step(agent, step)?;
                agent_step.join_results();
                let text = agent_step.agent.text();
                agent_step.end(end_of(failure), text, None);
            }
        }
        Ok(())
    }
}

impl AgentStep<'_> {
    /// Ends an agent, and continues whatever waits for its answer. Its calls must already have results.
    pub(super) fn finish(&mut self, reason: FinishReason, content: String) -> Next {
        self.end(reason, content, None);
        self.pass_on()
    }

    /// Ends an agent with its text so far because a model call failed, and continues whatever waits for its answer.
    pub(super) fn finish_failed(&mut self, call: EffectId, why: String) -> Next {
        let text = self.agent.text();
        self.end(FinishReason::Failed(why), text, Some(call));
        self.pass_on()
    }

    /// Continues whatever waits for the answer of an agent that has ended.
    fn pass_on(&mut self) -> Next {
        if let Some(parent) = &self.agent.parent {
            // Other agents of its parent may begin, and after the last one the parent's call has its result.
            let collect = Next::Collect(parent.call.clone());
            let todo = &mut self.step.todo;
            todo.push((parent.agent, collect));
            todo.push((parent.agent, Next::BeginQueued));
        }
        Next::Wait
    }

    /// Ends an agent and records its outcome, with the model call whose failure is the reason, if one is.
    pub(super) fn end(
        &mut self,
        reason: FinishReason,
        content: String,
        failed_call: Option<EffectId>,
    ) {
        self.agent.phase = Phase::Ended;
        let (content, sources) = self.cited(&reason, content);
        let is_root = self.agent.id == AgentId::ROOT;
        let outcome = Box::new(RunOutcome {
            content,
            finish_reason: reason,
            turns: self.agent.turns_used,
            usage: self.agent.usage_in_all(self.spec),
            sources,
            unheard: match is_root {
                true => self.agent.conversation.unheard(),
                false => 0,
            },
            failed_call,
            interruption: None,
        });
        let status = outcome.status();
        let recorded = outcome.clone();
        if is_root {
            // No model of this run receives the messages that arrived in the meantime; the session's next run passes
            // them to one.
            self.agent.conversation.join_steered();
            self.state.status = status;
            self.step.effects.push(Effect::Finish(outcome));
        } else {
            // A sub-agent is not called again, so only its answer is kept in memory.
            self.agent.conversation = Conversation::default();
            self.agent.answer = Some(outcome);
        }
        self.record(if status == RunStatus::Failed {
            RecordBody::RunFailed(recorded)
        } else {
            RecordBody::Final(recorded)
        });
    }

    /// Checks the citations of an answer if the profile requires it. A warning reports how many were removed.
    fn cited(&mut self, reason: &FinishReason, content: String) -> (String, Vec<Source>) {
        if !self.spec.checks_citations(reason) {
            return (content, Vec::new());
        }
        let cited = cite(&content, &self.agent.sources);
        self.agent.conversation.answer_with(&cited.text);
        if !cited.removed.is_empty() {
            // The reply in the log shows which ones, if the data policy allows that to be stored.
            let count = cited.removed.len();
            let message = format!("{count} citations were removed: their pages were not read");
            self.warn("citations_removed", message);
        }
        (cited.text, cited.sources)
    }

    /// Settles the calls of the batch one after another. Stops at one whose agents are at work, and returns the first
    /// of these agents, which must end first.
    fn abandon_calls(
        &mut self,
        failure: ToolFailure,
        why: &str,
    ) -> Result<Option<AgentId>, InputError> {
        let batch = self.agent.batch();
        let open = batch.map(|batch| batch.places(|call| !call.is_settled()));
        for index in open.unwrap_or_default() {
            let call = self.batch()?.call(index)?;
            match call.state.clone() {
                CallState::Running { begun, kind } => {
                    if kind == ToolKind::Server {
                        let effect_id = begun.effect_id;
                        let cancel = Effect::CancelTool(CancelTool { effect_id });
                        self.step.effects.push(cancel);
                    }
                    let printed = self.batch()?.call(index)?.printed.take();
                    let outcome = abandoned(begun.class, failure, why, &self.texts.stops);
                    let outcome = outcome.with_printed(printed);
                    self.settle(index, Some(begun.ran(None)), &outcome)?;
                }
                CallState::Delegated { begun, agents, .. } => {
                    let at_work = |id: &&AgentId| {
                        let agent = self.started_since(**id);
                        agent.is_some_and(|agent| !agent.has_ended())
                    };
                    if let Some(child) = agents.iter().find(at_work) {
                        return Ok(Some(*child));
                    }
                    self.abandon_delegated(index, begun, &agents, failure, why)?;
                }
                _ => self.refuse(index, failure, &(self.texts.stops.not_run)(why))?,
            }
        }
        Ok(None)
    }

    /// When time is up, the findings of a call's agents so far become its result, so no work is discarded.
    fn abandon_delegated(
        &mut self,
        index: CallIndex,
        begun: Begun,
        agents: &[AgentId],
        failure: ToolFailure,
        why: &str,
    ) -> Result<(), InputError> {
        let outcome = if end_of(failure) == FinishReason::Deadline {
            self.collected(index, agents)?
        } else {
            ToolOutcome::failed(failure, &(self.texts.stops.stopped)(why))
        };
        self.settle(index, Some(begun.ran(None)), &outcome)?;
        self.note_result(index, &outcome)
    }

    /// Stops the agent's model call, if one is in progress. Its usage will remain unknown (loop rule 12).
    pub(super) fn cancel_model_call(&mut self) {
        let Phase::Model(call) = &self.agent.phase else {
            return;
        };
        let (effect_id, role) = (call.effect_id, call.planned.role.clone());
        self.step.withdraw(effect_id);
        let cancel = Effect::CancelModel(CancelModel { effect_id });
        self.step.effects.push(cancel);
        self.charge(&role, Usage::UNKNOWN, Cost::UNKNOWN);
        self.agent.phase = Phase::Between;
    }
}

impl Agent {
    /// Returns an agent's usage so far, including that of the agents below it if its profile says so.
    pub(super) fn usage_in_all(&self, spec: &AgentSpec) -> RunUsage {
        let mut usage = self.usage.clone();
        if spec.profile.usage == UsageScope::WithAgents {
            usage.merge(&self.usage_below);
        }
        usage
    }
}

/// Returns how an agent ends when the call that it works on is abandoned.
const fn end_of(failure: ToolFailure) -> FinishReason {
    match failure {
        ToolFailure::Timeout => FinishReason::Deadline,
        _ => FinishReason::Cancelled,
    }
}

/// Returns the result of a stopped call: unless it may be run again, it is unknown whether it took effect.
fn abandoned(class: ToolClass, failure: ToolFailure, why: &str, texts: &StopTexts) -> ToolOutcome {
    if class == ToolClass::Irreversible {
        ToolOutcome::failed(ToolFailure::OutcomeUnknown, &(texts.stopped_in_doubt)(why))
    } else {
        ToolOutcome::failed(failure, &(texts.stopped)(why))
    }
}
