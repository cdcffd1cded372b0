//! A conversation: where it stands, and what is done with what the user says.

use anyhow::anyhow;
use neuraxis::core::{PlanName, RunId, Seq};
use neuraxis::engine::{RequestError, ResumeError};
use neuraxis::ports::StoreError;
use neuraxis::{Channel, Events, Mode, RunHandle, RunStatus, SessionId, UserRequest};
use neuraxis_app::{App, Config};

use super::super::ask::{self, Reception, View};
use super::slash::{self, Meant};
use crate::error::CommandError;
use crate::harmless::one_line;
use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::progress::Progress;

/// A conversation.
#[derive(Debug)]
pub(super) struct Conversation {
    pub(super) app: App,
    pub(super) reception: Reception,
    pub(super) config: Config,
    pub(super) session: SessionId,
    pub(super) mode: Mode,
    pub(super) channel: Channel,
    /// The limits that requests have beside those of mode and channel.
    pub(super) plan: Option<PlanName>,
    pub(super) output: Output,
}

/// Whether the conversation goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flow {
    GoOn,
    Leave,
}

impl Conversation {
    /// Begins a conversation in the default mode and channel.
    pub(super) fn new(app: App, reception: Reception, config: Config, session: SessionId) -> Self {
        Self {
            app,
            reception,
            config,
            session,
            mode: Mode::MODERATE,
            channel: Channel::CHAT,
            plan: None,
            output: Output::new(),
        }
    }

    /// Says where it stands before it begins.
    pub(super) async fn greet(&self, is_interactive: bool) {
        let progress = Progress::new();
        for notice in &self.app.notices {
            progress.notice(notice);
        }
        let session = &self.session;
        if is_interactive {
            progress.notice(&format!("session {session}; /help lists the commands"));
        } else {
            progress.notice(&format!("session {session}"));
        }
        if let Some((run, status)) = self.unfinished().await {
            progress.notice(&busy(session, run, status));
        }
    }

    /// Returns what stands before what the user types.
    pub(super) fn prompt(&self) -> String {
        one_line(&format!("{}/{}> ", self.channel, self.mode)) + " "
    }

    /// Takes a line of the user's: a command, or a message.
    pub(super) async fn hear(&mut self, text: &str) -> Result<Flow, CommandError> {
        match slash::read(text) {
            Meant::Nothing => Ok(Flow::GoOn),
            Meant::Message(message) => {
                self.say(message).await?;
                Ok(Flow::GoOn)
            }
            Meant::Command(command, argument) => self.obey(command, argument).await,
            Meant::Unknown { name, nearest } => {
                let error = CommandError::usage(anyhow!("there is no command /{name}"));
                Err(match nearest {
                    Some(nearest) => error.hint(format!("did you mean /{nearest}?")),
                    None => {
                        error.hint("/help lists the commands; // begins a message with a slash")
                    }
                })
            }
        }
    }

    /// Says something to the model and shows what comes of it.
    async fn say(&mut self, message: String) -> Result<(), CommandError> {
        let mut request = UserRequest::new(self.session.clone(), message)
            .mode(self.mode.clone())
            .channel(self.channel.clone());
        request.plan.clone_from(&self.plan);
        match self.app.orchestrator.stream(request).await {
            Ok((run, events)) => self.show(run, events, Seq(0)).await,
            Err(RequestError::Busy { session, run }) => {
                let status = self.app.store.run(run).await.map(|run| run.status);
                let status = status.unwrap_or(RunStatus::Running);
                let error = anyhow!(busy(&session, run, status));
                Err(CommandError::failed(error).hint("/new begins another session"))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Goes on with the run of the session that has not ended.
    pub(super) async fn resume(&mut self) -> Result<(), CommandError> {
        let Some((run, status)) = self.unfinished().await else {
            let error = anyhow!("session {} has no run that waits", self.session);
            return Err(CommandError::usage(error).hint("say what you want, and it begins one"));
        };
        if status == RunStatus::Waiting && !self.reception.desk.is_attended() {
            let error = anyhow!("run {run} waits for an approval, which nobody can give here");
            return Err(CommandError::failed(error).hint(format!(
                "`neuraxis approvals show {run}` shows what would run"
            )));
        }
        let records = self.app.store.records(run, Seq(0)).await;
        let known = records.map_err(CommandError::failed)?;
        let known = known.last().map_or(Seq(0), |record| record.seq);
        let resumed = self.app.orchestrator.resume(run, Vec::new()).await;
        let run = resumed.map_err(|error| cannot_resume(run, error))?;
        let events = run.events();
        self.show(run, events, known).await
    }

    async fn show(
        &mut self,
        run: RunHandle,
        events: Events,
        known: Seq,
    ) -> Result<(), CommandError> {
        let listening = Interrupt::listen(
            {
                let run = run.clone();
                move || ask::cancel(&run, "interrupted by the user")
            },
            || Progress::new().notice("the run is ending; Ctrl-C once more leaves at once"),
        );
        let view = View::rendered().after(known);
        let (app, reception) = (&self.app, &mut self.reception);
        let shown = ask::show(app, view, (&run, events), reception, &listening.interrupt).await;
        match shown {
            Err(error) if error.is_interruption() => {
                Progress::new().notice("interrupted");
                Ok(())
            }
            shown => shown,
        }
    }

    /// Returns the run of the session that has not ended, if there is one.
    async fn unfinished(&self) -> Option<(RunId, RunStatus)> {
        // A session that is not there yet has no runs.
        let runs = self.app.store.runs(&self.session).await.ok()?;
        let is_open = |status| matches!(status, RunStatus::Running | RunStatus::Waiting);
        let mut open = runs.iter().rev().filter(|run| is_open(run.status));
        open.next().map(|run| (run.run_id, run.status))
    }

    /// Changes how much freedom requests have.
    pub(super) fn set_mode(&mut self, mode: Mode) -> Result<(), CommandError> {
        let known = self.config.policy().modes().map(Mode::as_str);
        nearest_of("mode", mode.as_str(), known)?;
        self.mode = mode;
        Ok(())
    }

    /// Changes where requests come from.
    pub(super) fn set_channel(&mut self, channel: Channel) -> Result<(), CommandError> {
        let known = self.config.policy().channels().map(Channel::as_str);
        nearest_of("channel", channel.as_str(), known)?;
        self.channel = channel;
        Ok(())
    }
}

/// Says what keeps a session from taking a message.
fn busy(session: &SessionId, run: RunId, status: RunStatus) -> String {
    match status {
        RunStatus::Waiting => format!(
            "session {session} has run {run}, which waits for an approval: /resume goes on with it"
        ),
        _ => format!(
            "session {session} is busy with run {run}, here or in another process: if that one has died, /resume goes \
             on with it"
        ),
    }
}

fn cannot_resume(run: RunId, error: ResumeError) -> CommandError {
    match error {
        ResumeError::AtWork(_) | ResumeError::Store(StoreError::SessionBusy { .. }) => {
            let error = anyhow!("run {run} is at work in another process");
            CommandError::failed(error).hint("try again when it is done there")
        }
        error => CommandError::failed(error).hint("/new begins another session"),
    }
}

/// Checks a name against those that there are.
fn nearest_of<'a>(
    what: &str,
    name: &str,
    known: impl Iterator<Item = &'a str>,
) -> Result<(), CommandError> {
    let known: Vec<&str> = known.collect();
    if known.contains(&name) {
        return Ok(());
    }
    let error = CommandError::usage(anyhow!("there is no {what} {name:?}"));
    Err(match slash::nearest(name, known.iter().copied()) {
        Some(nearest) => error.hint(format!("did you mean {nearest}?")),
        None => error.hint(format!("the {what}s are {}", known.join(", "))),
    })
}
