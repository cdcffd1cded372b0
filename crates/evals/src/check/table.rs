//! A check as written in a file: a table with the one key that says what is examined, and the keys that belong to it.

use std::path::Path;
use std::time::Duration;

use neuraxis_core::{FinishReason, MicroUsd, duration_text};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Check, CheckFault, Kind, RequiredCalls};
use crate::matching::CallPattern;

/// The keys of a check.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct CheckTable {
    exact: Option<String>,
    contains: Option<String>,
    not_contains: Option<String>,
    regex: Option<String>,
    json_path: Option<String>,
    equals: Option<toml::Value>,
    tool_called: Option<String>,
    tool_not_called: Option<String>,
    times: Option<u32>,
    succeeded: Option<bool>,
    finish_reason: Option<String>,
    max_turns: Option<u32>,
    max_tool_calls: Option<u64>,
    max_tokens: Option<u64>,
    max_cost_micro_usd: Option<u64>,
    #[serde(with = "duration_text::optional")]
    max_time: Option<Duration>,
    judge: Option<String>,
    // TOML requires tables to come after all other values.
    json_schema: Option<toml::Value>,
    arguments: Option<toml::Table>,
}

impl CheckTable {
    /// Builds the check. A schema given as a file name is looked up in `folder`.
    pub(crate) fn check(self, folder: Option<&Path>) -> Result<Check, CheckFault> {
        self.require_one_kind()?;
        self.refuse_misplaced_keys()?;
        self.refuse_vacuous()?;
        let arguments = match self.arguments {
            Some(table) => Some(json_of(toml::Value::Table(table), "arguments")?),
            None => None,
        };
        let equals = self.equals.map(|value| json_of(value, "equals"));
        let equals = equals.transpose()?;
        let pattern = |tool| CallPattern { tool, arguments };
        let kind = if let Some(text) = self.exact {
            Kind::Exact(text)
        } else if let Some(text) = self.contains {
            Kind::Contains(text)
        } else if let Some(text) = self.not_contains {
            Kind::NotContains(text)
        } else if let Some(pattern) = self.regex {
            return Check::regex(&pattern);
        } else if let Some(schema) = self.json_schema {
            return schema_of(schema, folder);
        } else if let Some(path) = self.json_path {
            return match equals {
                Some(value) => Check::json_path_equals(&path, value),
                None => Check::json_path(&path),
            };
        } else if let Some(tool) = self.tool_called {
            Kind::Called(RequiredCalls {
                pattern: pattern(tool),
                times: self.times,
                succeeded: self.succeeded,
            })
        } else if let Some(tool) = self.tool_not_called {
            Kind::NotCalled(pattern(tool))
        } else if let Some(given) = self.finish_reason {
            if !FinishReason::NAMES.contains(&given.as_str()) {
                let known = FinishReason::NAMES.join(", ");
                return Err(CheckFault::Finish { given, known });
            }
            Kind::Finish(given)
        } else if let Some(most) = self.max_turns {
            Kind::MaxTurns(most)
        } else if let Some(most) = self.max_tool_calls {
            Kind::MaxToolCalls(most)
        } else if let Some(most) = self.max_tokens {
            Kind::MaxTokens(most)
        } else if let Some(most) = self.max_cost_micro_usd {
            Kind::MaxCost(MicroUsd(most))
        } else if let Some(most) = self.max_time {
            Kind::MaxTime(most)
        } else {
            Kind::Judge(self.judge.unwrap_or_default())
        };
        Ok(Check(kind))
    }

    /// Returns the keys that say what is examined, each with whether it is set.
    const fn kinds(&self) -> [(&'static str, bool); 15] {
        [
            ("exact", self.exact.is_some()),
            ("contains", self.contains.is_some()),
            ("not_contains", self.not_contains.is_some()),
            ("regex", self.regex.is_some()),
            ("json_schema", self.json_schema.is_some()),
            ("json_path", self.json_path.is_some()),
            ("tool_called", self.tool_called.is_some()),
            ("tool_not_called", self.tool_not_called.is_some()),
            ("finish_reason", self.finish_reason.is_some()),
            ("max_turns", self.max_turns.is_some()),
            ("max_tool_calls", self.max_tool_calls.is_some()),
            ("max_tokens", self.max_tokens.is_some()),
            ("max_cost_micro_usd", self.max_cost_micro_usd.is_some()),
            ("max_time", self.max_time.is_some()),
            ("judge", self.judge.is_some()),
        ]
    }

    fn require_one_kind(&self) -> Result<(), CheckFault> {
        let kinds = self.kinds();
        let given = kinds.into_iter().filter(|(_, is_given)| *is_given);
        let given: Vec<&str> = given.map(|(name, _)| name).collect();
        match given.len() {
            0 => Err(CheckFault::Nothing(kinds.map(|(name, _)| name).join(", "))),
            1 => Ok(()),
            _ => Err(CheckFault::Several(given.join(" and "))),
        }
    }

    fn refuse_misplaced_keys(&self) -> Result<(), CheckFault> {
        let called = self.tool_called.is_some();
        let calls = called || self.tool_not_called.is_some();
        let path = self.json_path.is_some();
        for (key, is_set, belongs, owners) in [
            (
                "arguments",
                self.arguments.is_some(),
                calls,
                "tool_called or tool_not_called",
            ),
            ("times", self.times.is_some(), called, "tool_called"),
            ("succeeded", self.succeeded.is_some(), called, "tool_called"),
            ("equals", self.equals.is_some(), path, "json_path"),
        ] {
            if is_set && !belongs {
                return Err(CheckFault::Misplaced { key, owners });
            }
        }
        Ok(())
    }

    /// Refuses a check that every answer passes.
    fn refuse_vacuous(&self) -> Result<(), CheckFault> {
        let texts = [("contains", &self.contains), ("regex", &self.regex)];
        let empty = texts
            .into_iter()
            .find(|(_, text)| text.as_deref() == Some(""));
        match empty {
            Some((key, _)) => Err(CheckFault::Empty(key)),
            None => Ok(()),
        }
    }

    /// Returns a check in its written form, or `None` if it holds something that TOML cannot express.
    pub(crate) fn of(check: &Check) -> Option<Self> {
        let mut table = Self::default();
        match &check.0 {
            Kind::Exact(text) => table.exact = Some(text.clone()),
            Kind::Contains(text) => table.contains = Some(text.clone()),
            Kind::NotContains(text) => table.not_contains = Some(text.clone()),
            Kind::Regex(regex) => table.regex = Some(regex.as_str().to_owned()),
            Kind::Schema(schema) => table.json_schema = Some(toml_of(&schema.written)?),
            Kind::Path {
                written, equals, ..
            } => {
                table.json_path = Some(written.clone());
                table.equals = equals
                    .as_ref()
                    .map(|value| toml_of(value).ok_or(()))
                    .transpose()
                    .ok()?;
            }
            Kind::Called(called) => {
                table.tool_called = Some(called.pattern.tool.clone());
                table.arguments = arguments_of(&called.pattern)?;
                (table.times, table.succeeded) = (called.times, called.succeeded);
            }
            Kind::NotCalled(pattern) => {
                table.tool_not_called = Some(pattern.tool.clone());
                table.arguments = arguments_of(pattern)?;
            }
            Kind::Finish(name) => table.finish_reason = Some(name.clone()),
            Kind::MaxTurns(most) => table.max_turns = Some(*most),
            Kind::MaxToolCalls(most) => table.max_tool_calls = Some(*most),
            Kind::MaxTokens(most) => table.max_tokens = Some(*most),
            Kind::MaxCost(most) => table.max_cost_micro_usd = Some(most.0),
            Kind::MaxTime(most) => table.max_time = Some(*most),
            Kind::Judge(rubric) => table.judge = Some(rubric.clone()),
        }
        Some(table)
    }
}

/// Returns the arguments of a pattern, if it has any. The outer `None` means that TOML cannot express them.
pub(crate) fn arguments_of(pattern: &CallPattern) -> Option<Option<toml::Table>> {
    match &pattern.arguments {
        None => Some(None),
        Some(arguments) => match toml_of(arguments)? {
            toml::Value::Table(table) => Some(Some(table)),
            _ => None,
        },
    }
}

/// Reads a schema that is in the file itself or in a separate one.
fn schema_of(written: toml::Value, folder: Option<&Path>) -> Result<Check, CheckFault> {
    let written = json_of(written, "json_schema")?;
    let Value::String(file) = &written else {
        return Check::schema_of(&written, written.clone());
    };
    let fault = |error: &dyn std::fmt::Display| CheckFault::Schema(format!("{file}: {error}"));
    let Some(folder) = folder else {
        return Err(fault(
            &"only cases that are read from a file can name another file",
        ));
    };
    let path = folder.join(file);
    let text = std::fs::read_to_string(path).map_err(|error| fault(&error))?;
    let schema = serde_json::from_str(&text).map_err(|error| fault(&error))?;
    Check::schema_of(&schema, written.clone()).map_err(|error| match error {
        CheckFault::Schema(why) => fault(&why),
        error => error,
    })
}

/// Converts a TOML value to JSON. A date or time becomes a string.
pub(crate) fn json_of(value: toml::Value, key: &'static str) -> Result<Value, CheckFault> {
    Ok(match value {
        toml::Value::String(text) => Value::String(text),
        toml::Value::Integer(number) => number.into(),
        toml::Value::Float(number) => {
            let number = serde_json::Number::from_f64(number);
            Value::Number(number.ok_or(CheckFault::Number(key))?)
        }
        toml::Value::Boolean(flag) => Value::Bool(flag),
        toml::Value::Datetime(time) => Value::String(time.to_string()),
        toml::Value::Array(items) => {
            let items = items.into_iter().map(|item| json_of(item, key));
            Value::Array(items.collect::<Result<_, _>>()?)
        }
        toml::Value::Table(table) => {
            let pairs = table.into_iter();
            let pairs = pairs.map(|(name, value)| Ok((name, json_of(value, key)?)));
            Value::Object(pairs.collect::<Result<_, _>>()?)
        }
    })
}

/// Converts a JSON value to TOML. TOML has no `null`, so keys with that value are left out. Returns `None` for any
/// other value that contains `null`, and for numbers that are too large.
pub(crate) fn toml_of(value: &Value) -> Option<toml::Value> {
    Some(match value {
        Value::Null => return None,
        Value::Bool(flag) => toml::Value::Boolean(*flag),
        Value::Number(number) if number.is_f64() => toml::Value::Float(number.as_f64()?),
        Value::Number(number) => toml::Value::Integer(number.as_i64()?),
        Value::String(text) => toml::Value::String(text.clone()),
        Value::Array(items) => {
            toml::Value::Array(items.iter().map(toml_of).collect::<Option<_>>()?)
        }
        Value::Object(object) => {
            let pairs = object.iter().filter(|(_, value)| !value.is_null());
            let pairs = pairs.map(|(name, value)| Some((name.clone(), toml_of(value)?)));
            toml::Value::Table(pairs.collect::<Option<_>>()?)
        }
    })
}
