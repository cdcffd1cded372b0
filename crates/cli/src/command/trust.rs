//! `neuraxis trust`: whether to use the `neuraxis.toml` of a folder, which may have come with the project there.

mod question;

use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use clap::{Args, Subcommand};
use neuraxis::core::ContentHash;
use neuraxis_app::{Environment, FolderRules, Forgotten, FoundFile, TrustList, instruction_files};

use super::project;
use crate::confirm::{ask_yes_no, require_user};
use crate::error::CommandError;
use crate::harmless::one_line;
use crate::output::Output;
use crate::progress;
use crate::setup::Setup;
use crate::terminal;
use crate::wrap::broken;
pub(in crate::command) use question::load_and_ask;
use question::{described, is_too_much, next_step, unusable};

/// What to do if nobody can be asked.
const UNASKED: &str =
    "read the output of `neuraxis trust show`; --yes trusts the file without asking";

const EXAMPLES: &str = "\
Examples:
  neuraxis trust
  neuraxis trust show ~/src/project
  neuraxis trust add
  neuraxis trust remove ~/src/project";

/// Trust the neuraxis.toml and the AGENTS.md of a folder, or show what they say
///
/// A neuraxis.toml in the working directory may have come with the project there. Until you trust its exact content, it
/// may only tighten what is allowed, and everything else in it is ignored. Trust ends when the content changes. What
/// you trust is stored in your data folder. A file given by --config needs no trust. An AGENTS.md (or CLAUDE.md), from
/// the folder up to the root of the repository, tells agents how to work in the project once you trust it. Your lasting
/// answers about calls in a folder are shown and revoked here, too.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, disable_help_subcommand = true)]
pub(crate) struct Trust {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show whether the folder is trusted, and what its file would change, the most dangerous first (this is the
    /// default)
    Show(Folder),
    /// Trust the current content
    Add(Add),
    /// Stop trusting the folder, and forget your answers about it and what you allowed there
    Remove(Folder),
}

#[derive(Debug, Default, Args)]
struct Folder {
    /// The folder; default: the working directory
    folder: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct Add {
    #[command(flatten)]
    folder: Folder,

    /// Do not ask: required if nobody can be asked
    #[arg(long)]
    yes: bool,
}

impl Trust {
    pub(crate) fn run(self, setup: &Setup) -> Result<(), CommandError> {
        match self.command.unwrap_or(Command::Show(Folder::default())) {
            Command::Show(folder) => folder.show(setup),
            Command::Add(add) => add.run(setup),
            Command::Remove(folder) => folder.remove(setup),
        }
    }
}

impl Folder {
    fn show(&self, setup: &Setup) -> Result<(), CommandError> {
        let environment = self.environment(setup)?;
        let mut output = Output::new();
        let columns = output.columns().unwrap_or(usize::MAX);
        let config = setup.config_without_trust(&environment)?;
        let text = match config.found() {
            Some(found) => {
                let is_trusted = found.trust() == neuraxis_app::Trust::Trusted;
                let why = is_trusted.then(|| why_unusable(setup, &environment));
                let why = why.flatten().map(|why| unusable(&why, columns));
                described(found, columns) + &why.unwrap_or_default() + &next_step(found, columns)
            }
            None => broken(&self.nothing_here(&environment), columns, "  ") + "\n",
        };
        let files: String = instruction_files(&environment)
            .iter()
            .map(|file| project::described(file, columns))
            .collect();
        let rules = config.folder_rules().map(allowed).transpose()?;
        output.text(&(text + &files + &rules.unwrap_or_default()))?;
        Ok(())
    }

    fn remove(&self, setup: &Setup) -> Result<(), CommandError> {
        let environment = setup.environment()?;
        let folder = self.path(&environment);
        // Answers about a folder that no longer exists can be forgotten, too.
        let folder = folder.canonicalize().unwrap_or(folder);
        let list = TrustList::of(&environment)?;
        let folder_environment = environment.clone().with_working_dir(&folder);
        for file in instruction_files(&folder_environment) {
            if let Some(removed) = removed(&list, &file.path)? {
                let path = file.path.display();
                Output::new().line(&format!("{path}{removed}"))?;
            }
        }
        // Rules that cannot be read can be forgotten, too.
        let rules = match setup.config_without_trust(&folder_environment) {
            Ok(config) => config.folder_rules().cloned(),
            Err(_) => FolderRules::of(&folder, &environment),
        };
        if let Some(rules) = rules
            && rules.forget()?
        {
            let folder = rules.folder().display();
            Output::new().line(&format!("removed what you allowed in {folder}"))?;
        }
        let done = removed(&list, &folder)?.unwrap_or(" was not trusted");
        Output::new().line(&format!("{}{done}", file_of(&folder)))?;
        Ok(())
    }

    /// Returns the environment of a program started in the folder.
    fn environment(&self, setup: &Setup) -> Result<Environment, CommandError> {
        let environment = setup.environment()?;
        let folder = self.path(&environment);
        let is_folder = std::fs::metadata(&folder).and_then(|metadata| match metadata.is_dir() {
            true => Ok(()),
            false => Err(std::io::ErrorKind::NotADirectory.into()),
        });
        is_folder
            .with_context(|| format!("{} is not a folder", folder.display()))
            .map_err(CommandError::usage)?;
        Ok(environment.with_working_dir(folder))
    }

    fn path(&self, environment: &Environment) -> PathBuf {
        let here = environment.working_dir();
        self.folder
            .as_ref()
            .map_or_else(|| here.to_owned(), |folder| here.join(folder))
    }

    fn nothing_here(&self, environment: &Environment) -> String {
        let file = file_of(environment.working_dir());
        match Path::new(&file).is_file() {
            true => format!("{file} is your own configuration, which needs no trust"),
            false if instruction_files(environment).is_empty() => {
                format!("there is no {file}, so there is nothing to trust")
            }
            false => format!("there is no {file}"),
        }
    }
}

/// Removes the answer about a path, and returns what to print after the path, or `None` if there was no answer.
fn removed(list: &TrustList, path: &Path) -> Result<Option<&'static str>, CommandError> {
    Ok(list.forget(path)?.map(|forgotten| match forgotten {
        Forgotten::Trust => " is no longer trusted",
        Forgotten::Refusal => ": your answer was removed",
    }))
}

impl Add {
    fn run(self, setup: &Setup) -> Result<(), CommandError> {
        let environment = self.folder.environment(setup)?;
        let found = found_file(setup, &environment)?;
        let mut files = instruction_files(&environment);
        files.retain(|file| !file.applies() && file.fault.is_none());
        if found.is_none() && files.is_empty() {
            let error = anyhow!(self.folder.nothing_here(&environment));
            return Err(CommandError::usage(error));
        }
        let list = TrustList::of(&environment)?;
        if let Some(found) = found {
            let content = self.wanted(&found)?;
            list.trust(found.folder(), content)?;
            Output::new().line(&format!("trusted {}", file_of(found.folder())))?;
            if let Some(why) = why_unusable(setup, &environment) {
                progress::warn(&format!(
                    "commands in that folder fail until this is fixed or `neuraxis trust remove` revokes the trust: \
                     {why}"
                ));
            }
        }
        for file in files {
            if !self.yes {
                require_user(UNASKED)?;
                let columns = terminal::width(std::io::stderr());
                anstream::eprint!("{}", project::described(&file, columns));
                if !ask_yes_no("Trust it?")? {
                    return Err(CommandError::failed(anyhow!("it is not trusted")));
                }
            }
            list.trust(&file.path, file.content)?;
            Output::new().line(&format!("trusted {}", file.path.display()))?;
        }
        Ok(())
    }

    /// Asks the user to confirm trusting a file, and returns the content that is then trusted.
    fn wanted(&self, found: &FoundFile) -> Result<ContentHash, CommandError> {
        let content = match (found.fault(), found.content()) {
            (None, Some(content)) => content,
            (fault, _) => {
                let fault = fault.unwrap_or("it cannot be read").to_owned();
                let error = anyhow!(fault).context("a file that cannot be read cannot be trusted");
                return Err(CommandError::usage(error));
            }
        };
        if self.yes {
            return Ok(content);
        }
        require_user(UNASKED)?;
        let columns = terminal::width(std::io::stderr());
        anstream::eprint!("{}", described(found, columns));
        if is_too_much(found) {
            let folder = match self.folder.folder {
                Some(_) => " and the same folder",
                None => "",
            };
            let error = anyhow!("its changes are too long to show in full, or some are hidden");
            return Err(CommandError::usage(error).hint(format!(
                "read the file, then trust it with `neuraxis trust add --yes`{folder}"
            )));
        }
        match ask_yes_no("Trust it?")? {
            true => Ok(content),
            false => Err(CommandError::failed(anyhow!("it is not trusted"))),
        }
    }
}

/// Shows which calls may run in a folder because of the user's answers there.
fn allowed(rules: &FolderRules) -> Result<String, CommandError> {
    let Some(text) = rules.text()? else {
        return Ok(String::new());
    };
    let lines = text.lines().map(one_line);
    let lines: String = lines.map(|line| format!("  {line}\n")).collect();
    let file = rules.file().display();
    Ok(format!("{file}: your answers\n{lines}"))
}

/// Returns what the file of a folder would change, whether or not it is trusted.
fn found_file(setup: &Setup, environment: &Environment) -> Result<Option<FoundFile>, CommandError> {
    Ok(setup.config_without_trust(environment)?.found().cloned())
}

/// Returns why no command works in a folder whose file is trusted, if so.
fn why_unusable(setup: &Setup, environment: &Environment) -> Option<String> {
    let config = setup.config_as_trusted(environment);
    config.err().map(|error| error.in_one_line())
}

fn file_of(folder: &Path) -> String {
    folder.join("neuraxis.toml").display().to_string()
}
