//! Request fields that the protocol lacks, or that these servers expect in another form.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};

use neuraxis_core::{JsonText, ModelRequest, ReplyFormat, ToolChoice};
use neuraxis_wire::ExtraFields;
use serde::{Deserialize, Serialize};

use crate::config::LlamaConfig;
use crate::server::Server;

/// A reply limit of this many tokens (which a summary may have) or fewer leaves a model no room to think: thinking
/// counts toward the limit, so the summary, or an answer about a role, would never be reached.
const NO_ROOM_TO_THINK: u32 = 1_024;

/// The setting by which the chat templates of many models turn thinking off; other templates ignore it.
const NOT_TO_THINK: &str = r#"{"enable_thinking":false}"#;

/// Where a llama-server puts a model's thinking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ReasoningFormat {
    /// Where it suits the model.
    Auto,
    /// In the text, as the model wrote it.
    None,
    /// Separate from the text.
    Deepseek,
    /// Separate from the text, but streamed within it as well.
    DeepseekLegacy,
}

/// Adds to requests the fields that a server needs.
#[derive(Debug)]
pub(crate) struct RequestShape {
    /// Fields of every request.
    always: ExtraFields,
    grammar: Option<String>,
    is_llama_server: bool,
    warned_about_format: AtomicBool,
}

impl RequestShape {
    pub(crate) fn new(config: &LlamaConfig) -> Self {
        let is_llama_server = config.server == Server::LlamaServer;
        let format = config.reasoning_format.filter(|_| is_llama_server);
        let always = format.map_or_else(ExtraFields::default, |format| {
            ExtraFields::default().with("reasoning_format", &format)
        });
        Self {
            always,
            grammar: config.grammar.clone().filter(|_| is_llama_server),
            is_llama_server,
            warned_about_format: AtomicBool::new(false),
        }
    }

    /// Returns the request to send, and the fields to add to it.
    pub(crate) fn of<'a>(&self, request: &'a ModelRequest) -> (Cow<'a, ModelRequest>, ExtraFields) {
        let mut extra = self.always.clone();
        let most = request.max_output_tokens;
        if self.is_llama_server && most.is_some_and(|most| most <= NO_ROOM_TO_THINK) {
            let not_to = JsonText::from_text(NOT_TO_THINK);
            extra = extra.with_json("chat_template_kwargs", &not_to);
        }
        let ReplyFormat::JsonSchema { name, schema } = &request.reply_format else {
            let grammar = self.grammar.as_ref().filter(|_| request.tools.is_empty());
            let extra = match grammar {
                Some(grammar) => extra.with("grammar", grammar),
                None => extra,
            };
            return (Cow::Borrowed(request), extra);
        };
        let mut plain = request.clone();
        plain.reply_format = ReplyFormat::Text;
        let may_call = !request.tools.is_empty() && request.tool_choice != ToolChoice::None;
        let extra = if may_call {
            self.leave_format_out();
            extra
        } else {
            extra.with_json("response_format", &response_format(name, schema))
        };
        (Cow::Owned(plain), extra)
    }

    /// Warns, once, that the reply format is left out: a model that is held to a schema cannot call a tool.
    fn leave_format_out(&self) {
        if !self.warned_about_format.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "a reply cannot be constrained to a JSON Schema while the model may call tools: the schema is omitted"
            );
        }
    }
}

/// Returns the form that all of these servers understand: llama-server ignores a schema anywhere else.
fn response_format(name: &str, schema: &JsonText) -> JsonText {
    let name = JsonText::string(name);
    JsonText::from_text(format!(
        r#"{{"type":"json_schema","json_schema":{{"name":{name},"strict":true,"schema":{schema}}}}}"#
    ))
}
