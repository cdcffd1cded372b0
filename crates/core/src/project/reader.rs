//! Reads a log from its beginning and keeps the conversation as it stands.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::conversations::shorten;
use super::{chosen_call, message_parts, trimmed};
use crate::decision::Checked;
use crate::effect::Purpose;
use crate::finish::{FinishReason, RunOutcome};
use crate::ids::{AgentId, ToolCallId};
use crate::input::NextAttempt;
use crate::json::JsonText;
use crate::message::{AssistantMessage, Message, ToolMessage};
use crate::profile::{Opening, Profile};
use crate::record::{ContextTrimmed, LlmCall, Record, RecordBody, RunStarted, ToolResult};
use crate::reply::{Reply, ReplyPart, RequestedCall};
use crate::run::{checked, corrected, left_of};
use crate::transcript::Transcript;

/// Whether messages that a run left out are left out here, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trims {
    Followed,
    Ignored,
}

pub(super) struct Reader {
    messages: Vec<Arc<Message>>,
    trims: Trims,
    profile: Option<Profile>,
    /// The calls of the last reply that have no message yet, in call order.
    open_calls: Vec<(ToolCallId, Arc<str>)>,
    results: BTreeMap<ToolCallId, JsonText>,
    /// Results that later history does not keep, with what stays of them.
    not_kept: BTreeMap<ToolCallId, String>,
    /// Messages that steered the run and have not joined yet.
    steered: Vec<Arc<Message>>,
    /// The question that no tool asked and that may end the run.
    question: Option<String>,
    /// Nothing of the last reply is open any more: unless the run ends with this step, its next turn begins.
    turn_over: bool,
}

impl Reader {
    pub(super) const fn after(messages: Vec<Arc<Message>>, trims: Trims) -> Self {
        Self {
            messages,
            trims,
            profile: None,
            open_calls: Vec::new(),
            results: BTreeMap::new(),
            not_kept: BTreeMap::new(),
            steered: Vec::new(),
            question: None,
            turn_over: false,
        }
    }

    pub(super) fn read_all(&mut self, records: &[Arc<Record>]) {
        for record in records {
            self.read(record);
        }
        self.next_turn();
    }

    pub(super) fn into_messages(self) -> Vec<Arc<Message>> {
        self.messages
    }

    pub(super) fn into_continued(mut self) -> Transcript {
        shorten(self.messages.iter_mut(), |id| {
            self.not_kept.get(id).map(String::as_str)
        });
        self.messages.into_iter().collect()
    }

    fn read(&mut self, record: &Record) {
        let opens_step = record.active_ms.is_some();
        if opens_step {
            self.next_turn();
        }
        if record.agent != AgentId::ROOT {
            return;
        }
        match &record.body {
            RecordBody::RunStarted(started) => self.start(started),
            RecordBody::LlmCall(call) => self.model_call(record, call),
            RecordBody::LlmFailed(failed)
                if failed.purpose == Purpose::Gather && failed.next == NextAttempt::None =>
            {
                self.gather(record, None);
            }
            RecordBody::LlmFailed(failed)
                if failed.purpose == Purpose::SelfCheck && failed.next == NextAttempt::None =>
            {
                self.turn_over = true;
            }
            RecordBody::Decision(decision) => {
                let clarify = decision.clarify.as_ref();
                self.question = clarify.map(|clarify| clarify.question.clone());
            }
            RecordBody::Escalated(escalated) => self.question.clone_from(&escalated.question),
            RecordBody::ToolResult(result) => self.result(result),
            RecordBody::Steered(steered) => self.steered.push(Arc::clone(&steered.message)),
            RecordBody::MaxTurnsReached(_) => self.next_turn(),
            RecordBody::MaxTurnsPromptInjected(injected) => self.system(&injected.message),
            RecordBody::LimitReached(reached) if !opens_step => {
                self.next_turn();
                if let Some(prompt) = &reached.prompt {
                    self.system(prompt);
                }
            }
            RecordBody::PromptInjected(injected) => {
                if self.turn_over {
                    self.results_join();
                }
                self.system(&injected.message);
            }
            RecordBody::ContextTrimmed(trimmed) => {
                self.next_turn();
                self.trim(trimmed);
            }
            RecordBody::Final(outcome) | RecordBody::RunFailed(outcome) => self.end(outcome),
            _ => {}
        }
    }

    fn start(&mut self, started: &RunStarted) {
        self.messages.extend(started.spec.messages.iter().cloned());
        self.profile = Some(started.spec.root.profile.clone());
    }

    fn model_call(&mut self, record: &Record, call: &LlmCall) {
        match call.purpose {
            Purpose::Turn => {
                let parts = message_parts(record, &call.reply.parts);
                self.reply(AssistantMessage {
                    parts,
                    model: Some(call.reply.model.clone()),
                });
                self.turn_over = self.calls_have_results();
            }
            Purpose::Gather => self.gather(record, Some(&call.reply)),
            Purpose::SelfCheck => {
                if let Checked::Corrected(text) = checked(&call.reply) {
                    self.messages = corrected(&self.messages, &text).messages().to_vec();
                }
                self.turn_over = true;
            }
            // A last answer joins with the end of the run: it may be dropped for another.
            Purpose::LastAnswer | Purpose::Compaction | Purpose::Routing => {}
        }
    }

    fn result(&mut self, result: &ToolResult) {
        let rule = self
            .profile
            .as_ref()
            .and_then(|profile| profile.result_rule(&result.name))
            .filter(|_| result.failure.is_none());
        let value = rule.map_or_else(|| result.value.clone(), |rule| rule.edited(&result.value));
        let id = result.tool_call_id.clone();
        if result.failure.is_none() {
            let keep = rule.and_then(|rule| rule.keep).unwrap_or(result.keep);
            let left = left_of(keep, result.summary.as_deref());
            self.not_kept.extend(left.map(|left| (id.clone(), left)));
        }
        self.results.insert(id, value);
        self.turn_over = self.calls_have_results();
    }

    fn calls_have_results(&self) -> bool {
        let mut calls = self.open_calls.iter();
        calls.all(|(id, _)| self.results.contains_key(id))
    }

    /// If the turn is over, its results join, and after them what steered the run meanwhile.
    fn next_turn(&mut self) {
        if std::mem::take(&mut self.turn_over) {
            self.results_join();
            self.messages.append(&mut self.steered);
        }
    }

    fn system(&mut self, text: &str) {
        self.messages.push(Arc::new(Message::system(text)));
    }

    /// The last turn's results join, but no message that steered the run: nobody answers it any more.
    fn end(&mut self, outcome: &RunOutcome) {
        self.turn_over = false;
        self.results_join();
        if outcome.finish_reason.ends_at_a_limit() {
            let answer = Message::assistant(outcome.content.as_str());
            self.messages.push(Arc::new(answer));
        }
        let question = self.question.take();
        if let Some(question) = question.filter(|_| outcome.finish_reason == FinishReason::Clarify)
        {
            self.messages.push(Arc::new(Message::assistant(question)));
        }
    }

    fn trim(&mut self, cut: &ContextTrimmed) {
        if self.trims == Trims::Followed {
            let messages = std::mem::take(&mut self.messages);
            self.messages = trimmed(messages, cut, &self.not_kept);
        }
    }

    fn gather(&mut self, record: &Record, reply: Option<&Reply>) {
        let chosen = reply.and_then(|reply| Some((chosen_call(reply)?, reply.model.clone())));
        let (call, model) = match (
            chosen,
            self.profile.as_ref().map(|profile| &profile.opening),
        ) {
            (Some((call, model)), _) => (call, Some(model)),
            (
                None,
                Some(Opening::Gather {
                    tool,
                    default_arguments,
                    ..
                }),
            ) => {
                let (name, arguments) = (tool.as_str().into(), default_arguments.clone());
                (
                    RequestedCall {
                        provider_id: None,
                        name,
                        arguments,
                        state: None,
                    },
                    None,
                )
            }
            (None, _) => return,
        };
        let parts = message_parts(record, &[ReplyPart::ToolCall(call)]);
        self.reply(AssistantMessage { parts, model });
    }

    fn reply(&mut self, message: AssistantMessage) {
        if message.parts.is_empty() {
            return;
        }
        let message = Message::Assistant(message);
        self.open_calls = message
            .tool_calls()
            .map(|call| (call.id.clone(), call.name.clone()))
            .collect();
        self.messages.push(Arc::new(message));
    }

    fn results_join(&mut self) {
        for (tool_call_id, name) in std::mem::take(&mut self.open_calls) {
            // A call handed over to the client has no result here.
            if let Some(content) = self.results.remove(&tool_call_id) {
                self.messages.push(Arc::new(Message::Tool(ToolMessage {
                    tool_call_id,
                    name,
                    content,
                })));
            }
        }
    }
}
