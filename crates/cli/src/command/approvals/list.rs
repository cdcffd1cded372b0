//! `neuraxis approvals list`: lists the waiting calls.

use clap::Args;
use neuraxis::SessionId;
use neuraxis::core::RunId;
use neuraxis::engine::{FoundApprovals, WaitingApproval};
use neuraxis::ports::{RequestContext, RunFilter};
use neuraxis_app::App;
use serde_json::{Value, json};

use super::waiting::in_text;
use crate::command::lookup;
use crate::error::CommandError;
use crate::invocation::again;
use crate::listing::{PAGE, at_least_one};
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
    /// Only calls of this session
    #[arg(long, value_name = "ID")]
    session: Option<SessionId>,

    /// Only calls of this owner
    #[arg(long, value_name = "NAME")]
    owner: Option<String>,

    /// Show the calls of at most this many runs
    #[arg(long, value_name = "N", default_value_t = PAGE, value_parser = at_least_one)]
    limit: usize,

    /// Show the page after the one that ended with this run
    #[arg(long, value_name = "ID", conflicts_with = "session")]
    after: Option<String>,

    /// What to print: some lines per call, or a JSON array with everything known about them
    #[arg(long, value_enum, default_value_t = ListFormat::Text)]
    format: ListFormat,
}

impl List {
    pub(crate) async fn run(self, setup: &Setup) -> Result<(), CommandError> {
        let loaded = setup.load()?;
        loaded.require_visible_sessions()?;
        loaded.warn_store_incomplete();
        // The waiting calls are in the store, so no tools are needed.
        let app = loaded.app().without_servers().build().await?;
        let mut output = Output::new();
        let columns = output.width();
        let (found, text) = with_app(app, async |app| {
            let found = self.found(app).await?;
            let text = match self.format {
                ListFormat::Text if found.waiting.is_empty() => self.nothing(app).await?,
                ListFormat::Text => in_text(app, &found.waiting, columns).await,
                ListFormat::Json => {
                    let list: Value = found.waiting.iter().map(in_json).collect();
                    format!("{list:#}\n")
                }
            };
            Ok::<_, CommandError>((found, text))
        })
        .await?;
        for (run, why) in &found.damaged {
            let what = format!("run {run} is damaged, so its questions are unknown: {why}");
            progress::warn(&what);
        }
        output.text(&text)?;
        if let Some(last) = found.next {
            progress::notice(&format!("there are more: add --after {last}"));
        }
        Ok(())
    }

    /// Returns the requested page.
    async fn found(&self, app: &App) -> Result<FoundApprovals, CommandError> {
        let seen = RequestContext::default().owned_by(self.owner.clone());
        let approvals = app.orchestrator.approvals().with_context(seen);
        if let Some(session) = &self.session {
            return Ok(approvals.find_in(session).await?);
        }
        let after = match &self.after {
            // A full id marks a place in the list even if its run no longer exists.
            Some(run) => match run.parse() {
                Ok(id) => Some(RunId(id)),
                Err(_) => Some(lookup::run(&app.orchestrator.sessions(), run).await?.run_id),
            },
            None => None,
        };
        Ok(approvals.page(after, self.limit).await?)
    }

    /// Returns the message for an empty list.
    async fn nothing(&self, app: &App) -> Result<String, CommandError> {
        if self.after.is_some() {
            return Ok("nothing else is waiting for your approval\n".to_owned());
        }
        // For a session, everything is listed, whichever process has its run.
        let at_work = match self.session {
            Some(_) => None,
            None => self.newest_asking_run(app).await?,
        };
        let Some(run) = at_work else {
            return Ok("nothing is waiting for your approval\n".to_owned());
        };
        let hint = format!(
            "nothing is waiting for your approval except a question of an active run: `neuraxis approvals show {run}` shows it\n"
        );
        Ok(again(&hint).into_owned())
    }

    /// Returns the newest run that waits for approval while a process has it, among the most recent runs: that process
    /// lists its own questions.
    async fn newest_asking_run(&self, app: &App) -> Result<Option<RunId>, CommandError> {
        let mut filter = RunFilter::default().limited_to(PAGE);
        if let Some(owner) = &self.owner {
            filter = filter.owned_by(owner);
        }
        let approvals = app.orchestrator.approvals();
        let mut newest = app.orchestrator.sessions().each_run(filter);
        for _ in 0..PAGE {
            let Some(run) = newest.next().await? else {
                break;
            };
            if run.leased_until.is_none() {
                continue;
            }
            // A run that cannot be read could not be shown either.
            let asks = approvals.of_run(&run).await;
            if asks.is_ok_and(|asks| !asks.is_empty()) {
                return Ok(Some(run.run_id));
            }
        }
        Ok(None)
    }
}

fn in_json(waiting: &WaitingApproval) -> Value {
    json!({
        "run_id": waiting.run_id,
        "session_id": waiting.session_id,
        "owner": waiting.owner,
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
