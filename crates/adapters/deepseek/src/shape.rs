//! Turns a request into one that the model accepts.

use std::sync::atomic::{AtomicBool, Ordering};

use neuraxis_core::{ModelRequest, ReplyFormat, ToolChoice};
use neuraxis_wire::ExtraFields;
use neuraxis_wire::request::push_schema_message;
use serde_json::json;

use crate::config::DeepSeekConfig;
use crate::thinking::{ReasoningEffort, Thinking};

/// The largest reply limit, in tokens, that leaves no room to think: thinking counts toward the limit, so an answer
/// about a role or a summary would never be reached.
const NO_ROOM_TO_THINK: u32 = 1_024;

/// Turns requests into ones that a model accepts. What the model cannot accept is left out, with one warning each.
#[derive(Debug)]
pub(crate) struct RequestShape {
    thinking: Thinking,
    thinks: bool,
    effort: Option<ReasoningEffort>,
    warned_about_temperature: AtomicBool,
    warned_about_choice: AtomicBool,
}

impl RequestShape {
    pub(crate) fn new(config: &DeepSeekConfig) -> Self {
        Self {
            thinking: config.thinking,
            thinks: config.thinking.is_on_for(&config.model),
            effort: config.reasoning_effort,
            warned_about_temperature: AtomicBool::new(false),
            warned_about_choice: AtomicBool::new(false),
        }
    }

    /// Returns the request to send, and the extra fields that only this service has.
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

    /// Returns whether the reply has no room for thinking and the configuration does not demand thinking anyway.
    fn is_short(&self, request: &ModelRequest) -> bool {
        let most = request.max_output_tokens;
        self.thinking == Thinking::ModelDefault && most.is_some_and(|most| most <= NO_ROOM_TO_THINK)
    }

    /// Returns whether the request demands a tool call. A model that thinks does not accept that, so thinking is turned
    /// off for this request: which tool is called matters more to the caller than the thinking before it.
    fn is_forced(&self, request: &ModelRequest) -> bool {
        let is_forced = matches!(
            request.tool_choice,
            ToolChoice::Required | ToolChoice::Named(_)
        ) && !request.tools.is_empty();
        if is_forced && self.thinks && !self.warned_about_choice.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "DeepSeek's models cannot be forced to call a tool while they think: thinking is turned off for such requests"
            );
        }
        is_forced
    }

    /// Removes the temperature, which the service would ignore silently.
    fn leave_temperature_out(&self, request: &mut ModelRequest) {
        if request.temperature.take().is_some()
            && !self.warned_about_temperature.swap(true, Ordering::Relaxed)
        {
            tracing::warn!(
                "DeepSeek's models ignore the temperature while they think: it is omitted (set thinking = \"off\" to use it)"
            );
        }
    }

    fn fields(&self, thinks: bool) -> ExtraFields {
        let extra = ExtraFields::default();
        if !thinks {
            // A model that does not think by default needs no setting.
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

/// Asks for JSON if the reply must fit a schema. The service knows no schemas, only that the reply must be JSON, so a
/// message tells the model the schema.
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
