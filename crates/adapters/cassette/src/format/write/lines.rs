//! The lines of one exchange while they are written.

use neuraxis_core::{
    AssistantMessage, Message, ModelRequest, Part, ReasoningPart, Reply, ReplyDelta, ReplyFormat,
    ReplyPart, RequestedCall, TextPart, ToolCall, ToolSpec,
};

use crate::exchange::Event;
use crate::format::line::{
    CallField, CallLine, DeltaLine, EndLine, Line, SchemaField, SettingsLine, StateField, ToolLine,
};
use crate::format::line::{optional_to_fields, to_fields};
use crate::redact::Redactor;

/// Builds the lines of an exchange.
pub(super) struct Lines<'a> {
    redactor: &'a Redactor,
    pub(super) text: String,
}

impl<'a> Lines<'a> {
    pub(super) const fn new(redactor: &'a Redactor) -> Self {
        Self {
            redactor,
            text: String::new(),
        }
    }

    pub(super) fn add(&mut self, line: &Line) {
        // Lines consist of strings, numbers, lists and valid JSON texts: encoding one cannot fail.
        let line = serde_json::to_string(line).unwrap_or_default();
        // The contents of a line were redacted part by part; this covers the remaining values, such as names.
        self.text.push_str(&self.redactor.values(&line, holds_word));
        self.text.push('\n');
    }

    /// Adds a piece of a stream. It was redacted together with the others: alone, its edge would be mistaken for the
    /// edge of a word.
    fn add_piece(&mut self, line: &Line) {
        self.text
            .push_str(&serde_json::to_string(line).unwrap_or_default());
        self.text.push('\n');
    }

    /// Adds a line with text; each further line of the text becomes a line of its own.
    fn add_text(&mut self, text: &str, line: impl FnOnce(String) -> Line) {
        let mut pieces = text.split_inclusive('\n');
        self.add(&line(pieces.next().unwrap_or_default().to_owned()));
        for piece in pieces {
            self.add(&Line::More(piece.to_owned()));
        }
    }

    pub(super) fn tool(&mut self, tool: &ToolSpec) {
        let (parameters, parameters_text) = to_fields(&tool.parameters);
        self.add(&Line::Tool(ToolLine {
            name: tool.name.clone(),
            description: tool.description.as_ref().to_owned(),
            parameters,
            parameters_text,
        }));
    }

    pub(super) fn message(&mut self, message: &Message) {
        match message {
            Message::System { text } => {
                self.add_text(text, |text| Line::System { text });
            }
            Message::User { parts } => {
                self.add(&Line::User {});
                parts.iter().for_each(|part| self.part(part));
            }
            Message::Assistant(AssistantMessage { parts, model }) => {
                self.add(&Line::Assistant {
                    model: model.clone(),
                });
                parts.iter().for_each(|part| self.part(part));
            }
            Message::Tool(result) => {
                let (content, content_text) = to_fields(&result.content);
                self.add(&Line::Result {
                    id: result.tool_call_id.clone(),
                    name: result.name.as_ref().to_owned(),
                    content,
                    content_text,
                    media: result.media.clone(),
                });
            }
        }
    }

    fn part(&mut self, part: &Part) {
        match part {
            Part::Text(part) => self.text_part(part),
            Part::Reasoning(part) => self.reasoning(part),
            Part::ToolCall(ToolCall {
                id,
                name,
                arguments,
                provider_id,
                state,
            }) => {
                let call = RequestedCall {
                    provider_id: provider_id.clone(),
                    name: name.clone(),
                    arguments: arguments.clone(),
                    state: state.clone(),
                };
                let mut line = call_line(&call);
                line.id = Some(id.clone());
                self.add(&Line::Call(line));
            }
            Part::Media(media) => self.add(&Line::Media(media.clone())),
            // An unknown kind of part is left out: no request with it can be matched.
            _ => {}
        }
    }

    fn text_part(&mut self, part: &TextPart) {
        let (state, state_text) = optional_to_fields(part.state.as_ref());
        self.add_text(&part.text, |text| Line::Text {
            state,
            state_text,
            text,
        });
    }

    fn reasoning(&mut self, part: &ReasoningPart) {
        let (state, state_text) = optional_to_fields(part.state.as_ref());
        self.add_text(&part.text, |text| Line::Reasoning {
            index: part.index,
            id: part.id.clone(),
            signature: part.signature.clone(),
            state,
            state_text,
            text,
        });
    }

    pub(super) fn settings(&mut self, request: &ModelRequest) {
        let json_schema = match &request.reply_format {
            ReplyFormat::Text => None,
            ReplyFormat::JsonSchema { name, schema } => {
                let (schema, schema_text) = to_fields(schema);
                Some(SchemaField {
                    name: name.as_ref().to_owned(),
                    schema,
                    schema_text,
                })
            }
        };
        self.add(&Line::Settings(SettingsLine {
            tool_choice: request.tool_choice.clone(),
            max_output_tokens: request.max_output_tokens,
            temperature: request.temperature,
            json_schema,
        }));
    }

    pub(super) fn event(&mut self, ms: u64, event: &Event) {
        match event {
            Event::Open => self.add(&Line::Open { ms }),
            Event::Delta(delta) => self.add_piece(&delta_line(ms, delta)),
            Event::Reply(reply) => self.reply(ms, reply),
            Event::Error(error) => self.add(&Line::Error {
                ms,
                error: error.clone(),
            }),
        }
    }

    fn reply(&mut self, ms: u64, reply: &Reply) {
        self.add(&Line::Reply(EndLine {
            ms,
            finish: reply.finish,
            usage: reply.usage,
            model: reply.model.clone(),
        }));
        for part in &reply.parts {
            match part {
                ReplyPart::Text(part) => self.text_part(part),
                ReplyPart::Reasoning(part) => self.reasoning(part),
                ReplyPart::ToolCall(call) => self.add(&Line::Call(call_line(call))),
            }
        }
    }
}

/// Returns whether the value of a key is a word of the format, or is needed for lookup: a time, or the role that a
/// recording answers for.
fn holds_word(key: &str) -> bool {
    // The value states how a token count was obtained.
    let is_count = key.ends_with("_tokens");
    let words = [
        "finish",
        "how",
        "kind",
        "mode",
        "recorded_at",
        "role",
        "tool_choice",
    ];
    is_count || words.contains(&key)
}

fn call_line(call: &RequestedCall) -> CallLine {
    let (arguments, arguments_text) = to_fields(&call.arguments);
    let (state, state_text) = optional_to_fields(call.state.as_ref());
    CallLine {
        id: None,
        provider_id: call.provider_id.as_deref().map(str::to_owned),
        name: call.name.as_ref().to_owned(),
        arguments,
        arguments_text,
        state,
        state_text,
    }
}

fn delta_line(ms: u64, delta: &ReplyDelta) -> Line {
    let empty = |block| DeltaLine {
        ms,
        block,
        text: None,
        reasoning: None,
        call: None,
        state: None,
    };
    Line::Delta(match delta.clone() {
        ReplyDelta::Text { block, text } => DeltaLine {
            text: Some(text),
            ..empty(block)
        },
        ReplyDelta::Reasoning { block, text } => DeltaLine {
            reasoning: Some(text),
            ..empty(block)
        },
        ReplyDelta::ToolCall {
            block,
            provider_id,
            name,
            arguments,
        } => DeltaLine {
            call: Some(CallField {
                provider_id: provider_id.as_deref().map(str::to_owned),
                name: name.as_deref().map(str::to_owned),
                arguments,
            }),
            ..empty(block)
        },
        ReplyDelta::State {
            block,
            id,
            signature,
            state,
        } => {
            let (state, state_text) = optional_to_fields(state.as_ref());
            DeltaLine {
                state: Some(StateField {
                    id,
                    signature,
                    state,
                    state_text,
                }),
                ..empty(block)
            }
        }
        ReplyDelta::End(end) => {
            return Line::End(EndLine {
                ms,
                finish: end.finish,
                usage: end.usage,
                model: end.model,
            });
        }
    })
}
