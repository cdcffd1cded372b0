//! Handles a model's reply: runs its calls, or finishes with its text (loop rule 2).

use std::mem;
use std::sync::Arc;

use super::agent::{Agent, ConsultedAbout, ModelCall, OfferedTools, Phase};
use super::agent_step::AgentStep;
use super::batch::{Batch, Call, shown};
use super::{Next, RunState};
use crate::effect::Purpose;
use crate::error::InputError;
use crate::finish::FinishReason;
use crate::ids::{Attempt, EffectId, Role};
use crate::input::ModelReplied;
use crate::log::{ReplySource, Unrecorded};
use crate::message::Message;
use crate::metrics::Cost;
use crate::outcome::{ToolFailure, ToolOutcome};
use crate::profile::{Hook, NoCalls};
use crate::record::{LlmCall, Origin, PromptReason, RecordBody, RoleDowngraded, Warning};
use crate::reply::{Reply, ReplyFinish};
use crate::spec::AgentSpec;
use crate::texts::{CallTexts, Texts};
use crate::transcript::PrefixDigest;
use crate::usage::{CountLabel, Usage};

impl AgentStep<'_> {
    pub(super) fn model_replied(&mut self, replied: ModelReplied) -> Result<Next, InputError> {
        let (effect, attempt) = (replied.effect_id, replied.attempt);
        let Some(call) = self.answered_call(effect, attempt, "llm_call")? else {
            return Ok(Next::Wait);
        };
        let reply = Arc::clone(&replied.reply);
        let cost = Cost::reported(replied.cost, replied.cost_label);
        self.charge(&replied.served_by, reply.usage, cost);
        let left_out = replied.downgraded.as_ref().map_or(0, |it| it.left_out);
        // A measurement with a part of the conversation says nothing about its whole size.
        let measured = match left_out {
            0 => reply.usage,
            _ => Usage::UNKNOWN,
        };
        self.note_call(&call, replied)?;
        self.charge_uncounted(call.planned.purpose, &reply);
        if reply.is_refusal() {
            let text = reply.text();
            self.agent.conversation.add_answer(&text);
            return Ok(Next::Finish(FinishReason::Refused, text));
        }
        match call.planned.purpose {
            Purpose::Turn => self.turn_replied(&call, &reply, measured),
            Purpose::Gather => self.gather_chosen(&call, Some(&reply)),
            Purpose::Routing => self.role_chosen(Some(&reply)),
            Purpose::LastAnswer => self.agent.last_answer_replied(self.spec, &call, &reply),
            Purpose::Compaction => self.summary_replied(call, Some(&reply)),
            Purpose::SelfCheck => Ok(self.draft_checked(&call, Some(&reply))),
        }
    }

    /// Takes the agent's model call if its latest attempt is answered; `None` if a later attempt is in progress.
    pub(super) fn answered_call(
        &mut self,
        effect: EffectId,
        attempt: Attempt,
        input: &'static str,
    ) -> Result<Option<ModelCall>, InputError> {
        match mem::replace(&mut self.agent.phase, Phase::Between) {
            Phase::Model(call) if call.effect_id == effect && attempt >= call.attempt => {
                Ok(Some(call))
            }
            other => {
                let is_late = matches!(&other, Phase::Model(call) if call.effect_id == effect);
                self.agent.phase = other;
                if is_late {
                    return Ok(None);
                }
                Err(InputError::WrongAnswer { effect, input })
            }
        }
    }

    fn note_call(&mut self, call: &ModelCall, replied: ModelReplied) -> Result<(), InputError> {
        let sent = self.agent.sent(self.spec, call, self.texts)?;
        let downgraded = self
            .state
            .note_served(&replied.served_by, replied.downgraded.as_deref());
        let record = LlmCall {
            effect_id: replied.effect_id,
            attempt: replied.attempt,
            purpose: call.planned.purpose,
            role: call.planned.role.clone(),
            served_by: replied.served_by,
            downgraded: replied.downgraded,
            prefix: sent.prefix,
            results: sent.results,
            messages: sent.messages,
            reply: replied.reply,
            cost: replied.cost,
            cost_label: replied.cost_label,
            duration: replied.duration,
            first_delta: replied.first_delta,
        };
        self.record_at(call.content_index, RecordBody::LlmCall(Box::new(record)));
        if let Some(downgraded) = downgraded {
            self.record(RecordBody::RoleDowngraded(downgraded));
        }
        Ok(())
    }

    fn turn_replied(
        &mut self,
        call: &ModelCall,
        reply: &Reply,
        measured: Usage,
    ) -> Result<Next, InputError> {
        let source = self.reply_source(call);
        let message = self.agent.conversation.push_reply(source, reply);
        let tools = &call.planned.tools;
        self.agent.measure(self.spec, tools, measured);
        self.warn_of_tools_not_retried(&message);
        if let Some(reason) = reply.turned_down() {
            return self.reply_turned_down(&message, reason);
        }
        if message.tool_calls().next().is_none() {
            return Ok(self.turn_answered(&call.planned.tools, reply));
        }
        self.begin_batch(&message, Origin::Model);
        let spec = self.spec;
        let is_late = self.agent.closing.is_some();
        let delivers = message
            .tool_calls()
            .any(|call| spec.is_delivered_by(&call.name));
        let runs_none = is_late && !delivers;
        let is_cut = reply.finish == ReplyFinish::Length;
        let counts = is_cut && !is_late && self.state.loop_version >= 4;
        if counts && self.stops_for_repeats(&message, true)? {
            return Ok(Next::Schedule);
        }
        if let Some((failure, why)) = not_run(
            reply.finish,
            runs_none,
            &call.planned.tools,
            &self.texts.calls,
        ) {
            self.settle_all(&ToolOutcome::failed(failure, why))?;
            return Ok(Next::Schedule);
        }
        if is_late {
            // A call that delivers the answer does no other work, and there is no time to ask for the answer again.
            let works = |call: &Call| !spec.is_delivered_by(&call.name);
            self.refuse_each(works, ToolFailure::LimitReached, self.texts.calls.too_late)?;
        }
        if self.stops_for_repeats(&message, false)? {
            return Ok(Next::Schedule);
        }
        if let OfferedTools::Only(names) = &call.planned.tools {
            let is_offered = |call: &Call| names.iter().any(|name| name.as_str() == &*call.name);
            let is_known = |call: &Call| spec.tool(&call.name).is_some();
            let refused = |call: &Call| is_known(call) && !is_offered(call);
            let message = self.texts.calls.not_in_turn;
            self.refuse_each(refused, ToolFailure::NotEnabled, message)?;
        }
        // If every call was refused, there is nothing to consult about: the turn has ended.
        if !self.batch()?.is_finished()
            && self.consults(Hook::ProcessCalls)
            && let Phase::Tools(batch) = mem::replace(&mut self.agent.phase, Phase::Between)
        {
            return Ok(self.ask_hook(ConsultedAbout::ProcessCalls(batch)));
        }
        Ok(Next::Vet)
    }

    /// Returns the data from which the ids of a reply's calls are built.
    pub(super) const fn reply_source(&self, call: &ModelCall) -> ReplySource {
        ReplySource {
            run: self.run.run_id,
            agent: self.agent.id,
            content_index: call.content_index,
        }
    }

    pub(super) fn begin_batch(&mut self, reply: &Message, origin: Origin) {
        let content_index = self.step.new_content_index();
        let rule = self.spec.profile.arguments;
        let batch = Batch::of(reply, origin, rule, content_index);
        self.agent.phase = Phase::Tools(batch);
    }

    /// Warns about tools that failed in the last turn and are not tried again (loop rule 8).
    fn warn_of_tools_not_retried(&mut self, reply: &Message) {
        let mut left = mem::take(&mut self.agent.failed_tools);
        left.retain(|failed| !reply.tool_calls().any(|call| call.name == *failed));
        if left.is_empty() {
            return;
        }
        left.sort_unstable();
        left.dedup();
        let names: Vec<String> = left.iter().map(|name| shown(name)).collect();
        let message = format!(
            "failed last turn and was not tried again: {}",
            names.join(", ")
        );
        self.warn(Warning::TOOL_NOT_RETRIED, message);
    }

    /// Handles a turn that called no tool: the agent ends, unless a steering message arrived or the profile requires a
    /// call.
    fn turn_answered(&mut self, tools: &OfferedTools, reply: &Reply) -> Next {
        self.agent.turns_used = self.agent.turns_used.saturating_add(1);
        let may_continue = self.agent.closing.is_none();
        if may_continue && self.agent.conversation.is_steered() {
            self.agent.conversation.join_steered();
            return Next::Continue;
        }
        if may_continue
            && tools.may_be_called()
            && let NoCalls::Remind { prompt, at_most } = &self.spec.profile.no_calls
            && self.agent.reminders < *at_most
        {
            self.agent.reminders = self.agent.reminders.saturating_add(1);
            self.inject_prompt(PromptReason::NoCalls, prompt.clone());
            return Next::Continue;
        }
        let reason = match reply.finish {
            ReplyFinish::Stop | ReplyFinish::ToolCalls => FinishReason::Stop,
            ReplyFinish::Length => FinishReason::Length,
            ReplyFinish::ContentFilter => FinishReason::ContentFilter,
            ReplyFinish::Refused => FinishReason::Refused,
        };
        let text = reply.text();
        let is_draft = may_continue && reason == FinishReason::Stop;
        if is_draft && let Some(check) = self.plan_check(&text) {
            return Next::CallAsIs(check);
        }
        self.answered(reason, text)
    }
}

impl RunState {
    /// Notes which role served a call. Returns what to record if it is not the call's own role: once, until the call's
    /// own role serves again, or each time the conversation is not sent as a whole.
    pub(super) fn note_served(
        &mut self,
        served_by: &Role,
        downgraded: Option<&RoleDowngraded>,
    ) -> Option<Box<RoleDowngraded>> {
        let known = &mut self.downgraded;
        let Some(downgraded) = downgraded else {
            known.remove(served_by);
            return None;
        };
        let before = known.insert(downgraded.from.clone(), downgraded.to.clone());
        let is_new = before.as_ref() != Some(&downgraded.to) || downgraded.left_out > 0;
        is_new.then(|| Box::new(downgraded.clone()))
    }
}

impl Agent {
    /// Returns what the record of a call says was sent. Messages outside the conversation are in no other record.
    fn sent(
        &mut self,
        spec: &AgentSpec,
        call: &ModelCall,
        texts: &Texts,
    ) -> Result<Unrecorded, InputError> {
        let aside = |messages: &[Arc<Message>]| Unrecorded {
            prefix: PrefixDigest::default(),
            results: Vec::new(),
            messages: messages.to_vec(),
        };
        Ok(match (&call.making_room, call.planned.purpose) {
            (Some(room), _) => {
                let request = self.summary_request(spec, &room.0, &texts.summaries);
                aside(request.messages.messages())
            }
            (None, Purpose::Routing) => aside(self.routing_request()?.messages.messages()),
            (None, Purpose::SelfCheck) => {
                let messages = Vec::from_iter(self.check_prompt());
                Unrecorded {
                    prefix: self.conversation.prefix(),
                    results: Vec::new(),
                    messages,
                }
            }
            (None, _) => self.conversation.take_unrecorded(),
        })
    }

    /// Notes the conversation's size as reported by the provider, including its reply, with the tools of the request.
    fn measure(&mut self, spec: &AgentSpec, tools: &OfferedTools, usage: Usage) {
        if usage.prompt.label == CountLabel::Measured && usage.prompt.tokens > 0 {
            // Reasoning is not sent again, or no longer counts when it is.
            let answer = usage
                .completion
                .tokens
                .saturating_sub(usage.reasoning.tokens);
            let tokens = usage.prompt.tokens.saturating_add(answer);
            self.note_measured(tokens, spec, tools);
        } else {
            self.gauge.note_estimated(self.conversation.transcript());
        }
    }
}

/// Returns why the calls of a reply do not run, if they do not.
fn not_run(
    finish: ReplyFinish,
    is_late: bool,
    offered: &OfferedTools,
    texts: &CallTexts,
) -> Option<(ToolFailure, &'static str)> {
    match finish {
        ReplyFinish::Length => Some((ToolFailure::InvalidArguments, texts.reply_cut)),
        ReplyFinish::ContentFilter => Some((ToolFailure::InvalidArguments, texts.reply_filtered)),
        ReplyFinish::Refused => Some((ToolFailure::InvalidArguments, texts.reply_refused)),
        _ if is_late => Some((ToolFailure::LimitReached, texts.too_late)),
        _ if matches!(offered, OfferedTools::None | OfferedTools::Shown) => {
            Some((ToolFailure::NotEnabled, texts.no_tool_in_turn))
        }
        ReplyFinish::Stop | ReplyFinish::ToolCalls => None,
    }
}
