//! The messages that a client has: what it sent, and what it was sent since. Needed to retract some of them.

use serde::Serialize;
use serde_json::{Value, json};

/// The messages of a client.
#[derive(Debug)]
pub(super) struct ClientMessages {
    /// As the client sent them.
    sent_by_client: Vec<Value>,
    since: Vec<SentMessage>,
}

#[derive(Debug)]
struct SentMessage {
    id: String,
    subagent: Option<String>,
    content: Content,
}

#[derive(Debug)]
enum Content {
    Assistant { text: String, calls: Vec<Value> },
    Tool { call: String, text: String },
}

/// A message in the form that clients accept.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Wire<'a> {
    id: &'a str,
    role: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<&'a str>,
    #[serde(skip_serializing_if = "<[Value]>::is_empty")]
    tool_calls: &'a [Value],
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    subagent_run_id: Option<&'a str>,
}

impl ClientMessages {
    /// Starts with what the client sent, without activities and thoughts, which clients keep themselves
    /// (docs.ag-ui.com/concepts/events, `MESSAGES_SNAPSHOT`).
    pub(super) fn starting_with(mut sent_by_client: Vec<Value>) -> Self {
        sent_by_client.retain(|message| {
            let role = message.get("role").and_then(Value::as_str);
            !matches!(role, Some("activity" | "reasoning"))
        });
        let since = Vec::new();
        Self {
            sent_by_client,
            since,
        }
    }

    /// Drops what was sent since, because it is among the messages that the client sent.
    pub(super) fn forget(&mut self) {
        self.since.clear();
    }

    pub(super) fn begin(&mut self, id: &str, subagent: Option<String>) {
        let content = Content::Assistant {
            text: String::new(),
            calls: Vec::new(),
        };
        self.since.push(SentMessage {
            id: id.to_owned(),
            subagent,
            content,
        });
    }

    pub(super) fn append_text(&mut self, id: &str, more: &str) {
        if let Some(Content::Assistant { text, .. }) = self.content(id) {
            text.push_str(more);
        }
    }

    /// Adds a call to its message, as a client does, which creates the message if there is none.
    pub(super) fn call(
        &mut self,
        id: &str,
        (name, arguments): (&str, &str),
        parent: Option<&str>,
        subagent: Option<String>,
    ) {
        let parent = parent.unwrap_or(id);
        if self.content(parent).is_none() {
            self.begin(parent, subagent);
        }
        let function = json!({"name": name, "arguments": arguments});
        if let Some(Content::Assistant { calls, .. }) = self.content(parent) {
            calls.push(json!({"id": id, "type": "function", "function": function}));
        }
    }

    pub(super) fn result(&mut self, id: &str, call: &str, text: &str, subagent: Option<String>) {
        self.since.push(SentMessage {
            id: id.to_owned(),
            subagent,
            content: Content::Tool {
                call: call.to_owned(),
                text: text.to_owned(),
            },
        });
    }

    pub(super) fn remove(&mut self, ids: &[String]) {
        self.since.retain(|message| !ids.contains(&message.id));
    }

    /// Returns the text that the root agent has said since.
    pub(super) fn texts(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.since
            .iter()
            .filter_map(|message| match &message.content {
                Content::Assistant { text, .. }
                    if message.subagent.is_none() && !text.is_empty() =>
                {
                    Some(text.as_str())
                }
                _ => None,
            })
    }

    /// Returns all current messages.
    pub(super) fn messages(&self) -> Vec<Value> {
        let since = self.since.iter().map(SentMessage::to_json);
        self.sent_by_client.iter().cloned().chain(since).collect()
    }

    fn content(&mut self, id: &str) -> Option<&mut Content> {
        let found = self.since.iter_mut().rfind(|message| message.id == id);
        found.map(|message| &mut message.content)
    }
}

impl SentMessage {
    fn to_json(&self) -> Value {
        let wire = match &self.content {
            Content::Assistant { text, calls } => Wire {
                role: "assistant",
                content: Some(text.as_str()).filter(|text| !text.is_empty()),
                tool_calls: calls,
                ..self.wire()
            },
            Content::Tool { call, text } => Wire {
                role: "tool",
                content: Some(text),
                tool_call_id: Some(call),
                ..self.wire()
            },
        };
        json!(wire)
    }

    fn wire(&self) -> Wire<'_> {
        Wire {
            id: &self.id,
            role: "",
            content: None,
            tool_calls: &[],
            tool_call_id: None,
            subagent_run_id: self.subagent.as_deref(),
        }
    }
}
