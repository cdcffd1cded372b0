//! The tool that runs commands, where this machine can confine them, or where its user lets them run unconfined.

use neuraxis_core::ToolName;
use neuraxis_engine::OrchestratorBuilder;
use neuraxis_tools::{CommandsHere, NoSandbox, sandbox_features};

use crate::config::Config;

/// The tool that is there only where commands are run. Rules may name it all the same.
pub(crate) const RUN_COMMAND: &str = "run_command";

/// Returns how commands are run on this machine, as `[tools] commands` says.
#[must_use]
pub fn commands_here(config: &Config) -> CommandsHere {
    config.tools().commands.here()
}

/// Says why commands are not run on this machine, and what to do if they should be; nothing where they are, and where no
/// tool for the project is offered.
#[must_use]
pub fn why_no_commands(config: &Config) -> Option<String> {
    let why = why_absent(config)?;
    Some(match sandbox_features() {
        Err(NoSandbox::Missing(_)) => format!(
            "{why}; to run them all the same, as you and with all that you can do, set tools.commands = \"unconfined\""
        ),
        // The setting changes nothing where there may be a sandbox.
        _ => why,
    })
}

/// Says why commands are not run on this machine, and no more: a model reads it, too.
fn why_absent(config: &Config) -> Option<String> {
    match commands_here(config) {
        CommandsHere::Refused { why } if config.offers_project_tools() => Some(format!(
            "the tool {RUN_COMMAND} is not offered, since nothing can confine commands here: {why}"
        )),
        _ => None,
    }
}

/// Says that commands run without a sandbox.
pub(crate) fn notice(config: &Config) -> Option<String> {
    match commands_here(config) {
        CommandsHere::Unconfined { why } if config.offers_project_tools() => {
            let at = config.origin("tools.commands");
            Some(format!(
                "{at}: commands run without a sandbox, as you and with all that you can do: {why}"
            ))
        }
        _ => None,
    }
}

/// Has an engine say why the tool is not there.
pub(crate) fn absent(builder: OrchestratorBuilder, config: &Config) -> OrchestratorBuilder {
    match (why_absent(config), RUN_COMMAND.parse::<ToolName>()) {
        (Some(why), Ok(name)) => builder.absent_tool(name, why),
        _ => builder,
    }
}
