//! The conversation in a request to Responses: a string, or items.

use neuraxis::core::{AssistantMessage, JsonText, Message, Part, ToolCall, ToolCallId};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};

use crate::openai::calls::Calls;
use crate::openai::content::{Content, TextOrList, run_together};
use crate::openai::thoughts::BREAK;
use crate::problem::Problem;

/// A text, or items.
#[derive(Debug, JsonSchema)]
#[schemars(rename = "OpenAiInput", untagged)]
pub(super) enum Input {
    /// The user's message.
    Text(String),
    /// Items of a conversation.
    Items(Vec<Item>),
}

/// An item of any kind. A message needs no type.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "OpenAiInputItem")]
#[serde(expecting = "an item, which is an object")]
pub(super) struct Item {
    #[serde(rename = "type")]
    kind: Option<String>,
    id: Option<String>,
    role: Option<String>,
    content: Option<Content>,
    call_id: Option<String>,
    name: Option<String>,
    arguments: Option<String>,
    output: Option<Content>,
}

impl<'de> Deserialize<'de> for Input {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextOrList {
            expected: "a string or a list of items",
            text: Self::Text,
            list: Self::Items,
        })
    }
}

impl Item {
    /// Returns the id of the item that this one refers to, if it is only a reference.
    pub(super) fn named(&self) -> Option<&str> {
        let id = self.id().unwrap_or_default();
        (self.kind.as_deref() == Some("item_reference")).then_some(id)
    }

    pub(super) fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }
}

/// Parses a conversation. System messages are returned separately, and the calls of one answer become one message.
pub(super) fn conversation(input: Input) -> Result<(Vec<Message>, Vec<String>), Problem> {
    let items = match input {
        Input::Text(text) => return Ok((vec![Message::user(text)], Vec::new())),
        Input::Items(items) => items,
    };
    let mut read = Read::default();
    for (at, item) in items.into_iter().enumerate() {
        read.take(item, &format!("input[{at}]"))?;
    }
    Ok((read.messages, read.system))
}

#[derive(Default)]
struct Read {
    messages: Vec<Message>,
    system: Vec<String>,
    calls: Calls,
}

impl Read {
    fn take(&mut self, item: Item, field: &str) -> Result<(), Problem> {
        match item.kind.as_deref() {
            None | Some("message") => self.message(item, field),
            Some("function_call") => {
                let missing = |name: &str| Problem::invalid(&format!("{field}.{name}"), "missing");
                let id = item.call_id.ok_or_else(|| missing("call_id"))?;
                let name = item.name.ok_or_else(|| missing("name"))?;
                let id = ToolCallId::from_text(id);
                self.calls.take(id.clone(), name.clone());
                let arguments = item.arguments.unwrap_or_default();
                self.answer(Part::ToolCall(ToolCall {
                    id,
                    name: name.into(),
                    arguments: JsonText::from_text(arguments),
                    provider_id: None,
                    state: None,
                }));
                Ok(())
            }
            Some("function_call_output") => {
                let place = format!("{field}.call_id");
                let id = item
                    .call_id
                    .ok_or_else(|| Problem::invalid(&place, "missing"))?;
                let text = match item.output {
                    Some(output) => output.lines(&format!("{field}.output"))?,
                    None => String::new(),
                };
                let result = self
                    .calls
                    .answer(ToolCallId::from_text(id), &text, &place)?;
                self.messages.push(result);
                Ok(())
            }
            // A model's thoughts are for its provider. The session already holds any item that is still a reference
            // here.
            Some("reasoning" | "item_reference") => Ok(()),
            Some(_) => {
                let why = "expected message, function_call, function_call_output, reasoning or item_reference";
                Err(Problem::invalid(&format!("{field}.type"), why))
            }
        }
    }

    fn message(&mut self, item: Item, field: &str) -> Result<(), Problem> {
        let missing = || Problem::invalid(&format!("{field}.content"), "a message needs content");
        let content = item.content.ok_or_else(missing)?;
        let place = format!("{field}.content");
        match item.role.as_deref() {
            Some("system" | "developer") => self.system.push(content.lines(&place)?),
            Some("user") => {
                let parts = content.parts(&place)?;
                self.messages.push(Message::User { parts });
            }
            Some("assistant") => {
                let mut text = content.text(&place)?;
                if let Some(Message::Assistant(answer)) = self.messages.last()
                    && let Some(Part::Text(before)) = answer.parts.last()
                    && run_together(&before.text, &text)
                {
                    text.insert_str(0, BREAK);
                }
                self.answer(Part::text(text));
            }
            _ => {
                let why = "expected system, developer, user or assistant";
                return Err(Problem::invalid(&format!("{field}.role"), why));
            }
        }
        Ok(())
    }

    /// Adds to the answer that is being parsed, or starts one.
    fn answer(&mut self, part: Part) {
        if let Some(Message::Assistant(answer)) = self.messages.last_mut() {
            answer.parts.push(part);
            return;
        }
        let parts = vec![part];
        let answer = AssistantMessage { parts, model: None };
        self.messages.push(Message::Assistant(answer));
    }
}
