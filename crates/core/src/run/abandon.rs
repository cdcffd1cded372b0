//! Stops what is under way, because the run ends, its time is up, or somebody wants it to.

use crate::effect::{CancelModel, CancelTool, Effect};
use crate::finish::FinishReason;
use crate::ids::AgentId;
use crate::outcome::{ToolFailure, ToolOutcome};
use crate::run::RunTree;
use crate::run::agent::{Agent, Phase};
use crate::run::batch::{Call, CallState};
use crate::run::draft::Draft;
use crate::tool::{ToolClass, ToolKind};
use crate::usage::Usage;

impl RunTree {
    /// Settles every call of the batch at once, because the run ends or its time is up, and stops those that run.
    pub(super) fn abandon_batch(
        &mut self,
        draft: &mut Draft,
        id: AgentId,
        failure: ToolFailure,
        why: &str,
    ) {
        let batch = self.agent(id).and_then(Agent::batch);
        let open: Vec<Call> = batch
            .into_iter()
            .flat_map(|batch| &batch.calls)
            .filter(|call| !call.is_settled())
            .cloned()
            .collect();
        for call in open {
            match &call.state {
                CallState::Running {
                    effect_id,
                    attempt,
                    class,
                    kind,
                } => {
                    let effect_id = *effect_id;
                    if *kind == ToolKind::Server {
                        draft
                            .effects
                            .push(Effect::CancelTool(CancelTool { effect_id }));
                    }
                    let outcome = abandoned(*class, failure, why);
                    let ran = Some((effect_id, *attempt, None));
                    self.settle(draft, id, &call.id, ran, &outcome);
                }
                CallState::Delegated {
                    effect_id,
                    attempt,
                    agents,
                    ..
                } => {
                    let reason = end_of(failure);
                    for agent in agents {
                        self.abandon_agent(draft, *agent, &reason, failure, why);
                    }
                    // Where time is up, what its agents found out so far is its result: no work is discarded.
                    let outcome = if reason == FinishReason::Deadline {
                        self.collected(id, &call.id, agents)
                    } else {
                        ToolOutcome::failed(failure, &format!("stopped: {why}"))
                    };
                    let ran = Some((*effect_id, *attempt, None));
                    self.settle(draft, id, &call.id, ran, &outcome);
                    self.take_note_of(draft, id, &call.id, &outcome);
                }
                _ => self.refuse(draft, id, &call.id, failure, &format!("not run: {why}")),
            }
        }
    }

    /// Ends an agent and all below it where it is, because something above it ends or somebody wants it to.
    pub(super) fn abandon_agent(
        &mut self,
        draft: &mut Draft,
        id: AgentId,
        reason: &FinishReason,
        failure: ToolFailure,
        why: &str,
    ) {
        if self.agent(id).is_none_or(Agent::has_ended) {
            return;
        }
        self.cancel_model_call(draft, id);
        self.take_back_batch(id);
        self.abandon_batch(draft, id, failure, why);
        self.append_results(id);
        let content = self
            .agent(id)
            .map(|agent| agent.text.clone())
            .unwrap_or_default();
        self.end_agent(draft, id, reason.clone(), content);
    }

    /// Stops the agent's model call, if one is under way. Nobody will ever say what it used (loop rule 12).
    pub(super) fn cancel_model_call(&mut self, draft: &mut Draft, id: AgentId) {
        let Some(Phase::Model(call)) = self.agent(id).map(|agent| &agent.phase) else {
            return;
        };
        let (effect_id, role) = (call.effect_id, call.planned.role.clone());
        draft
            .effects
            .retain(|effect| effect.id() != Some(effect_id));
        draft
            .effects
            .push(Effect::CancelModel(CancelModel { effect_id }));
        self.charge(id, &role, Usage::UNKNOWN, None);
    }
}

/// How an agent ends whose call is abandoned.
const fn end_of(failure: ToolFailure) -> FinishReason {
    match failure {
        ToolFailure::Timeout => FinishReason::Deadline,
        _ => FinishReason::Cancelled,
    }
}

/// The result of a call that was stopped: unless it may simply run again, nobody knows whether it took effect.
fn abandoned(class: ToolClass, failure: ToolFailure, why: &str) -> ToolOutcome {
    if class == ToolClass::Irreversible {
        let message = format!("stopped: {why}; its outcome is unknown, it may have taken effect");
        ToolOutcome::failed(ToolFailure::OutcomeUnknown, &message)
    } else {
        ToolOutcome::failed(failure, &format!("stopped: {why}"))
    }
}
