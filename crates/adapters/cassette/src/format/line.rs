//! The lines of a file.

use neuraxis_core::jiff::Timestamp;
use neuraxis_core::{
    BlockIndex, JsonText, LlmError, MediaPart, ModelRef, ReplyFinish, Role, ToolCallId, ToolChoice,
    ToolName, Usage,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::exchange::{Ended, Mode};

/// One line. Externally tagged, since only that form can keep embedded JSON unchanged.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Line {
    Cassette {
        version: u32,
        recorded_at: Timestamp,
        recorded_by: String,
        not_captured: Vec<String>,
    },
    Exchange(ExchangeLine),
    Tool(ToolLine),
    System {
        text: String,
    },
    User {},
    Assistant {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<ModelRef>,
    },
    Result {
        id: ToolCallId,
        name: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        content: Option<Box<RawValue>>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        content_text: Option<String>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        media: Vec<MediaPart>,
    },
    Text {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        state: Option<Box<RawValue>>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        state_text: Option<String>,
        text: String,
    },
    Reasoning {
        index: BlockIndex,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signature: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        state: Option<Box<RawValue>>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        state_text: Option<String>,
        text: String,
    },
    Call(CallLine),
    Media(MediaPart),
    More(String),
    Settings(SettingsLine),
    Open {
        ms: u64,
    },
    Delta(DeltaLine),
    End(EndLine),
    Reply(EndLine),
    Error {
        ms: u64,
        error: LlmError,
    },
    Done {
        ms: u64,
        how: Ended,
    },
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExchangeLine {
    pub(super) number: u32,
    pub(super) role: Role,
    pub(super) model: ModelRef,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) context_tokens: Option<u64>,
    pub(super) mode: Mode,
    pub(super) started_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) tools_from: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) messages_from: Option<SharedMessages>,
}

/// The first messages of an earlier request.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SharedMessages {
    pub(super) exchange: u32,
    pub(super) count: usize,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ToolLine {
    pub(super) name: ToolName,
    pub(super) description: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) parameters: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) parameters_text: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CallLine {
    /// The loop's id: set in a message, not yet set in a reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<ToolCallId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) provider_id: Option<String>,
    pub(super) name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) arguments: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) arguments_text: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) state: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) state_text: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SettingsLine {
    pub(super) tool_choice: ToolChoice,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) max_output_tokens: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) temperature: Option<f32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) json_schema: Option<SchemaField>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SchemaField {
    pub(super) name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) schema: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) schema_text: Option<String>,
}

/// A piece of a reply: one of the last four fields is set.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DeltaLine {
    pub(super) ms: u64,
    pub(super) block: BlockIndex,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) text: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) reasoning: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) call: Option<CallField>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) state: Option<StateField>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CallField {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) provider_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<String>,
    pub(super) arguments: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StateField {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) signature: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) state: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) state_text: Option<String>,
}

/// The end of a stream, or the head of a whole reply, whose parts follow.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EndLine {
    pub(super) ms: u64,
    pub(super) finish: ReplyFinish,
    pub(super) usage: Usage,
    pub(super) model: ModelRef,
}

/// A JSON text as two fields of a line, one of which is set.
pub(super) type JsonFields = (Option<Box<RawValue>>, Option<String>);

/// Writes a JSON text: embedded if that preserves its exact bytes, otherwise as a string.
pub(super) fn to_fields(json: &JsonText) -> JsonFields {
    let text = json.as_str();
    // A bare `null` would be read as a missing field.
    let is_bare = text != "null" && !text.contains(['\n', '\r']) && text.trim().len() == text.len();
    let raw = is_bare.then(|| RawValue::from_string(text.to_owned()).ok());
    match raw.flatten() {
        Some(raw) => (Some(raw), None),
        None => (None, Some(text.to_owned())),
    }
}

/// Writes an optional JSON text.
pub(super) fn optional_to_fields(json: Option<&JsonText>) -> JsonFields {
    json.map_or((None, None), to_fields)
}

/// Reads an optional JSON text.
pub(super) fn from_fields(raw: Option<Box<RawValue>>, text: Option<String>) -> Option<JsonText> {
    raw.map(|raw| JsonText::from_text(Box::<str>::from(raw)))
        .or_else(|| text.map(JsonText::from_text))
}
