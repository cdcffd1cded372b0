//! Turns a request into one that the model takes.

use std::sync::atomic::{AtomicBool, Ordering};

use neuraxis_core::{ModelRequest, ReplyFormat, ToolChoice};
use neuraxis_wire::ExtraFields;
use neuraxis_wire::request::push_schema_message;
use serde_json::json;

use crate::config::DeepSeekConfig;
use crate::thinking::{ReasoningEffort, Thinking};

/// The most tokens of a reply that leave no room to think: what is thought counts toward them, and an answer about a role or
/// a summary would never be reached.
const NO_ROOM_TO_THINK: u32 = 1_024;

/// Turns requests into ones that a model takes. What it cannot take is left out, and said once.
#[derive(Debug)]
pub(crate) struct RequestShape {
    thinking: Thinking,
    thinks: bool,
    effort: Option<ReasoningEffort>,
    said_temperature: AtomicBool,
    said_choice: AtomicBool,
}

impl RequestShape {
    pub(crate) fn new(config: &DeepSeekConfig) -> Self {
        Self {
            thinking: config.thinking,
            thinks: config.thinking.is_on_for(&config.model),
            effort: config.reasoning_effort,
            said_temperature: AtomicBool::new(false),
            said_choice: AtomicBool::new(false),
        }
    }

    /// Returns what is sent for a request, and what is added to it that only this service has.
    pub(crate) fn of(&self, request: &ModelRequest) -> (ModelRequest, ExtraFields) {
        // Messages, tools and schema are shared, not copied.
        let mut request = request.clone();
        let thinks = self.thinks && !self.is_forced(&request) && !self.is_short(&request);
        if thinks {
            self.leave_temperature_out(&mut request);
        }
        let extra = self.fields(thinks);
        let extra = ask_for_json(&mut request, extra);
        (request, extra)
    }

    /// Tells whether the reply has no room for thinking, and nobody wants it all the same.
    fn is_short(&self, request: &ModelRequest) -> bool {
        let most = request.max_output_tokens;
        self.thinking == Thinking::ModelDefault && most.is_some_and(|most| most <= NO_ROOM_TO_THINK)
    }

    /// Tells whether a call is demanded. A model that thinks does not take that, so it does not think this time: which
    /// tool is called matters more to whoever asks than how it was thought about.
    fn is_forced(&self, request: &ModelRequest) -> bool {
        let is_forced = matches!(
            request.tool_choice,
            ToolChoice::Required | ToolChoice::Named(_)
        ) && !request.tools.is_empty();
        if is_forced && self.thinks && !self.said_choice.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "DeepSeek's models cannot be made to call a tool while they think: thinking is off for such a request"
            );
        }
        is_forced
    }

    /// The service would ignore it without a word.
    fn leave_temperature_out(&self, request: &mut ModelRequest) {
        if request.temperature.take().is_some()
            && !self.said_temperature.swap(true, Ordering::Relaxed)
        {
            tracing::warn!(
                "DeepSeek's models have no temperature while they think: it is left out (thinking = \"off\" gives it back)"
            );
        }
    }

    fn fields(&self, thinks: bool) -> ExtraFields {
        let extra = ExtraFields::default();
        if !thinks {
            // Nothing need be said to one that does not think by itself.
            let is_said = self.thinks || self.thinking == Thinking::Off;
            return match is_said {
                true => extra.with("thinking", &json!({"type": "disabled"})),
                false => extra,
            };
        }
        let extra = match self.thinking {
            Thinking::On => extra.with("thinking", &json!({"type": "enabled"})),
            _ => extra,
        };
        match self.effort {
            Some(effort) => extra.with("reasoning_effort", &effort),
            None => extra,
        }
    }
}

/// Asks for JSON where a schema is to be kept. The service knows no schemas, only that it is to be JSON: the model is told
/// the schema.
fn ask_for_json(request: &mut ModelRequest, extra: ExtraFields) -> ExtraFields {
    let ReplyFormat::JsonSchema { name, schema } = std::mem::take(&mut request.reply_format) else {
        return extra;
    };
    push_schema_message(&mut request.messages, &name, schema.as_str());
    // A model that may call a tool must stay free to write something else.
    if request.tools.is_empty() || request.tool_choice == ToolChoice::None {
        return extra.with("response_format", &json!({"type": "json_object"}));
    }
    extra
}
