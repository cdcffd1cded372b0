//! A check: one thing that has to be true of a run.

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

/// One thing that has to be true of a run.
///
/// Of the answer spaces and line ends around it do not count. Where tools are counted, those of sub-agents count, too.
#[derive(Debug, Clone)]
pub struct Check(pub(crate) Kind);

/// What a check looks at.
#[derive(Debug, Clone)]
pub(crate) enum Kind {
    Exact(String),
    Contains(String),
    NotContains(String),
    Regex(Regex),
    Schema(Arc<Schema>),
    Path {
        /// As it was given: what the parser writes is not always what it reads.
        written: String,
        path: Box<JsonPath>,
        equals: Option<Value>,
    },
    Called(Called),
    NotCalled(CallPattern),
    Finish(String),
    MaxTurns(u32),
    MaxToolCalls(u64),
    MaxTokens(u64),
    MaxCost(MicroUsd),
    MaxTime(Duration),
    Judge(String),
}

/// Which calls there have to be.
#[derive(Debug, Clone)]
pub(crate) struct Called {
    pub(crate) pattern: CallPattern,
    /// How many; at least one if `None`.
    pub(crate) times: Option<u32>,
    /// Whether they gave a value or an error; either if `None`.
    pub(crate) succeeded: Option<bool>,
}

/// A JSON Schema that was checked.
#[derive(Debug)]
pub(crate) struct Schema {
    /// As it stands in a file: the schema, or the name of the file that holds it.
    pub(crate) written: Value,
    pub(crate) validator: Validator,
}

/// Why something is no check.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CheckFault {
    /// It looks at nothing.
    #[error("the check looks at nothing: give it one of {0}")]
    Nothing(String),
    /// It looks at several things.
    #[error("the check looks at several things, {0}: make a check of each")]
    Several(String),
    /// A key stands beside one that it does not belong to.
    #[error("`{key}` belongs to {owners}")]
    Misplaced {
        /// The key.
        key: &'static str,
        /// What it belongs to.
        owners: &'static str,
    },
    /// A regular expression that is none.
    #[error("`regex` is no regular expression: {0}")]
    Regex(String),
    /// A JSON path that is none.
    #[error("`json_path` is no JSON path (RFC 9535, such as $.city): {0}")]
    Path(String),
    /// A JSON Schema that is none, or a file that cannot be read.
    #[error("`json_schema` is no JSON Schema: {0}")]
    Schema(String),
    /// No run ends with such a reason.
    #[error("no run finishes with {given:?}; the reasons are {known}")]
    Finish {
        /// The reason as the file has it.
        given: String,
        /// The reasons that there are.
        known: String,
    },
    /// A text that is empty stands in every answer.
    #[error("`{0}` is empty, which every answer fits")]
    Empty(&'static str),
    /// A value that JSON has not, such as infinity.
    #[error("`{0}` holds a number that JSON has not")]
    Number(&'static str),
}

impl Check {
    /// The answer is this text.
    pub fn exact(text: impl Into<String>) -> Self {
        Self(Kind::Exact(text.into()))
    }

    /// The answer contains this text; upper and lower case differ.
    pub fn contains(text: impl Into<String>) -> Self {
        Self(Kind::Contains(text.into()))
    }

    /// The answer does not contain this text.
    pub fn not_contains(text: impl Into<String>) -> Self {
        Self(Kind::NotContains(text.into()))
    }

    /// Some part of the answer matches a regular expression, in the syntax of the crate `regex`: `(?i)` for either case, `^`
    /// and `$` for all of it.
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

    /// As [`json_schema`](Self::json_schema), for a schema that stands in a file of its own.
    pub(crate) fn schema_of(schema: &Value, written: Value) -> Result<Self, CheckFault> {
        let validator = validator(schema)?;
        Ok(Self(Kind::Schema(Arc::new(Schema { written, validator }))))
    }

    /// The answer is JSON in which a JSON path (RFC 9535) finds something.
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

    /// The answer is JSON in which a JSON path finds this value, among others perhaps. Objects in it may hold more.
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

    /// A model called this tool, whatever came of it.
    pub fn tool_called(tool: impl Into<String>) -> Self {
        Self(Kind::Called(Called {
            pattern: CallPattern::of(tool),
            times: None,
            succeeded: None,
        }))
    }

    /// No model called this tool; `*` is any tool.
    pub fn tool_not_called(tool: impl Into<String>) -> Self {
        Self(Kind::NotCalled(CallPattern::of(tool)))
    }

    /// Counts only calls with these arguments, and perhaps others beside them. For checks of calls; others stay as they are.
    #[must_use]
    pub fn with_arguments(mut self, arguments: Value) -> Self {
        if let Kind::Called(Called { pattern, .. }) | Kind::NotCalled(pattern) = &mut self.0 {
            pattern.arguments = Some(arguments);
        }
        self
    }

    /// Wants so many of those calls, instead of at least one. For [`tool_called`](Self::tool_called).
    #[must_use]
    pub const fn times(mut self, times: u32) -> Self {
        if let Kind::Called(called) = &mut self.0 {
            called.times = Some(times);
        }
        self
    }

    /// Counts only calls that gave a value, or only those that gave an error. For [`tool_called`](Self::tool_called).
    #[must_use]
    pub const fn succeeded(mut self, succeeded: bool) -> Self {
        if let Kind::Called(called) = &mut self.0 {
            called.succeeded = Some(succeeded);
        }
        self
    }

    /// The run ended for this reason, whatever text or kind it has beside.
    #[must_use]
    pub fn finish_reason(reason: &FinishReason) -> Self {
        Self(Kind::Finish(reason.name().to_owned()))
    }

    /// No more turns counted.
    #[must_use]
    pub const fn max_turns(most: u32) -> Self {
        Self(Kind::MaxTurns(most))
    }

    /// There were no more tool calls.
    #[must_use]
    pub const fn max_tool_calls(most: u64) -> Self {
        Self(Kind::MaxToolCalls(most))
    }

    /// The models used no more tokens. Fails where a provider did not say how many.
    #[must_use]
    pub const fn max_tokens(most: u64) -> Self {
        Self(Kind::MaxTokens(most))
    }

    /// The models cost no more. Fails where one has no price, and where a provider did not say what a call used.
    #[must_use]
    pub const fn max_cost(most: MicroUsd) -> Self {
        Self(Kind::MaxCost(most))
    }

    /// The run was active no longer; waiting for a person does not count.
    #[must_use]
    pub const fn max_time(most: Duration) -> Self {
        Self(Kind::MaxTime(most))
    }

    /// A judge finds that the run is as the rubric says: see [`Judge`](crate::Judge).
    pub fn judge(rubric: impl Into<String>) -> Self {
        Self(Kind::Judge(rubric.into()))
    }

    /// Returns what a judge has to find, if one is needed.
    pub(crate) fn rubric(&self) -> Option<&str> {
        match &self.0 {
            Kind::Judge(rubric) => Some(rubric),
            _ => None,
        }
    }

    /// Returns the tool of the calls that it is about, if it is about calls.
    pub(crate) fn tool(&self) -> Option<&str> {
        match &self.0 {
            Kind::Called(Called { pattern, .. }) | Kind::NotCalled(pattern) => Some(&pattern.tool),
            _ => None,
        }
    }

    /// Returns the tool that must not be called, if it is about one, and the key that says so.
    pub(crate) fn forbidden_tool(&self) -> Option<(&'static str, &str)> {
        match &self.0 {
            Kind::NotCalled(pattern) => Some(("tool_not_called", &pattern.tool)),
            Kind::Called(called) if called.times == Some(0) => {
                Some(("tool_called", &called.pattern.tool))
            }
            _ => None,
        }
    }

    /// Tells whether it wants calls that failed, as those of an agent whose model fails do.
    pub(crate) fn wants_failed_calls(&self) -> bool {
        matches!(&self.0, Kind::Called(called) if called.succeeded == Some(false) && called.times != Some(0))
    }

    /// Tells whether it is about how a run ended, so that a run without an answer can be what is wanted.
    pub(crate) const fn is_about_the_end(&self) -> bool {
        matches!(self.0, Kind::Finish(_))
    }

    /// Tells whether it wants a run to end so.
    pub(crate) fn wants_the_end(&self, end: &FinishReason) -> bool {
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

impl fmt::Display for Called {
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

/// Writes an error of a regular expression without the picture of it, which takes several lines.
fn on_one_line(error: &regex::Error) -> String {
    let text = error.to_string();
    let last = text.lines().next_back().unwrap_or_default();
    last.trim_start_matches("error: ").to_owned()
}
