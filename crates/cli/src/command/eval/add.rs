//! `neuraxis eval add`: a stored run becomes a case.

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

use self::notes::{approved, notes, said_by_defaults};
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

/// The most characters of a name that is made of a question.
const MAX_NAME_CHARS: usize = 60;

/// Said where a case is not what the run was.
const SECRETS_LEFT_OUT: &str = "a key or another secret stood in what the case says, as an ordinary word may, and was taken \
    out: read what it asks and checks now";

const EXAMPLES: &str = "\
Examples:
  neuraxis eval add evals.toml last
  neuraxis eval add evals.toml 9b7a5c31 --name \"books the flight\"
  neuraxis eval add evals.toml 9b7a5c31 --cassette flight.cassette
  neuraxis eval add evals.toml 9b7a5c31 --stored";

/// Turn a stored run into a case, at the end of a file
///
/// The case asks the same again, with what was said before, and checks that the same tools are called, that the run ends with
/// an answer, and in no more turns. Read it and say what matters: the answer stands above it as a comment.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Add {
    /// The file of cases; made if it is missing
    file: PathBuf,

    /// The run: its id, the beginning or the end of it, or last
    #[arg(add = ArgValueCompleter::new(completion::runs))]
    run: String,

    /// What the case is called; the beginning of the question if left out
    #[arg(long)]
    name: Option<String>,

    /// Write what the models said to this new file, and let it answer in their place; by its path from the file of cases
    #[arg(long, value_name = "FILE", conflicts_with = "stored")]
    cassette: Option<PathBuf>,

    /// Let the case be about the run as it is stored: no model is asked, and nothing runs
    #[arg(long)]
    stored: bool,
}

/// A case on its way into a file.
struct Made {
    run: RunId,
    case: Case,
    /// What answers in place of the models, if the case is to have that.
    recording: Option<Cassette>,
    /// Whether a secret stands in what models were told besides what the case says, which is written without any.
    tells_secrets: bool,
    /// What a person should know who edits it, a line each.
    notes: Vec<String>,
}

impl Add {
    pub(super) async fn run(self, setup: &Setup) -> Result<(), CommandError> {
        let destination = destination(&self.file)?;
        let before = match &destination {
            Destination::File(_) => read_if_there(&self.file)?,
            // Whatever else it is takes the case and holds none: reading a pipe may never end.
            Destination::Other(_) => None,
        };
        let cassette = self.cassette_file();
        let recording = cassette.as_deref().map(Destination::of);
        if recording.is_some_and(|file| file.is_ok_and(|file| file == destination)) {
            let error = anyhow!("--cassette names the file of the cases");
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
            CommandError::usage(error).hint("write its cases as [[case]], not as one list")
        })?;
        // Not before the case can be added: what is there is not replaced by another attempt.
        if let (Some(recording), Some(its_file)) = (&made.recording, &cassette) {
            let saved = save_recording(recording, its_file, secrets.clone())?;
            if made.tells_secrets
                && let Some(notice) = secrets_notice(&saved, its_file)
            {
                progress::warn(&notice);
            }
        }
        write(&destination, &secrets.without_patterns().text(&text))?;
        if is_changed {
            progress::warn(SECRETS_LEFT_OUT);
        }
        for key in said_by_defaults(&document, case) {
            progress::warn(&format!(
                "the case has the {key} that [defaults] of {file} names, and the run was asked without one"
            ));
        }
        let (name, checks) = (one_line(&case.name), case.checks.len() as u64);
        let checks = counted(checks, "check");
        let added = format!("{file}: added case \"{name}\" with {checks}");
        match destination {
            Destination::File(_) => Output::new().line(&added)?,
            // On standard output, where that is what takes it, stands the case alone.
            Destination::Other(_) => progress::done(&added),
        }
        let again = neuraxis();
        progress::done(&format!("to run it: {again} eval {file}"));
        Ok(())
    }

    /// Returns the file of the recording, which stands in the file by its path from there.
    fn cassette_file(&self) -> Option<PathBuf> {
        let folder = self.file.parent().unwrap_or_else(|| Path::new(""));
        self.cassette.as_ref().map(|file| folder.join(file))
    }

    /// Makes the case, and its recording if it is to have one. Nothing is written.
    async fn make(
        &self,
        sessions: &Sessions,
        loaded: &Loaded,
        names: &[String],
    ) -> Result<Made, CommandError> {
        let run = lookup::run(sessions, &self.run).await?;
        lookup::warn_if_altered(sessions, &run.session).await;
        let run = run.run_id;
        let records = sessions.records(run).await?;
        let history = sessions.history_before(run).await?;
        let case = Case::of_run("", &history, &records);
        let mut case = case.map_err(|error| no_case(run, error))?;
        let redactor = secrets_of(&loaded.config, &loaded.environment);
        // First without secrets, then cut.
        case.name = self.name(&redactor.text(&case.message), names)?;
        let view = RunView::of(&records);
        let tells_secrets = tells_secrets(&view, &redactor);
        let mut notes = notes(run, &view);
        if self.stored {
            case = case.stored(run);
            (case.message, case.history) = (String::new(), Vec::new());
            return Ok(Made {
                run,
                case,
                recording: None,
                tells_secrets: false,
                notes,
            });
        }
        if let Some(approved) = approved(&records) {
            notes.push(format!(
                "Calls of {approved} were approved: they are denied unless the case says so by `approve`, and is run with \
                 --approve"
            ));
        }
        let decision = view.decision();
        case.role = decision.and_then(|it| named_role(&case, it, &loaded.config));
        let left_out = left_out(&history, &records, &view, &loaded.config);
        if let Some(left_out) = &left_out {
            notes.push(format!(
                "Models read more in it, which a case does not hold: {left_out}"
            ));
        }
        let mut recording = None;
        if let Some(file) = &self.cassette {
            if let Some(left_out) = left_out {
                let why = format!("models read more in it, which a case does not hold: {left_out}");
                return Err(unlike(run, &why));
            }
            let made = recording_of(run, &view, &records, history, loaded, redactor)?;
            recording = Some(made);
            case.source = Source::Cassette(file.clone());
        }
        Ok(Made {
            run,
            case,
            recording,
            tells_secrets,
            notes,
        })
    }

    /// Returns the names of the cases that the file holds already.
    fn names(&self) -> Result<Vec<String>, CommandError> {
        match EvalFile::read(&self.file) {
            Ok(file) => Ok(file.cases.into_iter().map(|case| case.name).collect()),
            Err(FileFault::Empty) => Ok(Vec::new()),
            Err(fault) => Err(super::run::unreadable(&self.file, fault)),
        }
    }

    /// Returns a name that no other case of the file has.
    fn name(&self, question: &str, there: &[String]) -> Result<String, CommandError> {
        if let Some(name) = &self.name {
            if there.contains(name) {
                let error = anyhow!("{} has a case \"{name}\" already", self.file.display());
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

/// Takes secrets out of each text of a case, so that none of its patterns eats the end of one.
fn without_secrets(written: &str, secrets: &Redactor) -> String {
    // It was just written: it can be read.
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

/// Reads what stands in a file, if there is one with anything in it.
fn read_if_there(file: &Path) -> Result<Option<String>, CommandError> {
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

/// Returns the role that served, where policy would choose another one for the case, and lets that one serve, too.
fn named_role(case: &Case, decision: &Decision, config: &Config) -> Option<Role> {
    let roles: Vec<Role> = config.models().keys().cloned().collect();
    let mut request = Request::new(&case.mode, &case.channel, &case.message).with_roles(&roles);
    request.agent = case.agent.as_ref();
    // What policy refuses now is told when the case is run.
    let chosen = config.policy().evaluate_request(&request).ok()?;
    let is_same =
        chosen.role == decision.role && chosen.routing.is_some() == decision.routing.is_some();
    let is_named = !is_same && chosen.allowed_roles.contains(&decision.role);
    is_named.then(|| decision.role.clone())
}

/// Names what models read in the run that the case does not hold, for a person; nothing if it asks the very same.
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
        parts.push("what the project's own files told the agent (AGENTS.md)".to_owned());
    }
    if brought_a_form(view, config) {
        parts.push("the form that the answer was to have (--schema)".to_owned());
    }
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// Tells whether a secret stands in what the agents of a run are told of themselves and of their tools.
fn tells_secrets(view: &RunView, secrets: &Redactor) -> bool {
    let holds_one = |text: &str| matches!(secrets.text(text), Cow::Owned(_));
    let spec = view.spec().into_iter();
    let mut agents = spec.flat_map(|spec| spec.all_agents());
    agents.any(|agent| {
        let mut tools = agent.tools.iter();
        agent.system_prompt.as_deref().is_some_and(holds_one)
            || tools.any(|tool| holds_one(&tool.description) || holds_one(tool.parameters.as_str()))
    })
}

/// Tells whether the answer was to have a form that came with the question: a case has that of its agent alone.
fn brought_a_form(view: &RunView, config: &Config) -> bool {
    let policy = config.policy();
    let form = view.spec().and_then(|spec| spec.root.answer_schema());
    let agent = view.decision().and_then(|it| policy.agent_of(it));
    let agent = agent.and_then(|name| policy.agent(name));
    let own = agent.and_then(|agent| agent.answer.schema.as_ref());
    let read = |schema: &JsonText| schema.decode::<serde_json::Value>().ok();
    form.is_some() && form.and_then(read) != own.and_then(read)
}

/// Makes a recording of a run that has ended, unless models are told otherwise of its tools by now.
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
        let why = format!("models are now told otherwise of tools that they were offered: {names}");
        return Err(unlike(run, &why));
    }
    if view.finish().is_none() {
        return Err(unended(run));
    }
    let made = Cassette::from_records(history, records, redactor);
    let made = made.with_context(|| format!("run {run} cannot be turned into a recording"));
    made.map_err(CommandError::failed)
}

/// Names the tools of this program of which the models of a run were told something else than they would be now, such as by another
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

/// A recording answers what was asked in the run, to the letter.
fn unlike(run: RunId, why: &str) -> CommandError {
    let error = anyhow!("a recording of run {run} could not answer a case: {why}");
    CommandError::failed(error).hint(
        "`--stored` makes a case about the run as it is; without `--cassette` the case asks a model",
    )
}

/// A recording of a run that goes on ends before its answer.
fn unended(run: RunId) -> CommandError {
    let error = anyhow!("run {run} has not ended: a recording of it would end before its answer");
    CommandError::failed(error)
        .hint("add it once it has ended; without `--cassette` the case asks a model")
}

fn no_case(run: RunId, error: neuraxis::evals::NoCase) -> CommandError {
    let error = anyhow::Error::new(error).context(format!("no case can be made of run {run}"));
    CommandError::failed(error).hint(format!("`neuraxis runs show {run}` shows what it holds"))
}

#[cfg(test)]
mod tests {
    use neuraxis::core::JsonText;

    use super::*;

    #[test]
    fn tools_of_which_models_were_told_otherwise_are_named() {
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
