//! The tool calls of a run while they go on, and what is told of each when it is over.

use std::collections::HashMap;
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use neuraxis::core::{
    AgentId, ApprovalDecided, ApprovalDecision, ApprovalRequested, CallIndex, LlmCall, Record,
    ToolCallId, ToolCallStarted, ToolFailure, ToolResult,
};

use super::super::tail::Tail;
use crate::call::{headline, outcome, rows, target};
use crate::detail::Detail;
use crate::harmless::one_line;
use crate::quantities::brief;
use crate::rows::Row;

/// How many of the last lines are shown of what a call prints while it runs.
const LAST: usize = 4;

/// How long a call takes before its time is worth telling.
const LONG: Duration = Duration::from_millis(100);

const NAME: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const BAD: Style = AnsiColor::Red.on_default();

/// The calls that are known.
#[derive(Debug, Default)]
pub(super) struct Calls {
    open: HashMap<ToolCallId, OpenCall>,
    /// How many calls led to an agent that is not the root.
    depths: HashMap<AgentId, usize>,
}

/// A call without its result.
#[derive(Debug, Default)]
struct OpenCall {
    name: String,
    arguments: String,
    printed: Tail,
    /// Why a person had to decide.
    why: Option<String>,
    /// What came of that, if it may not run.
    refused: Option<Refused>,
}

#[derive(Debug)]
enum Refused {
    /// A person said so, and why.
    By(Option<String>),
    /// Nobody could be asked, or in time.
    ByNobody,
}

/// What is told of a call that is over.
#[derive(Debug)]
pub(super) enum Ended {
    /// A line, with styles, and lines of others below it.
    Told { line: String, rows: Vec<Row> },
    /// It was not run, and everybody should know.
    Refused(String),
}

impl Calls {
    /// Takes the calls of a reply.
    pub(super) fn asked_for(&mut self, record: &Record, call: &LlmCall) {
        let Some(content_index) = record.content_index else {
            return;
        };
        for (index, requested) in (0..).zip(call.reply.calls()) {
            let index = CallIndex(index);
            let id = ToolCallId::new(record.run_id, record.agent, content_index, index);
            let open = self.open.entry(id).or_default();
            open.name = requested.name.to_string();
            open.arguments = requested.arguments.as_str().to_owned();
        }
    }

    /// A call begins, with these arguments in the end.
    pub(super) fn began(&mut self, record: &Record, call: &ToolCallStarted) {
        let open = self.open.entry(call.tool_call_id.clone()).or_default();
        open.name = call.name.to_string();
        open.arguments = call.arguments.as_str().to_owned();
        let depth = self.depth(record.agent) + 1;
        self.depths
            .extend(call.agents.iter().map(|agent| (*agent, depth)));
    }

    /// A person is to decide about a call.
    pub(super) fn asks(&mut self, asked: &ApprovalRequested) {
        let open = self.open.entry(asked.tool_call_id.clone()).or_default();
        open.name = asked.name.to_string();
        open.arguments = asked.arguments.as_str().to_owned();
        open.why = Some(asked.reason.clone());
    }

    /// Somebody decided about a call, or nobody in time.
    pub(super) fn decided(&mut self, decided: &ApprovalDecided) {
        let Some(open) = self.open.get_mut(&decided.tool_call_id) else {
            return;
        };
        open.refused = match &decided.decision {
            ApprovalDecision::Approve { .. } => None,
            ApprovalDecision::Deny { reason } if decided.by.is_some() => {
                Some(Refused::By(reason.clone()))
            }
            ApprovalDecision::Deny { .. } | ApprovalDecision::Expired => Some(Refused::ByNobody),
        };
    }

    /// Names a call that is under way.
    pub(super) fn headline(&self, id: &ToolCallId) -> String {
        let open = self.open.get(id);
        open.map_or_else(String::new, |open| headline(&open.name, &open.arguments))
    }

    /// A call prints more. Returns the last lines.
    pub(super) fn printed(&mut self, id: &ToolCallId, text: &str) -> Vec<String> {
        let open = self.open.entry(id.clone()).or_default();
        open.printed.push(text);
        open.printed.lines(LAST)
    }

    /// How many agents stand between the user and this one.
    pub(super) fn depth(&self, agent: AgentId) -> usize {
        self.depths.get(&agent).copied().unwrap_or_default()
    }

    /// A call is over: says what it touched and came to.
    pub(super) fn ended(&mut self, result: &ToolResult, detail: Detail) -> Ended {
        let open = self.open.remove(&result.tool_call_id).unwrap_or_default();
        let name = one_line(&result.name);
        let named = match target(&open.arguments).as_str() {
            "" => format!("{NAME}{name}{NAME:#}"),
            target => format!("{NAME}{name}{NAME:#} {target}"),
        };
        let took = result
            .duration
            .filter(|took| *took >= LONG || detail == Detail::Verbose);
        let took = took.map(|took| format!(" · {}", brief(took)));
        let took = took.unwrap_or_default();
        let Some(failure) = result.failure else {
            let came = outcome(result).map(|came| format!(" · {}", one_line(&came)));
            let came = came.unwrap_or_default();
            return Ended::Told {
                line: format!("{named}{DIM}{came}{took}{DIM:#}"),
                rows: rows(&open.arguments, result, detail),
            };
        };
        let error = result.value.error_message();
        let error = error.unwrap_or_else(|| result.value.to_string());
        // Why it was denied says that it was.
        let error = error.strip_prefix("denied: ").unwrap_or(&error);
        let is_refused = matches!(failure, ToolFailure::Denied | ToolFailure::ApprovalExpired);
        match open.refused {
            Some(Refused::By(reason)) => {
                let reason = reason.map(|reason| format!(": {}", one_line(&reason)));
                let reason = reason.unwrap_or_default();
                let line = format!("{named}{DIM} · denied{reason}{DIM:#}");
                let rows = Vec::new();
                Ended::Told { line, rows }
            }
            _ if is_refused => {
                let why = match (open.refused, open.why) {
                    (Some(Refused::ByNobody), Some(why)) => match failure {
                        ToolFailure::ApprovalExpired => format!("{why} Nobody decided in time"),
                        _ => format!("{why} Denied"),
                    },
                    _ => error.to_owned(),
                };
                let call = headline(&result.name, &open.arguments);
                Ended::Refused(format!("{call} was not run: {why}"))
            }
            _ => {
                let error = one_line(without_code(&result.name, error));
                let line = format!("{named}{DIM}{took}{DIM:#} · {BAD}failed{BAD:#}: {error}");
                let rows = rows(&open.arguments, result, detail);
                Ended::Told { line, rows }
            }
        }
    }
}

/// The tools of ours whose errors begin with a word for the model, such as `no_folder: there is no folder "x"`.
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

/// Returns what a tool says of its failure, for a person. The words of somebody else's tool are left alone.
fn without_code<'a>(tool: &str, error: &'a str) -> &'a str {
    let is_code = |code: &str| {
        code.contains('_')
            && code
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte == b'_')
    };
    match error.split_once(": ") {
        Some((code, said)) if WITH_CODES.contains(&tool) && is_code(code) => said,
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_for_the_model_is_not_shown_to_people_and_other_tools_keep_all_their_words() {
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
