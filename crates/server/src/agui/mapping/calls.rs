//! Tool calls and their results.

use std::sync::Arc;

use neuraxis::core::{AgentId, CallIndex, ContentIndex, LlmCall, Record, ToolCallId, ToolResult};

use super::Mapping;
use crate::agui::event::Body;

impl Mapping {
    /// Emits the calls of a reply, as parts of one message.
    pub(super) fn emit_calls(
        &mut self,
        record: &Record,
        content_index: ContentIndex,
        call: &LlmCall,
        parent: &str,
    ) {
        let mut index = CallIndex::default();
        for requested in call.reply.calls() {
            let id = ToolCallId::new(record.run_id, record.agent, content_index, index);
            index = index.next();
            let call = (&requested.name, requested.arguments.as_str());
            self.emit_call(record.agent, &id, call, Some(parent));
        }
    }

    /// Emits a call, once.
    pub(super) fn emit_call(
        &mut self,
        agent: AgentId,
        id: &ToolCallId,
        (name, arguments): (&Arc<str>, &str),
        parent: Option<&str>,
    ) {
        if !self.called.insert(id.clone()) {
            return;
        }
        let of = self.subagents.id(agent);
        self.client_messages
            .call(id.as_str(), (name, arguments), parent, of);
        let tool_call_id = id.to_string();
        let start = Body::ToolCallStart {
            tool_call_id: tool_call_id.clone(),
            tool_call_name: name.to_string(),
            parent_message_id: parent.map(ToOwned::to_owned),
        };
        self.emit(agent, start);
        let arguments = Body::ToolCallArgs {
            tool_call_id: tool_call_id.clone(),
            delta: arguments.to_owned(),
        };
        self.emit(agent, arguments);
        self.emit(agent, Body::ToolCallEnd { tool_call_id });
    }

    /// Emits the result of a call, once.
    pub(super) fn emit_result(&mut self, agent: AgentId, result: &ToolResult) {
        let id = &result.tool_call_id;
        self.questions
            .retain(|(_, request)| request.tool_call_id != *id);
        self.emit_call(agent, id, (&result.name, "{}"), None);
        if !self.answered.insert(id.clone()) {
            return;
        }
        self.end_agents_of_call(id);
        let message_id = format!("{id}.result");
        let content = result.value.as_text().into_owned();
        let of = self.subagents.id(agent);
        self.client_messages
            .result(&message_id, id.as_str(), &content, of);
        let body = Body::ToolCallResult {
            message_id,
            tool_call_id: id.to_string(),
            content,
            role: "tool",
        };
        self.emit(agent, body);
    }

    /// Returns the calls that were sent and have no result.
    pub(super) fn unanswered(&self) -> Vec<String> {
        let open = self.called.difference(&self.answered);
        open.map(ToString::to_string).collect()
    }
}
