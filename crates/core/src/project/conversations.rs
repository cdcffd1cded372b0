//! What was sent with each model call, told from a log: records hold only what is new, here it stands whole.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{chosen_call, message_parts, trimmed};
use crate::decision::Checked;
use crate::effect::Purpose;
use crate::ids::{AgentId, ToolCallId, ToolName};
use crate::message::{AssistantMessage, Message, ToolMessage};
use crate::profile::Opening;
use crate::record::{LlmCall, Record, RecordBody, ToolCallStarted, ToolResult};
use crate::reply::{ReplyPart, RequestedCall};
use crate::run::{checked, corrected, left_of, shortened};
use crate::spec::{AgentSpec, RunSpec};
use crate::transcript::Transcript;

/// The conversations of a run's agents, as they stand after the records read so far.
#[derive(Debug, Clone)]
pub struct Conversations {
    history: Transcript,
    spec: Option<Arc<RunSpec>>,
    agents: BTreeMap<AgentId, Conversation>,
    results: BTreeMap<ToolCallId, Arc<Message>>,
}

#[derive(Debug, Clone, Default)]
struct Conversation {
    tool: Option<ToolName>,
    /// How many messages the system prompt of the spec takes: none or one.
    prompt: usize,
    messages: Vec<Arc<Message>>,
    not_kept: BTreeMap<ToolCallId, String>,
}

impl Conversations {
    /// Begins with the history that the run continues.
    #[must_use]
    pub const fn after(history: Transcript) -> Self {
        Self {
            history,
            spec: None,
            agents: BTreeMap::new(),
            results: BTreeMap::new(),
        }
    }

    /// Reads the next record of the run. For a model call, returns all messages that were sent with it.
    pub fn read(&mut self, record: &Record) -> Option<Vec<Arc<Message>>> {
        match &record.body {
            RecordBody::RunStarted(started) => {
                self.spec = Some(Arc::clone(&started.spec));
                let (history, _) = crate::repair::repaired(self.history.clone());
                let root = &started.spec.root;
                let begins_with_system = matches!(
                    history.messages().first().map(Arc::as_ref),
                    Some(Message::System { .. })
                );
                let mut conversation = begun(root, None, !begins_with_system);
                conversation
                    .messages
                    .extend(history.messages().iter().cloned());
                self.agents.insert(AgentId::ROOT, conversation);
                None
            }
            RecordBody::ToolCall(call) => {
                self.start_agents(call);
                None
            }
            RecordBody::ToolResult(result) => {
                self.take_result(record.agent, result);
                None
            }
            RecordBody::ContextTrimmed(cut) => {
                let conversation = self.agents.get_mut(&record.agent)?;
                let prompt = conversation.messages.drain(..conversation.prompt);
                let prompt: Vec<_> = prompt.collect();
                let not_kept = &conversation.not_kept;
                let rest = std::mem::take(&mut conversation.messages);
                conversation.messages = prompt;
                conversation.messages.extend(trimmed(rest, cut, not_kept));
                None
            }
            RecordBody::LlmCall(call)
                if matches!(call.purpose, Purpose::Compaction | Purpose::Routing) =>
            {
                Some(call.messages.clone())
            }
            RecordBody::LlmCall(call) if call.purpose == Purpose::SelfCheck => {
                self.check(record.agent, call)
            }
            RecordBody::LlmCall(call) => self.model_call(record, call),
            _ => None,
        }
    }

    fn start_agents(&mut self, call: &ToolCallStarted) {
        let Some(spec) = self.spec.clone() else {
            return;
        };
        let tool: Option<ToolName> = call.name.parse().ok();
        let Some(agent) = tool.as_ref().and_then(|tool| spec.agents.get(tool)) else {
            return;
        };
        for id in &call.agents {
            self.agents.insert(*id, begun(agent, tool.clone(), true));
        }
    }

    fn agent_spec(&self, agent: AgentId) -> Option<&AgentSpec> {
        let spec = self.spec.as_deref()?;
        let tool = self.agents.get(&agent)?.tool.as_ref();
        Some(
            tool.and_then(|tool| spec.agents.get(tool))
                .unwrap_or(&spec.root),
        )
    }

    fn take_result(&mut self, agent: AgentId, result: &ToolResult) {
        let rule = self
            .agent_spec(agent)
            .and_then(|spec| spec.profile.result_rule(&result.name))
            .filter(|_| result.failure.is_none());
        let value = rule.map_or_else(|| result.value.clone(), |rule| rule.edited(&result.value));
        let keep = rule.and_then(|rule| rule.keep).unwrap_or(result.keep);
        let left = left_of(keep, result.summary.as_deref()).filter(|_| result.failure.is_none());
        let id = result.tool_call_id.clone();
        if let (Some(left), Some(conversation)) = (left, self.agents.get_mut(&agent)) {
            conversation.not_kept.insert(id.clone(), left);
        }
        let message = ToolMessage {
            tool_call_id: id.clone(),
            name: result.name.clone(),
            content: value,
        };
        self.results.insert(id, Arc::new(Message::Tool(message)));
    }

    /// What a check is told is not part of the conversation; its correction takes the place of the draft.
    fn check(&mut self, agent: AgentId, call: &LlmCall) -> Option<Vec<Arc<Message>>> {
        let conversation = self.agents.get_mut(&agent)?;
        let messages = &mut conversation.messages;
        let sent = messages.iter().chain(&call.messages).cloned().collect();
        if let Checked::Corrected(text) = checked(&call.reply) {
            *messages = corrected(messages, &text).messages().to_vec();
        }
        Some(sent)
    }

    fn model_call(&mut self, record: &Record, call: &LlmCall) -> Option<Vec<Arc<Message>>> {
        let opening = self.agent_spec(record.agent)?.profile.opening.clone();
        let results = &mut self.results;
        let results = call.results.iter().filter_map(|id| results.remove(id));
        let results: Vec<_> = results.collect();
        let conversation = self.agents.get_mut(&record.agent)?;
        conversation.messages.extend(results);
        conversation.messages.extend(call.messages.iter().cloned());
        let sent = conversation.messages.clone();
        let said = match (call.purpose, opening) {
            (Purpose::Turn, _) => Some(AssistantMessage {
                parts: message_parts(record, &call.reply.parts),
                model: Some(call.reply.model.clone()),
            }),
            (
                Purpose::Gather,
                Opening::Gather {
                    tool,
                    default_arguments,
                    ..
                },
            ) => {
                let chosen = chosen_call(&call.reply);
                let model = chosen.as_ref().map(|_| call.reply.model.clone());
                let call = chosen.unwrap_or_else(|| RequestedCall {
                    provider_id: None,
                    name: tool.as_str().into(),
                    arguments: default_arguments,
                    state: None,
                });
                let parts = message_parts(record, &[ReplyPart::ToolCall(call)]);
                Some(AssistantMessage { parts, model })
            }
            _ => None,
        };
        if let Some(said) = said.filter(|said| !said.parts.is_empty()) {
            conversation
                .messages
                .push(Arc::new(Message::Assistant(said)));
        }
        Some(sent)
    }
}

fn begun(spec: &AgentSpec, tool: Option<ToolName>, prompts: bool) -> Conversation {
    let prompt = spec.system_prompt.as_deref().filter(|_| prompts);
    let messages: Vec<_> = prompt
        .map(Message::system)
        .map(Arc::new)
        .into_iter()
        .collect();
    Conversation {
        tool,
        prompt: messages.len(),
        messages,
        not_kept: BTreeMap::new(),
    }
}

/// Leaves only its summary of each result that is not kept.
pub(super) fn shorten<'a>(
    messages: impl Iterator<Item = &'a mut Arc<Message>>,
    left: impl Fn(&ToolCallId) -> Option<&'a str>,
) {
    for message in messages {
        if let Message::Tool(tool) = message.as_ref()
            && let Some(summary) = left(&tool.tool_call_id)
        {
            *message = Arc::new(shortened(tool, summary));
        }
    }
}
