//! `neuraxis approvals list`: what waits.

use clap::Args;
use neuraxis::SessionId;
use neuraxis::engine::WaitingApproval;
use serde_json::{Value, json};

use super::waiting::in_text;
use crate::error::CommandError;
use crate::output::{ListFormat, Output};
use crate::progress;
use crate::setup::{Setup, with_app};

const EXAMPLES: &str = "\
Examples:
  neuraxis approvals list
  neuraxis approvals list --format json | jq -r '.[] | [.run_id, .question] | @tsv'";

/// List the calls that wait for your approval
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct List {
    /// Only those of this session
    #[arg(long, value_name = "ID")]
    session: Option<SessionId>,

    /// What to print: some lines a call, or a JSON array with everything that is known of them
    #[arg(long, value_enum, default_value_t = ListFormat::Text)]
    format: ListFormat,
}

impl List {
    pub(crate) async fn run(self, setup: &Setup) -> Result<(), CommandError> {
        let loaded = setup.load()?;
        loaded.say_what_is_ignored();
        // What waits is in the store: no tool is looked at.
        let app = loaded.app().without_servers().build().await?;
        let found = with_app(app, async |app| {
            let approvals = app.orchestrator.approvals();
            match &self.session {
                Some(session) => approvals.find_in(session).await,
                None => approvals.find().await,
            }
        });
        let found = found.await?;
        for (run, why) in &found.damaged {
            let what = format!("run {run} is damaged, so that nobody knows what it asks: {why}");
            progress::warn(&what);
        }
        let waiting = found.waiting;
        let mut output = Output::new();
        let text = match self.format {
            ListFormat::Text if waiting.is_empty() => {
                "nothing waits for your approval\n".to_owned()
            }
            ListFormat::Text => {
                let columns = output.width();
                waiting.iter().map(|it| in_text(it, columns)).collect()
            }
            ListFormat::Json => {
                let list: Value = waiting.iter().map(in_json).collect();
                format!("{list:#}\n")
            }
        };
        output.text(&text)?;
        Ok(())
    }
}

fn in_json(waiting: &WaitingApproval) -> Value {
    json!({
        "run_id": waiting.run_id,
        "session_id": waiting.session_id,
        "question": waiting.question(),
        "agent": waiting.agent.to_string(),
        "since": waiting.requested_at,
        "tool_call_id": waiting.request.tool_call_id,
        "name": waiting.request.name,
        "arguments": waiting.request.arguments,
        "arguments_hash": waiting.request.arguments_hash,
        "reason": waiting.request.reason,
        "expires_at": waiting.request.expires_at,
        "altered": waiting.altered,
    })
}
