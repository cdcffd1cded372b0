//! `neuraxis runs show`.

use std::sync::Arc;

use anstyle::Style;
use clap::{Args, ValueEnum};
use clap_complete::ArgValueCompleter;
use neuraxis::core::log::RunView;
use neuraxis::core::{Record, RunStatus};
use neuraxis::engine::{Sessions, run_answer, run_steps};
use neuraxis::ports::RunSummary;
use serde_json::{Value, json};

use super::{outline, run_in_json, style_of};
use crate::command::lookup;
use crate::command::sessions::used;
use crate::completion;
use crate::detail::Detail;
use crate::error::CommandError;
use crate::glyphs::DOT;
use crate::harmless::one_line;
use crate::output::{Output, on_one_line};
use crate::quantities::{brief, moment};
use crate::tree::{Branches, draw};

const EXAMPLES: &str = "\
Examples:
  neuraxis runs show 9b7a5c31
  neuraxis runs show last -v | less
  neuraxis runs show last --format json | jq '.steps[].description'
  neuraxis runs show last --format events | jq -r .type";

/// Show a run as a tree: its turns, model calls, tool calls and sub-agents
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Show {
    /// The run: its id, the beginning or end of its id, or last
    #[arg(value_name = "RUN", add = ArgValueCompleter::new(completion::runs))]
    id: String,

    /// What to print: a tree, one JSON object, or one line of JSON per record
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,

    /// Show everything that calls read, printed and changed, instead of the first and last lines
    #[arg(short, long)]
    verbose: bool,
}

/// The output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Human-readable text
    Text,
    /// One JSON object
    Json,
    /// Its records, one JSON object per line
    Events,
}

impl Show {
    pub(super) async fn run(self, sessions: &Sessions) -> Result<(), CommandError> {
        let run = lookup::run(sessions, &self.id).await?;
        lookup::warn_if_altered(sessions, &run.session).await;
        let records = sessions.records(run.run_id).await?;
        let mut output = Output::new();
        match self.format {
            Format::Text => {
                let branches = Branches::of(&output);
                let columns = output.columns();
                let detail = match self.verbose {
                    true => Detail::Verbose,
                    false => Detail::Usual,
                };
                output.lines(&head(&run, &records))?;
                let nodes = outline::of(&records, detail, branches, columns);
                output.painted(&draw(&nodes, branches, columns))?;
                if let Some(reply) = reply(&RunView::of(&records)) {
                    output.painted("\n")?;
                    output.markdown(reply.trim_end())?;
                }
            }
            Format::Json => output.line(&format!("{:#}", in_json(&run, &records)))?,
            Format::Events => {
                for record in &records {
                    output.line(&on_one_line(&record.to_json()))?;
                }
            }
        }
        Ok(())
    }
}

/// Describes the run, its result, and what it used.
fn head(run: &RunSummary, records: &[Arc<Record>]) -> String {
    const BOLD: Style = Style::new().bold();
    let view = RunView::of(records);
    let (style, status) = (style_of(run.status), run.status.as_str());
    let mut text = format!("{BOLD}run {}{BOLD:#}\n", run.run_id);
    let mut line = |name: &str, value: String| text.push_str(&format!("  {name:<9}{value}\n"));
    line("session", run.session.to_string());
    if let Some(owner) = &run.owner {
        line("owner", one_line(owner));
    }
    let reason = run.finish_reason.as_ref();
    let reason = reason.map(|reason| format!(" ({})", one_line(&reason.to_string())));
    let reason = reason.unwrap_or_default();
    line("status", format!("{style}{status}{style:#}{reason}"));
    if let Some(started) = run.started_at {
        let took = run
            .ended_at
            .and_then(|end| end.duration_since(started).try_into().ok());
        let took = took.map(|took| format!("{DOT}took {}", brief(took)));
        let begun = moment(started);
        line("started", format!("{begun}{}", took.unwrap_or_default()));
    }
    if let Some(decision) = view.decision() {
        let (mode, channel) = (
            one_line(decision.mode.as_str()),
            one_line(decision.channel.as_str()),
        );
        line("policy", format!("mode {mode}{DOT}channel {channel}"));
    }
    let turns = match run.turns {
        1 => "1 turn".to_owned(),
        turns => format!("{turns} turns"),
    };
    line("used", format!("{turns}{DOT}{}", used(view.metrics())));
    text + "\n"
}

fn in_json(run: &RunSummary, records: &[Arc<Record>]) -> Value {
    let mut value = run_in_json(run);
    if let Value::Object(value) = &mut value {
        let view = RunView::of(records);
        let decision = view.decision();
        value.insert(
            "mode".to_owned(),
            json!(decision.map(|decision| &decision.mode)),
        );
        value.insert(
            "channel".to_owned(),
            json!(decision.map(|decision| &decision.channel)),
        );
        value.insert("reply".to_owned(), json!(reply(&view)));
        // A run in progress has no answer yet, which is no error.
        if run.status != RunStatus::Running {
            let (answer, fault) = run_answer(view.outcome(), records);
            let answer = answer.and_then(|answer| answer.decode::<Value>().ok());
            value.extend(answer.map(|answer| ("answer".to_owned(), answer)));
            value.extend(fault.map(|fault| ("answer_fault".to_owned(), json!(fault))));
        }
        value.insert("metrics".to_owned(), json!(view.metrics()));
        value.insert("tree".to_owned(), outline::in_json(records));
        value.insert("steps".to_owned(), json!(run_steps(records)));
    }
    value
}

/// Returns the run's answer, if it has ended with one.
fn reply(view: &RunView) -> Option<&str> {
    let content = view.outcome().map(|outcome| outcome.content.as_str());
    content.filter(|content| !content.is_empty())
}

#[cfg(test)]
mod tests {
    use neuraxis::core::RunId;

    use super::*;

    #[test]
    fn the_owner_of_a_run_is_shown_on_one_line_of_its_head() {
        let id = "0199f3a1-0000-7000-8000-000000000001";
        let mut run = RunSummary::new(RunId(id.parse().unwrap()), "s".parse().unwrap());
        assert!(!head(&run, &[]).contains("owner"));
        run.owner = Some("ada\n  status   done".to_owned());
        let head = head(&run, &[]);
        assert!(head.contains("\n  owner    ada status done\n"), "{head}");
    }
}
