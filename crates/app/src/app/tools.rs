//! The tools that an engine offers, and the names of those that it could offer.

use std::path::PathBuf;
use std::sync::Arc;

use neuraxis_core::{READ_OUTPUT, SERVER_SEPARATOR, ToolName, ToolSpec};
use neuraxis_engine::{RESERVED_TOOL_NAMES, SystemClock, ToolCatalog};
use neuraxis_ports::Tool;
use neuraxis_tools::ProgramFiles;

use super::BuildError;
use crate::commands::RUN_COMMAND;
use crate::config::Config;
use crate::environment::Environment;
use crate::web::{self, FETCH, SEARCH};

/// Returns the folder that paths in calls are judged from: the folder of the file tools.
pub(super) fn root(config: &Config) -> String {
    let root = config.project_root();
    // If it cannot be resolved, the file tools report it.
    let real = std::fs::canonicalize(root).unwrap_or_else(|_| root.to_owned());
    real.to_string_lossy().into_owned()
}

/// The tools that work in the project's folder. Rules may name them even if they are not offered.
const PROJECT_TOOLS: [&str; 6] = [
    "list_files",
    "read_file",
    "search_files",
    "write_file",
    "apply_patch",
    RUN_COMMAND,
];

pub(super) fn project_tools() -> impl Iterator<Item = ToolName> {
    PROJECT_TOOLS
        .into_iter()
        .filter_map(|name| name.parse().ok())
}

/// Returns whether a name is that of a tool that works in the project's folder, whether offered or not.
#[must_use]
pub fn is_project_tool(name: &str) -> bool {
    PROJECT_TOOLS.contains(&name)
}

/// Returns whether a tool has this name, or may have it in the future: a project or web tool that is not offered now,
/// or a tool of a configured MCP server.
#[must_use]
pub fn may_be_tool(catalog: &ToolCatalog, config: &Config, name: &str) -> bool {
    let mut offered = catalog.specs();
    let server = name.split_once(SERVER_SEPARATOR).map(|(server, _)| server);
    offered.any(|spec| spec.name.as_str() == name)
        || is_project_tool(name)
        || [FETCH, SEARCH].contains(&name)
        || RESERVED_TOOL_NAMES.contains(&name)
        || server.is_some_and(|server| config.mcp().servers.contains_key(server))
}

/// Returns the names of the tools of this build, for checking a policy without an engine.
///
/// # Errors
///
/// A [`BuildError`] if a tool is not defined correctly.
pub fn tool_names() -> Result<Vec<ToolName>, BuildError> {
    let tools = neuraxis_tools::built_in(Arc::new(SystemClock))?;
    let names = tools.iter().map(|tool| tool.spec().name.clone());
    let own = [FETCH, READ_OUTPUT].map(str::parse::<ToolName>);
    Ok(names
        .chain(project_tools())
        .chain(own.into_iter().flatten())
        .collect())
}

/// Returns the tools that an engine would offer, for checking a policy without an engine.
///
/// # Errors
///
/// A [`BuildError`] if the folder of the tools cannot be opened, or the configured search cannot be used.
pub fn tool_specs(config: &Config, environment: &Environment) -> Result<Vec<ToolSpec>, BuildError> {
    let tools = tools(config, environment, ProgramFiles::default(), None)?;
    let specs = tools.iter().map(|tool| tool.spec().clone());
    Ok(specs.chain([neuraxis_engine::read_output_spec()]).collect())
}

pub(super) fn tools(
    config: &Config,
    environment: &Environment,
    own: ProgramFiles,
    recording: Option<PathBuf>,
) -> Result<Vec<Arc<dyn Tool>>, BuildError> {
    // Needed even if this engine does not use them: another engine with project tools may be running.
    let own = config.own_files(environment, own);
    let mut tools = neuraxis_tools::built_in(Arc::new(SystemClock))?;
    tools.extend(web::tools(config, environment)?);
    if !config.offers_project_tools() {
        return Ok(tools);
    }
    let own = recording.into_iter().fold(own, ProgramFiles::recording);
    let (root, settings) = (config.project_root(), config.tools());
    let (commands, variables) = (settings.commands, &settings.environment);
    let files = neuraxis_tools::project_files_without(root, &own, commands, variables);
    tools.extend(files.map_err(|source| BuildError::ProjectRoot {
        at: config.origin("tools.root"),
        source,
    })?);
    Ok(tools)
}
