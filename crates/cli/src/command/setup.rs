//! `neuraxis setup`: finds available model servers, asks which one and which model to use, and writes the
//! configuration.

use std::fmt::Display;
use std::io::{self, Write};

use anyhow::{Context, anyhow};
use clap::Args;
use neuraxis::core::LlmErrorKind;
use neuraxis_app::{Candidate, ModelError, Readiness, SkippedServer, candidates, discover};
use toml_edit::{Table, value};

use super::mcp::Edited;
use super::models::WITHIN;
use crate::confirm::require_user;
use crate::error::CommandError;
use crate::glyphs::ELLIPSIS;
use crate::harmless::one_line;
use crate::invocation::neuraxis;
use crate::output::Output;
use crate::progress::{self, Progress};
use crate::setup::Setup;

/// The maximum number of models listed.
const MAX_LISTED: usize = 20;

/// Parts of the names of models that do not answer questions, but embed, listen, speak, draw or judge.
const OTHER_USES: [&str; 14] = [
    "embed",
    "rerank",
    "whisper",
    "transcribe",
    "tts",
    "speech",
    "realtime",
    "dall-e",
    "image",
    "flux",
    "veo-",
    "ocr",
    "moderation",
    "guard",
];

/// What to do about a server that cannot be used as found.
const UNUSABLE: &str =
    "fix the problem, such as a wrong address in its variable, and run `neuraxis setup` again";

/// What to do about an unreachable server.
const UNREACHABLE: &str =
    "start it, or check the network and its address, and run `neuraxis setup` again";

/// What to do about a server whose certificate is not trusted.
const UNTRUSTED: &str = "check this machine's clock and its trusted certificates (SSL_CERT_FILE names a file to use instead), and run \
                         `neuraxis setup` again; or write [models.reasoning] with ca_file, as `neuraxis help models` explains";

/// What to do about a server that does not list its models yet.
const LOADING: &str = "wait a moment, and run `neuraxis setup` again";

const EXAMPLES: &str = "\
Examples:
  neuraxis setup
  neuraxis setup --yes --set discovery.local_servers=false";

/// Find a model on this machine, or with a key that is set, and configure it
///
/// Searches the usual addresses of model servers and the usual variables for keys, asks you which server and which
/// model to use, and writes [models.reasoning] to your own neuraxis.toml, or to the file given by --config, which is
/// created if it does not exist. This is free of charge, and a key itself is never written.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SetUp {
    /// Do not ask: take the first server that is found
    #[arg(long)]
    yes: bool,
}

impl SetUp {
    pub(crate) async fn run(self, setup: &Setup) -> Result<(), CommandError> {
        if !self.yes {
            require_user("add --yes to take the first one that is found")?;
        }
        let setup = &setup.writing_file();
        let loaded = setup.load()?;
        let environment = loaded.environment;
        let progress = Progress::new();
        progress.activity("looking for models");
        let found = candidates(&loaded.config, &environment).await;
        progress.hide();
        if !found.is_empty() {
            // Check that the file can be written before asking. It is closed again, since the answer may take a while.
            let edited = Edited::open(setup, &environment)?;
            if edited.has_model("reasoning") {
                return Err(already_configured(&edited));
            }
        }
        let chosen = match found.as_slice() {
            [] => {
                let seen = discover(&loaded.config, &environment).await;
                return Err(nothing_found(&seen.skipped));
            }
            [only] => only,
            several => self.choose(several)?,
        };
        anstream::eprintln!("Using {}.", one_line(&chosen.about));
        let offered = match offered(setup, chosen).await? {
            Ok(models) => models,
            Err(error) => {
                progress::warn(&format!("it does not list its models: {error}"));
                Vec::new()
            }
        };
        let model = self.model(chosen, &offered)?;
        let mut edited = Edited::open(setup, &environment)?;
        let path = edited.path().display().to_string();
        let is_added = edited.add_model("reasoning", table(chosen, &model));
        if !is_added.map_err(CommandError::configuration)? {
            return Err(already_configured(&edited));
        }
        edited.save().map_err(CommandError::failed)?;
        let model = one_line(&model);
        Output::new().sentence(&format!(
            "wrote [models.reasoning] to {path}: {model} answers from now on"
        ))?;
        progress.done(&format!("try it: {} \"What can you do?\"", neuraxis()));
        Ok(())
    }

    /// Asks which server to use.
    fn choose<'a>(&self, several: &'a [Candidate]) -> Result<&'a Candidate, CommandError> {
        if !self.yes {
            anstream::eprintln!("These could answer:");
            for (place, candidate) in several.iter().enumerate() {
                anstream::eprintln!("  {}  {}", place + 1, one_line(&candidate.about));
            }
        }
        match self.yes {
            true => numbered(several, "1"),
            false => numbered(several, &prompt("Which one?", "1")?),
        }
    }

    /// Asks which model to use.
    fn model(&self, chosen: &Candidate, offered: &[String]) -> Result<String, CommandError> {
        let usual = usual(chosen.model.as_deref(), offered);
        let model = match self.yes {
            true => usual.to_owned(),
            false => {
                if !offered.is_empty() {
                    anstream::eprintln!("It has these models:");
                }
                for (place, name) in offered.iter().take(MAX_LISTED).enumerate() {
                    anstream::eprintln!("  {:>2}  {}", place + 1, one_line(name));
                }
                if let Some(more @ 1..) = offered.len().checked_sub(MAX_LISTED) {
                    anstream::eprintln!("      {ELLIPSIS} and {more} more");
                }
                chosen_model(prompt("Which model?", usual)?, offered)?
            }
        };
        if model.is_empty() {
            let error = anyhow!("no model was given");
            return Err(CommandError::usage(error).hint("run `neuraxis setup` again, and name one"));
        }
        Ok(model)
    }
}

/// Returns the default model: the usual one if it is available, or else the first that seems to answer questions.
fn usual<'a>(usual: Option<&'a str>, offered: &'a [String]) -> &'a str {
    let is_offered = |usual: &&str| offered.is_empty() || offered.iter().any(|name| name == *usual);
    let answers = |name: &&String| {
        let name = name.to_ascii_lowercase();
        !OTHER_USES.iter().any(|part| name.contains(part))
    };
    let first = offered.iter().find(answers).or(offered.first());
    let first = first.map_or("", String::as_str);
    usual.filter(is_offered).unwrap_or(first)
}

/// Returns the chosen model: a number refers to the list, and a name need not be in the list, since not every server
/// lists all of its models.
fn chosen_model(typed: String, offered: &[String]) -> Result<String, CommandError> {
    let is_number = !typed.is_empty() && typed.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number || offered.is_empty() || offered.contains(&typed) {
        return Ok(typed);
    }
    let listed = offered.get(..MAX_LISTED).unwrap_or(offered);
    numbered(listed, &typed).cloned()
}

/// Returns the list item with this number, counted from 1.
fn numbered<'a, T>(list: &'a [T], number: &str) -> Result<&'a T, CommandError> {
    let number = number.parse::<usize>().ok();
    let place = number.and_then(|number| number.checked_sub(1));
    let chosen = place.and_then(|place| list.get(place));
    chosen.ok_or_else(|| {
        let error = anyhow!("that is not a number from 1 to {}", list.len());
        CommandError::usage(error).hint("run `neuraxis setup` again")
    })
}

/// Returns the error for an existing section, which this command does not change.
fn already_configured(edited: &Edited) -> CommandError {
    let path = edited.path().display();
    let error = anyhow!("{path} already has a section [models.reasoning]");
    CommandError::usage(error)
        .hint("edit it there, or write another file: neuraxis setup --config FILE")
}

fn nothing_found(skipped: &[SkippedServer]) -> CommandError {
    let error = match skipped {
        [] => anyhow!("found neither a model server on this machine nor a key in a variable"),
        _ => anyhow!(
            "no model server on this machine can be used as it is, and no variable holds a key"
        ),
    };
    let hints = skipped.iter().map(SkippedServer::to_string);
    hints.fold(CommandError::failed(error), CommandError::hint)
        .hint("start llama-server, Ollama or LM Studio, or export OPENAI_API_KEY=…, and run `neuraxis setup` again")
        .hint("`neuraxis help models` shows how to configure anything else")
}

/// Asks for a word, with a default for Enter.
fn prompt(question: &str, usual: &str) -> Result<String, CommandError> {
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

/// Asks the chosen server for its models, which it may not list although it answers. A server that cannot be used as
/// found or is unreachable is an error, since its configuration would be useless.
async fn offered(
    setup: &Setup,
    chosen: &Candidate,
) -> Result<Result<Vec<String>, String>, CommandError> {
    let keys = chosen.keys.iter();
    let keys = keys.map(|(key, value)| (format!("models.reasoning.{key}"), value.clone()));
    let mut settings: Vec<_> = keys.collect();
    // With a model set, the models are listed by the same client that would call it.
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
        Ok(offer) if offer.readiness == Readiness::Loading && offer.models.is_empty() => {
            Err(not_written(&"it is still loading its model", LOADING))
        }
        Ok(offer) => Ok(Ok(offer.models)),
        Err(error) if is_unreachable(&error.kind) => {
            let what_to_do = match error.is_certificate_refused {
                true => UNTRUSTED,
                false => UNREACHABLE,
            };
            Err(not_written(&error, what_to_do))
        }
        Err(error) => Ok(Err(one_line(&error.to_string()))),
    }
}

/// Returns whether there was no answer. A server that refuses, fails or lists nothing is reachable.
const fn is_unreachable(kind: &LlmErrorKind) -> bool {
    matches!(kind, LlmErrorKind::Connection | LlmErrorKind::Timeout)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().copied().map(str::to_owned).collect()
    }

    #[test]
    fn a_model_that_cannot_chat_is_chosen_only_if_there_is_no_other() {
        let mixed = names(&["whisper-large-v3", "models/Embedding-001", "llama", "qwen"]);
        assert_eq!(usual(None, &mixed), "llama");
        assert_eq!(usual(Some("qwen"), &mixed), "qwen");
        assert_eq!(usual(Some("gone"), &mixed), "llama");
        assert_eq!(usual(None, &names(&["whisper-1"])), "whisper-1");
        assert_eq!(usual(Some("any"), &[]), "any");
        assert_eq!(usual(None, &[]), "");
    }

    #[test]
    fn a_timed_out_provider_counts_as_unreachable_like_an_unconnected_one() {
        for kind in [LlmErrorKind::Connection, LlmErrorKind::Timeout] {
            assert!(is_unreachable(&kind), "{kind:?}");
        }
        for kind in [LlmErrorKind::Unauthorized, LlmErrorKind::BadRequest] {
            assert!(!is_unreachable(&kind), "{kind:?}");
        }
    }

    #[test]
    fn a_number_chooses_from_the_list_and_a_name_need_not_be_listed() {
        let offered = names(&["a", "b", "2024"]);
        let chosen = |typed: &str| chosen_model(typed.to_owned(), &offered).ok();
        for (typed, model) in [("2", "b"), ("2024", "2024"), ("b", "b"), ("c", "c")] {
            assert_eq!(chosen(typed).as_deref(), Some(model));
        }
        for typed in ["0", "4", "99999999999999999999999"] {
            assert_eq!(chosen(typed), None, "{typed}");
        }
        // Without a list, a number may be a name.
        assert_eq!(chosen_model("7".to_owned(), &[]).unwrap(), "7");
        let many: Vec<String> = (0..30).map(|number| format!("m{number}")).collect();
        assert!(
            chosen_model("21".to_owned(), &many).is_err(),
            "none was shown"
        );
    }
}
