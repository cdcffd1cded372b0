//! `neuraxis mcp remove`: removes the section of a server from the user's file.

use anyhow::anyhow;
use clap::Args;
use clap_complete::ArgValueCandidates;

use super::edit::Edited;
use crate::completion;
use crate::error::CommandError;
use crate::output::Output;
use crate::setup::Setup;

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
            let error = anyhow!("{path} has no server named {:?}", self.name);
            let config = setup.config(&environment)?;
            // The server may be defined in a trusted folder or by a variable.
            let hint = match config.mcp().servers.contains_key(&self.name) {
                true => format!("it is defined elsewhere: {}", config.mcp_origin(&self.name)),
                false => {
                    "`neuraxis mcp list` shows all servers and where they are defined".to_owned()
                }
            };
            return Err(CommandError::usage(error).hint(hint));
        }
        file.save().map_err(CommandError::failed)?;
        Output::new().line(&format!("removed {} from {path}", self.name))?;
        Ok(())
    }
}
