//! The conversation of each agent, derived from a log alone: what a reader must do to show the request of a model call.

use std::collections::BTreeMap;

use neuraxis_core::{
    AgentId, AssistantMessage, CallIndex, ContextTrimmed, LlmCall, Message, Opening, Part, Purpose,
    Record, RecordBody, ReplyPart, RequestedCall, RunStarted, Span, ToolCall, ToolCallId,
    ToolCallStarted, ToolMessage, Transcript,
};

/// The messages of each agent so far.
pub(super) struct Conversations {
    started: RunStarted,
    agents: BTreeMap<AgentId, Vec<Message>>,
    results: BTreeMap<ToolCallId, ToolMessage>,
}

impl Conversations {
    pub(super) fn new(started: &RunStarted, history: &Transcript) -> Self {
        let prompt = started.spec.root.system_prompt.as_deref();
        let before = history.messages().iter().map(|message| (**message).clone());
        let root = prompt.map(Message::system).into_iter().chain(before);
        Self {
            started: started.clone(),
            agents: [(AgentId::ROOT, root.collect())].into(),
            results: BTreeMap::new(),
        }
    }

    /// Returns the messages of each agent, without an answer to a limit, which the end of the run contains.
    pub(super) fn into_messages(self) -> impl Iterator<Item = Vec<Message>> {
        let Self {
            agents, results, ..
        } = self;
        agents.into_values().map(move |mut messages| {
            // The results of a last batch that were sent to no model.
            let calls = messages.last().into_iter().flat_map(Message::tool_calls);
            let last = calls.filter_map(|call| results.get(&call.id));
            let last: Vec<_> = last.cloned().map(Message::Tool).collect();
            messages.extend(last);
            messages
        })
    }

    pub(super) fn read(&mut self, record: &Record) {
        match &record.body {
            RecordBody::ToolCall(call) => self.start_agents(call),
            RecordBody::ToolResult(result) => {
                let message = ToolMessage {
                    tool_call_id: result.tool_call_id.clone(),
                    name: result.name.clone(),
                    content: result.value.clone(),
                    media: result.media.clone(),
                };
                self.results.insert(result.tool_call_id.clone(), message);
            }
            // The record contains the whole input of a summary and of a choice of role.
            RecordBody::LlmCall(call)
                if matches!(call.purpose, Purpose::Compaction | Purpose::Routing) =>
            {
                assert_eq!(call.prefix, Transcript::default().digest());
            }
            RecordBody::LlmCall(call) if call.purpose == Purpose::SelfCheck => {
                self.check(record.agent, call);
            }
            RecordBody::LlmCall(call) => self.model_call(record, call),
            RecordBody::ContextTrimmed(trimmed) => self.trim(record.agent, trimmed),
            _ => {}
        }
    }

    fn start_agents(&mut self, call: &ToolCallStarted) {
        assert_eq!(call.arguments.hash(), call.arguments_hash);
        for agent in &call.agents {
            let name = call.name.parse().unwrap();
            let prompt = self.started.spec.agents[&name].system_prompt.as_deref();
            let messages = prompt.map(Message::system).into_iter().collect();
            let before = self.agents.insert(*agent, messages);
            assert_eq!(before, None, "{agent} starts twice");
        }
    }

    /// Removes the trimmed messages, and inserts the summary in place of the first.
    fn trim(&mut self, agent: AgentId, trimmed: &ContextTrimmed) {
        let prompt = u64::from(self.started.spec.root.system_prompt.is_some());
        let mut summary = trimmed.summary.as_deref().map(Message::user);
        let messages = self.agents.get_mut(&agent).unwrap();
        let before = std::mem::take(messages);
        for (mut message, place) in before.into_iter().zip(0..) {
            let is_in = |spans: &[Span]| {
                let mut spans = spans.iter();
                spans.any(|span| (span.start + prompt..span.end + prompt).contains(&place))
            };
            let went = is_in(&trimmed.removed);
            if let Message::Assistant(reply) = &mut message
                && is_in(&trimmed.without_reasoning)
            {
                reply
                    .parts
                    .retain(|part| !matches!(part, Part::Reasoning(_)));
            }
            messages.extend(summary.take_if(|_| went));
            messages.extend((!went).then_some(message));
        }
    }

    /// The instructions for a check are not part of the conversation; its correction replaces the draft.
    fn check(&mut self, agent: AgentId, call: &LlmCall) {
        let messages = self.agents.get_mut(&agent).unwrap();
        let before: Transcript = messages.iter().cloned().collect();
        assert_eq!(before.digest(), call.prefix);
        let text = call.reply.text();
        if text != "ACCEPT" {
            messages.pop();
            messages.push(Message::assistant(text));
        }
    }

    fn model_call(&mut self, record: &Record, call: &LlmCall) {
        let messages = self.agents.get_mut(&record.agent).unwrap();
        let before: Transcript = messages.iter().cloned().collect();
        assert_eq!(before.digest(), call.prefix, "record {}", record.seq);
        let results = call
            .results
            .iter()
            .map(|id| Message::Tool(self.results[id].clone()));
        messages.extend(results);
        messages.extend(call.messages.iter().map(|message| (**message).clone()));
        match (call.purpose, &self.started.spec.root.profile.opening) {
            (Purpose::Turn, _) => messages.push(said(record, call, &call.reply.parts)),
            (
                Purpose::Gather,
                Opening::Gather {
                    tool,
                    default_arguments,
                    ..
                },
            ) => {
                let added = RequestedCall {
                    provider_id: None,
                    name: tool.shared(),
                    arguments: default_arguments.clone(),
                    state: None,
                };
                let message = match call.reply.calls().next() {
                    Some(chosen) => said(record, call, &[ReplyPart::ToolCall(chosen.clone())]),
                    None => by_policy(said(record, call, &[ReplyPart::ToolCall(added)])),
                };
                messages.push(message);
            }
            _ => {}
        }
    }
}

/// Returns the message that a reply becomes: each call gets the loop's id.
fn said(record: &Record, call: &LlmCall, parts: &[ReplyPart]) -> Message {
    let mut index = CallIndex::default();
    let parts = parts.iter().map(|part| match part {
        ReplyPart::Text(text) => Part::Text(text.clone()),
        ReplyPart::Reasoning(reasoning) => Part::Reasoning(reasoning.clone()),
        ReplyPart::ToolCall(call) => {
            let model_call = record.content_index.unwrap();
            let id = ToolCallId::new(record.run_id, record.agent, model_call, index);
            index = index.next();
            Part::ToolCall(ToolCall {
                id,
                name: call.name.clone(),
                arguments: call.arguments.clone(),
                provider_id: call.provider_id.clone(),
                state: call.state.clone(),
            })
        }
    });
    Message::Assistant(AssistantMessage {
        parts: parts.collect(),
        model: Some(call.reply.model.clone()),
    })
}

/// Removes the model: no model produced what policy added.
fn by_policy(message: Message) -> Message {
    match message {
        Message::Assistant(said) => Message::Assistant(AssistantMessage {
            model: None,
            ..said
        }),
        other => other,
    }
}
