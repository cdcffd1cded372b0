//! `neuraxis approvals approve` and `deny`: lets a run go on that waits for a person.

use anyhow::{Context, anyhow};
use clap::Args;
use neuraxis::core::{
    ApprovalDecided, ApprovalDecision, GrantScope, InboxInput, InputId, JsonText, Seq,
};
use neuraxis::engine::{Answer, ResumeError, ToolCallError, UuidV7};
use neuraxis::ports::{Ids, StoreError};
use neuraxis_app::{App, Tape};

use super::super::ask::{self, Format, Reception, View};
use super::waiting::{self, Waiting, Which};
use crate::approve::{WhenAway, user_name};
use crate::command::lookup;
use crate::error::CommandError;
use crate::interrupt::Interrupt;
use crate::invocation::again;
use crate::progress::Progress;
use crate::setup::Setup;

const APPROVE_EXAMPLES: &str = "\
Examples:
  neuraxis approvals approve 01990000-0000-7000-8000-000000000000
  neuraxis approvals approve 01990000-0000-7000-8000-000000000000 --arguments '{\"path\": \"notes.txt\"}'";

const DENY_EXAMPLES: &str = "\
Examples:
  neuraxis approvals deny 01990000-0000-7000-8000-000000000000 --reason \"read it first\"";

/// Allow a call once; its run goes on, and its answer is printed
///
/// Where another process has the run, that one goes on with it.
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
/// Where another process has the run, that one goes on with it.
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
        decide(setup, &self.which, decision, self.format).await
    }
}

impl Deny {
    pub(crate) async fn run(self, setup: &Setup) -> Result<(), CommandError> {
        let reason = self.reason;
        let decision = |_: &Waiting| Ok(ApprovalDecision::Deny { reason });
        decide(setup, &self.which, decision, self.format).await
    }
}

async fn decide(
    setup: &Setup,
    which: &Which,
    decision: impl FnOnce(&Waiting) -> Result<ApprovalDecision, CommandError>,
    format: Format,
) -> Result<(), CommandError> {
    // What the run asks next waits as this call did, unless somebody sits here.
    let mut reception = Reception::new(setup, WhenAway::Wait)?;
    let app = reception.app(setup, Tape::Off).await?;
    let waiting = waiting::one(app.store.as_ref(), which).await?;
    lookup::unaltered(app.store.as_ref(), &waiting.session).await?;
    let decision = decision(&waiting)?;
    fits(&app, &waiting, &decision)?;
    let decided = decided(&waiting, decision);
    let answer = Answer::Approval(decided.clone());
    let handle = match app.orchestrator.resume(waiting.run, vec![answer]).await {
        Ok(handle) => handle,
        Err(ResumeError::AtWork(_) | ResumeError::Store(StoreError::SessionBusy { .. })) => {
            let posted = InboxInput::ApprovalDecided(decided);
            let posted = app.orchestrator.post(waiting.run, posted).await;
            posted.context("the decision could not be kept")?;
            let run = waiting.run;
            let note = format!(
                "the decision is kept; the process that has the run goes on with it. If that one has died: `neuraxis runs \
                 resume {run}`"
            );
            Progress::new().notice(&again(&note));
            return Ok(());
        }
        Err(error @ ResumeError::Elsewhere { .. }) => return Err(error.into()),
        Err(error) => {
            let error = anyhow!(error).context("the run does not go on");
            return Err(CommandError::failed(error));
        }
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
    let shown = ask::show(&app, view, (&handle, events), &mut reception, &interrupt).await;
    app.close().await;
    shown
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
    }
}
