//! `/undo` and `/retry`: the session keeps what was said, and the conversation continues in a new session that branches
//! off from it.

use std::collections::HashMap;

use anyhow::anyhow;
use neuraxis::core::log::RunView;
use neuraxis::core::{
    Message, Part, RecordBody, RunId, Seq, ToolClass, ToolFailure, ToolKind, Turn,
};
use neuraxis::engine::{Earlier, ForkOptions};
use neuraxis::ports::RunSummary;
use neuraxis::{Channel, Mode, RunStatus, SessionId};

use super::super::ask::served_by_rules;
use super::super::last_run::{RunSettings, model_option};
use super::super::lookup::new_session;
use super::super::runs::role_of;
use super::super::sessions::question_of;
use super::conversation::Conversation;
use crate::call::headline;
use crate::error::CommandError;
use crate::harmless::one_line_of;
use crate::invocation::quoted;
use crate::progress;

/// How often a message may have been asked again for the history before it to be found.
const MAX_BRANCHES: usize = 64;

/// The error for a message without an answer.
pub(super) const UNANSWERED: &str = "the last message is not answered yet";

/// What to do about it.
pub(super) const RESUME_HINT: &str = "/resume continues it";

/// Shown if a conversation continues in a new session.
const ASKED_AGAIN: &str = "you will be asked again about what you allowed for this session";

/// The maximum number of calls that are named.
const MAX_NAMED: usize = 6;

/// The maximum number of characters shown of a message.
const MAX_SHOWN: usize = 60;

impl Conversation {
    /// Takes back the last message and its answer: the next message continues from what was before them.
    pub(super) async fn undo(&mut self) -> Result<(), CommandError> {
        let last = self.last_run().await?;
        let sessions = self.app.orchestrator.sessions();
        let about = question_of(&sessions, &last).await?.unwrap_or_default();
        let about = one_line_of(&about, MAX_SHOWN);
        let files = match self.had_attachments(last.run_id).await? {
            true => "its attachments go with the next message only if you attach them again\n",
            false => "",
        };
        let stays = self.describe_effects(last.run_id).await?;
        let stays = stays.map_or_else(String::new, |stays| format!("{stays}\n"));
        let allowed = match self.has_grants().await {
            true => format!("{ASKED_AGAIN}\n"),
            false => String::new(),
        };
        self.continues_from = self.before(last.run_id).await?;
        if self.continues_from.is_none() {
            self.session = new_session()?;
        }
        let line = format!(
            "undone: {about}\nthe next message continues from before it, in a new session; session {} keeps the whole conversation\n{allowed}{files}{stays}",
            last.session
        );
        Ok(self.output.lines(&line)?)
    }

    /// Returns the command that continues the conversation after the chat has ended; `None` if there is nothing to
    /// continue.
    pub(super) async fn continue_command(&self) -> Option<String> {
        if let Some(command) = self.fork_command().await {
            return Some(command);
        }
        let sessions = self.app.orchestrator.sessions();
        sessions.get(&self.session).await.ok()?;
        Some(self.reopen_command().await)
    }

    /// Returns the command that continues without the messages that were taken back. It applies until the next message
    /// is sent, which creates the session that continues without them.
    pub(super) async fn fork_command(&self) -> Option<String> {
        let (run, turn) = self.continues_from?;
        let at = match turn {
            Turn(u32::MAX) => String::new(),
            Turn(turn) => format!(" --at-turn {turn}"),
        };
        let options = self.differing_options(run).await;
        Some(format!("runs fork {run}{at}{options} --message TEXT"))
    }

    /// Returns what can be done about an unfinished run of the session. It can only be resumed in its own folder.
    pub(super) async fn how_to_continue(&self, run: &RunSummary) -> String {
        let sessions = self.app.orchestrator.sessions();
        let mut settings = RunSettings::of(&sessions, run).await;
        match settings.take_settings_of_other_folder(self.loaded.config.project_root()) {
            Some(_) => format!(
                "`neuraxis runs resume {} --cancel` ends it from any folder; in its own folder, {RESUME_HINT}",
                run.run_id
            ),
            None => RESUME_HINT.to_owned(),
        }
    }

    /// Returns the options, each with a leading space, with which `runs fork` continues in the state of this
    /// conversation; the default is the mode and channel of the run. The model is named only if it would serve without
    /// `-m` too, since `runs fork` accepts no other.
    async fn differing_options(&self, run: RunId) -> String {
        let sessions = self.app.orchestrator.sessions();
        let run_settings = match sessions.run(run).await {
            Ok(run) => RunSettings::of(&sessions, &run).await,
            Err(_) => RunSettings::default(),
        };
        let mode = Some(&self.mode).filter(|mode| run_settings.mode.as_ref() != Some(*mode));
        let channel = Some(&self.channel).filter(|it| run_settings.channel.as_ref() != Some(*it));
        let model = self.model.as_deref().filter(|model| {
            let configured = self.setup.load();
            let role = configured.and_then(|it| role_of(&it.config, model));
            role.is_ok_and(|role| self.role.as_ref() == Some(&role))
        });
        let options = [
            ("--channel", channel.map(Channel::as_str)),
            ("--mode", mode.map(Mode::as_str)),
            ("--model", model),
        ];
        let options = options.into_iter();
        options
            .filter_map(|(option, name)| Some(format!(" {option} {}", quoted(name?))))
            .collect()
    }

    /// Returns the command that starts a conversation in the state of this one, in the same session.
    pub(super) async fn reopen_command(&self) -> String {
        let sessions = self.app.orchestrator.sessions();
        let mut last = RunSettings::last_of(&sessions, &self.session).await;
        last.take_settings_of_other_folder(self.loaded.config.project_root());
        let wanted = RunSettings {
            mode: Some(self.mode.clone()),
            channel: Some(self.channel.clone()),
            agent: self.agent.clone(),
            plan: self.plan.clone(),
            role: None,
            folder: None,
        };
        let options = last.options(&wanted, self.loaded.config.policy());
        let model = model_option(self.model.as_deref());
        format!("chat --session {}{options}{model}", self.session)
    }

    /// Has the model summarize the conversation before the next message is sent. The records keep the full text.
    pub(super) async fn compact(&mut self) -> Result<(), CommandError> {
        if self.continues_from.is_some() {
            let error = anyhow!("after /undo, the next message starts another session");
            return Err(CommandError::usage(error).hint("send it first, then use /compact"));
        }
        self.last_run().await?;
        let decided = self.app.orchestrator.decide(&self.request("Hello?"))?;
        let serving = self.role.as_ref().unwrap_or(&decided.role);
        if served_by_rules(&self.app).contains(serving) {
            let error = anyhow!("this needs a language model, and none is configured");
            return Err(CommandError::usage(error).hint("`neuraxis setup` configures one"));
        }
        self.earlier = Earlier::SummedUp;
        let line = "the conversation is summarized when you send the next message; the session's runs keep all of it";
        Ok(self.output.sentence(line)?)
    }

    /// Asks the last message again, in a new session that branches off before its answer.
    pub(super) async fn retry(&mut self) -> Result<(), CommandError> {
        let last = self.last_run().await?;
        if let Some(stays) = self.describe_effects(last.run_id).await? {
            progress::notice(&stays);
        }
        if self.has_grants().await {
            progress::notice(ASKED_AGAIN);
        }
        self.fork(last.run_id, Turn(0), None).await
    }

    /// Returns whether anything was allowed for the session.
    async fn has_grants(&self) -> bool {
        let approvals = self.app.orchestrator.approvals();
        let remembered = approvals.grants(&self.session).await;
        remembered.is_ok_and(|it| !it.grants().is_empty())
    }

    /// Lists the calls of a run that changed something, which cannot be undone; `None` if there are none. Includes
    /// calls whose outcome is unknown.
    async fn describe_effects(&self, run: RunId) -> Result<Option<String>, CommandError> {
        let records = self.app.orchestrator.sessions().records(run).await?;
        let (mut begun, mut named) = (HashMap::new(), Vec::<String>::new());
        for record in &records {
            match &record.body {
                RecordBody::ToolCall(call)
                    if call.class != ToolClass::ReadOnly && call.kind != ToolKind::Agent =>
                {
                    let line = headline(&call.name, call.arguments.as_str());
                    begun.insert(&call.tool_call_id, line);
                }
                RecordBody::ToolResult(result) if result.failure.is_none_or(is_unclear) => {
                    let call = begun.remove(&result.tool_call_id);
                    named.extend(call.filter(|call| !named.contains(call)));
                }
                _ => {}
            }
        }
        let more = named.len().saturating_sub(MAX_NAMED);
        named.truncate(MAX_NAMED);
        Ok(match (named.is_empty(), more) {
            (true, _) => None,
            (false, 0) => Some(format!("its calls are not undone: {}", named.join(", "))),
            (false, more) => {
                let named = named.join(", ");
                Some(format!("its calls are not undone: {named} and {more} more"))
            }
        })
    }

    /// Continues from the end of a turn with a message and its files.
    pub(super) async fn send_in_fork(
        &mut self,
        (run, turn): (RunId, Turn),
        message: String,
        files: Vec<Part>,
    ) -> Result<(), CommandError> {
        self.fork(run, turn, Some((message, files))).await
    }

    async fn fork(
        &mut self,
        run: RunId,
        turn: Turn,
        sent: Option<(String, Vec<Part>)>,
    ) -> Result<(), CommandError> {
        let session = new_session()?;
        let mut options = self.fork_options(session.clone());
        let is_new_message = sent.is_some();
        if let Some((message, files)) = sent {
            (options.message, options.attachments) = (Some(message), files);
        }
        let runs = self.app.orchestrator.runs();
        let run = runs.fork(run, turn, options).await?;
        if is_new_message {
            self.attachments.clear();
        }
        self.continues_from = None;
        self.earlier = Earlier::Whole;
        self.session = session;
        progress::done(&format!("session {}", self.session));
        self.show(run, Seq(0)).await
    }

    fn fork_options(&self, session: SessionId) -> ForkOptions {
        let mut options = ForkOptions::new(session)
            .mode(self.mode.clone())
            .channel(self.channel.clone());
        options.agent.clone_from(&self.agent);
        options.plan.clone_from(&self.plan);
        options.role.clone_from(&self.role);
        // Uses the current instructions, even if there are none.
        options.instructions = Some(self.instructions.clone().unwrap_or_default());
        options
    }

    /// Returns whether files were attached to the message that a run answers.
    async fn had_attachments(&self, run: RunId) -> Result<bool, CommandError> {
        let sessions = self.app.orchestrator.sessions();
        let before = sessions.history_before(run).await?;
        let records = sessions.records(run).await?;
        let view = RunView::of(&records);
        let messages_of_run = view.spec().into_iter().flat_map(|spec| &spec.messages);
        // If the message was asked again, it is in the history before the run.
        let mut messages = messages_of_run.rev().chain(before.messages().iter().rev());
        let parts = messages.find_map(|message| match &**message {
            Message::User { parts, .. } => Some(parts),
            _ => None,
        });
        Ok(parts.is_some_and(|parts| parts.len() > 1))
    }

    /// Returns the last run that was not taken back.
    async fn last_run(&self) -> Result<RunSummary, CommandError> {
        let sessions = self.app.orchestrator.sessions();
        let last = match self.continues_from {
            Some((run, _)) => Some(sessions.run(run).await?),
            None => sessions
                .runs(&self.session)
                .await?
                .unwrap_or_default()
                .pop(),
        };
        let Some(last) = last else {
            let error = anyhow!("this session has no messages yet");
            return Err(CommandError::usage(error).hint("/sessions lists the sessions"));
        };
        if matches!(last.status, RunStatus::Running | RunStatus::Waiting) {
            return Err(CommandError::usage(anyhow!(UNANSWERED)).hint(RESUME_HINT));
        }
        Ok(last)
    }

    /// Returns the turn before a run, even if the run is the first one of a session that branched off from another.
    /// `None` if the conversation began with it.
    async fn before(&self, mut run: RunId) -> Result<Option<(RunId, Turn)>, CommandError> {
        let sessions = self.app.orchestrator.sessions();
        for _ in 0..MAX_BRANCHES {
            let session = sessions.run(run).await?.session;
            let runs = sessions.runs(&session).await?.unwrap_or_default();
            let mut earlier = runs.iter().take_while(|it| it.run_id != run);
            if let Some(before) = earlier.by_ref().last() {
                return Ok(Some((before.run_id, Turn(u32::MAX))));
            }
            let records = sessions.records(run).await?;
            let view = RunView::of(&records);
            match view.spec().and_then(|spec| spec.forked_from.as_ref()) {
                None => return Ok(None),
                // It asked the same message again.
                Some(point) if point.turn == Turn(0) => run = point.run_id,
                Some(point) => return Ok(Some((point.run_id, point.turn))),
            }
        }
        Ok(None)
    }
}

/// Returns whether a call that failed in this way may still have taken effect.
const fn is_unclear(failure: ToolFailure) -> bool {
    matches!(
        failure,
        ToolFailure::Timeout
            | ToolFailure::Panic
            | ToolFailure::Cancelled
            | ToolFailure::OutcomeUnknown
    )
}
