//! `neuraxis approvals approve` and `deny`: resumes a run that waits for approval.

use std::fs::Metadata;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use anyhow::anyhow;
use clap::Args;
use neuraxis::brainstem::{Call, files_named};
use neuraxis::core::jiff::Timestamp;
use neuraxis::core::{ApprovalDecision, GrantScope, JsonText, Record, RecordBody, Seq, ToolClass};
use neuraxis::engine::{DecideError, Decided, ResumeError, SystemClock, WaitingApproval};
use neuraxis::ports::Clock;
use neuraxis_app::{App, CassetteUse};

use super::super::ask::{self, Attended, Format, View};
use super::show;
use super::waiting::{self, CallSelector};
use crate::approve::{IfUnattended, folder_elsewhere, safe_words, spec_of, user_name};
use crate::command::lookup;
use crate::confirm;
use crate::error::CommandError;
use crate::invocation::again;
use crate::progress;
use crate::setup::{Setup, with_app};
use crate::terminal;

const APPROVE_EXAMPLES: &str = "\
Examples:
  neuraxis approvals approve last 4f8a1c2b9d3e5f60
  neuraxis approvals approve last 4f8a1c2b9d3e5f60 --arguments '{\"path\": \"notes.txt\"}'";

const DENY_EXAMPLES: &str = "\
Examples:
  neuraxis approvals deny last 4f8a1c2b9d3e5f60 --reason \"read it first\"";

/// Allow a call once, resume its run, and print the answer
///
/// Only the named question is answered; `approvals show` prints its name. Without a name, the question is shown and you
/// are asked at the terminal. If another process has the run, that process resumes it.
#[derive(Debug, Args)]
#[command(after_help = APPROVE_EXAMPLES)]
pub(crate) struct Approve {
    #[command(flatten)]
    which: CallSelector,

    /// Use these arguments instead; they are checked again
    #[arg(long, value_name = "JSON", value_parser = json)]
    arguments: Option<JsonText>,

    /// Also allow such calls for the rest of the session: the N-th choice that `approvals show` offers
    #[arg(long, value_name = "N", conflicts_with = "arguments")]
    for_session: Option<usize>,

    /// What to print: the answer, one JSON object with the whole result, or one JSON object per line for each event
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// Deny a call, resume its run without it, and print the answer
///
/// Only the named question is answered; `approvals show` prints its name. Without a name, the question is shown and you
/// are asked at the terminal. If another process has the run, that process resumes it.
#[derive(Debug, Args)]
#[command(after_help = DENY_EXAMPLES)]
pub(crate) struct Deny {
    #[command(flatten)]
    which: CallSelector,

    /// The reason, for the model
    #[arg(long)]
    reason: Option<String>,

    /// What to print: the answer, one JSON object with the whole result, or one JSON object per line for each event
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

fn json(text: &str) -> Result<JsonText, String> {
    match serde_json::from_str::<serde_json::Value>(text) {
        Ok(_) => Ok(JsonText::from_text(text)),
        Err(error) => Err(format!("it must be JSON: {error}")),
    }
}

impl Approve {
    pub(crate) async fn run(self, setup: &Setup) -> Result<(), CommandError> {
        let (arguments, number) = (self.arguments, self.for_session);
        let verb = Verb::Allow(arguments.clone());
        let decision = move |waiting: &WaitingApproval| {
            let remember = number.map(|number| chosen(waiting, number)).transpose()?;
            Ok(ApprovalDecision::Approve {
                arguments,
                remember,
            })
        };
        decide(setup, &self.which, (verb, decision), self.format).await
    }
}

impl Deny {
    pub(crate) async fn run(self, setup: &Setup) -> Result<(), CommandError> {
        let reason = self.reason;
        let decision = |_: &WaitingApproval| Ok(ApprovalDecision::Deny { reason });
        decide(setup, &self.which, (Verb::Deny, decision), self.format).await
    }
}

async fn decide(
    setup: &Setup,
    which: &CallSelector,
    (verb, decision): (
        Verb,
        impl FnOnce(&WaitingApproval) -> Result<ApprovalDecision, CommandError>,
    ),
    format: Format,
) -> Result<(), CommandError> {
    let loaded = setup.load()?;
    // If nobody is at the terminal, further questions of the run wait as this one did.
    let mut attended = Attended::new(&loaded.config, IfUnattended::Wait)?;
    let app = attended.app(&loaded, CassetteUse::Off).await?;
    let root = loaded.config.project_root();
    let decided = with_app(app, async |app| {
        let question = find_question(app, which, (root, &verb)).await?;
        decide_in(app, &mut attended, question, decision, format).await
    });
    decided.await
}

/// The question to answer, and the records of its run so far.
struct OpenQuestion {
    waiting: WaitingApproval,
    records: Vec<Arc<Record>>,
}

/// The decision about a call.
#[derive(Debug)]
enum Verb {
    /// Allow the call, with these arguments instead if given.
    Allow(Option<JsonText>),
    Deny,
}

impl Verb {
    const fn prompt(&self) -> &'static str {
        match self {
            Self::Allow(_) => "Allow it?",
            Self::Deny => "Deny it?",
        }
    }

    const fn given(&self) -> Option<&JsonText> {
        match self {
            Self::Allow(given) => given.as_ref(),
            Self::Deny => None,
        }
    }
}

/// Shown if files were changed meanwhile, or the question expired.
const CHANGED: &str = "\nThis has changed since it was shown. It is now:\n";

/// Returns the question to answer. A question that was not named is shown to the user at the terminal, who confirms it,
/// so that no question is answered unseen. The same applies to allowing a call after one of the files it changes was
/// changed: the user saw what the call would have done before that.
async fn find_question(
    app: &App,
    which: &CallSelector,
    (root, verb): (&Path, &Verb),
) -> Result<OpenQuestion, CommandError> {
    let waiting = waiting::one(app, which).await?;
    let sessions = app.orchestrator.sessions();
    lookup::check_unaltered(&sessions, &waiting.session_id).await?;
    let run = waiting.run_id;
    let records = sessions.records(run).await?;
    if let Some(folder) = folder_elsewhere(&records, root) {
        return Err(ResumeError::Elsewhere { run, folder }.into());
    }
    app.orchestrator.runs().check_policy(run, &records)?;
    if which.names_question() {
        let changed = match verb {
            Verb::Allow(given) => changed_since(app, &waiting, given.as_ref(), root),
            Verb::Deny => None,
        };
        match changed.filter(|_| confirm::can_ask_user()) {
            Some(file) => {
                let file = safe_words(&file);
                progress::notice(&format!("{file} was changed after this question was asked"));
            }
            None => return Ok(OpenQuestion { waiting, records }),
        }
    }
    let name = waiting.question();
    if !confirm::can_ask_user() {
        let error = anyhow!("name the question of run {run} that you are answering");
        return Err(CommandError::usage(error)
            .hint(format!(
                "`neuraxis approvals show {run}` shows what would run"
            ))
            .hint(format!(
                "the waiting question is {name}: add that to the command once you have read it"
            )));
    }
    let columns = terminal::width(std::io::stderr());
    let tools = app.orchestrator.tools();
    let in_full = || show::in_full((&waiting, &records), verb.given(), &tools, root, columns);
    let mut stderr = anstream::stderr();
    let mut shown = in_full();
    loop {
        stderr.write_all(shown.as_bytes())?;
        if !confirm::ask_yes_no(verb.prompt())? {
            let error = anyhow!("no decision was made: the call is still waiting");
            return Err(CommandError::failed(error));
        }
        let now = in_full();
        if now == shown {
            break;
        }
        stderr.write_all(CHANGED.as_bytes())?;
        shown = now;
    }
    Ok(OpenQuestion { waiting, records })
}

/// Returns a file that a call would change, with `given` arguments if any, and that was changed after the call was
/// asked about.
fn changed_since(
    app: &App,
    waiting: &WaitingApproval,
    given: Option<&JsonText>,
    root: &Path,
) -> Option<String> {
    let tools = app.orchestrator.tools();
    let asked = &waiting.request;
    let spec = spec_of(&tools, &asked.name).filter(|spec| spec.class != ToolClass::ReadOnly)?;
    // A model may name files by their real paths.
    let real = root.canonicalize();
    let from = real.as_deref().unwrap_or(root).to_string_lossy();
    let call = Call::new(spec, given.unwrap_or(&asked.arguments)).with_root(&from);
    let is_changed = |file: &String| {
        let about = root.join(file).metadata().ok()?;
        Some(about.is_file() && changed_at(&about)? > waiting.requested_at)
    };
    let mut files = files_named(&call).into_iter();
    files.find(|file| is_changed(file) == Some(true))
}

/// Returns when the file at this path last changed. A file that was moved here may have kept an older modification
/// time.
#[cfg(unix)]
fn changed_at(about: &Metadata) -> Option<Timestamp> {
    use std::os::unix::fs::MetadataExt as _;

    Timestamp::new(about.ctime(), i32::try_from(about.ctime_nsec()).ok()?).ok()
}

/// Returns when a file was last modified.
#[cfg(not(unix))]
fn changed_at(about: &Metadata) -> Option<Timestamp> {
    let at = about.modified().ok()?.duration_since(std::time::UNIX_EPOCH);
    Timestamp::from_nanosecond(i128::try_from(at.ok()?.as_nanos()).ok()?).ok()
}

async fn decide_in(
    app: &App,
    attended: &mut Attended,
    OpenQuestion { waiting, records }: OpenQuestion,
    decision: impl FnOnce(&WaitingApproval) -> Result<ApprovalDecision, CommandError>,
    format: Format,
) -> Result<(), CommandError> {
    let decision = decision(&waiting)?;
    let approvals = app.orchestrator.approvals();
    let decided = approvals.decide_and_resume(&waiting, decision, Some(user_name()));
    let run = match decided.await.map_err(|error| stuck(error, &waiting))? {
        Decided::Continues(run) => run,
        Decided::LeftToHolder => {
            let run = waiting.run_id;
            let note = format!(
                "the decision is stored; the process that has the run continues with it. If that process has died: \
                 `neuraxis runs resume {run}`"
            );
            progress::notice(&again(&note));
            // The process that has the run treats a late decision as an expiry.
            return match waiting.expired_by(SystemClock.now()) {
                Some(at) => Err(too_late(&waiting, at)),
                None => Ok(()),
            };
        }
    };
    let view = View::new(format).skip_until(records.last().map_or(Seq(0), |record| record.seq));
    let watched = ask::watch(app, view, &run, attended).await;
    let end = waiting.request.expires_at;
    let Some(at) = end.filter(|_| has_expired(&waiting, &run.records())) else {
        return watched;
    };
    match watched {
        Err(error) if error.is_output_closed() || error.interruption().is_some() => Err(error),
        watched => {
            if let Err(error) = watched {
                error.print();
            }
            Err(too_late(&waiting, at))
        }
    }
}

/// Returns the error for a run that does not resume after a decision.
fn stuck(error: DecideError, waiting: &WaitingApproval) -> CommandError {
    match error {
        DecideError::Arguments(error) => CommandError::usage(error).hint("the call is still waiting"),
        DecideError::Resume(
            error @ (ResumeError::Elsewhere { .. }
            | ResumeError::Imported(_)
            | ResumeError::NoFolder(_)
            | ResumeError::ServerAway { .. }
            | ResumeError::NotConfigured { .. }),
        ) => error.into(),
        DecideError::Resume(ResumeError::NotAsked(_)) => {
            let run = waiting.run_id;
            let error = anyhow!("another decision was made first, and it stands");
            CommandError::failed(error)
                .hint(format!("`neuraxis runs show {run}` shows that decision"))
        }
        // For example because another run was started instead, which no process is driving yet.
        error @ (DecideError::Resume(ResumeError::Ended(_))
        | DecideError::StoredOnly(ResumeError::Ended(_))) => CommandError::failed(error).hint(
            "`neuraxis runs list` shows whether another run replaces it; `neuraxis runs resume RUN` resumes that one",
        ),
        error => CommandError::failed(error),
    }
}

/// Returns whether a question expired, according to the records of its run.
fn has_expired(waiting: &WaitingApproval, records: &[Arc<Record>]) -> bool {
    records.iter().any(|record| match &record.body {
        RecordBody::ApprovalDecided(decided) => {
            decided.tool_call_id == waiting.request.tool_call_id
                && decided.decision == ApprovalDecision::Expired
        }
        _ => false,
    })
}

/// Returns the error for a decision that came too late.
fn too_late(waiting: &WaitingApproval, at: Timestamp) -> CommandError {
    let run = waiting.run_id;
    let error = anyhow!("the question expired at {at}, before you decided: the call is not run");
    let error = error.context("the decision came too late");
    CommandError::failed(error).hint(format!("`neuraxis runs show {run}` shows its result"))
}

/// Returns the scope to remember.
fn chosen(waiting: &WaitingApproval, number: usize) -> Result<GrantScope, CommandError> {
    let choices = &waiting.request.choices;
    let choice = number.checked_sub(1).and_then(|place| choices.get(place));
    choice.cloned().ok_or_else(|| {
        let error = anyhow!(
            "there is no choice {number}: the number of choices is {}",
            choices.len()
        );
        CommandError::usage(error).hint("`neuraxis approvals show` lists them")
    })
}
