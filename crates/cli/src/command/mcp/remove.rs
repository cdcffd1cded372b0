//! `neuraxis mcp remove`: removes the section of a server from the user's file.

use anyhow::anyhow;
use clap::Args;
use clap_complete::ArgValueCandidates;

use super::edit::Edited;
use crate::completion;
use crate::error::CommandError;
use crate::output::Output;
use crate::setup::Setup;
use crate::unknown::unknown;

const EXAMPLES: &str = "\
Examples:
  neuraxis mcp remove everything";

/// Remove a server from your own configuration
///
/// Everything else in that file stays unchanged.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Remove {
    /// The server
    #[arg(add = ArgValueCandidates::new(completion::mcp_servers))]
    name: String,
}

impl Remove {
    pub(crate) fn run(self, setup: &Setup) -> Result<(), CommandError> {
        let environment = setup.environment()?;
        let mut file = Edited::open(setup, &environment)?;
        let path = file.path().display().to_string();
        if !file
            .remove(&self.name)
            .map_err(CommandError::configuration)?
        {
            let config = setup.config(&environment)?;
            let servers = &config.mcp().servers;
            // The server may be defined in a trusted folder or by a variable.
            if servers.contains_key(&self.name) {
                let error = anyhow!("{path} does not define the server {}", self.name);
                let origin = config.mcp_origin(&self.name);
                let hint = format!("it is defined elsewhere: {origin}");
                return Err(CommandError::usage(error).hint(hint));
            }
            let listed = "`neuraxis mcp list` lists the servers and where they are defined";
            let known = servers.keys().map(String::as_str);
            return Err(unknown("MCP server", &self.name, known, listed));
        }
        file.save().map_err(CommandError::failed)?;
        Output::new().line(&format!("removed {} from {path}", self.name))?;
        Ok(())
    }
}
