//! Structured answers: the JSON Schema that an answer must fit, how a model is held to it, and how an answer is read.
//!
//! A model that may call tools delivers its answer by calling the tool `final_answer`, because many servers do not
//! allow tool calls in a reply that is held to a schema. For a model without tools, the provider enforces the schema.
//! Either way, the answer is also checked here. If it does not fit, the model is told what is wrong.
//!
//! Not for answers of the caller's own Rust types, which `typed` reads.

mod fault;

use std::sync::Arc;

use neuraxis_brainstem::AnswerConfig;
use neuraxis_core::{
    AgentSpec, AnswerRule, BudgetKind, FINAL_ANSWER, FinishReason, JsonText, Offer, Opening,
    Record, ReplyFormat, RunOutcome, RunStatus, ToolAnnotations, ToolChoice, ToolClass, ToolKind,
    ToolName, ToolSpec, bounded_schema, without_fence,
};
use serde::{Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::agent::tool_calls;
use crate::catalog::faults;

pub use fault::{AnswerFault, AnswerSchemaError};

/// The maximum size of a schema in bytes: it is sent with every request.
const MAX_SCHEMA_BYTES: usize = 64 * 1024;

/// How many times a reference that leads back to itself is expanded, if that is not too costly.
const LEVELS: u32 = 16;

/// The maximum number of characters in a schema's name: providers accept no more.
const MAX_NAME_CHARS: usize = 64;

/// The form of an answer: a JSON Schema of an object. The schema is checked on construction.
///
/// ```
/// use neuraxis_engine::AnswerSchema;
///
/// let schema = AnswerSchema::from_json(
///     r#"{"title":"Place","type":"object","properties":{"city":{"type":"string"}},"required":["city"]}"#,
/// )?;
/// assert_eq!(schema.name(), "Place");
/// let wrong = AnswerSchema::from_json(r#"{"type":"array"}"#).unwrap_err();
/// assert!(wrong.to_string().contains("an object"), "{wrong}");
/// # Ok::<(), neuraxis_engine::AnswerSchemaError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnswerSchema {
    name: Arc<str>,
    schema: JsonText,
    retries: u32,
}

impl AnswerSchema {
    /// Parses a JSON Schema (2020-12). Its name is its `title`, reduced to letters, digits, `_` and `-`; without a
    /// title, the name is `answer`.
    ///
    /// # Errors
    ///
    /// An [`AnswerSchemaError`] if it is not a JSON Schema, does not describe an object, is larger than 64 KiB, or if
    /// checking an answer against it has no bound. For a schema that refers back to itself, answers are checked up to
    /// 16 levels deep.
    pub fn from_json(schema: impl Into<Arc<str>>) -> Result<Self, AnswerSchemaError> {
        let schema = JsonText::from_text(schema);
        let bytes = schema.as_str().len();
        if bytes > MAX_SCHEMA_BYTES {
            let most = MAX_SCHEMA_BYTES;
            return Err(AnswerSchemaError::TooLarge { bytes, most });
        }
        let value: Value = schema
            .decode()
            .map_err(|error| AnswerSchemaError::NotJson(error.to_string()))?;
        bounded_schema(&schema, LEVELS).map_err(AnswerSchemaError::Unbounded)?;
        jsonschema::validator_for(&value)
            .map_err(|error| AnswerSchemaError::NotSchema(error.to_string()))?;
        if value.get("type").and_then(Value::as_str) != Some("object") {
            return Err(AnswerSchemaError::NotObject);
        }
        let title = value.get("title").and_then(Value::as_str);
        let name = name_of(title.unwrap_or_default());
        Ok(Self {
            name,
            schema,
            retries: AnswerRule::RETRIES,
        })
    }

    /// Sets the name that models and providers see: 1 to 64 letters, digits, `_` and `-`.
    ///
    /// # Errors
    ///
    /// [`AnswerSchemaError::Name`] for any other name.
    pub fn named(mut self, name: &str) -> Result<Self, AnswerSchemaError> {
        if name.is_empty() || *name_of(name) != *name {
            return Err(AnswerSchemaError::Name(name.to_owned()));
        }
        self.name = name.into();
        Ok(self)
    }

    /// Sets how often a model is asked again if its answer does not fit; 2 by default.
    #[must_use]
    pub const fn retries(mut self, retries: u32) -> Self {
        self.retries = retries;
        self
    }

    /// Returns the schema's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the JSON Schema.
    #[must_use]
    pub const fn schema(&self) -> &JsonText {
        &self.schema
    }

    /// Extracts the answer from a text: either the whole text, or the content of a Markdown code fence that spans the
    /// whole text.
    ///
    /// # Errors
    ///
    /// [`AnswerFault::NotJson`] or [`AnswerFault::NotSchema`], with the location and the fault.
    pub fn read(&self, text: &str) -> Result<JsonText, AnswerFault> {
        read(&self.schema, text)
    }

    /// Reads the answer schema from an agent's configuration, if it has one.
    pub(crate) fn of_config(config: &AnswerConfig) -> Option<Result<Self, AnswerSchemaError>> {
        let schema = Self::from_json(config.schema.as_ref()?.as_str());
        let schema = schema.map(|it| it.retries(config.retries.unwrap_or(AnswerRule::RETRIES)));
        Some(match &config.name {
            Some(name) => schema.and_then(|it| it.named(name)),
            None => schema,
        })
    }

    /// Returns the schema as an agent's configuration.
    pub(crate) fn config(&self) -> AnswerConfig {
        let mut config = AnswerConfig::default();
        config.schema = Some(self.schema.clone());
        config.name = Some(self.name.to_string());
        config.retries = Some(self.retries);
        config
    }

    /// Returns the schema that a run was started with, if any. An invalid recorded schema is left out.
    pub(crate) fn of_run(records: &[Arc<Record>]) -> Option<Self> {
        let root = root_of(records)?;
        let schema = root.answer_schema()?.as_str();
        let retries = root.answer.as_ref()?.retries;
        Some(Self::from_json(schema).ok()?.retries(retries))
    }

    /// Requires an agent to answer by the schema: through an additional tool if it may call tools, otherwise through the
    /// form of its replies.
    pub(crate) fn require_of(&self, agent: &mut AgentSpec) {
        let profile = &agent.profile;
        let gathers = matches!(profile.opening, Opening::Gather { .. });
        let offers = profile.offer != Offer::Never && agent.tool_choice != Some(ToolChoice::None);
        if agent.tools.is_empty() || !offers || gathers {
            agent.answer = Some(AnswerRule::text(self.retries));
            agent.reply_format = ReplyFormat::JsonSchema {
                name: Arc::clone(&self.name),
                schema: self.schema.clone(),
            };
            return;
        }
        agent.answer = Some(AnswerRule::tool(ToolName::final_answer(), self.retries));
        let tools = agent.tools.iter().cloned();
        agent.tools = tools.chain([self.delivering_tool()]).collect();
    }

    fn delivering_tool(&self) -> ToolSpec {
        let name = &self.name;
        let description = format!(
            "Gives your answer: its arguments are the answer ({name}). Call it once, as the last thing, when you know all \
             that it takes. Text beside it is not read."
        );
        ToolSpec {
            name: ToolName::final_answer(),
            description: description.into(),
            parameters: self.schema.clone(),
            class: ToolClass::ReadOnly,
            annotations: ToolAnnotations::default(),
            kind: ToolKind::Server,
            non_iterative: false,
            timeout: None,
        }
    }
}

/// Extracts an answer from a text, if it fits the schema. Errors do not quote the text, since they go where a data
/// policy may not let the text go.
pub(crate) fn read(schema: &JsonText, text: &str) -> Result<JsonText, AnswerFault> {
    let answer = JsonText::from_text(without_fence(text));
    let value: Value = answer
        .decode()
        .map_err(|error| AnswerFault::NotJson(error.to_string()))?;
    // No answer fits an invalid schema, such as one in a log that was altered.
    let validator = bounded_schema(schema, LEVELS)
        .ok()
        .and_then(|schema| schema.decode::<Value>().ok())
        .and_then(|schema| jsonschema::validator_for(&schema).ok());
    let Some(validator) = validator else {
        let why = "the recorded schema is not a usable JSON Schema".to_owned();
        return Err(AnswerFault::NotSchema(why));
    };
    match faults(&validator, &value, |fault| fault.masked().to_string()) {
        None => Ok(answer),
        Some(faults) => Err(AnswerFault::NotSchema(faults)),
    }
}

/// Reads the answer of a run from its records, or the reason why it has none; neither if no form was requested. A run
/// without an outcome is waiting.
#[must_use]
pub fn of_run(
    outcome: Option<&RunOutcome>,
    records: &[Arc<Record>],
) -> (Option<JsonText>, Option<AnswerFault>) {
    let Some(schema) = root_of(records).and_then(AgentSpec::answer_schema) else {
        return (None, None);
    };
    let Some(outcome) = outcome else {
        return (None, Some(AnswerFault::Waiting));
    };
    match read(schema, &outcome.content) {
        Ok(answer) if outcome.status() == RunStatus::Done => (Some(answer), None),
        found => {
            let reason = &outcome.finish_reason;
            let fault = delivered_again(reason, schema, records);
            let fault = fault.unwrap_or_else(|| AnswerFault::of(reason, found.err()));
            (None, Some(fault))
        }
    }
}

/// Returns what is wrong with an answer that was delivered repeatedly, if that ended the run. This says more than that
/// the call was repeated.
fn delivered_again(
    reason: &FinishReason,
    schema: &JsonText,
    records: &[Arc<Record>],
) -> Option<AnswerFault> {
    // Without its arguments, a recorded call says nothing.
    let are_stored = root_of(records)?.profile.data.tool_calls;
    if !are_stored || *reason != FinishReason::Budget(BudgetKind::RepeatedCalls) {
        return None;
    }
    let calls = tool_calls(records);
    let last = calls.last().filter(|call| *call.name == *FINAL_ANSWER)?;
    read(schema, last.arguments.as_str()).err()
}

/// Returns how the agent that answers the user was started.
fn root_of(records: &[Arc<Record>]) -> Option<&AgentSpec> {
    Some(&records.first()?.run_started()?.spec.root)
}

/// Turns a title into a name: characters that a name may not hold become `_`.
fn name_of(title: &str) -> Arc<str> {
    let letters = title.chars().take(MAX_NAME_CHARS).map(|letter| {
        let is_fine = letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
        if is_fine { letter } else { '_' }
    });
    let name: String = letters.collect();
    if name.is_empty() {
        "answer".into()
    } else {
        name.into()
    }
}

/// Serializes an answer in place, as JSON inside the surrounding JSON.
pub(crate) fn embedded<S: Serializer>(
    answer: &Option<JsonText>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let raw = answer.as_ref().map(JsonText::decode::<&RawValue>);
    let raw = raw.transpose().map_err(serde::ser::Error::custom)?;
    raw.serialize(serializer)
}

#[cfg(test)]
mod tests;
