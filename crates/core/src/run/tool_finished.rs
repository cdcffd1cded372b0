//! Handles the end of a tool call, and gives calls their results.

use std::time::Duration;

use super::Next;
use super::agent::Agent;
use super::agent_step::AgentStep;
use super::batch::{Before, Begun, Call, CallState};
use crate::citations::MAX_SOURCES;
use crate::decision::Taint;
use crate::error::InputError;
use crate::finish::{AgentAtLimit, FinishReason};
use crate::ids::{AgentId, Attempt, CallIndex, EffectId, ToolCallId, ToolName};
use crate::input::ToolFinished;
use crate::outcome::{ToolFailure, ToolOutcome, ToolSignal};
use crate::record::{PlanChanged, PromptReason, RecordBody, ToolCallFailed, ToolResult};
use crate::spec::AgentSpec;
use crate::tool::ToolKind;

/// The attempt that ran a call with a result.
#[derive(Clone, Copy)]
pub(super) struct Ran {
    effect_id: EffectId,
    attempt: Attempt,
    /// How long it took, unless it was cut short.
    took: Option<Duration>,
}

impl AgentStep<'_> {
    pub(super) fn tool_finished(&mut self, mut finished: ToolFinished) -> Result<Next, InputError> {
        let effect = finished.effect_id;
        let call = self.agent.batch().and_then(|batch| batch.of_effect(effect));
        let Some((index, CallState::Running { begun, kind })) =
            call.map(|call| (call.index, &call.state))
        else {
            return Err(InputError::WrongAnswer {
                effect,
                input: "tool_result",
            });
        };
        let (mut begun, kind) = (*begun, *kind);
        if finished.attempt < begun.attempt {
            return Ok(Next::Wait);
        }
        begun.attempt = finished.attempt;
        finished.outcome.output = finished.outcome.output.normalized();
        if kind == ToolKind::Server
            && let Some(failure) = self.agent.retryable_failure(self.spec, begun, &finished)
        {
            self.retry(index, begun, failure, &finished)?;
            return Ok(Next::Wait);
        }
        let ran = Some(begun.ran(Some(finished.duration)));
        self.settle_by(index, ran, &finished.outcome, finished.by)?;
        self.note_result(index, &finished.outcome)?;
        Ok(Next::Schedule)
    }

    fn retry(
        &mut self,
        index: CallIndex,
        begun: Begun,
        failure: ToolFailure,
        finished: &ToolFinished,
    ) -> Result<(), InputError> {
        let call = self.batch()?.call(index)?;
        let failed = ToolCallFailed {
            tool_call_id: call.id.clone(),
            name: call.name.clone(),
            index,
            effect_id: begun.effect_id,
            attempt: begun.attempt,
            failure,
            value: finished.outcome.output.value.clone(),
            duration: finished.duration,
        };
        self.record_in_batch(RecordBody::ToolFailed(Box::new(failed)));
        self.rerun(index, begun)
    }

    /// Handles what a result means beyond its value: for the plan, and for how the loop continues.
    pub(super) fn note_result(
        &mut self,
        index: CallIndex,
        outcome: &ToolOutcome,
    ) -> Result<(), InputError> {
        let output = &outcome.output;
        let call = self.batch()?.call(index)?;
        let (name, arguments) = (call.name.clone(), call.arguments.clone());
        if let Some(ToolSignal::Plan { plan }) = &output.signal {
            let changed = PlanChanged {
                tool_call_id: call.id.clone(),
                plan: plan.clone(),
            };
            self.record_in_batch(RecordBody::Plan(Box::new(changed)));
        }
        if !outcome.is_done() {
            return Ok(());
        }
        let profile = &self.spec.profile;
        let is_answer = |tool: &ToolName| tool.as_str() == &*name;
        if let Some(ToolSignal::Clarify { question }) = &output.signal {
            self.agent.ending = Some((FinishReason::Clarify, question.clone()));
        } else if self.spec.is_delivered_by(&name) {
            self.agent.ending = Some((FinishReason::Stop, arguments.as_str().to_owned()));
        } else if profile.stop_after.iter().any(is_answer) {
            self.agent.ending = Some((FinishReason::Stop, output.value.as_text().into_owned()));
        }
        let rule = profile.result_rule(&name);
        if let Some(choice) = rule.and_then(|rule| rule.then.clone()) {
            self.agent.forced = Some(choice);
        }
        if let Some(note) = rule.and_then(|rule| rule.note.clone()) {
            self.agent.notes.push((PromptReason::ResultRule, note));
        }
        Ok(())
    }

    /// Gives a call its result and records it.
    pub(super) fn settle(
        &mut self,
        index: CallIndex,
        ran: Option<Ran>,
        outcome: &ToolOutcome,
    ) -> Result<(), InputError> {
        self.settle_by(index, ran, outcome, None)
    }

    /// Like [`settle`](Self::settle), for a result that somebody sent.
    fn settle_by(
        &mut self,
        index: CallIndex,
        ran: Option<Ran>,
        outcome: &ToolOutcome,
        by: Option<String>,
    ) -> Result<(), InputError> {
        let call = self.batch()?.call(index)?;
        let effect = call.effect();
        let mut result = call.result(ran, outcome);
        result.by = by;
        call.state = CallState::Settled {
            failure: outcome.failure,
        };
        let is_marked = outcome.output.signal == Some(ToolSignal::Untrusted);
        let is_untrusted = ran.is_some() && (call.untrusted || is_marked);
        let arguments = call.arguments.clone();
        if let Some(effect) = effect {
            self.step.withdraw(effect);
        }
        self.note_undelivered(&result, &arguments);
        result.untrusted = self.note_taint(&result, is_untrusted);
        self.note_sources(&result);
        self.note_limits(&mut result);
        if let Some(offered) = &self.agent.offered
            && let Some(joined) = self.spec.joined(offered, &result)
        {
            self.agent.offered = Some(joined);
        }
        let texts = &self.texts.results;
        self.agent
            .conversation
            .settle(&self.spec.profile, &result, texts);
        self.record_in_batch(RecordBody::ToolResult(Box::new(result)));
        Ok(())
    }

    /// Notes the untrusted content that a result introduces into the conversation, and returns whether it does: for a
    /// call that ran, failed or not, if governance said so, and for sub-agents that read untrusted content themselves.
    fn note_taint(&mut self, result: &ToolResult, is_untrusted: bool) -> bool {
        let id = self.agent.id;
        let mut below = Taint::default();
        for agent in &*self.below {
            if agent.works_on(id, &result.tool_call_id) {
                below.merge(&agent.taint);
            }
        }
        // A result with a name that no tool can have introduced nothing.
        if is_untrusted && let Ok(tool) = result.name.parse() {
            let at = self.agent.batch().map(|batch| batch.content_index);
            self.agent.taint.add(&tool, at);
        }
        self.agent.taint.merge(&below);
        is_untrusted || !below.is_clean()
    }

    /// Notes the pages that were read for a result, by its tool or by the agents of its call.
    fn note_sources(&mut self, result: &ToolResult) {
        let (id, call) = (self.agent.id, &result.tool_call_id);
        let below = self.below.iter();
        let below = below.filter(|agent| agent.works_on(id, call));
        let own = result.sources.iter().filter(|_| result.failure.is_none());
        let read = below.flat_map(|agent| &agent.sources).chain(own);
        for source in read {
            let known = &mut self.agent.sources;
            if known.len() < MAX_SOURCES && !known.contains(source) {
                known.push(source.clone());
            }
        }
    }

    /// Notes which of the call's agents a limit ended: their own records say so too, but a reader of the result should
    /// not have to look for them.
    fn note_limits(&self, result: &mut ToolResult) {
        if self.state.loop_version < 4 {
            return;
        }
        let (id, call) = (self.agent.id, &result.tool_call_id);
        let of_call = self.below.iter().filter(|agent| agent.works_on(id, call));
        let at_limit = of_call.filter_map(|agent| {
            let reason = &agent.answer.as_deref()?.finish_reason;
            reason.ends_at_a_limit().then(|| AgentAtLimit {
                agent: agent.id,
                reason: reason.clone(),
            })
        });
        result.agents_at_limit = at_limit.collect();
    }

    /// Gives a call that does not run an error as its result.
    pub(super) fn refuse(
        &mut self,
        index: CallIndex,
        failure: ToolFailure,
        message: &str,
    ) -> Result<(), InputError> {
        let Some(Before::Begun(begun)) = self.batch()?.call(index)?.before else {
            let outcome = ToolOutcome::failed(failure, message);
            return self.settle(index, None, &outcome);
        };
        // It ran in part or completely before the run was resumed: the usual text, that it did not run, would be false.
        let message = (self.texts.stops.interrupted_for_good)(message);
        let outcome = ToolOutcome::failed(ToolFailure::OutcomeUnknown, &message);
        self.settle(index, Some(begun.ran(None)), &outcome)
    }

    /// Refuses every call of the batch that has no result yet and satisfies a predicate.
    pub(super) fn refuse_each(
        &mut self,
        holds: impl Fn(&Call) -> bool,
        failure: ToolFailure,
        message: &str,
    ) -> Result<(), InputError> {
        let open = |call: &Call| !call.is_settled() && holds(call);
        for index in self.batch()?.places(open) {
            self.refuse(index, failure, message)?;
        }
        Ok(())
    }

    /// Gives every call of the batch that has no result yet the same result; none of them ran.
    pub(super) fn settle_all(&mut self, outcome: &ToolOutcome) -> Result<(), InputError> {
        for index in self.batch()?.places(|call| !call.is_settled()) {
            self.settle(index, None, outcome)?;
        }
        Ok(())
    }
}

impl Agent {
    /// Returns whether it was started for this call of another agent.
    fn works_on(&self, of: AgentId, call: &ToolCallId) -> bool {
        let parent = self.parent.as_ref();
        parent.is_some_and(|its| its.agent == of && its.call == *call)
    }

    /// Returns why a call failed, if it should be retried: the failure may be temporary, the call may run twice, the
    /// profile allows it, and no limit was reached.
    fn retryable_failure(
        &self,
        spec: &AgentSpec,
        begun: Begun,
        finished: &ToolFinished,
    ) -> Option<ToolFailure> {
        let may = self.closing.is_none()
            && begun.class.may_rerun()
            && begun.attempt.0 <= spec.profile.tool_retries;
        let failure = finished.outcome.failure;
        failure.filter(|failure| may && failure.is_retryable())
    }
}

impl Begun {
    /// Returns the attempt that ended, with the time it took if it was not cut short.
    pub(super) const fn ran(self, took: Option<Duration>) -> Ran {
        Ran {
            effect_id: self.effect_id,
            attempt: self.attempt,
            took,
        }
    }
}

impl Call {
    fn result(&self, ran: Option<Ran>, outcome: &ToolOutcome) -> ToolResult {
        let outcome = outcome.clone();
        ToolResult {
            effect_id: ran.map(|ran| ran.effect_id),
            attempt: ran.map(|ran| ran.attempt),
            duration: ran.and_then(|ran| ran.took),
            ..ToolResult::of(self.id.clone(), self.name.clone(), self.index, outcome)
        }
    }
}
