//! Handles a model's reply: run its calls, or finish with its text (loop rule 2).

use std::sync::Arc;

use crate::effect::Purpose;
use crate::error::InputError;
use crate::finish::FinishReason;
use crate::ids::{AgentId, CallIndex, EffectId, ToolCallId};
use crate::input::ModelReplied;
use crate::message::{AssistantMessage, Message, ToolCall};
use crate::outcome::{ToolFailure, ToolOutcome};
use crate::profile::{Hook, NoCalls};
use crate::project::assign_ids;
use crate::record::{LlmCall, Origin, PromptReason, RecordBody, Warning};
use crate::reply::{Reply, ReplyFinish};
use crate::run::RunTree;
use crate::run::agent::{Agent, ModelCall, OfferedTools, Phase};
use crate::run::arguments::preprocessed;
use crate::run::batch::{Batch, Call, CallState};
use crate::run::draft::Draft;
use crate::transcript::PrefixDigest;
use crate::usage::{CountLabel, Usage};

impl RunTree {
    pub(super) fn model_replied(
        &mut self,
        draft: &mut Draft,
        replied: ModelReplied,
    ) -> Result<(), InputError> {
        let Some((agent, call)) = self.open_model_call(replied.effect_id) else {
            return self.nothing_waits_for(replied.effect_id, "llm_call");
        };
        if replied.attempt < call.attempt {
            return Ok(());
        }
        let usage = replied.reply.usage;
        self.charge(agent, &replied.served_by, usage, replied.cost);
        let reply = Arc::clone(&replied.reply);
        let (served_by, downgraded) = (replied.served_by.clone(), replied.downgraded.clone());
        self.record_call(draft, agent, &call, replied);
        self.note_served(draft, agent, &served_by, downgraded.as_deref());
        match call.planned.purpose {
            Purpose::Turn => self.turn_replied(draft, agent, &call, &reply),
            Purpose::Gather => self.gather_chosen(draft, agent, &call, Some(&reply)),
            Purpose::Routing => self.role_chosen(draft, Some(&reply)),
            Purpose::LastAnswer => self.last_answer_replied(draft, agent, &call, &reply),
            Purpose::Compaction => self.summary_replied(draft, agent, &call, Some(&reply)),
            Purpose::SelfCheck => self.checked(draft, agent, &call, Some(&reply)),
        }
        Ok(())
    }

    pub(super) fn open_model_call(&self, effect: EffectId) -> Option<(AgentId, ModelCall)> {
        self.agents
            .iter()
            .find_map(|agent| Some((agent.id, agent.model_call(effect)?.clone())))
    }

    /// What to say of an answer that no agent waits for in this form.
    pub(super) fn nothing_waits_for(
        &self,
        effect: EffectId,
        input: &'static str,
    ) -> Result<(), InputError> {
        if self.agents.iter().any(|agent| agent.waits_for(effect)) {
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
        let Some((prefix, results, messages)) = self.sent(id, call) else {
            return;
        };
        let record = LlmCall {
            effect_id: replied.effect_id,
            attempt: replied.attempt,
            purpose: call.planned.purpose,
            role: call.planned.role.clone(),
            served_by: replied.served_by,
            downgraded: replied.downgraded,
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

    /// Returns what the record of a call says was sent. What is not part of the conversation is held by no other record.
    fn sent(&mut self, id: AgentId, call: &ModelCall) -> Option<Sent> {
        let agent = self.agent(id)?;
        let aside =
            |messages: &[Arc<Message>]| (PrefixDigest::default(), Vec::new(), messages.to_vec());
        Some(match (&call.making_room, call.planned.purpose) {
            (Some(room), _) => aside(Self::summary_request(agent, &room.0).messages.messages()),
            (None, Purpose::Routing) => aside(self.routing_request(agent)?.messages.messages()),
            (None, Purpose::SelfCheck) => (agent.recorded, Vec::new(), self.check_prompt(id)),
            (None, _) => self.agent_mut(id)?.take_unrecorded(),
        })
    }

    fn turn_replied(&mut self, draft: &mut Draft, id: AgentId, call: &ModelCall, reply: &Reply) {
        let text = reply.text();
        if let Some(agent) = self.agent_mut(id) {
            agent.gather_text(&text);
        }
        let parts = assign_ids(self.spec.run_id, id, call.content_index, &reply.parts);
        let message = Message::Assistant(AssistantMessage {
            parts,
            model: Some(reply.model.clone()),
        });
        let message = Arc::new(message);
        self.append_reply(id, Arc::clone(&message));
        self.measure(id, reply.usage);
        self.warn_of_failures_left(draft, id, &message);
        if message.tool_calls().next().is_none() {
            self.turn_answered(draft, id, call, text, reply.finish);
            return;
        }
        self.begin_batch(id, message.tool_calls(), Origin::Model);
        let closing = self.agent(id).is_some_and(|agent| agent.closing.is_some());
        if let Some((failure, why)) = not_run(reply.finish, closing, &call.planned.tools) {
            self.settle_all(draft, id, &ToolOutcome::failed(failure, why));
            self.schedule(draft, id);
        } else if !self.stops_for_repeats(draft, id, &message) {
            self.refuse_not_offered(draft, id, &call.planned.tools);
            // Where every call was refused there is nothing to ask about: the turn is over.
            let is_over = self.batch_is_over(id);
            if is_over || !self.consult(draft, id, Hook::ProcessCalls) {
                self.process_calls(draft, id);
            }
        }
    }

    /// Has the calls of a new batch checked, but for those that have their results already.
    pub(super) fn process_calls(&mut self, draft: &mut Draft, id: AgentId) {
        if self.batch_is_over(id) {
            self.schedule(draft, id);
        } else {
            self.vet_batch(draft, id);
        }
    }

    fn batch_is_over(&self, id: AgentId) -> bool {
        let batch = self.agent(id).and_then(Agent::batch);
        batch.is_some_and(Batch::is_over)
    }

    fn refuse_not_offered(&mut self, draft: &mut Draft, id: AgentId, offered: &OfferedTools) {
        let OfferedTools::Only(names) = offered else {
            return;
        };
        let batch = self.agent(id).and_then(Agent::batch);
        let calls = batch.into_iter().flat_map(|batch| &batch.calls);
        let is_known = |call: &&Call| self.agent_spec(id).tool(&call.name).is_some();
        let not_offered = calls
            .filter(is_known)
            .filter(|call| !names.iter().any(|name| name.as_str() == &*call.name));
        let not_offered: Vec<_> = not_offered.map(|call| call.id.clone()).collect();
        for call in &not_offered {
            let message = "TOOL_NOT_ENABLED: this tool is not available in this turn";
            self.refuse(draft, id, call, ToolFailure::NotEnabled, message);
        }
    }

    /// Takes note of how large the provider says the conversation is, its reply included.
    fn measure(&mut self, id: AgentId, usage: Usage) {
        let Some(agent) = self.agent_mut(id) else {
            return;
        };
        if usage.prompt.label == CountLabel::Measured && usage.prompt.tokens > 0 {
            // Reasoning is not sent again, or no longer counts once it is.
            let answer = usage
                .completion
                .tokens
                .saturating_sub(usage.reasoning.tokens);
            let tokens = usage.prompt.tokens.saturating_add(answer);
            agent.gauge.was_measured(tokens, &agent.transcript);
        } else {
            agent.gauge.was_estimated(&agent.transcript);
        }
    }

    /// Tools that failed last turn and are not tried again are worth knowing of (loop rule 8).
    fn warn_of_failures_left(&mut self, draft: &mut Draft, id: AgentId, message: &Message) {
        let Some(agent) = self.agent_mut(id) else {
            return;
        };
        let mut left = std::mem::take(&mut agent.failed_tools);
        left.retain(|failed| !message.tool_calls().any(|call| call.name == *failed));
        left.sort_unstable();
        left.dedup();
        if left.is_empty() {
            return;
        }
        let names: Vec<String> = left
            .iter()
            .map(|name| name.chars().take(64).collect())
            .collect();
        let warning = Warning {
            code: "tool_not_retried".to_owned(),
            message: format!(
                "failed last turn and was not tried again: {}",
                names.join(", ")
            ),
        };
        self.record(draft, id, None, RecordBody::Warning(Box::new(warning)));
    }

    /// A turn that called no tool: the end, unless somebody steered meanwhile or the profile wants a call.
    fn turn_answered(
        &mut self,
        draft: &mut Draft,
        id: AgentId,
        call: &ModelCall,
        text: String,
        finish: ReplyFinish,
    ) {
        let may_call = matches!(
            call.planned.tools,
            OfferedTools::Callable | OfferedTools::Only(_)
        );
        let reminder = self.reminder(id).filter(|_| may_call);
        let Some(agent) = self.agent_mut(id) else {
            return;
        };
        agent.turns_used = agent.turns_used.saturating_add(1);
        let may_go_on = agent.closing.is_none();
        if may_go_on && !agent.steered.is_empty() {
            agent.join_steered();
            self.go_on(draft, id);
        } else if let Some(prompt) = reminder.filter(|_| may_go_on) {
            agent.reminders = agent.reminders.saturating_add(1);
            self.tell(draft, id, PromptReason::NoCalls, prompt);
            self.go_on(draft, id);
        } else {
            let reason = match finish {
                ReplyFinish::Stop | ReplyFinish::ToolCalls => FinishReason::Stop,
                ReplyFinish::Length => FinishReason::Length,
                ReplyFinish::ContentFilter => FinishReason::ContentFilter,
            };
            let is_draft = may_go_on && reason == FinishReason::Stop;
            if !is_draft || !self.ask_check(draft, id, &text) {
                self.finish(draft, id, reason, text);
            }
        }
    }

    fn reminder(&self, id: AgentId) -> Option<String> {
        match &self.agent_spec(id).profile.no_calls {
            NoCalls::Remind { prompt, at_most } if self.agent(id)?.reminders < *at_most => {
                Some(prompt.clone())
            }
            _ => None,
        }
    }

    /// Adds the model's message to the conversation; what the record of its call holds need not be recorded again. Nor
    /// need what an opening was asked that failed: the run's first record has it.
    pub(super) fn append_reply(&mut self, agent: AgentId, message: Arc<Message>) {
        let Some(agent) = self.agent_mut(agent) else {
            return;
        };
        let is_empty =
            matches!(message.as_ref(), Message::Assistant(assistant) if assistant.parts.is_empty());
        if !is_empty {
            let recorded = usize::try_from(agent.recorded.count).unwrap_or(usize::MAX);
            agent.transcript.push(message);
            let new = agent.transcript.since(recorded).iter();
            agent.recorded = new.fold(agent.recorded, |digest, message| digest.with(message));
        }
    }

    pub(super) fn begin_batch<'a>(
        &mut self,
        agent: AgentId,
        calls: impl Iterator<Item = &'a ToolCall>,
        origin: Origin,
    ) {
        let content_index = self.new_content_index();
        let rule = self.agent_spec(agent).profile.arguments;
        let calls = calls.zip(0..).map(|(call, index)| Call {
            id: call.id.clone(),
            index: CallIndex(index),
            name: call.name.clone(),
            arguments: preprocessed(rule, &call.arguments),
            origin,
            approved: None,
            untrusted: false,
            before: None,
            state: CallState::New,
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

/// What was sent before, and of what is new the results and the other messages.
type Sent = (PrefixDigest, Vec<ToolCallId>, Vec<Arc<Message>>);

impl Agent {
    /// Returns what a record of a model call says was sent: what stands in records before, and what is new.
    fn take_unrecorded(&mut self) -> Sent {
        let prefix = self.recorded;
        let start = usize::try_from(prefix.count).unwrap_or(usize::MAX);
        let mut results = Vec::new();
        let mut messages = Vec::new();
        for message in self.transcript.since(start) {
            self.recorded = self.recorded.with(message);
            match message.as_ref() {
                Message::Tool(tool) => results.push(tool.tool_call_id.clone()),
                _ => messages.push(Arc::clone(message)),
            }
        }
        (prefix, results, messages)
    }
}

/// Why the calls of a reply are not run, if they are not.
fn not_run(
    finish: ReplyFinish,
    closing: bool,
    offered: &OfferedTools,
) -> Option<(ToolFailure, &'static str)> {
    match finish {
        ReplyFinish::Length => Some((
            ToolFailure::InvalidArguments,
            "not run: the reply was truncated at its length limit, resend it smaller",
        )),
        ReplyFinish::ContentFilter => Some((
            ToolFailure::InvalidArguments,
            "not run: the provider cut the reply off with its content filter",
        )),
        _ if closing => Some((ToolFailure::LimitReached, "not run: time is up")),
        _ if matches!(offered, OfferedTools::None | OfferedTools::Shown) => Some((
            ToolFailure::NotEnabled,
            "TOOL_NOT_ENABLED: no tool is available in this turn",
        )),
        ReplyFinish::Stop | ReplyFinish::ToolCalls => None,
    }
}
