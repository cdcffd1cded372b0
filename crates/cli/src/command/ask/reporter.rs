//! Reports on standard error what a run is doing: each call with what it touched and its result, what the model thinks,
//! how much it used, and warnings for the user.

mod calls;

use std::io;
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use neuraxis::core::log::{checklist, describe};
use neuraxis::core::{
    AgentId, Cost, JsonText, LimitKind, LimitReachedRecord, LiveBody, LiveEvent, LlmCall,
    LlmErrorKind, LlmFailed, NextAttempt, ProgressSteps, Purpose, Record, RecordBody, ReplyPart,
    ToolResult, ToolSignal, Warning,
};
use neuraxis::{Event, OrchestratorResult};

use super::tail::Tail;
use crate::call::lines_of;
use crate::command::help::command_for;
use crate::detail::Detail;
use crate::glyphs::DOT;
use crate::harmless::{one_line, one_line_of};
use crate::progress::{self, Progress};
use crate::quantities::{brief, money, tokens};
use crate::rows::{LongLines, Mark, Row};
use crate::terminal;
use crate::wrap::broken;
use calls::{Calls, EndedCall};

const THINKING: &str = "waiting for the model";
/// The maximum number of characters shown of a message that arrived meanwhile.
const MAX_SHOWN: usize = 60;
/// The code of the warning that a role failed so often that another one will serve.
const ROLE_DEGRADED: &str = "role_degraded";
/// Shown if a reply was cut, so its calls do not run.
const CUT_CALLS: &str = "a reply was cut off, so its calls are not run: the model reached its limit (the model server's own, or the mode's max_output_tokens)";
const LOADING: &str = "the model server is still loading the model";

const DIM: Style = Style::new().dimmed();

/// Follows a run and reports on it.
#[derive(Debug)]
pub(super) struct Reporter {
    pub(super) progress: Progress,
    detail: Detail,
    calls: Calls,
    /// The last reported failure of a model, so that it is not reported repeatedly.
    failure: Option<String>,
    /// Whether the time limit was reported.
    is_time_up: bool,
    /// Whether cut calls were reported.
    are_calls_cut: bool,
    /// The end of the model's thinking, for the status line.
    thought: Tail,
    /// The part of the model's thinking that was not printed yet, for users who want to read it.
    thoughts: String,
    /// The model that answered last, and the total number of model calls.
    model: Option<String>,
    model_calls: u64,
}

impl Reporter {
    pub(super) fn new(detail: Detail) -> Self {
        Self {
            progress: Progress::with_detail(detail),
            detail,
            calls: Calls::default(),
            failure: None,
            is_time_up: false,
            are_calls_cut: false,
            thought: Tail::default(),
            thoughts: String::new(),
            model: None,
            model_calls: 0,
        }
    }

    /// Counts the run's model calls, including those shown before, since the tokens reported at its end do so, too.
    pub(super) fn count(&mut self, event: &Event) {
        let Event::Record(record) = event else {
            return;
        };
        let RecordBody::LlmCall(call) = &record.body else {
            return;
        };
        self.model_calls += 1;
        let is_of_answer = matches!(call.purpose, Purpose::Turn | Purpose::LastAnswer);
        if record.agent == AgentId::ROOT && is_of_answer {
            self.model = Some(call.reply.model.to_string());
        }
    }

    /// Processes an event of the run.
    pub(super) fn handle_event(&mut self, event: &Event) {
        match event {
            Event::Record(record) => self.record(record),
            Event::Live(live) => self.live(live),
        }
    }

    /// Processes an event that was shown before: its calls may end later.
    pub(super) fn note_shown(&mut self, event: &Event) {
        if let Event::Record(record) = event {
            self.calls.add_shown(record);
        }
    }

    fn live(&mut self, live: &LiveEvent) {
        match &live.body {
            LiveBody::ToolStart { tool_call_id, .. } => {
                let call = self.calls.headline(tool_call_id);
                // Timing starts now.
                self.progress.hide();
                self.progress.activity(&format!("running {call}"));
            }
            LiveBody::ToolProgress {
                tool_call_id,
                name,
                steps,
                ..
            } => {
                let call = self.calls.headline(tool_call_id);
                let steps = steps.map(counted).unwrap_or_default();
                self.progress
                    .activity(&format!("running {call}: {name}{steps}"));
            }
            LiveBody::ToolOutput { tool_call_id, text } => {
                let lines = self.calls.printed(tool_call_id, text);
                let call = self.calls.headline(tool_call_id);
                self.progress
                    .activity_over(&format!("running {call}"), &lines);
            }
            LiveBody::ReasoningDelta { text } => {
                self.thought.push(text);
                if live.agent == AgentId::ROOT && self.detail == Detail::Verbose {
                    self.thoughts.push_str(text);
                }
                let line = self.thought.line();
                self.progress.activity(&format!("thinking: {line}"));
            }
            _ => {}
        }
    }

    /// Prints the model's thinking that was not printed yet, before what it says.
    pub(super) fn print_thoughts(&mut self) {
        let thoughts = std::mem::take(&mut self.thoughts);
        if thoughts.trim().is_empty() {
            return;
        }
        let rows = lines_of(&thoughts).map(|row| Row::new(Mark::Title, row.text));
        self.print_block(0, &format!("{DIM}thinking{DIM:#}"), rows);
    }

    /// Prints a line with quoted lines below it, indented by the depth of the agent.
    fn print_block(&self, depth: usize, line: &str, rows: impl IntoIterator<Item = Row>) {
        if !self.progress.is_read() {
            return;
        }
        let margin = "  ".repeat(depth);
        let columns = terminal::width(io::stderr()).saturating_sub(margin.len());
        let long = match self.detail {
            Detail::Verbose => LongLines::Broken,
            Detail::Quiet | Detail::Usual => LongLines::Cut,
        };
        let mut text = broken(line, columns, "    ") + "\n";
        text.extend(rows.into_iter().map(|row| row.below(columns, long)));
        let lines = text.lines().map(|line| format!("{margin}{line}\n"));
        self.progress.show(&lines.collect::<String>());
    }

    /// Prints what a run used, once it has ended.
    pub(super) fn print_usage(&self, result: &OrchestratorResult, took: Duration) {
        let model = match &self.model {
            Some(model) => format!("{model}{DOT}"),
            None if self.model_calls == 0 => return,
            // The run was stopped before any model had answered.
            None => String::new(),
        };
        let usage = &result.usage.total;
        let calls = describe::counted(self.model_calls, "model call");
        let used = format!(
            "{} + {} tokens",
            tokens(usage.prompt),
            tokens(usage.completion)
        );
        let label = result.cost_label;
        let cost = result.cost.map(|amount| Cost { amount, label });
        let cost = cost.and_then(money).map(|cost| format!("{DOT}{cost}"));
        let cost = cost.unwrap_or_default();
        let took = brief(took);
        let line = one_line(&format!("{model}{calls}{DOT}{used}{cost}{DOT}{took}"));
        let line = match terminal::error_columns() {
            Some(columns) => broken(&line, columns, "  "),
            None => line,
        };
        self.progress.show(&format!("{DIM}{line}{DIM:#}\n"));
    }

    fn record(&mut self, record: &Record) {
        self.calls.add(record);
        match &record.body {
            RecordBody::RunStarted(_) => self.progress.activity(THINKING),
            RecordBody::LlmCall(call) => self.model_replied(record, call),
            RecordBody::LlmFailed(failed) => self.model_failed(failed),
            RecordBody::ToolResult(result) => {
                self.tool_ended(record, result);
                self.progress.hide();
                self.progress.activity(THINKING);
            }
            RecordBody::Plan(changed) => self.planned(record, &changed.plan),
            // The failures that led to it were already reported.
            RecordBody::Warning(warning)
                if warning.code == ROLE_DEGRADED && self.detail < Detail::Verbose => {}
            RecordBody::Warning(warning) => self.warned(warning),
            RecordBody::RoleDowngraded(downgraded) => {
                let what = describe::downgraded(downgraded);
                let reason = &downgraded.reason;
                progress::warn(&format!("{what}: {reason}"));
            }
            RecordBody::Escalated(escalated) => {
                progress::warn(&describe::escalated(escalated));
            }
            RecordBody::ContextTrimmed(trimmed) => {
                let what = describe::trimmed(trimmed);
                match trimmed.summary {
                    Some(_) => progress::notice(&what),
                    None => progress::warn(&format!("permanently {what} to make the rest fit")),
                }
            }
            RecordBody::MaxTurnsReached(reached) => {
                let limit = describe::max_turns(reached);
                let whose = whose(record.agent);
                progress::warn(&format!("{whose}{limit}: one last answer"));
            }
            RecordBody::LimitReached(reached) => self.limit_reached(record.agent, reached),
            RecordBody::Steered(steered) => {
                let message = one_line_of(&steered.message.text(), MAX_SHOWN);
                progress::notice(&format!("a message arrived during the run: {message}"));
            }
            _ => {}
        }
    }

    /// Prints a warning. One that is only about how the model works is shown only if all details are wanted.
    fn warned(&self, warning: &Warning) {
        if warning.code != Warning::TOOL_NOT_RETRIED || self.detail == Detail::Verbose {
            progress::warn(&warning.message);
        }
    }

    /// Reports a reached limit. The time limit is reached twice if the last answer takes too long, but is reported
    /// once.
    fn limit_reached(&mut self, agent: AgentId, reached: &LimitReachedRecord) {
        let last = match reached.prompt {
            Some(_) => ": one last answer",
            None => "",
        };
        match reached.limit {
            LimitKind::Deadline if self.is_time_up => return,
            LimitKind::DeadlineReserve => self.is_time_up = true,
            LimitKind::Deadline | LimitKind::Budget(_) => {}
        }
        let (whose, limit) = (whose(agent), describe::limit(reached.limit));
        progress::warn(&format!("{whose}{limit}{last}"));
    }

    fn model_replied(&mut self, record: &Record, call: &LlmCall) {
        self.thought = Tail::default();
        if call.purpose == Purpose::Turn && call.reply.has_cut_calls() && !self.are_calls_cut {
            self.are_calls_cut = true;
            progress::warn(CUT_CALLS);
        }
        if self.detail < Detail::Verbose {
            return;
        }
        // The thinking was not received while it was generated.
        if record.agent == AgentId::ROOT && self.thoughts.is_empty() && call.first_delta.is_none() {
            let thoughts = call.reply.parts.iter().filter_map(|part| match part {
                ReplyPart::Reasoning(thought) => Some(thought.text.as_str()),
                _ => None,
            });
            self.thoughts = thoughts.collect();
        }
        self.print_thoughts();
        let depth = self.calls.depth(record.agent);
        let line = one_line(&describe_model_call(call));
        self.print_block(depth, &format!("{DIM}{line}{DIM:#}"), []);
    }

    /// Prints a plan as a checklist.
    fn planned(&self, record: &Record, plan: &JsonText) {
        const NOW: Style = AnsiColor::Cyan.on_default().bold();
        let list = checklist(plan).unwrap_or_default();
        let steps = list.lines().map(|step| {
            let line = one_line(step);
            match step.as_bytes() {
                [b'[', b'x', ..] => format!("{DIM}{line}{DIM:#}"),
                [b'[', b'>', ..] => format!("{NOW}{line}{NOW:#}"),
                _ => line,
            }
        });
        let depth = self.calls.depth(record.agent);
        for step in steps {
            self.print_block(depth, &step, []);
        }
    }

    fn model_failed(&mut self, failed: &LlmFailed) {
        if failed.error.kind == LlmErrorKind::Cancelled {
            return;
        }
        let is_waited_for =
            failed.error.kind == LlmErrorKind::Loading && failed.next == NextAttempt::Follows;
        let next = match failed.next {
            NextAttempt::Follows if is_waited_for => "; waiting for it",
            NextAttempt::Follows => "; trying again",
            NextAttempt::None => "",
        };
        // The rest of the error, such as a comparison, is shown when the run ends.
        let error = failed.error.to_string();
        let error = error.lines().next().unwrap_or_default();
        let served_by = &failed.served_by;
        // A server that is down is one warning, however often it is tried.
        match self.has_reported(error) {
            true if self.detail < Detail::Verbose => {
                self.progress.activity(&format!("{served_by}{next}"));
            }
            true => progress::warn(&format!("{served_by}: the same failure again{next}")),
            false => progress::warn(&format!("{served_by}: {error}{next}")),
        }
        self.failure = Some(error.to_owned());
        if is_waited_for {
            // The status shows the time from now on.
            self.progress.hide();
            self.progress.activity(LOADING);
        }
    }

    /// Returns whether this failure was the last one reported.
    pub(super) fn has_reported(&self, error: &str) -> bool {
        self.failure
            .as_deref()
            .is_some_and(|reported| error.ends_with(reported))
    }

    fn tool_ended(&mut self, record: &Record, result: &ToolResult) {
        let depth = self.calls.depth(record.agent);
        // A new plan is in a record of its own.
        let is_plan = matches!(result.signal, Some(ToolSignal::Plan { .. }));
        match self.calls.ended(result, self.detail) {
            EndedCall::Refused { what, rule } => {
                let shows_rule = rule.as_ref().and_then(command_for);
                let shows_rule = shows_rule.map(|command| format!(" ({command})"));
                progress::warn(&format!("{what}{}", shows_rule.unwrap_or_default()));
            }
            EndedCall::Shown { .. } if is_plan => {}
            EndedCall::Shown { line, rows } => self.print_block(depth, &line, rows),
        }
    }
}

/// Returns the prefix that names a sub-agent, as in `runs show`.
fn whose(agent: AgentId) -> String {
    match agent {
        AgentId::ROOT => String::new(),
        agent => format!("agent {agent}: "),
    }
}

fn describe_model_call(call: &LlmCall) -> String {
    let LlmCall {
        served_by,
        reply,
        duration,
        ..
    } = call;
    let asked_for = describe::asks_for(reply.calls().count());
    let asked_for = asked_for.map_or_else(String::new, |asks| format!("{DOT}{asks}"));
    format!(
        "{served_by} ({}){DOT}{}{asked_for}",
        reply.model,
        brief(*duration)
    )
}

fn counted(steps: ProgressSteps) -> String {
    match steps.total {
        Some(total) => format!(" ({} of {total})", steps.done),
        None => format!(" ({})", steps.done),
    }
}

#[cfg(test)]
mod tests {
    use neuraxis::engine::read_log;

    use super::*;

    const LOG: &str = include_str!("../../../../core/tests/golden/edited_approval_and_crash.jsonl");

    #[test]
    fn compaction_calls_do_not_set_the_model_of_the_answer() {
        let mut reporter = Reporter::new(Detail::Usual);
        let mut answered = 0;
        for record in read_log(LOG).unwrap() {
            let mut record = (*record).clone();
            if let RecordBody::LlmCall(call) = &mut record.body {
                call.purpose = Purpose::Compaction;
                answered += 1;
            }
            reporter.count(&Event::Record(record.into()));
        }
        assert!(answered > 0);
        assert_eq!((reporter.model, reporter.model_calls), (None, answered));
    }

    #[test]
    fn messages_about_sub_agents_are_prefixed_with_their_name() {
        assert_eq!(whose(AgentId::ROOT), "");
        assert_eq!(whose(AgentId(3)), "agent a3: ");
    }

    #[test]
    fn a_call_that_ends_after_its_run_was_resumed_still_has_its_headline() {
        let mut reporter = Reporter::new(Detail::Usual);
        let mut named = 0;
        for record in read_log(LOG).unwrap() {
            if let RecordBody::ToolResult(result) = &record.body {
                let call = reporter.calls.headline(&result.tool_call_id);
                assert!(call.starts_with(&*result.name), "{call:?}");
                named += 1;
            }
            reporter.note_shown(&Event::Record(record));
        }
        assert!(named > 0);
    }
}
