//! What models say: text and thoughts as they arrive, what is retracted, and what only the record contains.

use neuraxis::core::{AgentId, Attempt, BlockIndex, EffectId, LiveEvent, LlmCall, Purpose};

use super::Mapping;
use crate::agui::event::Body;

/// What was sent of a model call's output.
#[derive(Debug)]
pub(super) struct Speech {
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

impl Speech {
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
    pub(super) fn heard(&mut self, live: &LiveEvent, kind: Kind, text: &str) {
        if text.is_empty() || self.settled.contains(&live.call) {
            return;
        }
        let known = self.speaking.get(&live.call);
        if known.is_some_and(|speech| speech.attempt != live.attempt) {
            self.take_back(live.call);
        }
        self.turn(live.agent, live.call);
        let speech = self.speaking.remove(&live.call);
        let mut speech = speech.unwrap_or_else(|| Speech::new(live.agent, live.attempt));
        speech.attempt = live.attempt;
        self.say(live.call, &mut speech, (live.block, kind), text);
        self.speaking.insert(live.call, speech);
    }

    fn say(
        &mut self,
        call: EffectId,
        speech: &mut Speech,
        (block, kind): (BlockIndex, Kind),
        text: &str,
    ) {
        let goes_on = |open: &Open| open.block == block && open.kind == kind;
        if !speech.open.as_ref().is_some_and(goes_on) {
            self.fall_silent(speech);
            speech.begun = speech.begun.saturating_add(1);
            let id = format!("{call}.{}.{}", speech.attempt, speech.begun);
            self.begin_message(speech, kind, &id);
            speech.open = Some(Open { block, kind, id });
        }
        let Some(open) = &speech.open else {
            return;
        };
        let (message_id, delta) = (open.id.clone(), text.to_owned());
        let body = match kind {
            Kind::Text => {
                speech.text.push_str(text);
                self.shown.say(&message_id, text);
                Body::TextMessageContent { message_id, delta }
            }
            Kind::Reasoning => Body::ReasoningMessageContent { message_id, delta },
        };
        self.tell(speech.agent, body);
    }

    fn begin_message(&mut self, speech: &mut Speech, kind: Kind, id: &str) {
        let message_id = id.to_owned();
        match kind {
            Kind::Text => {
                speech.messages.push(id.to_owned());
                let of = self.subagents.id(speech.agent);
                self.shown.begin(id, of);
                let role = "assistant";
                self.tell(speech.agent, Body::TextMessageStart { message_id, role });
            }
            Kind::Reasoning => {
                speech.has_reasoned = true;
                let role = "reasoning";
                let span = id.to_owned();
                self.tell(speech.agent, Body::ReasoningStart { message_id: span });
                self.tell(
                    speech.agent,
                    Body::ReasoningMessageStart { message_id, role },
                );
            }
        }
    }

    /// Ends the open message.
    fn fall_silent(&mut self, speech: &mut Speech) {
        let Some(Open { kind, id, .. }) = speech.open.take() else {
            return;
        };
        let message_id = id.clone();
        match kind {
            Kind::Text => self.tell(speech.agent, Body::TextMessageEnd { message_id }),
            Kind::Reasoning => {
                self.tell(speech.agent, Body::ReasoningMessageEnd { message_id });
                self.tell(speech.agent, Body::ReasoningEnd { message_id: id });
            }
        }
    }

    /// Ends all open messages, of one agent or of all.
    pub(super) fn silence(&mut self, agent: Option<AgentId>) {
        let is_meant = |speech: &Speech| agent.is_none_or(|agent| speech.agent == agent);
        let speaking = std::mem::take(&mut self.speaking);
        for (call, mut speech) in speaking {
            if is_meant(&speech) {
                self.fall_silent(&mut speech);
            } else {
                self.speaking.insert(call, speech);
            }
        }
    }

    /// Retracts what was shown of a model call.
    pub(super) fn take_back(&mut self, call: EffectId) {
        if let Some(mut speech) = self.speaking.remove(&call) {
            self.retract(&mut speech);
            self.speaking.insert(call, speech);
        }
    }

    fn retract(&mut self, speech: &mut Speech) {
        self.fall_silent(speech);
        speech.text.clear();
        speech.has_reasoned = false;
        let void = std::mem::take(&mut speech.messages);
        if void.is_empty() {
            return;
        }
        self.shown.remove(&void);
        let messages = self.shown.messages();
        // A snapshot covers all agents.
        self.tell(AgentId::ROOT, Body::MessagesSnapshot { messages });
    }

    /// Aligns what was shown of a model call with its record. Returns the message that its calls belong to.
    pub(super) fn settle(&mut self, agent: AgentId, call: &LlmCall) -> String {
        let id = call.effect_id;
        let speech = self.speaking.remove(&id);
        let mut speech = speech.unwrap_or_else(|| Speech::new(agent, call.attempt));
        speech.attempt = call.attempt;
        if call.reply.turned_down().is_some() {
            self.retract(&mut speech);
        } else if call.purpose == Purpose::Turn && self.is_read_along(agent, call.purpose) {
            let text = call.reply.text();
            let block = BlockIndex(u32::MAX);
            let reasoning = call.reply.reasoning();
            if !text.starts_with(&speech.text) {
                self.retract(&mut speech);
            }
            let nothing_came = speech.text.is_empty() && !speech.has_reasoned;
            if nothing_came && !reasoning.is_empty() {
                self.say(id, &mut speech, (block, Kind::Reasoning), &reasoning);
            }
            let rest = text
                .strip_prefix(&speech.text)
                .unwrap_or_default()
                .to_owned();
            if !rest.is_empty() {
                let block = match &speech.open {
                    Some(open) if open.kind == Kind::Text => open.block,
                    _ => block,
                };
                self.say(id, &mut speech, (block, Kind::Text), &rest);
            }
        }
        self.fall_silent(&mut speech);
        let last = speech.messages.pop();
        last.unwrap_or_else(|| format!("{id}.calls"))
    }
}
