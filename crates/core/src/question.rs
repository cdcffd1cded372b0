//! What a tool asks a person in the middle of a call: a small form, and what an answer to it has to be.
//!
//! Not for asking: who is asked, and how, is the engine's and the program's.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use crate::ids::ToolCallId;
use crate::json::{JsonText, optional_embedded};

/// The id of a question, unique in the world: an answer to one that is gone is never taken for one to a later question.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct QuestionId(Arc<str>);

impl QuestionId {
    /// Wraps an id as it is.
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

/// A question of a tool that waits for its answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct OpenQuestion {
    /// What an answer names.
    pub question_id: QuestionId,
    /// The call that asks.
    pub tool_call_id: ToolCallId,
    /// Until when it can be answered, unless its call ends before.
    pub expires_at: Timestamp,
    /// Who asks, the message and the fields, in the words of whoever asks.
    #[serde(flatten)]
    pub question: Question,
}

impl OpenQuestion {
    /// A question of a call.
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

/// What became of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum QuestionOutcome {
    /// Its tool has the answer, which fits the fields.
    Answered,
    /// The person does not want to answer.
    Declined,
    /// The person left it alone, and said so.
    Cancelled,
    /// Nobody answered in time.
    Expired,
    /// Nobody waits for the answer any more: the call is over, or was given up.
    Withdrawn,
}

/// A question with the fields of its answer, like a small form.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Question {
    /// Who asks, such as the name of an MCP server. To be shown with the question: whoever answers tells it something.
    pub from: Arc<str>,
    /// What is asked. Text of a stranger.
    pub message: String,
    /// What the answer consists of, in the order in which it is asked for. Without any, the answer is yes or no.
    pub fields: Vec<Field>,
}

impl Question {
    /// A question to which the answer is yes or no.
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

    /// Checks that an answer is one to this question: an object of its fields, each as it has to be. The form of a text
    /// (`format`) is for who asks to check.
    ///
    /// # Errors
    ///
    /// The first fault, by which it is none.
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

/// The most characters of an unknown field's name that are repeated.
const MAX_REPEATED_CHARS: usize = 64;

/// Why an answer is none to its question.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidAnswer {
    /// It is something else.
    #[error("an answer is a JSON object with the fields of the question")]
    NotAnObject,
    /// It has a field that the question has not.
    #[error("the question has no field {field:?}")]
    UnknownField {
        /// The field.
        field: String,
    },
    /// It lacks a field that has to be filled in.
    #[error("{field:?} has to be filled in")]
    Missing {
        /// The field.
        field: String,
    },
    /// The value of a field is not one that it takes.
    #[error("{field:?} has to be {expected}")]
    Unfit {
        /// The field.
        field: String,
        /// What the field takes.
        expected: String,
    },
}

impl InvalidAnswer {
    /// Returns the field that is at fault; `None` if it is the answer as a whole.
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
    /// What people call it; the name if there is nothing else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What is to be filled in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What it takes: a text, a number, a choice.
    #[serde(flatten)]
    pub kind: FieldKind,
    /// Whether it has to be filled in.
    #[serde(default)]
    pub required: Required,
    /// What it is if nothing is filled in.
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
    /// A field that may be left out.
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

/// Reads a value that stands in place: through a field that is flattened there is no text of it any more.
fn in_place<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<JsonText>, D::Error> {
    let value = Option::<Value>::deserialize(deserializer)?;
    Ok(value.map(|value| JsonText::from_text(value.to_string())))
}

/// Whether a field has to be filled in; as JSON, `true` or `false`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(from = "bool", into = "bool")]
pub enum Required {
    /// An answer without it is none.
    Yes,
    /// It may be left out.
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

/// What a field takes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum FieldKind {
    /// A text.
    Text {
        /// The fewest characters.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        min: Option<u64>,
        /// The most characters.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max: Option<u64>,
        /// What form it has to have, in a word, such as `email` or `date`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        format: Option<String>,
    },
    /// A whole number.
    Integer {
        /// The least.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        min: Option<i64>,
        /// The greatest.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max: Option<i64>,
    },
    /// A number.
    Number {
        /// The least.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        min: Option<f64>,
        /// The greatest.
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
    /// Checks a value; says what would fit if it does not.
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

    /// Says what the field takes, for people.
    fn expected(&self) -> String {
        match self {
            Self::Text { min, max, .. } => {
                format!(
                    "a text{}",
                    bounds(min.as_ref(), max.as_ref(), " characters")
                )
            }
            Self::Integer { min, max } => {
                format!("a whole number{}", bounds(min.as_ref(), max.as_ref(), ""))
            }
            Self::Number { min, max } => {
                format!("a number{}", bounds(min.as_ref(), max.as_ref(), ""))
            }
            Self::Boolean => "true or false".to_owned(),
            Self::OneOf { .. } => "one of the values that the question names".to_owned(),
            Self::AnyOf { .. } => "a list of values that the question names".to_owned(),
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

/// One value of a field that has only so many.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FieldChoice {
    /// The value in the answer.
    pub value: String,
    /// What people call it.
    pub title: String,
}

#[cfg(test)]
mod tests;
