//! `neuraxis tools call`: one call, checked as a model's call is.

use anyhow::anyhow;
use clap::Args;
use neuraxis::core::{
    AgentId, CallIndex, ContentIndex, EffectId, JsonText, Limits, RunId, ToolCallId, ToolOutcome,
    Turn,
};
use neuraxis::engine::{ToolCallError, ToolCatalog, UuidV7};
use neuraxis::ports::{Ids, ToolContext, TurnContext};
use neuraxis_app::{App, Config, is_project_tool, why_no_commands};
use serde_json::Value;

use crate::error::CommandError;
use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::progress::Progress;
use crate::setup::{Setup, with_app};

const EXAMPLES: &str = "\
Examples:
  neuraxis tools call current_time
  neuraxis tools call current_time '{\"time_zone\": \"Asia/Tokyo\"}'
  neuraxis tools call system_health '{\"sections\": [\"memory\", \"disks\"]}'";

/// Call a tool and print its result as JSON
///
/// The arguments are checked against the tool's schema first, as those of a model are. It is you who calls: the policy is
/// not asked, and the call runs at once, also of a tool that writes or runs commands.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Call {
    /// The tool, one of those that `neuraxis tools list` names
    name: String,

    /// Its arguments, a JSON object
    #[arg(value_name = "JSON", default_value = "{}")]
    arguments: String,
}

impl Call {
    pub(crate) async fn run(self, setup: &Setup) -> Result<(), CommandError> {
        let loaded = setup.load()?;
        let app = loaded.app_of_tools().await?;
        let called = with_app(app, async |app| self.called(app, &loaded.config).await);
        let (outcome, interrupt) = called.await?;
        match interrupt.happened() {
            Some(signal) if !outcome.is_done() => Err(CommandError::interrupted(signal)),
            _ => print(&self.name, &outcome),
        }
    }

    /// Makes the call, unless it is refused. Returns as well what knows whether it was interrupted, by then or later.
    async fn called(
        &self,
        app: &App,
        config: &Config,
    ) -> Result<(ToolOutcome, Interrupt), CommandError> {
        let arguments = JsonText::from_text(self.arguments.as_str());
        let catalog = app.orchestrator.tools();
        let tool = catalog
            .check(&self.name, &arguments)
            .map_err(|error| refused(error, config))?;
        let timeout = tool.spec().timeout.unwrap_or(Limits::NONE.tool_timeout);
        let context = context();
        let cancellation = context.cancellation.clone();
        let interrupt = Interrupt::watch(move |_| cancellation.cancel());
        let progress = Progress::new();
        progress.activity(&format!("running {}", self.name));
        let outcome = ToolCatalog::run(tool.clone(), arguments, context, timeout).await;
        Ok((outcome, interrupt))
    }
}

/// The circumstances of a call that belongs to no conversation.
fn context() -> ToolContext {
    let run = RunId(UuidV7.new_id());
    let turn = TurnContext::new(run, None, AgentId::ROOT, Turn(1));
    let call = ToolCallId::new(run, AgentId::ROOT, ContentIndex(0), CallIndex(0));
    ToolContext::new(turn, call, EffectId { run, number: 1 })
}

fn print(name: &str, outcome: &ToolOutcome) -> Result<(), CommandError> {
    let value = &outcome.output.value;
    let pretty = value.decode::<Value>();
    if outcome.is_done() {
        let text = pretty.map_or_else(|_| value.to_string(), |value| format!("{value:#}"));
        Output::new().line(&text)?;
        return Ok(());
    }
    let error = pretty
        .ok()
        .and_then(|value| Some(value.get("error")?.as_str()?.to_owned()));
    let error = error.unwrap_or_else(|| value.to_string());
    Err(CommandError::failed(
        anyhow!(error).context(format!("{name} failed")),
    ))
}

fn refused(error: ToolCallError, config: &Config) -> CommandError {
    match &error {
        ToolCallError::UnknownTool { name, .. } => {
            let hints = hints_of_unknown(name, config);
            hints
                .into_iter()
                .fold(CommandError::usage(error), CommandError::hint)
        }
        ToolCallError::AbsentTool { .. } => CommandError::usage(error),
        _ => CommandError::usage(error)
            .hint("`neuraxis tools list --format json` has the schema of the arguments"),
    }
}

/// Says what to do where there is no tool of a name: why it is not offered, if this folder is the reason.
pub(crate) fn hints_of_unknown(name: &str, config: &Config) -> Vec<String> {
    let no_commands = || why_no_commands(config).filter(|_| name == "run_command");
    let why = config.why_no_project_tools();
    let why = why.filter(|_| is_project_tool(name)).or_else(no_commands);
    let list = "`neuraxis tools list` says what each tool does".to_owned();
    why.into_iter().chain([list]).collect()
}
