//! `neuraxis completions`: what a shell needs to complete our commands.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::arguments::Arguments;
use crate::error::CommandError;
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  neuraxis completions bash > ~/.local/share/bash-completion/completions/neuraxis
  neuraxis completions fish > ~/.config/fish/completions/neuraxis.fish";

/// Print what a shell needs to complete commands and flags
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Completions {
    /// The shell
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(self) -> Result<(), CommandError> {
        let mut script = Vec::new();
        let mut command = Arguments::command();
        clap_complete::generate(self.shell, &mut command, "neuraxis", &mut script);
        Output::new().text(&String::from_utf8_lossy(&script))?;
        Ok(())
    }
}
