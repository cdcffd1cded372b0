//! `neuraxis chat`: a conversation.

mod branch;
mod commands;
mod conversation;
mod editor;
mod input;
mod named_files;
mod record;
mod slash;
mod title;

use std::fs::File;

use anyhow::anyhow;
use clap::Args;
use clap_complete::ArgValueCandidates;
use neuraxis::core::{AgentName, PlanName};
use neuraxis::{Channel, Mode};
use neuraxis_app::CassetteUse;

use super::ask::Attended;
use super::choice::{ModelArgument, SessionChoice};
use super::last_run::RunSettings;
use super::lookup;
use super::project::{self, Asking};
use super::trust;
use crate::approve::IfUnattended;
use crate::completion;
use crate::detail::DetailArguments;
use crate::error::CommandError;
use crate::invocation::neuraxis;
use crate::piped::reopen_terminal_as_stdin;
use crate::progress::Progress;
use crate::setup::{Setup, close};
use crate::terminal::NextReader;
use conversation::{Conversation, Flow};
use input::{Input, InputEvent};
pub(super) use slash::{is_chat_command, nearest};

const EXAMPLES: &str = "\
Examples:
  neuraxis chat
  neuraxis chat --session trip --channel code_task --mode exploratory
  neuraxis chat -c
  printf 'What time is it?\\n/tools\\n' | neuraxis chat

In the chat, /help lists the commands. A line that ends with \\ continues on the next one, and so does code between lines of ```. Ctrl-C stops the current answer; pressed twice at the prompt, it leaves the chat, and so does Ctrl-D. Calls that need approval are shown, and you decide.";

/// Talk with an agent, message by message
///
/// If standard input is not a terminal, each of its lines is a message, and the answers go to standard output. The exit
/// code is then 1 if a message was not answered or a command failed.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Chat {
    #[command(flatten)]
    session: SessionChoice,

    #[command(flatten)]
    model: ModelArgument,

    /// What kind of request it is, and so which tools it gets: chat (time, sums, the web), code_task (files and
    /// commands), system_health (this machine), deep_research (only in mode exploratory), or a channel of your own.
    /// Default: that of the session's last run, or chat
    #[arg(long, add = ArgValueCandidates::new(completion::channels))]
    channel: Option<String>,

    /// How much may run without asking you: conservative, moderate, exploratory, or a mode of your own. Default: that of
    /// the session's last run, unless it is freer than moderate; otherwise moderate
    #[arg(long, add = ArgValueCandidates::new(completion::modes))]
    mode: Option<String>,

    /// The agent that answers instead of the channel's default: one of [agents.NAME]. Default: the one that the
    /// session's last run asked for, if any
    #[arg(long, value_name = "NAME", add = ArgValueCandidates::new(completion::agents))]
    agent: Option<String>,

    /// Limits in addition to those of mode and channel: one of [plans.NAME]. Default: that of the session's last run,
    /// if any
    #[arg(long, value_name = "NAME", add = ArgValueCandidates::new(completion::plans))]
    plan: Option<String>,

    #[command(flatten)]
    detail: DetailArguments,
}

impl Chat {
    pub(crate) async fn run(self, setup: &Setup) -> Result<(), CommandError> {
        // A user who pipes messages in may still answer questions at the terminal.
        let lines = reopen_terminal_as_stdin();
        let loaded = trust::load_and_ask(setup)?;
        self.session.require_visible(&loaded)?;
        let (loaded, role) = self.model.apply(setup, loaded).await?;
        let instructions = project::instructions(&loaded, Asking::User);
        let attended = Attended::new(&loaded.config, IfUnattended::Deny)?.in_conversation();
        let session = lookup::new_session()?;
        let app = attended.app(&loaded, CassetteUse::Off).await?;
        let mut conversation = Conversation::new((app, attended), (setup.clone(), loaded), session);
        conversation.role = role;
        conversation.model.clone_from(&self.model.model);
        conversation.instructions = instructions;
        let outcome = self.converse(&mut conversation, lines).await;
        // The engine may have been replaced meanwhile.
        close(&conversation.app).await;
        outcome
    }

    /// Starts the conversation with these options, and runs it to its end.
    async fn converse(
        self,
        conversation: &mut Conversation,
        lines: Option<File>,
    ) -> Result<(), CommandError> {
        let is_given = self.session.is_given();
        let sessions = conversation.app.orchestrator.sessions();
        let found = self.session.find(&sessions).await;
        conversation.session =
            found.inspect_err(|_| conversation.loaded.warn_store_incomplete())?;
        conversation.agent = self.agent.map(AgentName::new);
        conversation.plan = self.plan.map(PlanName::new);
        conversation.detail = self.detail.detail();
        let last = match is_given {
            true => RunSettings::last_of(&sessions, &conversation.session).await,
            false => RunSettings::default(),
        };
        let (mode, channel) = (self.mode.map(Mode::new), self.channel.map(Channel::new));
        let configured = conversation.set_initial_settings(mode, channel, last);
        configured.inspect_err(|_| conversation.loaded.warn_settings_ignored())?;
        let mut input = Input::open(conversation, lines)?;
        if input.is_interactive() {
            conversation.next_reader = NextReader::Editor;
        }
        conversation.greet(input.is_interactive()).await;
        if is_given && input.is_interactive() {
            conversation.show_last_exchange().await;
        }
        let handled = handle_input(conversation, &mut input).await;
        if input.is_interactive()
            && conversation.attended.is_persistent()
            && let Some(command) = conversation.continue_command().await
        {
            let hint = format!("to continue: {} {command}", neuraxis());
            Progress::with_detail(conversation.detail).done(&hint);
        }
        match handled?.in_words() {
            Some(what) if !input.is_interactive() => Err(CommandError::failed(anyhow!(what))),
            _ => Ok(()),
        }
    }
}

/// What did not succeed.
#[derive(Debug, Default, PartialEq, Eq)]
struct Failures {
    /// Messages without an answer.
    messages: u32,
    /// Commands that were refused or failed.
    commands: u32,
}

impl Failures {
    fn in_words(&self) -> Option<String> {
        let messages = match self.messages {
            0 => None,
            1 => Some("a message was not answered".to_owned()),
            count => Some(format!("{count} messages were not answered")),
        };
        let commands = match self.commands {
            0 => None,
            1 => Some("a command failed".to_owned()),
            count => Some(format!("{count} commands failed")),
        };
        let failures: Vec<String> = messages.into_iter().chain(commands).collect();
        (!failures.is_empty()).then(|| failures.join(", and "))
    }
}

/// Handles the input line by line, and returns what did not succeed.
async fn handle_input(
    conversation: &mut Conversation,
    input: &mut Input,
) -> Result<Failures, CommandError> {
    let mut failures = Failures::default();
    loop {
        let (handled, is_command) = match input.next(&conversation.prompt()).await? {
            InputEvent::Text(text) => {
                input.remember(&text, conversation);
                (
                    conversation.handle_line(&text).await,
                    slash::is_command(&text),
                )
            }
            InputEvent::Unreadable(why) => (Err(CommandError::usage(anyhow!(why))), false),
            InputEvent::Interrupted(signal) => return Err(CommandError::interrupted(signal)),
            InputEvent::End => return Ok(failures),
        };
        match handled {
            Ok(Flow::Continue) => {}
            Ok(Flow::Exit) => return Ok(failures),
            Err(error) if error.is_output_closed() || error.interruption().is_some() => {
                return Err(error);
            }
            Err(error) => {
                match is_command {
                    true => failures.commands += 1,
                    false => failures.messages += 1,
                }
                // A caller who cannot read the message still gets the exit code.
                error.print();
            }
        }
    }
}
