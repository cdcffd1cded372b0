//! `neuraxis setup`: finds what could answer, asks which of it and which model, and writes that down.

use std::fmt::Display;
use std::io::{self, Write};

use anyhow::{Context, anyhow};
use clap::Args;
use neuraxis::core::LlmErrorKind;
use neuraxis_app::{Candidate, ModelError, candidates, discover};
use toml_edit::{Table, value};

use super::mcp::Edited;
use super::models::WITHIN;
use crate::confirm::require_person;
use crate::error::CommandError;
use crate::harmless::one_line;
use crate::output::Output;
use crate::progress::{self, Progress};
use crate::setup::Setup;

/// How many models are listed.
const MAX_LISTED: usize = 20;

/// What to do about one that cannot be used as it is found.
const UNUSABLE: &str =
    "correct what is wrong, such as the variable with its address, and run `neuraxis setup` again";

/// What to do about one that nobody reaches.
const UNREACHABLE: &str =
    "start it, or see to the network and its address, and run `neuraxis setup` again";

const EXAMPLES: &str = "\
Examples:
  neuraxis setup
  neuraxis setup --yes --set discovery.local_servers=false";

/// Find a model on this machine or by a key that is set, and configure it
///
/// Looks for model servers at their usual places and for keys in their usual variables, asks which of them answers and
/// with which model, and writes [models.reasoning] to your own neuraxis.toml, or to the file that --config names. Nothing
/// is paid for, and a key itself is never written.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SetUp {
    /// Ask nothing: take the first one that is found
    #[arg(long)]
    yes: bool,
}

impl SetUp {
    pub(crate) async fn run(self, setup: &Setup) -> Result<(), CommandError> {
        if !self.yes {
            require_person("add --yes to take what stands first")?;
        }
        let loaded = setup.load()?;
        let environment = loaded.environment;
        let mut edited = Edited::open(setup, &environment)?;
        let progress = Progress::new();
        progress.activity("looking for models");
        let found = candidates(&loaded.config, &environment).await;
        progress.hide();
        let chosen = match found.as_slice() {
            [] => return Err(nothing_found()),
            [only] => only,
            several => self.choose(several)?,
        };
        anstream::eprintln!("Using {}.", one_line(&chosen.about));
        let offered = match offered(setup, chosen).await? {
            Ok(models) => models,
            Err(error) => {
                progress::warn(&format!("it does not say which models it has: {error}"));
                Vec::new()
            }
        };
        let model = self.model(chosen, &offered)?;
        let path = edited.path().display().to_string();
        let is_added = edited.add_model("reasoning", table(chosen, &model));
        if !is_added.map_err(CommandError::configuration)? {
            let error = anyhow!("{path} has a section [models.reasoning] already");
            return Err(CommandError::usage(error)
                .hint("edit it there, or write another file: neuraxis setup --config FILE"));
        }
        edited.save().map_err(CommandError::failed)?;
        // Whoever does not name it may have it all the same.
        let done = match offered.contains(&model) {
            true => "answers now",
            false => "is asked from now on",
        };
        let model = one_line(&model);
        Output::new().line(&format!(
            "wrote [models.reasoning] to {path}: {model} {done}"
        ))?;
        progress.done("try it: neuraxis \"What can you do?\"");
        Ok(())
    }

    /// Asks which of several is meant.
    fn choose<'a>(&self, several: &'a [Candidate]) -> Result<&'a Candidate, CommandError> {
        if !self.yes {
            anstream::eprintln!("These could answer:");
            for (place, candidate) in several.iter().enumerate() {
                anstream::eprintln!("  {}  {}", place + 1, one_line(&candidate.about));
            }
        }
        let number = match self.yes {
            true => 1,
            false => {
                let typed = asked("Which one?", "1")?;
                typed.parse().unwrap_or(0)
            }
        };
        let chosen = usize::checked_sub(number, 1).and_then(|place| several.get(place));
        chosen.ok_or_else(|| {
            let error = anyhow!("that is not a number from 1 to {}", several.len());
            CommandError::usage(error).hint("run `neuraxis setup` again")
        })
    }

    /// Asks which model answers.
    fn model(&self, chosen: &Candidate, offered: &[String]) -> Result<String, CommandError> {
        let usual = chosen.model.as_ref();
        let usual = usual.filter(|usual| offered.is_empty() || offered.contains(usual));
        let usual = usual.or(offered.first()).map_or("", String::as_str);
        let model = match self.yes {
            true => usual.to_owned(),
            false => {
                if !offered.is_empty() {
                    anstream::eprintln!("It has these models:");
                }
                for name in offered.iter().take(MAX_LISTED) {
                    anstream::eprintln!("  {}", one_line(name));
                }
                if let Some(more @ 1..) = offered.len().checked_sub(MAX_LISTED) {
                    anstream::eprintln!("  … and {more} more");
                }
                asked("Which model?", usual)?
            }
        };
        if model.is_empty() {
            let error = anyhow!("no model was named");
            return Err(CommandError::usage(error).hint("run `neuraxis setup` again, and name one"));
        }
        Ok(model)
    }
}

fn nothing_found() -> CommandError {
    let error = anyhow!("there is neither a model server on this machine nor a key in a variable");
    CommandError::failed(error)
        .hint("start llama-server, Ollama or LM Studio, or export OPENAI_API_KEY=…, and run `neuraxis setup` again")
        .hint("`neuraxis help models` shows how to configure anything else")
}

/// Asks for a word, of which one stands ready for whoever presses Enter.
fn asked(question: &str, usual: &str) -> Result<String, CommandError> {
    let mut stderr = io::stderr();
    let ready = match usual {
        "" => String::new(),
        usual => format!(" [{}]", one_line(usual)),
    };
    write!(stderr, "{question}{ready} ")?;
    stderr.flush()?;
    let mut typed = String::new();
    let read = io::stdin().read_line(&mut typed);
    let read = read.context("cannot read from the terminal")?;
    match typed.trim() {
        _ if read == 0 => Err(CommandError::usage(anyhow!("nothing was written"))),
        "" => Ok(usual.to_owned()),
        typed => Ok(typed.to_owned()),
    }
}

/// Asks the one that was chosen for its models, which it may not say though it answers. One that cannot be used as it was
/// found, or that is not reached, is an error: what would be written is of no use.
async fn offered(
    setup: &Setup,
    chosen: &Candidate,
) -> Result<Result<Vec<String>, String>, CommandError> {
    let keys = chosen.keys.iter();
    let keys = keys.map(|(key, value)| (format!("models.reasoning.{key}"), value.clone()));
    let mut settings: Vec<_> = keys.collect();
    // It is asked for its models by whoever would ask a model.
    if let Some(model) = &chosen.model {
        settings.push(("models.reasoning.model".to_owned(), model.clone()));
    }
    let loaded = setup.with_model(settings).load();
    let loaded = loaded.map_err(|error| error.hint("nothing was written"))?;
    let discovery = discover(&loaded.config, &loaded.environment).await;
    let endpoint = discovery
        .endpoints
        .into_iter()
        .find(|(role, _)| role.as_str() == "reasoning");
    let offer = match endpoint {
        Some((_, Ok(endpoint))) => endpoint.offer(WITHIN).await,
        Some((_, Err(ModelError::NoModel { server, .. }))) => server.offer(WITHIN).await,
        Some((_, Err(error))) => return Err(not_written(&error, UNUSABLE)),
        None => return Err(not_written(&"it cannot be configured", UNUSABLE)),
    };
    match offer {
        Ok(offer) => Ok(Ok(offer.models)),
        Err(error) if error.kind == LlmErrorKind::Connection => {
            Err(not_written(&error, UNREACHABLE))
        }
        Err(error) => Ok(Err(one_line(&error.to_string()))),
    }
}

fn not_written(error: &impl Display, what_to_do: &str) -> CommandError {
    let error = anyhow!("{error}").context("nothing was written");
    CommandError::failed(error).hint(what_to_do)
}

fn table(chosen: &Candidate, model: &str) -> Table {
    let mut table = Table::new();
    for (key, text) in &chosen.keys {
        table.insert(key, value(text.as_str()));
    }
    table.insert("model", value(model));
    table
}
