//! `/undo` and `/retry`: what was said stays as it is, and the conversation goes on in a new session that branches off
//! from it.

use anyhow::anyhow;
use neuraxis::core::{RunId, Seq, Turn};
use neuraxis::engine::ForkOptions;
use neuraxis::ports::RunSummary;
use neuraxis::{RunStatus, SessionId};

use super::super::lookup::new_session;
use super::conversation::Conversation;
use crate::error::CommandError;
use crate::harmless::one_line;
use crate::progress::Progress;

/// How many characters of a message are shown where it is named.
const MAX_SHOWN: usize = 60;

impl Conversation {
    /// Takes the last message and its answer back: the next message goes on from what was before them.
    pub(super) async fn undo(&mut self) -> Result<(), CommandError> {
        let (before, last) = self.last_runs().await?;
        let about = shown(&last);
        match before {
            Some(before) => self.goes_on_from = Some(before.run_id),
            None => {
                self.goes_on_from = None;
                self.session = new_session()?;
            }
        }
        let line = format!(
            "taken back: {about}\nthe next message goes on from before it, in a new session; session {} keeps what was said\n",
            last.session
        );
        Ok(self.output.text(&line)?)
    }

    /// Asks the last message again, in a new session that branches off before its answer.
    pub(super) async fn retry(&mut self) -> Result<(), CommandError> {
        let (_, last) = self.last_runs().await?;
        let (run, turn) = (last.run_id, Turn(0));
        self.fork(run, turn, None).await
    }

    /// Goes on from the end of a run with a message.
    pub(super) async fn say_after(
        &mut self,
        run: RunId,
        message: String,
    ) -> Result<(), CommandError> {
        if !self.attachments.is_empty() {
            let error = anyhow!("files cannot go with the first message after /undo");
            return Err(CommandError::usage(error).hint("send a message without them first"));
        }
        self.fork(run, Turn(u32::MAX), Some(message)).await
    }

    async fn fork(
        &mut self,
        run: RunId,
        turn: Turn,
        message: Option<String>,
    ) -> Result<(), CommandError> {
        let session = new_session()?;
        let options = self.fork_options(session.clone(), message);
        let runs = self.app.orchestrator.runs();
        let handle = runs.fork(run, turn, options).await?;
        let events = handle.events();
        self.goes_on_from = None;
        self.session = session;
        Progress::new().done(&format!("session {}", self.session));
        self.show(handle, events, Seq(0)).await
    }

    fn fork_options(&self, session: SessionId, message: Option<String>) -> ForkOptions {
        let mut options = ForkOptions::new(session)
            .mode(self.mode.clone())
            .channel(self.channel.clone());
        options.agent.clone_from(&self.agent);
        options.plan.clone_from(&self.plan);
        options.role.clone_from(&self.role);
        options.instructions.clone_from(&self.instructions);
        options.message = message;
        options
    }

    /// Returns the run before the last one, and the last one, of what the conversation goes on from.
    async fn last_runs(&self) -> Result<(Option<RunSummary>, RunSummary), CommandError> {
        let sessions = self.app.orchestrator.sessions();
        let runs = sessions.runs(&self.session).await?.unwrap_or_default();
        let upto = self.goes_on_from;
        let upto = upto.and_then(|upto| runs.iter().position(|run| run.run_id == upto));
        let mut runs = match upto {
            Some(place) => runs.into_iter().take(place + 1).collect(),
            None => runs,
        };
        let Some(last) = runs.pop() else {
            let error = anyhow!("nothing was said in this session yet");
            return Err(CommandError::usage(error).hint("/sessions lists those that there are"));
        };
        if matches!(last.status, RunStatus::Running | RunStatus::Waiting) {
            let error = anyhow!("the last message is not answered yet");
            return Err(CommandError::usage(error).hint("/resume goes on with it"));
        }
        Ok((runs.pop(), last))
    }
}

fn shown(run: &RunSummary) -> String {
    let text = one_line(run.text.as_deref().unwrap_or_default());
    match text.char_indices().nth(MAX_SHOWN) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}
