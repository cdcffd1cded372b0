//! `neuraxis sessions show`.

use std::collections::HashMap;
use std::sync::Arc;

use anstyle::Style;
use clap::Args;
use clap_complete::ArgValueCompleter;
use neuraxis::Message;
use neuraxis::core::log::checklist;
use neuraxis::core::log::describe::counted;
use neuraxis::core::{Part, SessionMetrics, ToolCall, ToolCallId, ToolFailure, ToolMessage};
use neuraxis::engine::{SessionOverview, Sessions};
use serde_json::{Value, json};

use crate::call::{failed, named, outcome_of};
use crate::command::lookup;
use crate::command::runs::{run_in_json, run_in_text};
use crate::completion;
use crate::error::CommandError;
use crate::glyphs::DOT;
use crate::harmless::{harmless, one_line};
use crate::listing::Format;
use crate::output::Output;
use crate::quantities::{moment, money, tokens};

const EXAMPLES: &str = "\
Examples:
  neuraxis sessions show trip
  neuraxis sessions show trip --format json | jq .metrics";

/// The speaker of the messages that runs answer.
const USER: &str = "user";

/// Show a session: its messages, its runs, and what it used
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Show {
    /// The session: its id, the beginning or end of its id, or last
    #[arg(add = ArgValueCompleter::new(completion::sessions))]
    id: String,

    /// What to print: text, or one JSON object
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

impl Show {
    pub(super) async fn run(self, sessions: &Sessions) -> Result<(), CommandError> {
        let id = lookup::session(sessions, &self.id).await?;
        lookup::warn_if_altered(sessions, &id).await;
        let overview = sessions.overview(&id).await?;
        let mut output = Output::new();
        match self.format {
            Format::Text => {
                // Without the records, the conversation still shows the errors.
                let failures = sessions.failed_calls(&overview.runs).await;
                output.lines(&in_text(&overview, &failures.unwrap_or_default()))?;
            }
            Format::Json => output.line(&format!("{:#}", in_json(&overview)))?,
        }
        Ok(())
    }
}

fn in_json(overview: &SessionOverview) -> Value {
    let session = &overview.session;
    let plan = overview.plan.as_ref();
    let plan: Option<Value> = plan.and_then(|plan| plan.decode().ok());
    let runs: Vec<_> = overview.runs.iter().map(run_in_json).collect();
    json!({
        "id": session.id,
        "owner": session.owner,
        "created_at": session.created_at,
        "title": session.title,
        "metrics": overview.metrics,
        "plan": plan,
        "runs": runs,
        "messages": overview.history.messages(),
    })
}

fn in_text(overview: &SessionOverview, failures: &FailedCalls) -> String {
    const BOLD: Style = Style::new().bold();
    let session = &overview.session;
    let mut text = format!("{BOLD}session {}{BOLD:#}\n", session.id);
    if let Some(title) = &session.title {
        text.push_str(&format!("  title   {}\n", one_line(title)));
    }
    text.push_str(&format!("  created {}\n", moment(session.created_at)));
    if let Some(owner) = &session.owner {
        text.push_str(&format!("  owner   {}\n", one_line(owner)));
    }
    text.push_str(&format!("  used    {}\n", used(&overview.metrics)));
    for run in &overview.runs {
        text.push_str(&format!("  run     {}\n", run_in_text(run)));
    }
    if let Some(plan) = overview.plan.as_ref().and_then(checklist) {
        let plan = harmless(&plan).replace('\n', "\n  ");
        text.push_str(&format!("\n{BOLD}plan{BOLD:#}\n  {plan}\n"));
    }
    text + &conversation(overview.history.messages(), failures)
}

/// How the calls failed that did, by their ids.
pub(in crate::command) type FailedCalls = HashMap<ToolCallId, ToolFailure>;

/// Formats the part of a conversation meant for readers, with what each call touched and its result.
pub(in crate::command) fn conversation(
    messages: &[Arc<Message>],
    failures: &FailedCalls,
) -> String {
    const BOLD: Style = Style::new().bold();
    let results: HashMap<_, _> = messages
        .iter()
        .filter_map(|message| match message.as_ref() {
            Message::Tool(result) => Some((&result.tool_call_id, result)),
            _ => None,
        })
        .collect();
    let mut text = String::new();
    let mut last = "";
    for message in messages {
        let Some((who, said)) = speaker_and_text(message, &results, failures) else {
            continue;
        };
        // What a model says between its calls belongs together. An unanswered message is set apart from the next one.
        if who != last || who == USER {
            text.push_str(&format!("\n{BOLD}{who}{BOLD:#}\n"));
        }
        last = who;
        text.extend(said.lines().map(|line| format!("  {line}\n")));
    }
    text
}

/// Describes what one or more runs used.
pub(in crate::command) fn used(metrics: &SessionMetrics) -> String {
    let mut parts = vec![
        counted(metrics.llm_calls, "model call"),
        counted(metrics.tool_calls, "tool call"),
        format!("{} tokens", tokens(metrics.usage.total.total)),
    ];
    let errors = metrics.llm_failures + metrics.tool_errors;
    if errors > 0 {
        parts.push(counted(errors, "error"));
    }
    parts.extend(money(metrics.paid()));
    parts.join(DOT.as_str())
}

/// Returns who said what, harmless, as far as it is meant for readers. Of tool results, which are for models, only a
/// summary per call is included.
fn speaker_and_text(
    message: &Message,
    results: &HashMap<&ToolCallId, &ToolMessage>,
    failures: &FailedCalls,
) -> Option<(&'static str, String)> {
    match message {
        Message::User { .. } => {
            let mut text = harmless(message.text().trim_end()).into_owned();
            for part in message.media() {
                text.push_str(&format!("\n[{}]", one_line(&part.to_string())));
            }
            Some((USER, text))
        }
        Message::Assistant(said) => {
            let text = message.text();
            let text = harmless(text.trim_end());
            let calls = said.parts.iter().filter_map(|part| match part {
                Part::ToolCall(call) => Some(called(call, results, failures)),
                _ => None,
            });
            let lines = text.lines().map(str::to_owned).chain(calls);
            Some(("assistant", lines.collect::<Vec<_>>().join("\n")))
        }
        Message::System { .. } | Message::Tool(_) => None,
    }
}

/// Describes in a line what a call touched, and its outcome.
fn called(
    call: &ToolCall,
    results: &HashMap<&ToolCallId, &ToolMessage>,
    failures: &FailedCalls,
) -> String {
    const DIM: Style = Style::new().dimmed();
    let named = named(&call.name, call.arguments.as_str());
    let result = results.get(&call.id).map(|result| &result.content);
    let outcome = result.and_then(|result| match result.error_message() {
        Some(error) => Some(failed(&call.name, failures.get(&call.id).copied(), &error)),
        None => outcome_of(result, None),
    });
    let outcome = outcome.map_or_else(String::new, |outcome| {
        format!("{DOT}{}", one_line(&outcome))
    });
    let mark = DOT.as_str().trim();
    format!("{DIM}{mark}{DIM:#} {named}{DIM}{outcome}{DIM:#}")
}
