//! `neuraxis approvals list`: what waits.

use clap::{Args, ValueEnum};
use neuraxis::SessionId;
use serde_json::{Value, json};

use super::waiting::{self, Waiting};
use crate::error::CommandError;
use crate::output::Output;
use crate::setup::Setup;

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
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// What to print.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people
    Text,
    /// A JSON array
    Json,
}

impl List {
    pub(crate) async fn run(self, setup: &Setup) -> Result<(), CommandError> {
        let app = setup.app().await?;
        let store = app.store.as_ref();
        let waiting = match &self.session {
            Some(session) => waiting::in_session(store, session).await?,
            None => waiting::everywhere(store).await?,
        };
        let mut output = Output::new();
        let text = match self.format {
            Format::Text if waiting.is_empty() => "nothing waits for your approval\n".to_owned(),
            Format::Text => {
                let columns = output.width();
                waiting.iter().map(|it| it.in_text(columns)).collect()
            }
            Format::Json => {
                let list: Value = waiting.iter().map(in_json).collect();
                format!("{list:#}\n")
            }
        };
        output.text(&text)?;
        Ok(())
    }
}

fn in_json(waiting: &Waiting) -> Value {
    json!({
        "run_id": waiting.run,
        "session_id": waiting.session,
        "question": waiting.question_name(),
        "agent": waiting.agent.to_string(),
        "since": waiting.since,
        "tool_call_id": waiting.asked.tool_call_id,
        "name": waiting.asked.name,
        "arguments": waiting.asked.arguments,
        "arguments_hash": waiting.asked.arguments_hash,
        "reason": waiting.asked.reason,
        "expires_at": waiting.asked.expires_at,
        "altered": waiting.altered,
    })
}
