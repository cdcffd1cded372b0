//! `neuraxis config init`: creates a configuration file.

use std::fs;
use std::io;
use std::path::Path;

use anyhow::anyhow;
use clap::Args;

use crate::destination::write_new;
use crate::error::CommandError;
use crate::output::Output;
use crate::progress;
use crate::setup::Setup;

const EXAMPLES: &str = "\
Examples:
  neuraxis config init
  neuraxis config init --config ~/.config/neuraxis/neuraxis.toml";

/// Write a neuraxis.toml that sets nothing and explains every key
///
/// The file goes to the working directory, or to the path given by --config. An existing file is not changed.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Init {}

impl Init {
    pub(crate) fn run(self, setup: &Setup) -> Result<(), CommandError> {
        let path = setup.file().unwrap_or(Path::new("neuraxis.toml"));
        let own = setup.environment()?;
        let folder = path
            .parent()
            .filter(|folder| own.config_dir() == Some(folder));
        // Only the default folder is created; another missing folder may be a typo.
        let made = folder.map_or(Ok(()), fs::create_dir_all);
        let written = made.and_then(|()| write_new(path, neuraxis_app::template()));
        written.map_err(|error| refused(path, error))?;
        Output::new().line(&format!("wrote {}", path.display()))?;
        if setup.file().is_none() {
            progress::notice(
                "restrictions in it apply immediately; everything else once you run `neuraxis trust add`",
            );
        }
        Ok(())
    }
}

fn refused(path: &Path, error: io::Error) -> CommandError {
    let path = path.display();
    if error.kind() == io::ErrorKind::AlreadyExists {
        let error = anyhow!("{path} already exists and was not changed");
        return CommandError::usage(error).hint("edit it, or write another one with --config FILE");
    }
    let error = anyhow!(error).context(format!("cannot write {path}"));
    CommandError::usage(error)
        .hint("use --config FILE to name a file in a folder that you can write to")
}
