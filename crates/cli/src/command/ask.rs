//! `neuraxis ask`: one question, one answer.

mod answer;
mod message;
mod narrator;
mod page;
mod reception;
mod tape;
mod view;
mod waiting;

use clap::{Args, ValueEnum};
use neuraxis::engine::{Delivery, UuidV7};
use neuraxis::ports::Ids;
use neuraxis::{
    Channel, Events, FinishReason, Mode, OrchestratorResult, RunHandle, RunStatus, SessionId,
    UserRequest,
};
use neuraxis_app::{App, Tape};

use crate::approve::WhenAway;
use crate::error::CommandError;
use crate::interrupt::Interrupt;
use crate::progress::Progress;
use crate::setup::Setup;
use tape::TapeArguments;

pub(in crate::command) use reception::Reception;
use view::Attendance;
pub(in crate::command) use view::View;

const EXAMPLES: &str = "\
Examples:
  neuraxis ask \"What time is it in Tokyo?\"
  neuraxis ask --channel system_health \"How is this machine?\"
  neuraxis ask --channel code_task \"Where is the turn loop?\"
  git diff | neuraxis ask -
  neuraxis ask --format json \"What time is it?\" | jq -r .reply
  neuraxis ask --format events \"What time is it?\" | jq -r .type
  neuraxis ask --wait --set store.url=sqlite://sessions.db \"What time is it?\"
  neuraxis ask --record time.cassette \"What time is it?\"
  neuraxis ask --replay time.cassette \"What time is it?\"";

/// Ask a question and print the answer
///
/// The answer goes to standard output as it comes, everything else to standard error. Without TEXT, or with - in its
/// place, the question is read from standard input.
///
/// A call that needs approval is shown at the terminal, and you decide. Where nobody can be asked it is denied; with
/// --wait the run waits instead, and `neuraxis approvals` answers it. Exit code 1 if there is no answer, also while it
/// waits.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Ask {
    /// The question; - reads it from standard input
    text: Option<String>,

    /// Where the request comes from: chat, code_task, system_health, deep_research or one of your own
    #[arg(long, default_value = "chat")]
    channel: String,

    /// How much freedom it has: conservative, moderate, exploratory or one of your own
    #[arg(long, default_value = "moderate")]
    mode: String,

    /// The session it belongs to, a new one if left out; in this build it ends with the command
    #[arg(long, value_name = "ID")]
    session: Option<SessionId>,

    /// What to print: the answer, one JSON object with the whole result, or one JSON object a line for each event
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,

    /// Ask the model for its replies whole, instead of as they come
    #[arg(long)]
    no_stream: bool,

    /// Where nobody can be asked for approval, leave the run waiting instead of denying the call
    #[arg(long)]
    wait: bool,

    #[command(flatten)]
    tape: TapeArguments,
}

/// What to print.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(in crate::command) enum Format {
    /// The answer
    Text,
    /// The result as one JSON object
    Json,
    /// Records and live events, one JSON object a line
    Events,
}

impl Ask {
    pub(crate) async fn run(self, setup: &Setup) -> Result<(), CommandError> {
        let tape = self.tape.tape();
        let is_replay = matches!(tape, Tape::Replay(_));
        let reception = Reception::new(setup, self.when_away())?;
        let app = reception.app(setup, tape).await?;
        let tapes = app.tapes.clone();
        let answered = self.answer(&app, reception).await;
        let finished = tapes.finish();
        answered.map_err(|error| match is_replay && error.is_failure() {
            true => error.hint("record it anew with --record, or ask what was recorded"),
            false => error,
        })?;
        let progress = Progress::new();
        for notice in finished.map_err(CommandError::failed)? {
            progress.warn(&notice);
        }
        Ok(())
    }

    const fn when_away(&self) -> WhenAway {
        if self.wait {
            WhenAway::Wait
        } else {
            WhenAway::Deny
        }
    }

    async fn answer(self, app: &App, mut reception: Reception) -> Result<(), CommandError> {
        let view = View::new(self.format);
        let (handle, events) = app.orchestrator.stream(self.request()?).await?;
        for notice in &app.notices {
            view.notice(notice);
        }
        let interrupt = Interrupt::watch({
            let handle = handle.clone();
            move || cancel(&handle, "interrupted by the user")
        })
        .await;
        show(app, view, (&handle, events), &mut reception, &interrupt).await
    }

    fn request(self) -> Result<UserRequest, CommandError> {
        let message = message::read(self.text)?;
        let session = match self.session {
            Some(session) => session,
            None => new_session()?,
        };
        let delivery = if self.no_stream {
            Delivery::Whole
        } else {
            Delivery::Streamed
        };
        Ok(UserRequest::new(session, message)
            .mode(Mode::new(self.mode))
            .channel(Channel::new(self.channel))
            .delivery(delivery))
    }
}

/// Makes the id of a session that there is not yet.
pub(in crate::command) fn new_session() -> Result<SessionId, CommandError> {
    let id = UuidV7.new_id().to_string();
    id.parse().map_err(CommandError::failed)
}

/// Shows a run up to its end, asks whoever sits here, and says how it went.
pub(in crate::command) async fn show(
    app: &App,
    mut view: View,
    (handle, events): (&RunHandle, Events),
    reception: &mut Reception,
    interrupt: &Interrupt,
) -> Result<(), CommandError> {
    let around = reception.surroundings(app);
    let attendance = Attendance {
        desk: &mut reception.desk,
        around: &around,
        interrupt,
    };
    if let Err(error) = view.follow(handle, events, attendance).await {
        // Nobody reads the answer anymore. The run ends as it does on Ctrl-C: with a valid history.
        cancel(handle, "nobody reads the output");
        handle.result().await;
        return Err(error);
    }
    let Some(result) = handle.result().await else {
        let error = anyhow::anyhow!("the run crashed: this is a defect of neuraxis");
        return Err(CommandError::failed(error));
    };
    view.finish(&result)?;
    if reception.has_turned_away(handle) {
        view.notice(waiting::HOW_TO_ALLOW);
    }
    verdict(&result, interrupt)
}

/// Ends a run.
pub(in crate::command) fn cancel(handle: &RunHandle, reason: &str) {
    // A run that has ended already needs no cancelling.
    let _ = handle.cancel(reason);
}

/// Says how it went.
fn verdict(result: &OrchestratorResult, interrupt: &Interrupt) -> Result<(), CommandError> {
    if result.status == RunStatus::Done {
        return Ok(());
    }
    if result.status == RunStatus::Interrupted && interrupt.happened() {
        return Err(CommandError::interrupted());
    }
    if result.status == RunStatus::Waiting {
        return Err(waiting::of(result));
    }
    let reason = result.finish_reason.as_ref();
    let reason = reason.map_or_else(|| "for no reason".to_owned(), FinishReason::to_string);
    let error = anyhow::anyhow!(reason).context("the run did not come to an answer");
    Err(CommandError::failed(error).hint("add --format events to see every step"))
}

#[cfg(test)]
mod tests;
