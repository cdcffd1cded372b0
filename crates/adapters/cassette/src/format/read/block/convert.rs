//! Converts lines to the values they represent.

use std::sync::Arc;

use neuraxis_core::{
    BlockIndex, ModelRequest, Part, ReasoningPart, ReplyDelta, ReplyFormat, ReplyPart,
    RequestedCall, TextPart, ToolCall, ToolCallId, ToolSpec, Transcript,
};

use super::Reason;
use crate::exchange::{Ended, Event, Mode};
use crate::format::line::from_fields;
use crate::format::line::{CallLine, DeltaLine, Line, SettingsLine, ToolLine};

/// Checks that the recorded events are possible.
pub(super) fn check(mode: Mode, events: &[(u64, Event)], how: Ended) -> Result<(), Reason> {
    let opens = |event: &Event| matches!(event, Event::Open);
    match mode {
        Mode::Whole => match events {
            [] if how == Ended::Abandoned => Ok(()),
            [(_, Event::Reply(_) | Event::Error(_))] => Ok(()),
            _ => Err("expected exactly one reply or one error"),
        },
        Mode::Streamed => match events {
            [] if how == Ended::Abandoned => Ok(()),
            [(_, Event::Error(_))] => Ok(()),
            [(_, Event::Open), pieces @ ..] => {
                let is_piece = |event: &Event| !opens(event) && !matches!(event, Event::Reply(_));
                let are_pieces = pieces.iter().all(|(_, event)| is_piece(event));
                are_pieces
                    .then_some(())
                    .ok_or("expected only pieces and errors in a stream")
            }
            _ => Err("expected a stream to begin by opening or failing"),
        },
    }
}

pub(super) fn request(
    messages: Transcript,
    tools: Arc<[ToolSpec]>,
    settings: SettingsLine,
) -> Result<ModelRequest, Reason> {
    let reply_format = match settings.json_schema {
        None => ReplyFormat::Text,
        Some(field) => ReplyFormat::JsonSchema {
            name: field.name.into(),
            schema: from_fields(field.schema, field.schema_text)
                .ok_or("a reply format without schema")?,
        },
    };
    Ok(ModelRequest {
        messages,
        tools,
        tool_choice: settings.tool_choice,
        max_output_tokens: settings.max_output_tokens,
        temperature: settings.temperature,
        reply_format,
    })
}

/// Creates a tool from the parts that a model sees; the rest was not recorded.
pub(super) fn spec(line: ToolLine) -> Result<ToolSpec, Reason> {
    let parameters = from_fields(line.parameters, line.parameters_text);
    let parameters = parameters.ok_or("a tool without parameters")?;
    Ok(ToolSpec::new(line.name, line.description).parameters(parameters))
}

pub(super) fn part(line: Line) -> Result<Part, Reason> {
    Ok(match line {
        Line::Text {
            state,
            state_text,
            text,
        } => Part::Text(TextPart {
            text,
            state: from_fields(state, state_text),
        }),
        Line::Reasoning {
            index,
            id,
            signature,
            state,
            state_text,
            text,
        } => Part::Reasoning(ReasoningPart {
            index,
            text,
            id,
            signature,
            state: from_fields(state, state_text),
        }),
        Line::Call(line) => Part::ToolCall(call(line)?),
        Line::Media(media) => Part::Media(media),
        _ => return Err("not a part"),
    })
}

fn call(line: CallLine) -> Result<ToolCall, Reason> {
    let arguments = from_fields(line.arguments, line.arguments_text);
    Ok(ToolCall {
        // A reply's call has no id yet; `reply_part` drops this one.
        id: line.id.unwrap_or_else(|| ToolCallId::from_text("")),
        name: line.name.into(),
        arguments: arguments.ok_or("a call without arguments")?,
        provider_id: line.provider_id.map(Into::into),
        state: from_fields(line.state, line.state_text),
    })
}

pub(super) fn reply_part(part: Part) -> Option<ReplyPart> {
    Some(match part {
        Part::Text(part) => ReplyPart::Text(part),
        Part::Reasoning(part) => ReplyPart::Reasoning(part),
        Part::ToolCall(call) => ReplyPart::ToolCall(RequestedCall {
            provider_id: call.provider_id,
            name: call.name,
            arguments: call.arguments,
            state: call.state,
        }),
        _ => return None,
    })
}

pub(super) fn delta(line: DeltaLine) -> Result<ReplyDelta, Reason> {
    let block: BlockIndex = line.block;
    match (line.text, line.reasoning, line.call, line.state) {
        (Some(text), None, None, None) => Ok(ReplyDelta::Text { block, text }),
        (None, Some(text), None, None) => Ok(ReplyDelta::Reasoning { block, text }),
        (None, None, Some(call), None) => Ok(ReplyDelta::ToolCall {
            block,
            provider_id: call.provider_id.map(Into::into),
            name: call.name.map(Into::into),
            arguments: call.arguments,
        }),
        (None, None, None, Some(state)) => Ok(ReplyDelta::State {
            block,
            id: state.id,
            signature: state.signature,
            state: from_fields(state.state, state.state_text),
        }),
        _ => Err("expected exactly one of text, reasoning, call and state in a delta"),
    }
}
