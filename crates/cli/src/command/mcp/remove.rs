//! `neuraxis mcp remove`: takes the section of a server out of the user's file.

use anyhow::anyhow;
use clap::Args;

use super::edit::Edited;
use crate::error::CommandError;
use crate::output::Output;
use crate::setup::Setup;

const EXAMPLES: &str = "\
Examples:
  neuraxis mcp remove everything";

/// Remove a server from your own configuration
///
/// All else in that file stays as it is.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Remove {
    /// The server
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
            return Err(CommandError::usage(error)
                .hint("`neuraxis mcp list` says which there are, and where"));
        }
        file.save().map_err(CommandError::failed)?;
        Output::new().line(&format!("removed {} from {path}", self.name))?;
        Ok(())
    }
}
