//! Handles a model's reply: run its calls, or finish with its text (loop rule 2).

use std::sync::Arc;

use crate::effect::Purpose;
use crate::error::InputError;
use crate::finish::FinishReason;
use crate::ids::{AgentId, CallIndex, EffectId};
use crate::input::ModelReplied;
use crate::message::{AssistantMessage, Message, ToolCall};
use crate::outcome::{ToolFailure, ToolOutcome};
use crate::profile::Opening;
use crate::project::{assign_ids, chosen_call};
use crate::record::{LlmCall, Origin, RecordBody};
use crate::reply::{Reply, ReplyFinish, ReplyPart, RequestedCall};
use crate::run::RunTree;
use crate::run::agent::{Agent, ModelCall, OfferedTools, Phase};
use crate::run::batch::{Batch, Call, CallState};
use crate::run::draft::Draft;

impl RunTree {
    pub(super) fn model_replied(
        &mut self,
        draft: &mut Draft,
        replied: ModelReplied,
    ) -> Result<(), InputError> {
        let Some((agent, call)) = self.open_model_call(replied.effect_id) else {
            return self.no_model_call(replied.effect_id, "llm_call");
        };
        if replied.attempt < call.attempt {
            return Ok(());
        }
        self.usage.add(&replied.served_by, replied.reply.usage);
        let reply = Arc::clone(&replied.reply);
        self.record_call(draft, agent, &call, replied);
        match call.purpose {
            Purpose::Turn => self.turn_replied(draft, agent, &call, &reply),
            Purpose::Routing => self.gather_chosen(draft, agent, &call, Some(&reply)),
            Purpose::LastAnswer => self.last_answer_replied(draft, agent, &call, &reply),
            // The loop asks for no compaction and no self-check, so no open call has such a purpose.
            Purpose::Compaction | Purpose::SelfCheck => {}
        }
        Ok(())
    }

    pub(super) fn open_model_call(&self, effect: EffectId) -> Option<(AgentId, ModelCall)> {
        self.agents
            .iter()
            .find_map(|agent| Some((agent.id, agent.model_call(effect)?.clone())))
    }

    /// What to say of a model's answer for which no model call is open.
    pub(super) fn no_model_call(
        &self,
        effect: EffectId,
        input: &'static str,
    ) -> Result<(), InputError> {
        let open = self.agents.iter().filter_map(|agent| agent.batch());
        if open
            .flat_map(|batch| &batch.calls)
            .any(|call| call.effect() == Some(effect))
        {
            return Err(InputError::WrongAnswer { effect, input });
        }
        self.late_or_unknown(effect)
    }

    fn record_call(
        &mut self,
        draft: &mut Draft,
        id: AgentId,
        call: &ModelCall,
        replied: ModelReplied,
    ) {
        let Some(agent) = self.agent_mut(id) else {
            return;
        };
        let prefix = agent.recorded;
        let start = usize::try_from(prefix.count).unwrap_or(usize::MAX);
        let mut results = Vec::new();
        let mut messages = Vec::new();
        for message in agent.transcript.since(start) {
            agent.recorded = agent.recorded.with(message);
            match message.as_ref() {
                Message::Tool(tool) => results.push(tool.tool_call_id.clone()),
                _ => messages.push(Arc::clone(message)),
            }
        }
        let record = LlmCall {
            effect_id: replied.effect_id,
            attempt: replied.attempt,
            purpose: call.purpose,
            role: call.role.clone(),
            served_by: replied.served_by,
            prefix,
            results,
            messages,
            reply: replied.reply,
            cost: replied.cost,
            duration: replied.duration,
            first_delta: replied.first_delta,
        };
        self.record(
            draft,
            id,
            Some(call.content_index),
            RecordBody::LlmCall(Box::new(record)),
        );
    }

    fn turn_replied(&mut self, draft: &mut Draft, agent: AgentId, call: &ModelCall, reply: &Reply) {
        let text = reply.text();
        if let Some(agent) = self.agent_mut(agent) {
            agent.gather_text(&text);
        }
        let parts = assign_ids(self.spec.run_id, agent, call.content_index, &reply.parts);
        let message = Message::Assistant(AssistantMessage {
            parts,
            model: Some(reply.model.clone()),
        });
        let calls: Vec<ToolCall> = message.tool_calls().cloned().collect();
        self.append_reply(agent, message);
        if calls.is_empty() {
            self.turn_answered(draft, agent, text, reply.finish);
            return;
        }
        self.begin_batch(agent, &calls, Origin::Model);
        let is_closing = |agent: &Agent| agent.closing.is_some();
        let not_run = match reply.finish {
            ReplyFinish::Length => Some((
                ToolFailure::InvalidArguments,
                "not run: the reply was truncated at its length limit, resend it smaller",
            )),
            ReplyFinish::ContentFilter => Some((
                ToolFailure::InvalidArguments,
                "not run: the provider cut the reply off with its content filter",
            )),
            _ if self.agent(agent).is_some_and(is_closing) => {
                Some((ToolFailure::LimitReached, "not run: time is up"))
            }
            _ if call.tools == OfferedTools::None => Some((
                ToolFailure::NotEnabled,
                "TOOL_NOT_ENABLED: no tool is available in this turn",
            )),
            ReplyFinish::Stop | ReplyFinish::ToolCalls => None,
        };
        if let Some((failure, why)) = not_run {
            self.settle_all(draft, agent, &ToolOutcome::failed(failure, why));
            self.schedule(draft, agent);
        } else {
            self.vet_batch(draft, agent);
        }
    }

    /// A turn that called no tool: the end, unless somebody steered meanwhile.
    fn turn_answered(&mut self, draft: &mut Draft, id: AgentId, text: String, finish: ReplyFinish) {
        let steered = self
            .agent(id)
            .is_some_and(|agent| !agent.steered.is_empty() && agent.closing.is_none());
        if steered {
            if let Some(agent) = self.agent_mut(id) {
                agent.turns_used = agent.turns_used.saturating_add(1);
                agent.join_steered();
            }
            self.go_on(draft, id);
            return;
        }
        let reason = match finish {
            ReplyFinish::Stop | ReplyFinish::ToolCalls => FinishReason::Stop,
            ReplyFinish::Length => FinishReason::Length,
            ReplyFinish::ContentFilter => FinishReason::ContentFilter,
        };
        if let Some(agent) = self.agent_mut(id) {
            agent.turns_used = agent.turns_used.saturating_add(1);
        }
        self.finish(draft, id, reason, text);
    }

    /// The opening's choice: keep its first call, or add the one that policy wants; its text is dropped.
    pub(super) fn gather_chosen(
        &mut self,
        draft: &mut Draft,
        agent: AgentId,
        call: &ModelCall,
        reply: Option<&Reply>,
    ) {
        let Opening::Gather {
            tool,
            default_arguments,
            ..
        } = self.agent_spec(agent).profile.opening.clone()
        else {
            return;
        };
        let chosen = reply.and_then(|reply| Some((reply, chosen_call(reply)?)));
        let (origin, part, model) = match chosen {
            Some((reply, chosen)) => (
                Origin::Model,
                ReplyPart::ToolCall(chosen),
                Some(reply.model.clone()),
            ),
            None => {
                let (name, arguments) = (tool.as_str().to_owned(), default_arguments);
                let added = RequestedCall {
                    provider_id: None,
                    name,
                    arguments,
                    state: None,
                };
                (Origin::Policy, ReplyPart::ToolCall(added), None)
            }
        };
        let parts = assign_ids(self.spec.run_id, agent, call.content_index, [&part]);
        let message = Message::Assistant(AssistantMessage { parts, model });
        let calls: Vec<ToolCall> = message.tool_calls().cloned().collect();
        self.append_reply(agent, message);
        self.begin_batch(agent, &calls, origin);
        self.vet_batch(draft, agent);
    }

    /// Adds the model's message to the conversation; what the record of its call holds need not be recorded again. Nor
    /// need what an opening was asked that failed: the run's first record has it.
    fn append_reply(&mut self, agent: AgentId, message: Message) {
        let Some(agent) = self.agent_mut(agent) else {
            return;
        };
        let is_empty =
            matches!(&message, Message::Assistant(assistant) if assistant.parts.is_empty());
        if !is_empty {
            let recorded = usize::try_from(agent.recorded.count).unwrap_or(usize::MAX);
            agent.transcript.push(message);
            let new = agent.transcript.since(recorded).iter();
            agent.recorded = new.fold(agent.recorded, |digest, message| digest.with(message));
        }
    }

    fn begin_batch(&mut self, agent: AgentId, calls: &[ToolCall], origin: Origin) {
        let content_index = self.new_content_index();
        let calls = calls.iter().zip(0..).map(|(call, index)| Call {
            id: call.id.clone(),
            index: CallIndex(index),
            name: call.name.clone(),
            arguments: call.arguments.clone(),
            origin,
            approved: false,
            // Replaced at once, by the effect that checks it or by its result.
            state: CallState::HandedOver,
        });
        let calls = calls.collect();
        if let Some(agent) = self.agent_mut(agent) {
            agent.phase = Phase::Tools(Batch {
                content_index,
                calls,
            });
        }
    }
}
