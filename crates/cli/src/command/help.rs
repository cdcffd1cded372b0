//! `neuraxis help`: the documents, which whoever has only this program has, too.

use std::path::PathBuf;

use anyhow::{Context, anyhow};
use clap::{Args, CommandFactory};

use super::chat::nearest;
use crate::arguments::Arguments;
use crate::error::CommandError;
use crate::harmless::one_line;
use crate::output::Output;

/// The documents: what they are called, what they are about, and their text.
const TOPICS: [(&str, &str, &str); 18] = [
    (
        "models",
        "which model answers, and what to do where it does not",
        include_str!("../../../../docs/models.md"),
    ),
    (
        "chat",
        "talking at a terminal: keys, commands, approvals",
        include_str!("../../../../docs/chat.md"),
    ),
    (
        "pipes",
        "data from pipes and files, exit codes, scripts",
        include_str!("../../../../docs/pipes.md"),
    ),
    (
        "policy",
        "what may run, and rules of your own",
        include_str!("../../../../docs/policy.md"),
    ),
    (
        "sessions",
        "going on with, checking, moving and branching conversations",
        include_str!("../../../../docs/sessions.md"),
    ),
    (
        "storage",
        "where sessions are kept, and what survives what",
        include_str!("../../../../docs/storage.md"),
    ),
    (
        "security",
        "what is defended against, and how",
        include_str!("../../../../docs/security.md"),
    ),
    (
        "agents",
        "agents of your own",
        include_str!("../../../../docs/agents.md"),
    ),
    (
        "answers",
        "answers that are JSON of a form",
        include_str!("../../../../docs/answers.md"),
    ),
    (
        "web",
        "reading and searching the web",
        include_str!("../../../../docs/web.md"),
    ),
    (
        "mcp",
        "tools of MCP servers",
        include_str!("../../../../docs/mcp.md"),
    ),
    (
        "mcp-server",
        "being an MCP server",
        include_str!("../../../../docs/mcp-server.md"),
    ),
    (
        "long-results",
        "results of tools that are too long for a model",
        include_str!("../../../../docs/long-results.md"),
    ),
    (
        "reliability",
        "failures, retries, crashes",
        include_str!("../../../../docs/reliability.md"),
    ),
    (
        "server",
        "neuraxis-server and its HTTP API",
        include_str!("../../../../docs/server.md"),
    ),
    (
        "evals",
        "whether agents still do what they should",
        include_str!("../../../../docs/evals.md"),
    ),
    (
        "observability",
        "traces, metrics and where they go",
        include_str!("../../../../docs/observability.md"),
    ),
    (
        "scale",
        "many servers, and runs that workers drive",
        include_str!("../../../../docs/scale.md"),
    ),
];

const EXAMPLES: &str = "\
Examples:
  neuraxis help
  neuraxis help policy
  neuraxis help sessions export
  neuraxis help --man-pages ~/.local/share/man/man1";

/// Show a document, or the help of a command
///
/// Without a word it lists what there is. `neuraxis COMMAND --help` shows a command's options.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Help {
    /// A document, or a command with its subcommands
    #[arg(value_name = "TOPIC")]
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
        let topic = TOPICS.iter().find(|(name, ..)| name == first);
        if let (Some((_, _, text)), 1) = (topic, self.words.len()) {
            return Ok(output.markdown(text.trim_end())?);
        }
        let mut command = &mut Arguments::command();
        command.build();
        for word in &self.words {
            command = command
                .find_subcommand_mut(word)
                .ok_or_else(|| unknown(word))?;
        }
        Ok(output.styled(&command.render_long_help().ansi().to_string())?)
    }
}

fn listed() -> String {
    let topics = TOPICS.iter();
    let topics = topics.map(|(name, about, _)| format!("  {name:<13} {about}\n"));
    let topics: String = topics.collect();
    let command = Arguments::command();
    let commands = command.get_subcommands().map(clap::Command::get_name);
    let commands: Vec<&str> = commands.collect();
    format!(
        "Documents, shown by `neuraxis help TOPIC`:\n{topics}\nCommands, with options that `neuraxis help COMMAND` explains:\n  {}\n",
        commands.join(", ")
    )
}

fn unknown(word: &str) -> CommandError {
    let error = anyhow!(
        "there is neither a document nor a command {:?}",
        one_line(word)
    );
    let command = Arguments::command();
    let commands = command.get_subcommands().map(clap::Command::get_name);
    let known = TOPICS.iter().map(|(name, ..)| *name).chain(commands);
    match nearest(word, known) {
        Some(near) => CommandError::usage(error).hint(format!("`neuraxis help {near}` is one")),
        None => CommandError::usage(error).hint("`neuraxis help` lists them"),
    }
}
