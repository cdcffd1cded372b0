//! The messages that a run adds to its session's history, read from its records alone.
//!
//! Reading needs no replay, so it works for logs of any loop version. A property test holds it equal to what the machine
//! itself has.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::effect::Purpose;
use crate::finish::RunOutcome;
use crate::ids::{AgentId, CallIndex, ContentIndex, RunId, ToolCallId};
use crate::input::NextAttempt;
use crate::json::JsonText;
use crate::message::{AssistantMessage, Message, Part, ToolCall, ToolMessage};
use crate::profile::Opening;
use crate::record::{LlmCall, Record, RecordBody, RunStarted};
use crate::reply::{Reply, ReplyFinish, ReplyPart, RequestedCall};

/// Returns the messages that a run added to its session's history: those it was started with, its replies, and the
/// results of its calls. Only the root agent's; sub-agents have conversations of their own. The records may end with any
/// step of the run.
#[must_use]
pub fn run_messages(records: &[Arc<Record>]) -> Vec<Arc<Message>> {
    let mut reader = Reader::default();
    for record in records {
        reader.read(record);
    }
    reader.next_turn();
    reader.messages
}

#[derive(Default)]
struct Reader {
    messages: Vec<Arc<Message>>,
    opening: Option<Opening>,
    /// The calls of the last reply that have no message yet, in call order.
    open_calls: Vec<(ToolCallId, String)>,
    results: BTreeMap<ToolCallId, JsonText>,
    /// Messages that steered the run and have not joined yet.
    steered: Vec<Arc<Message>>,
    /// Nothing of the last reply is open any more: unless the run ends with this step, its next turn begins.
    turn_over: bool,
}

impl Reader {
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
                if failed.purpose == Purpose::Routing && failed.next == NextAttempt::None =>
            {
                self.gather(record, None);
            }
            RecordBody::ToolResult(result) => {
                self.results
                    .insert(result.tool_call_id.clone(), result.value.clone());
                self.turn_over = self.calls_have_results();
            }
            RecordBody::Steered(steered) => self.steered.push(Arc::clone(&steered.message)),
            RecordBody::MaxTurnsReached(_) => self.next_turn(),
            RecordBody::MaxTurnsPromptInjected(injected) => self.system(&injected.message),
            RecordBody::LimitReached(reached) if !opens_step => {
                self.next_turn();
                if let Some(prompt) = &reached.prompt {
                    self.system(prompt);
                }
            }
            RecordBody::Final(outcome) | RecordBody::RunFailed(outcome) => self.end(outcome),
            _ => {}
        }
    }

    fn start(&mut self, started: &RunStarted) {
        self.messages = started.spec.messages.clone();
        self.opening = Some(started.spec.root.profile.opening.clone());
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
            Purpose::Routing => self.gather(record, Some(&call.reply)),
            // A last answer joins with the end of the run: it may be dropped for another.
            Purpose::LastAnswer | Purpose::Compaction | Purpose::SelfCheck => {}
        }
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
    }

    fn gather(&mut self, record: &Record, reply: Option<&Reply>) {
        let chosen = reply.and_then(|reply| Some((chosen_call(reply)?, reply.model.clone())));
        let (call, model) = match (chosen, &self.opening) {
            (Some((call, model)), _) => (call, Some(model)),
            (
                None,
                Some(Opening::Gather {
                    tool,
                    default_arguments,
                    ..
                }),
            ) => {
                let (name, arguments) = (tool.as_str().to_owned(), default_arguments.clone());
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

/// Turns the parts of a reply into those of a message: each call gets its id, made of run, agent, model call and index.
fn message_parts(record: &Record, parts: &[ReplyPart]) -> Vec<Part> {
    assign_ids(
        record.run_id,
        record.agent,
        record.content_index.unwrap_or_default(),
        parts,
    )
}

/// Gives each call of a reply its id, made of run, agent, model call and index.
pub(crate) fn assign_ids<'a>(
    run: RunId,
    agent: AgentId,
    content_index: ContentIndex,
    parts: impl IntoIterator<Item = &'a ReplyPart>,
) -> Vec<Part> {
    let mut index = CallIndex::default();
    let parts = parts.into_iter().map(|part| match part {
        ReplyPart::Text(text) => Part::Text(text.clone()),
        ReplyPart::Reasoning(reasoning) => Part::Reasoning(reasoning.clone()),
        ReplyPart::ToolCall(call) => {
            let id = ToolCallId::new(run, agent, content_index, index);
            index = index.next();
            let RequestedCall {
                provider_id,
                name,
                arguments,
                state,
            } = call.clone();
            Part::ToolCall(ToolCall {
                id,
                name,
                arguments,
                provider_id,
                state,
            })
        }
    });
    parts.collect()
}

/// Returns the call by which an opening's reply chooses what to gather: its first, unless it was cut off.
pub(crate) fn chosen_call(reply: &Reply) -> Option<RequestedCall> {
    let is_whole = matches!(reply.finish, ReplyFinish::Stop | ReplyFinish::ToolCalls);
    is_whole.then(|| reply.calls().next().cloned()).flatten()
}
