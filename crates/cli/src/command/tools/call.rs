//! `neuraxis tools call`: makes one call, with its arguments checked like a model's.

use std::sync::Arc;

use anyhow::anyhow;
use clap::Args;
use clap_complete::ArgValueCandidates;
use neuraxis::brainstem::nearest;
use neuraxis::core::{
    AgentId, CallIndex, ContentIndex, EffectId, JsonText, Limits, RunId, ToolCallId, ToolOutcome,
    Turn,
};
use neuraxis::engine::{ToolCallError, ToolCatalog, UuidV7};
use neuraxis::ports::{Ids, Tool, ToolContext, TurnContext};
use neuraxis_app::{App, Config, is_project_tool, tool_specs, why_no_commands};
use serde_json::Value;

use crate::completion;
use crate::error::CommandError;
use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::progress::Progress;
use crate::setup::{Setup, with_app};
use crate::unknown::with_suggestion;

/// Where the tools are listed.
const LIST: &str = "`neuraxis tools list` lists the tools";

const EXAMPLES: &str = "\
Examples:
  neuraxis tools call current_time
  neuraxis tools call current_time '{\"time_zone\": \"Asia/Tokyo\"}'
  neuraxis tools call system_health '{\"sections\": [\"memory\", \"disks\"]}'";

/// Call a tool and print its result as JSON
///
/// The arguments are first checked against the tool's schema, like those of a model. You make the call yourself: the
/// policy is not consulted, and the call runs immediately, even if the tool writes or runs commands.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Call {
    /// The tool, as listed by `neuraxis tools list`
    #[arg(add = ArgValueCandidates::new(completion::tools))]
    name: String,

    /// Its arguments, as a JSON object
    #[arg(value_name = "JSON", default_value = "{}")]
    arguments: String,
}

impl Call {
    pub(crate) async fn run(self, setup: &Setup) -> Result<(), CommandError> {
        let loaded = setup.load()?;
        // Built-in tools do not need any server to be started.
        let own = tool_specs(&loaded.config, &loaded.environment)?;
        let app = match own.iter().any(|spec| spec.name.as_str() == self.name) {
            true => loaded.app_without_sessions().await?,
            false => loaded.app_with_tools().await?,
        };
        let context = context();
        let cancellation = context.cancellation.clone();
        // From here on, servers must be shut down even if no call is made.
        let interrupt = Interrupt::watch(move |_| cancellation.cancel());
        let called = with_app(app, async |app| {
            let tool = self.checked(app, &loaded.config)?;
            self.called(tool, context, &interrupt).await
        });
        let called = called.await;
        match (called, interrupt.signal()) {
            (Ok(outcome), _) => print(&outcome),
            (Err(error), Some(signal)) => {
                // An earlier error is still reported.
                if error.interruption().is_none() {
                    error.print();
                }
                Err(CommandError::interrupted(signal))
            }
            (Err(error), None) => Err(error),
        }
    }

    /// Returns the tool, unless the call is refused.
    fn checked(&self, app: &App, config: &Config) -> Result<Arc<dyn Tool>, CommandError> {
        let arguments = JsonText::from_text(self.arguments.as_str());
        let catalog = app.orchestrator.tools();
        let tool = catalog
            .check(&self.name, &arguments)
            .map_err(|error| refused(error, &catalog, config))?;
        Ok(Arc::clone(tool))
    }

    /// Makes the call. Returns its outcome if it is complete.
    async fn called(
        &self,
        tool: Arc<dyn Tool>,
        context: ToolContext,
        interrupt: &Interrupt,
    ) -> Result<ToolOutcome, CommandError> {
        let arguments = JsonText::from_text(self.arguments.as_str());
        let timeout = tool.spec().timeout.unwrap_or(Limits::NONE.tool_timeout);
        let progress = Progress::new();
        progress.activity(&format!("running {}", self.name));
        let outcome = ToolCatalog::run(tool, arguments, context, timeout).await;
        match interrupt.signal() {
            _ if outcome.is_done() => Ok(outcome),
            Some(signal) => Err(CommandError::interrupted(signal)),
            None => Err(failed(&self.name, &outcome)),
        }
    }
}

/// Returns the context of a call that belongs to no conversation.
fn context() -> ToolContext {
    let run = RunId(UuidV7.new_id());
    let turn = TurnContext::new(run, None, AgentId::ROOT, Turn(1));
    let call = ToolCallId::new(run, AgentId::ROOT, ContentIndex(0), CallIndex(0));
    ToolContext::new(turn, call, EffectId { run, number: 1 })
}

fn print(outcome: &ToolOutcome) -> Result<(), CommandError> {
    let value = &outcome.output.value;
    let pretty = value.decode::<Value>();
    let text = pretty.map_or_else(|_| value.to_string(), |value| format!("{value:#}"));
    Ok(Output::new().line(&text)?)
}

fn failed(name: &str, outcome: &ToolOutcome) -> CommandError {
    let value = &outcome.output.value;
    let error = value
        .decode::<Value>()
        .ok()
        .and_then(|value| Some(value.get("error")?.as_str()?.to_owned()));
    let error = error.unwrap_or_else(|| value.to_string());
    CommandError::failed(anyhow!(error).context(format!("{name} failed")))
}

fn refused(error: ToolCallError, catalog: &ToolCatalog, config: &Config) -> CommandError {
    match &error {
        ToolCallError::UnknownTool { name, .. } => {
            let known = catalog.specs().map(|spec| spec.name.as_str());
            unknown_tool(name, known, config)
        }
        ToolCallError::AbsentTool { name, .. } => {
            // Unlike a model, the user is told how to fix it.
            let why = why_no_commands(config).filter(|_| name == "run_command");
            CommandError::usage(match why {
                Some(why) => anyhow!(why),
                None => anyhow!(error),
            })
        }
        _ => CommandError::usage(error)
            .hint("`neuraxis tools list --format json` shows the schema of the arguments"),
    }
}

/// Returns the error for the name of no tool, with the reason why the tool is not offered here if there is one.
pub(crate) fn unknown_tool<'a>(
    name: &str,
    known: impl Iterator<Item = &'a str>,
    config: &Config,
) -> CommandError {
    let no_commands = || why_no_commands(config).filter(|_| name == "run_command");
    let why = config.why_no_project_tools();
    let why = why.filter(|_| is_project_tool(name)).or_else(no_commands);
    let error = with_suggestion("tool", name, nearest(name, known));
    let hints = why.into_iter().chain([LIST.to_owned()]);
    hints.fold(error, CommandError::hint)
}
