//! Handles a process taking the run up again after a crash or a wait.

use std::sync::Arc;

use crate::effect::Effect;
use crate::error::InputError;
use crate::finish::RunStatus;
use crate::ids::{AgentId, Attempt, EffectId, ToolCallId};
use crate::input::{Recheck, Resumed};
use crate::outcome::{ToolFailure, ToolOutcome};
use crate::record::RecordBody;
use crate::run::RunTree;
use crate::run::agent::{Agent, Phase};
use crate::run::batch::{Before, Call, CallState};
use crate::run::draft::Draft;
use crate::tool::{ToolClass, ToolKind};
use crate::usage::Usage;

impl RunTree {
    pub(super) fn resumed(
        &mut self,
        draft: &mut Draft,
        resumed: Resumed,
    ) -> Result<(), InputError> {
        if self.inputs_seen.contains(&resumed.id) {
            return Ok(());
        }
        if self.status.is_ended() {
            return Err(InputError::RunEnded);
        }
        self.first_time(&resumed.id);
        let recheck = resumed.recheck;
        if let Some(limits) = resumed.limits.as_deref() {
            let root = &mut Arc::make_mut(&mut self.spec).root;
            root.limits = root.limits.tightest(*limits);
        }
        self.taken_up = self.taken_up.saturating_add(1);
        self.record(
            draft,
            AgentId::ROOT,
            None,
            RecordBody::Resumed(Box::new(resumed)),
        );
        self.status = RunStatus::Running;
        // What others do in this very step, such as begin once one of them has ended, is not to be done anew.
        let before: Vec<(AgentId, Phase)> = self
            .agents
            .iter()
            .map(|agent| (agent.id, agent.phase.clone()))
            .collect();
        for (agent, phase) in before {
            match phase {
                Phase::Model(_) => self.call_again(draft, agent),
                Phase::Tools(batch) => {
                    self.take_up_batch(draft, agent, &batch.calls, recheck);
                    if recheck == Recheck::Calls {
                        self.recheck_batch(draft, agent);
                    }
                    self.schedule(draft, agent);
                }
                Phase::Consulting(consulting) => {
                    draft
                        .effects
                        .extend(self.consult_effect(agent, &consulting));
                }
                Phase::Queued | Phase::Ended => {}
            }
        }
        Ok(())
    }

    fn call_again(&mut self, draft: &mut Draft, id: AgentId) {
        let Some(Phase::Model(call)) = self.agent_mut(id).map(|agent| &mut agent.phase) else {
            return;
        };
        call.attempt = call.attempt.next();
        let call = call.clone();
        // What the lost attempt used, nobody will ever say (loop rule 12).
        self.charge(id, &call.planned.role, Usage::UNKNOWN, None);
        draft.effects.extend(self.model_effect(id, &call));
    }

    fn take_up_batch(
        &mut self,
        draft: &mut Draft,
        agent: AgentId,
        calls: &[Call],
        recheck: Recheck,
    ) {
        let mut vetting: Vec<EffectId> = Vec::new();
        for call in calls {
            match &call.state {
                CallState::Vetting { effect_id } if !vetting.contains(effect_id) => {
                    vetting.push(*effect_id);
                    draft.effects.extend(self.vet_effect(agent, *effect_id));
                }
                CallState::Asking {
                    effect_id,
                    question,
                    ..
                } => {
                    let requested = call.requested(*effect_id, question);
                    draft
                        .effects
                        .push(Effect::AskApproval(requested.effect(agent)));
                }
                CallState::Running {
                    effect_id,
                    attempt,
                    class,
                    kind: ToolKind::Server,
                } if recheck == Recheck::Nothing || !class.may_rerun() => {
                    let ran = (*effect_id, *attempt);
                    let found = (*class, call.untrusted);
                    self.run_again_or_give_up(draft, agent, &call.id, ran, found);
                }
                _ => {}
            }
        }
    }

    /// Has those calls of a batch checked anew that would start, or be made again, on the word of the log alone.
    fn recheck_batch(&mut self, draft: &mut Draft, id: AgentId) {
        let is_to_check = |call: &Call| match call.state {
            CallState::Ready { .. } => true,
            CallState::Running { kind, .. } => kind == ToolKind::Server,
            _ => false,
        };
        let batch = self.agent(id).and_then(Agent::batch);
        if !batch.is_some_and(|batch| batch.calls.iter().any(is_to_check)) {
            return;
        }
        let effect_id = self.new_effect();
        let Some(batch) = self.agent_mut(id).and_then(|agent| agent.batch_mut()) else {
            return;
        };
        for call in &mut batch.calls {
            call.before = match call.state {
                CallState::Ready { class } => Some(Before::Ready { class }),
                CallState::Running {
                    effect_id,
                    attempt,
                    class,
                    kind: ToolKind::Server,
                } => Some(Before::Begun {
                    effect_id,
                    attempt,
                    class,
                }),
                _ => continue,
            };
            call.state = CallState::Vetting { effect_id };
        }
        draft.effects.extend(self.vet_effect(id, effect_id));
    }

    /// A call was under way when the process died: it runs again only if its class allows, otherwise the model is told
    /// that nobody knows what came of it.
    pub(super) fn run_again_or_give_up(
        &mut self,
        draft: &mut Draft,
        agent: AgentId,
        call: &ToolCallId,
        (effect_id, attempt): (EffectId, Attempt),
        (class, untrusted): (ToolClass, bool),
    ) {
        let batch = self.agent_mut(agent).and_then(|agent| agent.batch_mut());
        if let Some(call) = batch.and_then(|batch| batch.call_mut(call)) {
            call.before = None;
            call.untrusted |= untrusted;
        }
        if !class.may_rerun() {
            let message = "interrupted: its outcome is unknown, it may have taken effect; check before calling it again";
            let outcome = ToolOutcome::failed(ToolFailure::OutcomeUnknown, message);
            self.settle(
                draft,
                agent,
                call,
                Some((effect_id, attempt, None)),
                &outcome,
            );
            return;
        }
        self.run_once_more(draft, agent, call, (effect_id, attempt), class);
    }

    /// Makes another attempt of a call, under the same effect: to its tool that is the idempotency key.
    pub(super) fn run_once_more(
        &mut self,
        draft: &mut Draft,
        agent: AgentId,
        id: &ToolCallId,
        (effect_id, attempt): (EffectId, Attempt),
        class: ToolClass,
    ) {
        let spec = Arc::clone(&self.spec);
        let Some(call) = self
            .agent_mut(agent)
            .and_then(|agent| agent.batch_mut()?.call_mut(id))
        else {
            return;
        };
        call.state = CallState::Running {
            effect_id,
            attempt: attempt.next(),
            class,
            kind: ToolKind::Server,
        };
        let name = call.name.clone();
        let spec = self.agent(agent).map(|agent| agent.spec(&spec));
        let Some((tool, limits)) = spec.and_then(|spec| Some((spec.tool(&name)?, spec.limits)))
        else {
            return;
        };
        let timeout = limits.time_of_call(tool.timeout);
        self.run_call(draft, agent, id, tool.name.clone(), timeout);
    }
}
