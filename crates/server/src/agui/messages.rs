//! The messages that a front end sends: its whole thread with every run. The server keeps its own copy.

mod parts;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use neuraxis::Message;
use neuraxis::core::{AssistantMessage, JsonText, Part, RunId, ToolCall, ToolCallId};
use serde::Deserialize;
use serde_json::Value;

use self::parts::{parts, texts};
use crate::problem::Problem;
use crate::request_body::{invalid, typed};

/// A front end's thread, without thoughts and activities, which are only for display.
#[derive(Debug)]
pub(super) struct Conversation {
    messages: Vec<Arc<Message>>,
    instructions: Vec<String>,
    /// The tools of the calls in the thread. If several calls share an id, the first one is used.
    tools: BTreeMap<ToolCallId, Arc<str>>,
    /// The runs that gave the answers in the thread, according to the answers' ids.
    answered_by: BTreeSet<RunId>,
}

/// What is new to a session.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NewMessages {
    pub(super) before: Vec<Arc<Message>>,
    /// The user's last message, if it is new.
    pub(super) message: String,
    pub(super) attachments: Vec<Part>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wire {
    id: Option<Value>,
    role: String,
    content: Option<Value>,
    tool_calls: Option<Vec<WireCall>>,
    tool_call_id: Option<String>,
    error: Option<String>,
    subagent_run_id: Option<String>,
}

#[derive(Debug, Deserialize)]
struct WireCall {
    id: String,
    function: WireFunction,
}

#[derive(Debug, Deserialize)]
struct WireFunction {
    name: String,
    arguments: Option<String>,
}

impl Conversation {
    pub(super) fn parse(sent: &[Value]) -> Result<Self, Problem> {
        let mut read = Self {
            messages: Vec::new(),
            instructions: Vec::new(),
            tools: BTreeMap::new(),
            answered_by: BTreeSet::new(),
        };
        for (at, message) in sent.iter().enumerate() {
            let wire: Wire = typed(message.clone(), &format!("messages[{at}]"))?;
            read.add(wire, at)?;
        }
        Ok(read)
    }

    fn add(&mut self, wire: Wire, at: usize) -> Result<(), Problem> {
        // Messages of a sub-agent are not part of this conversation.
        if wire.subagent_run_id.is_some() {
            return Ok(());
        }
        let message = match wire.role.as_str() {
            "system" | "developer" => {
                let text = texts(&parts(wire.content, at)?);
                if !text.is_empty() {
                    self.instructions.push(text);
                }
                return Ok(());
            }
            "user" => Message::User {
                parts: parts(wire.content, at)?,
            },
            "assistant" => {
                let id = wire.id.as_ref().and_then(Value::as_str);
                self.answered_by.extend(id.and_then(run_of));
                let mut parts = parts(wire.content, at)?;
                parts.retain(|part| matches!(part, Part::Text(text) if !text.text.is_empty()));
                for call in wire.tool_calls.unwrap_or_default() {
                    let call = call.into_call();
                    let tool = self.tools.entry(call.id.clone());
                    tool.or_insert_with(|| Arc::clone(&call.name));
                    parts.push(Part::ToolCall(call));
                }
                Message::Assistant(AssistantMessage { parts, model: None })
            }
            "tool" => {
                let Some(id) = wire.tool_call_id else {
                    let field = format!("messages[{at}].toolCallId");
                    return Err(invalid(&field, "missing call id"));
                };
                let value = match wire.error.filter(|error| !error.is_empty()) {
                    Some(error) => JsonText::error(&error),
                    None => value_of(&texts(&parts(wire.content, at)?)),
                };
                let id = ToolCallId::from_text(id);
                let tool = self.tools.get(&id).cloned();
                Message::tool_result(id, tool.unwrap_or_else(|| Arc::from("unknown")), value)
            }
            // Thoughts, activities, and anything that a later version of the protocol adds.
            _ => return Ok(()),
        };
        self.messages.push(Arc::new(message));
        Ok(())
    }

    pub(super) fn instructions(&self) -> impl Iterator<Item = &str> {
        self.instructions.iter().map(String::as_str)
    }

    pub(super) const fn answered_by(&self) -> &BTreeSet<RunId> {
        &self.answered_by
    }

    /// Returns the user's message, if the thread ends with one.
    pub(super) fn last_user_text(&self) -> Option<String> {
        match self.messages.last()?.as_ref() {
            Message::User { parts } => Some(texts(parts)),
            _ => None,
        }
    }

    /// Returns what is new to a session with these messages. An empty session gets the whole thread. Otherwise these
    /// are the results of calls that have none in the session, and the user's messages since the last answer. If there
    /// are only results, they must be complete.
    pub(super) fn new_to(&self, stored: &[Arc<Message>]) -> Result<NewMessages, Problem> {
        let mut new = if stored.is_empty() {
            self.messages.clone()
        } else {
            let mut new = self.results_for(stored);
            new.extend(self.new_user_messages(stored));
            new
        };
        let last = new.pop();
        let (message, attachments) = match last.as_deref() {
            Some(Message::User { parts }) => {
                let media = parts.iter().filter(|part| !matches!(part, Part::Text(_)));
                (texts(parts), media.cloned().collect())
            }
            Some(Message::Tool(result)) if is_called(&result.tool_call_id, stored, &new) => {
                new.extend(last);
                check_none_missing(stored, &new)?;
                (String::new(), Vec::new())
            }
            _ => {
                let why = "the list must end with something new to the session: a user message, or the result \
                                 of a call that is waiting for one";
                return Err(invalid("messages", why));
            }
        };
        if message.trim().is_empty() && !attachments.is_empty() {
            new.push(Arc::new(Message::User { parts: attachments }));
            return Ok(NewMessages {
                before: new,
                message: String::new(),
                attachments: Vec::new(),
            });
        }
        Ok(NewMessages {
            before: new,
            message,
            attachments,
        })
    }

    /// Returns the results that the thread ends with, if the session holds their calls. Returns `None` if it ends
    /// otherwise.
    pub(super) fn results_again(&self, stored: &[Arc<Message>]) -> Option<NewMessages> {
        let calls = stored.iter().flat_map(|message| message.tool_calls());
        let called: BTreeSet<&ToolCallId> = calls.map(|call| &call.id).collect();
        let is_kept = |message: &&Arc<Message>| match message.as_ref() {
            Message::Tool(result) => called.contains(&result.tool_call_id),
            _ => false,
        };
        let latest_first = self.messages.iter().rev().take_while(is_kept);
        let mut before: Vec<_> = latest_first.cloned().collect();
        before.reverse();
        (!before.is_empty()).then(|| NewMessages {
            before,
            message: String::new(),
            attachments: Vec::new(),
        })
    }

    /// Returns whether the thread holds results of calls that have none among these messages.
    pub(super) fn answers_calls_of(&self, stored: &[Arc<Message>]) -> bool {
        !self.results_for(stored).is_empty()
    }

    fn results_for(&self, stored: &[Arc<Message>]) -> Vec<Arc<Message>> {
        let calls = stored.iter().flat_map(|message| message.tool_calls());
        let mut open: BTreeSet<&ToolCallId> = calls.map(|call| &call.id).collect();
        for message in stored {
            if let Message::Tool(result) = message.as_ref() {
                open.remove(&result.tool_call_id);
            }
        }
        let is_awaited = |message: &&Arc<Message>| match message.as_ref() {
            Message::Tool(result) => open.contains(&result.tool_call_id),
            _ => false,
        };
        self.messages.iter().filter(is_awaited).cloned().collect()
    }

    /// Returns the user's messages after the last answer. If there are several, those up to the last one that the
    /// session holds were handled by a run that gave no answer. The session may hold a later message that the front end
    /// does not know: one added to a run in progress that ended before a model received it.
    fn new_user_messages(&self, stored: &[Arc<Message>]) -> Vec<Arc<Message>> {
        let is_user = |message: &&Arc<Message>| matches!(***message, Message::User { .. });
        let is_answer = |message: &Arc<Message>| {
            matches!(**message, Message::Assistant(_)) && message.tool_calls().next().is_none()
        };
        let answered = self
            .messages
            .iter()
            .rposition(|message| matches!(**message, Message::Assistant(_)));
        let since = self.messages.iter().skip(answered.map_or(0, |at| at + 1));
        let mut new: Vec<_> = since.filter(is_user).cloned().collect();
        let before_last = new.len().saturating_sub(1);
        let earlier = new.get(..before_last).unwrap_or_default();
        let latest_first = stored.iter().rev().skip_while(|message| !is_user(message));
        let mut held = latest_first
            .take_while(|message| !is_answer(message))
            .filter(is_user);
        let taken = held.find_map(|held| {
            let text = held.text();
            earlier.iter().rposition(|message| message.text() == text)
        });
        if let Some(at) = taken {
            new.drain(..=at);
        }
        new
    }
}

/// Returns whether a call is in one of these conversations. A result without its call would not be sent to any model.
fn is_called(id: &ToolCallId, stored: &[Arc<Message>], new: &[Arc<Message>]) -> bool {
    let messages = stored.iter().chain(new);
    let mut calls = messages.flat_map(|message| message.tool_calls());
    calls.any(|call| call.id == *id)
}

/// Checks that the last reply with calls has the results of all of them: a run that continues with only some would
/// treat the others as lost.
fn check_none_missing(stored: &[Arc<Message>], new: &[Arc<Message>]) -> Result<(), Problem> {
    let messages = stored.iter().chain(new);
    let given: BTreeSet<&ToolCallId> = messages
        .clone()
        .filter_map(|message| match message.as_ref() {
            Message::Tool(result) => Some(&result.tool_call_id),
            _ => None,
        })
        .collect();
    let calls_some = |message: &&Arc<Message>| message.tool_calls().next().is_some();
    let called = messages.rev().find(calls_some);
    let missing: Vec<&str> = called
        .into_iter()
        .flat_map(|message| message.tool_calls())
        .filter(|call| !given.contains(&call.id))
        .map(|call| call.id.as_str())
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let why = format!(
        "the results of all calls of a reply must be sent together; missing: {}",
        missing.join(", ")
    );
    Err(invalid("messages", &why))
}

/// Returns the run that a message belongs to, according to its id.
fn run_of(id: &str) -> Option<RunId> {
    let (run, _) = id.split_once('.')?;
    run.parse().ok().map(RunId)
}

impl WireCall {
    fn into_call(self) -> ToolCall {
        let arguments = self.function.arguments.unwrap_or_else(|| "{}".to_owned());
        ToolCall {
            id: ToolCallId::from_text(self.id),
            name: self.function.name.into(),
            arguments: JsonText::from_text(arguments),
            provider_id: None,
            state: None,
        }
    }
}

/// Uses a result as JSON if it is valid JSON, and as a string otherwise.
fn value_of(text: &str) -> JsonText {
    match serde_json::from_str::<&serde_json::value::RawValue>(text) {
        Ok(json) => JsonText::from_text(json.get()),
        Err(_) => JsonText::string(text),
    }
}

#[cfg(test)]
mod tests;
