//! The tool that runs commands, if this machine can confine them or its user lets them run unconfined.

use neuraxis_core::ToolName;
use neuraxis_engine::OrchestratorBuilder;
use neuraxis_tools::{CommandAvailability, NoSandbox, sandbox_features};

use crate::config::Config;

/// The tool that exists only if commands can run. Rules may name it anyway.
pub(crate) const RUN_COMMAND: &str = "run_command";

/// Returns how commands run on this machine, according to `[tools] commands`.
#[must_use]
pub fn command_availability(config: &Config) -> CommandAvailability {
    config.tools().commands.availability()
}

/// Returns why commands do not run on this machine, and how to change that; `None` if they run, or if no project tools
/// are offered.
#[must_use]
pub fn why_no_commands(config: &Config) -> Option<String> {
    let why = why_absent(config)?;
    Some(match sandbox_features() {
        Err(NoSandbox::Missing(_)) => format!(
            "{why}; to run them anyway, as you and with all your permissions, set tools.commands = \"unconfined\""
        ),
        // The setting has no effect where a sandbox may exist.
        _ => why,
    })
}

/// Returns only why commands do not run on this machine, because a model reads it, too.
fn why_absent(config: &Config) -> Option<String> {
    match command_availability(config) {
        CommandAvailability::Refused { why } if config.offers_project_tools() => Some(format!(
            "the tool {RUN_COMMAND} is not offered, since nothing can confine commands here: {why}"
        )),
        _ => None,
    }
}

/// Returns a notice if commands run without a sandbox.
pub(crate) fn notice(config: &Config) -> Option<String> {
    match command_availability(config) {
        CommandAvailability::Unconfined { why } if config.offers_project_tools() => {
            let at = config.origin("tools.commands");
            Some(format!(
                "{at}: commands run without a sandbox, as you and with all your permissions: {why}"
            ))
        }
        _ => None,
    }
}

/// Makes an engine say why the tool does not exist.
pub(crate) fn absent(builder: OrchestratorBuilder, config: &Config) -> OrchestratorBuilder {
    match (why_absent(config), RUN_COMMAND.parse::<ToolName>()) {
        (Some(why), Ok(name)) => builder.absent_tool(name, why),
        _ => builder,
    }
}
