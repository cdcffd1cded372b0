//! The parts of a request that its response repeats, or that apply to later responses too. They are stored with the
//! run.

use std::sync::Arc;

use neuraxis::AnswerSchema;
use neuraxis::core::Record;
use neuraxis::ports::{RequestContext, StoredContext};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::openai::models;

/// What is stored with the run of a response.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Repeated {
    pub(super) model: String,
    pub(super) previous_response_id: Option<String>,
    /// The format of the answer. Runs of earlier versions have none, which means text.
    #[serde(default)]
    pub(super) format: FormatOut,
    /// The system and developer messages of the conversation so far. Runs of earlier versions have none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) system: Vec<String>,
}

/// The format of the answer, by which clients decide whether to parse it as JSON.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "OpenAiFormatOfResponse")]
pub(super) struct FormatOut {
    /// `text`, `json_object` or `json_schema`.
    #[serde(rename = "type")]
    kind: String,
    /// The name of the schema.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// The JSON Schema.
    #[serde(skip_serializing_if = "Option::is_none")]
    schema: Option<Value>,
}

impl StoredContext for Repeated {
    const NAME: &'static str = "openai_response";
}

impl Repeated {
    /// Returns what is stored with a run. Nothing is, if no request for a response started it.
    pub(super) fn of(records: &[Arc<Record>]) -> Self {
        let started = records.first().and_then(|first| first.run_started());
        let kept = started.and_then(|started| {
            let context = RequestContext::default().restored(&started.spec.context);
            context.stored().ok().flatten()
        });
        kept.unwrap_or_else(|| Self {
            model: models::DEFAULT.to_owned(),
            previous_response_id: None,
            format: FormatOut::default(),
            system: Vec::new(),
        })
    }
}

impl Default for FormatOut {
    fn default() -> Self {
        Self {
            kind: "text".to_owned(),
            name: None,
            schema: None,
        }
    }
}

impl FormatOut {
    /// Describes the format that a request names by its type.
    pub(super) fn new(kind: &str, answer: Option<&AnswerSchema>) -> Self {
        let named = answer.filter(|_| kind == "json_schema");
        Self {
            kind: kind.to_owned(),
            name: named.map(|answer| answer.name().to_owned()),
            schema: named.and_then(|answer| answer.schema().decode().ok()),
        }
    }
}
