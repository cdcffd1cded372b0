//! The command-line arguments.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, Parser};

use crate::command::Command;
use crate::error::CommandError;

const EXAMPLES: &str = "\
First steps:
  neuraxis setup     choose a model; without one, fixed rules answer simple questions
  neuraxis doctor    check that everything works
  neuraxis help      list the documents

Examples:
  neuraxis \"What time is it in Tokyo?\"
  git diff | neuraxis \"Review this change\"
  neuraxis -f screenshot.png \"What is wrong here?\"
  neuraxis -c \"And in Osaka?\"
  neuraxis chat --channel code_task
  neuraxis ask --channel system_health \"How is this machine?\"

A question without a command goes to `ask`, and takes all of its options.

Exit codes:
  0    answered
  1    failed
  2    wrong usage or configuration
  3    a limit was reached before there was an answer
  4    a call was denied because nobody could be asked about it
  5    the run waits for a decision, or for its client
  6    there is no language model, and no rule matched the question
  130  interrupted; 143 ended by SIGTERM, 129 by SIGHUP
  141  the reader of the output went away";

/// Governed, tool-using conversations with language models.
#[derive(Debug, Parser)]
#[command(
    name = "neuraxis",
    version,
    after_help = EXAMPLES,
    max_term_width = 100,
    arg_required_else_help = true,
    disable_help_subcommand = true
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) configuration: ConfigurationArguments,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Where the configuration comes from.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Configuration")]
pub(crate) struct ConfigurationArguments {
    /// Read this file, instead of neuraxis.toml here and in the user's configuration folder
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Set a key of the configuration, such as modes.moderate.max_turns=5; may be given several times
    #[arg(long = "set", global = true, value_name = "KEY=VALUE", value_parser = key_and_value)]
    pub(crate) settings: Vec<(String, String)>,
}

fn key_and_value(text: &str) -> Result<(String, String), &'static str> {
    let (key, value) = text
        .split_once('=')
        .ok_or("it must be KEY=VALUE, such as modes.moderate.max_turns=5")?;
    Ok((key.trim().to_owned(), value.trim().to_owned()))
}

/// Opens a file named by the user for reading. A missing or unreadable file, such as a folder, is a usage error.
pub(crate) fn open_file(path: &Path) -> Result<File, CommandError> {
    let opened = File::open(path).and_then(|file| {
        if file.metadata()?.is_dir() {
            return Err(io::Error::from(io::ErrorKind::IsADirectory));
        }
        Ok(file)
    });
    let opened = opened.with_context(|| format!("cannot read {}", path.display()));
    opened.map_err(|error| CommandError::usage(error).hint("check the path"))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_definition_is_valid() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn options_that_were_renamed_are_still_accepted_by_their_former_names() {
        for line in [
            "neuraxis policy explain --tool read_file --args {}",
            "neuraxis sessions list --before trip",
            "neuraxis runs list --before last",
        ] {
            let parsed = Arguments::try_parse_from(line.split(' '));
            assert!(parsed.is_ok(), "{line}: {parsed:?}");
        }
    }
}
