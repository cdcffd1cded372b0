//! `neuraxis help`: the documentation, which is part of this program.

mod links;
mod rules;
mod topics;

use std::ffi::OsStr;
use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, CommandFactory};
use clap_complete::{ArgValueCompleter, CompletionCandidate};
use neuraxis::brainstem::PriceList;

use crate::arguments::Arguments;
use crate::error::CommandError;
use crate::output::Output;
use crate::unknown::unknown;
pub(super) use rules::command_for;
use topics::TOPICS;

/// The name of the list of public prices.
const PRICES: &str = "public-prices.toml";

const EXAMPLES: &str = "\
Examples:
  neuraxis help
  neuraxis help policy
  neuraxis help errors/no-model
  neuraxis help default-policy.toml
  neuraxis help sessions export
  neuraxis help --man-pages ~/.local/share/man/man1";

/// Show a document, or the help of a command
///
/// Without arguments, lists the documents. `neuraxis COMMAND --help` shows a command's options.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Help {
    /// A document, or a command with its subcommands
    #[arg(value_name = "TOPIC", add = ArgValueCompleter::new(proposed))]
    words: Vec<String>,

    /// Write a manual page for each command into this folder
    #[arg(long, value_name = "FOLDER", conflicts_with = "words")]
    man_pages: Option<PathBuf>,
}

impl Help {
    pub(crate) fn run(self) -> Result<(), CommandError> {
        let mut output = Output::new();
        if let Some(folder) = &self.man_pages {
            let written = std::fs::create_dir_all(folder)
                .and_then(|()| clap_mangen::generate_to(Arguments::command(), folder));
            written
                .with_context(|| format!("cannot write to {}", folder.display()))
                .map_err(CommandError::usage)?;
            return Ok(output.line(&format!("wrote the manual pages to {}", folder.display()))?);
        }
        let Some(first) = self.words.first() else {
            return Ok(output.lines(&listed())?);
        };
        if let (Some(topic), 1) = (topics::find(first), self.words.len()) {
            return Ok(output.markdown(links::resolved(topic).trim_end())?);
        }
        if let Some(rules) = rules::of(first) {
            return Ok(output.text(&rules)?);
        }
        if first == PRICES {
            return Ok(output.text(PriceList::built_in_text())?);
        }
        let mut command = &mut Arguments::command();
        command.build();
        for word in &self.words {
            command = command
                .find_subcommand_mut(word)
                .ok_or_else(|| unknown_topic(word))?;
        }
        Ok(output.painted(&command.render_long_help().ansi().to_string())?)
    }
}

fn listed() -> String {
    let topics = TOPICS.iter();
    let topics = topics.map(|topic| (topic.name, topic.about));
    let topics = topics.chain([
        (rules::NAME, "the default policy, with line numbers"),
        (PRICES, "the bundled list of public prices"),
    ]);
    let topics = topics.map(|(name, about)| format!("  {name:<20} {about}\n"));
    let topics: String = topics.collect();
    let command = Arguments::command();
    let commands = command.get_subcommands().map(clap::Command::get_name);
    let commands: Vec<&str> = commands.collect();
    format!(
        "Documents, shown by `neuraxis help TOPIC`:\n{topics}\nCommands, with options that `neuraxis help COMMAND` explains:\n  {}\n",
        commands.join(", ")
    )
}

/// Returns the proposals for shell completion: what is listed.
fn proposed(typed: &OsStr) -> Vec<CompletionCandidate> {
    let command = Arguments::command();
    let commands = command.get_subcommands().map(clap::Command::get_name);
    let topics = TOPICS.iter().map(|topic| topic.name);
    let all = topics.chain([rules::NAME, PRICES]).chain(commands);
    let typed = typed.to_string_lossy();
    all.filter(|name| name.starts_with(&*typed))
        .map(CompletionCandidate::new)
        .collect()
}

fn unknown_topic(word: &str) -> CommandError {
    let command = Arguments::command();
    let commands = command.get_subcommands().map(clap::Command::get_name);
    let known = TOPICS.iter().map(|topic| topic.name).chain(commands);
    unknown(
        "topic",
        word,
        known,
        "`neuraxis help` lists the documents and commands",
    )
}
