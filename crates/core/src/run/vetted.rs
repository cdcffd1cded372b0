//! Has calls checked, and handles the results: run, refuse or ask (loop rules 4 and 5).

use std::sync::Arc;

use super::agent::Agent;
use super::agent_step::{AgentStep, StepBuilder};
use super::batch::{Batch, Before, Begun, Call, CallState};
use super::{Next, RunTree};
use crate::advised_call::{AdvisedCall, CallAdvice};
use crate::effect::{CallToVet, Effect, Vet};
use crate::error::InputError;
use crate::finish::FinishReason;
use crate::ids::{AgentId, CallIndex, EffectId, ToolName, Turn};
use crate::input::{Vetted, Vetting};
use crate::outcome::ToolFailure;
use crate::profile::UnknownTool;
use crate::record::{ApprovalRequested, RecordBody};
use crate::texts::CallTexts;
use crate::tool::{ToolClass, ToolSpec};

const ADVICE_ON_NO_CALL: InputError = InputError::Inconsistent("a hook's advice is about no call");
const VERDICT_OF_NO_CALL: InputError = InputError::Inconsistent("a verdict is about no call");

impl RunTree {
    pub(super) fn vetted(
        &mut self,
        step: &mut StepBuilder,
        id: AgentId,
        vetted: Vetted,
    ) -> Result<Next, InputError> {
        let mut agent_step = self.agent_step(id, step)?;
        agent_step.agent.check_verdicts(&vetted)?;
        let effect = vetted.effect_id;
        let (verdicts, advised) = (vetted.calls.clone(), vetted.advised.clone());
        agent_step.record_in_batch(RecordBody::Verdict(Box::new(vetted)));
        let is_vetted = |call: &Call| call.is_vetted_by(effect);
        let is_unknown = |verdict: &Vetting| matches!(verdict, Vetting::Unknown);
        if agent_step.spec.profile.unknown_tool == UnknownTool::Stop
            && let Some(place) = verdicts.iter().position(is_unknown)
        {
            let mut vetted = agent_step
                .agent
                .calls()
                .iter()
                .filter(|call| is_vetted(call));
            let call = vetted.nth(place).ok_or(VERDICT_OF_NO_CALL)?;
            let why = (agent_step.texts.stops.unknown_tool)(&call.shown_name());
            let reason = FinishReason::UnknownTool(call.name.to_string());
            // Calls that were approved earlier may already be running.
            self.stop_work(step, id, ToolFailure::UnknownTool, &why)?;
            let text = self.agent_step(id, step)?.agent.text();
            return Ok(Next::Finish(reason, text));
        }
        if let Some(reason) = agent_step.note_advice(advised)? {
            let why = (agent_step.texts.stops.loop_ended)(&reason);
            // Calls that were approved earlier may already be running.
            self.stop_work(step, id, ToolFailure::Cancelled, &why)?;
            let text = self.agent_step(id, step)?.agent.text();
            return Ok(Next::Finish(FinishReason::Stop, text));
        }
        // Both have the same length: that was checked above.
        let calls = agent_step.batch()?.places(is_vetted);
        for (call, verdict) in calls.into_iter().zip(verdicts) {
            agent_step.apply_verdict(call, verdict)?;
        }
        Ok(Next::Schedule)
    }
}

impl AgentStep<'_> {
    /// Requests a check of the calls of a batch, except those that already have results.
    pub(super) fn vet(&mut self) -> Result<Next, InputError> {
        if self.batch()?.is_finished() {
            return Ok(Next::Schedule);
        }
        let effect_id = self.step.new_effect();
        let batch = self.batch()?;
        for call in batch.calls.iter_mut().filter(|call| !call.is_settled()) {
            call.state = CallState::Vetting { effect_id };
        }
        self.request_vetting(effect_id)?;
        Ok(Next::Wait)
    }

    /// Requests a check of the calls that wait for this effect, for the first time or after a crash.
    pub(super) fn request_vetting(&mut self, effect_id: EffectId) -> Result<(), InputError> {
        let (id, turn) = (self.agent.id, self.agent.turn);
        let effect = self.batch()?.vet_effect(id, turn, effect_id);
        self.step.effects.push(effect);
        Ok(())
    }

    /// Notes what the program's hooks said about calls; arguments that they substituted are the ones that run. Returns
    /// why the agent should end, if a hook says so.
    fn note_advice(&mut self, advised: Vec<AdvisedCall>) -> Result<Option<String>, InputError> {
        let mut stop = None;
        for mut advised in advised {
            let batch = self.batch()?;
            let index = batch.index_of(&advised.tool_call_id);
            let call = batch.call(index.ok_or(ADVICE_ON_NO_CALL)?)?;
            if let Some(arguments) = advised.arguments.take() {
                call.arguments = arguments;
                // The approval was for other arguments.
                call.approved = None;
            }
            if let CallAdvice::Stop { reason } = &advised.advice {
                stop.get_or_insert_with(|| reason.clone());
            }
            call.advised = Some(Box::new(advised));
        }
        Ok(stop)
    }

    fn apply_verdict(&mut self, index: CallIndex, verdict: Vetting) -> Result<(), InputError> {
        match verdict {
            Vetting::Run {
                class, untrusted, ..
            } => self.admit(index, class, untrusted),
            Vetting::Ask {
                class,
                untrusted,
                again: false,
                ..
            } if self.batch()?.call(index)?.approved.is_some() => {
                self.admit(index, class, untrusted)
            }
            Vetting::Ask {
                class,
                reason,
                causes,
                rule,
                choices,
                ..
            } => {
                let after = self.state.approval_expires;
                let expires_at = after.and_then(|after| self.step.stamp.at.checked_add(after).ok());
                let effect_id = self.step.new_effect();
                let call = self.batch()?.call(index)?;
                let asked = ApprovalRequested {
                    effect_id,
                    tool_call_id: call.id.clone(),
                    name: call.name.clone(),
                    arguments: call.arguments.clone(),
                    arguments_hash: call.arguments.hash(),
                    reason,
                    causes,
                    rule,
                    choices,
                    expires_at,
                };
                self.ask(index, class, asked)
            }
            Vetting::Invalid { message } => {
                let message = (self.texts.calls.invalid)(&message);
                self.refuse(index, ToolFailure::InvalidArguments, &message)
            }
            Vetting::Unknown => {
                let spec = self.spec;
                let offered = Arc::clone(self.agent.tools(spec));
                let search = spec.search.as_ref().map(|search| &search.tool);
                let texts = &self.texts.calls;
                let message = self.batch()?.call(index)?.unknown(&offered, search, texts);
                self.refuse(index, ToolFailure::UnknownTool, &message)
            }
            Vetting::Disabled => {
                let message = self.texts.calls.not_in_turn;
                self.refuse(index, ToolFailure::NotEnabled, message)
            }
            Vetting::Deny { reason, .. } => {
                let message = (self.texts.calls.denied)(&reason);
                self.refuse(index, ToolFailure::Denied, &message)
            }
        }
    }

    /// Lets a call run when it is its turn, unless a limit on tool calls is reached. A call that delivers the answer
    /// does no other work and counts toward no limit. A call that was admitted before the run was resumed is not
    /// counted twice, and the stricter of its recorded and its new class applies.
    fn admit(
        &mut self,
        index: CallIndex,
        class: ToolClass,
        untrusted: bool,
    ) -> Result<(), InputError> {
        let before = self.batch()?.call(index)?.before;
        let class = before.map_or(class, |before| class.max(before.class()));
        if let Some(Before::Begun(begun)) = before {
            let begun = Begun { class, ..begun };
            return self.rerun_or_give_up(index, begun, untrusted);
        }
        let spec = self.spec;
        let delivers = spec.is_delivered_by(&self.batch()?.call(index)?.name);
        if before.is_none() && !delivers && !self.admit_tool_call() {
            let message = self.texts.calls.limit_reached;
            return self.refuse(index, ToolFailure::LimitReached, message);
        }
        let call = self.batch()?.call(index)?;
        call.state = CallState::Ready { class };
        call.untrusted |= untrusted;
        call.before = None;
        Ok(())
    }

    fn ask(
        &mut self,
        index: CallIndex,
        class: ToolClass,
        asked: ApprovalRequested,
    ) -> Result<(), InputError> {
        let effect = Effect::AskApproval(Box::new(asked.ask(self.agent.id)));
        self.step.effects.push(effect);
        let call = self.batch()?.call(index)?;
        // The earlier approval does not apply to the new question.
        call.approved = None;
        call.state = CallState::Asking {
            class,
            asked: Box::new(asked.clone()),
        };
        self.record_in_batch(RecordBody::ApprovalRequested(Box::new(asked)));
        Ok(())
    }
}

impl Agent {
    /// Checks that each call to be checked got exactly one verdict, and that hooks mentioned no other call.
    fn check_verdicts(&self, vetted: &Vetted) -> Result<(), InputError> {
        let effect = vetted.effect_id;
        let calls = self.calls().iter();
        let asked = calls.filter(|call| call.is_vetted_by(effect)).count();
        let answered = vetted.calls.len();
        if asked == 0 {
            let input = "verdict";
            return Err(InputError::WrongAnswer { effect, input });
        }
        if asked != answered {
            return Err(InputError::VerdictCount {
                effect,
                asked,
                answered,
            });
        }
        let is_vetted = |advised: &AdvisedCall| {
            let mut calls = self.calls().iter();
            calls.any(|call| call.id == advised.tool_call_id && call.is_vetted_by(effect))
        };
        let stray = vetted.advised.iter().find(|advised| !is_vetted(advised));
        if let Some(advised) = stray {
            return Err(InputError::NotWaiting(advised.tool_call_id.clone()));
        }
        Ok(())
    }
}

impl Batch {
    /// Builds the effect that checks the calls waiting for it.
    fn vet_effect(&self, agent: AgentId, turn: Turn, effect_id: EffectId) -> Effect {
        let waiting = self.calls.iter();
        let waiting = waiting.filter(|call| call.effect() == Some(effect_id));
        Effect::Vet(Vet {
            effect_id,
            agent,
            turn,
            calls: waiting.map(Call::to_vet).collect(),
        })
    }
}

impl Call {
    fn is_vetted_by(&self, effect: EffectId) -> bool {
        matches!(self.state, CallState::Vetting { effect_id } if effect_id == effect)
    }

    /// Returns the error for a model that called a tool that does not exist, or no longer exists.
    fn unknown(
        &self,
        offered: &[ToolSpec],
        search: Option<&ToolName>,
        texts: &CallTexts,
    ) -> String {
        let tools = offered.iter();
        if tools.clone().any(|tool| tool.name.as_str() == &*self.name) {
            return (texts.gone)(&self.name);
        }
        let known: Vec<_> = tools.map(|tool| tool.name.as_str()).collect();
        (texts.unknown)(&self.shown_name(), &known, search.map(ToolName::as_str))
    }

    fn to_vet(&self) -> CallToVet {
        CallToVet {
            tool_call_id: self.id.clone(),
            name: self.name.clone(),
            arguments: self.arguments.clone(),
            approved: self.approved.clone(),
            is_rechecked: self.before.is_some(),
            advised: self.advised.clone(),
        }
    }
}
