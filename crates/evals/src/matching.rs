//! Matches tool calls by the tool's name and by arguments that the call must include. Also the approver of a case,
//! which approves the calls that match.

use std::fmt;

use neuraxis_core::{ApprovalDecision, AskApproval, JsonText};
use neuraxis_ports::{Approver, ApproverReply, TurnContext, async_trait};
use serde_json::Value;

/// A tool, and arguments that a call of it must include. The call may have others.
#[derive(Debug, Clone, PartialEq)]
pub struct CallPattern {
    /// The tool's name; `*` means any.
    pub tool: String,
    /// What the arguments must contain; anything if `None`.
    pub arguments: Option<Value>,
}

impl CallPattern {
    /// Matches any call of a tool; `*` means any tool.
    pub fn of(tool: impl Into<String>) -> Self {
        Self {
            tool: tool.into(),
            arguments: None,
        }
    }

    /// Returns whether a call matches.
    #[must_use]
    pub fn fits(&self, tool: &str, arguments: &JsonText) -> bool {
        if self.tool != "*" && self.tool != tool {
            return false;
        }
        let Some(expected) = &self.arguments else {
            return true;
        };
        let found = arguments.decode::<Value>();
        found.is_ok_and(|found| holds(&found, expected))
    }
}

impl fmt::Display for CallPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.tool)?;
        match &self.arguments {
            Some(arguments) => write!(f, " {arguments}"),
            None => Ok(()),
        }
    }
}

/// Returns whether a value contains what is expected. An object must contain every expected key, and a list must have
/// the same items in the same places. Numbers are compared by value, everything else exactly.
pub(crate) fn holds(found: &Value, expected: &Value) -> bool {
    match (found, expected) {
        (Value::Object(found), Value::Object(expected)) => expected
            .iter()
            .all(|(key, value)| found.get(key).is_some_and(|found| holds(found, value))),
        (Value::Array(found), Value::Array(expected)) => {
            found.len() == expected.len()
                && found
                    .iter()
                    .zip(expected)
                    .all(|(one, other)| holds(one, other))
        }
        (Value::Number(found), Value::Number(expected)) => {
            found == expected || found.as_f64() == expected.as_f64()
        }
        (found, expected) => found == expected,
    }
}

/// The name recorded for the approver's decisions.
const BY: &str = "eval case";

/// Approves the calls that a case lists, when policy asks about them. What policy denies cannot be approved.
#[derive(Debug)]
pub(crate) struct CaseApprover(pub(crate) Vec<CallPattern>);

#[async_trait]
impl Approver for CaseApprover {
    async fn decide(&self, ask: &AskApproval, _turn: &TurnContext) -> ApproverReply {
        let mut patterns = self.0.iter();
        if !patterns.any(|pattern| pattern.fits(&ask.name, &ask.arguments)) {
            return ApproverReply::Nobody;
        }
        ApproverReply::Decided {
            decision: ApprovalDecision::APPROVE,
            by: Some(BY.to_owned()),
        }
    }

    fn can_answer(&self) -> bool {
        !self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn arguments_may_contain_more_than_is_expected() {
        for (found, expected, fits) in [
            (
                json!({"a": 1, "b": [1, {"c": 2, "d": 3}]}),
                json!({"b": [1, {"c": 2}]}),
                true,
            ),
            (json!({"a": 1.0}), json!({"a": 1}), true),
            (json!({"a": [1, 2]}), json!({"a": [1]}), false),
            (json!({"a": "1"}), json!({"a": 1}), false),
            (json!({}), json!({"a": null}), false),
        ] {
            assert_eq!(holds(&found, &expected), fits, "{found} {expected}");
        }
    }

    #[test]
    fn a_pattern_without_arguments_matches_any_call_of_its_tool_even_invalid_json() {
        let broken = JsonText::from_text("{");
        assert!(CallPattern::of("weather").fits("weather", &broken));
        assert!(CallPattern::of("*").fits("weather", &broken));
        assert!(!CallPattern::of("weather").fits("time", &broken));
        let exact = CallPattern {
            arguments: Some(json!({})),
            ..CallPattern::of("*")
        };
        assert!(!exact.fits("weather", &broken));
    }
}
