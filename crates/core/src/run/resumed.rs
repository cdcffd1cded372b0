//! Handles the input that reports that a process resumed the run, after a crash or a wait.

use std::sync::Arc;

use super::agent::Phase;
use super::agent_step::{AgentStep, StepBuilder};
use super::batch::{Batch, Before, Call, CallState};
use super::{Next, RunTree};
use crate::effect::Effect;
use crate::error::InputError;
use crate::finish::RunStatus;
use crate::ids::{AgentId, EffectId};
use crate::input::{Recheck, Resumed};
use crate::metrics::Cost;
use crate::record::RecordBody;
use crate::tool::ToolKind;
use crate::usage::Usage;

impl RunTree {
    pub(super) fn resumed(
        &mut self,
        step: &mut StepBuilder,
        resumed: Resumed,
    ) -> Result<Next, InputError> {
        let recheck = resumed.recheck;
        if let Some(limits) = resumed.limits.as_deref() {
            let root = &mut Arc::make_mut(&mut self.spec).root;
            root.limits = root.limits.tightest(*limits);
        }
        let lost = u32::from(!resumed.released);
        self.state.taken_up = self.state.taken_up.saturating_add(lost);
        self.state.status = RunStatus::Running;
        let record = RecordBody::Resumed(Box::new(resumed));
        self.agent_step(AgentId::ROOT, step)?.record(record);
        // Collected first: agents that only begin in this step, for example after another one has ended, must not be
        // resumed.
        let at_work = self.agents.iter().filter(|agent| agent.is_at_work());
        let last_first = at_work.rev().map(|agent| agent.id);
        step.todo
            .extend(last_first.map(|id| (id, Next::Resume(recheck))));
        Ok(Next::Wait)
    }
}

impl AgentStep<'_> {
    /// Requests again what an agent waits for, or settles what must not run twice.
    pub(super) fn resume(&mut self, recheck: Recheck) -> Result<Next, InputError> {
        match &mut self.agent.phase {
            Phase::Model(call) => {
                call.attempt = call.attempt.next();
                let call = call.clone();
                // The usage of the lost attempt will remain unknown (loop rule 12).
                self.charge(&call.planned.role, Usage::UNKNOWN, Cost::UNKNOWN);
                let effect = self.agent.model_effect(self.spec, &call, self.texts)?;
                self.step.effects.push(effect);
            }
            Phase::Tools(_) => {
                self.resume_calls(recheck)?;
                if recheck == Recheck::Calls {
                    self.recheck_calls()?;
                }
                return Ok(Next::Schedule);
            }
            Phase::Consulting(consulting) => {
                let consulting = consulting.clone();
                let effect = self.agent.consult_effect(self.spec, &consulting);
                self.step.effects.push(effect);
            }
            Phase::Queued | Phase::Between | Phase::Ended => {}
        }
        Ok(Next::Wait)
    }

    fn resume_calls(&mut self, recheck: Recheck) -> Result<(), InputError> {
        let mut vetting: Vec<EffectId> = Vec::new();
        for index in self.batch()?.places(|call| !call.is_finished()) {
            let agent = self.agent.id;
            let call = self.batch()?.call(index)?;
            match &call.state {
                CallState::Vetting { effect_id } if !vetting.contains(effect_id) => {
                    vetting.push(*effect_id);
                    let effect_id = *effect_id;
                    self.request_vetting(effect_id)?;
                }
                CallState::Asking { asked, .. } => {
                    let effect = Effect::AskApproval(Box::new(asked.ask(agent)));
                    self.step.effects.push(effect);
                }
                CallState::Running {
                    begun,
                    kind: ToolKind::Server,
                } if recheck == Recheck::Nothing || !begun.class.may_rerun() => {
                    let (begun, untrusted) = (*begun, call.untrusted);
                    self.rerun_or_give_up(index, begun, untrusted)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Requests another check of the calls of the batch that would otherwise start, or be repeated, based only on the
    /// log.
    fn recheck_calls(&mut self) -> Result<(), InputError> {
        let calls = self.agent.calls().iter();
        if calls.filter_map(Call::before_recheck).next().is_none() {
            return Ok(());
        }
        let effect_id = self.step.new_effect();
        self.batch()?.recheck(effect_id);
        self.request_vetting(effect_id)
    }
}

impl Batch {
    fn recheck(&mut self, effect_id: EffectId) {
        for call in &mut self.calls {
            if let Some(before) = call.before_recheck() {
                call.before = Some(before);
                call.state = CallState::Vetting { effect_id };
            }
        }
    }
}

impl Call {
    /// Returns how far the call has come, if it would otherwise start or be repeated.
    const fn before_recheck(&self) -> Option<Before> {
        match self.state {
            CallState::Ready { class } => Some(Before::Ready { class }),
            CallState::Running {
                begun,
                kind: ToolKind::Server,
            } => Some(Before::Begun(begun)),
            _ => None,
        }
    }
}
