//! The tool calls of a run while they are in progress, and what is shown of each once it has ended.

use std::collections::HashMap;
use std::time::Duration;

use neuraxis::core::{AgentId, Record, RecordBody, RuleRef, ToolCallId, ToolFailure, ToolResult};

use super::super::tail::Tail;
use crate::call::{CallLog, End, headline, named, rows};
use crate::detail::Detail;
use crate::quantities::brief;
use crate::rows::{Mark, Row};

/// How many of the last output lines of a running call are shown.
const LAST: usize = 4;

/// How long a call must take for its duration to be shown.
const LONG: Duration = Duration::from_millis(100);

/// The known calls.
#[derive(Debug, Default)]
pub(super) struct Calls {
    log: CallLog,
    printed: HashMap<ToolCallId, Tail>,
    /// The nesting depth of each agent that is not the root.
    depths: HashMap<AgentId, usize>,
}

/// What is shown of a call that has ended.
#[derive(Debug)]
pub(super) enum EndedCall {
    /// A styled line, with quoted lines below it.
    Shown { line: String, rows: Vec<Row> },
    /// A warning that the call was not run, perhaps because of a rule.
    Refused { what: String, rule: Option<RuleRef> },
}

impl Calls {
    /// Processes a record of the run.
    pub(super) fn add(&mut self, record: &Record) {
        self.log.add(record);
        if let RecordBody::ToolCall(call) = &record.body {
            let depth = self.depth(record.agent) + 1;
            self.depths
                .extend(call.agents.iter().map(|agent| (*agent, depth)));
        }
    }

    /// Processes a record that was shown before.
    pub(super) fn add_shown(&mut self, record: &Record) {
        self.add(record);
        if let RecordBody::ToolResult(result) = &record.body {
            self.log.close(&result.tool_call_id);
        }
    }

    /// Describes a call that is in progress.
    pub(super) fn headline(&self, id: &ToolCallId) -> String {
        let open = self.log.get(id);
        open.map_or_else(String::new, |open| headline(&open.name, &open.arguments))
    }

    /// Adds output of a call, and returns its last lines.
    pub(super) fn printed(&mut self, id: &ToolCallId, text: &str) -> Vec<String> {
        let printed = self.printed.entry(id.clone()).or_default();
        printed.push(text);
        printed.lines(LAST)
    }

    /// Returns the nesting depth of an agent.
    pub(super) fn depth(&self, agent: AgentId) -> usize {
        self.depths.get(&agent).copied().unwrap_or_default()
    }

    /// Handles the end of a call: describes what it touched and its result.
    pub(super) fn ended(&mut self, result: &ToolResult, detail: Detail) -> EndedCall {
        let open = self.log.close(&result.tool_call_id);
        let printed = self.printed.remove(&result.tool_call_id);
        let took = result
            .duration
            .filter(|took| *took >= LONG || detail == Detail::Verbose);
        let took = took.map(brief);
        let end = End::of(&open, result);
        if let End::NotRun(why) = &end {
            let call = headline(&result.name, &open.arguments);
            let what = format!("{call} was not run: {why}");
            let rule = open.rule;
            return EndedCall::Refused { what, rule };
        }
        let named = named(&result.name, &open.arguments);
        let line = format!("{named}{}", end.in_words(took.as_deref()));
        let mut rows = rows(&open.arguments, result, detail);
        // If the time was up, the result lacks what the call had printed, so what was seen of it is kept.
        let is_cut_off = matches!(
            result.failure,
            Some(ToolFailure::Timeout | ToolFailure::OutcomeUnknown)
        );
        if let Some(printed) = printed.filter(|_| is_cut_off && rows.is_empty()) {
            let lines = printed.lines(LAST).into_iter();
            rows.extend(lines.map(|line| Row::new(Mark::Plain, line)));
        }
        EndedCall::Shown { line, rows }
    }
}

#[cfg(test)]
mod tests {
    use neuraxis::core::{CallIndex, ToolOutcome};

    use super::*;

    #[test]
    fn partial_output_of_a_call_is_shown_when_it_timed_out() {
        for (failure, shown) in [
            (ToolFailure::OutcomeUnknown, 2),
            (ToolFailure::Timeout, 2),
            (ToolFailure::Cancelled, 0),
        ] {
            let id: ToolCallId = serde_json::from_str(r#""c""#).unwrap();
            let mut calls = Calls::default();
            calls.printed(&id, "test 1 ok\ntest 2 ok\n");
            let outcome = ToolOutcome::failed(failure, "stopped");
            let result = ToolResult::of(id, "run_command", CallIndex(0), outcome);
            match calls.ended(&result, Detail::Usual) {
                EndedCall::Shown { rows, .. } => assert_eq!(rows.len(), shown, "{failure:?}"),
                EndedCall::Refused { what, .. } => panic!("{what}"),
            }
        }
    }
}
