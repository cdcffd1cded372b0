//! The settings of a request besides the conversation: thinking, tool calls, and the form of the reply.

mod thinking;

use std::sync::atomic::{AtomicBool, Ordering};

use neuraxis_core::{LlmError, LlmErrorKind, ModelRequest, ToolChoice};
use neuraxis_wire::Temperature;
use neuraxis_wire::request::{JsonWriter, schema_instruction, schema_of};

use self::thinking::ThinkingMode;
use super::message::Rules;
use super::schema::{RefusedSchemas, native_schema};
use crate::config::{AnthropicConfig, Effort, MIN_THINKING_BUDGET, ShownThinking};
use crate::model::ModelTraits;

/// The settings for one model. A setting that it does not accept is omitted or expressed in words, with a single
/// warning.
#[derive(Debug)]
pub(super) struct Settings {
    thinking: ThinkingMode,
    /// The model decides how much it thinks, either because it is asked to or by default.
    thinks_as_it_sees_fit: bool,
    /// Thinking can be turned off, at this effort.
    can_stop_thinking: bool,
    /// The model accepts its thinking back only after the exact conversation that it was produced for.
    pub(super) binds_thinking: bool,
    shown: Option<ShownThinking>,
    effort: Option<Effort>,
    /// Warnings about settings that the model does not accept.
    omissions: [Option<&'static str>; 2],
    /// The maximum number of tokens of a reply, including thinking, if a request has no number.
    usual_tokens: u32,
    /// The maximum number of tokens that the model can generate, including thinking.
    most_tokens: u32,
    takes_temperature: bool,
    /// Whether the configuration turns the temperature off.
    is_temperature_off: bool,
    can_be_forced: bool,
    one_call_at_a_time: bool,
    pub(super) refused_schemas: RefusedSchemas,
    warned_about_temperature: AtomicBool,
    warned_about_choice: AtomicBool,
    warned_about_budget: AtomicBool,
    warned_about_omissions: AtomicBool,
}

/// The settings of one request.
#[derive(Debug)]
pub(super) struct RequestSettings<'a> {
    /// Texts for the model after the conversation, in this request alone.
    pub(super) notes: Vec<String>,
    choice: Option<Choice<'a>>,
    thinking: ThinkingMode,
    max_tokens: u32,
    temperature: Option<f32>,
    /// The schema that the reply's text is forced to fit.
    schema: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Choice<'a> {
    Auto,
    None,
    Any,
    Tool(&'a str),
}

impl Settings {
    pub(super) fn new(config: &AnthropicConfig) -> Self {
        let traits = ModelTraits::of(&config.model);
        let requested = ThinkingMode::of(config);
        let not_thinking = requested.refused_by(traits);
        let thinking = not_thinking.map_or(requested, |_| ThinkingMode::Unspecified);
        let no_effort = "this model does not accept effort: it is omitted";
        let no_effort = (config.effort.is_some() && !traits.takes_effort).then_some(no_effort);
        Self {
            thinking,
            thinks_as_it_sees_fit: match thinking {
                ThinkingMode::Adaptive => true,
                ThinkingMode::Unspecified => traits.thinks_by_default,
                ThinkingMode::Budget(_) | ThinkingMode::Off => false,
            },
            can_stop_thinking: traits.can_stop_thinking
                && !matches!(config.effort, Some(Effort::Xhigh | Effort::Max)),
            binds_thinking: traits.binds_thinking,
            shown: config.show_thinking,
            effort: config.effort.filter(|_| traits.takes_effort),
            omissions: [not_thinking, no_effort],
            usual_tokens: config.max_output_tokens.get(),
            most_tokens: traits.max_output_tokens.unwrap_or(u32::MAX),
            takes_temperature: config
                .temperature
                .map_or(traits.takes_temperature, |configured| {
                    configured == Temperature::Sent
                }),
            is_temperature_off: config.temperature == Some(Temperature::LeftOut),
            can_be_forced: config.forced_tool_choice.unwrap_or(traits.can_be_forced),
            one_call_at_a_time: config.parallel_tool_calls == Some(false),
            refused_schemas: RefusedSchemas::default(),
            warned_about_temperature: AtomicBool::new(false),
            warned_about_choice: AtomicBool::new(false),
            warned_about_budget: AtomicBool::new(false),
            warned_about_omissions: AtomicBool::new(false),
        }
    }

    /// Returns the settings of a request, as far as the model accepts them.
    pub(super) fn for_request<'a>(
        &self,
        request: &'a ModelRequest,
        rules: &Rules,
    ) -> Result<RequestSettings<'a>, LlmError> {
        if !self.warned_about_omissions.swap(true, Ordering::Relaxed) {
            for omission in self.omissions.iter().flatten() {
                tracing::warn!("{omission}");
            }
        }
        let mut notes = Vec::new();
        let choice = self.choice(request, &mut notes);
        let is_forced = matches!(choice, Some(Choice::Any | Choice::Tool(_)));
        let (thinking, max_tokens) = match self.thinking {
            // To the caller, which tool is called matters more than the thinking behind it.
            ThinkingMode::Budget(_) if is_forced => (ThinkingMode::Off, self.room(request)),
            ThinkingMode::Budget(_) if rules.has_unthought_calls(request.messages.messages()) => {
                (ThinkingMode::Off, self.room(request))
            }
            ThinkingMode::Budget(budget) => self.with_budget(budget, request),
            other if self.thinks_as_it_sees_fit => self.as_it_sees_fit(other, request),
            other => (other, self.room(request)),
        };
        Ok(RequestSettings {
            choice,
            thinking,
            max_tokens,
            temperature: self.temperature(request, thinking),
            schema: self.form_of(request, &mut notes)?,
            notes,
        })
    }

    /// Returns the maximum number of tokens of a reply without a thinking budget.
    fn room(&self, request: &ModelRequest) -> u32 {
        let requested = request.max_output_tokens.unwrap_or(self.usual_tokens);
        requested.clamp(1, self.most_tokens)
    }

    /// Returns the thinking budget, and the maximum number of tokens of the reply, including thinking.
    ///
    /// A request's own maximum is for the answer alone. The default maximum includes thinking, and at least half of it
    /// is for the answer. If the model cannot generate that many, the budget is reduced. A request for a short answer,
    /// such as the choice of a role, is answered without thinking: it asks for fewer tokens than the minimum budget.
    fn with_budget(&self, budget: u32, request: &ModelRequest) -> (ThinkingMode, u32) {
        let asks_for_little = |requested| requested < MIN_THINKING_BUDGET;
        if request.max_output_tokens.is_some_and(asks_for_little) {
            return (ThinkingMode::Off, self.room(request));
        }
        let usual = self.usual_tokens;
        let usual = usual.saturating_sub(budget).max(usual.div_ceil(2));
        let answer = request.max_output_tokens.unwrap_or(usual).max(1);
        let left = budget.min(self.most_tokens.saturating_sub(answer));
        if left >= MIN_THINKING_BUDGET {
            return (ThinkingMode::Budget(left), answer + left);
        }
        if !self.warned_about_budget.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "this model's output limit leaves no room for thinking next to an answer of {answer} tokens: it does not think"
            );
        }
        (ThinkingMode::Off, self.room(request))
    }

    /// Returns the thinking mode for a model that decides how much it thinks, and the maximum number of tokens of the
    /// reply, including thinking.
    ///
    /// A request for a short answer is answered without thinking. If thinking cannot be turned off for it, or if a
    /// request asks for exactly the minimum that models think, that minimum is added: the answer would otherwise have
    /// no space.
    fn as_it_sees_fit(&self, mode: ThinkingMode, request: &ModelRequest) -> (ThinkingMode, u32) {
        let room = self.room(request);
        match request.max_output_tokens {
            Some(requested) if requested < MIN_THINKING_BUDGET && self.can_stop_thinking => {
                (ThinkingMode::Off, room)
            }
            Some(requested) if requested <= MIN_THINKING_BUDGET => {
                let room = room.saturating_add(MIN_THINKING_BUDGET);
                (mode, room.min(self.most_tokens))
            }
            _ => (mode, room),
        }
    }

    /// Returns the tool choice to send. The definitions are the same for every choice.
    fn choice<'a>(&self, request: &'a ModelRequest, notes: &mut Vec<String>) -> Option<Choice<'a>> {
        if request.tools.is_empty() {
            return None;
        }
        let (choice, in_words) = match &request.tool_choice {
            ToolChoice::Auto => return self.one_call_at_a_time.then_some(Choice::Auto),
            ToolChoice::None => return Some(Choice::None),
            ToolChoice::Required => (Choice::Any, "Call one of your tools now.".to_owned()),
            ToolChoice::Named(name) => (
                Choice::Tool(name.as_str()),
                format!("Call the tool {name} now."),
            ),
        };
        if self.can_be_forced {
            return Some(choice);
        }
        if !self.warned_about_choice.swap(true, Ordering::Relaxed) {
            tracing::warn!("this model cannot be forced to call a tool: it is asked to in words");
        }
        notes.push(in_words);
        self.one_call_at_a_time.then_some(Choice::Auto)
    }

    fn temperature(&self, request: &ModelRequest, thinking: ThinkingMode) -> Option<f32> {
        let requested = request.temperature.filter(|number| number.is_finite())?;
        let thinks = matches!(thinking, ThinkingMode::Adaptive | ThinkingMode::Budget(_));
        let Some(reason) = self.no_temperature(thinks) else {
            return Some(requested.clamp(0.0, 1.0));
        };
        if !self.warned_about_temperature.swap(true, Ordering::Relaxed) {
            tracing::warn!("{reason}: it is omitted");
        }
        None
    }

    /// Returns why no temperature is sent, if none is.
    const fn no_temperature(&self, thinks: bool) -> Option<&'static str> {
        match (self.takes_temperature, thinks) {
            (true, false) => None,
            (true, true) => Some("a model that thinks does not accept a temperature"),
            (false, _) if self.is_temperature_off => {
                Some("the configuration turns off the temperature")
            }
            (false, _) => Some("this model does not accept a temperature"),
        }
    }

    /// Returns the schema that the reply must fit, if the service can enforce it. Otherwise the schema is described to
    /// the model.
    fn form_of(
        &self,
        request: &ModelRequest,
        notes: &mut Vec<String>,
    ) -> Result<Option<String>, LlmError> {
        let Some((name, schema)) = schema_of(&request.reply_format) else {
            return Ok(None);
        };
        if serde_json::from_str::<serde::de::IgnoredAny>(schema).is_err() {
            let error = format!("the schema of the reply format {name} is not JSON");
            return Err(LlmError::new(LlmErrorKind::BadRequest, error));
        }
        let native = match self.refused_schemas.has(request) {
            true => None,
            false => native_schema(schema),
        };
        if native.is_none() {
            notes.push(schema_instruction(name, schema));
        }
        Ok(native)
    }

    /// Writes the settings of a request, as fields at the end of its body.
    pub(super) fn write(&self, settings: &RequestSettings<'_>, json: &mut JsonWriter<'_>) {
        if let Some(choice) = settings.choice {
            self.write_choice(choice, json);
        }
        json.raw(r#","max_tokens":"#);
        json.raw(&settings.max_tokens.to_string());
        if let Some(temperature) = settings.temperature {
            json.raw(r#","temperature":"#);
            json.raw(&temperature.to_string());
        }
        self.write_thinking(settings.thinking, json);
        let effort = self.effort.map(Effort::as_str);
        if effort.is_none() && settings.schema.is_none() {
            return;
        }
        json.raw(r#","output_config":{"#);
        if let Some(effort) = effort {
            json.raw(r#""effort":"#);
            json.string(effort);
        }
        if let Some(schema) = &settings.schema {
            json.raw(if effort.is_some() { "," } else { "" });
            json.raw(r#""format":{"type":"json_schema","schema":"#);
            json.raw(schema);
            json.raw("}");
        }
        json.raw("}");
    }

    fn write_choice(&self, choice: Choice<'_>, json: &mut JsonWriter<'_>) {
        json.raw(r#","tool_choice":{"type":"#);
        json.raw(match choice {
            Choice::Auto => r#""auto""#,
            Choice::None => r#""none""#,
            Choice::Any => r#""any""#,
            Choice::Tool(_) => r#""tool""#,
        });
        if let Choice::Tool(name) = choice {
            json.raw(r#","name":"#);
            json.string(name);
        }
        if self.one_call_at_a_time && choice != Choice::None {
            json.raw(r#","disable_parallel_tool_use":true"#);
        }
        json.raw("}");
    }

    fn write_thinking(&self, thinking: ThinkingMode, json: &mut JsonWriter<'_>) {
        match thinking {
            ThinkingMode::Unspecified => return,
            ThinkingMode::Off => {
                json.raw(r#","thinking":{"type":"disabled"}"#);
                return;
            }
            ThinkingMode::Adaptive => json.raw(r#","thinking":{"type":"adaptive""#),
            ThinkingMode::Budget(tokens) => {
                json.raw(r#","thinking":{"type":"enabled","budget_tokens":"#);
                json.raw(&tokens.to_string());
            }
        }
        if let Some(shown) = self.shown {
            json.raw(r#","display":"#);
            json.string(shown.as_str());
        }
        json.raw("}");
    }
}

#[cfg(test)]
mod tests;
