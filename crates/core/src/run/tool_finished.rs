//! Handles the end of a tool call.

use std::sync::Arc;
use std::time::Duration;

use crate::decision::Taint;
use crate::error::InputError;
use crate::finish::FinishReason;
use crate::ids::{AgentId, Attempt, EffectId, ToolCallId, ToolName};
use crate::input::ToolFinished;
use crate::outcome::{Keep, ToolFailure, ToolOutcome, ToolSignal};
use crate::record::{
    PlanChanged, PromptReason, RecordBody, ToolCallFailed, ToolResult, ToolStatus,
};
use crate::run::RunTree;
use crate::run::batch::{Before, Call, CallState};
use crate::run::draft::Draft;
use crate::tool::{ToolClass, ToolKind};

/// What stands for a result that is not kept and has no summary.
const NOT_KEPT: &str = "(not kept)";

/// Who ran a call that has its result: the effect, the attempt and, unless it was cut short, how long it took.
type Ran = Option<(EffectId, Attempt, Option<Duration>)>;

impl RunTree {
    pub(super) fn tool_finished(
        &mut self,
        draft: &mut Draft,
        mut finished: ToolFinished,
    ) -> Result<(), InputError> {
        let effect = finished.effect_id;
        let open = self.agents.iter_mut().find_map(|agent| {
            let id = agent.id;
            let call = agent.batch_mut()?.call_of_effect(effect)?;
            Some((id, call.id.clone(), call.state.clone()))
        });
        let Some((agent, call, state)) = open else {
            return self.nothing_waits_for(effect, "tool_result");
        };
        let CallState::Running {
            attempt,
            class,
            kind,
            ..
        } = state
        else {
            return Err(InputError::WrongAnswer {
                effect,
                input: "tool_result",
            });
        };
        if finished.attempt < attempt {
            return Ok(());
        }
        finished.outcome.output = finished.outcome.output.normalized();
        if kind == ToolKind::Server && self.is_tried_again(agent, class, &finished) {
            self.try_again(draft, agent, &call, class, &finished);
            return Ok(());
        }
        let ran = Some((effect, finished.attempt, Some(finished.duration)));
        self.settle(draft, agent, &call, ran, &finished.outcome);
        self.take_note_of(draft, agent, &call, &finished.outcome);
        self.schedule(draft, agent);
        Ok(())
    }

    /// Tells whether a failed call is made once more: the tool failed and might not again, twice is no more than once, the
    /// profile lets it, and no limit was reached.
    fn is_tried_again(&self, id: AgentId, class: ToolClass, finished: &ToolFinished) -> bool {
        let failure = finished.outcome.failure;
        let is_open = self.agent(id).is_some_and(|agent| agent.closing.is_none());
        is_open
            && class.may_rerun()
            && failure.is_some_and(ToolFailure::is_retryable)
            && finished.attempt.0 <= self.agent_spec(id).profile.tool_retries
    }

    fn try_again(
        &mut self,
        draft: &mut Draft,
        agent: AgentId,
        id: &ToolCallId,
        class: ToolClass,
        finished: &ToolFinished,
    ) {
        let batch = self.agent(agent).and_then(|agent| agent.batch());
        let call = batch.and_then(|batch| batch.calls.iter().find(|call| call.id == *id));
        let (Some(call), Some(failure)) = (call, finished.outcome.failure) else {
            return;
        };
        let failed = ToolCallFailed {
            tool_call_id: call.id.clone(),
            name: call.name.clone(),
            index: call.index,
            effect_id: finished.effect_id,
            attempt: finished.attempt,
            failure,
            value: finished.outcome.output.value.clone(),
            duration: finished.duration,
        };
        self.record_in_batch(draft, agent, RecordBody::ToolFailed(Box::new(failed)));
        let ran = (finished.effect_id, finished.attempt);
        self.run_once_more(draft, agent, id, ran, class);
    }

    /// What a result means beyond its value: to the plan, to how the loop goes on, and to later history.
    pub(super) fn take_note_of(
        &mut self,
        draft: &mut Draft,
        id: AgentId,
        call: &ToolCallId,
        outcome: &ToolOutcome,
    ) {
        let output = &outcome.output;
        if let Some(ToolSignal::Plan { plan }) = &output.signal {
            let changed = PlanChanged {
                tool_call_id: call.clone(),
                plan: plan.clone(),
            };
            self.record_in_batch(draft, id, RecordBody::Plan(Box::new(changed)));
        }
        let spec = Arc::clone(&self.spec);
        let Some(agent) = self.agent_mut(id).filter(|_| outcome.is_done()) else {
            return;
        };
        let profile = &agent.spec(&spec).profile;
        let batch = agent.batch();
        let name = batch
            .and_then(|batch| batch.calls.iter().find(|other| other.id == *call))
            .map(|call| call.name.clone())
            .unwrap_or_default();
        let rule = profile.result_rule(&name);
        if let Some(ToolSignal::Clarify { question }) = &output.signal {
            agent.ending = Some((FinishReason::Clarify, question.clone()));
        } else if profile
            .stop_after
            .iter()
            .any(|tool| tool.as_str() == &*name)
        {
            agent.ending = Some((FinishReason::Stop, output.value.as_text()));
        }
        if let Some(choice) = rule.and_then(|rule| rule.then.clone()) {
            agent.forced = Some(choice);
        }
        if let Some(note) = rule.and_then(|rule| rule.note.clone()) {
            agent.notes.push((PromptReason::ResultRule, note));
        }
        let keep = rule.and_then(|rule| rule.keep).unwrap_or(output.keep);
        if let Some(summary) = left_of(keep, output.summary.as_deref()) {
            agent.shortenable.push((call.clone(), summary));
        }
    }

    /// Gives a call its result and records it.
    pub(super) fn settle(
        &mut self,
        draft: &mut Draft,
        agent: AgentId,
        id: &ToolCallId,
        ran: Ran,
        outcome: &ToolOutcome,
    ) {
        let Some(call) = self
            .agent_mut(agent)
            .and_then(|agent| agent.batch_mut()?.call_mut(id))
        else {
            return;
        };
        // Whatever this very step asks about it need not be answered any more.
        let asked = call.effect();
        draft
            .effects
            .retain(|effect| effect.id().is_none() || effect.id() != asked);
        call.settle(outcome);
        let mut result = result_record(call, ran, outcome);
        result.untrusted = self.takes_in(agent, id, ran);
        self.record_in_batch(draft, agent, RecordBody::ToolResult(Box::new(result)));
    }

    /// Notes what a result brings into the conversation of strangers' words, and tells whether it does: that of a call that
    /// ran, failed or not, if governance said so, and that of sub-agents that read such words themselves.
    fn takes_in(&mut self, id: AgentId, call: &ToolCallId, ran: Ran) -> bool {
        let mut below = Taint::default();
        for agent in &self.agents {
            let parent = agent.parent.as_ref();
            if parent.is_some_and(|parent| parent.agent == id && parent.call == *call) {
                below.merge(&agent.taint);
            }
        }
        let Some(agent) = self.agent_mut(id) else {
            return false;
        };
        let batch = agent.batch();
        let at = batch.map(|batch| batch.content_index);
        let of_call = batch.and_then(|batch| batch.calls.iter().find(|other| other.id == *call));
        let brings = ran.is_some() && of_call.is_some_and(|call| call.untrusted);
        let tool = of_call.filter(|_| brings);
        let tool: Option<ToolName> = tool.and_then(|call| call.name.parse().ok());
        if let Some(tool) = tool {
            agent.taint.add(&tool, at);
        }
        agent.taint.merge(&below);
        brings || !below.is_clean()
    }

    /// Gives a call that is not run an error as its result.
    pub(super) fn refuse(
        &mut self,
        draft: &mut Draft,
        agent: AgentId,
        call: &ToolCallId,
        failure: ToolFailure,
        message: &str,
    ) {
        let batch = self.agent(agent).and_then(|agent| agent.batch());
        let mut calls = batch.into_iter().flat_map(|batch| &batch.calls);
        let before = calls.find(|it| it.id == *call).and_then(|it| it.before);
        let Some(Before::Begun {
            effect_id, attempt, ..
        }) = before
        else {
            let outcome = ToolOutcome::failed(failure, message);
            return self.settle(draft, agent, call, None, &outcome);
        };
        // It ran in part or in whole before the run was taken up: to say that it did not would be untrue.
        let message =
            format!("interrupted: its outcome is unknown; it is not made again: {message}");
        let outcome = ToolOutcome::failed(ToolFailure::OutcomeUnknown, &message);
        let ran = Some((effect_id, attempt, None));
        self.settle(draft, agent, call, ran, &outcome);
    }

    /// Gives every call of the batch that has no result yet the same one, none of them having run.
    pub(super) fn settle_all(&mut self, draft: &mut Draft, agent: AgentId, outcome: &ToolOutcome) {
        let batch = self.agent(agent).and_then(|agent| agent.batch());
        let calls = batch
            .into_iter()
            .flat_map(|batch| &batch.calls)
            .filter(|call| !call.is_settled());
        let calls: Vec<_> = calls.map(|call| call.id.clone()).collect();
        for call in &calls {
            self.settle(draft, agent, call, None, outcome);
        }
    }

    /// Adds a record that belongs to the agent's current batch.
    pub(super) fn record_in_batch(&mut self, draft: &mut Draft, agent: AgentId, body: RecordBody) {
        let content_index = self
            .agent(agent)
            .and_then(|agent| Some(agent.batch()?.content_index));
        self.record(draft, agent, content_index, body);
    }
}

/// Returns what later history keeps of a result whose value is not kept.
pub(crate) fn left_of(keep: Keep, summary: Option<&str>) -> Option<String> {
    (keep == Keep::Summary).then(|| summary.unwrap_or(NOT_KEPT).to_owned())
}

fn result_record(call: &Call, ran: Ran, outcome: &ToolOutcome) -> ToolResult {
    let output = outcome.output.clone();
    ToolResult {
        tool_call_id: call.id.clone(),
        name: call.name.clone(),
        index: call.index,
        effect_id: ran.map(|(effect, ..)| effect),
        attempt: ran.map(|(_, attempt, _)| attempt),
        status: ToolStatus::of(outcome),
        value: output.value,
        failure: outcome.failure,
        summary: output.summary,
        keep: output.keep,
        metadata: output.metadata,
        signal: output.signal,
        untrusted: false,
        duration: ran.and_then(|(.., duration)| duration),
    }
}
