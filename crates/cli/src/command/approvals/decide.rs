//! `neuraxis approvals approve` and `deny`: lets a run go on that waits for a person.

use std::io::Write;
use std::path::Path;

use anyhow::{Context, anyhow};
use clap::Args;
use neuraxis::RunHandle;
use neuraxis::core::jiff::Timestamp;
use neuraxis::core::{
    ApprovalDecided, ApprovalDecision, GrantScope, InboxEntry, InboxInput, InputId, JsonText,
    RunId, Seq,
};
use neuraxis::engine::{Answer, ResumeError, SystemClock, ToolCallError, UuidV7};
use neuraxis::ports::{Clock, Ids, StoreError};
use neuraxis_app::{App, Tape};

use super::super::ask::{self, Format, Reception, View};
use super::show;
use super::waiting::{self, Waiting, Which};
use crate::approve::{WhenAway, user_name};
use crate::command::lookup;
use crate::confirm;
use crate::error::CommandError;
use crate::interrupt::Interrupt;
use crate::invocation::again;
use crate::progress::Progress;
use crate::setup::Setup;
use crate::terminal;

const APPROVE_EXAMPLES: &str = "\
Examples:
  neuraxis approvals approve 01990000-0000-7000-8000-000000000000 4f8a1c2b9d3e5f60
  neuraxis approvals approve 01990000-0000-7000-8000-000000000000 4f8a1c2b9d3e5f60 --arguments '{\"path\": \"notes.txt\"}'";

const DENY_EXAMPLES: &str = "\
Examples:
  neuraxis approvals deny 01990000-0000-7000-8000-000000000000 4f8a1c2b9d3e5f60 --reason \"read it first\"";

/// Allow a call once; its run goes on, and its answer is printed
///
/// It answers the question that is named, as `approvals show` names it, and no other. Without a name it shows the question
/// and asks, where somebody sits at a terminal. Where another process has the run, that one goes on with it.
#[derive(Debug, Args)]
#[command(after_help = APPROVE_EXAMPLES)]
pub(crate) struct Approve {
    #[command(flatten)]
    which: Which,

    /// Run it with these arguments instead; they are checked again
    #[arg(long, value_name = "JSON", value_parser = json)]
    arguments: Option<JsonText>,

    /// Allow such calls for the rest of the session, too: the N-th of those that `approvals show` offers
    #[arg(long, value_name = "N", conflicts_with = "arguments")]
    for_session: Option<usize>,

    /// What to print: the answer, one JSON object with the whole result, or one JSON object a line for each event
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// Deny a call; its run goes on without it, and its answer is printed
///
/// It answers the question that is named, as `approvals show` names it, and no other. Without a name it shows the question
/// and asks, where somebody sits at a terminal. Where another process has the run, that one goes on with it.
#[derive(Debug, Args)]
#[command(after_help = DENY_EXAMPLES)]
pub(crate) struct Deny {
    #[command(flatten)]
    which: Which,

    /// Why, for the model
    #[arg(long)]
    reason: Option<String>,

    /// What to print: the answer, one JSON object with the whole result, or one JSON object a line for each event
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
        let decision = move |waiting: &Waiting| {
            let remember = number.map(|number| chosen(waiting, number)).transpose()?;
            Ok(ApprovalDecision::Approve {
                arguments,
                remember,
            })
        };
        decide(setup, &self.which, ("Allow it?", decision), self.format).await
    }
}

impl Deny {
    pub(crate) async fn run(self, setup: &Setup) -> Result<(), CommandError> {
        let reason = self.reason;
        let decision = |_: &Waiting| Ok(ApprovalDecision::Deny { reason });
        decide(setup, &self.which, ("Deny it?", decision), self.format).await
    }
}

async fn decide(
    setup: &Setup,
    which: &Which,
    (prompt, decision): (
        &str,
        impl FnOnce(&Waiting) -> Result<ApprovalDecision, CommandError>,
    ),
    format: Format,
) -> Result<(), CommandError> {
    // What the run asks next waits as this call did, unless somebody sits here.
    let mut reception = Reception::new(setup, WhenAway::Wait)?;
    let app = reception.app(setup, Tape::Off).await?;
    let root = setup.config()?.project_root().to_owned();
    let meant = meant(&app, which, (&root, prompt)).await;
    let done = match meant {
        Ok(waiting) => decide_in(&app, &mut reception, waiting, decision, format).await,
        Err(error) => Err(error),
    };
    app.close().await;
    done
}

/// Returns the question that is answered. One that nobody named is shown to the person at the terminal, who says whether it
/// is meant: otherwise a question that nobody has seen would be answered.
async fn meant(
    app: &App,
    which: &Which,
    (root, prompt): (&Path, &str),
) -> Result<Waiting, CommandError> {
    let waiting = waiting::one(app.store.as_ref(), which).await?;
    lookup::unaltered(app.store.as_ref(), &waiting.session).await?;
    if which.names_question() {
        return Ok(waiting);
    }
    let (run, name) = (waiting.run, waiting.question_name());
    if !confirm::is_somebody_there() {
        let error = anyhow!("say which question of run {run} you answer");
        return Err(CommandError::usage(error)
            .hint(format!(
                "`neuraxis approvals show {run}` shows what would run"
            ))
            .hint(format!(
                "the question that waits now is {name}: add that once you have read it"
            )));
    }
    let columns = terminal::width(std::io::stderr());
    let shown = show::in_full(&waiting, app.orchestrator.tools(), root, columns);
    let mut stderr = anstream::stderr();
    stderr.write_all(shown.as_bytes())?;
    match confirm::says_yes(prompt)? {
        true => Ok(waiting),
        false => {
            let error = anyhow!("nothing was decided: the call still waits");
            Err(CommandError::failed(error))
        }
    }
}

async fn decide_in(
    app: &App,
    reception: &mut Reception,
    waiting: Waiting,
    decision: impl FnOnce(&Waiting) -> Result<ApprovalDecision, CommandError>,
    format: Format,
) -> Result<(), CommandError> {
    let decision = decision(&waiting)?;
    fits(app, &waiting, &decision)?;
    let decided = decided(&waiting, decision);
    let answer = Answer::Approval(decided.clone());
    let handle = match app.orchestrator.resume(waiting.run, vec![answer]).await {
        Ok(handle) => handle,
        Err(ResumeError::AtWork(_) | ResumeError::Store(StoreError::SessionBusy { .. })) => {
            match leave_with_holder(app, waiting.run, decided).await? {
                Some(handle) => handle,
                // Whoever has the run takes what is too late for an expiry.
                None => {
                    return match waiting.expired_by(SystemClock.now()) {
                        Some(at) => Err(too_late(&waiting, at)),
                        None => Ok(()),
                    };
                }
            }
        }
        Err(
            error @ (ResumeError::Elsewhere { .. }
            | ResumeError::Imported(_)
            | ResumeError::NoFolder(_)),
        ) => return Err(error.into()),
        Err(error) => return Err(stuck(error, "the run does not go on")),
    };
    let last = waiting.records.last();
    let view = View::new(format).after(last.map_or(Seq(0), |record| record.seq));
    for notice in &app.notices {
        view.notice(notice);
    }
    let interrupt = Interrupt::watch({
        let handle = handle.clone();
        move |signal| ask::cancel(&handle, signal.reason())
    });
    let events = handle.events();
    ask::show(app, view, (&handle, events), reception, &interrupt).await?;
    match waiting.asked.expires_at {
        Some(at) if waiting.has_expired(&handle.records()) => Err(too_late(&waiting, at)),
        _ => Ok(()),
    }
}

/// Leaves a decision with the process that has the run. Returns the run if nobody has it anymore: it goes on here.
async fn leave_with_holder(
    app: &App,
    run: RunId,
    decided: ApprovalDecided,
) -> Result<Option<RunHandle>, CommandError> {
    let decided = app.orchestrator.sign_approval(run, decided);
    let entry = InboxEntry::new(InboxInput::ApprovalDecided(decided));
    let posted = app.store.post(run, &entry).await;
    posted.context("the decision could not be kept")?;
    // A lease that ran out meanwhile leaves nobody who would look for it.
    match app.orchestrator.resume(run, Vec::new()).await {
        Ok(handle) => return Ok(Some(handle)),
        Err(
            ResumeError::AtWork(_)
            | ResumeError::Ended(_)
            | ResumeError::NothingToDo
            | ResumeError::Store(StoreError::SessionBusy { .. }),
        ) => {}
        Err(error) => {
            let what = "the decision is kept, but the run does not go on";
            return Err(stuck(error, what));
        }
    }
    let note = format!(
        "the decision is kept; the process that has the run goes on with it. If that one has died: `neuraxis runs resume \
         {run}`"
    );
    Progress::new().notice(&again(&note));
    Ok(None)
}

fn stuck(error: ResumeError, what: &'static str) -> CommandError {
    CommandError::failed(anyhow!(error).context(what))
}

/// Says that a decision came to nothing.
fn too_late(waiting: &Waiting, at: Timestamp) -> CommandError {
    let run = waiting.run;
    let error = anyhow!("it had expired at {at}, before you decided: the call is not run");
    let error = error.context("the decision came too late");
    CommandError::failed(error).hint(format!("`neuraxis runs show {run}` shows what it came to"))
}

/// Returns what is to be remembered.
fn chosen(waiting: &Waiting, number: usize) -> Result<GrantScope, CommandError> {
    let choices = &waiting.asked.choices;
    let choice = number.checked_sub(1).and_then(|place| choices.get(place));
    choice.cloned().ok_or_else(|| {
        let error = anyhow!("there is no choice {number}: {} are offered", choices.len());
        CommandError::usage(error).hint("`neuraxis approvals show` lists them")
    })
}

/// Refuses edited arguments that the tool does not take: they would use up the approval for nothing.
fn fits(app: &App, waiting: &Waiting, decision: &ApprovalDecision) -> Result<(), CommandError> {
    let ApprovalDecision::Approve {
        arguments: Some(arguments),
        ..
    } = decision
    else {
        return Ok(());
    };
    match app
        .orchestrator
        .tools()
        .check(&waiting.asked.name, arguments)
    {
        // A tool that this process does not have is checked where it is.
        Ok(_) | Err(ToolCallError::UnknownTool { .. }) => Ok(()),
        Err(error) => Err(CommandError::usage(anyhow!(error)).hint("the call still waits")),
    }
}

fn decided(waiting: &Waiting, decision: ApprovalDecision) -> ApprovalDecided {
    ApprovalDecided {
        id: InputId::new(UuidV7.new_id().to_string()),
        tool_call_id: waiting.asked.tool_call_id.clone(),
        // Bound to what was asked: arguments that changed meanwhile are not allowed by it.
        arguments_hash: waiting.asked.arguments_hash,
        decision,
        by: Some(user_name()),
        code: None,
    }
}
