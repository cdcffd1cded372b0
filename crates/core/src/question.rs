//! A question that a tool asks the user during a call: a small form, and the rules for a valid answer.
//!
//! Who is asked, and how, is up to the engine and the program.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use crate::ids::ToolCallId;
use crate::json::{JsonText, optional_embedded};

/// The globally unique id of a question: an answer to a question that is gone is never mistaken for an answer to a
/// later one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct QuestionId(Arc<str>);

impl QuestionId {
    /// Wraps an id without checking it.
    pub fn from_text(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    /// Returns the id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for QuestionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// A tool's question that is waiting for its answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct OpenQuestion {
    /// The id that an answer refers to.
    pub question_id: QuestionId,
    /// The call that asks.
    pub tool_call_id: ToolCallId,
    /// When it can no longer be answered, unless its call ends earlier.
    pub expires_at: Timestamp,
    /// The source, the message and the fields, in the words of the source.
    #[serde(flatten)]
    pub question: Question,
}

impl OpenQuestion {
    /// Creates a question of a call.
    #[must_use]
    pub const fn new(
        question_id: QuestionId,
        tool_call_id: ToolCallId,
        expires_at: Timestamp,
        question: Question,
    ) -> Self {
        Self {
            question_id,
            tool_call_id,
            expires_at,
            question,
        }
    }
}

/// How a question ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum QuestionOutcome {
    /// Its tool received an answer that fits the fields.
    Answered,
    /// The user declined to answer.
    Declined,
    /// The user dismissed the question explicitly.
    Cancelled,
    /// No answer came in time.
    Expired,
    /// The answer is no longer awaited: the call has ended or was abandoned.
    Withdrawn,
}

/// A question with the fields of its answer, like a small form.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Question {
    /// Who asks, such as the name of an MCP server. Show it with the question, since the user reveals the answer to it.
    pub from: Arc<str>,
    /// The question. Untrusted text.
    pub message: String,
    /// The fields of the answer, in order. Without fields, the answer is yes or no.
    pub fields: Vec<Field>,
}

impl Question {
    /// Creates a question whose answer is yes or no.
    pub fn new(from: impl Into<Arc<str>>, message: impl Into<String>) -> Self {
        Self {
            from: from.into(),
            message: message.into(),
            fields: Vec::new(),
        }
    }

    /// Adds a field.
    #[must_use]
    pub fn field(mut self, field: Field) -> Self {
        self.fields.push(field);
        self
    }

    /// Checks that an answer is valid for this question: an object with its fields, each with a valid value. The
    /// code that asks must check the `format` of a string.
    ///
    /// # Errors
    ///
    /// The first reason why the answer is invalid.
    pub fn check(&self, answer: &JsonText) -> Result<(), InvalidAnswer> {
        let answer: Map<String, Value> = answer.decode().map_err(|_| InvalidAnswer::NotAnObject)?;
        let is_known = |name: &String| self.fields.iter().any(|field| field.name == *name);
        if let Some(name) = answer.keys().find(|name| !is_known(name)) {
            let field = name.chars().take(MAX_REPEATED_CHARS).collect();
            return Err(InvalidAnswer::UnknownField { field });
        }
        for field in &self.fields {
            let name = || field.name.clone();
            match answer.get(&field.name) {
                Some(value) => field.kind.check(value).map_err(|expected| {
                    let field = name();
                    InvalidAnswer::Unfit { field, expected }
                })?,
                None if field.required == Required::Yes => {
                    return Err(InvalidAnswer::Missing { field: name() });
                }
                None => {}
            }
        }
        Ok(())
    }
}

/// Maximum number of characters of an unknown field's name that are quoted.
const MAX_REPEATED_CHARS: usize = 64;

/// Why an answer is invalid for its question.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidAnswer {
    /// It is not an object.
    #[error("an answer must be a JSON object with the fields of the question")]
    NotAnObject,
    /// It has a field that is not in the question.
    #[error("the question has no field {field:?}")]
    UnknownField {
        /// The field.
        field: String,
    },
    /// It lacks a required field.
    #[error("{field:?} is required")]
    Missing {
        /// The field.
        field: String,
    },
    /// The value of a field is not acceptable.
    #[error("{field:?} must be {expected}")]
    Unfit {
        /// The field.
        field: String,
        /// What the field accepts.
        expected: String,
    },
}

impl InvalidAnswer {
    /// Returns the invalid field; `None` if the answer as a whole is invalid.
    #[must_use]
    pub fn field(&self) -> Option<&str> {
        match self {
            Self::NotAnObject => None,
            Self::UnknownField { field } | Self::Missing { field } | Self::Unfit { field, .. } => {
                Some(field)
            }
        }
    }
}

/// One field of a form.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Field {
    /// Its name in the answer.
    pub name: String,
    /// Its label; defaults to the name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// A description of what to enter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What it accepts: a string, a number, a choice.
    #[serde(flatten)]
    pub kind: FieldKind,
    /// Whether it must be filled in.
    #[serde(default)]
    pub required: Required,
    /// Its value if nothing is entered.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        serialize_with = "optional_embedded::serialize",
        deserialize_with = "in_place"
    )]
    #[cfg_attr(feature = "schema", schemars(with = "Option<serde_json::Value>"))]
    pub default: Option<JsonText>,
}

impl Field {
    /// Creates an optional field.
    pub fn new(name: impl Into<String>, kind: FieldKind) -> Self {
        Self {
            name: name.into(),
            title: None,
            description: None,
            kind,
            required: Required::No,
            default: None,
        }
    }
}

/// Reads an embedded JSON value: through a flattened field, its original text is not available.
fn in_place<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<JsonText>, D::Error> {
    let value = Option::<Value>::deserialize(deserializer)?;
    Ok(value.map(|value| JsonText::from_text(value.to_string())))
}

/// Whether a field must be filled in; as JSON, `true` or `false`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(from = "bool", into = "bool")]
pub enum Required {
    /// An answer without it is invalid.
    Yes,
    /// It may be omitted.
    #[default]
    No,
}

impl From<bool> for Required {
    fn from(is: bool) -> Self {
        match is {
            true => Self::Yes,
            false => Self::No,
        }
    }
}

impl From<Required> for bool {
    fn from(required: Required) -> Self {
        required == Required::Yes
    }
}

/// What a field accepts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum FieldKind {
    /// A string.
    Text {
        /// Minimum number of characters.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        min: Option<u64>,
        /// Maximum number of characters.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max: Option<u64>,
        /// The required format, as a name such as `email` or `date`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        format: Option<String>,
    },
    /// A whole number.
    Integer {
        /// The minimum.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        min: Option<i64>,
        /// The maximum.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max: Option<i64>,
    },
    /// A number.
    Number {
        /// The minimum.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        min: Option<f64>,
        /// The maximum.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max: Option<f64>,
    },
    /// Yes or no.
    Boolean,
    /// One of several values.
    OneOf {
        /// The values.
        choices: Vec<FieldChoice>,
    },
    /// Any of several values.
    AnyOf {
        /// The values.
        choices: Vec<FieldChoice>,
    },
}

impl FieldKind {
    /// Checks a value; on failure, returns what the field expects.
    fn check(&self, value: &Value) -> Result<(), String> {
        let fits = match self {
            Self::Text { min, max, .. } => value.as_str().is_some_and(|text| {
                let length = u64::try_from(text.chars().count()).unwrap_or(u64::MAX);
                is_within(&length, min.as_ref(), max.as_ref())
            }),
            Self::Integer { min, max } => value
                .as_i64()
                .is_some_and(|number| is_within(&number, min.as_ref(), max.as_ref())),
            Self::Number { min, max } => value
                .as_f64()
                .is_some_and(|number| is_within(&number, min.as_ref(), max.as_ref())),
            Self::Boolean => value.is_boolean(),
            Self::OneOf { choices } => is_one_of(choices, value),
            Self::AnyOf { choices } => value
                .as_array()
                .is_some_and(|values| values.iter().all(|value| is_one_of(choices, value))),
        };
        match fits {
            true => Ok(()),
            false => Err(self.expected()),
        }
    }

    /// Describes what the field accepts, for users.
    fn expected(&self) -> String {
        match self {
            Self::Text { min, max, .. } => {
                format!("text{}", bounds(min.as_ref(), max.as_ref(), " characters"))
            }
            Self::Integer { min, max } => {
                format!("a whole number{}", bounds(min.as_ref(), max.as_ref(), ""))
            }
            Self::Number { min, max } => {
                format!("a number{}", bounds(min.as_ref(), max.as_ref(), ""))
            }
            Self::Boolean => "true or false".to_owned(),
            Self::OneOf { .. } => "one of the question's choices".to_owned(),
            Self::AnyOf { .. } => "a list of the question's choices".to_owned(),
        }
    }
}

fn is_within<T: PartialOrd>(value: &T, min: Option<&T>, max: Option<&T>) -> bool {
    min.is_none_or(|min| value >= min) && max.is_none_or(|max| value <= max)
}

fn is_one_of(choices: &[FieldChoice], value: &Value) -> bool {
    let text = value.as_str();
    text.is_some_and(|text| choices.iter().any(|choice| choice.value == text))
}

fn bounds<T: fmt::Display>(min: Option<&T>, max: Option<&T>, unit: &str) -> String {
    match (min, max) {
        (Some(min), Some(max)) => format!(" from {min} to {max}{unit}"),
        (Some(min), None) => format!(" of at least {min}{unit}"),
        (None, Some(max)) => format!(" of at most {max}{unit}"),
        (None, None) => String::new(),
    }
}

/// One value of a field with a fixed set of values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FieldChoice {
    /// The value in the answer.
    pub value: String,
    /// Its label.
    pub title: String,
}

#[cfg(test)]
mod tests;
