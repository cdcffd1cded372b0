//! What models say: text and thoughts as they arrive, what is retracted, and what only the record contains.

use neuraxis::core::{AgentId, Attempt, BlockIndex, EffectId, LiveEvent, LlmCall, Purpose};

use super::Mapping;
use crate::agui::event::Body;

/// What was sent of a model call's output.
#[derive(Debug)]
pub(super) struct CallOutput {
    agent: AgentId,
    attempt: Attempt,
    open: Option<Open>,
    /// How many messages were started; used for their ids.
    begun: u32,
    /// The text messages that have not been retracted.
    messages: Vec<String>,
    /// Their text.
    text: String,
    has_reasoned: bool,
}

/// A message that is still open.
#[derive(Debug)]
struct Open {
    block: BlockIndex,
    kind: Kind,
    id: String,
}

/// The kind of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Reasoning,
}

impl CallOutput {
    const fn new(agent: AgentId, attempt: Attempt) -> Self {
        Self {
            agent,
            attempt,
            open: None,
            begun: 0,
            messages: Vec::new(),
            text: String::new(),
            has_reasoned: false,
        }
    }
}

impl Mapping {
    /// Processes a piece of a model's output.
    pub(super) fn add_delta(&mut self, live: &LiveEvent, kind: Kind, text: &str) {
        if text.is_empty() || self.settled.contains(&live.call) {
            return;
        }
        let known = self.outputs.get(&live.call);
        if known.is_some_and(|call_output| call_output.attempt != live.attempt) {
            self.retract_call(live.call);
        }
        self.begin_turn(live.agent, live.call);
        let call_output = self.outputs.remove(&live.call);
        let mut call_output =
            call_output.unwrap_or_else(|| CallOutput::new(live.agent, live.attempt));
        call_output.attempt = live.attempt;
        self.emit_text(live.call, &mut call_output, (live.block, kind), text);
        self.outputs.insert(live.call, call_output);
    }

    fn emit_text(
        &mut self,
        call: EffectId,
        call_output: &mut CallOutput,
        (block, kind): (BlockIndex, Kind),
        text: &str,
    ) {
        let is_same = |open: &Open| open.block == block && open.kind == kind;
        if !call_output.open.as_ref().is_some_and(is_same) {
            self.end_message(call_output);
            call_output.begun = call_output.begun.saturating_add(1);
            let id = format!("{call}.{}.{}", call_output.attempt, call_output.begun);
            self.begin_message(call_output, kind, &id);
            call_output.open = Some(Open { block, kind, id });
        }
        let Some(open) = &call_output.open else {
            return;
        };
        let (message_id, delta) = (open.id.clone(), text.to_owned());
        let body = match kind {
            Kind::Text => {
                call_output.text.push_str(text);
                self.client_messages.append_text(&message_id, text);
                Body::TextMessageContent { message_id, delta }
            }
            Kind::Reasoning => Body::ReasoningMessageContent { message_id, delta },
        };
        self.emit(call_output.agent, body);
    }

    fn begin_message(&mut self, call_output: &mut CallOutput, kind: Kind, id: &str) {
        let message_id = id.to_owned();
        match kind {
            Kind::Text => {
                call_output.messages.push(id.to_owned());
                let of = self.subagents.id(call_output.agent);
                self.client_messages.begin(id, of);
                let role = "assistant";
                self.emit(
                    call_output.agent,
                    Body::TextMessageStart { message_id, role },
                );
            }
            Kind::Reasoning => {
                call_output.has_reasoned = true;
                let role = "reasoning";
                let span = id.to_owned();
                self.emit(call_output.agent, Body::ReasoningStart { message_id: span });
                self.emit(
                    call_output.agent,
                    Body::ReasoningMessageStart { message_id, role },
                );
            }
        }
    }

    /// Ends the open message.
    fn end_message(&mut self, call_output: &mut CallOutput) {
        let Some(Open { kind, id, .. }) = call_output.open.take() else {
            return;
        };
        let message_id = id.clone();
        match kind {
            Kind::Text => self.emit(call_output.agent, Body::TextMessageEnd { message_id }),
            Kind::Reasoning => {
                self.emit(call_output.agent, Body::ReasoningMessageEnd { message_id });
                self.emit(call_output.agent, Body::ReasoningEnd { message_id: id });
            }
        }
    }

    /// Ends all open messages, of one agent or of all.
    pub(super) fn end_open_messages(&mut self, agent: Option<AgentId>) {
        let is_meant =
            |call_output: &CallOutput| agent.is_none_or(|agent| call_output.agent == agent);
        let outputs = std::mem::take(&mut self.outputs);
        for (call, mut call_output) in outputs {
            if is_meant(&call_output) {
                self.end_message(&mut call_output);
            } else {
                self.outputs.insert(call, call_output);
            }
        }
    }

    /// Retracts what was shown of a model call.
    pub(super) fn retract_call(&mut self, call: EffectId) {
        if let Some(mut call_output) = self.outputs.remove(&call) {
            self.retract(&mut call_output);
            self.outputs.insert(call, call_output);
        }
    }

    fn retract(&mut self, call_output: &mut CallOutput) {
        self.end_message(call_output);
        call_output.text.clear();
        call_output.has_reasoned = false;
        let void = std::mem::take(&mut call_output.messages);
        if void.is_empty() {
            return;
        }
        self.client_messages.remove(&void);
        let messages = self.client_messages.messages();
        // A snapshot covers all agents.
        self.emit(AgentId::ROOT, Body::MessagesSnapshot { messages });
    }

    /// Aligns what was shown of a model call with its record. Returns the message that its calls belong to.
    pub(super) fn settle(&mut self, agent: AgentId, call: &LlmCall) -> String {
        let id = call.effect_id;
        let call_output = self.outputs.remove(&id);
        let mut call_output = call_output.unwrap_or_else(|| CallOutput::new(agent, call.attempt));
        call_output.attempt = call.attempt;
        if call.reply.turned_down().is_some() {
            self.retract(&mut call_output);
        } else if call.purpose == Purpose::Turn && self.is_read_along(agent, call.purpose) {
            let text = call.reply.text();
            let block = BlockIndex(u32::MAX);
            let reasoning = call.reply.reasoning();
            if !text.starts_with(&call_output.text) {
                self.retract(&mut call_output);
            }
            let nothing_came = call_output.text.is_empty() && !call_output.has_reasoned;
            if nothing_came && !reasoning.is_empty() {
                self.emit_text(id, &mut call_output, (block, Kind::Reasoning), &reasoning);
            }
            let rest = text
                .strip_prefix(&call_output.text)
                .unwrap_or_default()
                .to_owned();
            if !rest.is_empty() {
                let block = match &call_output.open {
                    Some(open) if open.kind == Kind::Text => open.block,
                    _ => block,
                };
                self.emit_text(id, &mut call_output, (block, Kind::Text), &rest);
            }
        }
        self.end_message(&mut call_output);
        let last = call_output.messages.pop();
        last.unwrap_or_else(|| format!("{id}.calls"))
    }
}
