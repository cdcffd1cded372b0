//! `neuraxis policy check`: checks whether a file is a valid policy, whether the tools it names exist, and whether it
//! allows something that its author may not intend.

use std::path::PathBuf;

use anyhow::anyhow;
use clap::Args;
use neuraxis_app::{AbsentTools, tool_names, tool_specs};

use crate::error::CommandError;
use crate::output::Output;
use crate::setup::Setup;

const EXAMPLES: &str = "\
Examples:
  neuraxis policy check neuraxis.toml
  neuraxis policy check team-policy.toml && cp team-policy.toml neuraxis.toml && neuraxis trust add";

/// Check a configuration file: is it a valid policy, and do the tools it names exist
///
/// The file is read instead of the usual ones. Warns of rules that allow commands which write or read elsewhere or run
/// other commands, of rules about paths for tools that read whole folders, and of tools that do not exist now, such as
/// those of MCP servers. The exit code is 2 if the file cannot be used, 1 if it names tools that cannot exist or has
/// rules that can never match, and otherwise 0.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Check {
    /// The file
    file: PathBuf,
}

impl Check {
    pub(crate) fn run(self, setup: &Setup) -> Result<(), CommandError> {
        let setup = setup.with_file(self.file.clone());
        let environment = setup.environment()?;
        let config = setup.config_without_tool_check(&environment)?;
        let specs = tool_specs(&config, &environment)?;
        let mut names = tool_names()?;
        names.extend(specs.iter().map(|spec| spec.name.clone()));
        let AbsentTools {
            notices,
            faults: mut unknown,
            ..
        } = config.absent_tools(&names);
        config.check_agents(&names)?;
        unknown.extend(config.policy().rules_without_command(&specs));
        unknown.extend(config.policy().rules_without_argument(&specs));
        let functions = config.policy().unknown_rule_functions();
        let hint = match (unknown.is_empty(), functions.is_empty()) {
            (false, _) => Some("`neuraxis tools list` lists all tools"),
            (true, false) => Some(
                "functions are supplied by the program that embeds Neuraxis (`OrchestratorBuilder::rule_function`)",
            ),
            (true, true) => None,
        };
        unknown.extend(functions);
        unknown.extend(config.policy().patterns_out_of_root());
        let file = self.file.display();
        let mut output = Output::new();
        if unknown.is_empty() {
            let rules = config.policy().config().rules.len();
            let hash = config.policy().hash().to_string();
            let hash = hash.get(..16).unwrap_or_default();
            output.plain_lines(&format!(
                "{file}: a policy with {rules} rules; its hash begins with {hash}\n"
            ))?;
        }
        for error in &unknown {
            let origin = config.origin(error.key());
            output.plain_lines(&format!("{origin}: {error}\n"))?;
        }
        let cautions = config.policy().cautions().into_iter();
        let about_tools = config.policy().cautions_about_tools(&specs);
        for (key, caution) in cautions.chain(about_tools) {
            let origin = config.origin(&key);
            output.plain_lines(&format!("{origin}: warning: {key}: {caution}\n"))?;
        }
        for (origin, why) in notices {
            output.plain_lines(&format!("{origin}: warning: {why}\n"))?;
        }
        if unknown.is_empty() {
            return Ok(());
        }
        // The reason is in the lines above.
        let Some(hint) = hint else {
            let error = anyhow!("{file} has rules that can never match");
            return Err(CommandError::failed(error));
        };
        let error = anyhow!("{file} names something unknown");
        Err(CommandError::failed(error).hint(hint))
    }
}
