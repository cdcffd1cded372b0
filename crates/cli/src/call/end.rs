//! The outcome of a call, as shown at the end of its line.

use anstyle::{AnsiColor, Style};
use neuraxis::core::log::describe;
use neuraxis::core::{ToolFailure, ToolResult};
use neuraxis::engine::INVALID_ARGUMENTS;

use super::log::{OpenCall, Refusal};
use super::{outcome, target};
use crate::glyphs::DOT;
use crate::harmless::one_line;

const NAME: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const BAD: Style = AnsiColor::Red.on_default();

/// The outcome of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    /// The call returned a value, which may have a short description.
    Value(Option<String>),
    /// The user denied the call, perhaps with a reason.
    Denied(Option<String>),
    /// The call was not run, for this reason.
    NotRun(String),
    /// The call failed in this way, with this error.
    Failed(&'static str, String),
}

impl End {
    pub(crate) fn of(call: &OpenCall, result: &ToolResult) -> Self {
        let Some(failure) = result.failure else {
            return Self::Value(outcome(result));
        };
        let error = result.value.error_message();
        let error = error.unwrap_or_else(|| result.value.to_string());
        let is_refused = matches!(failure, ToolFailure::Denied | ToolFailure::ApprovalExpired);
        match &call.refusal {
            Some(refusal) if is_refused => match refusal {
                Refusal::ByUser(why) => Self::Denied(why.clone()),
                Refusal::ByPolicy(why) => Self::NotRun(why.clone()),
                Refusal::Unattended(why) => Self::NotRun(undecided(why, "nobody could be asked")),
                Refusal::Expired(why) => Self::NotRun(undecided(why, "nobody decided in time")),
            },
            _ if is_refused => Self::NotRun(error),
            _ => {
                let error = own_words(&result.name, failure, &error).to_owned();
                Self::Failed(describe::failure(failure), error)
            }
        }
    }

    /// Formats the outcome for the end of the call's line, with the duration if given.
    pub(crate) fn in_words(&self, took: Option<&str>) -> String {
        let took = took.map_or_else(String::new, |took| format!("{DOT}{took}"));
        match self {
            Self::Value(description) => {
                let description = description.as_deref().map(one_line);
                let description = description
                    .map_or_else(String::new, |description| format!("{DOT}{description}"));
                format!("{DIM}{description}{took}{DIM:#}")
            }
            Self::Denied(why) => {
                let why = why.as_deref().map(one_line);
                let why = why.map_or_else(String::new, |why| format!(": {why}"));
                format!("{DIM}{DOT}denied{why}{DIM:#}")
            }
            Self::NotRun(why) => {
                let why = one_line(why);
                format!("{DIM}{DOT}{DIM:#}{BAD}not run{BAD:#}: {why}")
            }
            Self::Failed(how, error) => {
                let error = one_line(error);
                format!("{DIM}{took}{DOT}{DIM:#}{BAD}{how}{BAD:#}: {error}")
            }
        }
    }
}

/// Adds to the sentence that says why approval is required why there was no decision.
fn undecided(why: &str, no_decision: &str) -> String {
    match why.trim().trim_end_matches('.') {
        "" => no_decision.to_owned(),
        why => format!("{why}; {no_decision}"),
    }
}

/// Describes how a call failed. If the kind of failure is not known, as for calls of the session that a fork continues
/// from, shows only the error for the model.
pub(crate) fn failed(tool: &str, failure: Option<ToolFailure>, error: &str) -> String {
    match failure {
        None => without_code(tool, error).to_owned(),
        // The error says so itself.
        Some(ToolFailure::Denied | ToolFailure::ApprovalExpired) => error.to_owned(),
        Some(failure) => {
            let words = own_words(tool, failure, error);
            format!("{}: {words}", describe::failure(failure))
        }
    }
}

/// Returns a call's error without what its kind of failure says already.
fn own_words<'a>(tool: &str, failure: ToolFailure, error: &'a str) -> &'a str {
    match failure {
        ToolFailure::InvalidArguments => error.strip_prefix(INVALID_ARGUMENTS).unwrap_or(error),
        _ => without_code(tool, error),
    }
}

/// Formats the beginning of a call's line: its tool, and what it touches.
pub(crate) fn named(name: &str, arguments: &str) -> String {
    let target = target(arguments);
    let name = one_line(name);
    match target.as_str() {
        "" => format!("{NAME}{name}{NAME:#}"),
        target => format!("{NAME}{name}{NAME:#} {target}"),
    }
}

/// The built-in tools whose errors begin with a code for the model, such as `no_folder: there is no folder "x"`.
const WITH_CODES: [&str; 9] = [
    "apply_patch",
    "calculate",
    "list_files",
    "read_file",
    "run_command",
    "search_files",
    "web_fetch",
    "web_search",
    "write_file",
];

/// Returns a tool's error without the code for the model. Errors of other tools are returned unchanged.
fn without_code<'a>(tool: &str, error: &'a str) -> &'a str {
    let is_code = |code: &str| {
        code.contains('_')
            && code
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte == b'_')
    };
    match error.split_once(": ") {
        Some((code, message)) if WITH_CODES.contains(&tool) && is_code(code) => message,
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn failed(how: &str, error: &str) -> ToolResult {
        let record = json!({
            "tool_call_id": "call_1", "name": "tool", "index": 0, "status": "error",
            "value": {"error": error}, "failure": how,
        });
        serde_json::from_value(record).unwrap()
    }

    #[test]
    fn an_error_message_of_a_tool_is_shown_unchanged() {
        let end = End::of(
            &OpenCall::default(),
            &failed("error", "denied: by the disk"),
        );
        assert_eq!(end, End::Failed("failed", "denied: by the disk".to_owned()));
    }

    #[test]
    fn the_reason_for_a_refusal_is_taken_from_the_verdict_not_the_tool_result() {
        let mut call = OpenCall::default();
        let told = failed("denied", "denied: denied: by rule x");
        let not_run = |why: &str| End::NotRun(why.to_owned());
        assert_eq!(End::of(&call, &told), not_run("denied: denied: by rule x"));
        call.refusal = Some(Refusal::ByPolicy("denied: by rule x".to_owned()));
        assert_eq!(End::of(&call, &told), not_run("denied: by rule x"));
        call.refusal = Some(Refusal::Unattended("Mode x asks.".to_owned()));
        let unattended = not_run("Mode x asks; nobody could be asked");
        assert_eq!(End::of(&call, &told), unattended);
        call.refusal = Some(Refusal::Expired(String::new()));
        assert_eq!(End::of(&call, &told), not_run("nobody decided in time"));
        call.refusal = Some(Refusal::ByUser(None));
        assert_eq!(End::of(&call, &told), End::Denied(None));
    }

    #[test]
    fn how_a_call_failed_is_what_its_record_says_and_not_what_the_model_is_told() {
        for (failure, error, said) in [
            (
                Some(ToolFailure::OutcomeUnknown),
                "stopped: no time; it may have taken effect",
                "outcome unknown: stopped: no time; it may have taken effect",
            ),
            (
                Some(ToolFailure::Denied),
                "denied: not here",
                "denied: not here",
            ),
            (
                Some(ToolFailure::Error),
                "denied: by the disk",
                "failed: denied: by the disk",
            ),
            (
                Some(ToolFailure::InvalidArguments),
                "the arguments are not valid: no path",
                "invalid arguments: no path",
            ),
            (
                Some(ToolFailure::Error),
                "no_folder: there is no folder",
                "failed: there is no folder",
            ),
            (None, "no_folder: there is no folder", "there is no folder"),
        ] {
            assert_eq!(super::failed("write_file", failure, error), said);
        }
    }

    #[test]
    fn error_codes_of_built_in_tools_are_stripped_and_other_messages_unchanged() {
        for (tool, error, said) in [
            (
                "write_file",
                "no_folder: there is no folder",
                "there is no folder",
            ),
            (
                "apply_patch",
                "does_not_fit: \"a\": line 3",
                "\"a\": line 3",
            ),
            ("read_file", "it is a link: x", "it is a link: x"),
            ("shop__buy", "user_id: unknown", "user_id: unknown"),
        ] {
            assert_eq!(without_code(tool, error), said);
        }
    }
}
