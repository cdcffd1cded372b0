//! A check: one thing that must be true of a run.

mod table;
mod verdict;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jsonschema::Validator;
use neuraxis_core::{FinishReason, MicroUsd, duration_text};
use regex::Regex;
use serde_json::Value;
use serde_json_path::JsonPath;

use crate::matching::CallPattern;

pub(crate) use table::{CheckTable, json_of, toml_of};

/// One thing that must be true of a run.
///
/// Spaces and line breaks around the answer are ignored. Counts of tool calls include those of sub-agents.
#[derive(Debug, Clone)]
pub struct Check(pub(crate) Kind);

/// What a check examines.
#[derive(Debug, Clone)]
pub(crate) enum Kind {
    Exact(String),
    Contains(String),
    NotContains(String),
    Regex(Regex),
    Schema(Arc<Schema>),
    Path {
        /// The pattern as given. The parser's own output cannot always be parsed again.
        written: String,
        path: Box<JsonPath>,
        equals: Option<Value>,
    },
    Called(RequiredCalls),
    NotCalled(CallPattern),
    Finish(String),
    MaxTurns(u32),
    MaxToolCalls(u64),
    MaxTokens(u64),
    MaxCost(MicroUsd),
    MaxTime(Duration),
    Judge(String),
}

/// The calls that a check requires.
#[derive(Debug, Clone)]
pub(crate) struct RequiredCalls {
    pub(crate) pattern: CallPattern,
    /// How many calls; at least one if `None`.
    pub(crate) times: Option<u32>,
    /// Whether the calls returned a value or an error; either if `None`.
    pub(crate) succeeded: Option<bool>,
}

/// A valid JSON Schema.
#[derive(Debug)]
pub(crate) struct Schema {
    /// The schema as written in the file: the schema itself, or the name of the file that holds it.
    pub(crate) written: Value,
    pub(crate) validator: Validator,
}

/// Why a check is not valid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CheckFault {
    /// The check examines nothing.
    #[error("the check tests nothing: give it one of {0}")]
    Nothing(String),
    /// The check examines several things.
    #[error("the check tests several things, {0}: write a separate check for each")]
    Several(String),
    /// A key is used with another that it does not belong to.
    #[error("`{key}` can only be used with {owners}")]
    Misplaced {
        /// The key.
        key: &'static str,
        /// The keys it belongs to.
        owners: &'static str,
    },
    /// An invalid regular expression.
    #[error("`regex` is not a valid regular expression: {0}")]
    Regex(String),
    /// An invalid JSON path.
    #[error("`json_path` is not a valid JSON path (RFC 9535, such as $.city): {0}")]
    Path(String),
    /// An invalid JSON Schema, or a schema file that cannot be read.
    #[error("`json_schema` is not a valid JSON Schema: {0}")]
    Schema(String),
    /// No run ends for this reason.
    #[error("there is no finish reason {given:?}; the reasons are {known}")]
    Finish {
        /// The reason as written in the file.
        given: String,
        /// The known reasons.
        known: String,
    },
    /// An empty string, which every answer contains.
    #[error("`{0}` is empty, which matches every answer")]
    Empty(&'static str),
    /// A value that JSON cannot represent, such as infinity.
    #[error("`{0}` contains a number that JSON cannot represent")]
    Number(&'static str),
}

impl Check {
    /// The answer is exactly this text.
    pub fn exact(text: impl Into<String>) -> Self {
        Self(Kind::Exact(text.into()))
    }

    /// The answer contains this text; case matters.
    pub fn contains(text: impl Into<String>) -> Self {
        Self(Kind::Contains(text.into()))
    }

    /// The answer does not contain this text.
    pub fn not_contains(text: impl Into<String>) -> Self {
        Self(Kind::NotContains(text.into()))
    }

    /// Part of the answer matches a regular expression, in the syntax of the crate `regex`: `(?i)` ignores case, and
    /// `^` and `$` match the beginning and end of the whole answer.
    ///
    /// # Errors
    ///
    /// [`CheckFault::Regex`].
    pub fn regex(pattern: &str) -> Result<Self, CheckFault> {
        let regex = Regex::new(pattern).map_err(|error| CheckFault::Regex(on_one_line(&error)))?;
        Ok(Self(Kind::Regex(regex)))
    }

    /// The answer is JSON that fits a JSON Schema.
    ///
    /// # Errors
    ///
    /// [`CheckFault::Schema`].
    pub fn json_schema(schema: Value) -> Result<Self, CheckFault> {
        let validator = validator(&schema)?;
        Ok(Self(Kind::Schema(Arc::new(Schema {
            written: schema,
            validator,
        }))))
    }

    /// Same as [`json_schema`](Self::json_schema), for a schema from a separate file.
    pub(crate) fn schema_of(schema: &Value, written: Value) -> Result<Self, CheckFault> {
        let validator = validator(schema)?;
        Ok(Self(Kind::Schema(Arc::new(Schema { written, validator }))))
    }

    /// The answer is JSON in which a JSON path (RFC 9535) matches something.
    ///
    /// # Errors
    ///
    /// [`CheckFault::Path`].
    pub fn json_path(path: &str) -> Result<Self, CheckFault> {
        let parsed = JsonPath::parse(path).map_err(|error| CheckFault::Path(error.to_string()))?;
        Ok(Self(Kind::Path {
            written: path.to_owned(),
            path: Box::new(parsed),
            equals: None,
        }))
    }

    /// The answer is JSON in which a JSON path matches this value, possibly among others. Objects in it may have
    /// further keys.
    ///
    /// # Errors
    ///
    /// [`CheckFault::Path`].
    pub fn json_path_equals(path: &str, value: Value) -> Result<Self, CheckFault> {
        let mut check = Self::json_path(path)?;
        if let Kind::Path { equals, .. } = &mut check.0 {
            *equals = Some(value);
        }
        Ok(check)
    }

    /// A model called this tool, whatever the result.
    pub fn tool_called(tool: impl Into<String>) -> Self {
        Self(Kind::Called(RequiredCalls {
            pattern: CallPattern::of(tool),
            times: None,
            succeeded: None,
        }))
    }

    /// No model called this tool; `*` means any tool.
    pub fn tool_not_called(tool: impl Into<String>) -> Self {
        Self(Kind::NotCalled(CallPattern::of(tool)))
    }

    /// Counts only calls with these arguments, possibly among others. For checks of calls; other checks are unchanged.
    #[must_use]
    pub fn with_arguments(mut self, arguments: Value) -> Self {
        if let Kind::Called(RequiredCalls { pattern, .. }) | Kind::NotCalled(pattern) = &mut self.0
        {
            pattern.arguments = Some(arguments);
        }
        self
    }

    /// Requires this number of calls instead of at least one. For [`tool_called`](Self::tool_called).
    #[must_use]
    pub const fn times(mut self, times: u32) -> Self {
        if let Kind::Called(called) = &mut self.0 {
            called.times = Some(times);
        }
        self
    }

    /// Counts only calls that returned a value, or only calls that returned an error. For
    /// [`tool_called`](Self::tool_called).
    #[must_use]
    pub const fn succeeded(mut self, succeeded: bool) -> Self {
        if let Kind::Called(called) = &mut self.0 {
            called.succeeded = Some(succeeded);
        }
        self
    }

    /// The run ended for this reason. Any text or kind that belongs to the reason is ignored.
    #[must_use]
    pub fn finish_reason(reason: &FinishReason) -> Self {
        Self(Kind::Finish(reason.name().to_owned()))
    }

    /// At most this many turns counted.
    #[must_use]
    pub const fn max_turns(most: u32) -> Self {
        Self(Kind::MaxTurns(most))
    }

    /// There were at most this many tool calls.
    #[must_use]
    pub const fn max_tool_calls(most: u64) -> Self {
        Self(Kind::MaxToolCalls(most))
    }

    /// The models used at most this many tokens. Fails if a provider did not report its usage.
    #[must_use]
    pub const fn max_tokens(most: u64) -> Self {
        Self(Kind::MaxTokens(most))
    }

    /// The models cost at most this much. Fails if a model has no price or a provider did not report the usage of a
    /// call.
    #[must_use]
    pub const fn max_cost(most: MicroUsd) -> Self {
        Self(Kind::MaxCost(most))
    }

    /// The run was active for at most this long. Time spent waiting for an approval or an answer does not count.
    #[must_use]
    pub const fn max_time(most: Duration) -> Self {
        Self(Kind::MaxTime(most))
    }

    /// A judge finds that the run satisfies the rubric: see [`Judge`](crate::Judge).
    pub fn judge(rubric: impl Into<String>) -> Self {
        Self(Kind::Judge(rubric.into()))
    }

    /// Returns the rubric, if the check needs a judge.
    pub(crate) fn rubric(&self) -> Option<&str> {
        match &self.0 {
            Kind::Judge(rubric) => Some(rubric),
            _ => None,
        }
    }

    /// Returns the tool that the check is about, if it is about calls.
    pub(crate) fn tool(&self) -> Option<&str> {
        match &self.0 {
            Kind::Called(RequiredCalls { pattern, .. }) | Kind::NotCalled(pattern) => {
                Some(&pattern.tool)
            }
            _ => None,
        }
    }

    /// Returns the key and the tool, if the check forbids calls of a tool.
    pub(crate) fn forbidden_tool(&self) -> Option<(&'static str, &str)> {
        match &self.0 {
            Kind::NotCalled(pattern) => Some(("tool_not_called", &pattern.tool)),
            Kind::Called(called) if called.times == Some(0) => {
                Some(("tool_called", &called.pattern.tool))
            }
            _ => None,
        }
    }

    /// Returns whether the check wants failed calls, such as those of an agent whose model fails.
    pub(crate) fn wants_failed_calls(&self) -> bool {
        matches!(&self.0, Kind::Called(called) if called.succeeded == Some(false) && called.times != Some(0))
    }

    /// Returns whether the check is about how a run ended, so a run without an answer may be what it wants.
    pub(crate) const fn is_about_the_end(&self) -> bool {
        matches!(self.0, Kind::Finish(_))
    }

    /// Returns whether the check wants a run to end for this reason.
    pub(crate) fn expects_finish(&self, end: &FinishReason) -> bool {
        matches!(&self.0, Kind::Finish(name) if name == end.name())
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Exact(text) => write!(f, "exact {text:?}"),
            Kind::Contains(text) => write!(f, "contains {text:?}"),
            Kind::NotContains(text) => write!(f, "not_contains {text:?}"),
            Kind::Regex(regex) => write!(f, "regex {:?}", regex.as_str()),
            Kind::Schema(schema) => match &schema.written {
                Value::String(file) => write!(f, "json_schema {file:?}"),
                _ => f.write_str("json_schema"),
            },
            Kind::Path {
                written, equals, ..
            } => match equals {
                None => write!(f, "json_path {written}"),
                Some(value) => write!(f, "json_path {written} equals {value}"),
            },
            Kind::Called(called) => called.fmt(f),
            Kind::NotCalled(pattern) => write!(f, "tool_not_called {pattern}"),
            Kind::Finish(name) => write!(f, "finish_reason {name}"),
            Kind::MaxTurns(most) => write!(f, "max_turns {most}"),
            Kind::MaxToolCalls(most) => write!(f, "max_tool_calls {most}"),
            Kind::MaxTokens(most) => write!(f, "max_tokens {most}"),
            Kind::MaxCost(most) => write!(f, "max_cost_micro_usd {}", most.0),
            Kind::MaxTime(most) => write!(f, "max_time {}", duration_text::text(most)),
            Kind::Judge(rubric) => write!(f, "judge {rubric:?}"),
        }
    }
}

impl fmt::Display for RequiredCalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tool_called {}", self.pattern)?;
        if let Some(times) = self.times {
            write!(f, " {times}×")?;
        }
        match self.succeeded {
            Some(true) => f.write_str(" that succeeded"),
            Some(false) => f.write_str(" that failed"),
            None => Ok(()),
        }
    }
}

fn validator(schema: &Value) -> Result<Validator, CheckFault> {
    jsonschema::validator_for(schema).map_err(|error| CheckFault::Schema(error.to_string()))
}

/// Formats an error of a regular expression without its multi-line picture of the pattern.
fn on_one_line(error: &regex::Error) -> String {
    let text = error.to_string();
    let last = text.lines().next_back().unwrap_or_default();
    last.trim_start_matches("error: ").to_owned()
}
