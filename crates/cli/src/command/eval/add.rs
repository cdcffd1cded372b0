//! `neuraxis eval add`: turns a stored run into a case.

mod notes;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, anyhow};
use clap::Args;
use clap_complete::ArgValueCompleter;
use neuraxis::brainstem::Request;
use neuraxis::cassette::{Cassette, Redactor};
use neuraxis::core::log::RunView;
use neuraxis::core::log::describe::counted;
use neuraxis::core::{Decision, JsonText, Record, Role, RunId, ToolSpec, Transcript};
use neuraxis::engine::Sessions;
use neuraxis::evals::{Case, EvalFile, FileFault, Source};
use neuraxis_app::{Config, holds_instructions, secrets_notice, secrets_of, tool_specs};
use toml_edit::{DocumentMut, Formatted, TableLike, Value};

use self::notes::{added_by_defaults, approved, notes};
use super::results::{destination, write};
use crate::command::lookup;
use crate::command::runs::save_recording;
use crate::completion;
use crate::destination::Destination;
use crate::error::CommandError;
use crate::harmless::{one_line, one_line_of};
use crate::invocation::neuraxis;
use crate::output::Output;
use crate::progress;
use crate::setup::{Loaded, Setup, with_store};

/// The maximum number of characters of a name taken from a question.
const MAX_NAME_CHARS: usize = 60;

/// Shown if the case differs from the run.
const SECRETS_LEFT_OUT: &str = "the case contained a key or another secret, possibly as an ordinary word, and it was \
                                removed: read what the case asks and checks now";

const EXAMPLES: &str = "\
Examples:
  neuraxis eval add evals.toml last
  neuraxis eval add evals.toml 9b7a5c31 --name \"books the flight\"
  neuraxis eval add evals.toml 9b7a5c31 --cassette flight.cassette
  neuraxis eval add evals.toml 9b7a5c31 --stored";

/// Turn a stored run into a case, at the end of a file
///
/// The case asks the same again, with the earlier messages, and checks that the same tools are called, that the run
/// ends with an answer, and in no more turns. Read it and edit what matters: the answer is above it as a comment.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Add {
    /// The file of cases; created if it does not exist
    file: PathBuf,

    /// The run: its id, the beginning or end of its id, or last
    #[arg(add = ArgValueCompleter::new(completion::runs))]
    run: String,

    /// The name of the case; default: the beginning of the question
    #[arg(long)]
    name: Option<String>,

    /// Record what the models said in this new file, which then answers instead of them; relative to the file of cases
    #[arg(long, value_name = "FILE", conflicts_with = "stored")]
    cassette: Option<PathBuf>,

    /// Make the case check the run as stored: no model is called, and nothing runs
    #[arg(long)]
    stored: bool,
}

/// A case to be added to a file.
struct NewCase {
    run: RunId,
    case: Case,
    /// The recording that answers instead of the models, if the case has one.
    recording: Option<Cassette>,
    /// Whether the models were told a secret in addition to the text of the case, which is written without secrets.
    contains_secrets: bool,
    /// Notes for the user who edits the case, one per line.
    notes: Vec<String>,
}

impl Add {
    pub(super) async fn run(self, setup: &Setup) -> Result<(), CommandError> {
        let destination = destination(&self.file)?;
        let before = match &destination {
            Destination::File(_) => read_if_exists(&self.file)?,
            // Anything else only receives the case and has no content: reading a pipe may never end.
            Destination::Other(_) => None,
        };
        let cassette = self.cassette_file();
        let recording = cassette.as_deref().map(Destination::of);
        if recording.is_some_and(|file| file.is_ok_and(|file| file == destination)) {
            let error = anyhow!("--cassette names the cases file itself");
            return Err(CommandError::usage(error).hint("name another file"));
        }
        let names = match before {
            Some(_) => self.names()?,
            None => Vec::new(),
        };
        let loaded = setup.load()?;
        let open = loaded.store().await?;
        let made = with_store(open, async |sessions| {
            self.make(sessions, &loaded, &names).await
        });
        let made = made.await?;
        let case = &made.case;
        let written = case.to_toml().map_err(|error| no_case(made.run, error))?;
        let secrets = secrets_of(&loaded.config, &loaded.environment);
        let cleaned = without_secrets(&written, &secrets);
        let is_changed = cleaned != written;
        let mut text = before.unwrap_or_default();
        if !text.is_empty() {
            text.push_str(if text.ends_with('\n') { "\n" } else { "\n\n" });
        }
        for note in &made.notes {
            text.push_str(&format!("# {}\n", one_line(&secrets.text(note))));
        }
        text.push_str(&cleaned);
        let file = self.file.display();
        let document = text.parse::<DocumentMut>().map_err(|error| {
            let error = anyhow::Error::new(error).context(format!("cannot add to {file}"));
            CommandError::usage(error).hint("write its cases as [[case]] sections, not as one list")
        })?;
        // Only once the case can be added: a second attempt could not replace the recording.
        if let (Some(recording), Some(its_file)) = (&made.recording, &cassette) {
            let saved = save_recording(recording, its_file, secrets.clone())?;
            if made.contains_secrets
                && let Some(notice) = secrets_notice(&saved, its_file)
            {
                progress::warn(&notice);
            }
        }
        write(&destination, &secrets.without_patterns().text(&text))?;
        if is_changed {
            progress::warn(SECRETS_LEFT_OUT);
        }
        for key in added_by_defaults(&document, case) {
            progress::warn(&format!(
                "the run named no {key}, but the case takes the one that [defaults] of {file} names"
            ));
        }
        let (name, checks) = (one_line(&case.name), case.checks.len() as u64);
        let checks = counted(checks, "check");
        let added = format!("{file}: added case \"{name}\" with {checks}");
        match destination {
            Destination::File(_) => Output::new().line(&added)?,
            // If the case goes to standard output, it must be the only thing there.
            Destination::Other(_) => progress::done(&added),
        }
        let again = neuraxis();
        progress::done(&format!("run it with: {again} eval {file}"));
        Ok(())
    }

    /// Returns the path of the recording, which the case names relative to the file of cases.
    fn cassette_file(&self) -> Option<PathBuf> {
        let folder = self.file.parent().unwrap_or_else(|| Path::new(""));
        self.cassette.as_ref().map(|file| folder.join(file))
    }

    /// Builds the case, and its recording if it has one. Writes nothing.
    async fn make(
        &self,
        sessions: &Sessions,
        loaded: &Loaded,
        names: &[String],
    ) -> Result<NewCase, CommandError> {
        let run = lookup::run(sessions, &self.run).await?;
        lookup::warn_if_altered(sessions, &run.session).await;
        let run = run.run_id;
        let records = sessions.records(run).await?;
        let history = sessions.history_before(run).await?;
        let case = Case::of_run("", &history, &records);
        let mut case = case.map_err(|error| no_case(run, error))?;
        let redactor = secrets_of(&loaded.config, &loaded.environment);
        // Remove secrets first, and then cut.
        case.name = self.name(&redactor.text(&case.message), names)?;
        let view = RunView::of(&records);
        let contains_secrets = contains_secrets(&view, &redactor);
        let mut notes = notes(run, &view);
        if self.stored {
            case = case.stored(run);
            (case.message, case.history) = (String::new(), Vec::new());
            return Ok(NewCase {
                run,
                case,
                recording: None,
                contains_secrets: false,
                notes,
            });
        }
        if let Some(approved) = approved(&records) {
            notes.push(format!(
                "Calls of {approved} were approved: they are denied unless the case lists them in `approve` and is \
                 run with --approve"
            ));
        }
        let decision = view.decision();
        case.role = decision.and_then(|it| named_role(&case, it, &loaded.config));
        let left_out = left_out(&history, &records, &view, &loaded.config);
        if let Some(left_out) = &left_out {
            notes.push(format!(
                "Models read more in the run than a case can hold: {left_out}"
            ));
        }
        let mut recording = None;
        if let Some(file) = &self.cassette {
            if let Some(left_out) = left_out {
                let why = format!("models read more in the run than a case can hold: {left_out}");
                return Err(not_repeatable(run, &why));
            }
            let made = recording_of(run, &view, &records, history, loaded, redactor)?;
            recording = Some(made);
            case.source = Source::Cassette(file.clone());
        }
        Ok(NewCase {
            run,
            case,
            recording,
            contains_secrets,
            notes,
        })
    }

    /// Returns the names of the cases already in the file.
    fn names(&self) -> Result<Vec<String>, CommandError> {
        match EvalFile::read(&self.file) {
            Ok(file) => Ok(file.cases.into_iter().map(|case| case.name).collect()),
            Err(FileFault::Empty) => Ok(Vec::new()),
            Err(fault) => Err(super::run::unreadable(&self.file, fault)),
        }
    }

    /// Returns a name that no other case in the file has.
    fn name(&self, question: &str, there: &[String]) -> Result<String, CommandError> {
        if let Some(name) = &self.name {
            if there.contains(name) {
                let error = anyhow!("{} already has a case \"{name}\"", self.file.display());
                return Err(CommandError::usage(error).hint("choose another --name"));
            }
            return Ok(name.clone());
        }
        let base = one_line_of(question, MAX_NAME_CHARS);
        let numbered = (2..).map(|number| format!("{base} ({number})"));
        let mut names = std::iter::once(base.clone()).chain(numbered);
        let name = names.find(|name| !there.contains(name));
        Ok(name.unwrap_or_default())
    }
}

/// Removes secrets from each string of a case separately, so that no pattern matches beyond the end of one.
fn without_secrets(written: &str, secrets: &Redactor) -> String {
    // It was just generated, so it can be parsed.
    let Ok(mut document) = written.parse::<DocumentMut>() else {
        return secrets.text(written).into_owned();
    };
    clean_table(document.as_table_mut(), secrets);
    document.to_string()
}

fn clean_table(table: &mut dyn TableLike, secrets: &Redactor) {
    for (_, item) in table.iter_mut() {
        if let Some(tables) = item.as_array_of_tables_mut() {
            for table in tables.iter_mut() {
                clean_table(table, secrets);
            }
        } else if let Some(table) = item.as_table_like_mut() {
            clean_table(table, secrets);
        } else if let Some(value) = item.as_value_mut() {
            clean_value(value, secrets);
        }
    }
}

fn clean_value(value: &mut Value, secrets: &Redactor) {
    match value {
        Value::String(text) => {
            if let Cow::Owned(clean) = secrets.text(text.value()) {
                *text = Formatted::new(clean);
            }
        }
        Value::Array(items) => {
            for item in items.iter_mut() {
                clean_value(item, secrets);
            }
        }
        Value::InlineTable(table) => clean_table(table, secrets),
        _ => {}
    }
}

/// Reads a file, if it exists and is not empty.
fn read_if_exists(file: &Path) -> Result<Option<String>, CommandError> {
    match fs::read_to_string(file) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => {
            let error =
                anyhow::Error::new(error).context(format!("cannot read {}", file.display()));
            Err(CommandError::usage(error).hint("check the path"))
        }
    }
}

/// Returns the role that served, if policy would choose another one for the case but allows this one, too.
fn named_role(case: &Case, decision: &Decision, config: &Config) -> Option<Role> {
    let roles: Vec<Role> = config.models().keys().cloned().collect();
    let mut request = Request::new(&case.mode, &case.channel, &case.message).with_roles(&roles);
    request.agent = case.agent.as_ref();
    // A refusal by policy is reported when the case is run.
    let chosen = config.policy().evaluate_request(&request).ok()?;
    let is_same =
        chosen.role == decision.role && chosen.routing.is_some() == decision.routing.is_some();
    let is_named = !is_same && chosen.allowed_roles.contains(&decision.role);
    is_named.then(|| decision.role.clone())
}

/// Lists what models read in the run that the case lacks. `None` if the case asks exactly the same.
fn left_out(
    history: &Transcript,
    records: &[Arc<Record>],
    view: &RunView,
    config: &Config,
) -> Option<String> {
    let parts = Case::left_out(history, records);
    let mut parts: Vec<String> = parts.iter().map(ToString::to_string).collect();
    let told = view.spec().and_then(|spec| spec.root.system_prompt.clone());
    if told.is_some_and(|prompt| holds_instructions(&prompt)) {
        parts.push("the instructions from the project's own files (AGENTS.md)".to_owned());
    }
    if has_own_schema(view, config) {
        parts.push("the required form of the answer (--schema)".to_owned());
    }
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// Returns whether a run's system prompts or tool definitions contain a secret.
fn contains_secrets(view: &RunView, secrets: &Redactor) -> bool {
    let holds_one = |text: &str| matches!(secrets.text(text), Cow::Owned(_));
    let spec = view.spec().into_iter();
    let mut agents = spec.flat_map(|spec| spec.all_agents());
    agents.any(|agent| {
        let mut tools = agent.tools.iter();
        agent.system_prompt.as_deref().is_some_and(holds_one)
            || tools.any(|tool| holds_one(&tool.description) || holds_one(tool.parameters.as_str()))
    })
}

/// Returns whether the answer's schema came with the question: a case only has that of its agent.
fn has_own_schema(view: &RunView, config: &Config) -> bool {
    let policy = config.policy();
    let form = view.spec().and_then(|spec| spec.root.answer_schema());
    let agent = view.decision().and_then(|it| policy.agent_of(it));
    let agent = agent.and_then(|name| policy.agent(name));
    let own = agent.and_then(|agent| agent.answer.schema.as_ref());
    let read = |schema: &JsonText| schema.decode::<serde_json::Value>().ok();
    form.is_some() && form.and_then(read) != own.and_then(read)
}

/// Builds a recording of a run that has ended, unless the definitions of its tools have changed since.
fn recording_of(
    run: RunId,
    view: &RunView,
    records: &[Arc<Record>],
    history: Transcript,
    loaded: &Loaded,
    redactor: Redactor,
) -> Result<Cassette, CommandError> {
    let now = tool_specs(&loaded.config, &loaded.environment)?;
    let agents = view.spec().into_iter();
    let agents = agents.flat_map(|spec| spec.agents.values().chain([&spec.root]));
    let changed = changed_tools(agents.flat_map(|agent| agent.tools.iter()), &now);
    if !changed.is_empty() {
        let names = Vec::from_iter(changed).join(", ");
        let why =
            format!("the descriptions or parameters of these tools have changed since: {names}");
        return Err(not_repeatable(run, &why));
    }
    if view.finish().is_none() {
        return Err(unended(run));
    }
    let made = Cassette::from_records(history, records, redactor);
    let made = made.with_context(|| format!("run {run} cannot be turned into a recording"));
    made.map_err(CommandError::failed)
}

/// Returns the tools of this program whose definitions differ from those in the run, for example because of another
/// version.
fn changed_tools<'a>(
    offered: impl Iterator<Item = &'a ToolSpec>,
    now: &[ToolSpec],
) -> BTreeSet<&'a str> {
    let is_changed = |tool: &&ToolSpec| {
        let mut same = now.iter().filter(|known| known.name == tool.name);
        same.any(|known| {
            known.description != tool.description || known.parameters != tool.parameters
        })
    };
    let changed = offered.filter(is_changed);
    changed.map(|tool| tool.name.as_str()).collect()
}

/// Returns the error for a run whose requests a case would not repeat exactly; a recording answers only those.
fn not_repeatable(run: RunId, why: &str) -> CommandError {
    let error = anyhow!("a recording of run {run} could not answer a case: {why}");
    CommandError::failed(error).hint(
        "`--stored` creates a case about the stored run; without `--cassette` the case asks a model",
    )
}

/// Returns the error for an unfinished run, whose recording would end before its answer.
fn unended(run: RunId) -> CommandError {
    let error = anyhow!("run {run} has not ended: a recording of it would end before its answer");
    CommandError::failed(error)
        .hint("add it once it has ended; without `--cassette` the case asks a model")
}

fn no_case(run: RunId, error: neuraxis::evals::NoCase) -> CommandError {
    let error = anyhow::Error::new(error).context(format!("cannot create a case from run {run}"));
    CommandError::failed(error).hint(format!("inspect it with `neuraxis runs show {run}`"))
}

#[cfg(test)]
mod tests {
    use neuraxis::core::JsonText;

    use super::*;

    #[test]
    fn tools_whose_definitions_changed_are_named() {
        let tool = |name: &str, about: &str| ToolSpec::new(name.parse().unwrap(), about);
        let now = [tool("a", "A."), tool("b", "B."), tool("c", "C.")];
        let schema = JsonText::from_text(r#"{"type":"object","properties":{}}"#);
        let offered = [
            tool("a", "A."),
            tool("b", "Something else."),
            tool("c", "C.").parameters(schema),
            tool("elsewhere", "D."),
        ];
        let changed = changed_tools(offered.iter(), &now);
        assert_eq!(Vec::from_iter(changed), ["b", "c"]);
    }
}
